# %% [markdown]
# # 01 Measuring memory
#
# A program that runs out of memory tells you that it did. It does not tell you why. To save
# memory you first have to see it: what an array weighs, which arrays are there at this moment,
# what a single line takes on its way, and because of whom an array is still alive.
#
# This lesson gives you the instruments for that. On the way you write four functions. Some have a
# memory budget, and are held to it by measurement.
#
# Core: four exercises, 12 points, about 90 minutes with the reading.
#
# Before most measurements you are asked for a **prediction**. Put a number in place of the `...`,
# even a bad one, and run the cell. The predictions that fail are the ones you will remember.

# %%
import sys
import tracemalloc

import numpy as np

from course_utils import check, measured, needs, predict, progress
from course_utils.plots import growth
from course_utils.timeline import trace_lines
from course_utils.tracing import Trace
from course_utils.tracing import end_trace, print_trace_stats, snapshot_trace, start_trace
from course_utils.widgets.memory import scrub

MB = 10**6

# %% [markdown]
# ## 1. What an array weighs
#
# Take a thousand times a thousand random numbers in float64. Python can be asked for the size of
# any object.

# %%
rng = np.random.default_rng(0)
n = 1000
X = rng.standard_normal((n, n))
print(f"sys.getsizeof(X)  {sys.getsizeof(X):>9,} bytes")
print(f"n * n * 8         {n * n * 8:>9,} bytes")
print(f"the difference    {sys.getsizeof(X) - n * n * 8:>9,} bytes")
print(f"X.nbytes          {X.nbytes:>9,} bytes")

# %% [markdown]
# The first line is the lecture's (figure L12-04). The second is what its C program asks `malloc`
# for (figure L12-05): a million numbers of 8 bytes. What lies between is the Python object around
# the numbers: a shape, strides, a dtype. It changes from one NumPy version to the next, and it
# hardly ever matters. The numbers themselves are the **payload**, `X.nbytes`. From here on,
# payload is what we count.
#
# Now take one row, `row = X[0]`. It has a thousand numbers. What does `sys.getsizeof(row)` say?

# %%
predict("1.a", 8_112, unit="bytes")

# %%
row = X[0]
measured("1.a", sys.getsizeof(row))
for name, array in {"X": X, "X[0]": row, "X.T": X.T, "X[:, ::2]": X[:, ::2]}.items():
    print(f"{name:<10} getsizeof {sys.getsizeof(array):>9,}   nbytes {array.nbytes:>9,}")

# %% [markdown]
# `row` has no numbers of its own. It is a **view**: a small object with a shape and strides,
# which points into the memory of `X`. `getsizeof` counts what an object owns, so of a view it
# gives the small object, whatever that looks at. `nbytes` gives what it looks at, whoever owns
# it.
#
# Neither tells how much memory you get back when `row` is gone. That third number is the one
# that matters, and you will compute it in section 4.
#
# How good a bargain is an array? Here are the same million numbers as a Python list.

# %%
numbers = X.ravel().tolist()
pointers, floats = sys.getsizeof(numbers), sum(map(sys.getsizeof, numbers))
print(f"the list itself {pointers:,}, its floats {floats:,} bytes")
print(f"together {(pointers + floats) / X.nbytes:.1f} times the array")
del numbers

# %% [markdown]
# Each number became an object with a header of its own, and the list points to it.
#
# Torch keeps its numbers as NumPy does, in one block, which it calls a *storage*. The lecture
# asks for its size, too.

# %%
import torch

T = torch.randn(n, n)
print(f"sys.getsizeof(T)                    {sys.getsizeof(T):>9,} bytes")
print(f"sys.getsizeof(T.untyped_storage())  {sys.getsizeof(T.untyped_storage()):>9,} bytes")
print(f"T.nbytes                            {T.nbytes:>9,} bytes")
print(f"T is {T.dtype}, X is {X.dtype}")

