# %% [markdown]
# # 04 Optimal rematerialization: what to keep, under a budget
#
# Lesson 03 threw activations away and computed them again, in equal segments of equal
# layers. The lecture ends there with a question: which checkpoints are the best ones
# (CS 577, lecture 12, L12-43)? To ask it in earnest, you need layers that differ, a
# price for any choice, and a budget in bytes. By the end you will have written a
# planner that finds the best plan, and you will know exactly among which plans it is
# the best.
#
# Core: four exercises, 14 points, about 110 minutes with the reading. Optional, on
# graphs that are no chain and on PyTorch: two more, which makes 19 points in all.

# %%
from functools import cache
import math

import numpy as np

from course_utils import check, measured, needs, predict, progress
from course_utils.plots import growth
from course_utils.remat.execute import execute, matmul_chain
from course_utils.remat.model import Chain
from course_utils.remat.plans import plan_schedule
from course_utils.remat.simulate import simulate
from course_utils.schedule_plots import chain_bars, memory_time_front, schedule_chart
from course_utils.tracing import Trace
from course_utils.widgets.checkpoints import keep_or_discard

MB = 10**6

# %% [markdown]
# ## No two layers are alike
#
# This is the convolutional part of VGG-16, a network that classifies images (Simonyan
# and Zisserman 2014): thirteen convolutions, and a pooling after each block, which
# halves both sides of the image. For each stage we write down two numbers, the bytes of
# its output in float32 and the operations of its forward pass, for one image, in GFLOP
# ($10^9$ floating-point operations).

# %%
def vgg_chain():
    names, operations, side, before = [], [], 224, 3
    sizes = [4 * before * side**2]
    blocks = [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)]
    for block, (layers, channels) in enumerate(blocks, start=1):
        for layer in range(1, layers + 1):
            names.append(f"conv{block}_{layer}")
            operations.append(2 * 9 * before * channels * side**2)
            sizes.append(4 * channels * side**2)
            before = channels
        side //= 2
        names.append(f"pool{block}")
        operations.append(4 * channels * side**2)
        sizes.append(4 * channels * side**2)
    return names, Chain([n / 1e9 for n in operations], sizes)


names, vgg = vgg_chain()
chain_bars(vgg, names, title="VGG-16, one image", time_unit="GFLOP")

# %% [markdown]
# The first output is 128 times the size of the last. The pools cost next to nothing,
# and so does the first convolution, although its output is one of the two largest. Size
# and time do not go together, so a value can be dear to hold and cheap to make again:
# `conv1_1`. Another is small and dear: `conv4_3`. A rule that looks only at the
# *number* of stages sees none of this.

# %% [markdown]
# ## The price of a schedule
#
# To compare plans we need rules that leave nothing open. Here is the whole model, for a
# chain of stages $z_t = \text{stage}_t(z_{t-1})$, a loss of $z_T$, and the way back
# from $g_T$ to $g_0$, where $g_t$ is the gradient of $z_t$ and as large as $z_t$:
#
# | step | reads | makes | time |
# |---|---|---|---|
# | stage $t$ forward | $z_{t-1}$ | $z_t$ | $f_t$ |
# | loss | $z_T$ | $g_T$ | 0 |
# | stage $t$ backward | $z_{t-1}$ and $g_t$ | $g_{t-1}$ | $2 f_t$ |
#
# A step needs what it reads to be alive; what it reads and what it makes are alive
# together. The input $z_0$ is always there and costs nothing. A step forward may be
# done again, for the same time again; a step backward is done once. Weights are there
# anyway and are not counted. (The rules for graphs of any shape stand in
# `course_utils/remat/model.py`, with room for what a step backward may need beside its
# input, such as the signs that a ReLU reads.)
#
# A **schedule** is a list of steps: compute this, drop that. Its price is two numbers,
# the **peak**, the most bytes alive during any step, and the **recomputed time**, spent
# on values that had been made before. `simulate` finds both without computing anything.
#
# Writing schedules by hand is tedious, so we write **plans**, with brackets. A bracket
# says: do not keep what is inside; when the way back comes here, compute it again.

# %%
def plan_price(chain, plan):
    return simulate(chain.graph(), plan_schedule(plan))


uneven = Chain([1] * 6, [2 * MB, 4 * MB, 1 * MB, 3 * MB, 2 * MB, 2 * MB, 1 * MB])
everything = plan_price(uneven, [1, 2, 3, 4, 5, 6])
print(f"peak {everything.peak_bytes / MB:g} MB", everything.recomputed)

# %% [markdown]
# Six stages; $z_0$ to $z_6$ take 2, 4, 1, 3, 2, 2 and 1 MB. With everything kept the
# peak is 15 MB, in the first step backward: $z_1$ to $z_5$ take 12, $g_6$ takes 1 and
# $g_5$ takes 2. (Only the loss reads $z_6$, so it is gone by then.)
#
# Now the plan `[[1, 2, 3], 4, 5, 6]`. On the way forward $z_1$ and $z_2$ are dropped as
# soon as the next value is made; $z_3$ and all later ones are kept. When the way back
# has come to $g_3$, stages 1 and 2 run again.
#
# **Predict** its peak.

# %%
predict("4.a", 10, unit="MB")

# %%
bracket = plan_price(uneven, [[1, 2, 3], 4, 5, 6])
measured("4.a", bracket.peak_bytes / MB)
print("computed again:", ", ".join(bracket.recomputed))

# %%
schedule_chart(
    uneven.graph(),
    plan_schedule([1, 2, 3, 4, 5, 6]),
    plan_schedule([[1, 2, 3], 4, 5, 6]),
    titles=["[1, 2, 3, 4, 5, 6]", "[[1, 2, 3], 4, 5, 6]"],
    unit="MB",
    unit_bytes=MB,
)

# %% [markdown]
# Every value has a column as wide as its bytes, and time runs downwards; what a row
# cuts through is alive in that step. You see the two hills of the right-hand plan: one
# of what was kept, at the turn, and one of what was made again, in the bracket.
#
# And $z_3$, the bracket's last value, is not computed again. It was kept, for stage 4,
# and when the bracket is opened it has done its work. A bracket of three stages costs
# two.

# %% [markdown]
# ### Do real arrays agree?
#
# A model is worth what its predictions are. `matmul_chain` makes the lecture's network,
# $Z_t = Z_{t-1} W_t$, in the model and as functions on arrays; `execute` runs a
# schedule on them and adds up the arrays that really are there. Widths that give the
# same seven sizes, and three plans:

# %%
rng = np.random.default_rng(4)
widths = [250, 500, 125, 375, 250, 250, 125]
x = rng.standard_normal((1000, widths[0]))
weights = [rng.standard_normal((n, m)) / n**0.5 for n, m in zip(widths, widths[1:])]
chain, functions, gradients = matmul_chain(x, weights)

for plan in ([1, 2, 3, 4, 5, 6], [[1, 2, 3], 4, 5, 6], [[[1, 2], 3], [4, 5], 6]):
    with Trace() as trace:
        run = execute(chain.graph(), functions, plan_schedule(plan), {"z0": x})
        traced = trace.snapshot().peak_bytes
    predicted = plan_price(chain, plan)
    print(f"{plan}: predicted {predicted.peak_bytes:,}, counted {run.peak_bytes:,}")
    print(f"   traced {traced:,}; computed again {run.recomputed_values}")

