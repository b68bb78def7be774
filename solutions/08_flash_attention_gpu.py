# %% [markdown]
# # 08 FlashAttention on a GPU: a clock for what you counted
#
# Lessons 05 to 07 counted bytes on a simulated chip. Here the chip is real. You will
# see how a GPU executes a program, write four small kernels in Triton, of which the
# third is FlashAttention, and read the same algorithm in CUDA C++. Then all of them,
# and PyTorch's own, are set side by side on one machine, and a clock says what the
# counting was worth. (L12-02, GN-19 to GN-25, GN-27, E5-75 to E5-77, listed in
# `docs/figures.md`.)
#
# Eight exercises, 22 points. Core: the first five, 13 points, about 110 minutes with
# the reading. You need lesson 07 fresh in mind, and nothing of GPUs.
#
# **No GPU? You miss nothing but the clock.** Your kernels run in Triton's interpreter,
# on your processor: slowly, but with every byte counted. All speeds in this lesson were
# measured once, on a machine that is named beside them. With a GPU of your own the
# checks try your kernels on it as well. On Windows and macOS there is no Triton: there
# you can read all of this lesson, and solve 8.3; WSL or a hosted notebook has the rest.

# %%
import math

import numpy as np
import torch

from course_utils import check, gpu_pictures, gpu_plots, measured, needs, predict
from course_utils import progress
from course_utils.recorded import recorded
from course_utils.triton_here import HAS_GPU, HAS_TRITON, WHERE, tl, triton
from course_utils.triton_meter import Launch, Tensor, compile_launch, meter, read_kernel
from course_utils.widgets.roofline import rungs_under_roof

record = recorded("gpu")
rng = np.random.default_rng(8)
print("speeds: ", record)
where = "in the interpreter" if HAS_TRITON else f"not here. {WHERE}"
print("kernels:", "on your GPU, and " * HAS_GPU + where)

# %% [markdown]
# ## How a GPU executes
#
# A program for a GPU is a **kernel**: a function that is started many times at once.
# Who starts it says how many, which is the **grid**. Each of these programs is a
# **block**. It is placed on one of the chip's **streaming multiprocessors**, and stays
# there until it has ended. There it has *registers*, and a *shared memory* that all its
# threads see; both are small and fast. All blocks see *global memory*, which is large
# and slow (E5-75). So a kernel loads, computes, stores. You have done that:
#
# | in lesson 07 | on a GPU |
# |---|---|
# | HBM | global memory |
# | the chip, `sram` | one multiprocessor: its shared memory and registers |
# | `sram.load`, `sram.store` | `tl.load`, `tl.store` |
# | `sram.accumulate(o, p, v)` | `tl.dot(p, v, o)` |
# | the outer loop, over blocks of queries | the grid: a program for each |
# | the inner loop, over blocks of keys | a loop in the kernel |
#
# Blocks run in any order, some at the same time, and cannot wait for one another. In
# lesson 07 the queries went outside because then no block needs anything from another.
# Here you see what that is good for.
#
# ### Threads, by 32
#
# A block consists of threads, and a multiprocessor runs them in groups of 32, its
# **warps**: 32 threads, one instruction (GN-20). To hide how long memory takes, it
# keeps many warps at hand and works on those that are not waiting. The notes give the
# most threads that can be at hand on a whole chip as
#
# $$\text{multiprocessors} \times \text{most blocks of one}
# \times \text{most threads of a block.}$$
#
# An A100 has 108 multiprocessors. Each can hold 32 blocks, and a block can have 1,024
# threads. One thing more stands in its manual: a multiprocessor holds 2,048 threads at
# most.
#
# **Predict**: how many threads can be at hand on an A100?

# %%
predict("8.a", 221184, unit="threads")

# %%
sms, blocks_of_one, threads_of_block, threads_of_one = 108, 32, 1024, 2048
print(f"the notes' product: {sms * blocks_of_one * threads_of_block:,}")
print(f"blocks of 1,024 that fit on one: {threads_of_one // threads_of_block}")
measured("8.a", sms * min(threads_of_one, blocks_of_one * threads_of_block))

# %% [markdown]
# The product in GN-20 is sixteen times too large. Limits do not multiply: each of
# them holds, and the tightest decides. Which one that is changes with the kernel:
# threads for one, shared memory or registers for another. In exercise 8.3 you will find
# it for attention.
#
# ### Neighbours should read neighbours
#
# Global memory hands out no single numbers. It hands out **sectors** of 32 bytes. When
# a warp loads, its 32 addresses are looked at together, and each sector that one of
# them lies in crosses once. If the threads read 32 neighbours in float32, that is 128
# bytes, four sectors, all of them used: the access is **coalesced** (GN-21).
#
# **Predict**: the warp reads a *column* of a matrix of 64 float32 a row, instead of a
# row. How many bytes cross for each byte that it uses?

# %%
predict("8.b", 8, unit="bytes")

