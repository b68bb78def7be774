"""Answers to lesson 02."""

import numpy as np

from tests.answers import right, wrong

# --- 2.1 the backward of a matmul ------------------------------------------------------------------


@right("2.1")
def with_matmul_function(x, w, output):
    x.grad += np.matmul(output.grad, w.value.T)
    w.grad += np.matmul(x.value.T, output.grad)


@right("2.1")
def new_arrays(x, w, output):
    x.grad = x.grad + output.grad.dot(w.value.transpose())
    w.grad = w.grad + x.value.transpose().dot(output.grad)


@right("2.1")
def by_einsum(x, w, output):
    x.grad[...] += np.einsum("bm,nm->bn", output.grad, w.value)
    w.grad[...] += np.einsum("bn,bm->nm", x.value, output.grad)


@right("2.1")
def by_loops(x, w, output):
    for row in range(x.value.shape[0]):
        x.grad[row] += w.value @ output.grad[row]
        w.grad += np.outer(x.value[row], output.grad[row])


@wrong("2.1", cause="overwrote a gradient")
def overwrites(x, w, output):
    x.grad = output.grad @ w.value.T
    w.grad = x.value.T @ output.grad


@wrong("2.1", cause="overwrote a gradient")
def overwrites_the_weights_only(x, w, output):
    x.grad += output.grad @ w.value.T
    w.grad = x.value.T @ output.grad


@wrong("2.1", cause="not transposed")
def forgets_the_transposes(x, w, output):
    x.grad += output.grad @ w.value
    w.grad += x.value @ output.grad


@wrong("2.1", cause="factors swapped")
def swaps_the_factors(x, w, output):
    x.grad += w.value.T @ output.grad
    w.grad += output.grad @ x.value.T


@wrong("2.1", cause="factors swapped")
def swaps_the_weights_factors(x, w, output):
    x.grad += output.grad @ w.value.T
    w.grad += output.grad @ x.value.T


@wrong("2.1", cause="returned instead of added")
def returns_them(x, w, output):
    return output.grad @ w.value.T, x.value.T @ output.grad


@wrong("2.1", cause="nothing added")
def adds_to_local_names(x, w, output):
    x_grad = x.grad.copy()
    w_grad = w.grad.copy()
    x_grad += output.grad @ w.value.T
    w_grad += x.value.T @ output.grad


@wrong("2.1", cause="changed its input")
def writes_into_the_value(x, w, output):
    x.value += output.grad @ w.value.T
    w.value += x.value.T @ output.grad


@wrong("2.1", cause="raised an error")
def right_on_squares_by_luck(x, w, output):
    x.grad += (w.value @ output.grad.T).T
    w.grad += (
        (output.grad @ x.value).T
        if w.value.shape[0] != w.value.shape[1]
        else x.value.T @ output.grad
    )


@wrong("2.1", cause="wrong values")
def multiplies_elementwise_ones(x, w, output):
    ones = np.ones_like(output.grad)
    x.grad += ones @ w.value.T
    w.grad += x.value.T @ ones


@wrong("2.1", cause="changed its output's gradient")
def discards_already(x, w, output):
    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad
    output.grad = None


# --- 2.2 gradients made late, discarded early ------------------------------------------------------


@right("2.2")
def zeros_then_add(x, w, output):
    if x.grad is None:
        x.grad = np.zeros_like(x.value)
    if w.grad is None:
        w.grad = np.zeros_like(w.value)
    x.grad += np.matmul(output.grad, w.value.T)
    w.grad += np.matmul(x.value.T, output.grad)
    output.grad = None


@right("2.2")
def assign_the_product(x, w, output):
    dx = output.grad @ w.value.T
    x.grad = dx if x.grad is None else x.grad + dx
    dw = x.value.T @ output.grad
    w.grad = dw if w.grad is None else w.grad + dw
    output.grad = None


