"""Right and wrong answers to lesson 07. What the lesson's own solutions do is not repeated here."""

import math

import numpy as np

from tests.answers import right, wrong


def blocks(size, block):
    return (slice(start, min(start + block, size)) for start in range(0, size, block))


# --- 7.1: Algorithm 1, forward --------------------------------------------------------------------


@right("7.1")
def as_printed_line_by_line(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    d = Q.shape[1]
    for j in range(math.ceil(len(K) / block_k)):
        Kj = sram.load(K[j * block_k : (j + 1) * block_k])
        Vj = sram.load(V[j * block_k : (j + 1) * block_k])
        for i in range(math.ceil(len(Q) / block_q)):
            rows = slice(i * block_q, (i + 1) * block_q)
            Qi = sram.load(Q[rows])
            Oi = sram.load(O[rows])
            li = sram.load(row_sums[rows])
            mi = sram.load(row_maxima[rows])
            S = Qi @ Kj.T / np.sqrt(d)
            mt = np.max(S, axis=1)
            P = np.exp(S - mt[:, None])
            lt = np.sum(P, axis=1)
            m_new = np.maximum(mi, mt)
            l_new = np.exp(mi - m_new) * li + np.exp(mt - m_new) * lt
            old = (li * np.exp(mi - m_new))[:, None] * Oi
            new = np.exp(mt - m_new)[:, None] * (P @ Vj)
            sram.store(O[rows], (old + new) / l_new[:, None])
            sram.store(row_sums[rows], l_new)
            sram.store(row_maxima[rows], m_new)


@right("7.1")
def normalized_in_the_last_pass(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        for rows in blocks(len(Q), block_q):
            q, o = sram.load(Q[rows]), sram.load(O[rows])
            total, top = sram.load(row_sums[rows]), sram.load(row_maxima[rows])
            s = q @ k.T
            s *= Q.shape[1] ** -0.5
            new_top = np.maximum(top, s.max(axis=1))
            np.subtract(s, new_top[:, None], out=s)
            np.exp(s, out=s)
            alpha = np.exp(top - new_top)
            total = alpha * total + s.sum(axis=1)
            o *= alpha[:, None]
            sram.accumulate(o, s, v)
            if keys.stop == len(K):
                o /= total[:, None]
            sram.store(O[rows], o)
            sram.store(row_sums[rows], total)
            sram.store(row_maxima[rows], new_top)


@right("7.1")
def nothing_loaded_for_the_first_keys(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    scale = 1 / math.sqrt(Q.shape[1])
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        for rows in blocks(len(Q), block_q):
            q = sram.load(Q[rows])
            s = scale * (q @ k.T)
            if keys.start == 0:
                top = s.max(axis=1)
                p = np.exp(s - top[:, None])
                total = p.sum(axis=1)
                o = (p @ v) / total[:, None]
            else:
                old_o = sram.load(O[rows])
                old_total = sram.load(row_sums[rows])
                old_top = sram.load(row_maxima[rows])
                top = np.maximum(old_top, s.max(axis=1))
                p = np.exp(s - top[:, None])
                kept = old_total * np.exp(old_top - top)
                total = kept + p.sum(axis=1)
                o = (kept[:, None] * old_o + p @ v) / total[:, None]
            sram.store(O[rows], o)
            sram.store(row_sums[rows], total)
            sram.store(row_maxima[rows], top)


@right("7.1")
def keys_from_the_last_block_backwards(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    for keys in reversed(list(blocks(len(K), block_k))):
        k = sram.load(K[keys])
        k *= K.shape[1] ** -0.5  # the scale, once a block
        v = sram.load(V[keys])
        for rows in blocks(len(Q), block_q):
            step_of_algorithm_1(sram, Q[rows], k, v, O[rows], row_sums[rows], row_maxima[rows])


def step_of_algorithm_1(sram, Q, k, v, O, row_sums, row_maxima):
    s = np.einsum("id,jd->ij", sram.load(Q), k)
    old_sum, old_max = sram.load(row_sums), sram.load(row_maxima)
    new_max = np.maximum(old_max, np.amax(s, axis=1))
    p = np.exp(s - new_max.reshape(-1, 1))
    del s
    kept = old_sum * np.exp(old_max - new_max)
    new_sum = kept + p.sum(1)
    o = sram.load(O)
    sram.store(O, (o * kept[:, None] + p @ v) / new_sum[:, None])
    sram.store(row_sums, new_sum)
    sram.store(row_maxima, new_max)


def algorithm_1(step, scale=True):
    """An answer from one step: (s, v, o, total, top) -> (o, total, top)."""

    def answer(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            for rows in blocks(len(Q), block_q):
                q, o = sram.load(Q[rows]), sram.load(O[rows])
                total, top = sram.load(row_sums[rows]), sram.load(row_maxima[rows])
                s = q @ k.T
                if scale:
                    s *= Q.shape[1] ** -0.5
                o, total, top = step(s, v, o, total, top)
                sram.store(O[rows], o)
                sram.store(row_sums[rows], total)
                sram.store(row_maxima[rows], top)

    return answer


def honest_step(s, v, o, total, top):
    new_top = np.maximum(top, s.max(axis=1))
    p = np.exp(s - new_top[:, None])
    kept = total * np.exp(top - new_top)
    new_total = kept + p.sum(axis=1)
    return (kept[:, None] * o + p @ v) / new_total[:, None], new_total, new_top


@wrong("7.1", cause="scale forgotten")
def no_scale(*args):
    algorithm_1(honest_step, scale=False)(*args)


@wrong("7.1", cause="not finite")
def no_maximum(*args):
    def step(s, v, o, total, top):
        p = np.exp(s)
        new_total = total + p.sum(axis=1)
        return (total[:, None] * o + p @ v) / new_total[:, None], new_total, s.max(axis=1)

    def with_the_maximum_told(s, v, o, total, top):
        o, total, block_top = step(s, v, o, total * np.exp(np.maximum(top, 0) * 0), top)
        new_top = np.maximum(top, block_top)
        return o, total, new_top

    plain = algorithm_1(with_the_maximum_told)
    sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k = args
    plain(*args)
    for rows in blocks(len(Q), block_q):  # the sums put right at the very end
        total, top = sram.load(row_sums[rows]), sram.load(row_maxima[rows])
        sram.store(row_sums[rows], total * np.exp(-top))


@wrong("7.1", cause="sum left out")
def output_not_multiplied_by_its_sum(*args):
    def step(s, v, o, total, top):
        new_top = np.maximum(top, s.max(axis=1))
        p = np.exp(s - new_top[:, None])
        alpha = np.exp(top - new_top)
        new_total = alpha * total + p.sum(axis=1)
        return (alpha[:, None] * o + p @ v) / new_total[:, None], new_total, new_top

    algorithm_1(step)(*args)


@wrong("7.1", cause="old sum lost")
def sum_as_in_the_transcript(*args):
    """E5-81: e^(m - m_new) without the old sum."""

    def step(s, v, o, total, top):
        new_top = np.maximum(top, s.max(axis=1))
        p = np.exp(s - new_top[:, None])
        alpha = np.exp(top - new_top)
        new_total = alpha + p.sum(axis=1)
        return ((alpha * total)[:, None] * o + p @ v) / new_total[:, None], new_total, new_top

    algorithm_1(step)(*args)


@wrong("7.1", cause="maximum of the block")
def block_not_corrected(*args):
    def step(s, v, o, total, top):
        block_top = s.max(axis=1)
        new_top = np.maximum(top, block_top)
        p = np.exp(s - block_top[:, None])
        kept = total * np.exp(top - new_top)
        new_total = kept + p.sum(axis=1)
        return (kept[:, None] * o + p @ v) / new_total[:, None], new_total, new_top

    algorithm_1(step)(*args)


@wrong("7.1", cause="wrong state")
def maximum_of_the_last_block_stored(*args):
    def step(s, v, o, total, top):
        block_top = s.max(axis=1)
        p = np.exp(s - block_top[:, None])
        kept = total * np.exp(top - block_top)
        new_total = kept + p.sum(axis=1)
        return (kept[:, None] * o + p @ v) / new_total[:, None], new_total, block_top

    algorithm_1(step)(*args)


@wrong("7.1", cause="never normalized")
def division_forgotten(*args):
    def step(s, v, o, total, top):
        new_top = np.maximum(top, s.max(axis=1))
        p = np.exp(s - new_top[:, None])
        alpha = np.exp(top - new_top)
        return alpha[:, None] * o + p @ v, alpha * total + p.sum(axis=1), new_top

    algorithm_1(step)(*args)


@wrong("7.1", cause="output not rescaled")
def only_the_sum_rescaled(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        for rows in blocks(len(Q), block_q):
            q, o = sram.load(Q[rows]), sram.load(O[rows])
            total, top = sram.load(row_sums[rows]), sram.load(row_maxima[rows])
            s = q @ k.T / Q.shape[1] ** 0.5
            new_top = np.maximum(top, s.max(axis=1))
            p = np.exp(s - new_top[:, None])
            total = np.exp(top - new_top) * total + p.sum(axis=1)
            o = o + p @ v
            if keys.stop == len(K):
                o = o / total[:, None]
            sram.store(O[rows], o)
            sram.store(row_sums[rows], total)
            sram.store(row_maxima[rows], new_top)


@wrong("7.1", cause="rows left out")
def last_queries_dropped(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        for i in range(len(Q) // block_q):
            rows = slice(i * block_q, (i + 1) * block_q)
            step_of_algorithm_1(
                sram, Q[rows], k * K.shape[1] ** -0.5, v, O[rows], row_sums[rows], row_maxima[rows]
            )


@wrong("7.1", cause="last block dropped")
def last_keys_dropped(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    for j in range(max(1, len(K) // block_k)):
        keys = slice(j * block_k, (j + 1) * block_k)
        k, v = sram.load(K[keys]), sram.load(V[keys])
        k *= K.shape[1] ** -0.5
        for rows in blocks(len(Q), block_q):
            step_of_algorithm_1(sram, Q[rows], k, v, O[rows], row_sums[rows], row_maxima[rows])


@wrong("7.1", cause="keys loaded again")
def keys_loaded_in_the_inner_loop(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    for keys in blocks(len(K), block_k):
        for rows in blocks(len(Q), block_q):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            k *= K.shape[1] ** -0.5
            step_of_algorithm_1(sram, Q[rows], k, v, O[rows], row_sums[rows], row_maxima[rows])


@wrong("7.1", cause="loaded whole")
def all_keys_loaded(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    k, v = sram.load(K), sram.load(V)
    k *= K.shape[1] ** -0.5
    for rows in blocks(len(Q), block_q):
        for keys in blocks(len(K), block_k):
            step_of_algorithm_1(
                sram, Q[rows], k[keys], v[keys], O[rows], row_sums[rows], row_maxima[rows]
            )


@wrong("7.1", cause="scores formed whole")
def scores_on_chip(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    s = sram.zeros((len(Q), len(K)))
    for keys in blocks(len(K), block_k):
        k = sram.load(K[keys])
        for rows in blocks(len(Q), block_q):
            s[rows, keys] = sram.load(Q[rows]) @ k.T / Q.shape[1] ** 0.5
    top = s.max(axis=1)
    p = np.exp(s - top[:, None])
    sram.store(O, p @ sram.load(V) / p.sum(axis=1)[:, None])
    sram.store(row_sums, p.sum(axis=1))
    sram.store(row_maxima, top)


@wrong("7.1", cause="left the chip uncounted")
def scores_in_a_plain_array(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    s = np.zeros((len(Q), len(K)))
    for keys in blocks(len(K), block_k):
        k = sram.load(K[keys])
        for rows in blocks(len(Q), block_q):
            s[rows, keys] = sram.load(Q[rows]) @ k.T / Q.shape[1] ** 0.5


@wrong("7.1", cause="memory beside the chip")
def some_scores_kept_in_a_list(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    kept = []

    def step(s, v, o, total, top):
        kept.extend(map(float, s[:, :5].ravel()))
        return honest_step(s, v, o, total, top)

    algorithm_1(step)(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k)


@wrong("7.1", cause="grows with n")
def every_maximum_stays_on_chip(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    totals, tops = sram.zeros(len(Q)), sram.full(len(Q), -np.inf)
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        for rows in blocks(len(Q), block_q):
            q, o = sram.load(Q[rows]), sram.load(O[rows])
            s = q @ k.T / Q.shape[1] ** 0.5
            o, totals[rows], tops[rows] = honest_step(s, v, o, totals[rows], tops[rows])
            sram.store(O[rows], o)
    sram.store(row_sums, totals)
    sram.store(row_maxima, tops)


@wrong("7.1", cause="nothing stored")
def result_returned(sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k):
    q, k, v = sram.load(Q), sram.load(K), sram.load(V)
    s = q @ k.T / Q.shape[1] ** 0.5
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return p @ v / p.sum(axis=1, keepdims=True)


@wrong("7.1", cause="old values lost")
def the_slide_taken_literally(*args):
    """E5-81: neither the old sum nor the old output is there."""

    def step(s, v, o, total, top):
        new_top = np.maximum(top, s.max(axis=1))
        p = np.exp(s - new_top[:, None])
        alpha = np.exp(top - new_top)
        new_total = alpha + p.sum(axis=1)
        return ((alpha * total)[:, None] + p @ v) / new_total[:, None], new_total, new_top

    algorithm_1(step)(*args)


@wrong("7.1", cause="divided by d")
def root_forgotten(sram, Q, *rest):
    def step(s, *state):
        return honest_step(s / Q.shape[1], *state)

    algorithm_1(step, scale=False)(sram, Q, *rest)


@wrong("7.1", cause="keys counted by queries")
def as_many_keys_as_queries(sram, Q, K, V, *rest):
    algorithm_1(honest_step)(sram, Q, K[: len(Q)], V[: len(Q)], *rest)


@wrong("7.1", cause="block's factor left out")
def printed_form_with_the_factor_on_the_sum_only(
    sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k
):
    for j in range(0, len(K), block_k):
        k, v = sram.load(K[j : j + block_k]), sram.load(V[j : j + block_k])
        for i in range(0, len(Q), block_q):
            rows = slice(i, i + block_q)
            s = sram.load(Q[rows]) @ k.T * Q.shape[1] ** -0.5
            old_sum, old_max = sram.load(row_sums[rows]), sram.load(row_maxima[rows])
            block_max = s.max(axis=1)
            p = np.exp(s - block_max[:, None])
            new_max = np.maximum(old_max, block_max)
            alpha, beta = np.exp(old_max - new_max), np.exp(block_max - new_max)
            new_sum = alpha * old_sum + beta * p.sum(axis=1)
            o = ((alpha * old_sum)[:, None] * sram.load(O[rows]) + p @ v) / new_sum[:, None]
            sram.store(O[rows], o)
            sram.store(row_sums[rows], new_sum)
            sram.store(row_maxima[rows], new_max)


@wrong("7.1", cause="block's factor not on the sum")
def printed_form_with_the_factor_on_the_output_only(
    sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k
):
    for j in range(0, len(K), block_k):
        k, v = sram.load(K[j : j + block_k]), sram.load(V[j : j + block_k])
        for i in range(0, len(Q), block_q):
            rows = slice(i, i + block_q)
            s = sram.load(Q[rows]) @ k.T * Q.shape[1] ** -0.5
            old_sum, old_max = sram.load(row_sums[rows]), sram.load(row_maxima[rows])
            block_max = s.max(axis=1)
            p = np.exp(s - block_max[:, None])
            new_max = np.maximum(old_max, block_max)
            alpha, beta = np.exp(old_max - new_max), np.exp(block_max - new_max)
            new_sum = alpha * old_sum + p.sum(axis=1)
            o = (alpha * old_sum)[:, None] * sram.load(O[rows]) + beta[:, None] * (p @ v)
            sram.store(O[rows], o / new_sum[:, None])
            sram.store(row_sums[rows], new_sum)
            sram.store(row_maxima[rows], new_max)


# --- 7.2: its traffic, as a formula ---------------------------------------------------------------


@right("7.2")
def counted_in_a_loop(n_queries, n_keys, d, block_q, block_k):
    read = written = 0
    for j in range(0, n_keys, block_k):
        read += 2 * (min(n_keys, j + block_k) - j) * d
        for i in range(0, n_queries, block_q):
            rows = min(n_queries, i + block_q) - i
            read += rows * (d + d + 1 + 1)
            written += rows * (d + 1 + 1)
    return read * 8, written * 8


@right("7.2")
def rounded_up_by_numpy(n_queries, n_keys, d, block_q, block_k):
    passes = np.ceil(n_keys / block_k)
    return [16 * n_keys * d + passes * n_queries * 16 * (d + 1), 8 * passes * n_queries * (d + 2)]


@wrong("7.2", cause="last block not counted")
def rounded_down(n_queries, n_keys, d, block_q, block_k):
    passes = n_keys // block_k
    read = 2 * n_keys * d + passes * n_queries * (2 * d + 2)
    return 8 * read, 8 * passes * n_queries * (d + 2)


@wrong("7.2", cause="fraction of a pass")
def not_rounded(n_queries, n_keys, d, block_q, block_k):
    passes = n_keys / block_k
    read = 2 * n_keys * d + passes * n_queries * (2 * d + 2)
    return 8 * read, 8 * passes * n_queries * (d + 2)


@wrong("7.2", cause="sums and maxima left out")
def matrices_only(n_queries, n_keys, d, block_q, block_k):
    passes = -(-n_keys // block_k)
    return 8 * (2 * n_keys * d + passes * n_queries * 2 * d), 8 * passes * n_queries * d


@wrong("7.2", cause="output not read back")
def output_only_written(n_queries, n_keys, d, block_q, block_k):
    passes = -(-n_keys // block_k)
    read = 2 * n_keys * d + passes * n_queries * (d + 2)
    return 8 * read, 8 * passes * n_queries * (d + 2)


@wrong("7.2", cause="output written once")
def stored_at_the_end(n_queries, n_keys, d, block_q, block_k):
    passes = -(-n_keys // block_k)
    read = 2 * n_keys * d + passes * n_queries * (2 * d + 2)
    return 8 * read, 8 * n_queries * (d + 2)


@wrong("7.2", cause="blocks of the wrong loop")
def passes_by_blocks_of_queries(n_queries, n_keys, d, block_q, block_k):
    passes = -(-n_queries // block_q)
    read = 2 * n_keys * d + passes * n_queries * (2 * d + 2)
    return 8 * read, 8 * passes * n_queries * (d + 2)


@wrong("7.2", cause="keys counted at every step")
def keys_in_the_inner_loop(n_queries, n_keys, d, block_q, block_k):
    passes, q_passes = -(-n_keys // block_k), -(-n_queries // block_q)
    read = q_passes * 2 * n_keys * d + passes * n_queries * (2 * d + 2)
    return 8 * read, 8 * passes * n_queries * (d + 2)


@wrong("7.2", cause="numbers for bytes")
def in_numbers(n_queries, n_keys, d, block_q, block_k):
    passes = -(-n_keys // block_k)
    return 2 * n_keys * d + passes * n_queries * (2 * d + 2), passes * n_queries * (d + 2)


@wrong("7.2", cause="not two numbers")
def total_only(n_queries, n_keys, d, block_q, block_k):
    return sum(counted_in_a_loop(n_queries, n_keys, d, block_q, block_k))


@wrong("7.2", cause="wrong count")
def the_order_of_magnitude(n_queries, n_keys, d, block_q, block_k):
    m = 4 * d * block_k
    return 8 * n_keys**2 * d**2 // m, 8 * n_keys**2 * d**2 // m


@right("7.2")
def an_array_of_two(*sizes):
    return np.array(counted_in_a_loop(*sizes))


@wrong("7.2", cause="first pass not loaded")
def start_known(n_queries, n_keys, d, block_q, block_k):
    read, written = counted_in_a_loop(n_queries, n_keys, d, block_q, block_k)
    return read - 8 * n_queries * (d + 2), written


@wrong("7.2", cause="queries counted once")
def queries_stay(n_queries, n_keys, d, block_q, block_k):
    passes = -(-n_keys // block_k)
    state = passes * n_queries * (d + 2)
    return 8 * (2 * n_keys * d + n_queries * d + state), 8 * state


@wrong("7.2", cause="one vector left out")
def maxima_forgotten(n_queries, n_keys, d, block_q, block_k):
    read, written = counted_in_a_loop(n_queries, n_keys, d, block_q, block_k)
    vectors = -(-n_keys // block_k) * 8 * n_queries
    return read - vectors, written - vectors


@wrong("7.2", cause="blocks counted full")
def as_if_blocks_divided(n_queries, n_keys, d, block_q, block_k):
    passes, q_passes = -(-n_keys // block_k), -(-n_queries // block_q)
    sizes = q_passes * block_q, passes * block_k, d, block_q, block_k
    return counted_in_a_loop(*sizes)


@wrong("7.2", cause="start counted")
def zeros_written_first(n_queries, n_keys, d, block_q, block_k):
    read, written = counted_in_a_loop(n_queries, n_keys, d, block_q, block_k)
    return read, written + 8 * n_queries * (d + 2)


@wrong("7.2", cause="the other order")
def loops_turned_round(n_queries, n_keys, d, block_q, block_k):
    passes = -(-n_queries // block_q)
    return 8 * (n_queries * d + passes * 2 * n_keys * d), 8 * n_queries * (d + 1)


@wrong("7.2", cause="not a whole number")
def a_rounding_error(*sizes):
    read, written = counted_in_a_loop(*sizes)
    return read * (1 + 1e-15), written * (1 + 1e-15)


@wrong("7.2", cause="not two numbers")
def beyond_all_floats(*sizes):
    return 10**400, 1


# --- 7.3: queries outside -------------------------------------------------------------------------


def queries_outside(sram, Q, K, V, O, logsumexp, block_q, block_k, scale=None):
    scale = Q.shape[1] ** -0.5 if scale is None else scale
    for rows in blocks(len(Q), block_q):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            s = scale * (q @ k.T)
            new_top = np.maximum(top, s.max(axis=1))
            p = np.exp(s - new_top[:, None])
            alpha = np.exp(top - new_top)
            total = alpha * total + p.sum(axis=1)
            o = alpha[:, None] * o + p @ v
            top = new_top
        sram.store(O[rows], o / total[:, None])
        sram.store(logsumexp[rows], top + np.log(total))


def numbers_on_chip(sram):
    return sram.capacity_bytes // 8


@right("7.3")
def plain_style_with_every_temporary(sram, Q, K, V, O, logsumexp):
    block_q = max(1, numbers_on_chip(sram) // (5 * Q.shape[1] + 40))
    queries_outside(sram, Q, K, V, O, logsumexp, min(block_q, len(Q)), 9)


@right("7.3")
def in_place_with_long_blocks(sram, Q, K, V, O, logsumexp):
    d = Q.shape[1]
    block_q = max(1, (numbers_on_chip(sram) - 72 * d) // (2 * d + 24 * 3 + 8))
    for rows in blocks(len(Q), block_q):
        q = sram.load(Q[rows])
        q *= d**-0.5
        o, s = sram.zeros(q.shape), sram.zeros((len(q), 24))
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), 24):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            p = s[:, : len(k)]
            p[...] = 0
            sram.accumulate(p, q, k.T)
            new_top = np.maximum(top, p.max(axis=1))
            p -= new_top[:, None]
            np.exp(p, out=p)
            top -= new_top
            np.exp(top, out=top)
            total *= top
            total += p.sum(axis=1)
            o *= top[:, None]
            sram.accumulate(o, p, v)
            top = new_top
            del k, v
        o /= total[:, None]
        sram.store(O[rows], o)
        sram.store(logsumexp[rows], np.log(total) + top)
        del q, o, s, p


@right("7.3")
def normalized_at_every_step(sram, Q, K, V, O, logsumexp):
    scale, block_k = Q.shape[1] ** -0.5, 16
    block_q = max(1, numbers_on_chip(sram) // (4 * Q.shape[1] + 60))
    for first in range(0, len(Q), block_q):
        q = sram.load(Q[first : first + block_q])
        merged = None  # logsumexp and output of the keys so far
        for start in range(0, len(K), block_k):
            s = q @ sram.load(K[start : start + block_k]).T
            s *= scale
            top = s.max(axis=1)
            p = np.exp(s - top[:, None])
            part = top + np.log(p.sum(axis=1))
            p *= np.exp(top - part)[:, None]
            v = sram.load(V[start : start + block_k])
            if merged is None:
                merged, o = part, p @ v
            else:
                both = np.logaddexp(merged, part)
                o *= np.exp(merged - both)[:, None]
                p *= np.exp(part - both)[:, None]
                sram.accumulate(o, p, v)
                merged = both
            del s, p
        sram.store(O[first : first + block_q], o)
        sram.store(logsumexp[first : first + block_q], merged)
        del q, o, merged


@right("7.3")
def state_as_columns(sram, Q, K, V, O, logsumexp):
    d = Q.shape[1]
    block_q = max(1, numbers_on_chip(sram) // (5 * d + 40))
    for rows in blocks(len(Q), block_q):
        q = sram.load(Q[rows])
        top, total = sram.full((len(q), 1), -np.inf), sram.zeros((len(q), 1))
        o = sram.zeros(q.shape)
        for keys in blocks(len(K), 12):
            s = np.matmul(q, sram.load(K[keys]).T) / d**0.5
            new_top = np.maximum(top, s.max(axis=1, keepdims=True))
            alpha, p = np.exp(top - new_top), np.exp(s - new_top)
            total = total * alpha + p.sum(axis=1, keepdims=True)
            o *= alpha
            o += p @ sram.load(V[keys])
            top = new_top
        o /= total
        sram.store(O[rows], o)
        sram.store(logsumexp[rows], (top + np.log(total))[:, 0])
        del q, o


@wrong("7.3", cause="too much traffic")
def blocks_that_algorithm_1_prints(sram, Q, K, V, O, logsumexp):
    d = Q.shape[1]
    block_k = math.ceil(numbers_on_chip(sram) / (4 * d)) // 2  # half, so that plain style fits
    queries_outside(sram, Q, K, V, O, logsumexp, min(block_k, d), block_k)


@wrong("7.3", cause="too much traffic")
def square_blocks(sram, Q, K, V, O, logsumexp):
    side = int((numbers_on_chip(sram) / 20) ** 0.5)
    queries_outside(sram, Q, K, V, O, logsumexp, side, side)


@wrong("7.3", cause="does not fit")
def blocks_without_room_for_temporaries(sram, Q, K, V, O, logsumexp):
    block_q = numbers_on_chip(sram) // (2 * Q.shape[1])  # q and o fill the chip
    queries_outside(sram, Q, K, V, O, logsumexp, min(block_q, len(Q)), 8)


@wrong("7.3", cause="output stored too often")
def output_stored_once_a_block(sram, Q, K, V, O, logsumexp):
    block_q, block_k = numbers_on_chip(sram) // (6 * Q.shape[1] + 60), 64
    for rows in blocks(len(Q), min(block_q, len(Q))):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            s = q @ k.T
            s *= Q.shape[1] ** -0.5
            new_top = np.maximum(top, s.max(axis=1))
            s -= new_top[:, None]
            p = np.exp(s, out=s)
            alpha = np.exp(top - new_top)
            total = alpha * total + p.sum(axis=1)
            o *= alpha[:, None]
            sram.accumulate(o, p, v)
            top = new_top
            del s, p
            sram.store(O[rows], o / total[:, None])
        sram.store(logsumexp[rows], top + np.log(total))
        del q, o


@wrong("7.3", cause="loaded whole")
def whole_keys(sram, Q, K, V, O, logsumexp):
    k, v = sram.load(K), sram.load(V)
    for rows in blocks(len(Q), 8):
        s = sram.load(Q[rows]) @ k.T * Q.shape[1] ** -0.5
        top = s.max(axis=1)
        p = np.exp(s - top[:, None])
        sram.store(O[rows], p @ v / p.sum(axis=1)[:, None])
        sram.store(logsumexp[rows], top + np.log(p.sum(axis=1)))


@wrong("7.3", cause="whole rows of scores")
def rows_of_scores(sram, Q, K, V, O, logsumexp):
    for rows in blocks(len(Q), 256):
        q = sram.load(Q[rows])
        s = sram.zeros((len(q), len(K)))
        for keys in blocks(len(K), 8):
            s[:, keys] = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
        top = s.max(axis=1)
        s -= top[:, None]
        np.exp(s, out=s)
        total = s.sum(axis=1)
        o = sram.zeros(q.shape)
        for keys in blocks(len(K), 8):
            sram.accumulate(o, s[:, keys], sram.load(V[keys]))
        sram.store(O[rows], o / total[:, None])
        sram.store(logsumexp[rows], top + np.log(total))


@wrong("7.3", cause="scores in HBM")
def scores_in_hbm(sram, Q, K, V, O, logsumexp):
    S = sram.hbm.zeros((len(Q), len(K)))
    for rows in blocks(len(Q), 32):
        q = sram.load(Q[rows])
        for keys in blocks(len(K), 32):
            sram.store(S[rows, keys], q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5)
    for rows in blocks(len(Q), 8):
        s = sram.load(S[rows])
        top = s.max(axis=1)
        p = np.exp(s - top[:, None])
        o = sram.zeros((len(s), Q.shape[1]))
        for keys in blocks(len(K), 32):
            sram.accumulate(o, p[:, keys], sram.load(V[keys]))
        sram.store(O[rows], o / p.sum(axis=1)[:, None])
        sram.store(logsumexp[rows], top + np.log(p.sum(axis=1)))


@wrong("7.3", cause="not the logsumexp")
def sum_for_logsumexp(sram, Q, K, V, O, logsumexp):
    plain_style_with_every_temporary(sram, Q, K, V, O, logsumexp)
    for rows in blocks(len(Q), 256):
        sram.store(logsumexp[rows], np.exp(sram.load(logsumexp[rows])))


@wrong("7.3", cause="normalized twice")
def divided_at_each_step_and_at_the_end(sram, Q, K, V, O, logsumexp):
    plain_style_with_every_temporary(sram, Q, K, V, O, logsumexp)
    for rows in blocks(len(Q), 64):
        o, q, total = sram.load(O[rows]), sram.load(Q[rows]), 0.0
        top = sram.full(len(q), -np.inf)
        for keys in blocks(len(K), 32):
            s = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
            new_top = np.maximum(top, s.max(axis=1))
            total = total * np.exp(top - new_top) + np.exp(s - new_top[:, None]).sum(axis=1)
            top = new_top
        sram.store(O[rows], o / total[:, None])


@wrong("7.3", cause="nothing rescaled")
def added_as_they_are(sram, Q, K, V, O, logsumexp):
    for rows in blocks(len(Q), 256):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), 1):
            s = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
            top = np.maximum(top, s.max(axis=1))
            p = np.exp(s - top[:, None])
            total += p.sum(axis=1)
            sram.accumulate(o, p, sram.load(V[keys]))
        sram.store(O[rows], o / total[:, None])
        sram.store(logsumexp[rows], top + np.log(total))


@wrong("7.3", cause="not finite")
def the_first_maximum_is_zero_over_zero(sram, Q, K, V, O, logsumexp):
    block_q = numbers_on_chip(sram) // (6 * Q.shape[1])
    for rows in blocks(len(Q), block_q):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), 8):
            s = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
            alpha = np.exp(top - top)  # the maximum of before, twice
            top = np.maximum(top, s.max(axis=1))
            p = np.exp(s - top[:, None])
            total = alpha * total + p.sum(axis=1)
            o *= alpha[:, None]
            sram.accumulate(o, p, sram.load(V[keys]))
        o /= total[:, None]
        sram.store(O[rows], o)
        sram.store(logsumexp[rows], top + np.log(total))


@wrong("7.3", cause="made for one chip")
def blocks_by_the_width_alone(sram, Q, K, V, O, logsumexp):
    block_q = {64: 256, 128: 128}.get(Q.shape[1], 128)
    queries_outside_in_place(sram, Q, K, V, O, logsumexp, block_q)


@wrong("7.3", cause="all rows at once")
def block_of_512_queries(sram, Q, K, V, O, logsumexp):
    queries_outside_in_place(sram, Q, K, V, O, logsumexp, 512 if Q.shape[1] == 128 else 256)


def queries_outside_in_place(sram, Q, K, V, O, logsumexp, block_q):
    for rows in blocks(len(Q), block_q):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), 16):
            s = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
            new_top = np.maximum(top, s.max(axis=1))
            p, alpha = np.exp(s - new_top[:, None]), np.exp(top - new_top)
            total, top = alpha * total + p.sum(axis=1), new_top
            o *= alpha[:, None]
            sram.accumulate(o, p, sram.load(V[keys]))
            del s, p
        o /= total[:, None]
        sram.store(O[rows], o)
        sram.store(logsumexp[rows], top + np.log(total))
        del q, o


@wrong("7.3", cause="sum not rescaled")
def sum_added_to_as_it_is(sram, Q, K, V, O, logsumexp):
    for rows in blocks(len(Q), numbers_on_chip(sram) // (6 * Q.shape[1])):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), 8):
            s = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
            new_top = np.maximum(top, s.max(axis=1))
            p = np.exp(s - new_top[:, None])
            total += p.sum(axis=1)
            o *= np.exp(top - new_top)[:, None]
            sram.accumulate(o, p, sram.load(V[keys]))
            top = new_top
        o /= total[:, None]
        sram.store(O[rows], o)
        sram.store(logsumexp[rows], top + np.log(total))


@wrong("7.3", cause="output not rescaled")
def output_added_to_as_it_is(sram, Q, K, V, O, logsumexp):
    for rows in blocks(len(Q), numbers_on_chip(sram) // (6 * Q.shape[1])):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), 12):
            s = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
            new_top = np.maximum(top, s.max(axis=1))
            p = np.exp(s - new_top[:, None])
            total = np.exp(top - new_top) * total + p.sum(axis=1)
            sram.accumulate(o, p, sram.load(V[keys]))
            top = new_top
        o /= total[:, None]
        sram.store(O[rows], o)
        sram.store(logsumexp[rows], top + np.log(total))


# --- 7.4: causal, and no more than needed ---------------------------------------------------------


def causal(skip, mask, hidden=-np.inf):
    """An answer from two rules: skip(rows, keys), and mask(sram, rows, keys) of what is visible."""

    def answer(sram, Q, K, V, O, logsumexp, block_q, block_k):
        for rows in blocks(len(Q), block_q):
            q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
            total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
            for keys in blocks(len(K), block_k):
                if skip(rows, keys):
                    continue
                k, v = sram.load(K[keys]), sram.load(V[keys])
                s = q @ k.T * Q.shape[1] ** -0.5
                s = np.where(mask(sram, rows, keys), s, hidden)
                new_top = np.maximum(top, s.max(axis=1))
                safe = np.where(new_top == -np.inf, 0.0, new_top)
                p = np.exp(s - safe[:, None])
                alpha = np.exp(top - safe)
                total = alpha * total + p.sum(axis=1)
                o *= alpha[:, None]
                sram.accumulate(o, p, v)
                top = new_top
            sram.store(O[rows], o / np.where(total > 0, total, 1.0)[:, None])
            sram.store(logsumexp[rows], top + np.log(total))

    return answer


def positions(sram, rows, keys):
    return sram.arange(rows.start, rows.stop)[:, None], sram.arange(keys.start, keys.stop)[None, :]


def sees(sram, rows, keys):
    query, key = positions(sram, rows, keys)
    return key <= query


def hidden_block(rows, keys):
    return keys.start >= rows.stop


@right("7.4")
def mask_on_every_block(*args):
    causal(hidden_block, sees)(*args)


@right("7.4")
def a_large_negative_number(*args):
    """-inf is not the only score whose exponential is 0."""
    causal(hidden_block, sees, hidden=-1e30)(*args)


@right("7.4")
def keys_only_up_to_the_last_query(sram, Q, K, V, O, logsumexp, block_q, block_k):
    for rows in blocks(len(Q), block_q):
        q = sram.load(Q[rows])
        q *= Q.shape[1] ** -0.5
        parts = sram.zeros(O[rows].shape)
        merged = sram.full(len(q), -np.inf)
        for keys in blocks(rows.stop, block_k):
            s = q @ sram.load(K[keys]).T
            for i in range(len(q)):
                s[i, max(0, rows.start + i + 1 - keys.start) :] = -np.inf
            both = np.maximum(merged, s.max(axis=1))
            p = np.exp(s - both[:, None])
            both += np.log(p.sum(axis=1) + np.exp(merged - both))
            p = np.exp(s - both[:, None])
            parts *= np.exp(merged - both)[:, None]
            sram.accumulate(parts, p, sram.load(V[keys]))
            merged = both
        sram.store(O[rows], parts)
        sram.store(logsumexp[rows], merged)


@right("7.4")
def triangle_by_tri(sram, Q, K, V, O, logsumexp, block_q, block_k):
    def mask(sram, rows, keys):
        ones = sram.full((rows.stop - rows.start, keys.stop - keys.start), 1.0)
        return np.tril(ones, rows.start - keys.start) > 0

    causal(hidden_block, mask)(sram, Q, K, V, O, logsumexp, block_q, block_k)


@wrong("7.4", cause="no mask")
def not_causal(*args):
    causal(lambda rows, keys: False, lambda sram, rows, keys: True)(*args)


@wrong("7.4", cause="mask off by one")
def own_key_hidden(*args):
    def strictly(sram, rows, keys):
        query, key = positions(sram, rows, keys)
        return (key < query) | (query == 0) & (key == 0)

    causal(hidden_block, strictly)(*args)


@wrong("7.4", cause="mask off by one")
def next_key_seen(*args):
    def one_more(sram, rows, keys):
        query, key = positions(sram, rows, keys)
        return key <= query + 1

    causal(lambda rows, keys: keys.start > rows.stop, one_more)(*args)


@wrong("7.4", cause="mask turned round")
def the_future_seen(*args):
    def turned(sram, rows, keys):
        query, key = positions(sram, rows, keys)
        return key >= query

    causal(lambda rows, keys: keys.stop <= rows.start, turned)(*args)


@wrong("7.4", cause="whole blocks only")
def skipped_but_not_masked(*args):
    causal(hidden_block, lambda sram, rows, keys: True)(*args)


@wrong("7.4", cause="block numbers compared")
def skipped_by_the_number_of_the_block(sram, Q, K, V, O, logsumexp, block_q, block_k):
    def later(rows, keys):
        return keys.start // block_k > rows.start // block_q

    causal(later, sees)(sram, Q, K, V, O, logsumexp, block_q, block_k)


@wrong("7.4", cause="position within the block")
def triangle_in_every_block(*args):
    def local(sram, rows, keys):
        query = sram.arange(rows.stop - rows.start)[:, None]
        return sram.arange(keys.stop - keys.start)[None, :] <= query

    causal(lambda rows, keys: False, local)(*args)


@wrong("7.4", cause="masked scores are zero")
def hidden_scores_set_to_zero(*args):
    causal(lambda rows, keys: False, sees, hidden=0.0)(*args)


@wrong("7.4", cause="hidden blocks loaded")
def masked_but_not_skipped(*args):
    causal(lambda rows, keys: False, sees)(*args)


@wrong("7.4", cause="hidden blocks loaded")
def one_block_too_many(*args):
    causal(lambda rows, keys: keys.start > rows.stop, sees)(*args)


@wrong("7.4", cause="output stored too often")
def stored_after_every_block(sram, Q, K, V, O, logsumexp, block_q, block_k):
    honest = causal(hidden_block, sees)
    honest(sram, Q, K, V, O, logsumexp, block_q, block_k)
    for rows in blocks(len(Q), block_q):
        sram.store(O[rows], sram.load(O[rows]))


@right("7.4")
def keys_to_and_fro(sram, Q, K, V, O, logsumexp, block_q, block_k):
    """The block of keys where the order turns is on chip already, and is used again."""
    on_chip = None
    for number, rows in enumerate(blocks(len(Q), block_q)):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in list(blocks(rows.stop, block_k))[:: -1 if number % 2 else 1]:
            keys = slice(keys.start, min(keys.start + block_k, len(K)))
            if keys != on_chip:
                k, v = sram.load(K[keys]), sram.load(V[keys])
                on_chip = keys
            s = np.where(sees(sram, rows, keys), q @ k.T * Q.shape[1] ** -0.5, -np.inf)
            new_top = np.maximum(top, s.max(axis=1))
            safe = np.where(new_top == -np.inf, 0.0, new_top)
            p, alpha = np.exp(s - safe[:, None]), np.exp(top - safe)
            total, top = alpha * total + p.sum(axis=1), new_top
            o = alpha[:, None] * o + p @ v
        sram.store(O[rows], o / total[:, None])
        sram.store(logsumexp[rows], top + np.log(total))


@wrong("7.4", cause="hidden scores finite")
def not_low_enough(*args):
    causal(hidden_block, sees, hidden=-1e4)(*args)


@wrong("7.4", cause="masked scores are zero")
def skipped_and_set_to_zero(*args):
    causal(hidden_block, sees, hidden=0.0)(*args)


@wrong("7.4", cause="mask off by one")
def skipped_and_next_key_seen(*args):
    def one_more(sram, rows, keys):
        query, key = positions(sram, rows, keys)
        return key <= query + 1

    causal(hidden_block, one_more)(*args)


@wrong("7.4", cause="position within the block")
def skipped_and_a_triangle_in_every_block(*args):
    def local(sram, rows, keys):
        query = sram.arange(rows.stop - rows.start)[:, None]
        return sram.arange(keys.stop - keys.start)[None, :] <= query

    causal(hidden_block, local)(*args)


@wrong("7.4", cause="block numbers compared")
def masked_where_the_numbers_agree(sram, Q, K, V, O, logsumexp, block_q, block_k):
    def mask(sram, rows, keys):
        if rows.start // block_q == keys.start // block_k:
            return sees(sram, rows, keys)
        return True

    causal(hidden_block, mask)(sram, Q, K, V, O, logsumexp, block_q, block_k)


@wrong("7.4", cause="visible blocks skipped")
def hidden_from_the_first_query(*args):
    causal(lambda rows, keys: keys.start > rows.start, sees)(*args)


@wrong("7.4", cause="visible blocks skipped")
def skipped_when_not_wholly_visible(*args):
    causal(lambda rows, keys: keys.stop > rows.stop, sees)(*args)


def masked_after_exp(in_the_sum):
    def answer(sram, Q, K, V, O, logsumexp, block_q, block_k):
        for rows in blocks(len(Q), block_q):
            q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
            total, top = sram.zeros(len(q)), sram.full(len(q), -np.inf)
            for keys in blocks(rows.stop, block_k):
                keys = slice(keys.start, min(keys.start + block_k, len(K)))
                s = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
                new_top = np.maximum(top, s.max(axis=1))
                p, alpha = np.exp(s - new_top[:, None]), np.exp(top - new_top)
                visible = p * sees(sram, rows, keys)
                total = alpha * total + (p if in_the_sum else visible).sum(axis=1)
                o = alpha[:, None] * o + visible @ sram.load(V[keys])
                top = new_top
            sram.store(O[rows], o / total[:, None])
            sram.store(logsumexp[rows], top + np.log(total))

    return answer


@wrong("7.4", cause="maximum of hidden scores")
def masked_after_the_maximum(*args):
    masked_after_exp(in_the_sum=False)(*args)


@wrong("7.4", cause="hidden keys in the sum")
def masked_after_the_sum(*args):
    masked_after_exp(in_the_sum=True)(*args)


# --- 7.5: backward --------------------------------------------------------------------------------


def backward(gradient_of_scores, scale_q=True, scale_k=True, scale_scores=True):
    """An answer from dS = gradient_of_scores(p, dp, row_dot), keys outside, dQ in HBM."""

    def answer(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
        scale = Q.shape[1] ** -0.5
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            grad_k, grad_v = sram.zeros(k.shape), sram.zeros(v.shape)
            for rows in blocks(len(Q), block_q):
                q, grad_o = sram.load(Q[rows]), sram.load(dO[rows])
                row_dot = np.sum(grad_o * sram.load(O[rows]), axis=1)[:, None]
                s = q @ k.T * (scale if scale_scores else 1.0)
                p = np.exp(s - sram.load(logsumexp[rows])[:, None])
                grad_v += p.T @ grad_o
                grad_s = gradient_of_scores(p, grad_o @ v.T, row_dot)
                grad_k += (scale if scale_k else 1.0) * (grad_s.T @ q)
                grad_q = sram.load(dQ[rows])
                grad_q += (scale if scale_q else 1.0) * (grad_s @ k)
                sram.store(dQ[rows], grad_q)
            sram.store(dK[keys], grad_k)
            sram.store(dV[keys], grad_v)

    return answer


def honest_gradient(p, grad_p, row_dot):
    return p * (grad_p - row_dot)


@right("7.5")
def plain_style_keys_outside(*args):
    backward(honest_gradient)(*args)


@right("7.5")
def two_passes(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    scale = Q.shape[1] ** -0.5
    D = sram.hbm.zeros(len(Q))
    for rows in blocks(len(Q), block_q):
        q, grad_o, lse = sram.load(Q[rows]), sram.load(dO[rows]), sram.load(logsumexp[rows])
        row_dot = (grad_o * sram.load(O[rows])).sum(axis=1)
        sram.store(D[rows], row_dot)
        grad_q = sram.zeros(q.shape)
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            p = np.exp(scale * (q @ k.T) - lse[:, None])
            grad_s = p * (grad_o @ v.T - row_dot[:, None])
            sram.accumulate(grad_q, grad_s, k)
        grad_q *= scale
        sram.store(dQ[rows], grad_q)
    del q, grad_o, lse, row_dot, grad_q, k, v, p, grad_s
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        grad_k, grad_v = sram.zeros(k.shape), sram.zeros(v.shape)
        for rows in blocks(len(Q), block_q):
            q, grad_o = sram.load(Q[rows]), sram.load(dO[rows])
            p = np.exp(scale * (q @ k.T) - sram.load(logsumexp[rows])[:, None])
            grad_s = p * (grad_o @ v.T - sram.load(D[rows])[:, None])
            sram.accumulate(grad_v, p.T, grad_o)
            sram.accumulate(grad_k, grad_s.T, q)
        grad_k *= scale
        sram.store(dK[keys], grad_k)
        sram.store(dV[keys], grad_v)


@right("7.5")
def row_sums_formed_once(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    D = sram.hbm.empty(len(Q), name="D")
    for rows in blocks(len(Q), block_q):
        sram.store(D[rows], (sram.load(dO[rows]) * sram.load(O[rows])).sum(axis=1))
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        k *= Q.shape[1] ** -0.5
        grad_k, grad_v = sram.zeros(k.shape), sram.zeros(v.shape)
        for rows in blocks(len(Q), block_q):
            q, grad_o, grad_q = sram.load(Q[rows]), sram.load(dO[rows]), sram.load(dQ[rows])
            s = q @ k.T
            s -= sram.load(logsumexp[rows])[:, None]
            p = np.exp(s, out=s)
            sram.accumulate(grad_v, p.T, grad_o)
            grad_s = grad_o @ v.T
            grad_s -= sram.load(D[rows])[:, None]
            grad_s *= p
            sram.accumulate(grad_q, grad_s, k)
            q *= Q.shape[1] ** -0.5
            sram.accumulate(grad_k, grad_s.T, q)
            sram.store(dQ[rows], grad_q)
        sram.store(dK[keys], grad_k)
        sram.store(dV[keys], grad_v)


@wrong("7.5", cause="scale forgotten")
def no_scale_in_dq(*args):
    backward(honest_gradient, scale_q=False)(*args)


@wrong("7.5", cause="scale forgotten")
def no_scale_in_dk(*args):
    backward(honest_gradient, scale_k=False)(*args)


@wrong("7.5", cause="scores without scale")
def scores_formed_without_scale(*args):
    backward(honest_gradient, scale_scores=False)(*args)


@wrong("7.5", cause="row sums left out")
def no_row_sum(*args):
    backward(lambda p, grad_p, row_dot: p * grad_p)(*args)


@wrong("7.5", cause="P left out")
def difference_alone(*args):
    backward(lambda p, grad_p, row_dot: grad_p - row_dot)(*args)


@wrong("7.5", cause="P minus D")
def p_for_dp(*args):
    backward(lambda p, grad_p, row_dot: p * (p - row_dot))(*args)


@wrong("7.5", cause="D of the block")
def sum_over_the_block(*args):
    def within(p, grad_p, row_dot):
        return p * (grad_p - (p * grad_p).sum(axis=1)[:, None])

    backward(within)(*args)


@wrong("7.5", cause="P not normalized")
def against_the_maximum(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    scale = Q.shape[1] ** -0.5
    for keys in blocks(len(K), len(K)):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        grad_k, grad_v = sram.zeros(k.shape), sram.zeros(v.shape)
        for rows in blocks(len(Q), block_q):
            q, grad_o = sram.load(Q[rows]), sram.load(dO[rows])
            s = q @ k.T * scale
            p = np.exp(s - s.max(axis=1)[:, None])
            grad_v += p.T @ grad_o
            grad_s = p * (grad_o @ v.T - np.sum(grad_o * sram.load(O[rows]), axis=1)[:, None])
            grad_k += scale * (grad_s.T @ q)
            sram.store(dQ[rows], scale * (grad_s @ k))
        sram.store(dK[keys], grad_k)
        sram.store(dV[keys], grad_v)


@wrong("7.5", cause="not accumulated")
def queries_gradient_overwritten(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    scale = Q.shape[1] ** -0.5
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        grad_k, grad_v = sram.zeros(k.shape), sram.zeros(v.shape)
        for rows in blocks(len(Q), block_q):
            q, grad_o = sram.load(Q[rows]), sram.load(dO[rows])
            p = np.exp(q @ k.T * scale - sram.load(logsumexp[rows])[:, None])
            grad_v += p.T @ grad_o
            grad_s = p * (grad_o @ v.T - np.sum(grad_o * sram.load(O[rows]), axis=1)[:, None])
            grad_k += scale * (grad_s.T @ q)
            sram.store(dQ[rows], scale * (grad_s @ k))
        sram.store(dK[keys], grad_k)
        sram.store(dV[keys], grad_v)


@wrong("7.5", cause="dK and dV travel")
def keys_gradients_go_back_every_time(
    sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k
):
    scale = Q.shape[1] ** -0.5
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        for rows in blocks(len(Q), block_q):
            q, grad_o = sram.load(Q[rows]), sram.load(dO[rows])
            p = np.exp(q @ k.T * scale - sram.load(logsumexp[rows])[:, None])
            grad_s = p * (grad_o @ v.T - np.sum(grad_o * sram.load(O[rows]), axis=1)[:, None])
            sram.store(dV[keys], sram.load(dV[keys]) + p.T @ grad_o)
            sram.store(dK[keys], sram.load(dK[keys]) + scale * (grad_s.T @ q))
            sram.store(dQ[rows], sram.load(dQ[rows]) + scale * (grad_s @ k))


@wrong("7.5", cause="scores formed whole")
def probabilities_whole(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    p = sram.zeros((len(Q), len(K)))
    for rows in blocks(len(Q), block_q):
        q, lse = sram.load(Q[rows]), sram.load(logsumexp[rows])
        for keys in blocks(len(K), block_k):
            s = q @ sram.load(K[keys]).T * Q.shape[1] ** -0.5
            p[rows, keys] = np.exp(s - lse[:, None])
    grad_o = sram.load(dO)
    grad_s = p * (grad_o @ sram.load(V).T - (grad_o * sram.load(O)).sum(axis=1)[:, None])
    grad_s *= Q.shape[1] ** -0.5
    sram.store(dQ, grad_s @ sram.load(K))
    sram.store(dK, grad_s.T @ sram.load(Q))
    sram.store(dV, p.T @ grad_o)


@right("7.5")
def two_passes_with_d_formed_in_both(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    scale = Q.shape[1] ** -0.5

    def load_rows(rows):
        q, grad_o, lse = (sram.load(array[rows]) for array in (Q, dO, logsumexp))
        return q, grad_o, lse, (grad_o * sram.load(O[rows])).sum(axis=1)

    def tile(q, grad_o, lse, row_dot, k, v):
        p = np.exp(scale * (q @ k.T) - lse[:, None])
        return p, scale * p * (grad_o @ v.T - row_dot[:, None])

    for rows in blocks(len(Q), block_q):
        queries = load_rows(rows)
        grad_q = sram.zeros(queries[0].shape)
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            grad_q += tile(*queries, k, v)[1] @ k
        sram.store(dQ[rows], grad_q)
    del queries, grad_q, k, v
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        grad_k, grad_v = sram.zeros(k.shape), sram.zeros(v.shape)
        for rows in blocks(len(Q), block_q):
            queries = load_rows(rows)
            p, grad_s = tile(*queries, k, v)
            grad_v += p.T @ queries[1]
            grad_k += grad_s.T @ queries[0]
        sram.store(dK[keys], grad_k)
        sram.store(dV[keys], grad_v)


@wrong("7.5", cause="dK and dV travel")
def queries_outside_in_one_pass(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    scale = Q.shape[1] ** -0.5
    for rows in blocks(len(Q), block_q):
        q, grad_o, lse = sram.load(Q[rows]), sram.load(dO[rows]), sram.load(logsumexp[rows])
        row_dot = (grad_o * sram.load(O[rows])).sum(axis=1)[:, None]
        grad_q = sram.zeros(q.shape)
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            p = np.exp(q @ k.T * scale - lse[:, None])
            grad_s = scale * p * (grad_o @ v.T - row_dot)
            grad_q += grad_s @ k
            sram.store(dV[keys], sram.load(dV[keys]) + p.T @ grad_o)
            sram.store(dK[keys], sram.load(dK[keys]) + grad_s.T @ q)
        sram.store(dQ[rows], grad_q)


@wrong("7.5", cause="too much traffic")
def blocks_of_one_size(sram, *args):
    *arrays, block_q, block_k = args
    backward(honest_gradient)(sram, *arrays, min(block_q, block_k), min(block_q, block_k))


@wrong("7.5", cause="wrong values")
def queries_gradient_doubled(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    plain_style_keys_outside(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k)
    for rows in blocks(len(Q), block_q):
        sram.store(dQ[rows], 2 * sram.load(dQ[rows]))


@wrong("7.5", cause="dK and dV exchanged")
def stored_in_each_others_place(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
    plain_style_keys_outside(sram, Q, K, V, O, dO, logsumexp, dQ, dV, dK, block_q, block_k)


def with_probabilities(probabilities):
    """An answer that forms P as probabilities(s, logsumexp), both of a block."""

    def answer(sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k):
        scale = Q.shape[1] ** -0.5
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])
            grad_k, grad_v = sram.zeros(k.shape), sram.zeros(v.shape)
            for rows in blocks(len(Q), block_q):
                q, grad_o = sram.load(Q[rows]), sram.load(dO[rows])
                row_dot = np.sum(grad_o * sram.load(O[rows]), axis=1)[:, None]
                p = probabilities(scale * (q @ k.T), sram.load(logsumexp[rows])[:, None])
                grad_v += p.T @ grad_o
                grad_s = scale * p * (grad_o @ v.T - row_dot)
                grad_k += grad_s.T @ q
                sram.store(dQ[rows], sram.load(dQ[rows]) + grad_s @ k)
            sram.store(dK[keys], grad_k)
            sram.store(dV[keys], grad_v)

    return answer


@wrong("7.5", cause="P not normalized")
def plain_exponentials(*args):
    with_probabilities(lambda s, lse: np.exp(s))(*args)


@wrong("7.5", cause="divided by logsumexp")
def logsumexp_as_divisor(*args):
    with_probabilities(lambda s, lse: np.exp(s) / lse)(*args)


@wrong("7.5", cause="softmax of the block")
def block_normalized_by_itself(*args):
    def softmax(s, lse):
        p = np.exp(s - s.max(axis=1)[:, None])
        return p / p.sum(axis=1)[:, None]

    with_probabilities(softmax)(*args)