# %% [markdown]
# Predicted and counted are equal to the byte. The trace adds a few kilobytes of
# Python's own objects. So from here on we may plan on paper.

# %% [markdown]
# ## One level of brackets
#
# Choose some **checkpoints** $c_1 < c_2 < \dots < c_k$ between 1 and $T - 1$. They cut
# the chain into segments: stages 1 to $c_1$, $c_1 + 1$ to $c_2$, and so on. Each
# segment goes into a bracket, except the last. Why not the last? The way back begins
# with it. To drop its values and make them again at once would lower the peak by no
# more than $z_T$.
#
# With checkpoints 3 and 5, the plan of eight stages is `[[1, 2, 3], [4, 5], 6, 7, 8]`.

# %% [markdown]
# ### Exercise 4.1 - the price of checkpoints - 3 points, medium, 20 min
#
# Write the price of such a plan from the sizes alone, without a schedule. (The
# simulator is there to compare with. What you want is to see *where* the peak can be.)
#
# - `forward_times`: $f_1, \dots, f_T$, a list of $T$ numbers; `activation_bytes`: the
#   sizes of $z_0, \dots, z_T$, a list of $T + 1$; `checkpoints`: a list, rising,
#   perhaps empty;
# - gradients are as large as their activations, $z_0$ costs nothing, but $g_0$ does;
# - return `(peak_bytes, recomputed_time)`, and change nothing that you are given.

# %%
def checkpoint_price(
    forward_times: list, activation_bytes: list, checkpoints: list
) -> tuple[int, float]:
    """Peak in bytes, and time of what is computed again, of one level of brackets."""
    ### BEGIN SOLUTION
    z, stages = activation_bytes, len(forward_times)
    ends = [0, *checkpoints, stages]
    peak = time = 0
    for a, b in zip(ends, ends[1:]):  # the stages a + 1 to b
        kept = sum(z[c] for c in checkpoints if c <= a)
        for t in range(a + 1, b + 1):
            peak = max(peak, kept + sum(z[a + 1 : t]) + z[t] + z[t - 1])
        if b < stages:
            time += sum(forward_times[a : b - 1])
    loss = kept + sum(z[a + 1 :]) + z[-1]
    return max(peak, loss), time
    ### END SOLUTION


# %%
check("4.1", checkpoint_price)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Look at the chart. When stage $t$ runs backward, three kinds of things are alive:
# checkpoints of earlier segments, values of this segment, and two gradients. Which
# checkpoints are gone by then?
# </details>
#
# <details><summary>Hint 2</summary>
#
# The step forward to $z_t$ never takes more than the step backward of the same stage,
# so only the steps backward and the loss count. But look at *every* step backward: when
# $z_{t-1}$ is dropped, a larger gradient may come next.
# </details>
#
# <details><summary>Hint 3</summary>
#
# For stage $t$ in the segment of stages $a + 1$ to $b$:
# $\sum_{c \le a} z_c + \sum_{j=a+1}^{t-1} z_j + z_t + z_{t-1}$, the first sum over
# checkpoints, the last two terms being $g_t$ and $g_{t-1}$. At the loss: all
# checkpoints, the rest of the last segment, and $g_T$.
# </details>

# %% [markdown]
# ## The square root, on layers that differ
#
# For $n$ equal stages, segments of $\sqrt{n}$ stages keep about $2\sqrt{n}$ values
# alive (lesson 03; Chen et al. 2016). VGG has 18 stages, and $\sqrt{18}$ is about 4.

# %%
def tell_price(chain, plan):
    found = plan_price(chain, plan)
    share = found.recomputed_time / sum(chain.forward_times)
    print(f"{found.peak_bytes / MB:.1f} MB, {share:.0%} of the forward pass again")


tell_price(vgg, [*range(1, 19)])

# %% [markdown]
# **Predict**: what is the peak of
# `[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], 17, 18]`?

# %%
predict("4.b", 41.7, unit="MB")

# %%
fours = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], 17, 18]
budget = plan_price(vgg, fours).peak_bytes
measured("4.b", budget / MB)
tell_price(vgg, fours)

# %%
schedule_chart(
    vgg.graph(),
    plan_schedule(fours),
    titles=["segments of four"],
    unit="MB",
    unit_bytes=MB,
)

# %% [markdown]
# A third less memory, for nearly two thirds of the forward pass once more. The chart
# says why. The peak is in the first segment, where the large values are. In all others
# memory lies far below it, and what is dropped there and computed again could just as
# well have been kept. The square root counted stages; it did not look at them.
#
# Before we do better: how low can *any* schedule go?

# %%
z = vgg.activation_bytes
print(f"conv1_2 backward reads z1 and g2, makes g1: {(z[1] + z[2] + z[1]) / MB:.1f} MB")

# %% [markdown]
# That step needs all three at once, whatever was planned before. Among equal stages no
# single step stands out; here one sets a floor under every schedule.
#
# Segments of equal length may still be of use, if one chooses the length well. So try
# all.

# %% [markdown]
# ### Exercise 4.2 - the best period - 3 points, easy, 15 min
#
# A **periodic** plan has segments of $p$ stages each, counted from stage 1. The last
# one may be shorter. Each is in a bracket, except the last, which stays open: $p = 3$
# and eight stages give `[[1, 2, 3], [4, 5, 6], 7, 8]`.
#
# - given `forward_times` ($T$ numbers) and `activation_bytes` ($T + 1$), return the
#   periodic plan with the least peak, over all $p$ from 1 to $T$;
# - of several with that peak, one with the least recomputed time;
# - change nothing that you are given.
#
# `plan_price(Chain(forward_times, activation_bytes), plan)` gives a plan's `peak_bytes`
# and `recomputed_time`.

# %%
def best_periodic(forward_times: list, activation_bytes: list) -> list:
    """The periodic plan of least peak; among equals, of least recomputed time."""
    ### BEGIN SOLUTION
    chain, stages = Chain(forward_times, activation_bytes), len(forward_times)
    plans = []
    for period in range(1, stages + 1):
        starts = range(1, stages + 1, period)
        *closed, last = [[*range(s, min(s + period, stages + 1))] for s in starts]
        plans.append([*closed, *last])

    def cost(plan):
        found = plan_price(chain, plan)
        return found.peak_bytes, found.recomputed_time

    return min(plans, key=cost)
    ### END SOLUTION


# %%
check("4.2", best_periodic)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write the plan for one $p$ first, and look at $T = 8$ with $p = 1, 3, 4, 8$. Where
# does the last segment begin? A bracket around a single stage does no harm.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Pairs are compared item by item: `min` over `(peak, time)` does what the exercise
# asks.
# </details>

# %%
with needs("4.2"):
    by_period = best_periodic(vgg.forward_times, vgg.activation_bytes)
    print(by_period)
    tell_price(vgg, by_period)

# %% [markdown]
# Segments of two reach the floor, and cost half a forward pass. Better, on both counts,
# than the square root. But is it good? We have compared it with 16 others, out of very
# many.