# %% [markdown]
# The tensor itself is a mere handle. On the slide its storage has 4,000,072 bytes (figure
# L12-06), and here it probably has a few less: the object around the numbers again, which every
# version makes a little different. The payload has no version. It is the slide's `n*n*4` (figure
# L12-07).
#
# That is half of what NumPy took, but not because torch is thrifty. Unless you say otherwise,
# NumPy makes float64 and torch float32. How many numbers, and how many bytes for each: nothing
# else counts.

# %% [markdown]
# ### Exercise 1.1 - payload of any shape and dtype - 2 points, easy, 6 min
#
# $$\text{payload} = \text{bytes of one number} \cdot \prod_k \text{shape}_k$$
#
# `payload_bytes(shape, dtype)` takes a tuple of lengths, which may be empty, and anything that
# `np.dtype` takes: `"float32"`, `np.int8`, a dtype itself. It returns the payload as an integer.
#
# **Budget:** nothing. The array must not be made. The check asks for arrays that fit into no
# machine, and wants their bytes right to the last digit.

# %%
def payload_bytes(shape: tuple[int, ...], dtype) -> int:
    """Bytes of the numbers in an array of this shape and dtype."""
    ### BEGIN SOLUTION
    payload = np.dtype(dtype).itemsize
    for length in shape:
        payload *= length
    return payload
    ### END SOLUTION

# %%
check("1.1", payload_bytes)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Who knows how many bytes a number of some dtype takes? Write `np.dtype("float32").` and press Tab.
# </details>
# <details><summary>Hint 2</summary>
#
# An array of shape `()` holds one number. What should a product of no factors be, and of which
# type?
# </details>
# <details><summary>Hint 3</summary>
#
# Only the largest shapes are wrong? NumPy's integers have 64 bits, and Python's as many as they
# need. Which of the two multiplies in your code?
# </details>

# %% [markdown]
# What is it good for? Attention compares every token with every token, in every head. Here are
# the scores of a single layer with 32 heads, in float16, before anything else is stored.

# %%
with needs("1.1"):
    for tokens in (2_000, 32_000, 128_000):
        scores_bytes = payload_bytes((32, tokens, tokens), "float16")
        print(f"{tokens:>7,} tokens: {scores_bytes / 1e9:>8,.1f} GB")

# %% [markdown]
# No GPU holds the last line. Lessons 05 to 08 are about how to do without it.
#
# ## 2. What tracemalloc sees
#
# Payload is arithmetic. But a program makes arrays and lets go of them, and what is there *now*?
# Python keeps a ledger, if you ask for it: `tracemalloc` notes every block of memory that is
# taken, until it is given back. The lecture wraps it in four functions (figures L12-08 to
# L12-11), and so does `course_utils.tracing`.

# %%
print("Simple example")
start_trace()
a = 1.0 * np.zeros((n, n))
print_trace_stats(snapshot_trace())
end_trace()

# %% [markdown]
# That is figure L12-12. The next listing computes with `a`, and discards nothing (figure L12-13).

# %%
print("No discarding")
start_trace()
a = 1.0 * np.zeros((n, n))
b = a * a
c = np.sum(b, axis=1)
stats = snapshot_trace()
end_trace()
print_trace_stats(stats)
print(f"exactly {stats.current_bytes:,} bytes")

# %% [markdown]
# Two matrices, and a vector that the printout swallows: a megabyte here is $10^6$ bytes, and what
# is left over is cut off. The third listing lets go of `b`, which nobody needs any more.

# %%
print("Discarding")
start_trace()
a = 1.0 * np.zeros((n, n))
b = a * a
c = np.sum(b, axis=1)
b = None
stats = snapshot_trace()
end_trace()
print_trace_stats(stats)
print(f"exactly {stats.current_bytes:,} bytes")

# %% [markdown]
# (The slide shows another headline, "With discarding", than its own code prints, figure L12-14.
# The number is right.)
#
# `b = None` does not free anything by itself. It takes the last name from the array, and Python
# frees at once what nothing refers to.
#
# These slides say that tracemalloc tracks only what NumPy allocates (figure L12-15). Let us ask
# it without any wrapper, and give it something that is not NumPy's.

