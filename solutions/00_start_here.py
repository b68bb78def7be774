# %% [markdown]
# # 00 Start here
#
# A model that does not fit into memory does not train. One that fits, but moves its
# data carelessly, trains slowly while the processor waits. This course is about both:
# the bytes that a computation holds, and the bytes that it moves.
#
# You will count them. You write down what you expect, then you measure it. Your own
# code is measured too: an answer with the right values that takes too much memory is
# not yet right.
#
# This lesson shows where the course leads and how it works, and ends with a first
# exercise. Run each cell with Shift+Enter.
#
# Core: one exercise, 2 points, about 35 minutes with the reading.

# %% [markdown]
# ## Where this leads
#
# Attention lets every token of a sequence look at every other. For $N$ tokens the
# textbook's way makes a matrix of $N \times N$ scores, and softmax makes a second one.
# `torch_peak_bytes` runs a piece of code, and tells how many bytes torch had alive at
# the worst moment. Here it is for 1,024 tokens.

# %%
import torch
from course_utils import check, measured, needs, predict, progress
from course_utils.torch_memory import saved_bytes, torch_peak_bytes

torch.set_num_threads(2)  # so that your bytes agree with ours, whatever the machine


def dense(q, k, v):
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)  # (N, N)
    return weights @ v  # (N, D)


def peak_mb(attention, tokens):
    q, k, v = torch.randn(3, 1, 1, tokens, 64)  # one sequence, one head, (N, D)
    return torch_peak_bytes(lambda: attention(q, k, v)) / 1e6


print(f"{peak_mb(dense, 1024):.1f} MB")

# %% [markdown]
# Now eight times as many tokens: 8,192. How many megabytes will that take? Put a number
# in the place of the dots. A guess is fine, and nobody grades it; what counts is that
# you made it *before* you saw the answer.

# %%
predict("0.a", 537, unit="MB")

# %% [markdown]
# Torch has a second way to compute attention, after Dao et al. 2022 (L12-02). It works
# through the matrix block by block, and never has all of it. We measure both ways.

# %%
from torch.nn.functional import scaled_dot_product_attention

tokens = [1024, 2048, 4096, 8192]
ways = {"dense": dense, "block by block": scaled_dot_product_attention}
peaks = {name: [peak_mb(way, n) for n in tokens] for name, way in ways.items()}
measured("0.a", peaks["dense"][-1])

# %% picture="attention_memory"
from course_utils.hardware import machine_name
from course_utils.machine import memory_bytes
from course_utils.plots import growth

machine_mb = (memory_bytes() or 16e9) / 1e6
growth(
    tokens,
    peaks,
    xlabel="tokens",
    ylabel="peak memory (MB)",
    title=f"One head of attention, on {machine_name()}",
    limits={"all of this machine's memory": machine_mb},
)

# %% [markdown]
# Both axes are logarithmic, so a power of $N$ is a straight line, and its exponent is
# the slope. Look at the last doubling.

# %%
for name, mb in peaks.items():
    print(f"{name}: twice the tokens, {mb[-1] / mb[-2]:.2f} times the memory")
full_at = (machine_mb * 1e6 / (2 * 4)) ** 0.5  # two matrices, 4 bytes a number
print(f"dense: this machine is full at {full_at:,.0f} tokens")
q, k, v = torch.randn(3, 1, 1, 1024, 64)
difference = dense(q, k, v) - scaled_dot_product_attention(q, k, v)
print(f"largest difference of the results: {difference.abs().max():.0e}")

# %% [markdown]
# The dense way grows with the square: twice the tokens, 4.00 times the memory. The
# other grows no faster than the sequence. It holds the result, which has a row for each
# token, and some blocks whose size stays the same.
#
# And it is no approximation: the results differ by rounding only, as the last line
# shows.
#
# That lower line is where this course leads. In the end you will have written such an
# attention yourself, first in NumPy, where every byte that moves is counted, then on a
# GPU. Before that you will train networks without keeping all that their backward pass
# asks for. And of a program that you have not run yet, you will be able to say how many
# bytes it must hold, and how many it must move.

