"""Answers to lesson 03."""

import numpy as np

from course_utils import ag
from tests.answers import right, wrong

# --- 3.1 give the values back ----------------------------------------------------------------------


@right("3.1")
def in_a_loop(node):
    for tensor in node.inputs:
        if tensor.value is None:
            tensor.value = tensor.rematerializer()


@right("3.1")
def by_a_list_first(node):
    gone = [tensor for tensor in node.inputs if tensor.value is None]
    while gone:
        tensor = gone.pop()
        tensor.value = tensor.value if tensor.value is not None else tensor.rematerializer()


@right("3.1")
def by_index(node):
    for i in range(len(node.inputs)):
        if node.inputs[i].value is not None:
            continue
        node.inputs[i].value = node.inputs[i].rematerializer()


@right("3.1")
def by_setattr_and_returns_the_node(node):
    for tensor in set(node.inputs):
        if getattr(tensor, "value", None) is None:
            setattr(tensor, "value", tensor.rematerializer())  # noqa: B010
    return node


@wrong("3.1", cause="the node itself")
def refills_the_node(node):
    if node.value is None or node.rematerializer is not None:
        node.value = node.rematerializer()


@wrong("3.1", cause="recomputed what was there")
def whatever_has_a_rematerializer(node):
    for tensor in node.inputs:
        if tensor.rematerializer is not None:
            tensor.value = tensor.rematerializer()


@wrong("3.1", cause="stored the function")
def forgets_to_call(node):
    for tensor in node.inputs:
        if tensor.value is None:
            tensor.value = tensor.rematerializer


@wrong("3.1", cause="result not stored")
def forgets_to_store(node):
    for tensor in node.inputs:
        if tensor.value is None:
            value = tensor.rematerializer()
            value += 0


@wrong("3.1", cause="raised an error")
def asks_an_array_whether_it_is_true(node):
    for tensor in node.inputs:
        if not tensor.value:
            tensor.value = tensor.rematerializer()


@wrong("3.1", cause="value missing")
def only_the_first_input(node):
    if node.inputs and node.inputs[0].value is None:
        node.inputs[0].value = node.inputs[0].rematerializer()


@wrong("3.1", cause="computed twice")
def looks_before_it_fills(node):
    gone = [tensor for tensor in node.inputs if tensor.value is None]
    for tensor in gone:
        tensor.value = tensor.rematerializer()


@wrong("3.1", cause="inputs replaced")
def makes_new_nodes(node):
    node.inputs = tuple(
        ag.RematTensor(tensor.rematerializer()) if tensor.value is None else tensor
        for tensor in node.inputs
    )


@wrong("3.1", cause="value missing")
def assigns_to_a_name(node):
    for tensor in node.inputs:
        value = tensor.value
        if value is None:
            value = 0.0


@wrong("3.1", cause="too deep")
def brings_back_what_it_needs_first(node):
    for tensor in node.inputs:
        if tensor.value is None:
            brings_back_what_it_needs_first(tensor)
            tensor.value = tensor.rematerializer()


@wrong("3.1", cause="raised an error")
def expects_two_inputs(node):
    if not node.inputs:
        return
    x, w = node.inputs
    for tensor in (x, w):
        if tensor.value is None:
            tensor.value = tensor.rematerializer()


@wrong("3.1", cause="the node itself")
def refills_the_node_as_well(node):
    in_a_loop(node)
    if node.value is None:
        node.value = node.rematerializer()


@wrong("3.1", cause="rematerializer gone")
def used_up(node):
    for tensor in node.inputs:
        if tensor.value is None:
            tensor.value, tensor.rematerializer = tensor.rematerializer(), None


@wrong("3.1", cause="recomputed what was there")
def takes_zeros_for_nothing(node):
    for tensor in node.inputs:
        if not np.any(tensor.value):
            tensor.value = tensor.rematerializer()


@wrong("3.1", cause="recomputed what was there")
def asks_for_the_exact_type(node):
    for tensor in node.inputs:
        if type(tensor.value) is not np.ndarray and tensor.rematerializer:
            tensor.value = tensor.rematerializer()


# --- 3.2 a product that discards -------------------------------------------------------------------


def _restore(*tensors):
    for tensor in tensors:
        if tensor.value is None:
            tensor.value = tensor.rematerializer()


def _discard(*tensors):
    for tensor in tensors:
        ag.discard_value_if_has_rematerializer(tensor)


def _add_gradients(x, w, output):
    for tensor in (x, w):
        if tensor.grad is None:
            tensor.grad = np.zeros_like(tensor.value)
    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad
    output.grad = None


@right("3.2")
def as_the_lecture(x, w):
    for tensor in (x, w):
        if tensor.value is None:
            tensor.value = tensor.rematerializer()
    output = ag.RematTensor(np.matmul(x.value, w.value), inputs=(x, w))

    def _backward():
        if x.grad is None:
            x.grad = np.zeros_like(x.value)
        if w.grad is None:
            w.grad = np.zeros_like(w.value)
        x.grad += np.matmul(output.grad, w.value.T)
        w.grad += np.matmul(x.value.T, output.grad)
        output.grad = None
        ag.discard_value_if_has_rematerializer(x)
        ag.discard_value_if_has_rematerializer(w)

    output._backward = _backward
    ag.discard_value_if_has_rematerializer(x)
    ag.discard_value_if_has_rematerializer(w)
    return output


