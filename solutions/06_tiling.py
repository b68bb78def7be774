# %% [markdown]
# # 06 Tiling: use a byte before you let it go
#
# So far you counted bytes that are *held*. From here on you count bytes that are
# *moved*: between a large memory, where the matrices lie, and a small one, where
# anything is computed. Two programs with the same operations and the same result can
# differ in this many times over, and it shows on the clock.
#
# You will see first why that is so, on your own processor. Then you get a memory that
# counts every byte that crosses, and write a matrix product and an attention for it (CS
# 577, lecture 12, L12-44 to L12-48, and the notes GN; all figures are listed in
# `docs/figures.md`).
#
# Core: four exercises, 13 points, about 95 minutes with the reading.

# %%
import math
from timeit import repeat

import numpy as np

from course_utils import check, measured, needs, predict, progress
from course_utils.hardware import machine_name
from course_utils.plots import growth

rng = np.random.default_rng(6)

# %% [markdown]
# ## Two rates
#
# Moving data is expensive, the lecture says (L12-03). Expensive compared to what? A
# processor has two rates: so many operations a second, and so many bytes a second from
# and to its memory. What counts is their ratio.
#
# **Predict**: while one byte crosses between your processor and its memory, how many
# operations could all of its cores do? (In float32, where it is at its best.)

# %%
predict("6.a", 4, unit="operations")

# %% [markdown]
# For the one rate we take two jobs that do little but move: a copy, and a matrix times
# a vector, which reads each number for a single multiplication. For the other, a job
# that does little but compute. Of each we take the best of several runs.


# %%
def best_seconds(job, runs=10):
    return min(repeat(job, number=1, repeat=runs))


matrix = np.ones((8192, 4096), dtype=np.float32)
upper, lower = matrix[:4096], matrix[4096:]
copy_seconds = best_seconds(lambda: np.copyto(upper, lower))  # reads and writes half
read_seconds = best_seconds(lambda: matrix @ matrix[0])
bytes_per_second = matrix.nbytes / min(copy_seconds, read_seconds)

x, y, z = np.ones((3, 1024, 1024), dtype=np.float32)
flops_per_second = 2 * 1024**3 / best_seconds(lambda: np.matmul(x, y, out=z))

# %%
balance = flops_per_second / bytes_per_second
print(f"{flops_per_second / 1e9:.0f} billion operations a second")
print(f"{bytes_per_second / 1e9:.0f} billion bytes a second, on {machine_name()}")
measured("6.a", balance)

# %% [markdown]
# This is the machine's *balance*. A number in float32 has four bytes, so a job that
# does fewer than four times this many operations with each number that crosses leaves
# the cores waiting.
#
# On a GPU it is much larger. The notes take an A100's data sheet (GN-14):

# %%
a100_flops, a100_bytes = 312e12, 1935e9  # a second: fp16 on tensor cores, HBM (PCIe)
a100_balance = a100_flops / a100_bytes
print(f"A100: {a100_balance:.1f} operations a byte")

# %% [markdown]
# (They print "19356 Bytes" where 1935 GB a second is meant. The quotient, 161, is
# right.)
#
# A job has such a ratio, too: its operations, divided by the bytes it moves. That is
# its **arithmetic intensity** (GN-13). A job whose intensity is below the machine's
# balance is *memory bound*: bandwidth decides how long it takes. Above it, the job is
# *compute bound*. So before asking how fast a job is, ask what its intensity is.

# %% [markdown]
# ### Exercise 6.1 - what a product costs - 2 points, easy, 5 min
#
# For $C = AB$ with shapes $(m, k)\,(k, n)$, return two numbers, in this order:
#
# - `flops`: the operations, a multiplication and an addition for each of the $mnk$
#   pairs that are multiplied;
# - `moved_bytes`: the bytes that cross if each of the three matrices crosses exactly
#   once, at `itemsize` bytes a number.


# %%
def matmul_cost(m: int, n: int, k: int, itemsize: int) -> tuple[int, int]:
    """(flops, moved_bytes) of (m, k) times (k, n), each matrix moved once."""
    ### BEGIN SOLUTION
    flops = 2 * m * n * k
    moved_bytes = itemsize * (m * k + k * n + m * n)
    return flops, moved_bytes
    ### END SOLUTION


# %%
check("6.1", matmul_cost)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# An element of $C$ is a sum of $k$ products. How many elements has $C$?
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two of the matrices are read, one is written. How many elements has each?
# </details>

# %% [markdown]
# The notes compute it for two products in fp16 (GN-16, GN-17). They print 124.1 and
# 2730.6, and call the first memory bound and the second compute bound on an A100.

# %%
with needs("6.1"):
    for n in (128, 8192):
        flops, moved_bytes = matmul_cost(8192, n, 8192, itemsize=2)
        bound = "memory" if flops / moved_bytes < a100_balance else "compute"
        print(f"n = {n}: {flops / moved_bytes:.2f} operations a byte, {bound} bound")