# %% [markdown]
# ## The memory wall
#
# What fills the memory when a model trains? The lecture opens with two published plots
# (L12-01: Sohoni et al. 2019; Jain et al. 2020). (A mark such as L12-01 stands for a
# figure or a claim of the lectures that this course follows; `docs/figures.md` lists
# them.) Both say: mostly not the weights. Mostly *activations*, the intermediate
# results that the forward pass leaves for the backward pass. Let us see it with our own
# eyes, on a block of a transformer that is 256 numbers wide.

# %%
width, length = 256, 256  # numbers a token, tokens a sequence
block = torch.nn.TransformerEncoderLayer(
    width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True
)
weights = list(block.parameters())
weights_bytes = sum(weight.nbytes for weight in weights)
training_bytes = 4 * weights_bytes  # weights, gradients, and Adam's two averages
print(f"weights {weights_bytes / 1e6:.2f} MB, training {training_bytes / 1e6:.2f} MB")

# %% [markdown]
# In training each weight is there four times: itself, its gradient, and the two running
# averages that Adam keeps. That much is fixed. Activations are not: every sequence in
# the batch leaves its own. A sequence here is 256 tokens of 256 numbers.
#
# With how many sequences do the activations take as much as the 12.64 MB that are
# fixed?

# %%
predict("0.b", 4, unit="sequences")

# %%
def activation_bytes(sequences):
    x = torch.randn(sequences, length, width)
    return saved_bytes(lambda: block(x), parameters=weights)


measured("0.b", training_bytes / activation_bytes(1))
batches = [1, 2, 4, 8, 16]
growth(
    batches,
    {"activations": [activation_bytes(batch) / 1e6 for batch in batches]},
    xlabel="sequences in the batch",
    ylabel="memory (MB)",
    title="A transformer block in training",
    limits={"weights, gradients, Adam": training_bytes / 1e6},
)

# %% [markdown]
# They meet early. Why there? Count in units of the width.

# %%
numbers_per_token = activation_bytes(1) / 4 / length
print(f"weights: {weights_bytes / 4 / width**2:.2f} times the width squared")
print(f"kept of each token: {numbers_per_token / width:.2f} times the width")

# %% [markdown]
# The two factors are almost the same. With each weight there four times, both sides are
# equal when the batch has four times as many *tokens* as the block is wide. Training
# batches have many more, counted over all devices. The plots are right, and now you
# know the rule behind them.
#
# The lecture's second thesis is that moving data is costly (L12-03). Compare two jobs:
# adding two long vectors, and multiplying two square matrices.

# %%
from timeit import repeat

a, b, total = torch.ones(3, 2**24)
x, y, product = torch.ones(3, 1024, 1024)
add_seconds = min(repeat(lambda: torch.add(a, b, out=total), number=1))
product_seconds = min(repeat(lambda: torch.matmul(x, y, out=product), number=1))
jobs = {  # operations, bytes read and written, seconds
    "add": (2**24, 3 * a.nbytes, add_seconds),
    "product": (2 * 1024**3, 3 * x.nbytes, product_seconds),
}
for name, (flops, moved_bytes, seconds) in jobs.items():
    print(f"{name}: {flops / moved_bytes:.2f} operations for each byte moved,", end=" ")
    print(f"{flops / seconds / 1e9:.1f} billion operations a second")
print(f"Measured with {torch.get_num_threads()} threads on {machine_name()}")