@right("2.2")
def weights_first_and_out(x, w, output):
    dw = x.value.T @ output.grad
    if w.grad is None:
        w.grad = dw
    else:
        w.grad += dw
    if x.grad is None:
        x.grad = np.empty_like(x.value)
        np.matmul(output.grad, w.value.T, out=x.grad)
    else:
        x.grad += output.grad @ w.value.T
    output.grad = None


@right("2.2")
def a_helper_for_both(x, w, output):
    def add(tensor, gradient):
        if tensor.grad is None:
            tensor.grad = np.zeros(tensor.value.shape)
        tensor.grad = tensor.grad + gradient

    add(x, output.grad @ w.value.T)
    add(w, x.value.T @ output.grad)
    output.grad = None


@right("2.2")
def takes_the_gradient_out_first(x, w, output):
    g, output.grad = output.grad, None
    if x.grad is None:
        x.grad = 0.0
    if w.grad is None:
        w.grad = 0.0
    x.grad = x.grad + g @ w.value.T
    w.grad = w.grad + x.value.T @ g


@right("2.2")
def deletes_row_blocks(x, w, output):
    if x.grad is None:
        x.grad = np.zeros_like(x.value)
    if w.grad is None:
        w.grad = np.zeros_like(w.value)
    for start in range(0, len(output.grad), 256):
        rows = slice(start, start + 256)
        x.grad[rows] += output.grad[rows] @ w.value.T
        w.grad += x.value[rows].T @ output.grad[rows]
    output.grad = None


@wrong("2.2", cause="not discarded")
def forgets_to_discard(x, w, output):
    if x.grad is None:
        x.grad = np.zeros_like(x.value)
    if w.grad is None:
        w.grad = np.zeros_like(w.value)
    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad


@wrong("2.2", cause="not discarded")
def discards_a_local_name(x, w, output):
    g = output.grad
    x.grad = g @ w.value.T if x.grad is None else x.grad + g @ w.value.T
    w.grad = x.value.T @ g if w.grad is None else w.grad + x.value.T @ g
    g = None


@wrong("2.2", cause="not discarded")
def fills_with_zeros_instead(x, w, output):
    x.grad = output.grad @ w.value.T if x.grad is None else x.grad + output.grad @ w.value.T
    w.grad = x.value.T @ output.grad if w.grad is None else w.grad + x.value.T @ output.grad
    output.grad[...] = 0


@wrong("2.2", cause="raised an error")
def discards_too_early(x, w, output):
    x.grad = output.grad @ w.value.T if x.grad is None else x.grad + output.grad @ w.value.T
    output.grad = None
    w.grad += x.value.T @ output.grad


@wrong("2.2", cause="raised an error")
def makes_nothing(x, w, output):
    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad
    output.grad = None


@wrong("2.2", cause="overwrote a gradient")
def always_makes_it_anew(x, w, output):
    x.grad = np.zeros_like(x.value)
    w.grad = np.zeros_like(w.value)
    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad
    output.grad = None


@wrong("2.2", cause="overwrote a gradient")
def overwrites_the_activation(x, w, output):
    if w.grad is None:
        w.grad = np.zeros_like(w.value)
    x.grad = output.grad @ w.value.T
    w.grad += x.value.T @ output.grad
    output.grad = None


@wrong("2.2", cause="gradient missing")
def discards_the_inputs_instead(x, w, output):
    if x.grad is None:
        x.grad = np.zeros_like(x.value)
    if w.grad is None:
        w.grad = np.zeros_like(w.value)
    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad
    x.grad = None


_history = []


@wrong("2.2", cause="held too long")
def keeps_a_history(x, w, output):
    g = output.grad
    _history.append(g)
    x.grad = g @ w.value.T if x.grad is None else x.grad + g @ w.value.T
    w.grad = x.value.T @ g if w.grad is None else w.grad + x.value.T @ g
    output.grad = None