# %% [markdown]
# Both are right (2730.67 was cut off, not rounded). The same operation, the same
# machine, and two different limits: it is the shape that decides.

# %% [markdown]
# ## Attention's intensity
#
# Now attention as frameworks did it before 2022: one kernel after another. The notes
# list what crosses for $N$ tokens of $D$ numbers (GN-11), and what is computed (GN-12).
# $Q$, $K$, $V$ and the output cross once. The $N \times N$ scores are written, then
# read and written again by the mask, by dropout and by softmax, for each of which the
# notes count two operations an element.

# %%
square_passes = {"write QK^T": 1, "mask": 2, "dropout": 2, "softmax": 2}
all_passes = sum(square_passes.values())


def attention_intensity(n, d, passes=all_passes, itemsize=2):
    flops = 2 * (2 * n * n * d) + 3 * (2 * n * n)  # products; mask, dropout, softmax
    moved_bytes = itemsize * (4 * n * d + passes * n * n)
    return flops / moved_bytes


print(f"N = 250, D = 64: {attention_intensity(250, 64):.1f} operations a byte")

# %% [markdown]
# "As the sequence gets longer, the intensity falls", say the notes (GN-15), and "it is
# below the A100's 161 whenever $N > 250$".
#
# **Predict**: what is it at $N = 100{,}000$, still with $D = 64$?

# %%
predict("6.b", 18.7, unit="operations a byte")

# %%
measured("6.b", attention_intensity(100_000, 64))
tokens = [2**e for e in range(5, 18, 2)]
growth(
    tokens,
    {f"D = {d}": [attention_intensity(n, d) for n in tokens] for d in (64, 128)},
    xlabel="N (tokens)",
    ylabel="operations a byte",
    title="Intensity of attention, kernel by kernel",
    limits={"balance of an A100": a100_balance},
)

# %% [markdown]
# It rises. With the counts above,
#
# $$\frac{(4D + 6)\,N^2}{8ND + 14N^2} = \frac{(4D + 6)\,N}{8D + 14N}
# \;\longrightarrow\; \frac{4D + 6}{14},$$
#
# and stays below the balance for *every* $N$, not only beyond 250. What the notes want
# to say is right and even stronger: such an attention is always memory bound, however
# long the sequence. How wide would it have to be?

# %%
for d in (64, 128):
    print(f"D = {d}: at most {(4 * d + 6) / 14:.1f}")
print(f"161 needs D above {(14 * a100_balance - 6) / 4:.0f}")
print(f"with one more pass, reading P: {attention_intensity(10**5, 64, passes=8):.1f}")

# %% [markdown]
# (The last line: the list forgets that the product with $V$ reads the probabilities
# again.)
#
# The notes go on: at least $QK^\top$ alone "could be compute bound" (GN-18), since a
# product's intensity rises with its size. Does it?

# %%
with needs("6.1"):
    for n in (128, 1024, 8192, 65536):
        flops, moved_bytes = matmul_cost(n, n, 128, itemsize=2)
        print(f"N = {n}, D = 128: {flops / moved_bytes:.1f} operations a byte")

# %% [markdown]
# It rises, and ends at $D$. A product of two thin matrices has a large result, and
# writing that is the limit: $ND / (2D + N)$ is less than $D$ for every $N$. So on an
# A100 not even this product is compute bound, as long as its result goes to memory.

# %% [markdown]
# ## The roofline, in one picture
#
# A job with intensity $I$ cannot be faster than $I$ times the bandwidth, nor faster
# than the processor. Drawn over $I$, the smaller of both is a roof with a slope and a
# flat part, and the balance is where they meet. Let us put real jobs beneath it: the
# matrix from above, 8192 x 4096, times a few columns or times many. (The roof is drawn
# through the best of all that we measured, in operations and in bytes.)


# %%
def product_point(columns):
    """(intensity, operations a second) of the matrix times so many columns."""
    x = np.ones((4096, columns), dtype=np.float32)
    y = np.empty((8192, columns), dtype=np.float32)
    seconds = best_seconds(lambda: np.matmul(matrix, x, out=y), runs=3)
    flops = 2 * matrix.size * columns
    return flops / (matrix.nbytes + x.nbytes + y.nbytes), flops / seconds


points = {"1 column": (0.5, 2 * matrix.size / read_seconds)}
points |= {f"{n} columns": product_point(n) for n in (4, 16, 64, 256)}
best_flops = max(flops_per_second, *(rate for _, rate in points.values()))
best_bytes = max(bytes_per_second, *(rate / at for at, rate in points.values()))

# %% [markdown]
# And with them three jobs that were only counted, as fast as a roof allows: a square
# product, the scores $QK^\top$, and attention as above. Choose the A100, pull $N$ to its
# left end, and let it grow. Which of the three leaves the slope?

# %%
from course_utils.widgets.roofline import move_under_roofs