# %% [markdown]
# ## Brackets in brackets
#
# So far a segment that is opened is kept whole. It need not be: inside, it is a chain
# again, and may have brackets of its own. Take that as far as it goes. Split the chain
# in two; put the first half in a bracket, leave the second open; then treat each half
# in the same way, until a half is one stage:
#
# `[[[1], 2], [3], 4]` is what becomes of four stages, or `[[1, 2], 3, 4]` without idle
# brackets. To compare with, 64 equal stages in segments of eight:

# %%
eights = [[*range(first, first + 8)] for first in range(1, 57, 8)]
found = plan_price(Chain.uniform(64), [*eights, *range(57, 65)])
print(f"{found.peak_bytes} values alive, {found.recomputed_values} stages again")

# %% [markdown]
# **Predict**: 64 equal stages by halves. How many are computed again, in all?

# %%
predict("4.c", 129, unit="stages")

# %% [markdown]
# ### Exercise 4.3 - recursive halving - 3 points, medium, 15 min
#
# - `stages`: a number $n \ge 1$; return a plan for $n$ equal stages;
# - **budget** for the peak: $\lceil \log_2 n \rceil + 3$ values, gradients included;
# - **budget** for what is computed again: $\frac{n}{2} \lceil \log_2 n \rceil$ stages.
#
# Halves are one way. Any plan within both budgets passes.

# %%
def halving_plan(stages: int) -> list:
    """A plan with about log2(stages) values alive, for equal stages."""
    ### BEGIN SOLUTION
    def halves(first, last):
        if first == last:
            return [first]
        middle = (first + last - 1) // 2
        return [halves(first, middle), *halves(middle + 1, last)]

    return halves(1, stages)
    ### END SOLUTION


# %%
check("4.3", halving_plan)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# An inner function `halves(first, last)` that returns the plan of the stages from
# `first` to `last`, and calls itself twice.
# </details>
#
# <details><summary>Hint 2</summary>
#
# `[a, b]` makes two brackets, `[a, *b]` one: the star takes the items of `b` out of
# theirs.
# </details>

# %%
with needs("4.3"):
    print("stages  alive  computed again  (n / 2) log2 n")
    for n in (4, 16, 64, 256, 1024):
        found = plan_price(Chain.uniform(n), halving_plan(n))
        again = found.recomputed_values
        print(f"{n:6}  {found.peak_bytes:5}  {again:14}  {n / 2 * math.log2(n):14.0f}")
        if n == 64:
            measured("4.c", again)

# %% [markdown]
# Four times the stages, two values more. If $R(n)$ stages are computed again, then the
# bracket around the first half costs $n/2 - 1$, and each half its own share:
# $R(n) = 2 R(n/2) + n/2 - 1$, which comes to $\frac{n}{2} \log_2 n - n + 1$. It is a
# bargain: with 1024 stages each runs five times on average instead of once, and twelve
# values do what took 1025.

# %% [markdown]
# Beside the other two ways, with the course's own planners (they hold the answers of
# this lesson; read them when you have yours):

# %%
from course_utils.remat import planners

counts = [4, 16, 64, 256, 1024]
rules = {
    "everything kept": lambda n: [*range(1, n + 1)],
    "segments of sqrt(n)": planners.sqrt_plan,
    "halves": planners.halving_plan,
}
series = {
    name: [plan_price(Chain.uniform(n), rule(n)).peak_bytes for n in counts]
    for name, rule in rules.items()
}
growth(counts, series, xlabel="equal stages", ylabel="values alive at the peak")

# %% [markdown]
# And on VGG?

# %%
with needs("4.3"):
    tell_price(vgg, halving_plan(18))

# %% [markdown]
# Down to the floor again, for nearly a whole forward pass. Halving, too, only counts
# stages.

# %% [markdown]
# ## The best plan under a budget
#
# So turn the question round. Memory is given: the device has what it has. Of all plans
# with brackets whose peak is within the budget, which one computes least again?

# %%
print(f"sets of checkpoints for 18 stages, with one level of brackets: {2**17:,}")

# %% [markdown]
# **Predict**: give VGG the budget that the segments of four needed, 41.7 MB. They
# computed 64 % of the forward pass again. How many per cent does the best plan?

# %%
predict("4.d", 6.6, unit="%")

# %% [markdown]
# With brackets in brackets there are far more plans, too many to try. But they are made
# of the same parts, and each part need be solved only once: dynamic programming. The
# part to solve is this. Suppose $z_a$ is there, and the way back has come to $g_b$.
# What is the least time in which the stages $a + 1$ to $b$ can be done backward, when
# $m$ bytes are free for it beside $z_a$? ($g_b$ counts among the $m$.)
#
# - **One stage**, $b = a + 1$. There is nothing to compute forward. The step backward
#   holds $g_b$ and $g_a$.
# - **More stages**. The way back needs $z_{b-1}$ first, so there is a run forward from
#   $z_a$, and some $z_c$ with $a < c < b$ is the first value that it keeps. To get
#   there takes $f_{a+1} + \dots + f_c$, with two values in passing at a time, and $g_b$
#   beside them. Then the stages $c + 1$ to $b$ are to be done, with less room, since
#   $z_c$ is kept; and when $g_c$ has taken its place, the stages $a + 1$ to $c$.
#
# Which $c$ is best? Try all of them. The loss fits in as one more stage, $T + 1$, which
# reads $z_T$, makes $g_T$, and to which nothing comes back: $g_{T+1}$ takes 0 bytes.
#
# From the choices one reads the plan: if $c = a + 1$, stage $c$ stands by itself; else
# the stages $a + 1$ to $c$ are in a bracket, whose inside is the plan of the third
# part.

# %% [markdown]
# ### Exercise 4.4 - the best plan under a budget - 5 points, hard, 35 min
#
# - `forward_times`: $T$ numbers; `activation_bytes`: $T + 1$ whole numbers;
#   `budget_bytes`: a whole number. Gradients are as large as their activations, $z_0$
#   costs nothing;
# - return a plan whose peak is at most the budget, and whose recomputed time is the
#   least of all such plans; among equals any;
# - if there is none, return `None`;
# - change nothing that you are given.
#
# The check tries chains of up to 14 stages with budgets of up to about 60 bytes.

# %%
def best_plan(
    forward_times: list, activation_bytes: list, budget_bytes: int
) -> list | None:
    """The plan of least recomputed time within the budget; None if there is none."""
    ### BEGIN SOLUTION
    f, z, g = [0, *forward_times], activation_bytes, [*activation_bytes, 0]

    @cache
    def best(a, b, m):  # time and plan of a + 1 to b, with m bytes beside z_a
        if b == a + 1:
            return (0, [b]) if g[b] + g[a] <= m else (math.inf, None)
        least, time, passing = (math.inf, None), 0, 0
        for c in range(a + 1, b):
            if passing + z[c] + g[b] > m:
                break  # nor can any later value be reached
            time, passing = time + f[c], z[c]
            after, before = best(c, b, m - z[c]), best(a, c, m)
            if time + after[0] + before[0] < least[0]:
                item = c if c == a + 1 else before[1]
                least = time + after[0] + before[0], [item, *after[1]]
        return least

    plan = best(0, len(z), budget_bytes)[1]  # with the loss as stage T + 1
    return plan and plan[:-1]
    ### END SOLUTION


