# %% [markdown]
# # 07 FlashAttention: the square that never leaves the chip
#
# Attention compares every query with every key. That makes a square of numbers, and
# standard attention sends the square to the large memory and back, more than once. In
# this lesson you write an attention that never forms it: first as it was published (Dao
# et al. 2022), then in the better order of its loops, then causal, then backward. What
# you are graded on is what a GPU would wait for: the bytes that cross. (L12-53, E5-75
# to E5-81, E5-84, GN-25 to GN-27, GN-30, listed in `docs/figures.md`.)
#
# Five exercises, 16 points. Core: the first four, 12 points, about 110 minutes with the
# reading. From lesson 05 you need the online softmax, from lesson 06 the memory that
# counts.

# %%
import math

import numpy as np

from course_utils import check, measured, needs, predict, progress
from course_utils.flash_plots import printed_and_counted, tiles_in_time, traffic_law
from course_utils.hierarchy import HBM, SRAM
from course_utils.plots import growth

MB = 10**6
rng = np.random.default_rng(7)

# %% [markdown]
# ## A square that does not fit
#
# One set of notes begins with an attempt (GN-30): load all of Q and K into the fast
# memory of a streaming multiprocessor, and form the $N \times N$ scores there. In half
# precision they take $2N^2$ bytes:

# %%
for n in (500, 1000, 4000):
    print(f"N = {n:,}: {2 * n * n / MB:4.1f} MB")
print(f"108 multiprocessors of 192 KiB: {108 * 192 * 1024 / MB:.1f} MB")

# %% [markdown]
# The notes set these against 20 to 40 MB for a multiprocessor. That is what the *whole
# chip* of an A100 has: 21 MB in its 108 multiprocessors together, and 40 MB of cache
# behind them. One of them has 192 KiB.
#
# **Predict**: up to which $N$ does the square alone fit into 192 KiB?

# %%
predict("7.a", 313, unit="queries")