move_under_roofs(
    {
        "this machine": (best_flops, best_bytes),
        "A100": (a100_flops, a100_bytes),
    },
    points,
    marks={"attention, D = 64": 262 / 14, "attention, D = 128": 518 / 14},
    title=f"Black: the matrix times columns, on {machine_name()}",
)

# %% [markdown]
# One column makes a product that reads each number of the matrix for a single
# multiplication: it sits low, at the slope or a little under it. From some number of
# columns on the points climb, since the same matrix serves more multiplications. (At a
# few columns several libraries are slower than at one.) How near the points come to the
# roof is the library's skill; that none gets past it is the machine.
#
# At $D = 64$ only the square product leaves the A100's slope. (The scores do so at
# $D = 256$: theirs is the intensity that ends at $D$.) Attention, kernel by kernel,
# stays on the slope whatever you choose; it is the dashed lines of the figure. Most of
# that processor would wait. (Under your own roof it may well come to the flat part: a
# small balance is easier to satisfy.) A faster processor does not help there, and
# neither do better kernels for each single step. What helps is to move fewer bytes: to
# fetch a number, and to use it as often as possible before it goes.

# %% [markdown]
# ## A memory that counts
#
# A GPU has such a place, where numbers can stay while they are used (L12-47; the
# table's figure is lost, these are the numbers that Dao et al. 2022 give for an A100 of
# 40 GB; the 1,935 GB a second above are those of the model with 80).

# %%
levels = {  # bytes, bytes a second
    "on chip (SRAM)": (20e6, 19e12),
    "HBM": (40e9, 1.5e12),
    "the host's memory": (1e12, 12.8e9),
}
for name, (size, rate) in levels.items():
    print(f"{name:18} {size / 1e9:8.2f} GB, {rate / 1e12:7.4f} TB/s,", end=" ")
    print(f"read once in {size / rate * 1e3:,.3f} ms")

# %% [markdown]
# Each level is larger than the one above it, and slower, by factors of ten to two
# thousand. On a GPU a program says itself what is on chip and when. On your processor
# the caches decide, and tell nobody. So from here on we compute on a simulated machine
# with two levels, in which every byte that crosses is counted.
#
# An array in `HBM` can be sliced, and that is all:

# %%
from course_utils.hierarchy import HBM, SRAM

hbm = HBM()
M = hbm.array(np.ones((40, 50)), "M")
print(repr(M[0:8]))
try:
    M[0:8] + 1
except TypeError as error:
    print("TypeError:", error)

# %% [markdown]
# `load` brings a slice on chip. There it is an ordinary array; `store` takes it back.
# Both count.

# %%
result = hbm.empty((8, 8), name="result")
with SRAM(capacity_bytes=4_000, hbm=hbm) as sram:
    rows = sram.load(M[0:8])  # (8, 50)
    print(f"{rows.nbytes} bytes loaded, {sram.live_bytes} on chip")
    gram = rows @ rows.T  # (8, 8)
    print(f"{gram.nbytes} bytes made, {sram.live_bytes} on chip")
    sram.store(result, gram)
print(f"read {hbm.bytes_read}, written {hbm.bytes_written} bytes")

# %% [markdown]
# Everything that a program makes on chip takes its place there, each temporary included
# (a single number is free, as in a register), until no name refers to it any more. What
# does not fit is refused, at the very operation:

# %%
with SRAM(capacity_bytes=4_000, hbm=hbm) as sram:
    rows = sram.load(M[0:8])
    try:
        more = rows + 1
    except MemoryError as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
# ## A product, the naive way
#
# A product $C = AB$ on this machine, element by element: a row of $A$, a column of $B$,
# and their product is stored.


# %%
def naive_matmul(sram, A, B, C):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            sram.store(C[i, j], sram.load(A[i]) @ sram.load(B[:, j]))


def run_matmul(matmul, a, b, capacity_bytes):
    """Run matmul(sram, A, B, C) on a fresh machine; A, B, C and the chip afterwards."""
    hbm = HBM()
    A, B = hbm.array(a, "A"), hbm.array(b, "B")
    C = hbm.empty((len(a), b.shape[1]), name="C")
    with SRAM(capacity_bytes, hbm, record=True) as sram:
        matmul(sram, A, B, C)
    assert np.allclose(C.numpy(), a @ b)
    return A, B, C, sram


# %% [markdown]
# **Predict**: for $A$ of 40 x 50 and $B$ of 50 x 60, how many times is each element of
# $A$ loaded?

# %%
predict("6.c", 60, unit="times")

# %%
a, b = rng.standard_normal((40, 50)), rng.standard_normal((50, 60))
A, B, C, sram = run_matmul(naive_matmul, a, b, capacity_bytes=2_000)
print(f"A was loaded {A.bytes_read / A.nbytes:.0f} times, B", end=" ")
print(f"{B.bytes_read / B.nbytes:.0f} times")
print(f"moved {sram.hbm.bytes_moved:,} bytes; the three matrices have", end=" ")
print(f"{A.nbytes + B.nbytes + C.nbytes:,}")
print(f"{2 * 40 * 60 * 50 / sram.hbm.bytes_moved:.3f} operations a byte")
measured("6.c", A.bytes_read / A.nbytes)