# %%
tracemalloc.start()
text = bytes(8 * MB)
with_text, _ = tracemalloc.get_traced_memory()
array = np.ones((n, n))
with_both, _ = tracemalloc.get_traced_memory()
tracemalloc.stop()
print(f"8 MB of bytes: {with_text:>10,} traced")
print(f"and an array:  {with_both:>10,} traced")

# %% [markdown]
# So the slide needs a correction: tracemalloc sees whatever Python allocates, and NumPy's arrays
# among it. But it can tell them apart, because NumPy labels its blocks with a number of its own,
# a *domain*. Filter by it:

# %%
tracemalloc.start()
words = [str(i) for i in range(100_000)]
array = np.ones((n, n))
everything, _ = tracemalloc.get_traced_memory()
numpy_only = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
blocks = tracemalloc.take_snapshot().filter_traces([numpy_only]).traces
tracemalloc.stop()
print(f"everything   {everything:>10,}")
print(f"NumPy alone  {sum(block.size for block in blocks):>10,}")

# %% [markdown]
# The second line is what `snapshot_trace` counts. Its live bytes are those of arrays alone, and
# exact.
#
# Now let torch make a tensor while the trace runs, again a million numbers in float64. How many MB
# are counted?

# %%
predict("1.b", 8, unit="MB")

# %%
start_trace()
T = torch.ones(n, n, dtype=torch.float64)
after_first = snapshot_trace().current_bytes
T_borrowed = torch.from_numpy(np.ones((n, n)))
after_second = snapshot_trace().current_bytes
end_trace()
measured("1.b", after_first / MB)
print(f"with a second tensor, made by from_numpy: {after_second / MB} MB")

# %% [markdown]
# Nothing, and not for want of a label: torch takes its memory from the operating system, past
# Python, so no entry is made at all. The second tensor is counted, because its numbers lie in
# memory that NumPy took.
#
# So know what your instrument does not see. This course measures arrays of NumPy, and a check
# that finds your code fetching memory elsewhere will say so. (On a GPU, torch keeps a ledger
# itself. Lesson 08 reads it.)
#
# ## 3. Alive now, and alive at worst
#
# The listing that discards `b` ended with 8 MB. Would a machine with 9 MB have been enough for
# it?

# %%
print(f"alive at the end  {stats.current_bytes:>10,} bytes")
print(f"alive at worst    {stats.peak_bytes:>10,} bytes")

# %% [markdown]
# It would not. Before `b` went, it was there, beside `a` and `c`. The most that is alive at one
# moment is the **peak**, and the peak is what a machine must hold. (It comes out a little above
# the sum of the arrays, since tracemalloc keeps only one peak, for all of Python. We trust it to
# 64 KiB.)
#
# A peak can hide within one line. Let `a` and `b` have a million numbers each, and evaluate
#
# `a * b + a - b`
#
# How many arrays of this size are alive at worst, besides `a` and `b` themselves? Go through it
# slowly: what is computed first, what next, and what is still there then?

# %%
predict("1.c", 2, unit="arrays")

# %% [markdown]
# `peak_bytes` does in a `with` block what the four functions do: start, run, take a snapshot, end.

# %%
def peak_bytes(program, *inputs):
    """The most that program(*inputs) has alive at once, beyond its inputs."""
    with Trace() as trace:
        program(*inputs)
        return trace.snapshot().peak_bytes


def formula(a, b):
    return a * b + a - b


a, b = rng.random(1_000_000), rng.random(1_000_000)
measured("1.c", peak_bytes(formula, a, b) / a.nbytes)

# %% [markdown]
# Three results, one array. (On Windows you see two; read on.) The product `a * b` is a
# **temporary**: it has no name, so nobody can look at it later. NumPy notices, and when it comes
# to `+ a` it writes the sum over the product, and then the difference over the sum. This is
# called eliding temporaries.
#
# Would it be the same for arrays of another size?

# %%
for count in (1_000, 10_000, 32_767, 32_768, 100_000, 1_000_000):
    a, b = rng.random(count), rng.random(count)
    arrays = peak_bytes(formula, a, b) / a.nbytes
    print(f"{count:>9,} numbers, {a.nbytes:>9,} bytes: {arrays:.1f} arrays at worst")