# %%
def bytes_that_cross(stride):
    """For a warp that reads 32 float32, `stride` numbers apart."""
    return 32 * len({4 * stride * thread // 32 for thread in range(32)})


for stride in (1, 2, 8, 64):
    print(f"stride {stride:2}: {bytes_that_cross(stride):5,} bytes for 128")
measured("8.b", bytes_that_cross(64) / 128)

# %%
gpu_pictures.warp_reads([1, 2, 4, 8])

# %% [markdown]
# From a stride of 8 on it gets no worse, since every number comes with a sector of its
# own. (If other threads want the rest soon, a cache may still have it.) In Triton you
# do not place threads. You write which numbers a tile has, and the compiler gives
# neighbours to neighbours. It can do so if one axis of the tile is contiguous in
# memory.
#
# ### A unit that multiplies tiles
#
# Since 2017 multiprocessors have **tensor cores**: one instruction by which a warp
# computes $D = AB + C$ on small tiles, 16 x 16 in the notes (GN-23). Inputs have 16
# bits, sums have 32. They are where the speed is: the notes' data sheet of an A100
# gives two rates.

# %%
fp32_tflops, tensor_tflops = 19.5, 312  # the A100's data sheet, in the notes
print(f"tensor cores do {tensor_tflops / fp32_tflops:.0f} times as many operations")

# %% [markdown]
# In Triton `tl.dot(a, b, c)` is what uses them. It wants the sizes of its tiles to be
# powers of two, and 16 at least.
#
# ### Work that nobody asked for
#
# A tile is computed whole, even where it hangs over the edge of the matrix. The notes
# say to choose tiles that keep the tensor cores busy; their plots are lost (GN-24). We
# can count what they showed.
#
# **Predict**: a result of 129 x 129, in tiles of 128 x 128. How many per cent of the
# computed numbers were asked for?

# %%
predict("8.c", 25, unit="per cent")

# %%
tiles = math.ceil(129 / 128) ** 2
print(f"{tiles} tiles, {tiles * 128**2:,} numbers; asked for: {129**2:,}")
measured("8.c", 100 * 129**2 / (tiles * 128**2))

# %% [markdown]
# The same again, one floor higher: blocks are handed to multiprocessors (SMs), in
# *waves*, and the last wave may leave most of these with nothing to do. Here are 13
# equal blocks on 6 multiprocessors, if each takes one at a time:

# %%
gpu_pictures.blocks_in_waves(13, 6)

# %% [markdown]
# A thirteenth block takes as long as six. Both effects over the size of a square
# result, on 108 multiprocessors:

# %%
gpu_pictures.quantization(4096, tile=128, multiprocessors=108)

# %% [markdown]
# One row more can cost half of the machine. What helps is many more blocks than
# multiprocessors: attention has them, a block of queries for every head of every
# sequence.
#
# ### Fuse, and rather compute again
#
# Two more rules of the notes decide how attention is written. **Fusion** (GN-19): a
# step that reads what the step before has written should be in the same kernel. Take a
# softmax over the rows of a matrix, one kernel a step: the maximum of each row; minus
# the maximum; the exponential; the sum of each row; divided by the sum. Each kernel
# reads its input from global memory and writes its result there. (The maxima and sums
# themselves are few. Leave them out.)
#
# **Predict**: how many numbers cross for each number of the matrix?

# %%
predict("8.d", 8, unit="numbers")

# %%
kernels = {  # step: (read, written), for each number of the matrix
    "row maximum": (1, 0),
    "minus maximum": (1, 1),
    "exponential": (1, 1),
    "row sum": (1, 0),
    "divided": (1, 1),
}
crossing = sum(read + written for read, written in kernels.values())
print(f"five kernels: {crossing}; one kernel: 2, each number in once and out once")
measured("8.d", crossing)

# %% [markdown]
# **Store or compute again** (GN-25): if memory is the limit, compute again; if
# arithmetic is, store. Which of the two it is can be told from two rates of the
# machine. The backward pass of attention wants P. Either P is written by the forward
# pass and read again, or each number of it is a product of width d once more.

# %%
tflops, tb = record.matmul_tflops, record.copy_tb_per_second
print(record)
print(f"{tflops:.0f} TFLOP/s over {tb:.2f} TB/s: {tflops / tb:.0f} operations a byte")
stored, again = 2 * 2 / tb, 2 * 64 / tflops  # picoseconds: out and in; a product
print(f"a number of P: stored {stored:.2f} ps, again (d = 64) {again:.2f} ps")

# %% [markdown]
# To compute it again is the cheaper way, even with the exponential that comes on top, and
# it leaves the memory to others. So
# FlashAttention does *more* arithmetic and is faster; lesson 07 has put right the slide
# that says it does less (E5-76).

# %% [markdown]
# ## The ramp
#
# Three kernels, each a little more than the one before. This is the first, to be read:

# %%
@triton.jit
def add_kernel(x, y, out, n, block_size: tl.constexpr):
    """out = x + y, all (n,): one program for each block_size numbers."""
    at = tl.program_id(0) * block_size + tl.arange(0, block_size)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)

# %% [markdown]
# Every program runs the same lines, and asks which one it is: `tl.program_id(0)`. `x`,
# `y` and `out` are addresses. `x + at` is a whole tile of addresses, and `tl.load`
# brings the numbers that lie there. A tile's size is fixed when the kernel is compiled
# (`tl.constexpr`), and must be a power of two. But n is what it is, so the last tile
# hangs over, and the **mask** says which of its numbers exist. Where it is false
# nothing is loaded, and nothing stored.
#
# `run` launches a kernel in the interpreter, in a process of its own, on a memory that
# counts every byte and notices every wrong address. The grid comes first, then the
# arguments.

# %%
def run(kernel, grid, *arguments, **blocks):
    """Launch a kernel on the memory that counts. What it did: values, bytes, faults."""
    if read_kernel(kernel).is_stub:
        raise NotImplementedError
    seen = meter(kernel, grid, *arguments, **blocks)
    if seen.error or seen.ended:
        raise RuntimeError(seen.ended or seen.error["message"])
    return seen


def blocks(n, size):
    """How many blocks of this size cover n: `triton.cdiv`."""
    return -(-n // size)

# %%
x, y = rng.standard_normal((2, 1000)).astype(np.float32)
if HAS_TRITON:
    grid = (blocks(1000, 128),)
    seen = run(add_kernel, grid, x, y, np.empty_like(x), 1000, block_size=128)
    print("right:", np.array_equal(seen.values["out"], x + y))
    print("loaded:", seen.loaded, "stored:", seen.stored)

# %% [markdown]
# Eight programs of 128 would be 1,024 numbers. 1,000 crossed, 4,000 bytes of each
# vector. And without the masks? On a GPU nobody would stop the last program: it would
# read what lies behind x, and write over what lies behind out. That may be nothing, or
# another tensor, and it may go well for years.

# %%
@triton.jit
def careless_kernel(x, y, out, n, block_size: tl.constexpr):
    at = tl.program_id(0) * block_size + tl.arange(0, block_size)
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))


if HAS_TRITON:
    seen = run(careless_kernel, (8,), x, y, np.empty_like(x), 1000, block_size=128)
    for fault in seen.faults:
        print("{kind} {tensor}: first number {index}, {lanes} in all".format(**fault))

# %% [markdown]
# Try a few masks of your own: `at <= n`, or one load without. From here on the checks
# run your kernels on this memory. An access outside of its tensor fails them, even
# where the values happen to be right.

# %% [markdown]
# ### Exercise 8.1 - row softmax - 2 points, easy, 10 min
#
# Now the five steps of the softmax in one kernel. Program i makes row i.
#
# - `x`, `out`: addresses of two matrices in float32, of as many rows as there are
#   programs, and `n_columns` columns;
# - `x_row_stride`, `out_row_stride`: how many numbers further the next row begins. (A
#   matrix may be part of a wider one.)
# - `block_size`: a power of two, at least `n_columns`.
#
# Afterwards each row of out is $e^{x - m} / \sum e^{x - m}$, with the row's maximum
# $m$.
#
# **Budget**: each number is loaded once and stored once.
#
# You need `tl.load` with `mask=` and `other=` (what stands where the mask is false; 0
# if you say nothing), `tl.exp`, `tl.max(s, axis=0)` and `tl.sum(s, axis=0)`.

# %%
@triton.jit
def softmax_kernel(
    x, out, n_columns, x_row_stride, out_row_stride, block_size: tl.constexpr
):
    """Row i of out = the softmax of row i of x, i the number of the program."""
    ### BEGIN SOLUTION
    row = tl.program_id(0)
    columns = tl.arange(0, block_size)
    inside = columns < n_columns
    s = tl.load(x + row * x_row_stride + columns, mask=inside, other=-float("inf"))
    p = tl.exp(s - tl.max(s, axis=0))
    p = p / tl.sum(p, axis=0)
    tl.store(out + row * out_row_stride + columns, p, mask=inside)
    ### END SOLUTION

# %%
check("8.1", softmax_kernel)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It begins as the kernel above does, with one tile of positions and one mask. Here a
# position is a column, and the row is the program's number.
# </details>
#
# <details><summary>Hint 2</summary>
#
# What must stand in the places that do not exist, so that neither the maximum nor the
# sum notices them? One number does both.
# </details>

# %%
with needs("8.1"):
    x = rng.standard_normal((50, 300)).astype(np.float32)
    sizes = 300, 300, 300  # columns, and both strides
    seen = run(softmax_kernel, (50,), x, np.empty_like(x), *sizes, block_size=512)
    moved = seen.loaded["x"] + seen.stored["out"]
    print(f"{moved / x.nbytes:g} moved for each number; five kernels: {crossing}")

# %% [markdown]
# A quarter of the traffic. On a GPU such a kernel takes about as long as its bytes do,
# so the clock should see much of that factor. It has a price: the row must fit on chip.
# Attention's rows do not, and you know the way round: the online softmax.