# %% [markdown]
# A row of $A$ meets every one of the 60 columns of $B$, and is loaded anew for each.
# Together that is $2mnk$ numbers read: two for every multiplication and its addition.
# In float64 that makes an eighth of an operation a byte, at the very foot of the slope.
#
# Here are some moments of such a run, on a corner of the two matrices. $A$ stands to
# the left of $C$ and $B$ above it, so that an element of $C$ is in line with the row
# and the column it is made from. Coloured is what is on chip, grey what is stored.

# %%
from course_utils.tiling_plots import tile_frames

few = run_matmul(naive_matmul, a[:4, :5], b[:5, :6], capacity_bytes=100)[3]
tile_frames(few.events, (4, 6, 5), 100, [0, 2, 4, 10, 12, 14], "Naive")

# %% [markdown]
# From frame to frame 88 bytes more: a row, 40, a column, 40, and the element, 8. So for
# the second element the program loads the row of $A$ that it had for the first. Nobody
# kept it.

# %% [markdown]
# ## Sharing
#
# The notes have a table for the cure (GN-22). Four threads compute four elements of a
# product (the notes call its factors $M$ and $N$), a square of 2 x 2. In step $k$,
# thread $(i, j)$ needs $M_{i,k}$ and $N_{k,j}$. Where an element was needed before, by
# another thread, it is grey and hatched:

# %%
from course_utils.tiling_plots import sharing_table

sharing_table(tile=2, inner=4)

# %% [markdown]
# Half of the accesses ask for something that another thread has asked for. If the four
# share what they load, half of the loads are saved, as the notes say. And if there are
# more of them?


# %%
def loads_left(t, inner=8):
    steps = [(i, j, k) for i in range(t) for j in range(t) for k in range(inner)]
    accesses = [("M", i, k) for i, j, k in steps] + [("N", k, j) for i, j, k in steps]
    return len(set(accesses)) / len(accesses)


for t in (1, 2, 4, 8, 16):
    print(f"{t:2} x {t:<2} threads: 1/{1 / loads_left(t):.0f} of the loads are left")

# %% [markdown]
# A square of $t \times t$ leaves $1/t$. This is **tiling** (L12-48): compute $C$ not by
# elements but by tiles. For a tile of $C$, walk along $k$: load a tile of $A$ and a
# tile of $B$, multiply, add. The tile of $C$ stays on chip until its sums are complete,
# and is stored once.
#
# So $A$ is read once for every *column of tiles* of $C$, $B$ once for every *row of
# tiles*, and with tiles of $t \times t$ the numbers that cross are
#
# $$\Big\lceil\frac{n}{t}\Big\rceil mk + \Big\lceil\frac{m}{t}\Big\rceil kn + mn .$$
#
# The first two were $2mnk$ before, and are about $2mnk/t$ now. The intensity of the
# product becomes $t$ divided by the bytes of a number: the tile buys it.

# %% [markdown]
# ### Exercise 6.2 - the tile for a given chip - 2 points, easy, 5 min
#
# How large may a tile be? Three must fit on chip together: one of $A$, one of $B$, one
# of $C$, all of $t \times t$. Return the largest such $t$, an `int`, for a chip of
# `capacity_bytes` and numbers of `itemsize` bytes. (0 if there is none.)