# %% [markdown]
# One number more, and the peak is halved. To be sure that a temporary is really nobody's, NumPy
# inspects the stack of calls that led to it, and that only pays from 256 KiB on. (On Windows it
# cannot inspect the stack, and never elides.) So a toy example may tell a different story from
# the real thing. Whatever this course measures is larger than that.
#
# NumPy is careful, too. Which of these programs need one array, and which two? Guess before you
# run.

# %%
def with_a_name(a, b):
    product = a * b
    return product + a - b


def in_place(a, b):
    product = a * b
    product += a
    product -= b
    return product

# %%
programs = {
    "a * b + a - b": formula,
    "the same, product named": with_a_name,
    "the same, in place": in_place,
    "a + a * b": lambda a, b: a + a * b,
    "a - a * b": lambda a, b: a - a * b,
    "np.sqrt(a * b)": lambda a, b: np.sqrt(a * b),
}
for name, program in programs.items():
    print(f"{name:<25} {peak_bytes(program, a, b) / a.nbytes:.1f}")

# %% [markdown]
# A name keeps the product alive while the sum is made. `a + a * b` may be turned round, and NumPy
# does so; `a - a * b` may not. And `np.sqrt` is a function: it was handed an array, and makes a
# new one for its result.
#
# Nobody keeps all this in mind. If the peak matters, say yourself where a result should go:
# `product += a`, or `np.sqrt(x, out=x)`, write into memory that exists already. That holds at
# every size, on every system.
#
# Now watch a whole program. `trace_lines` runs a function and notes after each of its lines which
# arrays are alive. Drag the slider, or use the arrow keys: which line needs the most? A block is
# an array. What was there for a part of the line, and not at its end, has only a frame. (Where no
# widget can show, a figure stands in its place, and there it is hatched.)

# %%
def program():
    x = np.ones((n, n))
    x = x + 1
    y = x * x + np.sqrt(x)
    totals = y.sum(axis=1)
    y = None
    x /= totals[:, None]
    return x


scrub(trace_lines(program))

# %% [markdown]
# Now line by line. `x = x + 1` ends with one array, as it began, but two were there: the old
# `x` has its name until the new one is complete. The next line needs room for two intermediate
# results to make one `y`, and this is the peak of the program. `y = None` begins with `y` and
# ends without. `x /= ...` needs nothing extra at all.
#
# Write `x += 1` in place of `x = x + 1`, and run the cell again. What has changed?
#
# ## 4. Who keeps it alive
#
# Python frees an array when nothing refers to it. That sounds simple. Make a matrix of 8 MB, keep
# its first row, and delete the matrix. How many bytes are alive then?

# %%
predict("1.d", 8_000, unit="bytes")

# %%
start_trace()
big = np.ones((n, n))
row = big[0]
del big
measured("1.d", snapshot_trace().current_bytes)
end_trace()
print(f"row.nbytes {row.nbytes:,}, row.base.nbytes {row.base.nbytes:,}")

# %% [markdown]
# `del big` deletes a name. The array has another friend: a view refers to the array whose memory
# it looks into, its `base`, and a base cannot be freed in parts. A program that keeps a row of
# every batch, "only the predictions", may be keeping every batch.
#
# If you need a little of something large, copy it.

# %%
start_trace()
big = np.ones((n, n))
row = big[0].copy()
del big
print(f"{snapshot_trace().current_bytes:,} bytes alive")
end_trace()

# %% [markdown]
# So you have to know what is a view and what is a copy. Guess each line before you look.

# %%
codes = ["X[2:5]", "X[:, ::2]", "X.T", "X.reshape(-1)", "X.T.reshape(-1)"]
codes += ["X.ravel()", "X.T.ravel()", "X[[2, 3, 4]]", "X[X > 2]", "1.0 * X"]
for code in codes:
    kind = "view" if np.shares_memory(X, eval(code)) else "copy"
    print(f"{code:<16} {kind}")

