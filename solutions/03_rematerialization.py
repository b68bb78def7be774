# %% [markdown]
# # 03 Rematerialization: throw it away, compute it again
#
# Lesson 02 left one kind of array in memory: activations that the backward pass reads,
# each once, a long time after they were made. In this lesson you throw those away as
# well. When their time comes, they are computed again. That costs arithmetic, so this
# lesson counts two things, bytes and matrix products.
#
# Core: five exercises, 16 points, about 105 minutes with the reading. It follows CS
# 577, lecture 12, figures L12-34 to L12-41, and CS 2281R, lecture 1, figures AD1-19 to
# AD1-25.

# %%
import numpy as np

from course_utils import ag, check, measured, needs, predict, progress
from course_utils.counting import count_matmuls, counted
from course_utils.plots import measured_on_curves, show_source
from course_utils.timeline import Timeline
from course_utils.tracing import Trace
from course_utils.widgets.checkpoints import keep_or_discard
from course_utils.widgets.memory import recorded_engines, scrub

MB = 10**6

# %% [markdown]
# ## Keep one, drop the rest
#
# The network is the lecture's: ten products in a row, and the sum of all elements at
# the end as its loss. An activation has 4,096,000 numbers, as in L12-33. Here $Y_i$ is
# the output of layer $i$, and $i$ begins with 0, as in the lecture's listing:
# $Y_0 = X W_0$, then $Y_i = Y_{i-1} W_i$ up to $Y_9$.

# %%
rng = np.random.default_rng(12)


def make_chain(rows=32000, width=128, layers=10):
    x = rng.standard_normal((rows, width))
    weights = [rng.standard_normal((width, width)) / width**0.5 for _ in range(layers)]
    return (
        ag.RematTensor(counted(x)),
        [ag.RematTensor(counted(w), requires_grad=True) for w in weights],
    )


large_x, weights = make_chain()
print(f"one activation: {large_x.value.nbytes / MB} MB")

# %% [markdown]
# (`RematTensor` and `counted` will be explained when we come to them.)
#
# Layer $i$ reads $Y_{i-1}$ to make $Y_i$. After that nobody reads $Y_{i-1}$ until the
# backward pass comes to the gradient of $W_i$. So the forward pass can drop it there
# and then. If it keeps a few outputs as **checkpoints**, the others can be computed
# again from those. This is *rematerialization*; it is also called gradient
# checkpointing, activation checkpointing or recomputation (L12-34).
#
# **Predict**: the forward pass keeps the output of layer 5, and drops every other as
# soon as the next one is made. How many MB of activations are alive after layer 9?
# (Whole MB, the rest cut off. The input $X$ is there anyway and is not counted.)

# %%
predict("3.a", 65, unit="MB")

# %%
def forward_timeline(checkpoints):
    """The forward pass in plain NumPy, and which outputs are alive after each layer."""
    y, kept = large_x.value, {}
    with Timeline() as timeline:
        for i, w in enumerate(weights):
            y = y @ w.value
            if i in checkpoints:
                kept[f"Y{i}"] = y
            timeline.mark(f"layer {i}", {**kept, f"Y{i}": y})
    return timeline