# %%
def largest_tile(capacity_bytes: int, itemsize: int) -> int:
    """The largest t for which three tiles of t x t fit on the chip."""
    ### BEGIN SOLUTION
    return math.isqrt(capacity_bytes // (3 * itemsize))
    ### END SOLUTION


# %%
check("6.2", largest_tile)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down the bytes of three tiles, and solve for $t$.
# </details>
#
# <details><summary>Hint 2</summary>
#
# `math.isqrt` is the root of an integer, rounded down.
# </details>

# %% [markdown]
# What does that give on an A100? One of its multiprocessors has 192 KiB, and the
# numbers are fp16.

# %%
with needs("6.2"):
    for name, capacity in (("a multiprocessor, 192 KiB", 192 * 2**10), ("the L2 cache, 40 MB", 40e6)):
        t = largest_tile(int(capacity), itemsize=2)
        print(f"{name}: t = {t}, {t / 2:.1f} operations a byte of {a100_balance:.1f}")

# %% [markdown]
# One multiprocessor alone does not reach the balance. The second line is the cache that
# all of them share, between them and HBM: the tiles of several multiprocessors overlap
# there. So a GPU tiles at every level of its memory. We stay with two.
#
# **Predict**: you want to halve what is read. How many times as large must the chip be?

# %%
predict("6.d", 4, unit="times as large")

# %%
from course_utils.attention import tiled_matmul_traffic

sizes = 2048, 2048, 2048
for t in (16, 32, 64):
    read = tiled_matmul_traffic(*sizes, t, t).bytes_read
    print(f"t = {t}: chip {3 * t * t * 8:,} bytes, read {read / 1e6:,.0f} MB")
measured("6.d", (3 * 64 * 64) / (3 * 32 * 32))

# %% [markdown]
# A chip of four times the size has a tile of twice the side. What tiling saves grows
# with the *root* of the capacity. That is a slow growth, and we will ask below whether
# anything can do better.
#
# Before you write one, watch one: a small product, recorded on the counting memory with
# several tiles. Step through it. Which tile stays, and which come again? Then try
# another tile, and a chip on which it does not fit. Why do tiles of 20 x 20 move no
# less than tiles of 16 x 16?

# %%
from course_utils.widgets.tiles import step_through_product

step_through_product()

# %% [markdown]
# At the end of every run the two bars meet: what was counted is the formula, to the
# byte. In the formula a tile counts only through the number of *rows* and *columns of
# tiles* that it makes of $C$, and 24 x 32 is two by two with either.

# %% [markdown]
# ### Exercise 6.3 - a tiled matrix product - 5 points, hard, 30 min
#
# Compute $C = AB$ on the counting memory, for any shape.
#
# - `sram`: the chip, open already, so without a `with`. It has `sram.capacity_bytes` in
#   all, never less than four numbers;
# - `A` (m, k), `B` (k, n): arrays in HBM of one dtype, float64 or float32
#   (`A.dtype.itemsize` bytes a number). Neither size need be a multiple of your tile;
# - `C` (m, n): space in HBM of the same dtype, empty (nan). Store the product there;
#   return nothing. You need no further arrays in HBM, and may not make any.
#
# **Budget**: `capacity_bytes` on chip at every moment, temporaries included. And
# traffic, both ways together: at most 1.10 times the formula above with the $t$ of
# exercise 6.2, which is, in bytes,
#
# $$1.10\,\Big(\Big\lceil\frac{n}{t}\Big\rceil mk + \Big\lceil\frac{m}{t}\Big\rceil kn +
# mn\Big)\cdot \text{itemsize}, \qquad
# t = \Big\lfloor\sqrt{\text{capacity}\,/\,(3\cdot\text{itemsize})}\Big\rfloor .$$
#
# For (330 x 350)(350 x 340) on a chip of 2,457,600 bytes that is 5,114,560 bytes. Any
# scheme that moves less passes as well.
#
# Three tools: `sram.zeros(shape, dtype)` makes space on chip, in float64 if you give no
# dtype. `sram.accumulate(c, a, b)` does `c += a @ b` without a temporary, as a GPU's
# tensor cores do. And `del a` lets go of a name, so that its bytes are free at once.


# %%
def tiled_matmul(sram, A, B, C) -> None:
    """C = A B, (m, n) = (m, k) (k, n), by tiles that fit on the chip."""
    ### BEGIN SOLUTION
    (m, k), n = A.shape, B.shape[1]
    t = largest_tile(sram.capacity_bytes, A.dtype.itemsize)
    for i in range(0, m, t):
        for j in range(0, n, t):
            c = sram.zeros(C[i : i + t, j : j + t].shape, C.dtype)
            for inner in range(0, k, t):
                a = sram.load(A[i : i + t, inner : inner + t])
                b = sram.load(B[inner : inner + t, j : j + t])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[i : i + t, j : j + t], c)
            del c
    ### END SOLUTION


# %%
check("6.3", tiled_matmul)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three loops: over the rows of tiles of $C$, over its columns of tiles, and along $k$.
# What is made before the innermost, and what happens after it?
# </details>
#
# <details><summary>Hint 2</summary>
#
# A slice that goes beyond the end is cut off there: `A[32:40]` of 37 rows has 5. Its
# `.shape` tells.
# </details>
#
# <details><summary>Hint 3</summary>
#
# In `a = sram.load(...)` the new tile is loaded first and the name moves afterwards. If
# `a` was a tile before, both are there for a moment.
# </details>

# %% [markdown]
# Here is your own program, on the matrices that you saw above, with room for three
# tiles of 16 x 16. Step through it: when are all three on chip?

# %%
from course_utils.widgets.tiles import tiles_in_motion

with needs("6.3"):
    A, B, C, sram = run_matmul(tiled_matmul, a, b, capacity_bytes=6_144)
    print(f"A was loaded {A.bytes_read / A.nbytes:.1f} times, B", end=" ")
    print(f"{B.bytes_read / B.nbytes:.1f} times; moved {sram.hbm.bytes_moved:,} bytes")
    tiles_in_motion(sram, "Yours", tiled_matmul_traffic(40, 60, 50, 16, 16))

# %% [markdown]
# Compare with the naive run: the tile of $C$ (hatched) stays while the others pass by,
# and every number that comes in meets a whole row or column of tile before it goes.