# %% [markdown]
# A view is possible where the numbers lie in memory at regular steps. Those of a slice do, and a
# transpose only exchanges the steps of its axes. `X` can be read as one long vector, but `X.T`
# cannot, so the same `reshape` that was free makes a copy there, without a word. A list of
# indices, or a mask, is always copied.
#
# And `1.0 * X` is a copy, though no number changes. The lecture's `Tensor` does just that with
# each value that it is given (figure L12-16). Lesson 02 begins there.
#
# Steps may even be 0. This is how NumPy *broadcasts*:

# %%
number = np.array([1.0])
sheet = np.broadcast_to(number, (n, n))
print(f"nbytes {sheet.nbytes:,}, base.nbytes {sheet.base.nbytes}, steps {sheet.strides}")

# %% [markdown]
# A matrix full of numbers, all of which are the same one. Broadcasting is free until someone
# computes: the result has to be written down. Here is a mistake that everybody makes once.

# %%
targets = rng.random(n)  # (n,)
predictions = rng.random((n, 1))  # (n, 1)
errors = targets - predictions
print(f"{targets.nbytes:,} and {predictions.nbytes:,} bytes make {errors.nbytes:,}")
print(f"mean squared error {np.mean(errors**2):.4f}")

# %% [markdown]
# Whoever wrote this wanted `n` errors, and has every target against every prediction. The loss
# looks plausible. The bytes do not.
#
# Last, dtypes. Attention divides its scores by the square root of a width: `scores / np.sqrt(64)`.
# The scores are float32 and take 4 MB. How many MB does the result take?

# %%
predict("1.e", 4, unit="MB")

# %%
scores = np.ones((n, n), dtype=np.float32)
scaled = scores / np.sqrt(64)
measured("1.e", scaled.nbytes / MB)
print(f"np.sqrt(64) is a {type(np.sqrt(64)).__name__}, so scaled is {scaled.dtype}")
print(f"64**0.5 is a {type(64**0.5).__name__}, and scores / 64**0.5 {(scores / 64**0.5).dtype}")

# %% [markdown]
# One harmless `np.` has doubled everything that comes after it. A float of Python takes on the
# dtype of the array that it meets. A float64 of NumPy, even a single number, insists on its own
# (since NumPy 2).
#
# One more holder of arrays sits in front of you: the notebook. Run these two cells one after the
# other.

# %%
start_trace()
np.ones((n, n))

# %%
shown = snapshot_trace()
end_trace()
print_trace_stats(shown)

# %% [markdown]
# You gave that array no name, and it is still there. What a cell shows as its result is kept in
# `Out`, until the kernel ends. Give large results a name, or end the line with a
# semicolon.

# %% [markdown]
# ### Exercise 1.2 - memory that a list of arrays owns - 3 points, medium, 10 min
#
# Compute the third number, the one that matters: the bytes that some arrays keep alive, together.
# It is what comes free when they go, if nobody else refers to their memory.
#
# $$\text{owned} = \sum_{B} \text{bytes}(B)$$
#
# The sum goes over the buffers $B$ that the arrays look into: each of them once, and whole.
#
# `owned_bytes(arrays)` takes a list of arrays, which may be empty, and returns an integer. The
# arrays come from slicing, transposing, reshaping, broadcasting and computing. The owner of a
# buffer need not be in the list, and an array may be in it twice. The arrays are only read.

# %%
def owned_bytes(arrays: list[np.ndarray]) -> int:
    """Bytes of all the memory that these arrays keep alive together."""
    ### BEGIN SOLUTION
    owner_bytes = {}
    for array in arrays:
        owner = array if array.base is None else array.base
        owner_bytes[id(owner)] = owner.nbytes
    return sum(owner_bytes.values())
    ### END SOLUTION

# %%
check("1.2", owned_bytes)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Look at `X[2:5].base`, `X.T.base` and `X.base`. Who owns the memory in each case?
# </details>
# <details><summary>Hint 2</summary>
#
# Two arrays with equal numbers may lie in different memory. `a is b` says whether two names mean
# one object, and `id(a)` is a number that belongs to one object as long as it lives.
# </details>
# <details><summary>Hint 3</summary>
#
# A dictionary keeps one value for each key, however often you assign it.
# </details>