# %% [markdown]
# ### Exercise 8.2 - tiled matmul - 3 points, medium, 15 min
#
# The third kernel is lesson 06's tiled product. Program (i, j) makes the tile of
# $C = AB$ in the i-th row of tiles and the j-th column of tiles; it walks along k.
#
# - `a` (m, k) and `b` (k, n) in float16, `c` (m, n) in float32; `a_row_stride` and so
#   on as in 8.1;
# - `block_m`, `block_n`, `block_k`: the sizes of the tiles, powers of two. m, n and k
#   need not be multiples of them;
# - the sum is kept in float32: `tl.zeros((block_m, block_n), tl.float32)`, and
#   `tl.dot(a_tile, b_tile, total)`, which gives total + a_tile b_tile.
#
# **Budget**: exactly what tiles must move. A is read once for every column of tiles, B
# once for every row of tiles, C is written once.
#
# A tile of addresses in two axes is a column plus a row:
# `a + rows[:, None] * a_row_stride + inner[None, :]`. Its mask is made in the same way,
# with `&`.

# %%
@triton.jit
def matmul_kernel(
    a, b, c, m, n, k, a_row_stride, b_row_stride, c_row_stride,
    block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):
    """One tile (block_m, block_n) of c = a b."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)[:, None]
    columns = tl.program_id(1) * block_n + tl.arange(0, block_n)[None, :]
    inner = tl.arange(0, block_k)
    total = tl.zeros((block_m, block_n), tl.float32)
    for start in range(0, k, block_k):
        across, down = start + inner[None, :], start + inner[:, None]
        in_a, in_b = (rows < m) & (across < k), (down < k) & (columns < n)
        a_tile = tl.load(a + rows * a_row_stride + across, mask=in_a, other=0.0)
        b_tile = tl.load(b + down * b_row_stride + columns, mask=in_b, other=0.0)
        total = tl.dot(a_tile, b_tile, total)
    in_c = (rows < m) & (columns < n)
    tl.store(c + rows * c_row_stride + columns, total, mask=in_c)
    ### END SOLUTION

# %%
check("8.2", matmul_kernel)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three tiles of positions: rows of C, from `tl.program_id(0)`; columns of C, from
# `tl.program_id(1)`; and positions along k, which move on in a loop
# `for start in range(0, k, block_k)`.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Each tile has a mask of two conditions. What must stand beyond the end of k, so that
# the sum does not notice it?
# </details>

# %% [markdown]
# Lesson 06 had a formula for this traffic. What does it say of your kernel?

# %%
from course_utils.attention import tiled_matmul_traffic

with needs("8.2"):
    a, b = (rng.standard_normal(s).astype(np.float16) for s in [(100, 80), (80, 70)])
    c = np.empty((100, 70), np.float32)
    for block in (16, 32):
        grid = blocks(100, block), blocks(70, block)
        sizes = {f"block_{axis}": block for axis in "mnk"}
        seen = run(matmul_kernel, grid, a, b, c, 100, 70, 80, 80, 70, 70, **sizes)
        expected = tiled_matmul_traffic(100, 70, 80, block, block, itemsize=2)
        read = seen.loaded["a"] + seen.loaded["b"]
        print(f"tiles of {block}: read {read:,} bytes, formula {expected.bytes_read:,}")

# %% [markdown]
# ## A block's budget
#
# Now attention. Before any code: how large may its tiles be? In lesson 07 one number
# was the limit, the room on chip. A multiprocessor has two kinds of room. Tiles that
# are loaded lie in shared memory, where tensor cores fetch them. What is accumulated, S
# and O, lies in registers, spread over the threads. And a block should leave room for
# others: while one waits for memory, another can compute.
#
# To be waited for less, K and V are loaded ahead. While the tensor cores are at one
# pair of tiles, the next is on its way; so there is room for several, called
# **stages**.

# %% [markdown]
# ### Exercise 8.3 - a block's budget, by hand - 2 points, easy, 10 min
#
# Return three numbers for a block of `32 * warps` threads that has the queries' tile
# (block_q, d) and lets keys come by in tiles (block_k, d).
#
# - **Shared memory**, in bytes: the tile of Q once; a tile of K and one of V, each
#   `stages` times. A number takes `number_bytes`.
# - **Accumulators**, in registers a thread: S (block_q, block_k) and O (block_q, d) in
#   float32, a 32-bit register a number, spread evenly over the threads and rounded up.
# - **Blocks** that fit on one multiprocessor at the same time. It has 228 KiB of shared
#   memory (a KiB is 1,024 bytes), of which a block may use 227 KiB at most, and each
#   block costs 1 KiB more than it uses; 65,536 registers, of which a thread takes its
#   accumulators and 64 more, for addresses, maxima, sums; and room for 2,048 threads
#   and for 32 blocks.
#
# A thread can have 255 registers. One that needs more *spills*: it keeps some in global
# memory, which is slow. For such a block return 0 blocks, and for one with too much
# shared memory too.
#
# (These are an H100's limits; the H200's are the same. Registers are really handed out
# in small units, which we leave out.)

# %%
def block_budget(
    block_q: int, block_k: int, d: int, warps: int, stages=2, number_bytes=2
) -> tuple[int, int, int]:
    """(shared bytes, accumulator registers a thread, blocks on a multiprocessor)."""
    ### BEGIN SOLUTION
    shared = number_bytes * (block_q * d + 2 * stages * block_k * d)
    threads = 32 * warps
    accumulators = math.ceil(block_q * (block_k + d) / threads)
    registers = accumulators + 64
    if shared > 227 * 1024 or registers > 255:
        return shared, accumulators, 0
    by_shared = 228 * 1024 // (shared + 1024)
    by_registers = 65536 // (registers * threads)
    return shared, accumulators, min(by_shared, by_registers, 2048 // threads, 32)
    ### END SOLUTION

# %%
check("8.3", block_budget)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three counts, in the order of the list. The third is a minimum of four: by shared
# memory, by registers, by threads, and 32.
# </details>
#
# <details><summary>Hint 2</summary>
#
# A block takes `threads * (accumulators + 64)` registers. How many such blocks are in
# 65,536?
# </details>

# %%
SIZES = [(64, 64, 4), (128, 64, 4), (128, 64, 8), (128, 128, 4), (128, 128, 8)]

with needs("8.3"):
    print("block_q, block_k, warps at d = 64: shared bytes, accumulators, blocks")
    for block_q, block_k, warps in SIZES:
        budget = block_budget(block_q, block_k, 64, warps)
        print(f"{block_q} x {block_k}, {warps} warps:", *(f"{n:7,}" for n in budget))

# %% [markdown]
# Here registers are the limit, not shared memory: the tightest, again. With four warps
# the largest tiles do not fit at all; with twice the threads they do. In a moment the
# compiler will say what it thinks of this.

# %% [markdown]
# ## The ladder
#
# One algorithm, on several rungs. The lowest is the formula, in torch.

# %%
def dense(q, k, v):
    s = q.shape[-1] ** -0.5 * q @ k.mT  # (heads, N, N)
    return torch.softmax(s, dim=-1) @ v


def blockwise(q, k, v, block=64):
    o, row_sum = torch.zeros_like(q), torch.zeros(*q.shape[:-1], 1)
    row_max = torch.full_like(row_sum, -math.inf)
    for keys in range(0, k.shape[-2], block):
        s = q.shape[-1] ** -0.5 * q @ k[..., keys : keys + block, :].mT
        new_max = torch.maximum(row_max, s.amax(-1, keepdim=True))
        p, alpha = torch.exp(s - new_max), torch.exp(row_max - new_max)
        row_sum = alpha * row_sum + p.sum(-1, keepdim=True)
        o = alpha * o + p @ v[..., keys : keys + block, :]
        row_max = new_max
    return o / row_sum

# %%
torch.manual_seed(8)
q, k, v = torch.randn(3, 2, 200, 64)  # (heads, N, d)
print(f"they differ by {(dense(q, k, v) - blockwise(q, k, v)).abs().max():.0e}")

# %% [markdown]
# The second rung is lesson 07's loop, with all queries as one block. No square is ever
# held. But torch runs each line as a kernel of its own, so s, p and o go to global
# memory and back in every round: *memory* is saved, *traffic* is not. To keep a tile on
# chip from one line to the next, the lines must be in one kernel.
#
# ### The same in CUDA C++
#
# This is the heart of a kernel in CUDA C++, from
# `course_utils/kernels/cuda/flash_tiles.cu`. Read it beside your
# `flash_queries_outside` of lesson 07; it has the same names in the same order.

# %%
gpu_pictures.show_cuda(
    "flash_tiles.cu", first="for (int first_key", last="row_max[r] = new_max;"
)

# %% [markdown]
# CUDA C++ is written for one thread. What was an array in lesson 07 is spread over the
# threads of a block, and each has some elements of it, in registers: `s[r][c]`,
# `o[r][c]`. What all need is in shared memory: `sram.q`, `sram.k`, `sram.v`, `sram.p`.
# A maximum over a row is a question to the neighbours that hold its other parts,
# `max_of_row`. And `__syncthreads()` waits until everyone has come so far. It stands
# there twice. What would go wrong without the first?
#
# <details><summary>Think, then look</summary>
#
# A fast thread would load the next K and V over those that a slow one still reads.
# </details>
#
# This kernel multiplies with ordinary arithmetic, a number at a time. The next rung has
# tensor cores.

# %%
gpu_pictures.show_cuda(
    "flash_tensor_cores.cu", first="for (int first_key", last="multiply_values("
)

# %% [markdown]
# The steps are the same, and so are their names. What changes is around them: tiles
# keep 16 bits, `multiply_scores` and `multiply_values` are made of tensor core
# instructions, and while they work the next tiles are being copied (two stages). An
# accumulator is spread over the lanes of a warp in an order that the hardware
# prescribes (`tensor_cores.cuh`, beside that file, says which). p is handed from the
# first product to the second in registers, because the order in which S comes out is
# the order in which the next product takes its left operand.
#
# ### In Triton
#
# Triton stands between the two. You write tiles, as in lesson 07; who holds what, when
# to wait, and how the tensor cores want it is the compiler's business.

# %% [markdown]
# ### Exercise 8.4 - the forward kernel - 4 points, hard, 30 min
#
# Write FlashAttention's forward pass. The program with number 0 along axis 0 and h
# along axis 1 has the first `block_q` queries of head h, and so on; it lets all keys
# and values of its head come by.
#
# - `q`, `out` (heads, n_queries, d); `k`, `v` (heads, n_keys, d): contiguous, float32
#   or 16 bits. So row i of head h of q begins at number
#   $(h \cdot \text{n\_queries} + i)\,d$. Scores may be of any size, far below 0 too;
# - `logsumexp` (heads, n_queries), float32: $m + \log \ell$ of each row, as in 7.3;
# - `scale`: the scores are scale times $q k^\top$;
# - `d`, `block_q`, `block_k`: powers of two, 16 at least. The lengths need not be
#   multiples of the blocks. Not causal.
#
# **Budget**: q is loaded once, out and logsumexp are stored once. k and v are loaded
# once for each block of queries. Nothing else crosses.
#
# Sums, maxima and o are float32. `tl.dot` wants both factors of one type:
# `p.to(v_tile.dtype)`. You also need `tl.trans`, `tl.maximum`, `tl.where`, `tl.log`,
# `tl.full((block_q,), -float("inf"), tl.float32)`.

# %%
@triton.jit
def flash_forward_kernel(
    q, k, v, out, logsumexp, n_queries, n_keys, scale,
    d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):
    """out, logsumexp of one block of queries of one head."""
    ### BEGIN SOLUTION
    head = tl.program_id(1)
    rows = tl.program_id(0) * block_q + tl.arange(0, block_q)
    keys = tl.arange(0, block_k)
    columns = tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows[:, None]) * d + columns  # (block_q, d)
    k_at = (head * n_keys + keys[:, None]) * d + columns  # (block_k, d)
    in_q = rows < n_queries

    q_tile = tl.load(q + q_at, mask=in_q[:, None], other=0.0)
    o = tl.zeros((block_q, d), tl.float32)
    row_sum = tl.zeros((block_q,), tl.float32)
    row_max = tl.full((block_q,), -float("inf"), tl.float32)
    for start in range(0, n_keys, block_k):
        in_k = start + keys < n_keys
        k_tile = tl.load(k + start * d + k_at, mask=in_k[:, None], other=0.0)
        v_tile = tl.load(v + start * d + k_at, mask=in_k[:, None], other=0.0)
        s = scale * tl.dot(q_tile, tl.trans(k_tile))  # (block_q, block_k)
        s = tl.where(in_k[None, :], s, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        p = tl.exp(s - new_max[:, None])
        alpha = tl.exp(row_max - new_max)
        row_sum = alpha * row_sum + tl.sum(p, axis=1)
        o = tl.dot(p.to(v_tile.dtype), v_tile, alpha[:, None] * o)
        row_max = new_max
    tl.store(out + q_at, o / row_sum[:, None], mask=in_q[:, None])
    lse_at = head * n_queries + rows
    tl.store(logsumexp + lse_at, row_max + tl.log(row_sum), mask=in_q)
    ### END SOLUTION

# %%
check("8.4", flash_forward_kernel)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take `flash_queries_outside` of lesson 07 and go through it line by line. The outer
# loop is gone: its `rows` come from `tl.program_id(0)`. Each `sram.load` becomes a
# `tl.load` of a tile of addresses, as in 8.2.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Keys beyond the last one must not count. As zeros in the tile of K they would: their
# score is 0, and $e^0$ is 1. Where can you make their p vanish?
# </details>
#
# <details><summary>Hint 3</summary>
#
# A column from a vector is `x[:, None]`; the maximum over the keys is
# `tl.max(s, axis=1)`. `o` is rescaled before the product is added:
# `tl.dot(p, v_tile, alpha[:, None] * o)`.
# </details>

# %%
def attention(kernel, q, k, v, block_q=64, block_k=32):
    """Launch an attention kernel on arrays (heads, N, d), with the usual scale."""
    heads, n, d = q.shape
    out, logsumexp = np.empty_like(q), np.empty((heads, n), np.float32)
    grid = blocks(n, block_q), heads
    arguments = q, k, v, out, logsumexp, n, k.shape[1], d**-0.5
    return run(kernel, grid, *arguments, d=d, block_q=block_q, block_k=block_k)


with needs("8.4"):
    seen = attention(flash_forward_kernel, q.numpy(), k.numpy(), v.numpy())
    off = np.abs(seen.values["out"] - dense(q, k, v).numpy()).max()
    print(f"off the formula by {off:.0e}")
    print({name: nbytes // 4 for name, nbytes in seen.loaded.items() if nbytes})
    print(f"{seen.flops:,} operations in tl.dot; asked for: {4 * 2 * 200 * 200 * 64:,}")

# %% [markdown]
# The numbers loaded: q once, k and v once for each of the four blocks of queries, as
# lesson 07's formula has it. The operations are more than were asked for: 200 is no
# multiple of 64 or of 32, and a tile is computed whole.
#
# ### What the compiler makes of it
#
# A kernel can be compiled for a GPU that is not here. So let us ask what it really
# takes, beside what you counted in 8.3: on an H100 (sm_90), in bfloat16, with d = 64
# and two stages. (It compiles five times, which takes some seconds.)

# %%
def compiled(kernel, block_q, block_k, warps, sm):
    """What the compiler makes of an attention kernel: its bytes, registers, spills."""
    source = read_kernel(kernel)
    if source.is_stub:
        raise NotImplementedError
    halves = {name: Tensor(np.zeros(1), "bfloat16") for name in ("q", "k", "v", "out")}
    sums = {"logsumexp": Tensor(np.zeros(1, np.float32))}
    numbers = {"n_queries": 4096, "n_keys": 4096, "scale": 0.125}
    tiles = {"d": 64, "block_q": block_q, "block_k": block_k}
    options = {"num_warps": warps, "num_stages": 2}
    return compile_launch(
        source, Launch((1,), halves | sums | numbers, tiles, options), sm
    )

# %%
with needs("8.3", "8.4"):
    lines = ["shared bytes: counted, compiled; registers: counted, compiled; spilled bytes"]
    for block_q, block_k, warps in SIZES:
        shared, accumulators, _ = block_budget(block_q, block_k, 64, warps)
        real = compiled(flash_forward_kernel, block_q, block_k, warps, sm=90)
        lines.append(
            f"{block_q:3} x {block_k:3}, {warps} warps: {shared:6,}, "
            f"{real.shared_bytes:6,}; {accumulators + 64:3}, {real.registers:3}; "
            f"{real.spilled_bytes:2}"
        )
    print("\n".join(lines))

# %% [markdown]
# If your kernel is near the course's, its shared memory is what you counted, to the
# byte. Registers are the compiler's affair, and 64 beside the accumulators was a guess:
# it is good for some rows and too low for others. In the block for which your count
# came out above 255 the course's kernel spills 16 bytes; yours may just fit, with none
# to spare.
#
# On an A100 (sm_80) the same source takes less shared memory and more registers. Its
# tensor cores take all their operands from registers, and the compiler keeps Q, one
# tile of K and one of V in shared memory, whose successors go there as soon as these
# have been read.

# %%
with needs("8.4"):
    lines = ["on sm_80: shared bytes; registers; spilled bytes"]
    for block_q, block_k, warps in SIZES[::2]:
        real = compiled(flash_forward_kernel, block_q, block_k, warps, sm=80)
        lines.append(
            f"{block_q:3} x {block_k:3}, {warps} warps: {real.shared_bytes:6,}; "
            f"{real.registers:3}; {real.spilled_bytes:3}"
        )
    print("\n".join(lines))

# %% [markdown]
# ### Exercise 8.5 - causal, whole blocks skipped - 2 points, medium, 15 min
#
# The same with a mask: a query must not see what comes after it. When there are more
# keys than queries, as when a text is continued, the *last* query sees all keys: query
# i sees the keys up to $i + \text{n\_keys} - \text{n\_queries}$ (aligned at the bottom
# right).
#
# - the signature is that of 8.4;
# - with fewer keys than queries the first rows see nothing. Their output is 0, and
#   their logsumexp $-\infty$.
#
# **Budget**: as in 8.4, and blocks of keys that no query of the block sees are neither
# loaded nor multiplied.

# %%
@triton.jit
def flash_causal_kernel(
    q, k, v, out, logsumexp, n_queries, n_keys, scale,
    d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):
    """out, logsumexp of one block of queries of one head, causal."""
    ### BEGIN SOLUTION
    head = tl.program_id(1)
    first = tl.program_id(0) * block_q
    rows = first + tl.arange(0, block_q)
    keys = tl.arange(0, block_k)
    columns = tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows[:, None]) * d + columns  # (block_q, d)
    k_at = (head * n_keys + keys[:, None]) * d + columns  # (block_k, d)
    in_q = rows < n_queries

    q_tile = tl.load(q + q_at, mask=in_q[:, None], other=0.0)
    o = tl.zeros((block_q, d), tl.float32)
    row_sum = tl.zeros((block_q,), tl.float32)
    row_max = tl.full((block_q,), -1e30, tl.float32)  # finite: -inf - -inf is no number
    last_seen = rows + n_keys - n_queries  # of each query
    stop = tl.minimum(first + block_q, n_queries) + n_keys - n_queries
    for start in range(0, stop, block_k):
        in_k = (start + keys < n_keys)[:, None]
        k_tile = tl.load(k + start * d + k_at, mask=in_k, other=0.0)
        v_tile = tl.load(v + start * d + k_at, mask=in_k, other=0.0)
        s = scale * tl.dot(q_tile, tl.trans(k_tile))  # (block_q, block_k)
        sees = start + keys[None, :] <= last_seen[:, None]
        s = tl.where(sees, s, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        p = tl.exp(s - new_max[:, None])
        alpha = tl.exp(row_max - new_max)
        row_sum = alpha * row_sum + tl.sum(p, axis=1)
        o = tl.dot(p.to(v_tile.dtype), v_tile, alpha[:, None] * o)
        row_max = new_max
    row_sum = tl.where(last_seen >= 0, row_sum, 1.0)
    tl.store(out + q_at, o / row_sum[:, None], mask=in_q[:, None])
    lse = tl.where(last_seen >= 0, row_max + tl.log(row_sum), -float("inf"))
    tl.store(logsumexp + head * n_queries + rows, lse, mask=in_q)
    ### END SOLUTION

# %%
check("8.5", flash_causal_kernel)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two things are new, as in 7.4: where the loop ends, and which scores of a tile become
# $-\infty$. The loop ends behind the last key that the block's last query sees.
# </details>
#
# <details><summary>Hint 2</summary>
#
# A row that has seen nothing yet has the maximum $-\infty$, and $-\infty - (-\infty)$
# is no number. Begin with a large negative number that is finite, or use 0 where the
# new maximum is $-\infty$.
# </details>

# %%
with needs("8.4", "8.5"):
    arrays = q.numpy(), k.numpy(), v.numpy()
    for block_q in (64, 32, 16):
        part, whole = (
            attention(kernel, *arrays, block_q=block_q, block_k=16).loaded["k"]
            for kernel in (flash_causal_kernel, flash_forward_kernel)
        )
        print(f"blocks of {block_q}: {part / whole:.0%} of what 8.4 loads of K")

# %% [markdown]
# The smaller the blocks of queries, the nearer to half: a block loads all that its last
# query sees, and its first query needs less. But smaller blocks also load more in all,
# since there are more of them.

# %% [markdown]
# ### PyTorch's own rungs
#
# `torch.nn.functional.scaled_dot_product_attention` has four ways inside, its
# *backends*, and takes the one that fits best. You can hold it to one of them:

# %%
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

batch = [x[None] for x in (q, k, v)]  # (batch, heads, N, d)
for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
    with sdpa_kernel(backend):
        off = (scaled_dot_product_attention(*batch)[0] - dense(q, k, v)).abs().max()
    print(f"{backend.name}: off the formula by {off:.0e}")

# %% [markdown]
# On a GPU `MATH` is the formula, in plain steps; `EFFICIENT_ATTENTION` and
# `FLASH_ATTENTION` are two fused kernels (the second is FlashAttention-2, and wants
# sm_80 and 16 bits); `CUDNN_ATTENTION` is NVIDIA's own, written for the newest chips.
#
# Now all rungs together, each on the same inputs: 16,384 tokens of 2,048 numbers, cut
# into sequences of N, in bfloat16. First the memory. With d = 64 that makes 32 heads,
# so at N = 16,384 the scores of one sequence alone are 32 squares:

# %%
H = 2048 // 64
print(f"S: {H * 16384**2 * 2 / 1e9:.1f} GB")

# %% [markdown]
# **Predict**: how many MB does the Triton forward pass take there, besides its output?
# (It keeps what the backward pass will want.)

# %%
predict("8.e", 2.1, unit="MB")

# %%
extra = record.at("triton", 16384, d=64).extra_bytes
print(f"{extra:,} bytes; a float32 for each row of each head: {4 * H * 16384:,}")
measured("8.e", extra / 1e6)

# %%
gpu_plots.extra_bytes(record)

# %% [markdown]
# The logsumexp and nothing else. And the clock? The dense way writes S, reads it, writes
# P and reads that. At N = 8,192 the batch has two sequences:

# %%
moved_tb = 2 * H * 4 * 8192**2 * 2 / 1e12
print(f"{moved_tb:.3f} TB for S and P, at {tb:.2f} TB/s: {1000 * moved_tb / tb:.1f} ms")
flash_ms = record.at("flash", 8192, d=64).ms
print(f"PyTorch's flash backend takes {flash_ms:.1f} ms")

# %% [markdown]
# **Predict**: how many times as fast as the dense way is it, there? (Dense attention
# does not reach the full rate of a copy.)

# %%
predict("8.f", 5.7, unit="times")

# %%
slow, fast = (record.at(rung, 8192, d=64) for rung in ("dense", "flash"))
print(record)
print(f"dense {slow.ms:.1f} ms, flash {fast.ms:.1f} ms: {fast.tflops:.0f} TFLOP/s")
measured("8.f", slow.ms / fast.ms)

# %%
gpu_plots.ladder(record, d=64, causal=False)

# %% [markdown]
# This is the picture of the lesson. (Operations are counted as the formula needs them,
# $4N^2 d$ a head, whatever a kernel really does; the roof is a large matrix product on
# the same machine. PyTorch math has no mark where its squares would not fit.) Read it
# from below.

# %%
rows = record.ladder(d=64)
for rung, by_length in rows.items():
    at = by_length.get(16384)
    if at and not at.reason:
        print(f"{record.titles[rung]:24} {at.tflops:5.0f} TFLOP/s,",
              f"{at.of_matmul:4.0%} of the roof, {at.ratio:.2f} times flash")

# %% [markdown]
# - The two rungs in *torch* are bound by memory, whether they hold the square or not:
#   every step goes through it. (Why dense attention gets faster again with a single
#   sequence in the batch, at 16,384, we do not know. *PyTorch math* is the same formula,
#   but turns 16 bits into float32 first.)
# - *CUDA C++ with plain tiles* never stores the square either, and is still slow. The
#   traffic is gone, and now its products are the limit: it multiplies number by number,
#   without tensor cores, and must fetch each pair from shared memory.
# - *With tensor cores* the same steps are many times as fast.
# - *Triton* takes a page of Python for it, and gets further: its compiler uses the
#   newest instructions of this chip, which neither that kernel nor FlashAttention-2
#   does.
# - *cuDNN* shows that there is still room.
#
# Nobody reaches the roof. A product only multiplies. Attention must take an exponential
# of every score in between, by a unit that is much slower, and the tensor cores wait
# for it unless the two are made to overlap.

# %%
for rung in ("dense", "cuda_tiles", "cuda_tensor_cores", "triton"):
    at = record.at(rung, 4096, d=64)
    if at.traffic_bytes:
        intensity = at.tflops * at.ms * 1e9 / at.traffic_bytes
        print(f"{record.titles[rung]:24} {intensity:4.0f} operations a byte")
rungs_under_roof(record, gpu_plots.roofline_rungs)

# %% [markdown]
# The roofline of lesson 06, with what the blocks load and store, as counted. Let N
# grow: which marks move, and along what? Dense
# attention lies where the roof is a slope: bytes limit it, and no faster product would
# help it. Fused, the intensity follows from the loops: $4N^2d$ operations, and for each
# block of queries K and V, $4Nd$ bytes. That makes as many operations a byte as a block
# has queries. What plain tiles get out of it lies far beneath the roof. And Triton lies
# above it, which is impossible, if each of these bytes came from global memory. So not
# all of them did: blocks of one head want the same K and V at about the same time, and
# find them in a cache that all multiprocessors share.
#
# And causal? Half of the scores are hidden, and whole blocks are skipped. Does it take
# half the time?

# %%
for n in (1024, 2048, 4096, 8192, 16384):
    times = [record.at("triton", n, d=64, causal=causal).ms for causal in (True, False)]
    rows = blocks(n, 64)  # of blocks of 64 keys, each sees one more than the last
    print(f"N = {n:6,}: {times[0] / times[1]:.0%} of the time,", end=" ")
    print(f"{(rows + 1) / (2 * rows):.0%} of the blocks of 64 x 64")

# %% [markdown]
# About half. The blocks on the diagonal are computed whole, so a little more than half
# of them are needed, and less and less more. The rest is the machine: a mask costs
# instructions, at short lengths the blocks have very unequal work, and the two programs
# hand out their blocks in different orders, so that caches serve them differently.
# (Lesson 07 asked how large blocks should be, for a
# mask. Smaller ones skip more, and feed the tensor cores worse. Which are the fastest
# is found by trying, and `course_utils/kernels/blocks.py` has the outcome.)
#
# Have you a GPU of your own? `python course.py bench gpu --quick --out mine.json`
# climbs the same ladder on it. And this is your kernel:

# %%
def on_gpu(q, k, v, block_q=128, block_k=64):
    """Your forward kernel on CUDA tensors (heads, N, d): out."""
    heads, n, d = q.shape
    out, logsumexp = torch.empty_like(q), torch.empty(heads, n, device=q.device)
    grid, arguments = (blocks(n, block_q), heads), (q, k, v, out, logsumexp, n, n)
    flash_forward_kernel[grid](*arguments, d**-0.5, d, block_q, block_k, num_warps=8)
    return out


if HAS_GPU:
    from course_utils.gpu_timing import compare

    with needs("8.4"):
        big = torch.randn(3, 32, 4096, 64, device="cuda", dtype=torch.bfloat16)
        ratio = compare(
            lambda: on_gpu(*big), lambda: scaled_dot_product_attention(*big[:, None])
        ).ratio
        print(f"{ratio:.2f} times PyTorch's speed")
else:
    print("no GPU of sm_80 or newer here: nothing to time")

# %% [markdown]
# ## The famous measurement, once more
#
# Lesson 07 recounted the table in GN-27 and E5-77, and left its runtimes open: 41.7 ms
# for standard attention, 7.3 ms for FlashAttention, forward and backward, on an A100.
# Here are the same sizes on the recorded GPU: N = 1,024, d = 64, 16 heads, a batch of
# 64, fp16, causal, with dropout.

# %%
print(record)
flash = record.gn27_row("flash")
for rung in ("dense", "flash"):
    row = record.gn27_row(rung)
    peak = row["peak_bytes"] / 1e9
    print(f"{record.titles[rung]:14} {row['ms']:5.1f} ms, at most {peak:.2f} GB held")
print(f"time: {flash['runtime_ratio']:.1f} times less, the paper {41.7 / 7.3:.1f}")
held = flash["peak_ratio"]
print(f"bytes held: {held:.1f} times less; the paper, bytes moved: {40.3 / 4.4:.1f}")

# %%
gpu_plots.gn27(record)

# %% [markdown]
# A newer machine, other kernels on both sides, and the finding stands (L12-02). The two
# last ratios are not of the same kind, and should not be compared as numbers: the paper
# counts bytes that crossed, torch counts bytes that were held.

# %% [markdown]
# ## Backward
#
# Lesson 07's backward pass went through HBM with dQ: keys outside, dK and dV on chip,
# dQ loaded and stored in every round. On a GPU that is worse than it looks. Blocks of
# keys run at the same time, so two of them would add to the same rows of dQ at once.
# Two cures are in use: additions that cannot be interrupted (*atomic* ones), whose
# order is different each time, and so is the last digit; or **two kernels**. One has
# the keys outside and makes dK and dV. The other has the queries outside and makes dQ.
# P is formed twice, the traffic is about the same, and no block ever waits for another.
#
# Both want the number $D_i = \sum_c dO_{ic} O_{ic}$ of each row, `row_dot` here (d is
# taken). It is made by a small kernel before, or by torch.

# %% [markdown]
# ### Exercise 8.6 - backward: dK and dV - 3 points, hard, 30 min, optional
#
# The program with number j along axis 0 has the j-th `block_k` keys of head h (axis 1),
# and lets the queries come by.
#
# - `q`, `do` (heads, n_queries, d); `k`, `v`, `dk`, `dv` (heads, n_keys, d);
#   `logsumexp`, `row_dot` (heads, n_queries), float32. Not causal;
# - with $P = e^{S - \text{logsumexp}}$ and
#   $dS = P \circ (dO\,V^\top - \text{row\_dot})$: $dV = P^\top dO$ and
#   $dK = \text{scale} \cdot dS^\top Q$.
#
# **Budget**: k and v are loaded once, dk and dv stored once; q, do, logsumexp and
# row_dot are loaded once for each block of keys.

# %%
@triton.jit
def flash_backward_keys_kernel(
    q, k, v, do, logsumexp, row_dot, dk, dv, n_queries, n_keys, scale,
    d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):
    """dk, dv of one block of keys of one head."""
    ### BEGIN SOLUTION
    head = tl.program_id(1)
    keys = tl.program_id(0) * block_k + tl.arange(0, block_k)
    rows = tl.arange(0, block_q)
    columns = tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows[:, None]) * d + columns  # (block_q, d)
    k_at = (head * n_keys + keys[:, None]) * d + columns  # (block_k, d)
    in_k = keys[:, None] < n_keys

    k_tile = tl.load(k + k_at, mask=in_k, other=0.0)
    v_tile = tl.load(v + k_at, mask=in_k, other=0.0)
    dk_tile = tl.zeros((block_k, d), tl.float32)
    dv_tile = tl.zeros((block_k, d), tl.float32)
    for start in range(0, n_queries, block_q):
        in_q = start + rows < n_queries
        q_tile = tl.load(q + start * d + q_at, mask=in_q[:, None], other=0.0)
        do_tile = tl.load(do + start * d + q_at, mask=in_q[:, None], other=0.0)
        row_at = head * n_queries + start + rows
        lse = tl.load(logsumexp + row_at, mask=in_q, other=float("inf"))  # p = 0 there
        dots = tl.load(row_dot + row_at, mask=in_q, other=0.0)

        p = tl.exp(scale * tl.dot(q_tile, tl.trans(k_tile)) - lse[:, None])
        dv_tile = tl.dot(tl.trans(p.to(do_tile.dtype)), do_tile, dv_tile)
        ds = p * (tl.dot(do_tile, tl.trans(v_tile)) - dots[:, None])
        dk_tile = tl.dot(tl.trans(ds.to(q_tile.dtype)), q_tile, dk_tile)
    tl.store(dk + k_at, scale * dk_tile, mask=in_k)
    tl.store(dv + k_at, dv_tile, mask=in_k)
    ### END SOLUTION

# %%
check("8.6", flash_backward_keys_kernel)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# No maxima and no rescaling here: P comes out normalized. So it is a plain loop with
# four products, and two accumulators.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Queries beyond the last one must add nothing to dK and dV. Their rows of q and do are
# zeros if your masks say so, and then they add nothing. To be sure: which `other` of
# the logsumexp makes their P vanish?
# </details>

# %% [markdown]
# ### Exercise 8.7 - backward: dQ - 2 points, medium, 15 min, optional
#
# The other kernel: queries outside, as in 8.4. $dQ = \text{scale} \cdot dS\,K$. Shapes
# as in 8.6; `dq` as q.
#
# **Budget**: q, do, logsumexp and row_dot are loaded once, dq is stored once; k and v
# are loaded once for each block of queries.

# %%
@triton.jit
def flash_backward_queries_kernel(
    q, k, v, do, logsumexp, row_dot, dq, n_queries, n_keys, scale,
    d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):
    """dq of one block of queries of one head."""
    ### BEGIN SOLUTION
    head = tl.program_id(1)
    rows = tl.program_id(0) * block_q + tl.arange(0, block_q)
    keys = tl.arange(0, block_k)
    columns = tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows[:, None]) * d + columns  # (block_q, d)
    k_at = (head * n_keys + keys[:, None]) * d + columns  # (block_k, d)
    in_q = rows < n_queries

    q_tile = tl.load(q + q_at, mask=in_q[:, None], other=0.0)
    do_tile = tl.load(do + q_at, mask=in_q[:, None], other=0.0)
    row_at = head * n_queries + rows
    lse = tl.load(logsumexp + row_at, mask=in_q, other=0.0)
    dots = tl.load(row_dot + row_at, mask=in_q, other=0.0)
    dq_tile = tl.zeros((block_q, d), tl.float32)
    for start in range(0, n_keys, block_k):
        in_k = start + keys < n_keys
        k_tile = tl.load(k + start * d + k_at, mask=in_k[:, None], other=0.0)
        v_tile = tl.load(v + start * d + k_at, mask=in_k[:, None], other=0.0)
        s = scale * tl.dot(q_tile, tl.trans(k_tile))
        s = tl.where(in_k[None, :], s, -float("inf"))  # else e^(0 - lse) may overflow
        p = tl.exp(s - lse[:, None])
        ds = p * (tl.dot(do_tile, tl.trans(v_tile)) - dots[:, None])
        dq_tile = tl.dot(ds.to(k_tile.dtype), k_tile, dq_tile)
    tl.store(dq + q_at, scale * dq_tile, mask=in_q[:, None])
    ### END SOLUTION

# %%
check("8.7", flash_backward_queries_kernel)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The frame of 8.4 and the middle of 8.6. A key beyond the last one has zeros in its
# tile of K, so what it adds is 0, unless its p is infinite: $e^{0 - \text{logsumexp}}$
# can be.
# </details>

# %% [markdown]
# Together they are a backward pass. Torch is the witness:

# %%
with needs("8.4", "8.6", "8.7"):
    do = torch.randn(2, 200, 64)
    tensors = [x.clone().requires_grad_() for x in (q, k, v)]
    theirs = torch.autograd.grad(dense(*tensors), tensors, do)
    forward = attention(flash_forward_kernel, q.numpy(), k.numpy(), v.numpy()).values
    row_dot = (do.numpy() * forward["out"]).sum(-1)
    given = [x.numpy() for x in (q, k, v, do)] + [forward["logsumexp"], row_dot]
    sizes, space = (200, 200, 64**-0.5), [np.empty_like(q.numpy()) for _ in range(3)]
    tiles = {"d": 64, "block_q": 32, "block_k": 32}
    kv = run(flash_backward_keys_kernel, (7, 2), *given, *space[:2], *sizes, **tiles)
    dq = run(flash_backward_queries_kernel, (7, 2), *given, space[2], *sizes, **tiles)
    mine = dq.values["dq"], kv.values["dk"], kv.values["dv"]
    for name, ours, their in zip(("dq", "dk", "dv"), mine, theirs):
        print(f"{name}: off torch's by {np.abs(ours - their.numpy()).max():.0e}")

# %% [markdown]
# And on the clock, the backward passes of the ladder:

# %%
gpu_plots.ladder(record, d=64, causal=False, passes="backward")

# %% [markdown]
# The order of the rungs is as before, but for one pair: here the dense way is ahead of
# the *efficient* backend. (The two in CUDA C++ have no backward pass.)

# %% [markdown]
# ### Exercise 8.8 - make it fast - 4 points, hard, 60 min, optional
#
# For who has a GPU (sm_80 or newer). Write an attention that is at least as fast as
# PyTorch's flash backend.
#
# - `q`, `k`, `v`: CUDA tensors (B, H, N, D), bfloat16, contiguous, D of 64 or 128;
#   `causal`: a bool. Return out, of the shape of q. Forward only;
# - the work is done by a kernel of yours: PyTorch's attention and other libraries are
#   refused;
# - the check times both in one run, in turns, on fresh inputs, and compares the results
#   after the timing. What is faster than the machine's bytes and operations allow is
#   refused.
#
# What can make a difference, in the order in which to try it: block sizes, `num_warps`
# and `num_stages` (8.3); `tl.exp2` in place of `tl.exp`, with the factor $\log_2 e$
# folded into the scale; no masks in the blocks that need none, by a second loop for
# those that do; for causal, the blocks with the most keys first.

# %%
@triton.jit
def fast_kernel(
    q, k, v, out, n, scale, causal: tl.constexpr,
    d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):
    """A kernel for fast_attention: change the signature as you like."""
    ### BEGIN SOLUTION
    head = tl.program_id(1)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * block_q  # longest first
    rows = first + tl.arange(0, block_q)
    keys = tl.arange(0, block_k)
    columns = tl.arange(0, d)[None, :]
    q_at = (head * n + rows[:, None]) * d + columns
    k_at = (head * n + keys[:, None]) * d + columns
    in_q = rows[:, None] < n

    q_tile = tl.load(q + q_at, mask=in_q, other=0.0)
    o = tl.zeros((block_q, d), tl.float32)
    row_sum = tl.zeros((block_q,), tl.float32)
    row_max = tl.full((block_q,), -1e30, tl.float32)
    stop = tl.minimum(first + block_q, n) if causal else n
    whole = (first if causal else n) // block_k * block_k  # no mask before
    for edge in tl.static_range(2):
        for start in range(whole if edge else 0, stop if edge else whole, block_k):
            if edge:
                in_k = (start + keys < n)[:, None]
                k_tile = tl.load(k + start * d + k_at, mask=in_k, other=0.0)
                v_tile = tl.load(v + start * d + k_at, mask=in_k, other=0.0)
            else:
                k_tile = tl.load(k + start * d + k_at)
                v_tile = tl.load(v + start * d + k_at)
            s = tl.dot(q_tile, tl.trans(k_tile))
            if edge:
                last_seen = rows[:, None] if causal else n - 1
                s = tl.where(start + keys[None, :] <= last_seen, s, -float("inf"))
            new_max = tl.maximum(row_max, scale * tl.max(s, axis=1))
            p = tl.exp2(scale * s - new_max[:, None])
            alpha = tl.exp2(row_max - new_max)
            row_sum = alpha * row_sum + tl.sum(p, axis=1)
            o = tl.dot(p.to(v_tile.dtype), v_tile, alpha[:, None] * o)
            row_max = new_max
    tl.store(out + q_at, o / row_sum[:, None], mask=in_q)
    ### END SOLUTION


def fast_attention(q, k, v, causal: bool) -> torch.Tensor:
    """Attention of (B, H, N, D) on a GPU, by a kernel of your own."""
    ### BEGIN SOLUTION
    batch, heads, n, d = q.shape
    out = torch.empty_like(q)
    block_q, block_k = 128, 128 if d == 64 else 64
    grid = blocks(n, block_q), batch * heads
    scale = d**-0.5 * math.log2(math.e)
    fast_kernel[grid](
        q, k, v, out, n, scale, causal, d, block_q, block_k, num_warps=8, num_stages=3
    )
    return out
    ### END SOLUTION

# %%
check("8.8", fast_attention)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Begin with the kernel of 8.5 as it is, launched with `num_warps=8`, and tiles of 128
# queries and 64 or 128 keys. Change one thing at a time, and measure each:
# `course_utils.gpu_timing.compare(ours, theirs)`.
# </details>

# %% [markdown]
# ## The course's own
#
# `course_utils.kernels.flash_attention` is what a graduate of this lesson would make of
# it: forward and backward, for any N, any d up to 256, strided inputs, fewer heads in k
# and v than in q. Its Triton kernels stand in `course_utils/kernels`, and you can read
# them now. Without a GPU it takes blocks in torch. It is differentiable:

# %%
from course_utils.kernels import flash_attention

tensors = [x[None].clone().requires_grad_() for x in (q, k, v)]
flash_attention(*tensors, causal=True).sum().backward()
print([tuple(x.grad.shape) for x in tensors])

# %% [markdown]
# One thing to know before you put it in the place of PyTorch's: what `causal` means
# when there are fewer queries than keys. The values are all 1 in the place of their
# key, so the output shows what each query has seen:

# %%
two, four = torch.zeros(1, 1, 2, 16), torch.zeros(1, 1, 4, 16)
marks = torch.eye(4, 16)[None, None]  # value j is 1 in place j
ours = flash_attention(two, four, marks, causal=True)
theirs = scaled_dot_product_attention(two, four, marks, is_causal=True)
for name, out in (("ours", ours), ("PyTorch's", theirs)):
    print(f"{name}: queries see", (out[0, 0, :, :4] > 0).int().tolist())

# %% [markdown]
# Ours aligns the mask at the bottom right: the last query sees everything, as when two
# new tokens continue a text of two. PyTorch's `is_causal` aligns at the top left: the
# first query sees the first key. With as many queries as keys it is the same.
#
# ## What to take along
#
# Counting came first and was right: what a kernel loads and stores is a property of its
# loops, the same in NumPy, in Triton and in CUDA C++, and fusing attention is worth
# what the counting promised. The clock added what counting bytes cannot show. Once the
# traffic is gone arithmetic is the limit, and then it matters which unit multiplies,
# how many blocks fit, and whether anything waits.
#
# Limits do not multiply. At each moment one of them is the tightest: bytes, operations,
# registers, threads. To make a program faster is to find out which, and to change that
# one.

# %% [markdown]
# ### In your own words 8.w
#
# The CUDA C++ kernel with plain tiles keeps the scores on chip, as the one with tensor
# cores does, and is many times slower. Explain in two sentences what limits each of the
# two, and why less traffic would not help the first.
#
# (No check reads this one: a person does.)

# %% [markdown] written="8.w"
# The plain kernel is limited by arithmetic: without tensor cores its unit for products
# does a small part of the operations a second that the chip could do, so its bytes have
# long arrived when it has finished with them, and fewer of them would change nothing.
# The other multiplies so much faster that what comes between its products, the
# exponentials and the waiting for tiles, is what it spends its time on.

# %%
progress()