@wrong("2.2", cause="held too long")
def hides_it_under_another_name(x, w, output):
    x.grad = output.grad @ w.value.T if x.grad is None else x.grad + output.grad @ w.value.T
    w.grad = x.value.T @ output.grad if w.grad is None else w.grad + x.value.T @ output.grad
    output.old_grad, output.grad = output.grad, None


@wrong("2.2", cause="not transposed")
def lazy_without_transposes(x, w, output):
    x.grad = output.grad @ w.value if x.grad is None else x.grad + output.grad @ w.value
    w.grad = x.value @ output.grad if w.grad is None else w.grad + x.value @ output.grad
    output.grad = None


@wrong("2.2", cause="too many temporaries")
def copies_everything(x, w, output):
    g, x_value = output.grad.copy(), x.value.copy()
    again = g.copy()
    dx = again @ w.value.copy().T
    x.grad = dx.copy() if x.grad is None else x.grad + dx
    dw = x_value.T @ g
    w.grad = dw if w.grad is None else w.grad + dw
    output.grad = None


@wrong("2.2", cause="memory out of sight")
def through_torch(x, w, output):
    import torch

    g = torch.from_numpy(output.grad)
    dx = (g @ torch.from_numpy(w.value).T).numpy()
    dw = (torch.from_numpy(x.value).T @ g).numpy()
    x.grad = dx if x.grad is None else x.grad + dx
    w.grad = dw if w.grad is None else w.grad + dw
    output.grad = None


# --- 2.3 a tensor that is used twice ---------------------------------------------------------------


@right("2.3")
def zeros_for_both(x, y, output):
    for tensor in (x, y):
        if tensor.grad is None:
            tensor.grad = np.zeros_like(tensor.value)
        tensor.grad += output.grad
    output.grad = None


@right("2.3")
def copies_or_adds(x, y, output):
    for tensor in (x, y):
        tensor.grad = output.grad.copy() if tensor.grad is None else tensor.grad + output.grad
    output.grad = None


@right("2.3")
def hands_its_own_array_on(x, y, output):
    g, output.grad = output.grad, None
    if x.grad is None:
        x.grad = g.copy()
    else:
        x.grad += g
    if y.grad is None:
        y.grad = g
    else:
        y.grad += g


@right("2.3")
def one_after_the_other(x, y, output):
    if x.grad is None:
        x.grad = 1.0 * output.grad
    else:
        x.grad += output.grad
    if y.grad is None:
        y.grad = 1.0 * output.grad
    else:
        y.grad += output.grad
    output.grad = None


@wrong("2.3", cause="one buffer for two gradients")
def shares_one_buffer(x, y, output):
    for tensor in (x, y):
        tensor.grad = output.grad if tensor.grad is None else tensor.grad + output.grad
    output.grad = None


@wrong("2.3", cause="one buffer for two gradients")
def shares_a_view(x, y, output):
    for tensor in (x, y):
        tensor.grad = output.grad[:] if tensor.grad is None else tensor.grad + output.grad
    output.grad = None


@wrong("2.3", cause="overwrote a gradient")
def overwrites_both(x, y, output):
    x.grad = output.grad.copy()
    y.grad = output.grad.copy()
    output.grad = None


@wrong("2.3", cause="overwrote a gradient")
def adds_to_x_only(x, y, output):
    x.grad = output.grad.copy() if x.grad is None else x.grad + output.grad
    y.grad = output.grad.copy()
    output.grad = None


@wrong("2.3", cause="both inputs are one tensor")
def looks_before_adding(x, y, output):
    x_before, y_before = x.grad, y.grad
    x.grad = output.grad.copy() if x_before is None else x_before + output.grad
    y.grad = output.grad.copy() if y_before is None else y_before + output.grad
    output.grad = None


@wrong("2.3", cause="not discarded")
def add_forgets_to_discard(x, y, output):
    for tensor in (x, y):
        tensor.grad = output.grad.copy() if tensor.grad is None else tensor.grad + output.grad