@right("3.2")
def with_values_in_locals(x, w):
    x_value = x.rematerializer() if x.value is None else x.value
    w_value = w.rematerializer() if w.value is None else w.value
    output = ag.RematTensor(x_value @ w_value, inputs=(x, w))

    def step():
        g, output.grad = output.grad, None
        dx, dw = g @ w.value.T, x.value.T @ g
        x.grad = dx if x.grad is None else x.grad + dx
        w.grad = dw if w.grad is None else w.grad + dw
        for tensor in (x, w):
            if tensor.rematerializer:
                tensor.value = None

    output._backward = step
    for tensor in (x, w):
        if tensor.rematerializer:
            tensor.value = None
    return output


@right("3.2")
def by_connect_and_helpers(x, w):
    def step(x, w, output):
        _add_gradients(x, w, output)
        _discard(x, w)

    _restore(x, w)
    output = ag.connect(step, ag.RematTensor(x.value.dot(w.value), inputs=(x, w)))
    _discard(x, w)
    return output


@right("3.2")
def restores_in_the_step_too(x, w):
    _restore(x, w)
    output = ag.RematTensor(np.einsum("ij,jk->ik", x.value, w.value), inputs=[x, w])

    def _backward():
        _restore(x, w)
        _add_gradients(x, w, output)
        _discard(*output.inputs)

    output._backward = _backward
    _discard(*output.inputs)
    return output


def _product(forward=_discard, backward=_discard, restore=_restore, grads=_add_gradients):
    """A product made of parts, one of which is wrong."""

    def product(x, w):
        restore(x, w)
        output = ag.RematTensor(x.value @ w.value, inputs=(x, w))

        def _backward():
            grads(x, w, output)
            backward(x, w)

        output._backward = _backward
        forward(x, w)
        return output

    return product


def _nothing(*tensors):
    pass


@wrong("3.2", cause="not discarded")
def discards_nothing(x, w):
    return _product(forward=_nothing, backward=_nothing)(x, w)


@wrong("3.2", cause="not discarded")
def discards_in_the_forward_pass_only(x, w):
    return _product(backward=_nothing)(x, w)


@wrong("3.2", cause="not discarded")
def discards_in_the_backward_pass_only(x, w):
    return _product(forward=_nothing)(x, w)


@wrong("3.2", cause="not discarded")
def discards_x_only(x, w):
    return _product(forward=lambda x, w: _discard(x), backward=lambda x, w: _discard(x))(x, w)


def _discard_all(*tensors):
    for tensor in tensors:
        tensor.value = None


@wrong("3.2", cause="discarded for good")
def discards_whatever_it_read(x, w):
    return _product(forward=_discard_all)(x, w)


@wrong("3.2", cause="discarded for good")
def discards_weights_after_the_step(x, w):
    return _product(backward=_discard_all)(x, w)


@wrong("3.2", cause="a second reader")
def forgets_that_another_read_it(x, w):
    return _product(restore=_nothing)(x, w)


@wrong("3.2", cause="discarded too early")
def discards_between_the_two_lines(x, w):
    def grads(x, w, output):
        if x.grad is None:
            x.grad = np.zeros_like(x.value)
        if w.grad is None:
            w.grad = np.zeros_like(w.value)
        x.grad += output.grad @ w.value.T
        _discard(x, w)
        w.grad += x.value.T @ output.grad
        output.grad = None

    return _product(grads=grads)(x, w)


@wrong("3.2", cause="added to None")
def adds_to_no_gradient(x, w):
    def grads(x, w, output):
        x.grad += output.grad @ w.value.T
        w.grad += x.value.T @ output.grad
        output.grad = None

    return _product(grads=grads)(x, w)


@wrong("3.2", cause="gradient not discarded")
def keeps_its_gradient(x, w):
    def grads(x, w, output):
        dx, dw = output.grad @ w.value.T, x.value.T @ output.grad
        x.grad = dx if x.grad is None else x.grad + dx
        w.grad = dw if w.grad is None else w.grad + dw

    return _product(grads=grads)(x, w)


@wrong("3.2", cause="overwrote a gradient")
def overwrites_the_gradients(x, w):
    def grads(x, w, output):
        x.grad, w.grad = output.grad @ w.value.T, x.value.T @ output.grad
        output.grad = None

    return _product(grads=grads)(x, w)


@wrong("3.2", cause="held too long")
def keeps_the_values_in_the_closure(x, w):
    _restore(x, w)
    x_value, w_value = x.value, w.value
    output = ag.RematTensor(x_value @ w_value, inputs=(x, w))

    def _backward():
        dx, dw = output.grad @ w_value.T, x_value.T @ output.grad
        x.grad = dx if x.grad is None else x.grad + dx
        w.grad = dw if w.grad is None else w.grad + dw
        output.grad = None
        _discard(x, w)

    output._backward = _backward
    _discard(x, w)
    return output


@wrong("3.2", cause="gradient missing")
def forgets_the_step(x, w):
    _restore(x, w)
    output = ag.RematTensor(x.value @ w.value, inputs=(x, w))
    _discard(x, w)
    return output


@wrong("3.2", cause="inputs missing")
def forgets_the_inputs(x, w):
    _restore(x, w)
    output = ag.RematTensor(x.value @ w.value)
    output._backward = lambda: (_add_gradients(x, w, output), _discard(x, w))
    _discard(x, w)
    return output


