"""Answers to lesson 06."""

import itertools
import math
from decimal import Decimal

import numpy as np

from tests.answers import right, wrong

# --- 6.1 what a product costs ----------------------------------------------------------------------


@right("6.1")
def by_sizes(m, n, k, itemsize):
    return 2 * m * n * k, itemsize * (m * k + k * n + m * n)


@right("6.1")
def by_arrays_in_floats(m, n, k, itemsize):
    shapes = [(m, k), (k, n), (m, n)]
    return [m * n * 2.0 * k, float(sum(itemsize * math.prod(shape) for shape in shapes))]


@right("6.1")
def as_numpy_numbers(m, n, k, itemsize):
    elements = np.prod([[m, k], [k, n], [m, n]], axis=1, dtype=np.int64).sum()
    return 2 * np.int64(m) * n * k, elements * itemsize


@right("6.1")
def as_one_array(m, n, k, itemsize):
    return np.array([2 * m * n * k, itemsize * (m * k + k * n + m * n)])


@wrong("6.1", cause="first addition left out")
def sums_begin_with_a_product(m, n, k, itemsize):
    return m * n * (2 * k - 1), itemsize * (m * k + k * n + m * n)


@wrong("6.1", cause="result counted twice")
def reads_the_result_too(m, n, k, itemsize):
    return 2 * m * n * k, itemsize * (m * k + k * n + 2 * m * n)


@wrong("6.1", cause="wrong type")
def more_digits_than_python_writes(m, n, k, itemsize):
    return 10**5000, itemsize * (m * k + k * n + m * n)


@wrong("6.1", cause="wrong operations")
def a_decimal(m, n, k, itemsize):
    return Decimal(m * n), itemsize * (m * k + k * n + m * n)


@wrong("6.1", cause="wrong type")
def a_decimal_alone(m, n, k, itemsize):
    return Decimal(m * n)


@wrong("6.1", cause="multiplications only")
def no_additions(m, n, k, itemsize):
    return m * n * k, itemsize * (m * k + k * n + m * n)


@wrong("6.1", cause="elements for bytes")
def no_itemsize(m, n, k, itemsize):
    return 2 * m * n * k, m * k + k * n + m * n


@wrong("6.1", cause="result not counted")
def inputs_only(m, n, k, itemsize):
    return 2 * m * n * k, itemsize * (m * k + k * n)


@wrong("6.1", cause="a byte for every use")
def naive_traffic(m, n, k, itemsize):
    return 2 * m * n * k, itemsize * (2 * m * n * k + m * n)


@wrong("6.1", cause="exchanged")
def bytes_first(m, n, k, itemsize):
    return itemsize * (m * k + k * n + m * n), 2 * m * n * k


@wrong("6.1", cause="the ratio alone")
def intensity(m, n, k, itemsize):
    return 2 * m * n * k / (itemsize * (m * k + k * n + m * n))


@wrong("6.1", cause="one itemsize only")
def fp16_always(m, n, k, itemsize):
    return 2 * m * n * k, 2 * (m * k + k * n + m * n)


@wrong("6.1", cause="wrong operations")
def squares_only(m, n, k, itemsize):
    return 2 * m**3, itemsize * (m * k + k * n + m * n)


# --- 6.2 the tile for a given chip -----------------------------------------------------------------