# %% [markdown]
# It is the same processor. While it adds, it mostly waits, since every number that
# arrives is used once. In the product each is used 1,024 times, so there is work enough
# until the next one comes. (We counted each matrix as moved once. What it takes for
# that to be true is a lesson of its own.)
#
# Memory is scarce, and moving it is slow. Together they make the choice that runs
# through this course, and the lecture's notes have it in one line (GN-01):
#
# $$L = 2\,(w_1 w_2)\,w_3, \qquad u = w_1 w_2, \quad v = 2u, \quad L = v\,w_3.$$
#
# Our transcript of the notes reads $\partial L/\partial w_3 = w_3$. Nudge $w_3$, and
# see by what factor $L$ follows.

# %%
def loss(w1, w2, w3):
    return 2 * (w1 * w2) * w3


w1, w2, w3, nudge = 2.0, 3.0, 5.0, 0.001
slope = (loss(w1, w2, w3 + nudge) - loss(w1, w2, w3 - nudge)) / (2 * nudge)
print(f"dL/dw3 = {slope:.3f}   w3 = {w3}   v = {2 * w1 * w2}")

# %% [markdown]
# It is $v$, not $w_3$: a slip of the transcript, for the same notes go on to say that
# $v$ must be stored. The slopes of the other steps are $\partial L/\partial v = w_3$,
# $\partial v/\partial u = 2$ and $\partial u/\partial w_1 = w_2$.
#
# The forward pass makes $v$, and the backward pass reads it, perhaps much later. For
# the time between there are two ways. **Store** it, which holds memory all the while.
# Or throw it away and **recompute** it from $w_1$ and $w_2$, which takes operations.
# The notes give a rule of thumb (GN-25): recompute where the processor waits for
# memory, store where memory waits for the processor. You have just seen one job of each
# kind.

# %% [markdown]
# ## What your machine has
#
# The doctor looks it over.

# %%
from course_utils.hardware import doctor

doctor()

# %% [markdown]
# Each line says what is there, or what its absence means. "Absent, fine" is meant as it
# stands: the course does without. If something is *missing*, its line says what to do.
#
# Times depend on the machine, so wherever this course shows one, it names its machine.
# Bytes hardly do: your counts will agree with ours.

# %% [markdown]
# ## How the exercises work
#
# You know predictions by now. An exercise asks for a function: its formula, what goes
# in, what comes out. You write it in the place marked `YOUR CODE HERE`, and the cell
# below checks it. A check ends in one of four ways.
#
# - **not attempted**: the stub is still there.
# - **passed**.
# - **failed**: it tells what was expected, what came, and a likely cause. Failing costs
#   nothing. Check as often as you like.
# - **not verifiable here**: this machine lacks what the check needs, and it says what.
#
# Where memory is graded there is a **budget**: the most that your function may have
# alive at any moment, beyond its inputs. It has room for every honest way of writing
# the answer. There is a floor too. A peak lower than the result itself means that
# memory was taken where nobody counts it.
#
# Hints are folded up below, the general one first. None of them is the answer.
#
# The lessons in `work/` are your own copies. When the course changes,
# `python course.py update` brings in the new text and keeps what you wrote. What you
# passed and predicted is noted in a small file there, on this machine only. Delete it,
# and nothing else is lost.

# %% [markdown]
# ## Reverse mode on a page
#
# Nearly every number in this course is caused by the backward pass. So here it is at
# its smallest, on the example of the lecture (AD1-11):
#
# $$f(w_1, w_2) = \Big(\sin\frac{2\pi w_1}{w_2} + \frac{3 w_1}{w_2} - e^{2 w_2}\Big)
# \Big(\frac{3 w_1}{w_2} - e^{2 w_2}\Big).$$
#
# Written as a *straight-line program*, one operation after the other, no loop and no
# branch, it has six values.

# %%
import numpy as np

TAU = 2 * np.pi


def forward(w1, w2):
    z1 = w1 / w2
    z2 = np.sin(TAU * z1)
    z3 = np.exp(2 * w2)
    z4 = 3 * z1 - z3
    z5 = z2 + z4
    z6 = z4 * z5
    return {"z1": z1, "z2": z2, "z3": z3, "z4": z4, "z5": z5, "z6": z6}