@wrong("3.2", cause="wrong type")
def returns_the_array(x, w):
    return x.value @ w.value


@wrong("3.2", cause="wrong values")
def fills_with_nothing_new(x, w):
    def zero(*tensors):
        for tensor in tensors:
            if tensor.rematerializer is not None:
                tensor.value = tensor.value * 0.0

    return _product(forward=zero, backward=zero)(x, w)


@wrong("3.2", cause="memory out of sight")
def lets_torch_multiply(x, w):
    import torch

    _restore(x, w)
    value = torch.from_numpy(x.value) @ torch.from_numpy(w.value)
    output = ag.RematTensor(value.numpy(), inputs=(x, w))

    def _backward():
        _add_gradients(x, w, output)
        _discard(x, w)

    output._backward = _backward
    _discard(x, w)
    return output


@right("3.2")
def fills_a_node_that_is_there(x, w):
    output = ag.RematTensor(0.0, inputs=(x, w))
    _restore(*output.inputs)
    output.value = x.value @ w.value

    def _backward():
        g, output.grad = output.grad, None
        for tensor, share in ((x, g @ w.value.T), (w, x.value.T @ g)):
            tensor.grad = share if tensor.grad is None else tensor.grad + share
        _discard(x, w)

    output._backward = _backward
    _discard(x, w)
    return output


@wrong("3.2", cause="its own rematerializer")
def can_be_computed_again(x, w):
    output = as_the_lecture(x, w)
    output.rematerializer = lambda: x.value @ w.value
    return output


@wrong("3.2", cause="shapes do not fit")
def transposes_the_wrong_one(x, w):
    def grads(x, w, output):
        x.grad = w.value.T @ output.grad
        w.grad = x.value.T @ output.grad
        output.grad = None

    return _product(grads=grads)(x, w)


@wrong("3.2", cause="a second reader")
def one_or_the_other(x, w):
    def restore(x, w):
        if x.value is None:
            x.value = x.rematerializer()
        elif w.value is None:
            w.value = w.rematerializer()

    return _product(restore=restore)(x, w)


@wrong("3.2", cause="a second reader")
def restores_x_only(x, w):
    return _product(restore=lambda x, w: _restore(x))(x, w)


@wrong("3.2", cause="recomputed what was there")
def restores_whatever_can_be(x, w):
    def restore(x, w):
        for tensor in (x, w):
            if tensor.rematerializer:
                tensor.value = tensor.rematerializer()

    return _product(restore=restore)(x, w)


@wrong("3.2", cause="discarded for good")
def discards_its_own_value(x, w):
    output = as_the_lecture(x, w)
    step = output._backward

    def _backward():
        step()
        output.value = None

    output._backward = _backward
    return output


@wrong("3.2", cause="rematerializer gone")
def discards_the_rematerializer_too(x, w):
    def discard(*tensors):
        for tensor in tensors:
            if tensor.rematerializer:
                tensor.value = tensor.rematerializer = None

    return _product(forward=discard, backward=discard)(x, w)


@wrong("3.2", cause="inputs swapped")
def inputs_the_other_way_round(x, w):
    output = as_the_lecture(x, w)
    output.inputs = (w, x)
    return output


@wrong("3.2", cause="too many temporaries")
def copies_to_be_safe(x, w):
    def grads(x, w, output):
        g, again, value = output.grad.copy(), output.grad.copy(), x.value.copy()
        dx, dw = g @ w.value.T, value.T @ again
        x.grad = dx if x.grad is None else x.grad + dx
        w.grad = dw if w.grad is None else w.grad + dw
        output.grad = None

    return _product(grads=grads)(x, w)


# --- 3.3 the listing, mended -----------------------------------------------------------------------


def _product_of(start, weights):
    def rematerializer():
        value = start.value
        for w in weights:
            value = np.matmul(value, w.value)
        return value

    return rematerializer


@right("3.3")
def with_default_arguments(x, weights, checkpoints, matmul):
    nodes, farthest_checkpoint, x_at_farthest_checkpoint = [], -1, x
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            farthest_checkpoint, x_at_farthest_checkpoint = i, x
            continue

        def _rematerializer(start=x_at_farthest_checkpoint, first=farthest_checkpoint + 1, i=i):
            xval = start.value
            for w in weights[first : i + 1]:
                xval = np.matmul(xval, w.value)
            return xval

        x.rematerializer = _rematerializer
    return nodes


@right("3.3")
def with_a_factory(x, weights, checkpoints, matmul):
    nodes, start, between = [], x, []
    for i, w in enumerate(weights):
        nodes.append(matmul(nodes[-1] if nodes else x, w))
        if i in checkpoints:
            start, between = nodes[-1], []
        else:
            between = [*between, w]
            nodes[-1].rematerializer = _product_of(start, between)
    return nodes


@right("3.3")
def with_partial_and_slices(x, weights, checkpoints, matmul):
    from functools import partial, reduce

    def again(start, ws):
        return reduce(lambda value, w: value @ w.value, ws, start.value)

    nodes = [x]
    for i, w in enumerate(weights):
        nodes.append(matmul(nodes[i], w))
        if i not in checkpoints:
            c = max([c + 1 for c in checkpoints if c < i], default=0)
            nodes[-1].rematerializer = partial(again, nodes[c], weights[c : i + 1])
    return tuple(nodes[1:])