@right("6.2")
def by_isqrt(capacity_bytes, itemsize):
    return math.isqrt(capacity_bytes // (3 * itemsize))


@right("6.2")
def by_float_root(capacity_bytes, itemsize):
    return int((capacity_bytes / itemsize / 3) ** 0.5)


@right("6.2")
def by_counting_up(capacity_bytes, itemsize):
    tile = 0
    while 3 * (tile + 1) ** 2 * itemsize <= capacity_bytes:
        tile += 1
    return tile


@right("6.2")
def as_a_numpy_integer(capacity_bytes, itemsize):
    return np.floor(np.sqrt(capacity_bytes // itemsize / 3)).astype(int)


@wrong("6.2", cause="one tile only")
def one_tile(capacity_bytes, itemsize):
    return math.isqrt(capacity_bytes // itemsize)


@wrong("6.2", cause="elements for bytes")
def forgets_itemsize(capacity_bytes, itemsize):
    return math.isqrt(capacity_bytes // 3)


@wrong("6.2", cause="one too large")
def rounds_to_nearest(capacity_bytes, itemsize):
    return round(math.sqrt(capacity_bytes / (3 * itemsize)))


@wrong("6.2", cause="a third of the side")
def divides_the_side(capacity_bytes, itemsize):
    return math.isqrt(capacity_bytes // itemsize) // 3


@wrong("6.2", cause="powers of two only")
def power_of_two(capacity_bytes, itemsize):
    tile = 1
    while 3 * (2 * tile) ** 2 * itemsize <= capacity_bytes:
        tile *= 2
    return tile


@wrong("6.2", cause="wrong type")
def a_float(capacity_bytes, itemsize):
    return math.sqrt(capacity_bytes / (3 * itemsize))


@wrong("6.2", cause="one itemsize only")
def float64_always(capacity_bytes, itemsize):
    return math.isqrt(capacity_bytes // 24)


@wrong("6.2", cause="one too small")
def strictly_below(capacity_bytes, itemsize):
    tile = 0
    while 3 * (tile + 1) ** 2 * itemsize < capacity_bytes:
        tile += 1
    return tile


@wrong("6.2", cause="none fits")
def one_at_least(capacity_bytes, itemsize):
    return max(1, math.isqrt(capacity_bytes // (3 * itemsize)))


@wrong("6.2", cause="two tiles only")
def forgets_c(capacity_bytes, itemsize):
    return math.isqrt(capacity_bytes // (2 * itemsize))


@wrong("6.2", cause="four tiles")
def one_tile_to_spare(capacity_bytes, itemsize):
    return math.isqrt(capacity_bytes // (4 * itemsize))


@wrong("6.2", cause="area for side")
def forgets_the_root(capacity_bytes, itemsize):
    return capacity_bytes // (3 * itemsize)


@wrong("6.2", cause="bits for bytes")
def counts_bits(capacity_bytes, itemsize):
    return math.isqrt(capacity_bytes // (3 * 8 * itemsize))


@wrong("6.2", cause="negative")
def below_nothing(capacity_bytes, itemsize):
    return -1


@wrong("6.2", cause="does not fit")
def more_than_python_writes(capacity_bytes, itemsize):
    return 10**3000


# --- 6.3 a tiled matrix product --------------------------------------------------------------------


def tile_of(sram, A, tiles=3):
    return math.isqrt(sram.capacity_bytes // (tiles * A.dtype.itemsize))


@right("6.3")
def three_square_tiles(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, C.dtype)
            for l in range(0, k, t):
                a, b = sram.load(A[i : i + t, l : l + t]), sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@right("6.3")
def columns_first_without_names(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)

    def one_tile(rows, columns):
        c = sram.zeros(C[rows, columns].shape, A.dtype)
        for l in range(0, k, t):
            piece = slice(l, l + t)
            sram.accumulate(c, sram.load(A[rows, piece]), sram.load(B[piece, columns]))
        sram.store(C[rows, columns], c)

    for j in range(0, n, t):
        for i in range(0, m, t):
            one_tile(slice(i, min(i + t, m)), slice(j, min(j + t, n)))


@right("6.3")
def thin_slices(sram, A, B, C):
    """One large tile of C, and a column of A and a row of B at a time: t^2 + 2 t elements."""
    (m, k), n = A.shape, B.shape[1]
    t = math.isqrt(sram.capacity_bytes // A.dtype.itemsize + 1) - 1
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(k):
                a = sram.load(A[i : i + t, l : l + 1])
                b = sram.load(B[l : l + 1, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@right("6.3")
def thin_slices_with_a_temporary(sram, A, B, C):
    """No accumulate: c and the product, 2 t^2 + 2 t elements."""
    (m, k), n = A.shape, B.shape[1]
    room = sram.capacity_bytes // A.dtype.itemsize
    t = int((math.sqrt(1 + 2 * room) - 1) / 2)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(k):
                a, b = sram.load(A[i : i + t, l]), sram.load(B[l, j : j + t])
                c += a[:, None] * b
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@right("6.3")
def balanced_tiles(sram, A, B, C):
    """As many tiles as three square ones give, but all of nearly one size."""
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    rows, columns = -(-m // t), -(-n // t)
    row_cuts = [m * r // rows for r in range(rows + 1)]
    column_cuts = [n * c // columns for c in range(columns + 1)]
    for i, i_end in zip(row_cuts, row_cuts[1:]):
        for j, j_end in zip(column_cuts, column_cuts[1:]):
            c = sram.zeros((i_end - i, j_end - j), A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i:i_end, l : l + t])
                b = sram.load(B[l : l + t, j:j_end])
                c = sram.accumulate(c, a, b)
                a = b = None
            sram.store(C[i:i_end, j:j_end], c)
            c = None


@wrong("6.3", cause="too much traffic")
def element_by_element(sram, A, B, C):
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            total = 0.0
            for l in range(A.shape[1]):
                total += sram.load(A[i, l]) * sram.load(B[l, j])
            sram.store(C[i, j], total.sum())


@wrong("6.3", cause="old tiles still there")
def forgets_to_let_go(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
            sram.store(C[i : i + t, j : j + t], c)


@right("6.3")
def a_new_sum_beside_the_old(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)


@wrong("6.3", cause="a temporary too many")
def adds_a_product(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                c += a @ b
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@wrong("6.3", cause="tile too large")
def room_for_one_tile(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A, tiles=1)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@wrong("6.3", cause="tile too large")
def all_at_once(sram, A, B, C):
    sram.store(C, sram.load(A) @ sram.load(B))


@wrong("6.3", cause="too much traffic")
def five_tiles_to_be_safe(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A, tiles=5) or 1
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
            sram.store(C[i : i + t, j : j + t], c)


@wrong("6.3", cause="last tiles missing")
def drops_the_ragged_edge(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m - m % t, t):
        for j in range(0, n - n % t, t):
            c = sram.zeros((t, t), A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@wrong("6.3", cause="pieces of k missing")
def drops_the_ragged_piece_of_k(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, k - k % t, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@wrong("6.3", cause="only the last piece")
def forgets_to_add(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m, t):
        for j in range(0, n, t):
            for l in range(0, k, t):
                c = sram.load(A[i : i + t, l : l + t]) @ sram.load(B[l : l + t, j : j + t])
                sram.store(C[i : i + t, j : j + t], c)
                del c


@wrong("6.3", cause="stored too often")
def adds_up_off_chip(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m, t):
        for j in range(0, n, t):
            for l in range(0, k, t):
                window = C[i : i + t, j : j + t]
                c = sram.load(window) if l else sram.zeros(window.shape, A.dtype)
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                sram.store(window, c)
                del a, b, c


@wrong("6.3", cause="wrong values")
def never_starts_at_zero(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    total = sram.zeros((min(t, m), min(t, n)), A.dtype)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = total[: min(t, m - i), : min(t, n - j)]
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)


@wrong("6.3", cause="across uncounted")
def result_in_a_plain_array(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    result = np.zeros((m, n))
    for i in range(0, m, t):
        for j in range(0, n, t):
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                result[i : i + t, j : j + t] += a @ b


@wrong("6.3", cause="across uncounted")
def computes_off_chip(sram, A, B, C):
    sram.store(C, A @ B)


@wrong("6.3", cause="raised an error")
def float64_sums_for_float32(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A, tiles=4 if A.dtype == np.float32 else 3)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@wrong("6.3", cause="C left empty")
def never_stores(sram, A, B, C):
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            del c


@wrong("6.3", cause="memory out of sight")
def keeps_numbers_in_lists(sram, A, B, C):
    """Carries B along as Python's numbers, which no memory counts, and takes it from there."""
    (m, k), n = A.shape, B.shape[1]
    t = tile_of(sram, A)
    kept = {}
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, k, t):
                a = sram.load(A[i : i + t, l : l + t])
                b = sram.load(B[l : l + t, j : j + t])
                kept[i, j, l] = [float(x) for x in b[:, 0]] * 64
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


def multiply(sram, A, B, C, t, begin):
    """Tiles of t x t, where `begin(window of C)` makes the space for a tile of sums."""
    for i in range(0, C.shape[0], t):
        for j in range(0, C.shape[1], t):
            c = begin(C[i : i + t, j : j + t])
            for l in range(0, A.shape[1], t):
                a, b = sram.load(A[i : i + t, l : l + t]), sram.load(B[l : l + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@wrong("6.3", cause="opened twice")
def opens_the_chip_again(sram, A, B, C):
    with sram:
        multiply(sram, A, B, C, tile_of(sram, A), lambda window: sram.zeros(window.shape, C.dtype))


@wrong("6.3", cause="C was read")
def begins_with_what_c_holds(sram, A, B, C):
    multiply(sram, A, B, C, tile_of(sram, A), sram.load)


@wrong("6.3", cause="C was read")
def loads_c_and_clears_it(sram, A, B, C):
    def begin(window):
        c = sram.load(window)
        c.fill(0)
        return c

    multiply(sram, A, B, C, tile_of(sram, A), begin)


@wrong("6.3", cause="sums in float64")
def forgets_the_dtype(sram, A, B, C):
    multiply(sram, A, B, C, tile_of(sram, A), lambda window: sram.zeros(window.shape))


@wrong("6.3", cause="sums in float64")
def one_large_tile_without_dtype(sram, A, B, C):
    t = math.isqrt(sram.capacity_bytes // A.dtype.itemsize + 1) - 1
    for i in range(0, C.shape[0], t):
        for j in range(0, C.shape[1], t):
            c = sram.zeros(C[i : i + t, j : j + t].shape)
            for l in range(A.shape[1]):
                a, b = sram.load(A[i : i + t, l : l + 1]), sram.load(B[l : l + 1, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c


@wrong("6.3", cause="array of its own")
def turns_a_in_hbm(sram, A, B, C):
    turned = sram.hbm.empty(A.shape[::-1], A.dtype)
    for i in range(A.shape[0]):
        for l in range(A.shape[1]):
            sram.store(turned[l, i], sram.load(A[i, l]))
    begin = lambda window: sram.zeros(window.shape, C.dtype)  # noqa: E731
    multiply(sram, turned.T, B, C, tile_of(sram, A), begin)


@wrong("6.3", cause="meter changed")
def makes_the_chip_larger(sram, A, B, C):
    sram._capacity_bytes *= 2
    sram.store(C[:1, :1], sram.zeros((1, 1), C.dtype))
    t = math.isqrt(sram.capacity_bytes // (3 * A.dtype.itemsize))
    multiply(sram, A, B, C, t, lambda window: sram.zeros(window.shape, C.dtype))


@wrong("6.3", cause="memory out of sight")
def sums_in_a_plain_array(sram, A, B, C):
    """Takes the numbers off the chip one by one, and brings them back by as many as are let pass."""
    t = tile_of(sram, A)
    for i in range(0, C.shape[0], t):
        for j in range(0, C.shape[1], t):
            c = np.zeros(C[i : i + t, j : j + t].shape, A.dtype)
            for l in range(0, A.shape[1], t):
                product = sram.load(A[i : i + t, l : l + t]) @ sram.load(B[l : l + t, j : j + t])
                for r in range(len(product)):
                    c[r] += np.fromiter(product[r], A.dtype)
                del product
            for r, s in itertools.product(range(len(c)), range(0, c.shape[1], 64)):
                piece = sram.zeros(c[r, s : s + 64].shape, C.dtype)
                piece += c[r, s : s + 64].tolist()
                sram.store(C[i + r, j + s : min(j + s + 64, j + c.shape[1])], piece)
                del piece


# --- 6.4 standard attention ------------------------------------------------------------------------


@right("6.4")
def plain_style(sram, Q, K, V, S, P, O, block_q, block_k):
    (n_queries, n_keys), d = S.shape, Q.shape[1]
    for i in range(0, n_queries, block_q):
        q = sram.load(Q[i : i + block_q])
        for j in range(0, n_keys, block_k):
            k = sram.load(K[j : j + block_k])
            s = q @ k.T / np.sqrt(d)
            sram.store(S[i : i + block_q, j : j + block_k], s)
    for i in range(n_queries):
        s = sram.load(S[i])
        e = np.exp(s - np.max(s))
        p = e / np.sum(e)
        sram.store(P[i], p)
    for i in range(0, n_queries, block_q):
        o = sram.zeros(O[i : i + block_q].shape)
        for j in range(0, n_keys, block_k):
            p = sram.load(P[i : i + block_q, j : j + block_k])
            v = sram.load(V[j : j + block_k])
            o = o + p @ v
        sram.store(O[i : i + block_q], o)


@right("6.4")
def frugal(sram, Q, K, V, S, P, O, block_q, block_k):
    def blocks(size, block):
        return [slice(start, min(start + block, size)) for start in range(0, size, block)]

    n_queries, n_keys = S.shape
    for rows in blocks(n_queries, block_q):
        q = sram.load(Q[rows])
        q *= Q.shape[1] ** -0.5
        for keys in blocks(n_keys, block_k):
            sram.store(S[rows, keys], q @ sram.load(K[keys]).T)
    for row in blocks(n_queries, 1):
        s = sram.load(S[row])
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=1, keepdims=True)
        sram.store(P[row], s)
        del s
    for rows in blocks(n_queries, block_q):
        o = sram.zeros(O[rows].shape)
        for keys in blocks(n_keys, block_k):
            sram.accumulate(o, sram.load(P[rows, keys]), sram.load(V[keys]))
        sram.store(O[rows], o)


@right("6.4")
def keys_backwards(sram, Q, K, V, S, P, O, block_q, block_k):
    n_queries, n_keys = S.shape
    for i in range(0, n_queries, block_q):
        q = sram.load(Q[i : i + block_q])
        for j in reversed(range(0, n_keys, block_k)):
            s = sram.zeros((len(q), min(block_k, n_keys - j)))
            sram.accumulate(s, q, sram.load(K[j : j + block_k]).T)
            s *= 1 / math.sqrt(Q.shape[1])
            sram.store(S[i : i + block_q, j : j + block_k], s)
            del s
    for i in reversed(range(n_queries)):
        s = sram.load(S[i])
        s = np.exp(s - s.max())
        s = s / s.sum()
        sram.store(P[i], s)
    for i in reversed(range(0, n_queries, block_q)):
        o = None
        for j in range(0, n_keys, block_k):
            p, v = sram.load(P[i : i + block_q, j : j + block_k]), sram.load(V[j : j + block_k])
            o = p @ v if o is None else o + p @ v
        sram.store(O[i : i + block_q], o)


def scores(sram, Q, K, S, block_q, block_k, scale):
    for i in range(0, S.shape[0], block_q):
        q = sram.load(Q[i : i + block_q])
        for j in range(0, S.shape[1], block_k):
            k = sram.load(K[j : j + block_k])
            sram.store(S[i : i + block_q, j : j + block_k], scale * (q @ k.T))


def probabilities(sram, S, P):
    for i in range(S.shape[0]):
        s = sram.load(S[i])
        s = np.exp(s - s.max())
        sram.store(P[i], s / s.sum())


def outputs(sram, P, V, O, block_q, block_k):
    for i in range(0, P.shape[0], block_q):
        o = sram.zeros(O[i : i + block_q].shape)
        for j in range(0, P.shape[1], block_k):
            p, v = sram.load(P[i : i + block_q, j : j + block_k]), sram.load(V[j : j + block_k])
            sram.accumulate(o, p, v)
        sram.store(O[i : i + block_q], o)


@right("6.4")
def three_functions(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="not scaled")
def forgets_the_scale(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1)
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="scaled twice")
def scales_by_d(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / Q.shape[1])
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="no maximum subtracted")
def exp_of_the_scores(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    for i in range(S.shape[0]):
        s = np.exp(sram.load(S[i]))
        sram.store(P[i], s / s.sum())
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="loops the other way")
def keys_outside(sram, Q, K, V, S, P, O, block_q, block_k):
    for j in range(0, S.shape[1], block_k):
        k = sram.load(K[j : j + block_k])
        for i in range(0, S.shape[0], block_q):
            q = sram.load(Q[i : i + block_q])
            sram.store(S[i : i + block_q, j : j + block_k], q @ k.T / np.sqrt(Q.shape[1]))
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="Q loaded again")
def loads_q_inside(sram, Q, K, V, S, P, O, block_q, block_k):
    for i in range(0, S.shape[0], block_q):
        for j in range(0, S.shape[1], block_k):
            q = sram.load(Q[i : i + block_q])
            k = sram.load(K[j : j + block_k])
            sram.store(S[i : i + block_q, j : j + block_k], q @ k.T / np.sqrt(Q.shape[1]))
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="O stored too often")
def adds_up_o_off_chip(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    probabilities(sram, S, P)
    for i in range(0, S.shape[0], block_q):
        for j in range(0, S.shape[1], block_k):
            p, v = sram.load(P[i : i + block_q, j : j + block_k]), sram.load(V[j : j + block_k])
            o = p @ v
            if j:
                o += sram.load(O[i : i + block_q])
            sram.store(O[i : i + block_q], o)


@wrong("6.4", cause="a pass left out")
def fuses_the_last_two(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    for i in range(S.shape[0]):
        s = sram.load(S[i])
        s = np.exp(s - s.max())
        p = s / s.sum()
        sram.store(P[i], p)
        o = sram.zeros(O.shape[1])
        for j in range(0, S.shape[1], block_k):
            o += p[j : j + block_k] @ sram.load(V[j : j + block_k])
        sram.store(O[i], o)


@wrong("6.4", cause="keys come by too often")
def values_for_every_row(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    probabilities(sram, S, P)
    outputs(sram, P, V, O, 1, block_k)


@wrong("6.4", cause="P stored into S")
def overwrites_the_scores(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    probabilities(sram, S, S)
    outputs(sram, S, V, O, block_q, block_k)


@wrong("6.4", cause="softmax of a piece")
def softmax_block_by_block(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    for i in range(S.shape[0]):
        for j in range(0, S.shape[1], block_k):
            s = sram.load(S[i, j : j + block_k])
            s = np.exp(s - s.max())
            sram.store(P[i, j : j + block_k], s / s.sum())
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="scores whole on chip")
def forms_s_on_chip(sram, Q, K, V, S, P, O, block_q, block_k):
    s = sram.zeros(S.shape)
    for i in range(0, S.shape[0], block_q):
        q = sram.load(Q[i : i + block_q])
        for j in range(0, S.shape[1], block_k):
            s[i : i + block_q, j : j + block_k] = q @ sram.load(K[j : j + block_k]).T
    sram.store(S, s)
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="across uncounted")
def forms_s_in_a_plain_array(sram, Q, K, V, S, P, O, block_q, block_k):
    s = np.zeros(S.shape)
    for i in range(0, S.shape[0], block_q):
        q = sram.load(Q[i : i + block_q])
        for j in range(0, S.shape[1], block_k):
            s[i : i + block_q, j : j + block_k] = q @ sram.load(K[j : j + block_k]).T


@wrong("6.4", cause="a matrix whole on chip")
def loads_k_whole(sram, Q, K, V, S, P, O, block_q, block_k):
    k = sram.load(K)
    for i in range(0, S.shape[0], block_q):
        q = sram.load(Q[i : i + block_q])
        sram.store(S[i : i + block_q], q @ k.T / np.sqrt(Q.shape[1]))
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="last blocks missing")
def drops_the_last_block(sram, Q, K, V, S, P, O, block_q, block_k):
    scale = 1 / np.sqrt(Q.shape[1])
    for i in range(S.shape[0] // block_q):
        q = sram.load(Q[i * block_q : (i + 1) * block_q])
        for j in range(S.shape[1] // block_k):
            k = sram.load(K[j * block_k : (j + 1) * block_k])
            window = S[i * block_q : (i + 1) * block_q, j * block_k : (j + 1) * block_k]
            sram.store(window, q @ k.T * scale)
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="memory out of sight")
def keeps_the_scores_as_numbers(sram, Q, K, V, S, P, O, block_q, block_k):
    kept = []
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    for i in range(S.shape[0]):
        s = sram.load(S[i])
        kept.extend(float(x) for x in s[::8])
        s = np.exp(s - s.max())
        sram.store(P[i], s / s.sum())
    outputs(sram, P, V, O, block_q, block_k)


@right("6.4")
def two_rows_at_a_time(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    for i in range(0, S.shape[0], 2):
        s = sram.load(S[i : i + 2])
        s = np.exp(s - s.max(axis=1, keepdims=True))
        sram.store(P[i : i + 2], s / s.sum(axis=1, keepdims=True))
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="block_k for queries")
def exchanges_the_blocks(sram, Q, K, V, S, P, O, block_q, block_k):
    scores(sram, Q, K, S, block_k, block_q, 1 / np.sqrt(Q.shape[1]))
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_k, block_q)


@wrong("6.4", cause="keys cut off")
def as_many_keys_as_queries(sram, Q, K, V, S, P, O, block_q, block_k):
    n = len(Q)
    scores(sram, Q, K[:n], S[:, :n], block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    probabilities(sram, S[:, :n], P[:, :n])
    outputs(sram, P[:, :n], V[:n], O, block_q, block_k)


@wrong("6.4", cause="array of its own")
def weights_in_an_array_of_their_own(sram, Q, K, V, S, P, O, block_q, block_k):
    weights = sram.hbm.empty(S.shape)
    scores(sram, Q, K, S, block_q, block_k, 1 / np.sqrt(Q.shape[1]))
    for i in range(S.shape[0]):
        s = sram.load(S[i])
        sram.store(weights[i], np.exp(s - s.max()))
    for i in range(S.shape[0]):
        e = sram.load(weights[i])
        sram.store(P[i], e / e.sum())
    outputs(sram, P, V, O, block_q, block_k)


@wrong("6.4", cause="memory out of sight")
def keeps_all_keys_in_a_plain_array(sram, Q, K, V, S, P, O, block_q, block_k):
    keys = np.empty(K.shape)
    for i in range(0, S.shape[0], block_q):
        q = sram.load(Q[i : i + block_q])
        for j in range(0, S.shape[1], block_k):
            k = sram.load(K[j : j + block_k])
            keys[j : j + block_k] = np.fromiter(k.ravel(), float).reshape(k.shape)
            sram.store(S[i : i + block_q, j : j + block_k], q @ k.T / np.sqrt(Q.shape[1]))
    probabilities(sram, S, P)
    outputs(sram, P, V, O, block_q, block_k)