# %%
check("4.4", best_plan)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write a function `best(a, b, m)` that returns a pair: the least time, and its plan.
# Where nothing fits, the time is `math.inf`. With `@cache` above it, each part is
# solved once; all three arguments belong to the part.
# </details>
#
# <details><summary>Hint 2</summary>
#
# While you try $c = a + 1, a + 2, \dots$ in turn, keep the time so far, and check each
# step forward: at the first, $z_{a+1} + g_b \le m$; later, $z_{c-1} + z_c + g_b \le m$.
# ($z_a$ is not among the $m$ bytes.)
# </details>
#
# <details><summary>Hint 3</summary>
#
# $$\text{best}(a, b, m) = \min_{a < c < b} \Big( \sum_{t=a+1}^{c} f_t +
# \text{best}(c, b, m - z_c) + \text{best}(a, c, m) \Big)$$
#
# over those $c$ that can be reached. The answer is
# $\text{best}(0, T + 1, \text{budget})$; the loss itself has no place in the plan.
# </details>

# %% [markdown]
# All sizes of VGG are whole multiples of one number, so the table need not have a
# column for every byte.

# %%
unit = math.gcd(*vgg.activation_bytes)
sizes = [nbytes // unit for nbytes in vgg.activation_bytes]
print(f"in units of {unit:,} bytes: {sizes}, budget {budget // unit}")

# %%
with needs("4.4"):
    found_plan = best_plan(vgg.forward_times, sizes, budget // unit)
    found = plan_price(vgg, found_plan)
    measured("4.d", 100 * found.recomputed_time / sum(vgg.forward_times))
    print(found_plan)
    schedule_chart(
        vgg.graph(),
        plan_schedule(fours),
        plan_schedule(found_plan),
        titles=["segments of four", "the best plan"],
        unit="MB",
        unit_bytes=MB,
        budget_bytes=budget,
    )

# %% [markdown]
# The same budget, a tenth of the price. On the right only two values are computed
# again: $z_1$, which is large and nearly free to make, and $z_4$, the cheaper one of
# the next large pair. Everything small is kept, and memory is close to the budget most
# of the time: what is paid for is used.
#
# The course has the same planner, with arrays in place of the recursion:
# `persistent_optimum`. It is quick enough for long chains, and if a budget is too small
# it says which is not.

# %%
from time import perf_counter

from course_utils.remat.budget import InfeasibleBudget

rng = np.random.default_rng(100)
long = Chain(rng.integers(1, 20, 100).tolist(), rng.integers(1, 60, 101).tolist())
start = perf_counter()
planners.persistent_optimum(long, 500)
print(f"100 stages, 500 units: {perf_counter() - start:.2f} s")
try:
    planners.persistent_optimum(vgg, 38 * MB)
except InfeasibleBudget as error:
    print(error)

# %% [markdown]
# 38.5 MB, the floor that we saw: the step backward of `conv1_2`.
#
# What of equal stages, where halving looked so good? Give the planner the eight values
# that halving needed for 64 stages:

# %%
equal = planners.persistent_optimum(Chain.uniform(64), 8)
print(f"64 equal stages, 8 values: {equal.price.recomputed_values} stages again")

# %% [markdown]
# Less than by halves. The best splits of equal stages are not in the middle: what comes
# later has to share the room with what is kept, so it should be shorter. They follow
# binomial numbers (Griewank and Walther 2000), and the table finds them without being
# told.

# %% [markdown]
# ## All on one picture
#
# A plan is a point: so much memory, so much time. The best plans for all budgets are a
# staircase, since more memory never costs more time. Below it no plan with brackets can
# be.

# %%
def as_points(chain, priced_plans, unit=MB):
    """(peak, share of the forward pass) of each plan or schedule with its price."""
    total = sum(chain.forward_times)
    prices = [each.price for each in priced_plans]
    return [(p.peak_bytes / unit, p.recomputed_time / total) for p in prices]


def by_rule(chain):
    """Plans by rule, as points of the picture."""
    n = chain.stages
    return {
        "everything kept": [planners.priced(chain, [*range(1, n + 1)])],
        "periodic, periods from 2": [
            planners.priced(chain, planners.periodic_plan(n, p)) for p in range(2, n)
        ],
        "halves": [planners.priced(chain, planners.halving_plan(n))],
    }


# %%
vgg_front = planners.persistent_front(vgg)
memory_time_front(
    {"best plans": as_points(vgg, vgg_front)},
    {name: as_points(vgg, plans) for name, plans in by_rule(vgg).items()},
    xlabel="peak, MB",
    ylabel="computed again, share of the forward pass",
    title="VGG-16: what memory costs",
)

# %% [markdown]
# The stairs have more steps than one sees, for some of them are very low. Those that
# show in the first decimal:

# %%
told = None
for peak, share in as_points(vgg, vgg_front):
    if f"{share:.1%}" != told:
        told = f"{share:.1%}"
        print(f"from {peak:.1f} MB on: {told}")

# %% [markdown]
# The stairs lie below every plan made by rule, mostly far below, and hold a piece of
# advice that no rule gives. From 42.1 MB on, less than half a megabyte above the 41.7,
# the price is 0.6 % in place of 6.6: there is room for one more dear value, and from
# then on only cheap ones are made again. When memory has a price in time, look for the
# steps; half a megabyte is worth nothing in one place, and much in another.

# %% [markdown]
# ## What plans with brackets cannot do
#
# The best of all *plans*; is it the best of all *schedules*? In a plan, what is once
# kept stays until its step backward has read it. Schedules with this property are
# called **persistent** (Beaumont et al. 2019), and none of them beats the best plan:
# the tests of this course hold the table against a search through all persistent
# schedules, on hundreds of chains. But the model does not ask for persistence. A
# schedule may drop a kept value at any moment, and make it a third time.
#
# The smallest chain in which that matters has three stages, of time 1 each. $z_0$ to
# $z_3$ take 1, 1, 2 and 3 bytes, and the budget is 7.

# %%
rising = Chain([1, 1, 1], [1, 1, 2, 3])
persistent = planners.persistent_optimum(rising, 7)
print(persistent.plan, "computes again:", persistent.price.recomputed)

# %% [markdown]
# The best plan computes three values again. Stage 3 backward reads $z_2$ and $g_3$ and
# makes $g_2$: $2 + 3 + 2 = 7$ bytes, so nothing else may be alive then.
#
# **Predict**: how many stages does the best schedule of all compute again?

# %%
predict("4.e", 2, unit="stages")

# %%
from course_utils.remat.exhaustive import exhaustive_optimum

free = exhaustive_optimum(rising.graph(), 7)
measured("4.e", free.price.recomputed_values)
schedule_chart(
    rising.graph(),
    persistent.schedule,
    free.schedule,
    titles=["best persistent schedule", "best schedule of all"],
    budget_bytes=7,
)

# %% [markdown]
# `exhaustive_optimum` searches through all schedules that the model allows, which takes
# a small chain. Follow $z_1$ on the right. It is kept past the loss, where 7 bytes just
# hold it, $z_3$ and $g_3$. From it $z_2$ is made again, without beginning at $z_0$.
# Then it must go, because stage 3 backward needs every byte, and is made once more for
# its own step backward. A persistent schedule that keeps $z_1$ past the loss must keep
# it through stage 3 backward as well, where there is no room; so it drops $z_1$ at
# once, and pays for it twice later.
#
# How often does it matter? Chains with times and sizes drawn from 1 to 8; for each step
# of the stairs, the largest budget that still costs as much:

# %%
def beaten(chain):
    """Whether some schedule is quicker than all persistent ones, at any budget."""
    steps = planners.persistent_front(chain)
    for step, next_step in zip(steps, steps[1:]):
        free = exhaustive_optimum(chain.graph(), next_step.price.peak_bytes - 1)
        if free.price.recomputed_time < step.price.recomputed_time:
            return True
    return False


rng = np.random.default_rng(12)
for stages in (3, 4, 5, 6, 7):
    drawn = [rng.integers(1, 9, (2, stages)).tolist() for _ in range(100)]
    found = sum(beaten(Chain(times, [1, *sizes])) for times, sizes in drawn)
    print(f"{stages} stages: {found} of 100 chains")

# %%
print("equal stages, 2 to 9:", [beaten(Chain.uniform(n)) for n in range(2, 10)])
print("VGG-16:", beaten(vgg))

# %% [markdown]
# On chains drawn by lot it matters often, at one budget or another. On equal stages,
# and on VGG, whose large values come first, it never does: there the stairs are proven
# to be the best that any schedule can do. And where it matters? One chain of ten
# stages:

# %%
rng = np.random.default_rng(0)
ten = Chain(rng.integers(1, 10, 10).tolist(), rng.integers(1, 10, 11).tolist())
ten_front = planners.persistent_front(ten)
smallest, largest = (ten_front[i].price.peak_bytes for i in (0, -1))
any_schedule = [
    exhaustive_optimum(ten.graph(), budget) for budget in range(smallest, largest + 1)
]
memory_time_front(
    {
        "best persistent schedules": as_points(ten, ten_front, unit=1),
        "best schedules of all": as_points(ten, any_schedule, unit=1),
    },
    {name: as_points(ten, plans, unit=1) for name, plans in by_rule(ten).items()},
    xlabel="peak, bytes",
    ylabel="computed again, share of the forward pass",
    title="Ten stages, drawn by lot",
)

# %% [markdown]
# The two staircases differ at a few tight budgets, and are one line elsewhere. What the
# dynamic programme gives away is little, and what it buys is speed: a table in place of
# a search through all schedules, which grows out of hand with the number of values.
#
# So the lecture's question has an answer in three parts. For equal stages, rules. For
# chains, the dynamic programme: the best persistent plan for any budget. For the best
# of all schedules, and for graphs that are no chain, a search, or a programme for an
# integer solver (Jain et al. 2020).
#
# Try it by hand, on eight layers that differ. Each dot is a choice of what to keep. Set
# the budget to 17 MB, and get below it. Which value would you give up first, which one
# never? Then 14 MB.

# %%
keep_or_discard("uneven")

# %% [markdown]
# $z_1$ goes first: none is larger, and none cheaper to make. For 17 MB $z_3$ goes as
# well, the second largest. $z_6$ stays, since nothing takes longer to make, and $z_7$,
# which is read at once. From 15 MB on, the solid stairs and the dashed ones are the
# same: some choice of what to keep is as good as any schedule. At 14 MB none is. There
# the best schedule keeps a value for a while, gives it up, and makes it again.

# %% [markdown]
# ## Graphs that are no chain
#
# The rest of this lesson is optional. It takes up the lecture's other question: what
# about graphs that are more complicated than a chain (L12-42)?
#
# A graph needs one more rule: what does its way back look like? Every forward value
# gets one gradient. It is made in one step, from the gradients of all that read the
# value, and from what their backward steps read. The rest of the model stays as it was.
# (`course_utils/remat/training.py` has the rule in full; on a chain it gives the
# chain's graph.)
#
# The smallest graph that is no chain is a residual one, $f_k = \tanh(z_{k-1} W_k)$ and
# $z_k = z_{k-1} + f_k$.

# %%
from course_utils.remat.drops import with_early_drops
from course_utils.remat.milp import milp_optimum
from course_utils.remat.networks import residual_chain, transformer, u_network
from course_utils.remat.simulate import InvalidSchedule

two_blocks = residual_chain(blocks=2, rows=512, width=96).graph()
for name, value in two_blocks.values.items():
    print(f"{name:5} reads {', '.join(value.reads)}")

# %% [markdown]
# Look who reads `z1`: both `f2` and `z2` on the way there, and `d_z1` on the way back.
# In a chain a value could go as soon as the next one was made. Here:

# %%
hasty = [("compute", "f1"), ("compute", "z1"), ("compute", "f2"), ("drop", "z1")]
try:
    simulate(two_blocks, [*hasty, ("compute", "z2")])
except InvalidSchedule as broken:
    print(broken)

# %% [markdown]
# Whoever insists on this drop makes `z1` again for the next reader.
#
# **Predict**: suppose that `z1` is dropped after each of its readers, `f2`, `z2` and
# `d_z1`. How often is it made in the whole step, the first time included?

# %%
predict("4.f", 3, unit="times")

# %%
order = list(two_blocks.values)
kept = simulate(two_blocks, with_early_drops(two_blocks, order))
for reader in ("z2", "d_z1"):
    order.insert(order.index(reader), "z1")
dropped = simulate(two_blocks, with_early_drops(two_blocks, order))
measured("4.f", 1 + dropped.recomputed["z1"])
for name, price in {"z1 kept": kept, "z1 dropped": dropped}.items():
    print(f"{name:11} peak {price.peak_bytes / MB:.2f} MB, {price.recomputed}")

# %% [markdown]
# Once for each reader, and here it bought nothing: the peak is elsewhere. Whether to
# drop a value that several steps read is not one decision but one for each gap between
# two readers, and to make it again, all that it reads must be there again. Brackets do
# not describe such schedules, and the dynamic programme, which cut a chain into
# "before" and "after", has nowhere to cut.
#
# (`with_early_drops` wrote the drops. Once it is settled what is computed, and in which
# order, there is nothing left to decide: the best time to drop is after the last
# reader.)

# %% [markdown]
# ## The best schedule of a graph
#
# What is left is to write down *all* decisions as unknowns that are 0 or 1, and what a
# schedule must obey as inequalities, and to hand it to a solver that knows nothing of
# networks (Jain et al. 2020, under the name of Checkmate). Cut the schedule into as
# many stages as there are values; stage $t$ ends with making value $t$ for the first
# time.
#
# | unknown | is 1 if |
# |---|---|
# | $R_{t,i}$ | value $i$ is made in stage $t$ |
# | $S_{t,i}$ | value $i$ is alive when stage $t$ begins |
#
# $$R_{t,j} \le R_{t,i} + S_{t,i}\ \text{ if } j \text{ reads } i,\qquad
# S_{t+1,i} \le R_{t,i} + S_{t,i},\qquad \text{at each step: bytes alive} \le
# \text{budget},$$
#
# and as little $\sum R_{t,i}\,\text{time}_i$ as possible: a mixed-integer linear
# programme, MILP for short. The bytes alive at a step are
# a sum over values too; `course_utils/remat/milp.py` says it in a page. Here are eight
# residual blocks, 16 forward values, under a budget of 75 % of their bytes, into which
# the gradients have to fit as well:

# %%
eight_blocks = residual_chain(blocks=8, rows=512, width=96).graph()
forward = [value for value in eight_blocks.values.values() if not value.once]
budget = 0.75 * sum(value.nbytes for value in forward)
best = milp_optimum(eight_blocks, budget)
print(f"{len(forward)} forward values of {len(eight_blocks.values)}: {best.status}")
print(f"peak {best.price.peak_bytes / MB:.2f} of {budget / MB:.2f} MB, made again:")
print(best.price.recomputed)

# %% [markdown]
# "Optimal" is a claim about a list of schedules, so let us say which: values are made
# for the first time in the order of the graph, and no value twice within one stage.
# Within this list the solver *proves* that nothing is better. Where it runs out of
# time, its bound says how far from the best its schedule can be at most, and the status
# repeats that. For small graphs the exhaustive search has no such conditions:

# %%
small = residual_chain(blocks=4, rows=512, width=96).graph()
kept_bytes = simulate(small, with_early_drops(small, list(small.values))).peak_bytes
for share in (0.9, 0.75, 0.65):
    for planner in (milp_optimum, exhaustive_optimum):
        again = planner(small, share * kept_bytes).price.recomputed_time
        print(f"{share:.0%}, {planner.__name__:18} +{again / small.least_time:.2%}")

# %% [markdown]
# ## The long skip
#
# A U-Net (Ronneberger et al. 2015) goes down to small images and up again, and on the
# way up each level adds what its level had on the way down. The topmost skip is the
# largest value of all, and waits the longest.

# %%
u = u_network(levels=3, rows=8192, width=64)
u_graph = u.graph()
keep_all = with_early_drops(u_graph, list(u_graph.values))
keep_all_bytes = simulate(u_graph, keep_all).peak_bytes
print(f"keeping all: {keep_all_bytes / MB:.1f} MB at the peak")

# %% [markdown]
# **Predict**: under a budget of 80 % of that, how much longer does the best schedule
# take than the step without recomputation, in percent?

# %%
predict("4.g", 15, unit="%")

# %%
tight = milp_optimum(u_graph, 0.8 * keep_all_bytes)
measured("4.g", 100 * tight.price.recomputed_time / u_graph.least_time)
schedule_chart(
    u_graph,
    keep_all,
    tight.schedule,
    titles=["everything kept", "80 % of its peak"],
    unit="MB",
    unit_bytes=MB,
    budget_bytes=0.8 * keep_all_bytes,
)

# %% [markdown]
# On the left `encode1` stands through the whole bottom of the U. On the right it goes
# after its second forward reader, `skip1`, and is not there at the worst moment. It is
# made again for the way back, from the input, which is always there: nothing else has
# to come back for it. What is made again besides, `pool1`, `up2`, `skip2`, costs next
# to nothing, being no product with weights.
#
# Do real arrays agree?

# %%
def run_traced(network, schedule):
    graph, functions = network.graph(), network.functions()
    with Trace() as trace:
        execute(graph, functions, schedule, network.inputs)
        return trace.snapshot().peak_bytes


for schedule in (keep_all, tight.schedule):
    predicted = simulate(u_graph, schedule).peak_bytes
    print(f"predicted {predicted:,}, traced {run_traced(u, schedule):,} bytes")

# %% [markdown]
# ### Exercise 4.5 - a U under a budget - 3 points, hard, 30 min, optional
#
# Write a schedule for any graph of a small U, with six forward values: `encode`,
# `pool`, `deep`, `up`, `skip` (which reads `encode` and `up`) and `decode`. Sizes and
# times differ from graph to graph.
#
# - `graph`: a `Graph`; `graph.values` is a dict from name to a value with `.reads`,
#   `.nbytes`, `.time` and `.once`, in an order in which they can be made;
#   `graph.inputs` are there anyway, `graph.results` must be alive at the end;
# - return a list of steps, `("compute", name)` or `("drop", name)`, by the rules of
#   this lesson. A value with `.once` is made once;
# - change nothing that you are given.
#
# **Budget**: the peak is at most `budget_bytes`, which can be kept; the time is at most
# 20 % above that of the best schedule of all.
#
# `simulate(graph, schedule)` prices what you have, and `with_early_drops(graph, order)`
# makes a schedule of a list of names.

# %%
def u_schedule(graph, budget_bytes: int) -> list[tuple[str, str]]:
    """A schedule of a small graph whose peak is at most budget_bytes."""
    ### BEGIN SOLUTION
    def order_keeping(keep):
        order, alive = [], set()

        def make(name):
            if name not in alive and name not in graph.inputs:
                for read in graph.values[name].reads:
                    make(read)
                order.append(name)
                alive.add(name)

        for name, value in graph.values.items():
            if value.once:
                gradients = {n for n in alive if graph.values[n].once}
                alive.intersection_update(gradients | keep | {*value.reads})
                make(name)
        return order

    forward = [name for name, value in graph.values.items() if not value.once]
    best_time, best = math.inf, []
    for number in range(2 ** len(forward)):
        keep = {name for bit, name in enumerate(forward) if number >> bit & 1}
        schedule = with_early_drops(graph, order_keeping(keep))
        price = simulate(graph, schedule)
        if price.peak_bytes <= budget_bytes and price.time < best_time:
            best_time, best = price.time, schedule
    return best
    ### END SOLUTION


# %%
check("4.5", u_schedule)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Six values can be kept or not in 64 ways. The simulator is quick.
# </details>
#
# <details><summary>Hint 2</summary>
#
# For one choice of what is kept: go through the steps backward in their order, and
# before each make what it reads, if that is not alive. What a value reads must be made
# before it, so "make" calls itself.
# </details>
#
# <details><summary>Hint 3</summary>
#
# After a step backward, forget what is neither kept, nor a gradient, nor read by the
# very next step.
# </details>
#
# All choices for one such U, at a glance. One of the five values can be discarded
# without any price. Which one, and why?

# %%
keep_or_discard("skip")

# %% [markdown]
# `up`: only `skip` reads it, on the way forward, and the way back of a sum reads
# nothing. `encode` saves the most, and is the dearest. And see what is kept at the
# lowest peak: `skip`, which would bring everything else back with it.

# %% [markdown]
# ## What a transformer gives up first
#
# Now the graph that matters most today: two blocks of a transformer, each with
# attention of 4 heads and an MLP. The scores and the probabilities are tokens by tokens
# for every head, and here one of them takes four times what a value of width $d$ takes.

# %%
two_layers = transformer(tokens=256, width=256, heads=4, layers=2)
block_graph = two_layers.graph()
everything = with_early_drops(block_graph, list(block_graph.values))
peak_bytes = simulate(block_graph, everything).peak_bytes
print(f"{len(block_graph.values)} values, all kept: peak {peak_bytes / MB:.1f} MB")

# %% [markdown]
# **Predict**: with 70 % of this peak, how much longer does the best schedule take, in
# percent of the step?

# %%
predict("4.h", 2.5, unit="%")

# %%
shares, found = (0.9, 0.8, 0.7, 0.6), {}
for share in shares:
    found[share] = milp_optimum(block_graph, share * peak_bytes, limit_seconds=20)
    price = found[share].price
    print(f"{share:.0%} +{price.recomputed_time / block_graph.least_time:.1%}")
    print("    ", " ".join(price.recomputed))
price = found[0.7].price
measured("4.h", 100 * price.recomputed_time / block_graph.least_time)

# %% [markdown]
# First the norms: a few operations for each number. Then `scores` and `probs`, of one
# block and of the other, while Q, K and V stay. Only below that it turns to products
# with weights. This is what AD1-53 advises, to checkpoint everything but the
# $T \times T$ matrices, and here nobody advised it: the solver was told bytes,
# operations, and who reads what. Here is the lecture's advice as a schedule, beside
# what was found:

# %%
advised = list(block_graph.values)
for layer, reader in ((2, "d_scores.2"), (1, "d_scores.1")):
    at = advised.index(reader)  # the first step backward that reads the probabilities
    advised[at:at] = [f"scores.{layer}", f"probs.{layer}"]


def as_point(schedule):
    price = simulate(block_graph, schedule)
    return price.peak_bytes / MB, 100 * price.recomputed_time / block_graph.least_time


points = {
    "everything kept": [as_point(everything)],
    "all but the T x T matrices": [as_point(with_early_drops(block_graph, advised))],
    "best found": [as_point(each.schedule) for each in found.values()],
}

# %%
for name, pairs in points.items():
    told = (f"{peak:.2f} MB +{percent:.2f} %" for peak, percent in pairs)
    print(name, *told, sep="; ")
memory_time_front(
    {},
    points,
    xlabel="peak, MB",
    ylabel="computed again, % of the step",
    title="Two blocks of a transformer",
)

# %% [markdown]
# The advice comes near. At its peak the best schedule takes half the time, and for
# about its time the best comes down by two MB more: it gives up the norms as well, and
# the matrices of the second block only where that lowers the peak.
#
# Why does it pay? The price of a byte decides. To make the scores again costs $2T^2d$
# operations and frees $N_{heads}T^2$ numbers; to make Q again costs $2Td^2$ and frees
# $Td$.

# %%
for name in ("norm1.1", "scores.1", "q.1", "up.1"):
    value = block_graph.values[name]
    print(f"{name:9} {value.time / value.nbytes:6.1f} operations for each byte")

# %% [markdown]
# Per byte, $d / 4N_{heads}$ against $d / 4$: the more heads, the better the bargain.
# (The softmax on top of the scores costs five operations a number.) FlashAttention
# (lesson 07) goes on from here: what is made again in any case need not be *stored* in
# the first place, not even for the moment between scores and output.
#
# The model is one thing; here are the arrays.

# %%
for schedule in (everything, found[0.6].schedule):
    predicted = simulate(block_graph, schedule).peak_bytes
    print(f"predicted {predicted:,}, traced {run_traced(two_layers, schedule):,} bytes")

# %% [markdown]
# ## PyTorch
#
# `torch.utils.checkpoint` is a bracket: `checkpoint(function, x, use_reentrant=False)`
# runs the function, keeps `x`, forgets what is inside, and runs it again on the way
# back. Here is a real block, of the kind that you would train.

# %%
import torch
from torch.utils.checkpoint import checkpoint

from course_utils.plots import show_source
from course_utils.torch_memory import saved_bytes, torch_peak_bytes
from course_utils.torch_remat import Block, block_saved_bytes
from course_utils.torch_remat import forget_gradients, train
from course_utils.torch_remat import transformer as torch_transformer

torch.set_num_threads(1)  # arrays as small as these gain nothing from more cores
show_source(Block.core, Block.checkpointed_core, Block.forward)

# %% [markdown]
# What does one block keep for its way back? The probabilities, $N_{heads}T^2$ numbers,
# and some arrays of $dT$ numbers. (In float32 each number takes four bytes, so $dT$
# stands for $4dT$ bytes.)
#
# **Predict**: go through `forward`, with ReLU for the activation, and count what its
# backward reads, apart from weights. How many arrays of $dT$ does *this* block save,
# beside the probabilities? (An array that two steps read is saved once.)

# %%
predict("4.i", 12, unit="arrays")

# %%
tokens, width, heads, layers = 256, 128, 4, 6
dT, TT = 4 * width * tokens, 4 * heads * tokens**2
x = torch.randn(1, tokens, width, requires_grad=True)
one_block = torch_transformer(1, width, heads)
saved = saved_bytes(lambda: one_block[0](x), one_block.parameters())
measured("4.i", (saved - TT) // dT)
listed = block_saved_bytes(tokens, width, heads)
for step, nbytes in listed.items():
    print(f"{nbytes:10,}  {step}")
print(f"{sum(listed.values()):10,}  predicted\n{saved:10,}  measured")

# %% [markdown]
# To the byte. The lecture counts $12\,dT + N_{heads}T^2$ numbers for a block (AD1-49),
# without a list. So this is where a 12 can come from: 8 arrays of width $d$, 4 for the
# hidden layer. It is not a constant of nature. The program that the lecture lists has
# no norms and no residual sums, and counted literally it creates 10 or 15 per layer
# (depending on whether what goes into an activation counts); the 12 is a rule of thumb
# from the papers. And one name in our block changes it:

# %%
for activation in ("relu", "gelu"):
    blocks = torch_transformer(1, width, heads, activation)
    saved = saved_bytes(lambda block=blocks[0]: block(x), blocks.parameters())
    print(f"{activation}: {(saved - TT) // dT} dT + N_heads T^2")

# %% [markdown]
# The backward of ReLU asks its output where it was positive, and the next product keeps
# that array anyway. GELU must see its input again: four arrays more.
#
# Now the lecture's two options, on six blocks: keep the input of every block (AD1-51:
# $L\,dT$), or keep all but the $T \times T$ matrices (AD1-53: $12\,L\,dT$).

# %%
blocks = torch_transformer(layers, width, heads)


def keep_everything(x):
    for block in blocks:
        x = block(x)
    return x


def checkpoint_every_block(x):
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return x


# %%
def checkpoint_cores(x):
    for block in blocks:
        block.checkpoint_core = True
    x = keep_everything(x)
    for block in blocks:
        block.checkpoint_core = False
    return x


# %% [markdown]
# Beside what is saved stands the peak of a whole step on this machine's CPU, forward
# and backward, the gradients of the weights included.

# %%
def bill(forward):
    saved = saved_bytes(lambda: forward(x), blocks.parameters())
    forget_gradients(blocks, x)
    peak = torch_peak_bytes(lambda: train(x, forward))
    return saved, peak


row_bytes = 16 * tokens  # of each block: what two norms keep for each row
formulas = {
    keep_everything: layers * (12 * dT + TT + row_bytes),
    checkpoint_every_block: layers * dT,
    checkpoint_cores: layers * (12 * dT + row_bytes),
}
for forward, predicted in formulas.items():
    saved, peak = bill(forward)
    told = f"predicted {predicted:10,} saved {saved:10,} peak {peak:10,}"
    print(f"{forward.__name__:22} {told}")

# %% [markdown]
# All three formulas hold to the byte, once the norms' rows are added. The peak falls
# less than what is saved: when a block is opened on the way back, *its* arrays are
# there in full, and the gradients of the weights are there in any case:

# %%
weight_bytes = sum(4 * parameter.numel() for parameter in blocks.parameters())
print(f"gradients of the weights {weight_bytes:,}, an open block {12 * dT + TT:,}")

# %% [markdown]
# ### What it costs: not a factor of 2
#
# The lecture calls the overhead of the first option "basically a full factor of 2"
# (AD1-52), since all but $W_{proj}$ is computed again. Of the forward pass, that is
# right. But a step is a forward pass and a backward pass of twice its size. torch can
# count the operations of its products:

# %%
from torch.utils.flop_counter import FlopCounterMode


def step_flops(forward):
    with FlopCounterMode(display=False) as counter:
        train(x, forward)
    return counter.get_total_flops()


with torch.no_grad(), FlopCounterMode(display=False) as counter:
    keep_everything(x)
forward_flops = counter.get_total_flops()
plain_flops = step_flops(keep_everything)
print(f"a step without checkpoints: {plain_flops / forward_flops:.2f} forward passes")
for forward in (checkpoint_every_block, checkpoint_cores):
    flops = step_flops(forward)
    print(
        f"{forward.__name__}: {(flops - plain_flops) / forward_flops:.2f} of a forward "
        f"pass again, the step is {flops / plain_flops:.2f} times as long"
    )

# %% [markdown]
# So a step becomes at most 4/3 as long, and here a little less: torch stops as soon as
# it has all that the way back reads, and the block's last product, 4 of the 12 $d^2$,
# is not among that. (It is the lecture's $W_{proj}$.) The second option makes only the
# two products of the attention again.
#
# On the clock there is more than products, such as softmax and norms. One run on the
# machine that made this notebook, and on yours:

# %%
from time import process_time


def least_seconds(forwards, repeats=5):
    """The least processor time of some steps of each, taken in turns."""
    least = {}
    for _ in range(repeats):
        for forward in forwards:
            start = process_time()
            train(x, forward)
            seconds = process_time() - start
            least[forward] = min(seconds, least.get(forward, seconds))
    return least


seconds = least_seconds(formulas)
for forward in (checkpoint_every_block, checkpoint_cores):
    ratio = seconds[forward] / seconds[keep_everything]
    print(f"{forward.__name__}: {ratio:.2f} times the step without checkpoints")

# %% [markdown]
# ### Exercise 4.6 - a plan for torch - 2 points, medium, 15 min, optional
#
# Run the brackets of this lesson with torch. A plan names the blocks 1 to L in their
# order; a number is a block that runs as it is, a bracket is a stretch of which only
# the input is kept until the way back comes to it.
#
# - `plan`: a list of numbers and of lists of the same kind, nested to any depth;
#   `blocks`: modules; `x`: what goes into the first;
# - return what comes out of the last. Gradients must flow to all weights, and to `x`,
#   which may also be one that needs none;
# - use `torch.utils.checkpoint.checkpoint` with `use_reentrant=False`, and give it what
#   goes into the bracket as a positional argument: autograd does not see the rest.
#
# **Budget**: after the forward pass exactly what the plan keeps is saved. In the
# forward pass each block is called once, and on the way back at most once more for each
# bracket around it. A bracket in a bracket is opened in its own turn, not with the one
# around it, and what is in it runs once more then.

# %%
def run_plan(plan: list, blocks, x: torch.Tensor) -> torch.Tensor:
    """The output of the last block, with checkpoints as the plan's brackets say."""
    ### BEGIN SOLUTION
    for item in plan:
        if isinstance(item, list):
            x = checkpoint(run_plan, item, blocks, x, use_reentrant=False)
            continue
        x = blocks[item - 1](x)
    return x
    ### END SOLUTION


# %%
check("4.6", run_plan)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `checkpoint(function, a, b, c, use_reentrant=False)` calls `function(a, b, c)`. Which
# function runs a plan?
# </details>
#
# <details><summary>Hint 2</summary>
#
# The inside of a bracket is a plan.
# </details>

# %% [markdown]
# When a bracket is opened, all that the blocks in it save is there at once, 12 arrays
# and more for each block. In the model of chains a stage saved only its input. So what
# was `[1, 2, 3]` there is `[[1], [2], [3]]` here, and a bracket around a single block
# is worth having:

# %%
def saved_by(plan):
    kept_whole = sum(isinstance(item, int) for item in plan)
    inputs = (len(plan) - kept_whole) * dT
    return inputs + kept_whole * (12 * dT + TT + row_bytes)


with needs("4.6"):
    for plan in (
        [1, 2, 3, 4, 5, 6],
        [[1, 2, 3], [4, 5, 6]],
        [[[1], [2], [3]], [[4], [5], [6]]],
        [[1], [2], [3], [4], 5, 6],
    ):
        saved, peak = bill(lambda x, plan=plan: run_plan(plan, blocks, x))
        told = f"predicted {saved_by(plan):10,} saved {saved:10,} peak {peak:10,}"
        print(f"{told}  {plan}")

# %% [markdown]
# The second plan and the third save equally little after the forward pass, and differ
# at the peak: what is saved is not what a step needs. The last plan keeps two blocks
# whole, and its peak is no higher than the third's. On the way back blocks 6 and 5 come
# first, and what they kept is gone before a bracket is opened.
#
# torch also says what a GPU had at its peak:

# %%
if torch.cuda.is_available():
    there, on_gpu = x, blocks.to("cuda")
    x = x.detach().to("cuda").requires_grad_()
    for forward in formulas:
        train(x, forward)  # the first step also makes what the libraries keep
        forget_gradients(blocks, x)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        train(x, forward)
        peak = torch.cuda.max_memory_allocated() - before
        print(f"{forward.__name__:22} {peak:11,} bytes above what was there")
    x, blocks = there, on_gpu.to("cpu")
else:
    print("This machine has no GPU that torch can use: nothing was measured here.")

# %% [markdown]
# ## What to take along
#
# Fix the budget, and ask for the least time; not the other way round. Count bytes and
# operations, not layers: what is large and cheap to make goes first, and what is dear
# stays. One step backward, with its input and two gradients, is a floor that no plan
# gets under. And a proof of "best" is as good as the list of what it was compared with:
# all periods, all plans, all schedules were three different lists.

# %% [markdown]
# ### In your own words 4.w
#
# A network's first layers have large outputs that are cheap to compute; its last layers
# have small outputs that are dear. A colleague keeps every $\sqrt n$-th activation.
# Explain in two sentences why this is not the best plan, and what a better one would
# keep.
#
# (No check reads this one: a person does.)

# %% [markdown] written="4.w"
# The square root counts layers, as if all had the same size and the same cost, so it
# keeps some of the large outputs, which would be cheap to make again, and drops small
# ones that are dear. A better plan spends its bytes where each of them saves most time:
# it keeps the small, dear outputs at the end and recomputes the large, cheap ones in
# front.

# %%
progress()