@right("3.3")
def with_the_checkpoints_array(x, weights, checkpoints, matmul):
    """The closure holds the checkpoint's array itself: it is kept anyway."""
    nodes, kept, first = [], x.value, 0
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            kept, first = x.value, i + 1
        else:

            def again(value=kept, ws=weights[first : i + 1]):
                for w in ws:
                    value = value @ w.value
                return value

            x.rematerializer = again
    return nodes


@right("3.3")
@right("3.4")
def a_segment_at_once(x, weights, checkpoints, matmul):
    nodes, start, segment = [], x, []
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, segment = x, []
        else:
            segment = [*segment, (x, w)]

            def again(start=start, segment=segment):
                value = start.value
                for node, w in segment:
                    value = node.value = np.matmul(value, w.value)
                return value

            x.rematerializer = again
    return nodes


@wrong("3.3", cause="late binding")
@wrong("3.4", cause="late binding")
def as_printed(x, weights, checkpoints, matmul):
    nodes, farthest_checkpoint, x_at_farthest_checkpoint = [], 0, x
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            farthest_checkpoint = i
            x_at_farthest_checkpoint = x
        else:

            def _rematerializer():
                xval = x_at_farthest_checkpoint.value  # noqa: B023
                for w in weights[farthest_checkpoint : (i + 1)]:  # noqa: B023
                    xval = np.matmul(xval, w.value)
                return xval

            x.rematerializer = _rematerializer
    return nodes


@wrong("3.3", cause="late binding")
def late_binding_right_slice(x, weights, checkpoints, matmul):
    nodes, farthest_checkpoint, x_at_farthest_checkpoint = [], -1, x
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            farthest_checkpoint = i
            x_at_farthest_checkpoint = x
        else:

            def _rematerializer():
                xval = x_at_farthest_checkpoint.value  # noqa: B023
                for w in weights[farthest_checkpoint + 1 : i + 1]:  # noqa: B023
                    xval = np.matmul(xval, w.value)
                return xval

            x.rematerializer = _rematerializer
    return nodes


def _mended(first_of, start_of=None, keep=None, last_of=lambda i: i + 1):
    """Each closure bound early; the segment begins at `first_of(farthest)`."""

    def forward(x, weights, checkpoints, matmul, farthest=-1):
        nodes, start = [], x
        for i, w in enumerate(weights):
            x = matmul(x, w)
            nodes.append(x)
            if i in checkpoints:
                farthest, start = i, x
            else:
                x.rematerializer = _product_of(start, weights[first_of(farthest) : last_of(i)])
        return nodes

    return forward


@wrong("3.3", cause="checkpoint off by one")
def applies_the_checkpoints_weight_again(x, weights, checkpoints, matmul):
    return _mended(lambda c: c)(x, weights, checkpoints, matmul, farthest=0)


@wrong("3.3", cause="first segment")
def begins_after_layer_zero(x, weights, checkpoints, matmul):
    return _mended(lambda c: c + 1)(x, weights, checkpoints, matmul, farthest=0)


@wrong("3.3", cause="zero taken for none")
def zero_is_special(x, weights, checkpoints, matmul):
    """`farthest_checkpoint or -1`: right until layer 0 is a checkpoint."""
    return _mended(lambda c: c + 1 if c else 0)(x, weights, checkpoints, matmul, farthest=0)


@wrong("3.3", cause="wrong last weight")
def forgets_its_own_weight(x, weights, checkpoints, matmul):
    return _mended(lambda c: c + 1, last_of=lambda i: i)(x, weights, checkpoints, matmul)


@wrong("3.3", cause="late binding")
def binds_the_index_only(x, weights, checkpoints, matmul):
    nodes, farthest, start = [], -1, x
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            farthest, start = i, x
        else:

            def again(i=i):
                value = start.value  # noqa: B023
                for w in weights[farthest + 1 : i + 1]:  # noqa: B023
                    value = value @ w.value
                return value

            x.rematerializer = again
    return nodes


@wrong("3.3", cause="from the input every time")
@wrong("3.4", cause="too many products")
def from_the_input(x, weights, checkpoints, matmul):
    nodes, x_in = [], x
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i not in checkpoints:
            x.rematerializer = _product_of(x_in, weights[: i + 1])
    return nodes


@wrong("3.3", cause="discarded a checkpoint")
@wrong("3.4", cause="discarded a checkpoint")
def a_rematerializer_for_every_layer(x, weights, checkpoints, matmul):
    nodes, start, first = [], x, 0
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        x.rematerializer = _product_of(start, weights[first : i + 1])
        if i in checkpoints:
            start, first = x, i + 1
    return nodes


@wrong("3.3", cause="no rematerializer")
@wrong("3.4", cause="no rematerializer")
def keeps_them_all(x, weights, checkpoints, matmul):
    nodes = []
    for w in weights:
        x = matmul(x, w)
        nodes.append(x)
    return nodes


@wrong("3.3", cause="too many products")
def only_the_first_checkpoint(x, weights, checkpoints, matmul):
    nodes, start, first = [], x, 0
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints and first == 0:
            start, first = x, i + 1
        elif i not in checkpoints:
            x.rematerializer = _product_of(start, weights[first : i + 1])
    return nodes