# %% [markdown]
# ## How little is possible?
#
# Perhaps another order of the loops moves even less, or tiles of another form, or
# something that is no tiling at all. Hong and Kung showed in 1981 that there is a limit
# for all of them. The argument, in the form of Irony, Toledo and Tiskin (2004), is
# short.
#
# Let the chip hold $M$ numbers. Cut a run, of any program, into phases in each of which
# $M$ numbers cross. During a phase at most $2M$ elements of $A$ can be on chip at some
# time: $M$ that were there, $M$ that came. The same goes for $B$, and for the sums of
# $C$. Every multiplication needs one of each. Now $x$ elements of $A$, $y$ of $B$ and
# $z$ of $C$ take part in at most $\sqrt{xyz}$ multiplications, as a body in space has
# at most the root of the product of its three shadows as volume (Loomis and Whitney
# 1949). So a phase does no more than $\sqrt{8M^3}$ of the $mnk$ multiplications. It
# takes $mnk/\sqrt{8M^3}$ phases of $M$ numbers each:
#
# $$\text{at least about}\quad \frac{mnk}{\sqrt{8M}}\quad\text{numbers cross.}$$
#
# A sharper count (Smith, Lowery, Langou and van de Geijn 2019) gives the limit that we
# use from here on,
#
# $$\frac{2mnk}{\sqrt{M}} - 2M .$$
#
# The root of the chip's size is there again: nothing can beat it.
#
# **Predict**: three square tiles, of large matrices. How many times the sharper limit
# do they move?

# %%
predict("6.e", 1.73, unit="times")

# %%
from course_utils.attention import matmul_lower_bound_bytes

chip = 24_576  # bytes: three tiles of 32 x 32, or M = 3,072 numbers
limit = matmul_lower_bound_bytes(*sizes, chip)
three_tiles = tiled_matmul_traffic(*sizes, 32, 32).bytes_moved
print(f"{three_tiles / 1e6:,.0f} MB, and no program below {limit / 1e6:,.0f} MB")
measured("6.e", three_tiles / limit)

# %% [markdown]
# With $t = \sqrt{M/3}$, the $2mnk/t$ of the tiles is $\sqrt{3} = 1.73$ times
# $2mnk/\sqrt{M}$; the rest is $C$ itself. Now draw all of it against the size of the
# chip: the naive product, the formula, your program as measured, and the region that no
# program can reach.

# %%
capacities = [3 * t * t * 8 for t in (2, 4, 8, 16, 32, 64, 128)]
wide_a, wide_b = rng.standard_normal((96, 72)), rng.standard_normal((72, 120))


def bytes_moved(matmul, capacity):
    return run_matmul(matmul, wide_a, wide_b, capacity)[3].hbm.bytes_moved


runs = {"naive, measured": ([6_144], [bytes_moved(naive_matmul, 6_144)])}
with needs("6.3"):
    yours = [bytes_moved(tiled_matmul, capacity) for capacity in capacities[1:]]
    runs["yours, measured"] = (capacities[1:], yours)

# %%
from course_utils.tiling_plots import traffic_against_capacity

