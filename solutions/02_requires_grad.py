# %% [markdown]
# # 02 `requires_grad`: gradients that nobody reads
#
# A chain of matrix products is trained. In this lesson you ask of every array in it who
# will read it and when it is read for the last time, and you let go of it there: first
# of gradients, then of activations. The engine is the lecture's, and so are the numbers
# (CS 577, lecture 12, figures L12-16 to L12-33, listed in `docs/figures.md`): you will
# see them come out of your machine, and see which of them say less than they seem to.
#
# Core: four exercises, 13 points, about 90 minutes with the reading.

# %%
from functools import partial

import numpy as np

from course_utils import ag, check, measured, needs, predict, progress
from course_utils.plots import show_source
from course_utils.timeline import Timeline, trace_lines
from course_utils.torch_memory import saved_bytes
from course_utils.tracing import (
    Trace,
    end_trace,
    print_trace_stats,
    snapshot_trace,
    start_trace,
)
from course_utils.widgets.memory import recorded_engines, scrub

MB = 10**6

# %% [markdown]
# ## The engine
#
# The engine is one class and a few operations. A `Tensor` is a node of the
# computation's graph: this is how it begins, and how it sends gradients back (L12-16,
# L12-25).

# %%
show_source(ag.Tensor.__init__, ag.Tensor.backward)

# %% [markdown]
# `ag.matmul(x, w)` makes a node from the product of two values, with `(x, w)` as its
# inputs, and gives it a `_backward`: its step of the backward pass, which you will
# write yourself in a moment.
#
# Our network is the lecture's: three matrix products and a sum, $Z_k = Z_{k-1} W_k$,
# with $Z_0 = X$ (L12-17 to L12-19).

# %%
rng = np.random.default_rng(12)


def make_chain(layers, rows, width, tensor=ag.Tensor, **options):
    x = tensor(rng.standard_normal((rows, width)))
    weights = [
        tensor(0.02 * rng.standard_normal((width, width)), **options)
        for _ in range(layers)
    ]
    return x, weights


x, weights = make_chain(layers=3, rows=16000, width=250)
print(f"one activation: {x.value.nbytes / MB} MB, one weight: {weights[0].value.nbytes / MB} MB")

# %% [markdown]
# The lecture traces the forward pass (L12-20). Its trace starts after input and weights
# were made, so it counts only what the forward pass adds. It prints whole megabytes of
# $10^6$ bytes, the rest cut off.
#
# **Predict**: how many MB will it print after the third product?

# %%
predict("2.a", 192, unit="MB")

# %%
def forward_traced(x, weights):
    start_trace()
    mem_usage = []
    for w in weights:
        x = ag.matmul(x, w)
        mem_usage.append(snapshot_trace())
    loss = ag.sum(x)
    mem_usage.append(snapshot_trace())
    end_trace()
    return loss, mem_usage


loss, mem_usage_forward = forward_traced(x, weights)
for i, stats in enumerate(mem_usage_forward[:-1]):
    print(f"layer {i}: ", end="")
    print_trace_stats(stats)