@wrong("3.3", cause="too few products")
def remembers_the_value(x, weights, checkpoints, matmul):
    nodes = []
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i not in checkpoints:
            x.rematerializer = lambda value=x.value: value
    return nodes


@wrong("3.3", cause="wrong type")
def returns_the_last_node(x, weights, checkpoints, matmul):
    return with_a_factory(x, weights, checkpoints, matmul)[-1]


@wrong("3.3", cause="rematerializer returned nothing")
@wrong("3.4", cause="rematerializer returned nothing")
def stores_and_returns_nothing(x, weights, checkpoints, matmul):
    nodes = with_a_factory(x, weights, checkpoints, matmul)
    for node in nodes:
        if node.rematerializer is not None:

            def again(node=node, inner=node.rematerializer):
                node.value = inner()

            node.rematerializer = again
    return nodes


@right("3.3")
def weights_first(x, weights, checkpoints, matmul):
    """The weights' product first, then one product with the batch: less work still."""
    from functools import reduce

    nodes, start, between = [], x, []
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        between = [*between, w]
        if i in checkpoints:
            start, between = x, []
        else:

            def again(start=start, between=between):
                return start.value @ reduce(np.matmul, [w.value for w in between])

            x.rematerializer = again
    return nodes


@right("3.3")
def asks_the_product_of_the_one_before(x, weights, checkpoints, matmul):
    """The given product refills its inputs; the node's value is taken out of it."""

    def make(before, w):
        def again():
            node = matmul(before, w)
            value, node.value = node.value, None
            return value

        return again

    nodes = []
    for i, w in enumerate(weights):
        before, x = x, matmul(x, w)
        nodes.append(x)
        if i not in checkpoints:
            x.rematerializer = make(before, w)
    return nodes


@wrong("3.3", cause="nodes in a rematerializer")
def forward_again_through_matmul(x, weights, checkpoints, matmul):
    from functools import reduce

    nodes, start, between = [], x, ()
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        between = (*between, w)
        if i in checkpoints:
            start, between = x, ()
        else:
            x.rematerializer = lambda start=start, ws=between: reduce(matmul, ws, start).value
    return nodes


@wrong("3.3", cause="late binding")
def binds_all_but_the_start(x, weights, checkpoints, matmul):
    nodes, farthest, start = [], -1, x
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            farthest, start = i, x
        else:

            def again(i=i, farthest=farthest):
                value = start.value  # noqa: B023
                for w in weights[farthest + 1 : i + 1]:
                    value = value @ w.value
                return value

            x.rematerializer = again
    return nodes


@wrong("3.3", cause="too few products")
def from_the_input_uncounted(x, weights, checkpoints, matmul):
    nodes, x_in = [], x
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i not in checkpoints:

            def again(i=i):
                value = np.asarray(x_in.value)
                for w in weights[: i + 1]:
                    value = value @ np.asarray(w.value)
                return value

            x.rematerializer = again
    return nodes


@wrong("3.3", cause="right only once")
def hands_each_function_out_once(x, weights, checkpoints, matmul):
    nodes = with_a_factory(x, weights, checkpoints, matmul)
    for node in nodes:
        if node.rematerializer:
            node.rematerializer = lambda left=[node.rematerializer]: left.pop()()
    return nodes


@wrong("3.3", cause="changed its input")
def takes_the_weights_off_the_list(x, weights, checkpoints, matmul):
    nodes = with_a_factory(x, list(weights), checkpoints, matmul)
    weights.clear()
    return nodes


@wrong("3.3", cause="discarded too late")
def discards_at_the_end(x, weights, checkpoints, matmul):
    nodes = [x]
    for w in weights:
        nodes.append(matmul(nodes[-1], w))
    for i, node in enumerate(nodes[1:]):
        if i not in checkpoints:
            c = max([c + 1 for c in checkpoints if c < i], default=0)
            node.rematerializer = _product_of(nodes[c], weights[c : i + 1])
    _discard(*nodes[1:-1])
    return nodes[1:]


@wrong("3.3", cause="not layer by layer")
def from_the_last_to_the_first(x, weights, checkpoints, matmul):
    return with_a_factory(x, weights, checkpoints, matmul)[::-1]


@wrong("3.3", cause="not layer by layer")
def with_the_input_in_front(x, weights, checkpoints, matmul):
    return [x, *with_a_factory(x, weights, checkpoints, matmul)[:-1]]


@wrong("3.3", cause="last value discarded")
def discards_the_last_output(x, weights, checkpoints, matmul):
    nodes = with_a_factory(x, weights, checkpoints, matmul)
    _discard(nodes[-1])
    return nodes


# --- 3.4 a segment at a time -----------------------------------------------------------------------


@right("3.4")
def from_the_nearest_that_has_a_value(x, weights, checkpoints, matmul):
    """Walk back to a node that is there, then forward, leaving values on the way."""
    nodes = [x]

    def again(i):
        first = i
        while nodes[first].value is None:
            first -= 1
        for k in range(first, i):
            nodes[k + 1].value = nodes[k].value @ weights[k].value
        return nodes[i].value

    for i, w in enumerate(weights):
        nodes.append(matmul(nodes[-1], w))
        if i not in checkpoints:
            nodes[-1].rematerializer = lambda i=i: again(i + 1)
    return nodes[1:]