# %% [markdown]
# The trace knows this number as well, and now you can tell *why* it is what it is.

# %%
start_trace()
big = np.ones((n, n))
kept = [big[0], big[5:9], big.T[:2], np.ones(n)]
del big
with needs("1.2"):
    print(f"your function {owned_bytes(kept):,}")
print(f"the trace     {snapshot_trace().current_bytes:,}")
end_trace()

# %% [markdown]
# ## 5. Writing where the numbers are
#
# Three functions halve an array. What does each of them take on its way, and what does it leave
# in the caller's `x`?

# %%
def rebind(x):
    x = x / 2


def overwrite(x):
    x[:] = x / 2


def divide(x):
    x /= 2

# %%
for program in (rebind, overwrite, divide):
    x = np.ones((n, n))
    arrays = peak_bytes(program, x) / x.nbytes
    print(f"{program.__name__:<10} peak {arrays:.1f} arrays, then x[0, 0] = {x[0, 0]}")

# %% [markdown]
# `rebind` makes a new array and calls it `x`, for itself. The caller notices nothing. `overwrite`
# does change the caller's numbers, but first it builds the whole right side beside them. Only
# `divide` works in place.
#
# There is a price: the old numbers are gone. Write in place only what nobody will ask for again.
# (A backward pass asks for a lot. That is lesson 02.)

# %% [markdown]
# ### Exercise 1.3 - normalize rows in place - 3 points, medium, 12 min
#
# $$x_{ij} \leftarrow \frac{x_{ij}}{\sum_k x_{ik}}$$
#
# `normalize_rows(x)` takes a matrix of shape `(n, d)` in float64 or float32, which may be a view
# of something larger. Afterwards the rows of the caller's `x` sum to 1, each. No row sums to 0.
# Nothing is returned.
#
# **Budget:** beside `x`, one vector of `n` numbers. (The check is not petty and lets two pass.
# What it looks for is a second matrix.)

# %%
def normalize_rows(x: np.ndarray) -> None:
    """Divide every row of x, (n, d), by its sum, in the memory of x."""
    ### BEGIN SOLUTION
    x /= x.sum(axis=1, keepdims=True)
    ### END SOLUTION

# %%
check("1.3", normalize_rows)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# There are n sums. Which shape must they have, so that they broadcast along the rows of an `(n,
# d)` matrix?
# </details>
# <details><summary>Hint 2</summary>
#
# The right side of an assignment is computed in full before anything is stored. How large is yours?
# </details>
# <details><summary>Hint 3</summary>
#
# Wrong only where `x` is a view? Some methods give a view when they can, and a copy when they
# cannot. What you write into a copy never reaches `x`.
# </details>

# %% [markdown]
# ## 6. Blocks
#
# Sometimes the input is small, the answer is small, and what lies between them is huge. Take `n`
# points. For each, we want to know the mean and the largest of its distances to all points. The
# obvious way makes the table of distances.

# %%
def obvious_statistics(points):
    difference = points[:, None, :] - points[None, :, :]  # (n, n, d)
    distance = np.sqrt((difference**2).sum(axis=2))  # (n, n)
    return distance.mean(axis=1), distance.max(axis=1)  # (n,), (n,)

# %%
print(" points   input  answer        peak  (bytes)")
for count in (256, 512, 1024):
    points = rng.standard_normal((count, 3))
    peak = peak_bytes(obvious_statistics, points)
    answer_bytes = sum(part.nbytes for part in obvious_statistics(points))
    print(f"{count:>7,} {points.nbytes:>7,} {answer_bytes:>7,} {peak:>11,}")

# %% [markdown]
# Twice the points, twice the input, twice the answer, and four times the memory between.
#
# But who needs the whole table at once? A point's mean and largest distance need its own row and
# no other. So compute some rows, a **block**, take from them what you want, and let the next
# block have their memory.