# %% [markdown]
# Reverse mode (AD1-16) runs this forward and stores every $z$. Then it walks back from
# the last line to the first. For each value it asks: if this one changed a little, by
# how much would $f$ change? Call that $d$. A value acts on $f$ through its *children*,
# the values that were made from it (AD1-12), so its $d$ is a sum over them (AD1-15):
#
# $$d_t = \sum_{c \text{ child of } t} d_c \, \frac{\partial z_c}{\partial z_t}.$$
#
# The slopes on the right are those of single lines, the ones you learned at school.
# Some depend on the values in the line, some do not.
#
# Before you read on: all six were stored. How many of them will the backward pass read?

# %%
predict("0.c", 4, unit="values")

# %%
def backward(w2, z):
    d5 = z["z4"]  # from z6 = z4 * z5, with d6 = 1
    d4 = z["z5"] + d5  # from z6 = z4 * z5 and z5 = z2 + z4
    d3 = -d4  # from z4 = 3 * z1 - z3
    d2 = d5  # from z5 = z2 + z4
    d1 = 3 * d4 + d2 * np.cos(TAU * z["z1"]) * TAU  # from z4 and z2
    dw1 = d1 / w2  # from z1 = w1 / w2
    dw2 = d3 * 2 * z["z3"] - dw1 * z["z1"]  # from z3 and z1
    return dw1, dw2

# %% [markdown]
# Is it right? Nudge each input both ways and look at $f$ (AD1-09). This is slow, and
# right to some digits only. But it needs no thought, and that makes a good test.

# %%
w1, w2, eps = 0.7, 0.4, 1e-6
slopes = [
    (forward(w1 + eps, w2)["z6"] - forward(w1 - eps, w2)["z6"]) / (2 * eps),
    (forward(w1, w2 + eps)["z6"] - forward(w1, w2 - eps)["z6"]) / (2 * eps),
]
z = forward(w1, w2)
for name, by_hand, nudged in zip(("df/dw1", "df/dw2"), backward(w2, z), slopes):
    print(f"{name}: reverse mode {by_hand:.6f}, nudged {nudged:.6f}")

# %% [markdown]
# Now the question. Throw one stored value away at a time, and see whether the backward
# pass misses it.

# %%
read = []
for name in z:
    others = {other: z[other] for other in z if other != name}
    try:
        backward(w2, others)
    except KeyError:
        read.append(name)
print("read by the backward pass:", ", ".join(read))
measured("0.c", len(read))

# %%
from course_utils.graphs import computation_graph

parents = {"w1": [], "w2": [], "z1": ["w1", "w2"], "z3": ["w2"], "z2": ["z1"],
           "z4": ["z1", "z3"], "z5": ["z2", "z4"], "z6": ["z4", "z5"]}  # fmt: skip
formulas = {"z1": "w1 / w2", "z2": "sin 2πz1", "z3": "exp 2w2",
            "z4": "3z1 - z3", "z5": "z2 + z4", "z6": "z4 z5"}  # fmt: skip
computation_graph(
    parents,
    formulas,
    marked=["w2", *read],
    meaning="read by the backward pass",
    title="The graph of f",
)

# %% [markdown]
# A sum needs nothing: its slopes are constants, so $z_2$ need not be kept. A product
# needs both of its factors, $z_4$ and $z_5$. The exponential is its own slope and needs
# its result, $z_3$. The sine needs its argument, $z_1$. Nothing reads $z_6$. (The input
# $w_2$ is read too, but inputs are there anyway.)
#
# So "store all of $z$", as the algorithm says, is more than it takes. Here each is a
# single number. Let it be an array of a hundred megabytes, and you see what the marks
# in this figure cost. *What the backward pass reads, memory must hold*, or somebody
# must compute it again.
#
# And the time? A straight-line program has no loops, so its operations can be counted
# by reading it.