@right("3.4")
def each_asks_the_one_before(x, weights, checkpoints, matmul):
    nodes = []

    def make(before, w):
        def again():
            if before.value is None:
                before.value = before.rematerializer()
            return before.value @ w.value

        return again

    for i, w in enumerate(weights):
        before, x = x, matmul(x, w)
        nodes.append(x)
        if i not in checkpoints:
            x.rematerializer = make(before, w)
    return nodes


@right("3.4")
def only_what_is_missing(x, weights, checkpoints, matmul):
    nodes, start, first = [], x, 0
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, first = x, i + 1
            continue

        def again(start=start, first=first, i=i):
            value = start.value
            for k in range(first, i + 1):
                if nodes[k].value is None:
                    nodes[k].value = np.matmul(value, weights[k].value)
                value = nodes[k].value
            return value

        x.rematerializer = again
    return nodes


@wrong("3.4", cause="each value from its checkpoint")
def one_at_a_time(x, weights, checkpoints, matmul):
    return with_a_factory(x, weights, checkpoints, matmul)


@wrong("3.4", cause="not in the nodes")
def caches_the_segment(x, weights, checkpoints, matmul):
    nodes, start, first, cache = [], x, 0, {}
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, first = x, i + 1
            continue

        def again(start=start, first=first, i=i):
            value = start.value
            for k in range(first, i + 1):
                if k not in cache:
                    cache[k] = np.matmul(value, weights[k].value)
                value = cache[k]
            return value

        x.rematerializer = again
    return nodes


@wrong("3.4", cause="too many products")
def fills_the_whole_segment_every_time(x, weights, checkpoints, matmul):
    """Values left in the nodes are computed again when a later one is asked for: no, each alone again."""
    nodes = with_a_factory(x, weights, checkpoints, matmul)
    for node in nodes:
        if node.rematerializer is not None:

            def again(inner=node.rematerializer):
                inner()
                return inner()

            node.rematerializer = again
    return nodes


@wrong("3.4", cause="kept what came back")
def fills_the_other_segments_too(x, weights, checkpoints, matmul):
    """Whoever is asked fills every node that is empty, those above included."""
    nodes, x_in = [], x

    def fill():
        value = x_in.value
        for node, w in zip(nodes, weights, strict=True):
            if node.value is None:
                node.value = value @ w.value
            value = node.value

    def make(node):
        def again():
            fill()
            return node.value

        return again

    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i not in checkpoints:
            x.rematerializer = make(x)
    return nodes


@wrong("3.4", cause="segment not freed")
def fills_to_the_end_of_the_chain(x, weights, checkpoints, matmul):
    nodes, start, first = [], x, 0
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, first = x, i + 1
            continue

        def again(i=i, start=start, first=first):
            value = start.value
            for k in range(first, len(nodes)):
                if nodes[k].value is None:
                    nodes[k].value = value @ weights[k].value
                value = nodes[k].value
            return nodes[i].value

        x.rematerializer = again
    return nodes


@wrong("3.4", cause="wrong values")
def leaves_the_values_one_node_late(x, weights, checkpoints, matmul):
    nodes, start, segment = [], x, []
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, segment = x, []
        else:
            segment = [*segment, (x, w)]

            def again(start=start, segment=segment):
                value = start.value
                for node, w in segment:
                    node.value = value
                    value = np.matmul(value, w.value)
                return value

            x.rematerializer = again
    return nodes


@right("3.4")
def values_as_plain_arrays(x, weights, checkpoints, matmul):
    nodes, start, segment = [], x, []
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, segment = x, []
        else:
            segment = [*segment, (x, w)]

            def again(start=start, segment=segment):
                for node, w in segment:
                    node.value = np.array(start.value @ w.value)
                    start = node
                return start.value

            x.rematerializer = again
    return nodes


@right("3.4")
def the_whole_segment_and_its_own(x, weights, checkpoints, matmul):
    """Whoever is asked fills the whole segment, and returns its own layer's output."""

    def make(own, start, segment):
        def again():
            value = start.value
            for node, w in segment:
                value = node.value = value @ w.value
            return own.value

        return again

    nodes, start, segment = [], x, []
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, segment = x, []
        else:
            segment.append((x, w))
            x.rematerializer = make(x, start, segment)
    return nodes


@wrong("3.4", cause="another layer's output")
def the_list_grows(x, weights, checkpoints, matmul):
    nodes, start, segment = [], x, []
    for i, w in enumerate(weights):
        x = matmul(x, w)
        nodes.append(x)
        if i in checkpoints:
            start, segment = x, []
        else:
            segment.append((x, w))

            def again(start=start, segment=segment):
                value = start.value
                for node, w in segment:
                    value = node.value = value @ w.value
                return value

            x.rematerializer = again
    return nodes


# --- 3.5 checkpointed reverse mode -----------------------------------------------------------------


@right("3.5")
def block_by_block(z0, stages, checkpoints):
    kept, z = {0: z0}, z0
    for t, stage in enumerate(stages, 1):
        z = stage.forward(z)
        if t in checkpoints:
            kept[t] = z
    g = np.ones_like(z)
    del z
    end = len(stages)
    for start in sorted(kept, reverse=True):
        states = [kept.pop(start)]
        for t in range(start + 1, end):
            states.append(stages[t - 1].forward(states[-1]))
        for t in range(end, start, -1):
            g = stages[t - 1].backward(states.pop(), g)
        end = start
    return g