everything, one_checkpoint = forward_timeline(range(10)), forward_timeline([5])
print(*(step.current_bytes // MB for step in everything.steps), sep=", ")
print(*(step.current_bytes // MB for step in one_checkpoint.steps), sep=", ")
measured("3.a", one_checkpoint.steps[-1].current_bytes // MB)

# %% [markdown]
# Step through both. At the last step on the right two arrays are alive, and the mark for
# the peak is at three. Which is the third?

# %%
scrub(everything, one_checkpoint, titles=["all kept", "layer 5 kept"])

# %% [markdown]
# This is the lecture's plot (L12-40): 32 up to 327 MB on the left; on the right 32, and
# from layer 6 on 65, the checkpoint and the newest output. (While a layer works, its
# input is there as well: 98.) Ten times as many layers would need no more on the right,
# and ten times as much on the left.
#
# What stays open is the price. Eight of the ten are gone, and each of them will be
# asked for again.
#
# ## The price, in products
#
# On this chain all work is matrix products, and all of them have the same number of
# multiplications: forward, $Y_{i-1} W_i$; backward, $G\,W_i^\top$ and $Y_{i-1}^\top G$.
# So the price can be counted in products. A *counted* array is an ordinary one that
# reports every product that it takes part in, however that is written:

# %%
a = counted(np.ones((4, 3)))
with count_matmuls() as count:
    b = a @ a.T
    np.einsum("ij,jk->ik", b, 2.0 * a)
print(count.matmuls, "products;", type(b).__name__)

# %% [markdown]
# What is computed from counted arrays is counted, too. First the bill of a training
# step that recomputes nothing, by the lecture's engine as lesson 02 began with it. Its
# gradients will be our reference. (From here on an eighth of the batch is enough: 4,000
# rows, 4.1 MB an activation.)

# %%
x = ag.RematTensor(large_x.value[:4000])


def reference_step(x, weights):
    z, leaves = ag.Tensor(x.value), [ag.Tensor(w.value) for w in weights]
    with count_matmuls() as count:
        for w in leaves:
            z = ag.matmul(z, w)
        ag.sum(z).backward()
    return [w.grad for w in leaves], count.matmuls


right_gradients, matmuls = reference_step(x, weights)
print(f"{x.value.nbytes / MB:.1f} MB an activation, {matmuls} products")

# %% [markdown]
# Ten forward and two for each layer backward: 30, as the lecture says (L12-41).
#
# ## A value that comes and goes
#
# The lecture gives its `Tensor` one more argument (L12-35): a `rematerializer`, a
# function without arguments that returns the value again. `None` means: do not
# rematerialize, keep.

# %%
show_source(ag.RematTensor, ag.discard_value_if_has_rematerializer)

# %% [markdown]
# A value is now either an array or `None`. `None` is allowed only where there is a
# rematerializer; weights, the input and checkpoints have none, so they stay.
#
# A node's step of the backward pass reads the values of the node's *inputs*. (In lesson
# 02 you saw that a product's step does not read its own output.) So before every step,
# `backward` calls `rematerialize(node)`, and this is what the lecture asks you for
# first (task 1, L12-38).

# %% [markdown]
# ### Exercise 3.1 - give the values back - 2 points, easy, 5 min
#
# Write `rematerialize(node)`. Afterwards each tensor in `node.inputs` has a value (only
# these: how an input gets at what *it* was made from is its rematerializer's business):
#
# - where `value` is `None`, it is what the tensor's `rematerializer()` returns;
# - where there is a value, nothing is computed;
# - both inputs may be the same tensor, as in `x @ x`. It is computed once;
# - a leaf has no inputs, and nothing is to be done.
#
# It returns nothing.

# %%
def rematerialize(node) -> None:
    """Compute the values of node's inputs again, where they were discarded."""
    ### BEGIN SOLUTION
    for tensor in node.inputs:
        if tensor.value is None:
            tensor.value = tensor.rematerializer()
    ### END SOLUTION


# %%
check("3.1", rematerialize)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `if tensor.value:` asks an array whether it is true. What do you want to ask?
# </details>
#
# <details><summary>Hint 2</summary>
#
# For `x @ x`, look at `value` when you come to the second input, not before the first.
# </details>

# %% [markdown]
# ## Who discards
#
# A value is discarded by whoever has read it. Here is the sum, the last node of our
# chain. It reads its input twice: forward for the value, backward for the shape. After
# each it lets go.

# %%
show_source(ag.remat_sum)

# %% [markdown]
# You write the same for the product (task 2, L12-39). It has two inputs, and each of
# them may or may not have a rematerializer.
#
# There is one thing that a sum at the end of a chain need not think of. Discarding
# after the *first* reading is a bet that there is no other reader. In a chain the bet
# is always won. But where a tensor goes into two products, the second one finds
# nothing, and it has not done anything wrong.

# %% [markdown]
# ### Exercise 3.2 - a product that discards - 4 points, medium, 20 min
#
# Write the whole operation `remat_matmul(x, w)`, on the model of `ag.remat_sum`. `x`
# and `w` are `RematTensor`s with values of shapes (B, N) and (N, M). It returns a
# `RematTensor` with value $XW$ and inputs `(x, w)`.
#
# - If `x.value` or `w.value` is `None` when the product is called, compute it again.
# - When the product is made, discard the values of both inputs, where they have a
#   rematerializer.
# - The result's `_backward()` is the step of exercise 2.2: $G\,W^\top$ to `x.grad`,
#   $X^\top G$ to `w.grad`, each of which may be `None` or hold a share already; then
#   `output.grad = None`. At its end, discard the inputs' values again. When it is
#   called, both have values: that is what `rematerialize` is for.
# - `x` and `w` may be the same tensor.
# - Which results are kept is for the caller to say: the result gets no rematerializer
#   here.
#
# **Budget**, over a chain of six layers one of which is kept: after each product, the
# kept output and the newest; after each step, the kept output and one gradient. At no
# moment more than six arrays of an activation's size. The weights' gradients, and two
# arrays of a weight's size on the way to them, come on top.

# %%
def remat_matmul(x, w):
    """x @ w as a node. Inputs with a rematerializer lose their values when read."""
    ### BEGIN SOLUTION
    for tensor in (x, w):
        if tensor.value is None:
            tensor.value = tensor.rematerializer()
    output = ag.RematTensor(np.matmul(x.value, w.value), inputs=(x, w))

    def discard_inputs():
        for tensor in output.inputs:
            ag.discard_value_if_has_rematerializer(tensor)

    def _backward():
        for tensor in output.inputs:
            if tensor.grad is None:
                tensor.grad = np.zeros_like(tensor.value)
        x.grad += output.grad @ w.value.T
        w.grad += x.value.T @ output.grad
        output.grad = None
        discard_inputs()

    output._backward = _backward
    discard_inputs()
    return output
    ### END SOLUTION


# %%
check("3.2", remat_matmul)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write it without discarding first: the product, its step, `output._backward = ...`.
# Then ask at which two places both inputs have been read.
# </details>
#
# <details><summary>Hint 2</summary>
#
# The two lines of the step both read values. Nothing may be discarded between them.
# </details>
#
# <details><summary>Hint 3</summary>
#
# A local variable of `remat_matmul` that `_backward` uses lives as long as the node
# does. Read `x.value` in the step, do not remember it.
# </details>

# %% [markdown]
# ## The lecture's listing
#
# The engine is complete. What is left to say is how each value is computed again.
# Before that the price, by hand. Layer 5 is the only checkpoint. The backward pass
# walks from the loss to layer 0. Whenever it needs an output that is not there, that
# one is computed again, alone, from the nearest array before it that was kept: $Y_5$ or
# $X$. The sum at the end asks for its input, too.
#
# **Predict**: how many products does the whole training step take, where nothing
# recomputed took 30?

# %%
predict("3.b", 55, unit="products")

# %% [markdown]
# How each of them is computed again, the lecture says in a listing (L12-36, L12-37).
# Here it is as printed, without its tracing; checkpoints and `matmul` are handed in,
# and the nodes are returned.

# %%
def forward_as_printed(x, weights, checkpoints, matmul):
    nodes = []
    farthest_checkpoint, x_at_farthest_checkpoint = 0, x  # this is the input data
    for i, w in enumerate(weights):
        if i in checkpoints:
            x = matmul(x, w)
            farthest_checkpoint = i
            x_at_farthest_checkpoint = x
        else:

            def _rematerializer():
                xval = x_at_farthest_checkpoint.value
                for w in weights[farthest_checkpoint : (i + 1)]:
                    xval = np.matmul(xval, w.value)
                return xval

            x = matmul(x, w)
            x.rematerializer = _rematerializer
        nodes.append(x)
    return nodes

# %% [markdown]
# A training step with it, by your product and your `rematerialize`:

# %%
def training_step(forward, x, weights):
    """Products, bytes held after the forward pass, peak bytes of the whole step."""
    x.grad = None
    for w in weights:
        w.grad = np.zeros_like(w.value)
    with Trace() as trace, count_matmuls() as count:
        nodes = forward(x, weights, [5], remat_matmul)
        loss = ag.remat_sum(nodes[-1])
        held_bytes = trace.snapshot().current_bytes
        loss.backward(rematerialize)
        peak_bytes = trace.snapshot().peak_bytes
    return count.matmuls, held_bytes, peak_bytes


with needs("3.2"):
    matmuls, held_bytes, peak_bytes = training_step(forward_as_printed, x, weights)
    print(f"{matmuls} products; {held_bytes / MB:.1f} MB held after the forward pass")

# %% [markdown]
# 75 products, and the lecture says: 75 with rematerialization, 30 without (L12-41). The
# one checkpoint is all that the forward pass holds. No error, no warning.
#
# Perhaps 75 is not what you found. Leave your prediction as it is for now.
#
# There is one thing that nobody has looked at yet. How far are the gradients from the
# reference?

# %%
def gradient_errors(weights):
    """|gradient - right| / |right| of each weight, as Frobenius norms."""
    return [
        float(np.linalg.norm(w.grad - right) / np.linalg.norm(right))
        for w, right in zip(weights, right_gradients)
    ]


with needs("3.2"):
    training_step(forward_as_printed, x, weights)
    for i, error in enumerate(gradient_errors(weights)):
        print(f"weight {i}: off by {error:.0%}")

# %% [markdown]
# This is not rounding. Eight of the ten gradients have nothing to do with the right
# ones, and a network trained by them would just learn badly, for no reason that anyone
# can see.
#
# Now be a detective. Is it your engine? It passed its checks. And two gradients are
# right, those of weights 0 and 6. A gradient $Y_{i-1}^\top G$ is made from a value and
# a gradient. The values that weights 0 and 6 met are $X$ and $Y_5$: the two that were
# never thrown away. So the $G$s are fine, and what is wrong are the values that came
# back.
#
# What did come back? Use a trick: let every layer be a single number, and let these
# numbers be primes. A product of primes says which factors are in it.

# %%
primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]


def weights_inside(node):
    """The layers whose weights are in a node's value, as it comes back."""
    value = node.rematerializer() if node.rematerializer else node.value
    number = int(value[0, 0])
    # a layer is named twice if p**2 divides: then its weight was multiplied twice
    powers = [(i, power) for i, p in enumerate(primes) for power in (p, p**2)]
    return [i for i, power in powers if number % power == 0]


with needs("3.2"):
    scalars = [ag.RematTensor(np.full((1, 1), float(p))) for p in primes]
    one = ag.RematTensor(np.ones((1, 1)))
    nodes = forward_as_printed(one, scalars, [5], remat_matmul)
    for i, node in enumerate(nodes):
        print(f"Y{i} should have {list(range(i + 1))}, has {weights_inside(node)}")

# %% [markdown]
# Only the checkpoint is right. Two clues: the other nine are all *the same*, whatever
# layer they belong to. And they have weight 5 *twice*.
#
# The first clue is Python's. A function that is defined in a loop does not copy the
# loop's variables. It looks them up when it is *called*:

# %%
functions = []
for number in (1, 2, 3):
    functions.append(lambda: number)
print([function() for function in functions])

# %% [markdown]
# This is called **late binding**. `_rematerializer` is called in the backward pass,
# when the loop is long over: then `i` is 9, `farthest_checkpoint` is 5, and
# `x_at_farthest_checkpoint` is $Y_5$, for all nine of them. So each costs five
# products. (A linter would have told: ruff's rule B023.)
#
# Why did nothing complain? All ten layers have one width, so every output fits wherever
# another one was expected, as did every order of the factors in lesson 02. Give the
# layers different widths:

# %%
with needs("3.2"):
    widths = [6, 5, 7, 4, 8, 3, 9, 10, 2, 12, 11]
    others = [ag.RematTensor(np.ones(shape)) for shape in zip(widths, widths[1:])]
    two_rows = ag.RematTensor(np.ones((2, 6)))
    nodes = forward_as_printed(two_rows, others, [5], remat_matmul)
    try:
        ag.remat_sum(nodes[-1]).backward(rematerialize)
    except ValueError as error:
        print("ValueError:", error)

# %% [markdown]
# An error at the first call. Test with sizes that all differ.
#
# And the 75, which agreed so well? Nine closures, five products each. But it is also
# what it costs to go back to the input every time, as if there were no checkpoint:

# %%
print("as printed:         ", 30 + 9 * 5)
print("without checkpoints:", 30 + sum(range(1, 10)))

# %% [markdown]
# A number that agrees is a good sign only if a wrong program would give another one.
#
# The second clue, weight 5, is yours.

# %% [markdown]
# ### Exercise 3.3 - the listing, mended - 3 points, medium, 15 min
#
# Write the forward pass again, with rematerializers that give back what was discarded.
#
# - `x`: the input, a `RematTensor`; `weights`: a list of them; `checkpoints`: a list of
#   layer numbers, perhaps empty, perhaps with 0 in it; `matmul(x, w)` makes the product
#   of two nodes, and discards as yours does;
# - return a list with the outputs of all layers, in order;
# - the outputs of the layers in `checkpoints` have no rematerializer, all others have
#   one. It returns that layer's output, computed from the nearest checkpoint before it,
#   or from `x` where there is none, with no more work than these products take. As in
#   the listing it multiplies values, and makes no nodes: nobody goes backward through
#   them.
#
# **Budget**: in the forward pass the checkpoints and four more, after it (and the loss)
# only the checkpoints. In the backward pass no value that came back outlives its last
# reader.

# %%
def forward_mended(x, weights, checkpoints, matmul) -> list:
    """The outputs of all layers; all but the checkpoints can be computed again."""
    ### BEGIN SOLUTION
    def rematerializer_from(start, segment):
        def rematerializer():
            value = start.value
            for w in segment:
                value = np.matmul(value, w.value)
            return value

        return rematerializer

    nodes, start, first = [], x, 0
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, first = x, i + 1
        else:
            x.rematerializer = rematerializer_from(start, weights[first : i + 1])
    return nodes
    ### END SOLUTION


# %%
check("3.3", forward_mended)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Of which layer is a checkpoint the output? Has its weight been applied already?
# </details>
#
# <details><summary>Hint 2</summary>
#
# In the listing `farthest_checkpoint = 0` means the input, and it also means layer 0.
# It cannot mean both.
# </details>
#
# <details><summary>Hint 3</summary>
#
# Two ways to bind early: a default argument, `def f(i=i)`, is evaluated when the
# function is defined. So are the arguments of a function that makes the function for
# you.
# </details>

# %% [markdown]
# Your version, on the same chain:

# %%
with needs("3.3"):
    matmuls, held_bytes, peak_bytes = training_step(forward_mended, x, weights)
    print(f"largest gradient error: {max(gradient_errors(weights)):.0e}")
    print(f"{held_bytes / MB:.1f} MB held after the forward pass")
    measured("3.b", matmuls)

# %% [markdown]
# 55, not 75. If that was your prediction, you were right against the book. (If you see
# 39, your rematerializers leave behind what they pass on their way. That is right, too,
# and what Exercise 3.4 will ask for. The 55 are for outputs brought back one by one.)
#
# Where they come from: on the way down from the loss, $Y_9$ takes four products from
# $Y_5$, then $Y_8$ three, $Y_7$ two, $Y_6$ one. Then $Y_4$ takes five from $X$, and so
# on down to $Y_0$ with one. That is 10 and 15 on top of the 30. Four of them, for
# $Y_9$, were made only because the step of the sum wants to know a *shape*. An engine
# that kept the shape instead would need 51.

# %% [markdown]
# ## A segment at a time
#
# A segment of $b$ discarded outputs costs $b + (b-1) + \dots + 1 = b(b+1)/2$ products,
# because every one of them starts at the checkpoint again, and on its way passes all
# the others. $Y_9$ is made from $Y_8$, which is asked for next, and was thrown away a
# moment ago.
#
# So let whoever is asked first leave behind what it passes: the intermediate values go
# into their nodes, and wait there for their steps.
#
# **Predict**: with layer 5 as the only checkpoint, how many products does the training
# step take now?

# %%
predict("3.c", 39, unit="products")

# %% [markdown]
# ### Exercise 3.4 - a segment at a time - 3 points, medium, 10 min
#
# The same specification as in 3.3, but for what a rematerializer does on its way: it
# leaves the value of every output that it computes in that output's node. (A value that
# a step reads is discarded by that step, so the engine cleans up behind you.)
#
# - In a training step, each discarded output is computed again exactly once.
# - A rematerializer still returns its own layer's output, whoever is asked first.
#
# **Budget**: forward as in 3.3. In the backward pass, at most the checkpoints, the
# longest segment, and four arrays of an activation's size. After it, only the
# checkpoints, and gradients.

# %%
def forward_in_segments(x, weights, checkpoints, matmul) -> list:
    """The outputs of all layers; what is computed again leaves its segment behind."""
    ### BEGIN SOLUTION
    def rematerializer_of(start, segment):
        def rematerializer():
            value = start.value
            for node, w in segment:
                value = node.value = np.matmul(value, w.value)
            return value

        return rematerializer

    nodes, start, segment = [], x, []
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, segment = x, []
        else:
            segment = [*segment, (x, w)]  # a new list: those before keep theirs
            x.rematerializer = rematerializer_of(start, segment)
    return nodes
    ### END SOLUTION


# %%
check("3.4", forward_in_segments)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin with your answer to 3.3. A rematerializer needs the nodes of its segment as well
# as the weights.
# </details>
#
# <details><summary>Hint 2</summary>
#
# If a list of the segment's nodes grows while the loop goes on, then all who refer to
# that list see it grow.
# </details>

# %%
def keep_everything(x, weights, checkpoints, matmul):
    nodes = []
    for w in weights:
        nodes.append(x := matmul(x, w))
    return nodes


with needs("3.4"):
    print("                     products   forward MB   peak MB")
    for forward in (keep_everything, forward_mended, forward_in_segments):
        matmuls, held_bytes, peak_bytes = training_step(forward, x, weights)
        print(f"{forward.__name__:<20}{matmuls:9}", end="")
        print(f"{held_bytes / MB:13.1f}{peak_bytes / MB:10.1f}")
    measured("3.c", matmuls)

# %% [markdown]
# The nine discarded outputs, once each: 39. (With the shape kept for the sum, 38: then
# $Y_9$ need not come back.) The forward pass holds the same single checkpoint. What is
# new is the peak of the *backward* pass, where a whole segment is there at once. Look
# at both. A gradient has the colour of its value, and dots. Each step shows the moment
# when its values have come back, before its own work; the frame on top (hatched, in the
# figure) is what it took on the way, the step before included.

# %%
def backward_timeline(forward):
    with Timeline(before={"x": x.value, "w": [w.grad for w in weights]}) as timeline:
        nodes = forward(x, weights, [5], remat_matmul)
        loss = ag.remat_sum(nodes[-1])
        loss.grad = np.array(1.0)

        def arrays():
            values = {f"Y{i}": y.value for i, y in enumerate(nodes)}
            grads = {f"dY{i}": y.grad for i, y in enumerate(nodes)}
            return values | grads | {"dL": loss.grad}

        timeline.note("forward", arrays())  # whoever made them stands in the table
        labels = ["sum", *(f"layer {i}" for i in range(9, -1, -1))]
        for label, node in zip(labels, [loss, *nodes[::-1]]):
            rematerialize(node)
            timeline.mark(label, arrays())
            node._backward()
            timeline.note(label, arrays())
    return timeline


# %%
with needs("3.4"):
    x.grad = None
    alone = backward_timeline(forward_mended)
    together = backward_timeline(forward_in_segments)
    titles = ["each by itself: 55", "a segment at a time: 39"]
    scrub(alone, together, titles=titles, moment="before")

# %% [markdown]
# On the right a segment comes back at once, and is used up from its end. The first step
# is the price: four outputs and the checkpoint. That of layer 5 has five, and then
# the pass runs down to the input without computing anything again.
#
# And $Y_5$ stays to the very end. After the step of layer 6 nobody will read it, but it
# has no rematerializer, so nobody lets it go. Remember that for later.
#
# On the left only one output is there at a time, at the price of 16 products more. Both
# are honest bargains, and there are others between. The second is the one that the
# world uses: `torch.utils.checkpoint` recomputes whole segments, once.
#
# Now choose for yourself: eight equal layers, and the model that lesson 04 will spell
# out. Activations and gradients count, weights do not, and $z_8$ goes when the loss has
# read it. First discard all seven. Before you look: what is the peak then, a segment at
# a time? And which of the seven saves nothing when it alone is discarded?

# %%
keep_or_discard("equal")

# %% [markdown]
# With nothing kept the whole chain comes back at once, and the peak is where it was
# when everything was kept. Checkpoints help because they *divide*. And $z_7$ saves
# nothing: it is the first thing that the way back reads, so it goes and comes back at
# once. Discard something else, and you pay one layer for one activation.
#
# Each by itself, nothing kept has the lowest peak of all, at the highest price. The
# stairs say that this peak can be had for less. Can you find how?
#
# <details><summary>How</summary>
#
# Keep $z_7$ alone: 21 stages again in place of 28, and the same 12.3 MB. It is read at
# once and gone before the way back is at its highest, and to bring it back would have
# taken all seven.
# </details>

# %% [markdown]
# ## The other notes: checkpointed reverse mode
#
# The second lecture that we follow comes to the same idea from a network of $L$ layers
# of width $d$ (AD1-19). Its batch is a matrix of $m$ *columns*, so a layer is
# $X \leftarrow \sigma(W X)$. Reverse mode stores every layer's output, $L\,d\,m$
# numbers (AD1-22). Forward alone a layer can overwrite its input: columns do not mix,
# so they are done one after the other. What does it need beside its input?

# %%
L, d, m = 24, 1024, 256
W, X = rng.standard_normal((d, d)) / d**0.5, rng.standard_normal((d, m))
with Trace() as trace:
    for column in range(m):
        X[:, column] = np.tanh(W @ X[:, column])
    peak_bytes = trace.snapshot().peak_bytes
print(f"forward: {peak_bytes / 1000:.1f} kB; reverse mode: {8 * L * d * m / MB:.1f} MB")
print(f"d numbers: {8 * d / 1000:.1f} kB, m numbers: {8 * m / 1000:.1f} kB")

# %% [markdown]
# Two columns, the product and its $\sigma$. So it is about $d$ numbers; "about 0, or
# $m$" is what the slide has (AD1-21). Another $d$ is lost in its sum of parameters and
# input: $L d^2 + d + (d+1)m$ on one slide, with a last vector of $d$ numbers, and
# $L d^2 + (d+1)m$ on the next (AD1-20). Nobody will miss 8.2 kB. The gap between the
# two numbers of the first line is what matters, and it is what checkpoints close.
#
# The notes' algorithm needs no engine (AD1-23). A chain of $T$ stages makes $z_t$ from
# $z_{t-1}$. Choose checkpoints $\tau_1 < \dots < \tau_k$.
#
# 1. Forward, and store only $z_{\tau_1}, \dots, z_{\tau_k}$. Set $\tau_{k+1} = T$.
# 2. For $i = k, \dots, 1$: go forward again from $z_{\tau_i}$, now storing the whole
# block up to $\tau_{i+1}$; then backward through it.
# 3. Return $\mathrm{d}z_T/\mathrm{d}z_0$.
#
# **Predict**: $T = 8$ and $\tau = 3, 6$. If you do exactly what it says, how many of
# the eight stages take their backward step?

# %%
predict("3.d", 5, unit="stages")

# %%
T, tau = 8, {1: 3, 2: 6, 3: 8}  # tau_3 is T
steps = []
for i in (2, 1):
    block = range(tau[i] + 1, tau[i + 1] + 1)  # the stages between two checkpoints
    print(f"i = {i}: backward through the stages {list(block)[::-1]}")
    steps += block
measured("3.d", len(steps))

# %% [markdown]
# Stages 1 to 3 lie before the first checkpoint, and no block reaches them (AD1-24).
# What the loop arrives at is the derivative for $z_3$. It is an easy slip: the input is
# a checkpoint, too, one that nobody has to store. Call it $\tau_0 = 0$, let $i$ run
# down to 0, and all is well.

# %% [markdown]
# ### Exercise 3.5 - checkpointed reverse mode - 4 points, medium, 20 min
#
# For $z_t = f_t(z_{t-1})$, $t = 1, \dots, T$, and $L = \sum z_T$ over all elements,
# return $\mathrm{d}L/\mathrm{d}z_0$.
#
# - `z0`: an array; `stages`: a list of $T$ objects, the first is $f_1$:
#   `stage.forward(z)` returns a new array, `stage.backward(z, g)` takes the state that
#   went *in* and $\mathrm{d}L/\mathrm{d}z_t$, and returns
#   $\mathrm{d}L/\mathrm{d}z_{t-1}$. (It also collects the gradients of its own
#   parameters, so it is called once a stage.)
# - `checkpoints`: an increasing list of numbers from 1 to $T$, perhaps empty, perhaps
#   with $T$ itself in it: the $t$ whose $z_t$ are stored in the forward pass;
# - all states have one shape (any), and gradients have it, too. Change nothing that you
#   are given.
#
# **Budget**: `forward` is called at most $2T$ times. At the peak there are as many
# arrays of a state's size as checkpoints and stages in the longest block, and four
# more.

# %%
def checkpointed_reverse(
    z0: np.ndarray, stages: list, checkpoints: list[int]
) -> np.ndarray:
    """dL/dz_0 of L = sum(z_T), with only the checkpoints stored in the forward pass."""
    ### BEGIN SOLUTION
    stored, z = {0: z0}, z0
    for t, stage in enumerate(stages, start=1):
        z = stage.forward(z)
        if t in checkpoints:
            stored[t] = z
    g = np.ones_like(z)
    del z

    end = len(stages)
    for start in sorted(stored, reverse=True):
        states = [stored.pop(start)]
        for stage in stages[start : end - 1]:
            states.append(stage.forward(states[-1]))
        for stage in reversed(stages[start:end]):
            g = stage.backward(states.pop(), g)
        end = start
    return g
    ### END SOLUTION


# %%
check("3.5", checkpointed_reverse)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write one block first: a list of states, forward from its start; then backward, from
# the list's end. A block of $b$ stages reads $b$ states, and the first is the
# checkpoint.
# </details>
#
# <details><summary>Hint 2</summary>
#
# The blocks are the pairs of neighbours in $0, \tau_1, \dots, \tau_k, T$.
# </details>
#
# <details><summary>Hint 3</summary>
#
# `states.pop()` hands the last state out and forgets it. What is still in the list, or
# under the name `z`, when the next block begins?
# </details>

# %% [markdown]
# ## How many checkpoints
#
# Take $T$ stages and blocks of $b$. There are about $T/b$ checkpoints, stored all the
# time, and one block of $b$ states while it is worked on:
#
# $$\text{peak}(b) \approx \frac{T}{b} + b .$$
#
# Short blocks mean many checkpoints, long blocks are long. In between there is a best
# length.
#
# **Predict**: for $T = 400$, which block length has the lowest peak?

# %%
predict("3.e", 20, unit="stages")

# %% [markdown]
# Chains of 400 stages are rare among networks, but not where a stage is a step of time:
# a recurrent network that reads 400 tokens, or a simulation, such as this one of 32,768
# numbers that each creep towards zero, $z_t = z_{t-1} - 0.1\,z_{t-1}^3$.

# %%
class TimeStep:
    calls = 0

    def forward(self, z):
        TimeStep.calls += 1
        result = z * z
        result *= -0.1
        result += 1
        result *= z
        return result

    def backward(self, z, g):
        result = z * z
        result *= -0.3
        result += 1
        result *= g
        return result

# %% [markdown]
# Now your function, with blocks of equal length:

# %%
def peak_and_calls(T, checkpoints):
    """Peak in arrays of a state's size, and calls of `forward`."""
    z0 = rng.uniform(-1, 1, 32768)
    TimeStep.calls = 0
    with Trace() as trace:
        checkpointed_reverse(z0, [TimeStep()] * T, list(checkpoints))
        return trace.snapshot().peak_bytes / z0.nbytes, TimeStep.calls


def peaks(T):
    return [peak_and_calls(T, range(b, T, b))[0] for b in lengths]


with needs("3.5"):
    lengths = [2, 5, 10, 20, 25, 50, 100]
    for T in (100, 400):
        print(f"T = {T}:", *(f"{peak:6.1f}" for peak in peaks(T)))
        print("T/b + b:", *(f"{T / b + b:6.1f}" for b in lengths))
    measured("3.e", lengths[np.argmin(peaks(400))])

# %%
with needs("3.5"):
    measured_on_curves(
        lengths,
        {f"T = {T}": peaks(T) for T in (100, 400)},
        {f"T = {T}": lambda b, T=T: T / b + b for T in (100, 400)},
        xlabel="stages in a block",
        ylabel="peak (states)",
        title="Peak of checkpointed reverse mode, on logarithmic axes",
    )

# %% [markdown]
# Since $\frac{T}{b} + b = 2\sqrt{T} + \big(\sqrt{T/b} - \sqrt{b}\big)^2$, the peak is
# never below $2\sqrt T$, and reaches it where the square is zero: $b = \sqrt T$.
#
# The formula leaves out small things in both directions, and for the answer in this
# course's solution they cancel to the last array: $T/b - 1$ checkpoints, $b - 1$ states
# of a block beside the one that it starts from, two gradients. (Another style may have
# one or two more.) With blocks of 10 and 20, the peaks are 20 and 40: twice the root,
# where storing everything takes 100 and 400 (AD1-23). Around its lowest point each
# curve is flat: a block twice as long as the best, or half as long, costs a quarter
# more.
#
# And the price? In the course's solution each block is computed again but for its last
# state, which nobody reads. So the overhead is below one forward pass, as the notes say
# (AD1-25). If yours computes that one, too, it is a whole pass.

# %%
with needs("3.5"):
    for T, b in ((100, 10), (400, 20), (100, 8), (400, 17)):
        peak, calls = peak_and_calls(T, range(b, T, b))
        print(f"T = {T}, blocks of {b:2}: peak {peak:.0f},", end=" ")
        print(f"{calls} steps forward, at most {2 * T}")

# %% [markdown]
# Blocks of 8 and of 17 are the shortest that reach the same peak in the course's
# solution. There are more of them, so more last states are left out.
#
# Memory for the root of the depth, for at most one forward pass: that is why
# checkpointing is a switch in every library.
#
# Is $2\sqrt T$ the best? Not even with blocks, if they need not be equal. The block at
# the end is worked on while all checkpoints are there. When the pass arrives at the
# front, nearly all have been let go, and a longer block would fit. So let the blocks
# shrink, by one each time:

# %%
with needs("3.5"):
    for b in (14, 28):
        T = b * (b + 1) // 2  # blocks of b, b - 1, ..., 2, 1
        shrinking = np.cumsum(range(b, 1, -1))
        peak, calls = peak_and_calls(T, shrinking.tolist())
        print(f"T = {T}: peak {peak:.1f}, {calls} steps of {2 * T};", end=" ")
        print(f"2 sqrt(T) = {2 * T**0.5:.1f}, sqrt(2 T) = {(2 * T) ** 0.5:.1f}")

# %% [markdown]
# (If yours shows no gain: does it let go of a checkpoint when its block is done?) About
# $\sqrt{2T}$, at the same price. So the rule of the square root is a good rule, and not
# the optimum.
#
# ## Three engines, step by step
#
# The two engines of lesson 02, and yours of this one, as the course's solution has it,
# over one training step: six products, a sum, and the way back. Of the third one's
# outputs $Z_3$ alone is kept, and segments come back at once. Here each step is shown
# after its work. Go along the way back: at which two steps do values come back?

# %%
names = ["eager", "lazy", "rematerialized"]
scrub(*recorded_engines(*names), titles=names, title="One step on three engines")

# %% [markdown]
# At the step of $L$, which asks for $Z_6$ and so for its whole segment ($Z_6$ itself
# has come and gone within the step), and at the step of $Z_3$, which reads $Z_2$. The
# third engine's peak is below half of the first one's, and where the way back begins,
# the first one holds twelve arrays of this size, the third one holds one.
#
# ## What to take along
#
# An activation need not wait for its reader. What it costs to throw it away can be
# counted in products: 30 without, 55 if each is brought back alone, 39 if whole
# segments are. What it saves can be counted in bytes. Neither count says that the
# *gradients* are right; only comparing them does, with sizes that all differ.
#
# The lecture ends with two questions. How does one choose the checkpoints best, if
# layers differ in size and in cost? And what if the graph is no chain? Lesson 04
# answers both.

# %% [markdown]
# ### In your own words 3.w
#
# Bringing every dropped activation back on its own takes 55 products in the lecture's
# network, a segment at a time takes 39. Explain in two sentences where the 16 products
# went, and what is paid for them.
#
# (No check reads this one: a person does.)

# %% [markdown] written="3.w"
# Alone, each activation is computed again from the last checkpoint, so the first layers
# of a segment are computed once for every later layer; a segment at a time computes
# each of them once and keeps it until its step is done. The price is memory in the
# backward pass: a whole segment's activations are alive together with the checkpoints.

# %%
progress()