@wrong("2.3", cause="raised an error")
def add_makes_nothing(x, y, output):
    x.grad += output.grad
    y.grad += output.grad
    output.grad = None


@wrong("2.3", cause="gradient missing")
def serves_x_only(x, y, output):
    x.grad = output.grad.copy() if x.grad is None else x.grad + output.grad
    output.grad = None


@wrong("2.3", cause="wrong values")
def uses_the_product_rule(x, y, output):
    dx, dy = output.grad * y.value, output.grad * x.value
    x.grad = dx if x.grad is None else x.grad + dx
    y.grad = dy if y.grad is None else y.grad + dy
    output.grad = None


# --- 2.4 frozen weights ----------------------------------------------------------------------------


@right("2.4")
def none_for_what_is_not_kept(x, weights, trainable):
    kept = []
    for w, wanted in zip(weights, trainable, strict=True):
        kept.append(x if wanted else None)
        x = x @ w
    g = np.ones_like(x)
    gradients = []
    while weights and kept:
        z, w = kept.pop(), weights[len(kept)]
        gradients.append(None if z is None else z.T @ g)
        if not any(trainable[: len(kept)]):
            break
        g = g @ w.T
    gradients += [None] * (len(weights) - len(gradients))
    return gradients[::-1]


@right("2.4")
def a_dict_of_what_is_read(x, weights, trainable):
    stored, z = {}, x
    for k, w in enumerate(weights):
        if trainable[k]:
            stored[k] = z
        z = z @ w
    g = np.ones(z.shape)
    gradients = [None] * len(weights)
    for k in reversed(range(len(weights))):
        if k in stored:
            gradients[k] = stored.pop(k).T @ g
        g = g @ weights[k].T
    return gradients


@right("2.4")
def recomputes_what_it_needs(x, weights, trainable):
    """Less memory than asked for, at the price of time: fine as well."""

    def activation(k):
        z = x
        for w in weights[:k]:
            z = z @ w
        return z

    g = np.ones((len(x), weights[-1].shape[1]))
    gradients = [None] * len(weights)
    for k in reversed(range(len(weights))):
        if trainable[k]:
            gradients[k] = activation(k).T @ g
        g = g @ weights[k].T
    return gradients


@right("2.4")
def recursively(x, weights, trainable):
    gradients = [None] * len(weights)

    def step(z, k):
        if k == len(weights):
            return np.ones_like(z)
        if not trainable[k]:
            return step(z @ weights[k], k + 1) @ weights[k].T
        g = step(z @ weights[k], k + 1)
        gradients[k] = z.T @ g
        return g @ weights[k].T

    last = x
    first = trainable.index(True) if any(trainable) else len(weights)
    for k in range(first):
        last = last @ weights[k]
    if first < len(weights):
        _descend(last, first, weights, trainable, gradients)
    return gradients


def _descend(z, first, weights, trainable, gradients):
    """As `recursively`, but forward in a loop, so that no frame keeps what it does not read."""
    stored = {}
    for k in range(first, len(weights)):
        if trainable[k]:
            stored[k] = z
        z = z @ weights[k]
    g = np.ones_like(z)
    del z
    for k in range(len(weights) - 1, first - 1, -1):
        if k in stored:
            gradients[k] = stored.pop(k).T @ g
        if k > first:
            g = g @ weights[k].T


@wrong("2.4", cause="kept every activation")
def keeps_all(x, weights, trainable):
    activations = [x]
    for w in weights:
        activations.append(activations[-1] @ w)
    g = np.ones_like(activations[-1])
    gradients = [None] * len(weights)
    for k in reversed(range(len(weights))):
        if trainable[k]:
            gradients[k] = activations[k].T @ g
        g = g @ weights[k].T
    return gradients