@right("3.5")
def with_a_helper(z0, stages, checkpoints):
    def run_block(z, block, g):
        states = [z]
        for stage in block[:-1]:
            states.append(stage.forward(states[-1]))
        for stage in reversed(block):
            g = stage.backward(states.pop(), g)
        return g

    bounds = [0, *checkpoints, len(stages)]
    starts = [z0]
    for a, b in zip(bounds, bounds[1:]):
        z = starts[-1]
        for stage in stages[a:b]:
            z = stage.forward(z)
        starts.append(z)
    g = np.ones(z.shape)
    starts.pop()
    del z
    for a, b in reversed(list(zip(bounds, bounds[1:]))):
        g = run_block(starts.pop(), stages[a:b], g)
    return g


@right("3.5")
def the_last_block_stays(z0, stages, checkpoints):
    """What follows the last checkpoint is kept at once: no need to compute it again."""
    bounds = [0, *[c for c in checkpoints if c < len(stages)], len(stages)]
    kept, states, z = {}, [], z0
    for t, stage in enumerate(stages):
        if t in bounds:
            kept[t] = z
        if t >= bounds[-2]:
            states.append(z)
        z = stage.forward(z)
    g = np.ones_like(z)
    del z
    for a, b in zip(bounds[-2::-1], bounds[:0:-1]):
        z = kept.pop(a)
        if not states:
            states = [z]
            for stage in stages[a : b - 1]:
                states.append(stage.forward(states[-1]))
        del z
        for stage in stages[b - 1 : a - 1 if a else None : -1]:
            g = stage.backward(states.pop(), g)
    return g


@right("3.5")
def a_dict_with_the_end_as_well(z0, stages, checkpoints):
    """Computes each block to its end, one state more than is read."""
    kept = {0: z0}
    z = z0
    for t in range(1, len(stages) + 1):
        z = stages[t - 1].forward(z)
        if t in checkpoints:
            kept[t] = z
    g = np.ones_like(z)
    marks = sorted({0, len(stages), *checkpoints})
    for i in range(len(marks) - 2, -1, -1):
        states = {marks[i]: kept[marks[i]]}
        for t in range(marks[i] + 1, marks[i + 1] + 1):
            states[t] = stages[t - 1].forward(states[t - 1])
        for t in range(marks[i + 1], marks[i], -1):
            g = stages[t - 1].backward(states[t - 1], g)
            del states[t]
        if marks[i]:
            del kept[marks[i]]
        states.clear()
    return g


@wrong("3.5", cause="first block left out")
def as_the_slide_prints_it(z0, stages, checkpoints):
    kept, z = {}, z0
    for t, stage in enumerate(stages, 1):
        z = stage.forward(z)
        if t in checkpoints:
            kept[t] = z
    g = np.ones_like(z)
    end = len(stages)
    for start in reversed(checkpoints):
        states = [kept.pop(start)]
        for stage in stages[start : end - 1]:
            states.append(stage.forward(states[-1]))
        for stage in reversed(stages[start:end]):
            g = stage.backward(states.pop(), g)
        end = start
    if not checkpoints:
        return block_by_block(z0, stages, checkpoints)
    return g


@wrong("3.5", cause="kept every state")
def stores_all(z0, stages, checkpoints):
    states = [z0]
    for stage in stages:
        states.append(stage.forward(states[-1]))
    g = np.ones_like(states[-1])
    for stage, z in zip(reversed(stages), states[-2::-1], strict=True):
        g = stage.backward(z, g)
    return g


@wrong("3.5", cause="from the input every time")
def recomputes_from_the_start(z0, stages, checkpoints):
    def state(t):
        z = z0
        for stage in stages[:t]:
            z = stage.forward(z)
        return z

    g = np.ones_like(state(len(stages)))
    for t in range(len(stages), 0, -1):
        g = stages[t - 1].backward(state(t - 1), g)
    return g


@wrong("3.5", cause="each state alone")
def recomputes_from_the_checkpoint_every_time(z0, stages, checkpoints):
    kept, z = {0: z0}, z0
    for t, stage in enumerate(stages, 1):
        z = stage.forward(z)
        if t in checkpoints:
            kept[t] = z
    g = np.ones_like(z)
    for t in range(len(stages), 0, -1):
        start = max(c for c in kept if c < t)
        z = kept[start]
        for stage in stages[start : t - 1]:
            z = stage.forward(z)
        g = stages[t - 1].backward(z, g)
    return g


@wrong("3.5", cause="state off by one")
def gives_the_output(z0, stages, checkpoints):
    states = [z0]
    for stage in stages:
        states.append(stage.forward(states[-1]))
    g = np.ones_like(states[-1])
    for stage in reversed(stages):
        g = stage.backward(states.pop(), g)
    return g


@wrong("3.5", cause="block not freed")
def keeps_the_old_block_while_it_makes_the_new(z0, stages, checkpoints):
    def block(z, some):
        states = [z]
        for stage in some:
            states.append(stage.forward(states[-1]))
        return states

    kept, z = {0: z0}, z0
    for t, stage in enumerate(stages, 1):
        z = stage.forward(z)
        if t in checkpoints:
            kept[t] = z
    g = np.ones_like(z)
    end, states = len(stages), []
    for start in sorted(kept, reverse=True):
        states = block(kept[start], stages[start:end])
        for t in range(end, start, -1):
            g = stages[t - 1].backward(states[t - 1 - start], g)
        end = start
    return g