# %%
import ast
import inspect


def operations(function):
    nodes = ast.walk(ast.parse(inspect.getsource(function)))
    return sum(isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call)) for node in nodes)


there, back = operations(forward), operations(backward)
print(f"forward {there}, backward {back} operations")
print(f"both together: {(there + back) / there:.2f} times the forward pass")

# %% [markdown]
# The theorem (AD1-10, after Baur and Strassen, 1983) promises at most 5 times, however
# many inputs there are. Nudging needs two forward passes *for every input*. That is why
# networks with billions of weights can be trained at all. The price is paid in memory.

# %% [markdown]
# ### Exercise 0.1 - reverse mode by hand - 2 points, easy, 8 min
#
# Your turn, with arrays. Take the lecture's example again, now element by element, and
# summed up in the end:
#
# $$u = w_1 w_2, \qquad v = 2u, \qquad L = \sum_i v_i \, w_{3,i}.$$
#
# **Write** `gradients(w1, w2, w3)`.
#
# - `w1`, `w2`, `w3`: float arrays of one shape, any shape. Leave them as they are.
# - Returns three arrays of that shape and dtype: $\partial L/\partial w_1$,
#   $\partial L/\partial w_2$ and $\partial L/\partial w_3$, in this order.
#
# **Budget**: seven arrays alive at once, beyond the inputs. Three of them are what you
# return, so you have four to spare. (The check adds 0.1 for Python's own objects.)
#
# You may want to see a failure first. Write `return w1, w2, w3`, and check that.

# %%
def gradients(w1, w2, w3):
    """Gradients of L = sum(2 * (w1 * w2) * w3) for w1, w2 and w3, as three arrays."""
    ### BEGIN SOLUTION
    v = 2 * (w1 * w2)
    dL_du = 2 * w3  # dL/dv = w3, dv/du = 2
    return dL_du * w2, dL_du * w1, v
    ### END SOLUTION

# %%
check("0.1", gradients)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Look at a single place $i$. There it is the example with numbers from above. `*`
# between arrays does the same at every place.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Walk backwards. First $\partial L/\partial v$ and $\partial L/\partial w_3$: $L$ is a
# product of the two. Then $\partial L/\partial u$. Then the two factors of $u$.
# </details>
#
# <details><summary>Hint 3</summary>
#
# If the values are right and the memory is not: count the names that you gave to
# arrays. Each one keeps its array until the function returns. You never need $L$
# itself.
# </details>

# %% [markdown]
# What did your answer hold, and when? Each row is one of your lines, and each block an
# array that is alive after it. Hatched is what lived only *during* a line. The inputs
# are not counted.

# %%
from course_utils.plots import memory_timeline
from course_utils.timeline import trace_lines

with needs("0.1"):
    memory_timeline(trace_lines(gradients, *np.ones((3, 512, 256))))

# %% [markdown]
# In the last row, three of the blocks are the answer. Whatever stands beside them,
# there or on the way, was a choice. You will see many of these figures, and learn to
# make them narrower.

# %% [markdown]
# ## Where to go next
#
# | lesson | what you learn |
# |---|---|
# | 00 Start here | where the course leads, and how it works |
# | 01 Measuring memory | what an array takes; what is alive, and why; how to count it |
# | 02 `requires_grad` | an autograd engine on a page; what it need not hold |
# | 03 Rematerialization | what it need not hold if it may compute again |
# | 04 Optimal rematerialization | what is best to keep, proven |
# | 05 Online softmax | a softmax that never sees its whole row |
# | 06 Tiling | what moving a byte costs; how little has to move |
# | 07 FlashAttention | attention that never stores its scores |
# | 08 FlashAttention on a GPU | the same as real kernels, and what a clock says |
#
# Open `01_measuring_memory` next, and look at your progress whenever you like.

# %%
progress()