# %%
measured("7.a", math.isqrt(192 * 1024 // 2))

# %% [markdown]
# A few hundred tokens, with room for nothing else. So the square goes to HBM, which is
# large and slow (E5-75), and that is standard attention (E5-78): S is written, read for
# the softmax, P is written, read for the product with V. You have written it in lesson
# 06, and its traffic as a formula; here it is again, in the sizes that stay with us.
# Our simulated chip has room for as many numbers as 192 KiB hold in half precision.

# %%
CHIP = 192 * 1024 // 2  # numbers
N, D = 1024, 64


def standard_numbers(n, d, block_q):
    """Numbers that Algorithm 0 moves: S out and in, P out and in; Q, K, V and O."""
    return 4 * n * n + 2 * n * d + 2 * math.ceil(n / block_q) * n * d


moved = standard_numbers(N, D, block_q=256)
print(f"room on chip: {CHIP:,} numbers; standard attention moves {moved:,}")
print(f"of these S and P: {4 * N * N / moved:.0%}")
print(f"Q, K, V and O, once each: {4 * N * D:,}")

# %% [markdown]
# Almost all of the traffic is a matrix that nobody asked for. Who wants attention wants
# O.
#
# ## Algorithm 1
#
# Lesson 05 has what is needed to avoid it: a softmax can be taken block by block, if
# three things are kept for each query: the largest score so far $m$, the sum $\ell$ of
# $e^{s - m}$, and the output $O$ so far. A block of keys and values then changes them
# like this. With $S = \frac{1}{\sqrt d}\, Q_i K_j^\top$, row by row,
#
# $$m' = \max(m,\, \text{rowmax}\, S), \qquad P = e^{S - m'}, \qquad
# \ell' = e^{m - m'}\, \ell + \text{rowsum}\, P, \qquad
# O' = \frac{e^{m - m'}\, \ell\; O + P\,V_j}{\ell'} .$$
#
# FlashAttention is this step, for a *block* of queries at a time (E5-79, E5-80):
#
# | | |
# |---|---|
# | 1 | choose block sizes; in HBM $O = 0$, $\ell = 0$, $m = -\infty$ |
# | 2 | for each block of keys: load $K_j$, $V_j$ |
# | 3 | $\quad$ for each block of queries: load $Q_i$, $O_i$, $\ell_i$, $m_i$ |
# | 4 | $\qquad$ the step above |
# | 5 | $\qquad$ store $O_i$, $\ell_i$, $m_i$ |
#
# The printed form takes the exponentials against the block's own maximum first and
# corrects them by a factor afterwards. That is the same, and one factor more to forget.
#
# Two slips in the notes, before they cost you an hour. The summary in L12-53 updates
# "$O_j$": the running output belongs to the *queries'* block, so it is $O_i$. And one
# slide of E5-81 has lost $\ell_i$ in the new sum and $O_i$ in the new output. After the
# exercise we shall see what that gives.
#
# ### How large may a block be?
#
# Line 1 prints sizes for a chip of $M$ numbers: $B_c = \lceil M / 4d \rceil$ keys and
# $B_r = \min(\lceil M / 4d \rceil, d)$ queries.

# %%
def printed_blocks(numbers, d):
    """(block_q, block_k) of Algorithm 1, line 1."""
    block_k = math.ceil(numbers / (4 * d))
    return min(block_k, d), block_k


for d in (32, 64, 128):
    print(f"d = {d:3}: {printed_blocks(CHIP, d)}")

# %% [markdown]
# The idea: K, V, Q and O are four tiles, and each may take a quarter of the chip.
#
# **Predict**: at $d = 128$, how many per cent of the chip do the tiles of Q, K, V, O
# *and S* take?

# %%
predict("7.b", 108, unit="per cent")

# %%
def share(block_q, block_k, d):
    """Per cent of the chip that tiles of Q, O, K, V and S take."""
    return 100 * (2 * block_q * d + 2 * block_k * d + block_q * block_k) / CHIP


for d in (32, 64, 128):
    print(f"d = {d:3}: {share(*printed_blocks(CHIP, d), d):5.1f} %")
measured("7.b", round(share(*printed_blocks(CHIP, 128), 128)))

# %% [markdown]
# As printed, S has no room in the account, and at $d = 128$ it does not fit. (The
# paper's sizes are there for the analysis, which drops constants; a kernel chooses its
# own.) And NumPy needs more than these five: each temporary of an expression is on our
# chip too. So the exercise takes *half* of both sizes. That leaves room for plain code.

# %%
def half_blocks(numbers, d):
    block_q, block_k = printed_blocks(numbers, d)
    return max(1, block_q // 2), max(1, block_k // 2)


def blocks(size, block):
    """Slices that cover a size: the last one may be smaller."""
    return (slice(i, min(i + block, size)) for i in range(0, size, block))


print([(s.start, s.stop) for s in blocks(10, 4)])

# %% [markdown]
# ### Exercise 7.1 - Algorithm 1, forward - 4 points, hard, 30 min
#
# Write the table above on the memory that counts.
#
# - in HBM: `Q` (n_queries, d); `K`, `V` (n_keys, d); `O` (n_queries, d), zeros;
#   `row_sums` (n_queries,), zeros; `row_maxima` (n_queries,), $-\infty$; all float64;
# - `block_q`, `block_k`: block sizes. They need not divide anything;
# - afterwards `O` is the attention output, `row_maxima` each row's largest score,
#   `row_sums` each row's sum of $e^{s - m}$. Return nothing.
#
# **Budget**: on a chip of 196,608 bytes (24,576 numbers), for d = 32, blocks of 16
# queries and 96 keys, any n. What is read and written is what the table says: each
# block of K and V crosses once, Q, O and the two vectors come by once for each of them.
# What is on chip must not grow with n.

# %%
def flash_keys_outside(
    sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k
) -> None:
    """Attention in O (n_queries, d), by Algorithm 1: the loop over keys is outside."""
    ### BEGIN SOLUTION
    scale = Q.shape[1] ** -0.5
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])  # (block_k, d)
        for rows in blocks(len(Q), block_q):
            q, o = sram.load(Q[rows]), sram.load(O[rows])  # (block_q, d)
            old_sum, old_max = sram.load(row_sums[rows]), sram.load(row_maxima[rows])

            s = scale * (q @ k.T)  # (block_q, block_k)
            new_max = np.maximum(old_max, s.max(axis=1))
            p = np.exp(s - new_max[:, None])
            kept = np.exp(old_max - new_max) * old_sum
            new_sum = kept + p.sum(axis=1)
            o = (kept[:, None] * o + p @ v) / new_sum[:, None]

            sram.store(O[rows], o)
            sram.store(row_sums[rows], new_sum)
            sram.store(row_maxima[rows], new_max)
    ### END SOLUTION


# %%
check("7.1", flash_keys_outside)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two loops, `for keys in blocks(len(K), block_k)` outside. Write the shape beside each
# line of the step; a vector (block_q,) becomes a column by `[:, None]`.
# </details>
#
# <details><summary>Hint 2</summary>
#
# What the outer loop loads stays for the whole inner loop. What the inner loop loads,
# it stores again before the next block of queries.
# </details>
#
# <details><summary>Hint 3</summary>
#
# The stored O is divided by its sum already. Multiplied by the old sum it is what was
# summed up before; multiplied by $e^{m - m'}$ as well, it counts against the new
# maximum.
# </details>

# %% [markdown]
# Run yours at our sizes. `run` puts random inputs into HBM and calls a program on a
# fresh chip.

# %%
ALGORITHM_1 = {"O": 0.0, "row_sums": 0.0, "row_maxima": -np.inf}


def run(program, n, d, outputs, *sizes, numbers=CHIP, record=False):
    """Call a program on random Q, K, V of (n, d): the HBM and the chip afterwards."""
    hbm = HBM()
    arrays = [hbm.array(rng.standard_normal((n, d)), name) for name in "QKV"]
    for name, start in outputs.items():
        shape = (n, d) if name == "O" else (n,)
        arrays.append(hbm.full(shape, start, name=name))
    with SRAM(8 * numbers, hbm, record=record) as sram:
        program(sram, *arrays, *sizes)
    return hbm, sram


# %%
with needs("7.1"):
    hbm, sram = run(flash_keys_outside, N, D, ALGORITHM_1, *half_blocks(CHIP, D))
    print(f"moved: {hbm.bytes_moved / 8:,.0f} numbers; standard attention: {moved:,}")
    print(f"most on chip: {sram.peak_bytes / 8:,.0f} numbers; the scores: {N * N:,}")

# %% [markdown]
# No square anywhere, and a fraction of the traffic. Here is the program at work, at a
# smaller size. Step through its first blocks of queries, and on to the second block of
# keys: which tiles stay, and what travels? (In the figure which stands for it on paper a
# box is a tile: its height says which rows it holds, its width how much was moved while
# it stayed on chip.)

# %%
from course_utils.widgets.tiles import step_through_flash, tiles_in_motion

with needs("7.1"):
    sizes = 32, 64
    _, chip = run(
        flash_keys_outside, 256, 16, ALGORITHM_1, *sizes, numbers=32_768, record=True
    )
    tiles_in_motion(chip, "keys outside (Algorithm 1)")

# %% [markdown]
# Each block of keys is loaded once and stays long. All the queries come by, again for
# each of them. (Where a tile is still there when the next is loaded, and boxes overlap:
# a name holds its value until it is given another.)
#
# And the slide with the lost factors (E5-81)? Taken literally, the new sum begins with
# $e^{m - m'}$ alone, and where $O_i$ should be there is nothing:

# %%
def literally(q, k, v, block_k):
    o, l, m = np.zeros(q.shape), np.zeros(len(q)), np.full(len(q), -np.inf)
    for keys in blocks(len(k), block_k):
        s = q @ k[keys].T / q.shape[1] ** 0.5
        new = np.maximum(m, s.max(axis=1))
        p, alpha = np.exp(s - new[:, None]), np.exp(m - new)
        new_sum = alpha + p.sum(axis=1)
        o = ((alpha * l)[:, None] + p @ v[keys]) / new_sum[:, None]
        l, m = new_sum, new
    return o


q, k, v = rng.standard_normal((3, 100, 16))
p = np.exp(q @ k.T / 4)
exact = p @ v / p.sum(axis=1, keepdims=True)
print(f"one block:   error {np.abs(literally(q, k, v, 100) - exact).max():.1e}")
print(f"four blocks: error {np.abs(literally(q, k, v, 25) - exact).max():.1f}")

# %% [markdown]
# With a single block it is exact, so a test with one block would have found nothing.
# The other slides print the step as you wrote it.

# %% [markdown]
# ## Its traffic
#
# The loops say what crosses, and how often. So it can be known without a run.

# %% [markdown]
# ### Exercise 7.2 - its traffic, as a formula - 2 points, easy, 10 min
#
# From sizes, return what Algorithm 1 reads and what it writes, in bytes, with 8 bytes a
# number. $O$, $\ell$ and $m$ are in HBM at the start (that is not counted) and are
# loaded in the first pass too. The last block of either kind may be smaller than the
# others.
#
# - five integers, at least 1; return a pair `(bytes read, bytes written)`, exact.
#
# (`course_utils.attention` has the formula. Derive yours first, and compare.)

# %%
def algorithm_1_traffic(n_queries, n_keys, d, block_q, block_k) -> tuple[int, int]:
    """Bytes that flash_keys_outside reads from HBM, and writes to it."""
    ### BEGIN SOLUTION
    passes = math.ceil(n_keys / block_k)
    read = 2 * n_keys * d + passes * n_queries * (2 * d + 2)
    written = passes * n_queries * (d + 2)
    return 8 * read, 8 * written
    ### END SOLUTION


# %%
check("7.2", algorithm_1_traffic)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take the lines of 7.1 with `load` and `store`, and write beside each how many numbers
# a call moves and how many calls there are. A loop over all blocks of Q, ragged or not,
# passes over n_queries rows.
# </details>
#
# <details><summary>Hint 2</summary>
#
# One of the five sizes does not appear in the result at all.
# </details>

# %%
with needs("7.1", "7.2"):
    for n, d, *sizes in [(1000, 64, 32, 192), (777, 50, 40, 100), (300, 128, 7, 90)]:
        hbm, _ = run(flash_keys_outside, n, d, ALGORITHM_1, *sizes)
        print((hbm.bytes_read, hbm.bytes_written), algorithm_1_traffic(n, n, d, *sizes))

# %% [markdown]
# A formula that agrees with a counter to the byte can be asked things. From here on the
# cells use the course's own, which agrees (`keys_outside_traffic`).
#
# **Predict**: half the chip, and blocks as printed for it. By which factor does
# Algorithm 1's traffic grow, at $N = 8192$, $d = 64$?

# %%
predict("7.c", 2, unit="times")

# %%
from course_utils.attention import keys_outside_traffic, queries_outside_traffic


def algorithm_1_numbers(n, d, numbers):
    sizes = printed_blocks(numbers, d)
    return keys_outside_traffic(n, n, d, *sizes).bytes_moved // 8


whole, half = (algorithm_1_numbers(8192, 64, m) for m in (CHIP, CHIP // 2))
print(f"{whole:,} numbers, {half:,} numbers")
passes = [math.ceil(8192 / printed_blocks(m, 64)[1]) for m in (CHIP, CHIP // 2)]
print(f"blocks of keys: {passes[0]}, {passes[1]}")
measured("7.c", half / whole)

# %% [markdown]
# Half the chip, half as many keys stay, twice as many passes: 43 in place of 22, since
# the last is not full, and K and V themselves cross once either way. Put the blocks
# into the formula: $N / B_c = 4Nd / M$ passes, each moves $3Nd$ numbers and a little.
# So
#
# $$\text{flash} \approx 3Nd \cdot \frac{4Nd}{M} = 12\,\frac{N^2 d^2}{M}, \qquad
# \text{standard} \approx 4N^2 + \dots$$
#
# The left is $O(N^2 d^2 / M)$, as on the slides (E5-84, GN-26). Both grow as $N^2$.
# What the chip buys is the factor $3d^2 / M$ between them, up to the terms left out.
# Here it is, beside the same ratio with every number counted:

# %%
for d in (64, 128, 181, 216, 256):
    ratio = algorithm_1_numbers(8192, d, CHIP) / standard_numbers(8192, d, 256)
    print(f"d = {d:3}: 3 d^2 / M = {3 * d * d / CHIP:.2f}, counted {ratio:.2f}")

# %% [markdown]
# So a head may not be too wide. The leading terms are equal at $d = 181$; in full, with
# the standard way's own passes over K and V, the two meet near 216.
#
# Is the law true of your program? It runs here for 27 combinations of n, d and M. (With
# half blocks there are twice as many passes: 24 in place of 12.) Then a plane is laid
# through the logarithms, and its slopes are the exponents.

# %%
with needs("7.1"):
    runs = []
    for n in (512, 768, 1024):
        for d in (16, 24, 32):
            for m in (8192, 12288, 16384):
                sizes = half_blocks(m, d)
                hbm, _ = run(flash_keys_outside, n, d, ALGORITHM_1, *sizes, numbers=m)
                runs.append((n, d, m, hbm.bytes_moved / 8))
    logs = np.log(runs)
    slopes = np.linalg.lstsq(np.c_[logs[:, :3], np.ones(27)], logs[:, 3])[0]
    print("exponents of n, d, M: {:.2f}, {:.2f}, {:.2f}".format(*slopes))
    traffic_law(runs, factor=24)

# %% [markdown]
# Two, two and minus one, nearly. What is missing is what the law leaves out: K and V
# themselves, sums and maxima, and a last pass that is not full. They weigh more where
# there are few passes: the points on the left lie above the line.

# %% [markdown]
# ## The other loop outside
#
# In Algorithm 1 the state of a query travels: out after every block of keys, in again
# for the next. Turn the loops round, and it stays: a block of queries is loaded, all
# the keys and values come by, and when the last has passed, O is final and is stored,
# once. That is FlashAttention-2's order (Dao 2023), and the one that its successors
# kept.
#
# **Predict**: with *the same blocks*, those that Algorithm 1 prints for our chip at
# $d = 64$, 64 queries and 384 keys, the program with the queries outside moves how many
# times as much as Algorithm 1? ($N = 1024$.)

# %%
predict("7.d", 3, unit="times as much")

# %%
sizes = printed_blocks(CHIP, D)
inside = keys_outside_traffic(N, N, D, *sizes).bytes_moved // 8
outside = queries_outside_traffic(N, N, D, *sizes).bytes_moved // 8
passes = [math.ceil(N / size) for size in sizes]
print(f"keys outside {inside:,}, queries outside {outside:,}")
print(f"blocks of queries: {passes[0]}, blocks of keys: {passes[1]}")
measured("7.d", outside / inside)

# %% [markdown]
# Three times *as much*. Was it a bad idea? No: the blocks are wrong for it. Now K and V
# come by once for each block of queries, and a block of 64 queries makes 16 of those.
# Algorithm 1 kept its *keys'* block large because that was the outer one.

# %% [markdown]
# ### Exercise 7.3 - queries outside - 3 points, medium, 20 min
#
# Write attention with the loop over queries outside, and choose both block sizes
# yourself, from `sram.capacity_bytes` and the shapes.
#
# - in HBM: `Q` (n_queries, d); `K`, `V` (n_keys, d); `O` (n_queries, d) and `logsumexp`
#   (n_queries,), without numbers as yet;
# - afterwards `O` is the output and `logsumexp` each row's $m + \log \ell$, that is
#   $\log \sum_j e^{s_j}$. Each row of both is stored once. (The backward pass will want
#   the logsumexp.) Return nothing.
#
# **Budget**: no more than Algorithm 1 moves on this chip, 786,432 bytes (98,304
# numbers), with its printed blocks:
#
# | n | d | bytes that may cross |
# |---|---|---|
# | 1,024 | 64 | 5,865,472 |
# | 512 | 128 | 5,816,320 |
# | 1,200 | 64 | 8,755,200 |
#
# The check tries your function on another chip too, of 65,536 bytes, with n = 256 and d
# = 16: there it need only fit, and be right.
#
# `sram.zeros(shape)` and `sram.full(shape, number)` make space on chip.
# `sram.accumulate(o, p, v)` does `o += p @ v` without a temporary, and `o *= column`
# works in place.

# %%
def flash_queries_outside(sram, Q, K, V, O, logsumexp) -> None:
    """Attention in O (n_queries, d), and logsumexp (n_queries,): queries outside."""
    ### BEGIN SOLUTION
    d = Q.shape[1]
    block_k = 8
    block_q = sram.capacity_bytes // 8 // (3 * d + 64)
    for rows in blocks(len(Q), block_q):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)  # (block_q, d)
        row_sum, row_max = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), block_k):
            k, v = sram.load(K[keys]), sram.load(V[keys])  # (block_k, d)
            s = d**-0.5 * (q @ k.T)  # (block_q, block_k)
            new_max = np.maximum(row_max, s.max(axis=1))
            p = np.exp(s - new_max[:, None])
            alpha = np.exp(row_max - new_max)
            row_sum = alpha * row_sum + p.sum(axis=1)
            o *= alpha[:, None]
            sram.accumulate(o, p, v)
            row_max = new_max
        o /= row_sum[:, None]
        sram.store(O[rows], o)
        sram.store(logsumexp[rows], row_max + np.log(row_sum))
        del q, o, s, p
    ### END SOLUTION


# %%
check("7.3", flash_queries_outside)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Here O need not be divided at every step: keep the plain sum of $P V$, rescaled when
# the maximum rises, and divide once, before the store.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Which block size decides how often K and V come by, and which only decides the room?
# Make one as large as the chip allows, and the other small.
# </details>
#
# <details><summary>Hint 3</summary>
#
# Count, for one row of the queries' block, the numbers that are on chip at the fullest
# moment: its q, its o, temporaries as long as these, a few rows of block_k scores, a
# few single numbers. The chip, divided by that, is your block. If it does not fit, the
# error names what is alive. A name from the last round of a loop keeps its value alive
# until it is assigned again, or `del`.
# </details>

# %%
QUERIES_OUTSIDE = {"O": np.nan, "logsumexp": np.nan}

with needs("7.3"):
    hbm, sram = run(flash_queries_outside, N, D, QUERIES_OUTSIDE)
    print(f"queries outside, your blocks: {hbm.bytes_moved / 8:,.0f} numbers moved")
    print(f"Algorithm 1, printed blocks:  {inside:,}")
    print(f"your order with those blocks: {outside:,}")

# %% [markdown]
# With blocks of its own this order moves less than Algorithm 1, and less than a third
# of what it moved with the blocks of the other. The same inputs, both ways round, each
# with blocks that suit it; the chip of the right picture is smaller, or all the queries
# would fit at once.

# %%
with needs("7.1", "7.3"):
    _, keys_first = run(flash_keys_outside, 256, 16, ALGORITHM_1, 32, 64, record=True)
    _, queries_first = run(
        flash_queries_outside, 256, 16, QUERIES_OUTSIDE, numbers=8192, record=True
    )
    titles = ["keys outside (Algorithm 1)", "queries outside"]
    tiles_in_time(keys_first, queries_first, titles=titles)

# %% [markdown]
# There is a second gain, which no counter of bytes shows: blocks of queries need
# nothing from each other, so each can go to a multiprocessor of its own. In Algorithm 1
# every block of keys must wait for the state that the one before has left.
#
# Now the three side by side, over the length of the sequence:

# %%
lengths = (512, 1024, 2048, 4096)
series = {
    "standard": [standard_numbers(n, D, 256) / 10**6 for n in lengths],
    "Algorithm 1": [algorithm_1_numbers(n, D, CHIP) / 10**6 for n in lengths],
}
with needs("7.3"):
    runs = [run(flash_queries_outside, n, D, QUERIES_OUTSIDE) for n in lengths]
    series["queries outside, yours"] = [hbm.bytes_moved / 8e6 for hbm, _ in runs]
growth(
    lengths, series, xlabel="n", ylabel="million numbers", title="Traffic, d = 64"
)

# %% [markdown]
# All three are nearly straight and parallel in the end (a last block that is not full
# bends them a little): all grow as $n^2$, and the blocks have moved the line down. What
# differs in kind is memory. Standard attention holds two squares in HBM; the others
# hold O and a number or two a row.

# %% [markdown]
# ## What a query may not see
#
# A language model's query may not see what comes after it. Query $i$ sees keys $0$ to
# $i$; the other scores are $-\infty$, and their exponentials $0$. Standard attention
# gains nothing from that: it computes and moves the whole square, and then paints over
# what is hidden. Blocks can do better. A block of keys that begins after the last query
# of a block is hidden from all of them, and need not be loaded.
#
# **Predict**: 16 blocks of queries, 16 blocks of keys, of the same size. How many per
# cent of the 256 pairs of blocks still need their keys loaded?

# %%
predict("7.e", 53, unit="per cent")

# %%
needed = sum(j <= i for i in range(16) for j in range(16))
print(f"{needed} of 256 pairs")
measured("7.e", 100 * needed / 256)

# %% [markdown]
# A little more than half: the blocks on the diagonal are half hidden, and are loaded.

# %% [markdown]
# ### Exercise 7.4 - causal, and no more than needed - 3 points, medium, 20 min
#
# Write causal attention, queries outside. This time the blocks are given, and need not
# be of one size.
#
# - `Q`, `K`, `V`, `O`, `logsumexp` as in 7.3, with as many queries as keys;
# - query i sees keys 0 to i;
# - `block_q`, `block_k`: the sizes of the blocks. Return nothing.
#
# **Budget**: a chip of 393,216 bytes. For each block of queries, K and V are read up to
# the block that holds the last key its last query sees, and no further.
#
# A plain array of indices beside on-chip values is refused if it is long:
# `sram.arange(start, stop)` makes them on chip.

# %%
def flash_causal(sram, Q, K, V, O, logsumexp, block_q, block_k) -> None:
    """Causal attention in O (n, d), and logsumexp (n,), by given blocks."""
    ### BEGIN SOLUTION
    scale = Q.shape[1] ** -0.5
    for rows in blocks(len(Q), block_q):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        row_sum, row_max = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        query = sram.arange(rows.start, rows.stop)[:, None]
        for keys in blocks(len(K), block_k):
            if keys.start >= rows.stop:
                break  # hidden from every query of the block, as are all that follow
            k, v = sram.load(K[keys]), sram.load(V[keys])
            s = scale * (q @ k.T)
            s[sram.arange(keys.start, keys.stop)[None, :] > query] = -np.inf
            new_max = np.maximum(row_max, s.max(axis=1))
            p = np.exp(s - new_max[:, None])
            alpha = np.exp(row_max - new_max)
            row_sum = alpha * row_sum + p.sum(axis=1)
            o *= alpha[:, None]
            sram.accumulate(o, p, v)
            row_max = new_max
        o /= row_sum[:, None]
        sram.store(O[rows], o)
        sram.store(logsumexp[rows], row_max + np.log(row_sum))
    ### END SOLUTION


# %%
check("7.4", flash_causal)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two things are new against 7.3: when the inner loop ends, and which scores of a block
# become $-\infty$.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Compare positions in the sequence, not numbers of blocks: `rows.start`, `rows.stop`,
# `keys.start`, `keys.stop`. `key > query` with a row of keys and a column of queries is
# a whole tile of booleans.
# </details>

# %% [markdown]
# One thing could have gone wrong, and does in many first versions: a row in which every
# score so far is hidden has the maximum $-\infty$, and $-\infty - (-\infty)$ is no
# number. Why not here? Key 0 is visible to every query, and it comes first. (A program
# that meets such rows needs a rule. The course's oracle, `dense_attention`, says: a
# query that sees nothing has the output 0 and the logsumexp $-\infty$.)

# %%
with needs("7.4"):
    for block in (16, 64, 256):
        hbm, _ = run(flash_causal, N, D, QUERIES_OUTSIDE, block, block, numbers=10**7)
        whole = queries_outside_traffic(N, N, D, block, block).bytes_read
        print(f"blocks of {block:3}: {hbm.bytes_read / whole:.1%} of all blocks' reads")

# %% [markdown]
# Small blocks follow the diagonal closely, but make more passes. How the two are
# balanced is a matter of the machine; lesson 08 measures it. In the picture of the
# tiles, each block of queries now has its keys come by a little further, and of the
# square only the blocks down to the diagonal are ever formed:

# %%
with needs("7.4"):
    sizes = 32, 32
    _, chip = run(
        flash_causal, 256, 16, QUERIES_OUTSIDE, *sizes, numbers=16_384, record=True
    )
    whole = queries_outside_traffic(256, 256, 16, *sizes, causal=True)
    tiles_in_motion(chip, "causal, queries outside", whole)

# %% [markdown]
# And now all of it to choose from: either loop outside, with a mask or without, blocks
# and chip as you like. These runs were recorded beforehand, on 48 queries and keys.
#
# Take the chip of 16,384 bytes, without a mask, and look for the blocks with which each
# order moves least. Which of the two blocks would you make the larger one? Say so
# first, then try. Blocks that do not fit count for nothing, however little they would
# move.

# %%
step_through_flash()

# %% [markdown]
# The block of the loop *outside* is the one to make large: it decides how often the
# others come by. The other block has only to fit.

# %% [markdown]
# ## A famous measurement, recounted
#
# Two sets of notes show the same table from the paper (GN-27, E5-77): GPT-2 medium,
# forward and backward, on an A100.
#
# | | standard | FlashAttention |
# |---|---|---|
# | GFLOPs | 66.6 | 75.2 |
# | HBM reads and writes, GB | 40.3 | 4.4 |
# | runtime, ms | 41.7 | 7.3 |
#
# The paper's caption has what the notes leave out: $N = 1024$, $d = 64$, 16 heads, a
# batch of 64, in half precision. So it can be counted. First the standard way: which
# matrices cross, with a mask, dropout and the backward pass? Here is a list, in
# matrices of $N^2$ and of $Nd$. (Dropout also stores which scores it dropped, a byte
# each: half a matrix.)

# %%
standard_passes = {  # step: (N x N matrices, N x d matrices) that cross
    "S = Q K^T": (1, 2),
    "mask": (2, 0),
    "P = softmax(S)": (2, 0),
    "dropout": (2.5, 0),
    "O = P V": (1, 2),
    "dV = P^T dO": (1, 2),
    "dP = dO V^T": (1, 2),
    "dropout, backward": (2.5, 0),
    "dS, from P and dP": (3, 0),
    "dQ = dS K": (1, 2),
    "dK = dS^T Q": (1, 2),
}

# %%
HEADS, HALF = 16 * 64, 2  # heads of the whole batch; bytes of a number
squares, slabs = (sum(column) for column in zip(*standard_passes.values()))
standard_gb = (squares * N * N + slabs * N * D) * HEADS * HALF / 10**9
print(f"{squares:g} N^2 + {slabs:g} N d numbers a head: {standard_gb:.2f} GB")

# %% [markdown]
# That is the printed 40.3. (The paper does not print its own list; this is one that
# gives the number.)
#
# FlashAttention: forward, K and V once and $3Nd$ for each of $T$ blocks of keys;
# backward, K, V, dK and dV once, and for each block Q, O, dO and dQ in and dQ out,
# which makes $5Nd$. Sums and maxima left out, $(6 + 8T)\,Nd$ in all. What is $T$? The
# printed $B_c$ for 192 KiB makes 3 blocks. A kernel likes powers of two: blocks of 256
# make 4.

# %%
flash_gb = {T: (6 + 8 * T) * N * D * HEADS * HALF / 10**9 for T in (3, 4)}
for T, gb in flash_gb.items():
    print(f"T = {T}: {gb:.2f} GB, {standard_gb / gb:.1f} times less")
print(f"printed: 4.4 GB, {40.3 / 4.4:.2f} times less")

# %% [markdown]
# The printed 4.4 lies between, and so does the ratio of 9. "About nine times fewer
# accesses" (GN-26) is a fact about one size, one chip and one kernel. The law says how
# it changes with each.
#
# The GFLOPs can be counted as well. A product of $(N, d)$ and $(d, N)$ takes $2N^2d$
# operations. Standard attention makes two forward and four backward; FlashAttention
# makes one more, since it forms S again.

# %%
products = {"standard": 6, "FlashAttention": 7}
gflops = {name: 2 * N * N * D * n * HEADS / 10**9 for name, n in products.items()}
print({name: round(value, 1) for name, value in gflops.items()})
print(f"counted: {7 / 6 - 1:+.1%}, printed: {75.2 / 66.6 - 1:+.1%}")
print(f"runtime, printed: {41.7 / 7.3:.1f} times less")
entries = HEADS * N * N
print(f"an entry of S: printed {66.6e9 / entries:.0f} operations, counted {12 * D}")

# %%
printed_and_counted(
    {
        "HBM traffic, GB": {
            "standard, printed": (40.3, True),
            "standard, counted": (standard_gb, False),
            "flash, printed": (4.4, True),
            "flash, counted, T = 3": (flash_gb[3], False),
            "flash, counted, T = 4": (flash_gb[4], False),
        },
        "GFLOPs": {
            "standard, printed": (66.6, True),
            "standard, counted": (gflops["standard"], False),
            "flash, printed": (75.2, True),
            "flash, counted": (gflops["FlashAttention"], False),
        },
    }
)

# %% [markdown]
# The traffic fits the caption. The operations do not, by more than a factor of ten: 62
# an entry of S are fewer than the 128 that a single product of width 64 takes, so the
# two rows do not describe the same amount of work. But their *ratio* is nearly right,
# and it says that FlashAttention does *more* arithmetic, not less. A slide that has it
# improving flops, and its tiling reducing computation (E5-76), has it the wrong way
# round. It computes S twice in order not to move it, and is faster for that: from 41.7
# to 7.3 ms is a factor of 5.7. The runtimes need a GPU; lesson 08 has one.

# %% [markdown]
# ## Backward, without the square
#
# Training needs gradients, and the formulas for them want P, all of it:
#
# $$dV = P^\top dO, \qquad dP = dO\, V^\top, \qquad dS = P \circ (dP - D), \qquad
# dQ = \tfrac{1}{\sqrt d}\, dS\, K, \qquad dK = \tfrac{1}{\sqrt d}\, dS^\top Q,$$
#
# with one number $D_i = \sum_j P_{ij}\, dP_{ij}$ for each row. To keep P from the
# forward pass would be to keep the square after all. But any tile of it can be formed
# again, from tiles of Q and K and one number a row:
#
# $$P_{ij} = e^{S_{ij} - \text{logsumexp}_i}.$$
#
# It comes out normalized at once, which is why the forward pass stored the logsumexp.
# And $D$ seems to need a whole row of P, but
#
# $$\textstyle\sum_j P_{ij}\, dP_{ij} = \sum_j P_{ij} \sum_c dO_{ic} V_{jc} =
# \sum_c dO_{ic}\, O_{ic} ,$$
#
# and O is there. This is lesson 03's exchange: what was to be kept is computed again.
# There it cost time and saved memory. Here it saves time too, because the traffic cost
# more than the arithmetic (GN-25).

# %% [markdown]
# ### Exercise 7.5 - backward, by forming P again - 4 points, hard, 40 min, optional
#
# Write the backward pass, for attention that is not causal. Which loop is outside, and
# whether there is one pass or two, is yours to decide, within the budget.
#
# - in HBM: `Q`, `O`, `dO` (n_queries, d); `K`, `V` (n_keys, d); `logsumexp`
#   (n_queries,); `dQ`, `dK`, `dV`, zeros, shaped as Q, K, V; all float64;
# - `block_q`, `block_k`: the sizes of the blocks, which may differ. Return nothing.
#
# **Budget**: a chip of 196,608 bytes, 24 tiles of 32 x 32, for d = 32 and blocks of 32;
# traffic of at most $8nd + 2nd\,T_q + n(3d + 2)\,T_k$ numbers for n queries and keys,
# in $T_q$ blocks of queries and $T_k$ of keys: 11,392,000 bytes for n = 500. Not every
# order of the loops keeps within that: count before you write. (You may make a vector
# of your own in HBM, `sram.hbm.zeros(n)`.) What is on chip must not grow with n.

# %%
def flash_backward(
    sram, Q, K, V, O, dO, logsumexp, dQ, dK, dV, block_q, block_k
) -> None:
    """dQ, dK, dV for a loss whose derivative for O is dO, without storing P."""
    ### BEGIN SOLUTION
    scale = Q.shape[1] ** -0.5
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        dk, dv = sram.zeros(k.shape), sram.zeros(v.shape)
        for rows in blocks(len(Q), block_q):
            q, do = sram.load(Q[rows]), sram.load(dO[rows])
            lse = sram.load(logsumexp[rows])
            row_dot = (do * sram.load(O[rows])).sum(axis=1)  # D

            p = np.exp(scale * (q @ k.T) - lse[:, None])
            sram.accumulate(dv, p.T, do)
            ds = scale * p * (do @ v.T - row_dot[:, None])
            sram.accumulate(dk, ds.T, q)

            dq = sram.load(dQ[rows])
            sram.accumulate(dq, ds, k)
            sram.store(dQ[rows], dq)
        sram.store(dK[keys], dk)
        sram.store(dV[keys], dv)
    ### END SOLUTION


# %%
check("7.5", flash_backward)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Each pair of blocks adds to three things: to dV and dK of its keys, to dQ of its
# queries. With the keys outside, two of them stay on chip, and one goes through HBM, as
# O did in 7.1.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Five products a pair: $S$, $P^\top dO$, $dO\,V^\top$, $dS\,K$, $dS^\top Q$.
# </details>

# %% [markdown]
# The check compares with the formulas. Here are two witnesses who know nothing of them:
# differences, and torch.

# %%
import torch


def gradients(q, k, v, do, block=16):
    """dQ, dK, dV by your two programs, for the loss sum(O * do)."""
    hbm = HBM()
    Q, K, V, dO = (hbm.array(x) for x in (q, k, v, do))
    O, dQ, dK, dV = (hbm.zeros(x.shape) for x in (q, q, k, v))
    L = hbm.zeros(len(q))
    with SRAM(8 * CHIP, hbm) as sram:
        flash_queries_outside(sram, Q, K, V, O, L)
        flash_backward(sram, Q, K, V, O, dO, L, dQ, dK, dV, block, block)
    return O.numpy(), dQ.numpy(), dK.numpy(), dV.numpy()


# %%
with needs("7.3", "7.5"):
    q, k, v, do = rng.standard_normal((4, 50, 8))
    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    o = torch.nn.functional.scaled_dot_product_attention(*tensors)
    theirs = torch.autograd.grad(o, tensors, torch.from_numpy(do))
    _, *mine = gradients(q, k, v, do)
    for name, ours, their in zip(("dQ", "dK", "dV"), mine, theirs):
        worst = np.abs(ours - their.numpy()).max()
        print(f"{name}: off torch's by {worst:.0e} at most")

    step = np.zeros_like(k)
    step[3, 5] = 1e-5
    up, down = (gradients(q, k + h, v, do)[0] for h in (step, -step))
    slope = ((up - down) * do).sum() / 2e-5
    print(f"dK[3, 5]: by differences {slope:.8f}, yours {mine[1][3, 5]:.8f}")

# %% [markdown]
# ## What to take along
#
# FlashAttention computes the attention you know, to the last digits, with one product
# more in the backward pass. It wins because what does not leave the chip costs no
# traffic, and the square was nearly all of the traffic. Its law is $N^2 d^2 / M$: the
# square is still there, as work and as traffic, but divided by what the chip can hold.
#
# The order of two loops and the sizes of two blocks decided a factor of three to four
# between programs with the same values. Which state stays and which one travels is the
# question to ask of any blocked algorithm: in the forward pass keep the queries' state,
# and let the keys come by.
#
# On a GPU, blocks become thread blocks and our counted chip becomes shared memory and
# registers. Lesson 08 writes the same two loops there, and a clock measures them.

# %% [markdown]
# ### In your own words 7.w
#
# In the middle of a row, FlashAttention meets a block of keys with a score above all
# before it. Explain in two sentences why the blocks that went before need not be read
# again, and what is done to the running output instead.
#
# (No check reads this one: a person does.)

# %% [markdown] written="7.w"
# All earlier weights were taken relative to the old maximum, so relative to the new one
# they are all too large by one and the same factor, the exponential of the new maximum
# minus the old. Output and sum are sums of such weights, so multiplying both by that
# factor's inverse puts everything right at once.

# %%
progress()