# %% [markdown]
# ### Exercise 1.4 - row statistics of all pairwise distances - 4 points, hard, 20 min
#
# $$D_{ij} = \sqrt{\sum_k (p_{ik} - p_{jk})^2}, \qquad \text{mean}_i = \frac{1}{n} \sum_j D_{ij}, \qquad
# \text{largest}_i = \max_j D_{ij}$$
#
# `distance_statistics(points, block_rows)` takes points of shape `(n, d)` in float64, and returns
# two float64 arrays of shape `(n,)`: mean, largest. A point is one of the `n`, at distance 0 from
# itself. `block_rows` is at least 1. It need not divide `n`, and may be larger. The points are
# only read.
#
# **Budget:** at any moment five arrays of `block_rows * n * d` numbers, and a few vectors of `n`.
# So the peak may grow with `n`, but not with its square. The check measures it with `d = 3`,
# `block_rows = 32` and up to 4,096 points; do not let Python visit every pair of these, NumPy
# takes a block at once.

# %%
def distance_statistics(
    points: np.ndarray, block_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and largest distance from each point to all: (n, d) -> (n,), (n,)."""
    ### BEGIN SOLUTION
    n = len(points)
    mean, largest = np.empty(n), np.empty(n)
    for start in range(0, n, block_rows):
        rows = slice(start, start + block_rows)
        difference = points[rows, None, :] - points[None, :, :]  # (block_rows, n, d)
        distance = np.sqrt((difference**2).sum(axis=2))  # (block_rows, n)
        mean[rows] = distance.mean(axis=1)
        largest[rows] = distance.max(axis=1)
    return mean, largest
    ### END SOLUTION

# %%
check("1.4", distance_statistics)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `obvious_statistics` has `points` twice in its first line. Which of the two gives the rows of
# the table?
# </details>
# <details><summary>Hint 2</summary>
#
# `range(0, n, block_rows)` gives the first row of every block. A slice that reaches beyond the
# end simply stops there.
# </details>
# <details><summary>Hint 3</summary>
#
# Make the two results before the loop, and let each block write its part of them. If you collect
# the blocks, you have collected the table.
# </details>

# %% [markdown]
# Here are both, over the number of points.

# %%
sizes = (256, 512, 1024, 2048)
clouds = [rng.standard_normal((size, 3)) for size in sizes]
peaks = {"all at once": [peak_bytes(obvious_statistics, p) / MB for p in clouds]}
with needs("1.4"):
    peaks["in blocks"] = [
        peak_bytes(distance_statistics, p, 32) / MB for p in clouds
    ]
growth(sizes, peaks, xlabel="points", ylabel="peak, MB", title="Pairwise distances")

# %% [markdown]
# On logarithmic axes a power is a straight line, and its slope is the exponent: 2 for the table,
# 1 for blocks. The work is the same. Not one distance fewer was computed. They were only never
# there all at once.
#
# Replace points by tokens and distances by attention scores, and you hold the idea of
# FlashAttention. What is missing is a softmax that can be taken block by block. That is lesson
# 05.
#
# ## What to take along
#
# The payload is the number of elements times their size: 8,000,000 bytes for a million float64,
# half of it in float32, and all of it again after one `np.sqrt`. An array lives as long as
# anything refers to it: a row of 8,000 bytes kept 8,000,000 alive. And what a machine must hold
# is not what a program ends with, but its peak, which can hide within a line. If what lies
# between question and answer is too large to hold, ask who needs it whole.
#
# Next comes `02_requires_grad`: what a backward pass keeps alive, and how much of that nobody
# ever reads.

# %% [markdown]
# ### In your own words 1.w
#
# A function makes a large table and returns one row of it. Afterwards the whole table
# stays in memory, although no variable refers to it. Explain in two sentences why, and
# what the function should return instead.
#
# (No check reads this one: a person does.)

# %% [markdown] written="1.w"
# The row is a view: it owns no numbers, and it holds a reference to the array that
# does, so the table lives as long as the row. Returning `row.copy()` gives the caller
# an array of its own, and lets the table go when the function ends.

# %%
progress()