shape = 96, 120, 72  # m, n, k
square = [math.isqrt(capacity // 24) for capacity in capacities]
naive_bytes = tiled_matmul_traffic(*shape, 1, 1).bytes_moved
tiled = [tiled_matmul_traffic(*shape, t, t).bytes_moved for t in square]
traffic_against_capacity(
    capacities,
    {"naive": [naive_bytes] * len(capacities), "three square tiles": tiled},
    runs,
    bound=[matmul_lower_bound_bytes(*shape, capacity) for capacity in capacities],
    title="(96 x 72) times (72 x 120)",
)

# %% [markdown]
# The naive point lies on its line to the byte, and yours on theirs, if you took three
# square tiles. To the right all comes to rest at the size of the three matrices: when
# everything fits, each crosses once, and a larger chip buys nothing more. That is what
# exercise 6.1 assumed, and now you know what it takes.
#
# The gap between the line and the limit can be closed, nearly. The three tiles need not
# be equal. What saves traffic is the tile of $C$; those of $A$ and $B$ can be a single
# column and a single row, since it does not matter in how many steps $k$ is walked
# through.

# %%
t = math.isqrt(chip // 8 + 1) - 1  # the largest with t * t + 2 * t numbers on chip
thin = tiled_matmul_traffic(*sizes, t, t).bytes_moved
print(f"t = {t} in place of 32: {thin / 1e6:,.0f} MB,", end=" ")
print(f"{thin / limit:.2f} times the limit")

# %% [markdown]
# If your answer to 6.3 did this, your points lie below the line. Libraries do it with a
# few columns at a time rather than one, so that there is enough to do between two
# loads.

# %% [markdown]
# ## Attention, as it stands in the book
#
# Now for what this is about. The lecture writes self-attention for a sequence $X$ of
# $C$ tokens (our $N$) with $d$ numbers each (L12-44), with three weights of
# $d \times d$ (L12-45):
#
# $$Q = XW^{(Q)}, \quad K = XW^{(K)}, \quad V = XW^{(V)}, \qquad
# S = QK^\top, \quad P = \mathrm{softmax}(S), \quad O = PV .$$
#
# It calls the result an element of $\mathbb{R}^{d \times C}$. Is it?

# %%
tokens_c, d = 6, 64
X = rng.standard_normal((tokens_c, d))
W_q, W_k, W_v = rng.standard_normal((3, d, d)) / d**0.5
Q, K, V = X @ W_q, X @ W_k, X @ W_v
S = Q @ K.T
P = np.exp(S - S.max(axis=1, keepdims=True))
P /= P.sum(axis=1, keepdims=True)
print(f"X {X.shape}, S {S.shape}, P V {(P @ V).shape}")

# %% [markdown]
# It maps a sequence to a sequence, (C, d) to (C, d). The slide before says that
# everything is transposed compared to the previous lecture, and this one exponent was
# left behind. Something else is missing: a score is a sum of $d$ products, so its
# spread grows with $\sqrt d$, and softmax of large scores picks a single token.

# %%
q, k = rng.standard_normal((2, 10_000, d))
scores = (q * k).sum(axis=1)
print(f"scores spread by {scores.std():.1f}; divided by sqrt(d), by", end=" ")
print(f"{scores.std() / d**0.5:.1f}")

# %% [markdown]
# So from here on $S = QK^\top / \sqrt{d}$.
#
# **Algorithm 0** (L12-46) computes this as frameworks did, in three passes through HBM.
# We fix what the lecture leaves open. Queries come in blocks of `block_q` rows, keys
# and values in blocks of `block_k`, and the loop over queries is the outer one. With
# $T = \lceil N/\text{block\_q}\rceil$ blocks of queries:
#
# | pass | what goes on | numbers read | numbers written |
# |---|---|---|---|
# | 1 | a block of $Q$ stays, all blocks of $K$ pass by; $S$ is stored by blocks | $Nd + TNd$ | $N^2$ |
# | 2 | a row of $S$ comes, a row of $P$ goes | $N^2$ | $N^2$ |
# | 3 | a block of $O$ stays, the blocks of its rows of $P$ and all of $V$ pass by | $N^2 + TNd$ | $Nd$ |
#
# `block_k` stands nowhere in it: how large the blocks of keys are decides what is on
# chip at once, and not what crosses. The least that attention can move is $4Nd$: $Q$,
# $K$, $V$ in, $O$ out.
#
# **Predict**: for $N = 1024$, $d = 64$ and blocks of 64 queries, how many times that
# does Algorithm 0 move?

# %%
predict("6.f", 24.5, unit="times")

# %%
from course_utils.attention import standard_attention_traffic

N, d = 1024, 64
standard = standard_attention_traffic(N, N, d, block_q=64)
least_bytes = 4 * N * d * 8
print(
    f"{standard.bytes_moved / 1e6:.1f} MB of {least_bytes / 1e6:.1f} MB; of these",
    end=" ",
)
print(f"S and P: {4 * N * N * 8 / 1e6:.1f} MB")
measured("6.f", standard.bytes_moved / least_bytes)

# %% [markdown]
# Two thirds of it are $S$ and $P$, each written once and read once. They are nobody's
# input and nobody's output. The last third is $K$ and $V$, which pass by once for each
# block of queries; larger blocks would save some of that.

# %% [markdown]
# ### Exercise 6.4 - standard attention - 4 points, medium, 25 min
#
# Write Algorithm 0 on the counting memory.
#
# - `Q` (n_queries, d), `K`, `V` (n_keys, d): float64 in HBM. There may be fewer or more
#   queries than keys;
# - `S`, `P` (n_queries, n_keys), `O` (n_queries, d): empty space in HBM. Afterwards
#   they hold the scores $QK^\top/\sqrt{d}$, the probabilities and the output. Make no
#   further arrays in HBM;
# - scores may be as large as 10,000: softmax as in lesson 05;
# - blocks, loops and passes as in the table, pass 2 row by row. The last block of each
#   kind may be smaller: take the shape of its slice. (In pass 2 a block of rows may not
#   fit.)
#
# **Budget**: the traffic of the table, *exactly*: with $T$ blocks of queries,
# $2 \,\text{n\_queries}\,d + 2T\,\text{n\_keys}\,d + 4\,\text{n\_queries}\,\text{n\_keys}$
# numbers. On chip, in bytes,
#
# $$8\,\big(4\,(\text{block\_q} + \text{block\_k})\,d +
# 4\,\text{block\_q}\,\text{block\_k} + 8\,\text{n\_keys}\big),$$
#
# room for four blocks of each kind and eight rows of scores, so plain style will do.
# For 256 queries, 1024 keys, $d = 64$ and blocks of 64 that is 458,752 bytes; one $S$
# alone has 2,097,152.


# %%
def standard_attention(sram, Q, K, V, S, P, O, block_q: int, block_k: int) -> None:
    """Algorithm 0: S = Q K^T / sqrt(d), P = softmax(S), O = P V, in three passes."""
    ### BEGIN SOLUTION
    n_queries, n_keys = S.shape
    for i in range(0, n_queries, block_q):
        q = sram.load(Q[i : i + block_q])
        for j in range(0, n_keys, block_k):
            k = sram.load(K[j : j + block_k])
            s = q @ k.T / math.sqrt(Q.shape[1])
            sram.store(S[i : i + block_q, j : j + block_k], s)

    for i in range(n_queries):
        s = sram.load(S[i])
        p = np.exp(s - s.max())
        sram.store(P[i], p / p.sum())

    for i in range(0, n_queries, block_q):
        o = sram.zeros(O[i : i + block_q].shape)
        for j in range(0, n_keys, block_k):
            p = sram.load(P[i : i + block_q, j : j + block_k])
            v = sram.load(V[j : j + block_k])
            sram.accumulate(o, p, v)
        sram.store(O[i : i + block_q], o)
    ### END SOLUTION


# %%
check("6.4", standard_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three passes, one after the other, and nothing is handed from one to the next but what
# is in HBM. Passes 1 and 3 have two loops, pass 2 has one.
# </details>
#
# <details><summary>Hint 2</summary>
#
# What is loaded before the inner loop stays for all of it. Which matrix is it in pass
# 1, and what takes its place in pass 3?
# </details>

# %% [markdown]
# Your program against the least possible, as sequences grow:


# %%
def attention_run(attention, n, d=64, block=64):
    """Bytes moved by attention(sram, ...) with blocks of this size, and by S and P."""
    hbm = HBM()
    Q, K, V = (hbm.array(rng.standard_normal((n, d)), name) for name in "QKV")
    S, P, O = hbm.empty((n, n)), hbm.empty((n, n)), hbm.empty((n, d))
    with SRAM(8 * (8 * block * d + 4 * block * block + 8 * n), hbm) as sram:
        attention(sram, Q, K, V, S, P, O, block, block)
    squares = sum(each.bytes_read + each.bytes_written for each in (S, P))
    return hbm.bytes_moved, squares


lengths = [128, 256, 512, 1024]

# %%
with needs("6.4"):
    moved, squares = zip(*(attention_run(standard_attention, n) for n in lengths))
    growth(
        lengths,
        {
            "all": [n / 1e6 for n in moved],
            "S and P": [n / 1e6 for n in squares],
            "Q, K, V, O once": [4 * n * 64 * 8 / 1e6 for n in lengths],
        },
        xlabel="N (tokens)",
        ylabel="MB moved",
        title="Standard attention, d = 64, measured",
    )
    intensity = (4 * 64 + 2) * 1024**2 / (moved[-1] / 4)  # at 2 bytes in place of 8
    print(f"twice the tokens: {moved[-1] / moved[-2]:.2f} times the traffic")
    print(f"in fp16: {intensity:.1f} operations a byte at N = 1024")
    once = (4 * 64 + 2) * 1024**2 / (2 * (4 * 1024 * 64 + 4 * 1024**2))
    print(f"with K and V read only once: {once:.1f}")

# %% [markdown]
# Twice the tokens, almost four times the traffic: $O(Nd + N^2)$, as the notes have it
# (GN-26), with blocks of at least $d$ queries. And the intensity, counted this time and
# not estimated, is near where we found it in the beginning, far below a GPU's balance.
# (Without mask and dropout it would be higher, 30; that $K$ and $V$ pass by once for
# every block of queries brings it down again.)
#
# The two upper lines run apart from the lowest, and it is $S$ and $P$ that pull them.
# For a product we had a limit that no order of the loops can go below. What is the
# limit here? Certainly not $N^2$: nobody asked for $S$. The notes promise
# $O(N^2 d^2 / M)$ for FlashAttention, with $M$ numbers on chip, which never stores it.
# You have met both things that it takes: tiles, in this lesson, and a softmax that can
# be taken in pieces, in lesson 05. In lesson 07 you put them together.
#
# ## What to take along
#
# A job has an intensity, a machine has a balance, and the smaller of the two tells what
# to work on. Traffic is no property of a formula but of a program: the same product
# moves $2mnk$ numbers or $2mnk/\sqrt{M}$, by the order of its loops and by what it
# keeps. Tiles get within a small factor of the least that is possible. What no tiling
# of a single step can save is a result that is stored only to be read again.

# %% [markdown]
# ### In your own words 6.w
#
# Tiles of twice the side halve what a matrix product reads. Explain in two sentences
# where the factor of two comes from, and what keeps you from taking it again and again.
#
# (No check reads this one: a person does.)

# %% [markdown] written="6.w"
# A number that was loaded serves a whole row or column of the tile of the result, so
# with twice the side it serves twice as many products, and is loaded half as often.
# Three tiles must be on the chip at once, so the side cannot grow beyond the square
# root of a third of what it holds: a chip four times as large gives one more factor of
# two.

# %%
progress()
