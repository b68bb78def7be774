# %% [markdown]
# # 05 Online softmax: a mean that takes in what comes
#
# A softmax divides by a sum over its whole row. So it seems that the whole row must be
# there before the first probability is known. It need not be. In this lesson you take
# a softmax in pieces, in any order, and in memory that does not depend on how long the
# row is.
#
# It follows CS 577, lecture 12 (L12-49 to L12-52), a lecture on efficient language
# models (E5-82, E5-83), and an exercise that a third one leaves open (AD1-54 to
# AD1-56).
#
# Core: five exercises, 14 points, about 90 minutes with the reading.

# %%
from collections.abc import Iterable
from functools import reduce

import numpy as np

from course_utils import check, measured, needs, predict, progress
from course_utils.plots import growth
from course_utils.softmax_plots import merge_shapes, running_softmax
from course_utils.tracing import Trace
from course_utils.widgets.softmax import step_through_softmax

MB = 10**6
rng = np.random.default_rng(5)

# %% [markdown]
# ## A reference that does not come
#
# The lecture takes one row of scores, cut in two halves (L12-49), and a softmax that
# also returns the sum it divided by (L12-50).

# %%
C, d = 100, 3
I1, I2 = np.arange(0, C // 2), np.arange(C // 2, C)


def softmax(z):
    expz = np.exp(z)
    normalizer = np.sum(expz)
    return expz / normalizer, normalizer


# %% [markdown]
# It draws the scores `s`, then sets the seed, then draws the values `V`, and prints
# `p @ V` (L12-51). Let three readers do the same, each in a fresh kernel. The state of
# a fresh kernel's random numbers is nobody's choice; here a number plays it.

# %%
def as_printed(fresh):
    np.random.seed(fresh)  # what the kernel happens to start with
    s = np.random.rand(C)
    np.random.seed(42)
    V = np.random.randn(C, d)
    p, n = softmax(s)
    return p @ V


reference = np.array([0.13778369, -0.16034761, 0.04310764])
for fresh in (1, 2, 3):
    print(as_printed(fresh))
print(reference, "in the lecture")

# %% [markdown]
# Three readers, three vectors, and none is the lecture's. `V` is the same each time,
# since the seed stands right before it. Nothing fixes `s`. If the lecturer's `s` came
# from a seed as well, a search will find it.

# %%
hits = [
    seed
    for seed in range(20_000)
    if np.allclose(as_printed(seed), reference, rtol=0, atol=1e-8)
]
print("of 20,000 seeds, these lead to the reference:", hits)

# %% [markdown]
# One, and it is 42. So in the lecturer's kernel that line had run before `s` was drawn
# as well, in a cell that did not make it onto the slide. The reference is right; what
# it depends on was not all written down. Now it is:

# %%
np.random.seed(42)
s = np.random.rand(C)
np.random.seed(42)
V = np.random.randn(C, d)
p, n = softmax(s)
print(p @ V)

# %% [markdown]
# ## Where exp ends
#
# `softmax` takes `np.exp` of the scores as they are. Exponentials are soon large, and
# every floating-point format has a largest number. (float16 is a common one on GPUs.)

# %%
for dtype in (np.float64, np.float32, np.float16):
    print(f"{dtype.__name__}: up to {np.finfo(dtype).max:.5g}")

# %% [markdown]
# **Predict**: what is the largest whole number whose exponential is still finite, in
# float64 (5.a)? And in float16 (5.b)?

# %%
predict("5.a", 709)

# %%
predict("5.b", 11)

# %%
def finite_up_to(dtype):
    whole = np.arange(-1000, 1001)
    with np.errstate(all="ignore"):
        exp = np.exp(whole.astype(dtype))
    return whole[np.isfinite(exp)].max(), whole[exp > 0].min()


for dtype in (np.float64, np.float32, np.float16):
    last, first = finite_up_to(dtype)
    print(f"{dtype.__name__}: exp is finite up to {last}, and above zero from {first}")
measured("5.a", finite_up_to(np.float64)[0])
measured("5.b", finite_up_to(np.float16)[0])

# %% [markdown]
# Eleven is not much. A score in attention is the product of a query and a key. For
# vectors of 64 normal numbers:

# %%
queries, keys = rng.standard_normal((2, 1000, 64))
scores = queries @ keys.T
print(f"beyond 11: {np.mean(scores > 11):.1%}; the largest is {scores.max():.1f}")
print(f"divided by the root of 64: the largest is {scores.max() / 8:.1f}")

# %% [markdown]
# The usual division by $\sqrt d$ helps for vectors like these. But nothing holds a
# *trained* query and key to a length. And where a score is too large, nothing is left
# of the row:

# %%
with np.errstate(all="ignore"):
    print("[800, 801]  :", softmax(np.array([800.0, 801.0]))[0])
    print("[-801, -800]:", softmax(np.array([-801.0, -800.0]))[0])
print("[0, 1]      :", softmax(np.array([0.0, 1.0]))[0])

# %% [markdown]
# The first is inf / inf, the second 0 / 0: too low is as bad as too high. Yet all three
# rows have the same softmax, for a factor that all exponentials share cancels:
#
# $$\frac{e^{s_i - c}}{\sum_j e^{s_j - c}} = \frac{e^{-c}\, e^{s_i}}{e^{-c} \sum_j
# e^{s_j}} = \frac{e^{s_i}}{\sum_j e^{s_j}} .$$
#
# So we may choose $c$, and the row's largest score is a good choice: no exponent is
# above 0, so nothing overflows; one of them is 0, so the sum is at least 1, and nothing
# is divided by zero.
#
# A score that must not count is set to $-\infty$, whose exponential is exactly 0. This
# leaves one row without an answer: the one in which *every* score is $-\infty$. Its
# largest score is $-\infty$ too, and $-\infty - (-\infty)$ has no value. Somebody must
# decide. PyTorch decides both ways:

# %%
import torch

nothing = torch.full((1, 4), -torch.inf)
print("softmax  :", torch.softmax(nothing, dim=-1).numpy())
q, k, v = torch.randn(3, 4, 2)
attend = torch.nn.functional.scaled_dot_product_attention
print("attention:", attend(q[:1], k, v, attn_mask=nothing).numpy())

# %% [markdown]
# Here we take the second way: whoever looks at nothing gets zeros. A nan would spread
# to everything that is computed from it.

# %% [markdown]
# ### Exercise 5.1 - softmax of any scores - 2 points, easy, 10 min
#
# Write the softmax of each row:
#
# - `scores`: (rows, C), floating point, each finite or -inf; leave it as it is;
# - return an array (rows, C) in the dtype of `scores`. Each row adds up to 1; where a
#   score is -inf, there is 0;
# - a row that is all -inf gives a row of zeros.

# %%
def safe_softmax(scores: np.ndarray) -> np.ndarray:
    """The softmax of each row of scores (rows, C); zeros for a row of only -inf."""
    ### BEGIN SOLUTION
    largest = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    normalizer = weights.sum(axis=1, keepdims=True)
    return weights / np.where(normalizer == 0, 1, normalizer)
    ### END SOLUTION


# %%
check("5.1", safe_softmax)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `scores.max(axis=1, keepdims=True)` has shape (rows, 1), and lines up with the rows.
# </details>
#
# <details><summary>Hint 2</summary>
#
# A row of only -inf may subtract whatever you like, if it is not -inf. What is the sum
# of its exponentials then, and what would you rather divide by?
# </details>

# %% [markdown]
# ## Two blocks
#
# Now the row comes in two blocks, and the first is gone before the second is here
# (L12-52). What must be left of it? Three things:

# %%
def first_block(scores, values):
    """What is left of a block of scores (C,) and values (C, d)."""
    running_max = scores.max()
    weights = np.exp(scores - running_max)
    normalizer = weights.sum()
    output = weights @ values / normalizer
    return output, normalizer, running_max


print(*first_block(s[I1], V[I1]), sep="\n")

# %% [markdown]
# `output` is a mean of the values, (d,) numbers; `normalizer` is the total weight
# behind it; `running_max` says from where the weights were counted. The lecture's own
# normalizers count from 0, so they can be added as they are. Ours count from the
# largest score of their block: two lengths, one in metres, the other in feet.

# %% [markdown]
# ### Exercise 5.2 - the second block - 2 points, medium, 10 min
#
# The lecture's exercise, for any finite scores. Given what is left of a first block,
# and the second block itself, return what is left of both:
#
# - `output`: (d,), `normalizer` and `running_max`: numbers, as `first_block` returns
#   them; `scores`: (C,), `values`: (C, d);
# - return `(output, normalizer, running_max)` of all scores and values so far:
#
# $$m = \max_j s_j, \qquad l = \sum_j e^{s_j - m}, \qquad
# o = \frac{1}{l} \sum_j e^{s_j - m}\, v_j ;$$
#
# - no exponent that you take is above 0.

# %%
def add_block(
    output: np.ndarray,
    normalizer: float,
    running_max: float,
    scores: np.ndarray,
    values: np.ndarray,
) -> tuple[np.ndarray, float, float]:
    """(output (d,), normalizer, running_max) of what was there and the new block."""
    ### BEGIN SOLUTION
    new_max = max(running_max, scores.max())
    weights = np.exp(scores - new_max)
    old = np.exp(running_max - new_max) * normalizer
    total = old + weights.sum()
    return (old * output + weights @ values) / total, total, new_max
    ### END SOLUTION


# %%
check("5.2", add_block)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `output * normalizer` is a sum again: of exponentials, counted from `running_max`,
# times values. Sums can be added, once they count from the same maximum.
# </details>
#
# <details><summary>Hint 2</summary>
#
# $e^{s - m} = e^{s - m_1}\, e^{m_1 - m}$: one factor takes every term of a sum from the
# maximum $m_1$ to the maximum $m$.
# </details>

# %% [markdown]
# The lecture's row in two halves; then the same, 800 higher.

# %%
with needs("5.2"):
    for higher in (0, 800):
        begun = first_block(s[I1] + higher, V[I1])
        print(add_block(*begun, s[I2] + higher, V[I2])[0])
    print(reference, "in the lecture")

# %% [markdown]
# ## One score at a time
#
# Nothing says that a block has many scores. Take one at a time, $S_1, S_2, \dots$ with
# values $V_1, V_2, \dots$, and leave the maxima aside for a moment. The mean so far is
# $O_{j-1}$, its total weight $l_{j-1}$. A new value comes with weight $e^{S_j}$. Undo
# the division, add, and divide by the new total (E5-83):
#
# $$l_j = l_{j-1} + e^{S_j}, \qquad
# O_j = O_{j-1}\,\frac{l_{j-1}}{l_j} + \frac{e^{S_j}}{l_j}\,V_j .$$
#
# That is how any weighted mean takes in another member. Now with the maximum. When it
# moves from $m^{\text{old}}$ to $m$, what was summed before shrinks by
# $e^{m^{\text{old}} - m}$. The lecture prints (E5-82):
#
# $$m = \max(m^{\text{old}}, S), \qquad l = l^{\text{old}} + e^{S - m}, \qquad
# O = O^{\text{old}}\,\frac{l^{\text{old}}}{l}\,e^{m^{\text{old}} - m} +
# \frac{e^{S - m}}{l}\,V .$$
#
# **Predict**: the scores 1, 2, 3, 4, 5, 6, 7, 8 arrive in this order. With which $l$
# does the printed recursion end?

# %%
predict("5.c", 8)

# %%
def recursion(scores, values):
    """As printed (E5-82). Returns the mean and its total weight."""
    m, l, O = scores[0], 1.0, values[0]
    for S, V in zip(scores[1:], values[1:]):
        m_old, l_old = m, l
        m = max(m_old, S)
        l = l_old + np.exp(S - m)
        O = O * l_old / l * np.exp(m_old - m) + np.exp(S - m) / l * V
    return O, l


rising, ones = np.arange(1.0, 9.0), np.ones((8, 1))
measured("5.c", recursion(rising, ones)[1])
print(f"the sum of exp(score - 8): {np.exp(rising - 8).sum():.3f}")

# %% [markdown]
# Every score is a new maximum when it comes, and adds $e^0 = 1$. What is in $l$ already
# should shrink each time, and does not. What does that do to the output? All values
# here are 1, and every mean of ones is 1.

# %%
print("rising  1..8:", recursion(rising, ones)[0])
print("falling 8..1:", recursion(rising[::-1], ones)[0])
print("the lecture's row:", recursion(s, V)[0], " right:", p @ V)

# %% [markdown]
# With rising scores four fifths of the weight are lost. With falling scores the
# recursion is right, because the maximum never moves: a test that happens to begin with
# its largest score would have passed. On the lecture's row each number is off by about
# 2 %, which nobody sees who has nothing to compare it with.
#
# What is missing is the factor that $O$ has already, and that you gave to the
# normalizer in exercise 5.2: $l = l^{\text{old}}\, e^{m^{\text{old}} - m} + e^{S - m}$.

# %% [markdown]
# ## What a stream carries
#
# How much work is all this rescaling?
#
# **Predict**: 1,000 random scores arrive one at a time. How many of them, on average,
# are the largest so far when they come? (The first one is.)

# %%
predict("5.d", 7.5)

# %%
def records(scores):
    return 1 + np.sum(np.diff(np.maximum.accumulate(scores)) > 0)


average = np.mean([records(rng.permutation(1000)) for _ in range(5000)])
print(f"1 + 1/2 + 1/3 + ... + 1/1000 = {np.sum(1 / np.arange(1, 1001)):.2f}")
measured("5.d", average)

# %% [markdown]
# The $j$-th score is the largest of the first $j$ with probability $1/j$. So the
# maximum moves often at first and hardly ever later, unless the scores rise on the
# whole. Here is a row of 1,000 scores in 40 blocks:

# %%
running_softmax(3 * rng.standard_normal(1000), width=25)

# %% [markdown]
# Three panels, one idea. The maximum only rises. Where it does, the old sum is
# multiplied by the factor below; everywhere else that factor is 1. Then, there as
# everywhere, the block is added. At the end the sum stands where a softmax of the whole
# row would have put it. The output, which this figure leaves out, follows the sum: the
# same factors, at the same blocks.
#
# It may be carried as a mean, divided at every block, or as a sum, divided once at the
# end. For the memory that is the same. FlashAttention's Algorithm 1 carries the mean
# (Dao et al. 2022); FlashAttention-2 carries the sum, and saves the divisions (Dao
# 2023).
#
# Now stop the stream at every block. Four rows of 16 scores come here, each score with
# a value. You choose how many come at a time, and what is rescaled when the maximum
# rises: all older terms; none; all but the sum, as printed in E5-82; or none because
# there is no maximum, and weights are counted from 0. Before you try: which row
# forgives it when nothing is rescaled? Which one needs the maximum?

# %%
step_through_softmax()

# %% [markdown]
# When the largest score comes first, nothing ever has to be rescaled, and every way is
# right. In the other rows the output is off from the first block on that raises the
# maximum, unless all that came before weighs nothing. With a maximum, a single block of
# 16 is always right, since nothing is older than it. Without one three rows come out
# right, with nothing to rescale. The one that is 800 higher is nan, and no later block
# mends it.

# %% [markdown]
# ### Exercise 5.3 - any number of blocks - 4 points, hard, 20 min
#
# Now whole rows at once, and blocks that come from a generator: it can be gone through
# once, it has no length, and a block is gone when you let go of it.
#
# - `blocks` gives pairs of `scores` (rows, c) and `values` (c, d), at least one. The
#   rows, d and the dtype stay the same; c is at least 1 and may change;
# - a score is any finite number, such as 1,000 or -1,000, in some rows the one and in
#   some the other; or it is -inf, in a single place, a whole block, or all blocks of a
#   row;
# - return `(output, logsumexp)` over all blocks, (rows, d) and (rows,), in the dtype of
#   the scores. With $s_j$ the scores of a row and $v_j$ the values,
#
# $$\text{output} = \frac{\sum_j e^{s_j} v_j}{\sum_j e^{s_j}}, \qquad
# \text{logsumexp} = \log \sum_j e^{s_j} ;$$
#
# - a row of only -inf has an output of zeros, and a logsumexp of -inf;
# - leave the blocks as they are.
#
# **Budget**: the peak does not depend on the number of blocks, and is at most four
# blocks (scores and values) and six arrays of the output's size.

# %%
def stream_softmax(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """(output (rows, d), logsumexp (rows,)) of pairs of scores and values."""
    ### BEGIN SOLUTION
    running_max, normalizer, weighted = -np.inf, 0, 0
    for scores, values in blocks:
        new_max = np.maximum(running_max, scores.max(axis=1))
        shift = np.where(np.isneginf(new_max), 0, new_max)  # nothing seen: count from 0
        weights = np.exp(scores - shift[:, None])
        rescale = np.exp(running_max - shift)

        normalizer = rescale * normalizer + weights.sum(axis=1)
        weighted = rescale[:, None] * weighted + weights @ values
        running_max = new_max

    output = weighted / np.where(normalizer == 0, 1, normalizer)[:, None]
    with np.errstate(divide="ignore"):
        return output, running_max + np.log(normalizer)
    ### END SOLUTION


# %%
check("5.3", stream_softmax)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write it first for scores that are all finite. It is exercise 5.2 in a loop, with a
# vector where there was a number: `shift[:, None]` has shape (rows, 1).
# </details>
#
# <details><summary>Hint 2</summary>
#
# A state before the first block that any block can be added to: the largest of no
# scores is -inf, and the sum of no exponentials is 0.
# </details>
#
# <details><summary>Hint 3</summary>
#
# nan comes only where -inf is subtracted from -inf. Keep the true maximum, but *count*
# from something finite in rows where it is -inf. All exponentials there are 0, whatever
# you count from.
# </details>

# %% [markdown]
# Rows of up to four million scores, none of which is kept. (In a plain `for` loop two
# blocks are alive at once: its variables hold the old one while the generator makes the
# next.)

# %%
def endless(count, rows=4, width=65_536, d=4):
    for _ in range(count):
        yield rng.standard_normal((rows, width)), rng.standard_normal((width, d))


with needs("5.3"):
    for count in (2, 8, 64):
        with Trace() as trace:
            output, logsumexp = stream_softmax(endless(count))
            peak = trace.snapshot().peak_bytes
        came_by = count * 2 * 4 * 65_536 * 8
        print(f"blocks: {count:2} ({came_by / MB:5.1f} MB), peak: {peak / MB:4.1f} MB")

# %% [markdown]
# And why logsumexp? From it and a score alone follows the score's probability,
# $e^{s_i - \text{logsumexp}}$. It is all that one must keep of a row to make any of its
# probabilities again: lesson 03's idea of rematerialization, at one number a row.

# %% [markdown]
# ## In any order
#
# So far the blocks queue up. But each block could be taken alone, by whoever has time,
# and the *partial results* joined later. Let us write one as
#
# $$\Big(m,\quad l = \sum_j e^{s_j - m},\quad w = \sum_j e^{s_j - m}\, v_j\Big),$$
#
# with the output as a sum, not yet divided. A merge takes two of them, from any two
# sets of scores, and gives that of both sets together. Like $+$, it has a neutral
# element, the partial result of no scores at all: $(-\infty, 0, 0)$.

# %% [markdown]
# ### Exercise 5.4 - a merge in any order - 3 points, medium, 10 min
#
# Write the merge of two partial results:
#
# - each is a tuple `(running_max, normalizer, weighted)` of arrays (rows,), (rows,),
#   (rows, d); return such a tuple, in the same dtype, and leave both as they are;
# - `running_max` is the larger of the two, row by row;
# - a row may be $(-\infty, 0, 0)$ on either side or on both: nothing merged with
#   nothing is nothing;
# - the result goes into other merges, on either side, in any grouping.

# %%
def merge(a: tuple, b: tuple) -> tuple:
    """The partial result (running_max, normalizer, weighted) of a and b together."""
    ### BEGIN SOLUTION
    running_max = np.maximum(a[0], b[0])
    shift = np.where(np.isneginf(running_max), 0, running_max)
    from_a, from_b = np.exp(a[0] - shift), np.exp(b[0] - shift)

    normalizer = from_a * a[1] + from_b * b[1]
    weighted = from_a[:, None] * a[2] + from_b[:, None] * b[2]
    return running_max, normalizer, weighted
    ### END SOLUTION


# %%
check("5.4", merge)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Both sides are treated alike. Each gets a factor, which takes its two sums from its
# own maximum to the common one.
# </details>
#
# <details><summary>Hint 2</summary>
#
# The two rows with $-\infty$ are the trap of exercise 5.3 again.
# </details>

# %% [markdown]
# What is such an operator good for? It is associative, so the grouping is free; it is
# commutative, so whoever is ready first may go first. Here are eight parts in the order
# of a stream, and in that of a tournament:

# %%
merge_shapes(
    {
        "a stream": (((((((1, 2), 3), 4), 5), 6), 7), 8),
        "a tree": (((1, 2), (3, 4)), ((5, 6), (7, 8))),
    }
)

# %% [markdown]
# Seven merges each. In the stream each waits for the one before; in the tree, those of
# a round can run at the same time. When a language model writes its next word, there is
# one query and a long row of keys. A GPU would leave most of its processors idle, so
# the row is cut up among them, and their partial results are merged (Flash-Decoding,
# Dao et al. 2023). The same merge joins keys that lie on different GPUs.
#
# Do both give the same? In exact arithmetic, yes. In float32, let us see.

# %%
def partial(scores, values):
    running_max = scores.max(axis=1)
    weights = np.exp(scores - running_max[:, None])
    return running_max, weights.sum(axis=1), weights @ values


def tree(parts):
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]  # the one without a partner waits
        parts = [merge(a, b) for a, b in zip(parts[::2], parts[1::2])] + odd
    return parts[0]


def stream(parts):
    return reduce(merge, parts)


# %% [markdown]
# **Predict**: a row comes in blocks of four scores, in float32, and the partial results
# are merged one after another. With 16 times as many blocks, how many times larger is
# the rounding error?

# %%
predict("5.e", 4, unit="times")

# %% [markdown]
# The error is that of the output, against the softmax of the whole row in float64, as
# a multiple of float32's unit of rounding, $2^{-24}$ (the root of the mean square over
# 256 rows).

# %%
def rounding_error(join, count, rows=256, c=4):
    rng = np.random.default_rng(count)
    scores = rng.standard_normal((rows, count * c)).astype(np.float32)
    values = 1 + rng.standard_normal((count * c, 16)).astype(np.float32)
    starts = range(0, count * c, c)
    parts = [partial(scores[:, j : j + c], values[j : j + c]) for j in starts]
    _, normalizer, weighted = join(parts)
    _, total, right = partial(scores.astype(float), values.astype(float))
    error = weighted / normalizer[:, None] - right / total[:, None]
    return np.sqrt(np.mean(error**2) / np.mean((right / total[:, None]) ** 2)) * 2**24


# %%
with needs("5.4"):
    counts = [16, 64, 256, 1024, 4096]
    errors = {
        "stream": [rounding_error(stream, n) for n in counts],
        "tree": [rounding_error(tree, n) for n in counts],
    }
    measured("5.e", errors["stream"][-1] / errors["stream"][-3])
    words = {"xlabel": "blocks of 4 scores", "ylabel": "error, in units of 2^-24"}
    growth(counts, errors, title="Rounding in float32", **words)

# %% [markdown]
# In the stream the sums go through a rounding at every block. If all of these pushed
# the same way, 16 times as many would do 16 times the harm. They push either way, and
# so they add up like the steps of a random walk: by the root of their number, here
# about 4. In the tree a term goes through the $\log_2$ of their number only, and the
# error hardly changes.
#
# Neither is a reason for alarm: the longest stream here has lost less than two of
# float32's seven digits. But you see what to measure when someone proposes to carry the
# sums in float16.

# %% [markdown]
# ## Attention, row by row
#
# Now all of attention: $S = QK^\top$, a softmax of each row, times $V$. With $N$ tokens
# $S$ has $N^2$ entries, for an output of $N \times d$ (AD1-54). In three plain lines:

# %%
def dense_attention(q, k, v):
    scores = q @ k.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


# %% [markdown]
# **Predict**: how many $N \times N$ arrays are alive at the worst moment?

# %%
predict("5.f", 3, unit="arrays")

# %%
def peak_bytes(attention, n, d=64):
    q, k, v = 0.1 * rng.standard_normal((3, n, d))
    with Trace() as trace:
        attention(q, k, v)
        return trace.snapshot().peak_bytes


peak = peak_bytes(dense_attention, 2048)
print(f"N = 2048: peak {peak / MB:.0f} MB; the output has {2048 * 64 * 8 / MB:.1f} MB")
measured("5.f", peak / (2048**2 * 8))

# %% [markdown]
# The scores, the scores less their maximum, and the exponentials; a line later the
# scores, the exponentials and the probabilities. `scores` stays alive to the end,
# because it has a name.
#
# The lecture begins with a simpler problem, without the division (AD1-55):
# $X = \exp(QK^\top)V$. Row $t$ of $X$ is $\exp(q_t K^\top)\,V$. It needs row $t$ of the
# table and no other: $N$ numbers, which may go when the row is done, for the same
# arithmetic. (The lecture writes $Q^\top K$ and takes rows of it for tokens. With
# tokens as rows it is $QK^\top$: AD1-58.) Division and mask it leaves to its listeners
# (AD1-56). They are yours.

# %% [markdown]
# ### Exercise 5.5 - attention row by row - 3 points, medium, 15 min
#
# - `q`, `k`: (N, d), `v`: (N, d_v), float64; return the output (N, d_v),
#   $\mathrm{softmax}(QK^\top)V$ with the softmax of each row;
# - with `causal`, row $t$ sees the tokens $0, \dots, t$ only: the other scores of the
#   row are $-\infty$;
# - the scale is in `q` already: do not divide by $\sqrt d$;
# - any finite scores, such as 1,000.
#
# **Budget**, beyond the inputs: six arrays of the output's size and 64 rows of $N$
# numbers, with exponentials and masks included. That leaves room for any style: a few
# rows at a time, or all rows and a few keys at a time, as in exercise 5.3. Nothing may
# grow as $N^2$, not even a mask. $N$ goes up to 2,000, which is too much for Python
# loops over single numbers.

# %%
def attention_by_rows(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False
) -> np.ndarray:
    """softmax(q k^T) v for q, k (N, d) and v (N, d_v), in memory that grows as N."""
    ### BEGIN SOLUTION
    output = np.empty((len(q), v.shape[1]))
    for t in range(len(q)):
        seen = slice(0, t + 1 if causal else len(k))
        scores = k[seen] @ q[t]  # (tokens seen,)
        weights = np.exp(scores - scores.max())
        output[t] = weights @ v[seen] / weights.sum()
    return output
    ### END SOLUTION


# %%
check("5.5", attention_by_rows)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `k @ q[t]` is row $t$ of $QK^\top$: N numbers.
# </details>
#
# <details><summary>Hint 2</summary>
#
# A score of $-\infty$ and a score that was never computed come to the same.
# </details>

# %%
with needs("5.5"):
    sizes = [256, 512, 1024, 2048]
    ways = {"dense": dense_attention, "row by row": attention_by_rows}
    peaks = {
        name: [peak_bytes(way, n) / MB for n in sizes] for name, way in ways.items()
    }
    words = {"xlabel": "tokens N (d = 64)", "ylabel": "peak, MB"}
    growth(sizes, peaks, title="Attention: dense, and row by row", **words)

# %% [markdown]
# Twice the tokens, four times the memory; or twice. The same arithmetic, the same
# values, and a memory that grows as the output does.
#
# So is that how attention should be computed? Count once what the rows *read*. Each of
# them goes through all keys and values.

# %%
N = 2048
once = 2 * N * 64 * 8
print(f"keys and values, once    : {once / MB:,.1f} MB")
print(f"keys and values, per row : {N * once / MB:,.0f} MB")

# %% [markdown]
# The memory is saved, and paid for in traffic. On a GPU the difference matters: next to
# its processors lies a memory that is fast and small, and everything else is far away.
# Lesson 06 gives you such a pair of memories, with a counter between them. Lesson 07
# puts this lesson's two halves together: blocks of rows as in 5.5, each meeting the
# keys as a stream of blocks as in 5.3.
#
# ## What to take along
#
# A softmax needs its whole row only if one insists on final numbers from the start. A
# mean and its total weight can always take in more, as long as it is known from where
# the weights were counted. Merging such pairs is associative and commutative, with a
# neutral element, so a row can come in any pieces, in any order, from anywhere.
#
# What became of the lectures' figures stands in `docs/figures.md`.

# %% [markdown]
# ### In your own words 5.w
#
# Two machines hold one half each of a long row of scores with their values. Each sends
# the softmax of its half, times the values, and nothing else. Explain in two sentences
# why these two results cannot be merged, and what must come with them.
#
# (No check reads this one: a person does.)

# %% [markdown] written="5.w"
# Each softmax is divided by its own half's sum, so the two results no longer say how
# much weight their half has in the whole row. With the maximum and the sum of each half
# (or one number for both, the logsumexp), the two weights are known relative to each
# other, and the result is their weighted mean.

# %%
progress()