@wrong("2.4", cause="kept every activation")
def keeps_all_above_the_first_trainable(x, weights, trainable):
    first = trainable.index(True) if any(trainable) else len(weights)
    activations = {}
    for k, w in enumerate(weights):
        if k >= first:
            activations[k] = x
        x = x @ w
    g = np.ones_like(x)
    gradients = [None] * len(weights)
    for k in reversed(range(first, len(weights))):
        if trainable[k]:
            gradients[k] = activations[k].T @ g
        g = g @ weights[k].T
    return gradients


@wrong("2.4", cause="kept too long")
def keeps_the_output_too(x, weights, trainable):
    stored, z = {}, x
    for k, w in enumerate(weights):
        after = z @ w
        if trainable[k]:
            stored[k] = (z, after)
        z = after
    g = np.ones_like(z)
    gradients = [None] * len(weights)
    for k in reversed(range(len(weights))):
        if trainable[k]:
            gradients[k] = stored[k][0].T @ g
        g = g @ weights[k].T
    return gradients


@wrong("2.4", cause="stopped at a frozen layer")
def stops_at_a_frozen_layer(x, weights, trainable):
    stored, z = {}, x
    for k, w in enumerate(weights):
        if trainable[k]:
            stored[k] = z
        z = z @ w
    g = np.ones_like(z)
    gradients = [None] * len(weights)
    for k in reversed(range(len(weights))):
        if trainable[k]:
            gradients[k] = stored[k].T @ g
            g = g @ weights[k].T
        elif weights[k].shape[0] == weights[k].shape[1]:
            pass  # "frozen, so nothing happens here"
        else:
            g = g @ weights[k].T
    return gradients


@wrong("2.4", cause="gradient of a frozen weight")
def computes_them_all(x, weights, trainable):
    activations = [x]
    for w in weights:
        activations.append(activations[-1] @ w)
    g = np.ones_like(activations[-1])
    gradients = []
    for z, w in zip(activations[-2::-1], weights[::-1], strict=True):
        gradients.append(z.T @ g)
        g = g @ w.T
    return gradients[::-1]


@wrong("2.4", cause="wrong type")
def leaves_frozen_ones_out(x, weights, trainable):
    gradients = a_dict_of_what_is_read(x, weights, trainable)
    return [gradient for gradient in gradients if gradient is not None]


@wrong("2.4", cause="last first")
def last_first(x, weights, trainable):
    return a_dict_of_what_is_read(x, weights, trainable)[::-1]


@wrong("2.4", cause="activation off by one")
def keeps_the_output_instead(x, weights, trainable):
    stored, z = {}, x
    for k, w in enumerate(weights):
        z = z @ w
        if trainable[k]:
            stored[k] = z
    g = np.ones_like(z)
    gradients = [None] * len(weights)
    for k in reversed(range(len(weights))):
        if trainable[k]:
            gradients[k] = stored[k].T @ g
        g = g @ weights[k].T
    return gradients


_kept_for_later = []


@wrong("2.4", cause="left something behind")
def caches_in_a_global(x, weights, trainable):
    gradients = a_dict_of_what_is_read(x, weights, trainable)
    _kept_for_later.append(x @ weights[0])
    return gradients


@wrong("2.4", cause="memory out of sight")
def lets_torch_do_it(x, weights, trainable):
    import torch

    leaves = [
        torch.from_numpy(w).requires_grad_(t) for w, t in zip(weights, trainable, strict=True)
    ]
    z = torch.from_numpy(x)
    for w in leaves:
        z = z @ w
    if any(trainable):
        z.sum().backward()
    return [w.grad.numpy() if t else None for w, t in zip(leaves, trainable, strict=True)]


# --- found by playing ------------------------------------------------------------------------------


@wrong("2.1", cause="result transposed")
def transposes_the_result(x, w, output):
    x.grad += output.grad @ w.value.T
    w.grad += output.grad.T @ x.value