measured("2.a", mem_usage_forward[2].current_bytes // MB)

# %% [markdown]
# 64, 128, 192, as in the lecture (L12-21). If you said 96, you counted the activations,
# which is what most people do. Read the first two lines of `__init__` again, as a bill:
# `1.0 * value` makes a new array, so that the node owns its numbers, and `zeros_like`
# makes a second one of the same size, before anybody knows whether it will be used.
# Half of this memory holds nothing but zeros. The last snapshot, after the sum, shows
# how little a loss takes:

# %%
added = mem_usage_forward[3].current_bytes - mem_usage_forward[2].current_bytes
print(f"the loss added {added} bytes: the gradient of one number")

# %% [markdown]
# Let us see the arrays themselves. A `Timeline` counts like the trace, and at each step
# it asks which array is which.

# %%
def forward_timeline(x, weights, matmul=ag.matmul):
    nodes = {}
    with Timeline() as timeline:
        for k, w in enumerate(weights, start=1):
            x = nodes[f"Z{k}"] = matmul(x, w)
            timeline.mark(f"Z{k} = Z{k - 1} W{k}", nodes)
    return timeline


scrub(forward_timeline(x, weights), titles=["forward, a gradient for every node"])

# %% [markdown]
# Every step is a moment, every block an array that is alive then. What has only a frame
# (hatched, in the figure) lived only *during* the step: `np.matmul` makes its result,
# `1.0 * value` copies it, then the first one is dropped. That costs no memory in the
# end, but it costs some on the way, and a machine must be large enough for the way too.
#
# Twice what is needed, the lecture remarks (L12-22). To be entitled to that, we must
# know what *is* needed. So: who reads a gradient?

# %% [markdown]
# ## Who reads a gradient, and when
#
# Take one product, $Y = XW$ with shapes $(B, N)(N, M)$, somewhere in the chain. Suppose
# the backward pass has reached it, so that we hold $G$, the derivative of the loss $L$
# for every element of $Y$. A small change of $X$ and $W$ changes $Y$ by
# $dX\,W + X\,dW$, and the loss by the sum of that times $G$, element by element:
#
# $$dL = \langle G,\; dX\,W\rangle + \langle G,\; X\,dW\rangle
# = \langle G\,W^\top,\; dX\rangle + \langle X^\top G,\; dW\rangle .$$
#
# What stands beside $dX$ is the gradient of $X$; what stands beside $dW$ is that of $W$
# (L12-23). The shapes allow no other order of the factors: $(B, M)(M, N)$ and
# $(N, B)(B, M)$. Unless all three sizes are equal. Then every wrong order fits too,
# which is why tests with square matrices find so little.

# %% [markdown]
# ### Exercise 2.1 - the backward of a matmul - 2 points, easy, 5 min
#
# Write the step that the node `output` $= XW$ takes in the backward pass. All three are
# nodes with `.value` and `.grad`, and all three gradients exist:
#
# - **add** $G\,W^\top$ to `x.grad`, shape (B, N), and $X^\top G$ to `w.grad`, shape (N,
#   M), where $G$ is `output.grad`, shape (B, M);
# - change nothing else; return nothing.

# %%
def matmul_backward(x, w, output) -> None:
    """Add this product's share to x.grad (B, N) and w.grad (N, M)."""
    ### BEGIN SOLUTION
    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad
    ### END SOLUTION


# %%
check("2.1", matmul_backward)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is two lines. Write the shape under every factor before you write the line.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Why "add"? Perhaps `x` went into another product as well, and that one was here before
# you.
# </details>

# %% [markdown]
# Is the formula right? Ask the definition: move one weight a little to either side, and
# watch the loss.

# %%
def fresh_loss():
    for w in weights:
        w.grad[...] = 0
    return forward_traced(x, weights)[0]


fresh_loss().backward()

# %%
def loss_at(change, layer=1, at=(3, 5)):
    z = x.value
    for k, w in enumerate(weights):
        value = w.value.copy()
        if k == layer:
            value[at] += change
        z = z @ value
    return z.sum()


slope = (loss_at(+1e-3) - loss_at(-1e-3)) / 2e-3
print(f"by differences {slope:.8f}, by the backward pass {weights[1].grad[3, 5]:.8f}")

# %% [markdown]
# Now look at the step again, with the question of this lesson. It reads `output.grad`
# twice and writes to its inputs' gradients. Does any *other* step read `output.grad`,
# later? The lecture says no: once $Z_4$'s step is done, its gradient is never used
# again (L12-24). Such a claim can be tested without trust. Poison every gradient as
# soon as its step is done, and see whether the poison arrives anywhere:

# %%
honest = [w.grad.copy() for w in weights]

loss = fresh_loss()
loss.grad = np.array(1.0)
for node in reversed(loss.topological_sort()):
    node._backward()
    if node.inputs:  # not a weight: those gradients are the result
        node.grad = np.full_like(node.grad, np.nan)

print([bool(np.array_equal(w.grad, h)) for w, h in zip(weights, honest)])

# %% [markdown]
# Not one element differs. A gradient of an activation lives from the step that makes it
# to its own step, and no longer. That it is *allocated* from the first line of the
# forward pass on is an accident of the engine.

# %% [markdown]
# ## What a trace proves
#
# The lecture comes to the same conclusion by another way: it traces the backward pass
# (L12-26), and takes the conclusion from what it prints.
#
# **Predict**: the trace now begins right before the backward pass. How many MB does it
# print after the first product's step?

# %%
predict("2.b", 0, unit="MB")

# %%
def backward_traced(loss, discard=False):
    loss.grad = np.array(1.0)
    steps = [node for node in reversed(loss.topological_sort()) if node.inputs]
    mem_usage = []
    start_trace()
    for node in steps:
        node._backward()
        if discard:
            node.grad = None
        mem_usage.append(snapshot_trace())
    end_trace()
    return mem_usage


# %%
mem_usage_backward = backward_traced(fresh_loss())
for i, stats in enumerate(mem_usage_backward):
    print(f"backward step {i}: ", end="")
    print_trace_stats(stats)
measured("2.b", mem_usage_backward[1].current_bytes // MB)

# %% [markdown]
# Zero after every step, the sum's and the products', as in the lecture (L12-27). "So a
# gradient is not needed after its step", it goes on (L12-28). That is true, as you have
# just seen, but *these zeros do not say it*. They say that no new array was alive after
# a step, and how could one be? All gradients were allocated in the forward pass, before
# this trace began. So let one backward pass keep every gradient to the end, as this
# engine does, and another drop each after its step. Can the trace tell them apart?

# %%
for discard in (False, True):
    printed = [s.current_bytes // MB for s in backward_traced(fresh_loss(), discard)]
    print(printed, "MB, each gradient dropped after its step:", discard)

# %% [markdown]
# A measurement that comes out the same whether the claim holds or not is no evidence
# for it. Before you trust a trace, ask what it would have shown if you were wrong.
#
# Nor does zero *held* mean zero *used*. The same trace also has the peak:

# %%
peak = max(stats.peak_bytes for stats in mem_usage_backward)
held = max(stats.current_bytes for stats in mem_usage_backward)
print(f"held after a step: {held / MB:.1f} MB; at the worst moment: {peak / MB:.1f} MB")

# %% [markdown]
# That is one more activation-sized array: the product, before `+=` adds it to the zeros
# that were waiting.

# %% [markdown]
# ## Late and early
#
# So the plan is: a gradient is made when the backward pass first needs it, and dropped
# after its own step. The forward pass makes none, except where somebody asks with
# `requires_grad=True`, as one does for weights, whose gradients are the whole point
# (L12-29, L12-30).

# %%
show_source(ag.LazyTensor.__init__)

# %% [markdown]
# Half of the plan is done by that. Its forward pass, on the sizes of the lecture's
# second table:

# %%
lazy_x, lazy_weights = make_chain(5, 4000, 1024, ag.LazyTensor, requires_grad=True)
activation_bytes = lazy_x.value.nbytes
print(f"one activation: {activation_bytes / MB} MB")

# %% [markdown]
# **Predict**: what will the trace print after the fourth product, layer 3? (Whole MB,
# the rest cut off.)

# %%
predict("2.c", 131, unit="MB")

# %%
def lazy_forward(x, weights, backward):
    start_trace()
    mem_usage = []
    for w in weights:
        x = ag.lazy_matmul(x, w, backward)
        mem_usage.append(snapshot_trace())
    end_trace()
    return x, mem_usage


_, mem_usage_lazy = lazy_forward(lazy_x, lazy_weights, matmul_backward)
for i, stats in enumerate(mem_usage_lazy):
    print(f"layer {i}: ", end="")
    print_trace_stats(stats)
measured("2.c", mem_usage_lazy[3].current_bytes // MB)

# %% [markdown]
# 32, 65, 98, 131, 163: the lecture's table (L12-33). It differs from the first one in
# more than the factor of two, and the lecture does not mention it. There an activation
# had 32.0 MB, or its first table would not read 64, 128, 192. Here it has 32.768 MB,
# 4,096,000 doubles, or this one would not jump by 33 and then by 32. Compare tables
# made at one size.
#
# And the backward pass? The step as it was, on an `x` whose gradient nobody has made:

# %%
new_x, (new_w,) = make_chain(1, 4, 3, ag.LazyTensor, requires_grad=True)
loss_of_lazy = ag.sum(ag.matmul(new_x, new_w))
try:
    loss_of_lazy.backward()
except TypeError as error:
    print("TypeError:", error)

# %% [markdown]
# ### Exercise 2.2 - gradients made late, discarded early - 4 points, medium, 15 min
#
# The lecture's exercise 1 (L12-31). Write the step of `output` $= XW$ again, now for
# lazy nodes:
#
# - `x.grad` and `w.grad` may each be `None`, or an array that already holds a share
#   from elsewhere. Afterwards each is an array that holds all that it should;
# - `output.grad` is `None` afterwards. No array of this step, the two results apart,
#   outlives it.
#
# **Budget**, over a chain of four products: after each step exactly one activation's
# gradient is held (the weights' gradients apart); inside a step at most four arrays of
# an activation's size are alive.

# %%
def lazy_matmul_backward(x, w, output) -> None:
    """Add this product's share to x.grad (B, N) and w.grad (N, M); discard output.grad."""
    ### BEGIN SOLUTION
    if x.grad is None:
        x.grad = np.zeros_like(x.value)
    if w.grad is None:
        w.grad = np.zeros_like(w.value)

    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad

    output.grad = None
    ### END SOLUTION


# %%
check("2.2", lazy_matmul_backward)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three things happen, in this order: make what is missing, add as before, let go.
# </details>
#
# <details><summary>Hint 2</summary>
#
# An array is freed when the last name for it goes. `output.grad` is a name. A local
# variable that refers to the same array is another, until the function returns.
# </details>
#
# <details><summary>Hint 3</summary>
#
# "May be `None`, or an array that already holds a share": assign in the one case, add
# in the other.
# </details>

# %% [markdown]
# ## The bill, before and after
#
# Now both passes in one trace, on the chain of five.

# %%
def training_step(x, weights, matmul, sum_):
    """Bytes held after the forward pass, after each backward step, and the peak."""
    with Trace() as trace:
        z = x
        for w in weights:
            z = matmul(z, w)
        loss = sum_(z)
        held = [trace.snapshot().current_bytes]
        loss.grad = np.array(1.0)
        for node in reversed(loss.topological_sort()):
            node._backward()
            if node.inputs:
                held.append(trace.snapshot().current_bytes)
        return held, trace.snapshot().peak_bytes


# %% [markdown]
# First the lecture's engine, with every gradient from the start. Then yours.

# %%
eager_x, eager_weights = make_chain(5, 4000, 1024)
eager_held, eager_peak = training_step(eager_x, eager_weights, ag.matmul, ag.sum)
print("held:", [bytes_ // MB for bytes_ in eager_held], "MB")
print(f"peak: {eager_peak / MB:.1f} MB")
del eager_x, eager_weights

# %%
with needs("2.2"):
    lazy_x, lazy_weights = make_chain(5, 4000, 1024, ag.LazyTensor, requires_grad=True)
    matmul = partial(ag.lazy_matmul, backward=lazy_matmul_backward)

    lazy_held, lazy_peak = training_step(lazy_x, lazy_weights, matmul, ag.lazy_sum)
    print("held:", [bytes_ // MB for bytes_ in lazy_held], "MB")
    print(f"peak: {lazy_peak / MB:.1f} MB, {lazy_peak / eager_peak:.2f} of the eager one")

# %% [markdown]
# The forward pass holds half as much (L12-32 is right, for the forward pass). The
# backward pass now pays for one gradient at a time, on top of all the activations. So
# the *peak* does not halve. It falls from eleven activations to about eight, five of
# which are the activations themselves. What a training step needs is its peak, so this
# is the number to quote.
#
# How high exactly depends on how you wrote your step. Here is yours, line by line, on
# one product of this size, from the moment when `output.grad` is all that there is.
# (Values, and the weights' gradients, are not in the picture.)

# %%
def one_step(rows=4000, width=1024):
    x = ag.LazyTensor(rng.standard_normal((rows, width)))
    w = ag.LazyTensor(rng.standard_normal((width, width)), requires_grad=True)
    output = ag.lazy_matmul(x, w, lazy_matmul_backward)
    output.grad = np.ones_like(output.value)
    return x, w, output


with needs("2.2"):
    timeline = trace_lines(
        lazy_matmul_backward,
        *one_step(),
        names=["x", "w", "output"],
        count=["output.grad"],
    )
    scrub(timeline, titles=["your step, line by line"])

# %% [markdown]
# Three honest ways to write it have three peaks:

# %%
Z, W = activation_bytes / MB, lazy_weights[0].value.nbytes / MB
print(f"zeros first, then += a product       : {3 * Z:.1f} MB  (gradient, zeros, product)")
print(f"the product becomes x.grad, then w   : {2 * Z + W:.1f} MB  (two gradients, w's product)")
print(f"w's product first, then x's          : {2 * Z:.1f} MB  (two gradients)")

# %% [markdown]
# The check accepts each of them. But you see what one line more or less can cost: a
# third of the step's memory, without a difference in any value. This is what the course
# means by memory being graded.

# %% [markdown]
# ## Used twice
#
# In a chain every activation has one reader. Real networks have branches: in a residual
# block, $Z_{k+1} = Z_k + Z_k W_k$, the tensor $Z_k$ is read by the product *and* by the
# sum. Two steps send a share of its gradient back, in an order that the writer of a
# step does not know. So a step that finds a gradient must add to it; a step that finds
# none must make one.
#
# The step of a sum is the easiest there is: $G$ goes to both inputs unchanged. It is
# also where memory can go wrong in a way that no shape and no first test will tell.

# %% [markdown]
# ### Exercise 2.3 - a tensor that is used twice - 3 points, medium, 10 min
#
# Write the step of `output` $= X + Y$ for lazy nodes. All values and gradients have one
# shape.
#
# - each of `x.grad` and `y.grad` may be `None` or hold a share already; afterwards each
#   holds its share from here as well;
# - `x` and `y` may be the same node, as in `x + x`;
# - later steps will use `+=` on the gradients that you leave;
# - `output.grad` is `None` afterwards.
#
# **Budget**: at most three new arrays of this shape at any moment. (Two are plenty. One
# is possible.)

# %%
def lazy_add_backward(x, y, output) -> None:
    """Add output.grad to x.grad and to y.grad, all of one shape; discard output.grad."""
    ### BEGIN SOLUTION
    for tensor in (x, y):
        if tensor.grad is None:
            tensor.grad = np.zeros_like(tensor.value)
        tensor.grad += output.grad
    output.grad = None
    ### END SOLUTION


# %%
check("2.3", lazy_add_backward)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `a = b` makes no array. It makes a second name. What does `a += 1` do to `b` then?
# </details>
#
# <details><summary>Hint 2</summary>
#
# For `x + x`, look at `x.grad` when you come to the second input, not before the first.
# </details>

# %% [markdown]
# With both steps the engine trains residual blocks. Your gradients against torch's,
# which knows nothing of ours:

# %%
import torch


def torch_gradients(x, weights):
    x = torch.from_numpy(x)
    weights = [torch.from_numpy(w).requires_grad_() for w in weights]
    for w in weights:
        x = x + x @ w
    x.sum().backward()
    return [w.grad.numpy() for w in weights]


# %%
with needs("2.3"):
    x_small, weights_small = make_chain(4, 50, 30, tensor=ag.LazyTensor, requires_grad=True)
    z = x_small
    for w in weights_small:
        z = ag.lazy_add(z, ag.lazy_matmul(z, w, lazy_matmul_backward), lazy_add_backward)
    ag.lazy_sum(z).backward()
    theirs = torch_gradients(x_small.value, [w.value for w in weights_small])
    for w, g in zip(weights_small, theirs):
        print(f"largest difference {np.abs(w.grad - g).max():.1e} of {np.abs(g).max():.1f}")

# %% [markdown]
# ## Frozen weights: which activations need never be kept
#
# The gradients are dealt with. What fills the memory now are the activations: the
# forward pass keeps every one of them. Does every one have a reader? Look once more at
# the two lines of the step:
#
# $$\mathrm{d}X = G\,W^\top \qquad\qquad \mathrm{d}W = X^\top G .$$
#
# The activation $X$ appears in one of them only, and that line makes the gradient of
# the *weight*. Often nobody wants that: when a network is fine-tuned, most of its
# layers are frozen, and gradients only pass through. Nothing here reads $Y$ either; the
# output matters only as the next layer's input.
#
# **Predict**: a chain of eight products, $Z_1$ to $Z_8$ from the input $X = Z_0$. Only
# $W_3$ and $W_6$ are trained. Of $Z_1$ to $Z_8$, how many does the backward pass read?

# %%
predict("2.d", 2, unit="activations")

# %% [markdown]
# torch knows what it will read: every tensor that a step puts aside for its backward
# goes through a hook (`torch.autograd.graph.saved_tensors_hooks`). `saved_bytes` adds
# them up, without the weights, which are there anyway.

# %%
def saved_activations(trainable, rows=4000, width=250):
    """How many activations torch saves for the backward pass of a chain."""
    weights = [torch.randn(width, width, requires_grad=t) for t in trainable]
    x = torch.randn(rows, width)

    def forward():
        z = x
        for w in weights:
            z = z @ w
        return z

    return saved_bytes(forward, parameters=weights) / x.nbytes


measured("2.d", saved_activations([k in (3, 6) for k in range(1, 9)]))

# %% [markdown]
# Two: $Z_2$ for $W_3$ and $Z_5$ for $W_6$.
#
# The frozen weights themselves are still read: $G$ must pass through them on its way
# down. Only below the *lowest* trained weight does the backward pass have nothing left
# to do. (That is for a chain of products. A nonlinearity between them reads its own
# input or output, frozen or not.)

# %% [markdown]
# ### Exercise 2.4 - frozen weights - 4 points, hard, 20 min
#
# Now without the engine: a whole training step in plain NumPy, in which you decide what
# is kept. For $Z_k = Z_{k-1} W_k$, $Z_0$ = `x`, and the loss $L = \sum Z_n$ over all
# elements of the last one, return the gradients of the trainable weights.
#
# - `x`: (B, N_0); `weights`: a list of arrays (N_0, N_1), (N_1, N_2), ...; `trainable`:
#   a list of booleans, one for each weight;
# - return a list, one item for each weight: its gradient, or `None` if it is frozen;
# - change nothing that you are given.
#
# **Budget**, for the peak:
#
# | | how many |
# |---|---|
# | activations that the trainable weights read | one for each trainable weight |
# | beside them, arrays of an activation's size | 3.5 |
# | gradients that you return | each twice |
#
# With eight layers of which the last is trained, that is four activations and a half;
# the forward pass alone makes eight. Afterwards only the gradients may be alive.

# %%
def train_step(
    x: np.ndarray, weights: list[np.ndarray], trainable: list[bool]
) -> list[np.ndarray | None]:
    """The gradients of sum(x @ w_1 @ ... @ w_n) for the trainable weights, else None."""
    ### BEGIN SOLUTION
    kept, z = {}, x
    for k, w in enumerate(weights):
        if trainable[k]:
            kept[k] = z  # the input of layer k, which only dW_k reads
        z = z @ w
    g = np.ones_like(z)
    del z

    gradients = [None] * len(weights)
    for k in reversed(range(len(weights))):
        if k in kept:
            gradients[k] = kept.pop(k).T @ g
        if not kept:
            break  # nothing below is trained
        g = g @ weights[k].T
    return gradients
    ### END SOLUTION


# %%
check("2.4", train_step)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write it first as if all were trained: a list of activations forward, a loop backward.
# Then look which items of the list are ever read.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Rebinding a name, `z = z @ w`, lets go of the old array, unless something else refers
# to it. A dictionary from layer to activation refers only to what you put in.
# </details>
#
# <details><summary>Hint 3</summary>
#
# An array that was kept for layer $k$ is done with after $\mathrm{d}W_k$. A
# dictionary's `pop` hands it out and forgets it.
# </details>

# %% [markdown]
# What did the freezing save? Peak memory of your step with eight layers, by the number
# of layers trained, counted from the top:

# %%
def step_peak(trained, layers=8, rows=2048, width=256):
    x = rng.standard_normal((rows, width))
    weights = [rng.standard_normal((width, width)) / 16 for _ in range(layers)]
    trainable = [k >= layers - trained for k in range(layers)]
    with Trace() as trace:
        train_step(x, weights, trainable)
        return trace.snapshot().peak_bytes / x.nbytes


with needs("2.4"):
    for trained in (1, 2, 4, 8):
        print(f"{trained} of 8 trained: {step_peak(trained):.1f} activations at the peak")

# %% [markdown]
# ## The same flag in torch means more
#
# torch has a flag of the same name. In the lecture's engine it says one thing: keep a
# gradient buffer here. In torch it decides what is *recorded*. A result requires a
# gradient if any of its inputs does; a step is recorded only then; and what the step
# will read, the input or the weight, is saved only where a gradient is wanted.

# %%
a = torch.randn(64, 64)
w = torch.randn(64, 64, requires_grad=True)
z = a @ w
z.sum().backward()
print("asked for by hand:", a.requires_grad, "  follows from w:", z.requires_grad)
print("the leaf has a gradient:", w.grad is not None)
print("z is no leaf and does not retain its own:", z.retains_grad)

# %% [markdown]
# `z.retain_grad()` before the backward pass would keep it: torch's default is what you
# built in exercise 2.2. And under `torch.no_grad()` nothing is recorded at all, so
# nothing is kept for a backward pass that will not come.
#
# And what is saved follows: count it again, for other choices of what is trained.

# %%
for trainable in ([True] * 8, [False] * 7 + [True], [True] + [False] * 7, [False] * 8):
    kinds = "".join("T" if t else "." for t in trainable)
    print(f"{kinds}  saved: {saved_activations(trainable):.0f} activations")
with torch.no_grad():
    print(f"TTTTTTTT  saved: {saved_activations([True] * 8):.0f}, under no_grad")

# %% [markdown]
# torch keeps one for each trained weight and none for a frozen one: the rule of
# exercise 2.4, whichever layer it is.
#
# ## Both engines, step by step
#
# Here is a whole training step on the lecture's first engine and on the lazy one, as
# this course's solution has it: six products and a sum, and the way back. Both were
# asked at the same moments. Go to the sum, where the way back begins. Which arrays does
# the eager engine hold there that the lazy one does not, and what is in them?

# %%
names = ["eager", "lazy"]
scrub(*recorded_engines(*names), titles=names, title="One step on two engines")

# %% [markdown]
# Six gradients as large as activations, full of zeros. From here on the eager engine's
# column does not change any more; only the zeros do. The lazy engine holds one large
# array beside the activations, and in each step another gradient takes its place. Below
# it nothing moves: $Z_6$ has been read for the last time before the way back begins,
# and it is there to the end.
#
# ## What to take along
#
# A gradient of an activation is needed from the step that makes it to its own step; an
# activation, until the gradient of the weight that met it. Holding anything longer is a
# choice. On this chain the choice cost half of the forward pass. And a trace answers
# only the question that it was asked: zeros said nothing about gradients that had been
# there before it began.
#
# What remains are the activations that *are* read, one for each trained layer, and they
# wait through the whole forward pass. Lesson 03 throws them away as well, and computes
# them again.

# %% [markdown]
# ### In your own words 2.w
#
# A trace of the backward pass printed zeros, and from these zeros the lecture concluded
# that gradients are not needed after their steps. Explain in two sentences why the
# zeros do not support this, and name an experiment that does.
#
# (No check reads this one: a person does.)

# %% [markdown] written="2.w"
# The gradients had been allocated before the trace began, so it would have printed
# zeros whether they were dropped or kept: a measurement that cannot come out
# differently is no evidence. Overwriting each gradient with NaN after its step, and
# finding the weights' gradients unchanged, would have failed if anybody had still read
# them.

# %%
progress()