@wrong("3.5", cause="kept every state")
def collects_all_blocks(z0, stages, checkpoints):
    kept, z = {0: z0}, z0
    for t, stage in enumerate(stages, 1):
        z = stage.forward(z)
        if t in checkpoints:
            kept[t] = z
    g = np.ones_like(z)
    del z
    end = len(stages)
    states = dict(kept)
    for start in sorted(kept, reverse=True):
        for t in range(start + 1, end):
            states[t] = stages[t - 1].forward(states[t - 1])
        for t in range(end, start, -1):
            g = stages[t - 1].backward(states[t - 1], g)
        end = start
    return g


@wrong("3.5", cause="wrong order")
def blocks_from_the_front(z0, stages, checkpoints):
    bounds = [0, *checkpoints, len(stages)]
    g, z = np.ones_like(z0), z0
    for a, b in zip(bounds, bounds[1:]):
        states = [z]
        for stage in stages[a:b]:
            states.append(stage.forward(states[-1]))
        z = states.pop()
        for stage in reversed(stages[a:b]):
            g = stage.backward(states.pop(), g)
    return g


@wrong("3.5", cause="changed its input")
def pops_the_checkpoints(z0, stages, checkpoints):
    g = block_by_block(z0, stages, checkpoints)
    while checkpoints:
        checkpoints.pop()
    return g


@wrong("3.5", cause="backward not once")
def counts_the_joints_twice(z0, stages, checkpoints):
    kept, z = {0: z0}, z0
    for t, stage in enumerate(stages, 1):
        z = stage.forward(z)
        if t in checkpoints:
            kept[t] = z
    g = np.ones_like(z)
    end = len(stages)
    for start in sorted(kept, reverse=True):
        states = [kept[start]]
        for t in range(start + 1, end + 1):
            states.append(stages[t - 1].forward(states[-1]))
        for t in range(end, max(start, 1) - 1, -1):
            g = stages[t - 1].backward(states[t - 1 - start], g)
        end = start
    return g


_history = []


@wrong("3.5", cause="left something behind")
def keeps_a_history(z0, stages, checkpoints):
    g = block_by_block(z0, stages, checkpoints)
    _history.append(stages[0].forward(z0))
    return g


@right("3.5")
def without_the_last_state(z0, stages, checkpoints):
    """L is a sum, so z_T is never read, and never computed."""
    T = len(stages)
    kept, z = {0: z0}, z0
    for t, stage in enumerate(stages[:-1], 1):
        z = stage.forward(z)
        if t in checkpoints:
            kept[t] = z
    del z
    g, end = np.ones_like(z0), T
    for start in sorted(kept, reverse=True):
        states = [kept.pop(start)]
        for stage in stages[start : end - 1]:
            states.append(stage.forward(states[-1]))
        for stage in reversed(stages[start:end]):
            g = stage.backward(states.pop(), g)
        end = start
    return g


def _blocks(z0, stages, checkpoints, *, first=1, ones=np.ones_like, bounds=None):
    """Block by block, with one thing wrong. first: what the first state is called."""
    kept, z = {0: z0}, z0
    for t, stage in enumerate(stages, first):
        z = stage.forward(z)
        if t in checkpoints:
            kept[t] = z
    g = ones(z)
    del z
    bounds = bounds or sorted({0, *checkpoints, len(stages)})
    for a, b in list(zip(bounds, bounds[1:]))[::-1]:
        states = [kept.pop(a)]
        for stage in stages[a : b - 1]:
            states.append(stage.forward(states[-1]))
        while states:
            g = stages[a + len(states) - 1].backward(states.pop(), g)
    return g


@wrong("3.5", cause="checkpoint off by one")
def counts_states_from_zero(z0, stages, checkpoints):
    return _blocks(z0, stages, checkpoints, first=0)


@wrong("3.5", cause="first gradient")
def gradient_of_the_mean(z0, stages, checkpoints):
    return _blocks(z0, stages, checkpoints, ones=lambda z: np.ones_like(z) / z.size)


@wrong("3.5", cause="gradient of another shape")
def one_number_for_all(z0, stages, checkpoints):
    return _blocks(z0, stages, checkpoints, ones=lambda z: 1.0)


@wrong("3.5", cause="raised an error")
def states_are_vectors(z0, stages, checkpoints):
    return _blocks(z0, stages, checkpoints, ones=lambda z: np.ones(len(z)))


@wrong("3.5", cause="last block left out")
def ends_at_the_last_checkpoint(z0, stages, checkpoints):
    return _blocks(z0, stages, checkpoints, bounds=[0, *checkpoints])


@wrong("3.5", cause="raised an error")
def the_end_twice(z0, stages, checkpoints):
    return _blocks(z0, stages, checkpoints, bounds=[0, *checkpoints, len(stages)])


@wrong("3.5", cause="other checkpoints")
def chooses_its_own(z0, stages, checkpoints):
    length = max(1, round(len(stages) ** 0.5))
    return block_by_block(z0, stages, range(length, len(stages), length))