@wrong("2.1", cause="attribute deleted")
@wrong("2.2", cause="attribute deleted")
def deletes_the_attribute(x, w, output):
    dx, dw = output.grad @ w.value.T, x.value.T @ output.grad
    x.grad = dx if x.grad is None else x.grad + dx
    w.grad = dw if w.grad is None else w.grad + dw
    del output.grad


@wrong("2.2", cause="held too long")
def remembers_its_share(x, w, output):
    dx, dw = output.grad @ w.value.T, x.value.T @ output.grad
    x.grad = dx if x.grad is None else x.grad + dx
    if w.grad is None:
        w.grad = np.zeros_like(w.value)
    w.grad += dw
    w.last_share = dw
    output.grad = None


@wrong("2.3", cause="attribute deleted")
def add_deletes_the_attribute(x, y, output):
    for tensor in (x, y):
        tensor.grad = output.grad.copy() if tensor.grad is None else tensor.grad + output.grad
    del output.grad


@wrong("2.3", cause="held too long")
def keeps_it_in_a_default(x, y, output, history=[]):  # noqa: B006
    history.append(output.grad)
    for tensor in (x, y):
        tensor.grad = output.grad.copy() if tensor.grad is None else tensor.grad + output.grad
    output.grad = None


@wrong("2.3", cause="read-only gradient")
def broadcasts(x, y, output):
    x.grad = output.grad.copy() if x.grad is None else x.grad + output.grad
    y.grad = np.broadcast_to(output.grad, y.value.shape) if y.grad is None else y.grad + output.grad
    output.grad = None


_buffers = {}


@wrong("2.3", cause="one buffer for two calls")
def saves_an_allocation(x, y, output):
    for place, tensor in enumerate((x, y)):
        if tensor.grad is None:
            tensor.grad = _buffers.setdefault(
                (place, output.value.shape), np.empty(output.value.shape)
            )
            tensor.grad[...] = 0
        tensor.grad += output.grad
    output.grad = None


@right("2.4")
def copies_what_it_keeps(x, weights, trainable):
    kept, z = {}, x.copy()
    for k, w in enumerate(weights):
        if trainable[k]:
            kept[k] = z.copy()
        z = z @ w
    g = np.ones_like(z)
    gradients = [None] * len(weights)
    for k in reversed(range(len(weights))):
        if trainable[k]:
            gradients[k] = kept[k].T @ g
        g = g @ weights[k].T
    return gradients


@right("2.4")
def an_inner_function_with_a_nonlocal(x, weights, trainable):
    kept, z, g = {}, x, None
    for k, w in enumerate(weights):
        if trainable[k]:
            kept[k] = z
        z = z @ w
    gradients = [None] * len(weights)

    def back(k):
        nonlocal g
        if k < 0:
            return
        if k in kept:
            gradients[k] = kept.pop(k).T @ g
        g = g @ weights[k].T
        back(k - 1)

    g = np.ones_like(z)
    del z
    back(len(weights) - 1)
    return gradients


@wrong("2.4", cause="kept every activation")
def keeps_all_between_the_trained(x, weights, trainable):
    first = trainable.index(True) if any(trainable) else len(weights)
    last = len(weights) - 1 - trainable[::-1].index(True) if any(trainable) else -1
    kept, z = {}, x
    for k, w in enumerate(weights):
        if first <= k <= last:
            kept[k] = z
        z = z @ w
    g = np.ones_like(z)
    del z
    gradients = [None] * len(weights)
    for k in reversed(range(first, len(weights))):
        z = kept.pop(k, None)
        if trainable[k]:
            gradients[k] = z.T @ g
        g = g @ weights[k].T
    return gradients


@wrong("2.4", cause="changed its input")
def turns_the_list_round(x, weights, trainable):
    gradients = a_dict_of_what_is_read(x, weights, trainable)
    trainable.reverse()
    return gradients
