"""The lecture's engine against torch, and its bill against the lecture's figures."""

import numpy as np
import pytest

from course_utils import ag
from course_utils.tracing import Trace

rng = np.random.default_rng(0)


def test_gradients_agree_with_torch():
    torch = pytest.importorskip("torch")
    values = [rng.standard_normal(shape) for shape in ((5, 3), (3, 4), (4, 3))]
    x, w, v = (ag.Tensor(value) for value in values)
    ag.sum(x + ((x @ w) @ v) + x).backward()
    leaves = [torch.from_numpy(value).requires_grad_() for value in values]
    (leaves[0] + leaves[0] @ leaves[1] @ leaves[2] + leaves[0]).sum().backward()
    for ours, theirs in zip((x, w, v), leaves, strict=True):
        np.testing.assert_allclose(ours.grad, theirs.grad.numpy(), rtol=1e-12)


def test_topological_sort_puts_inputs_first_and_each_node_once():
    x = ag.Tensor(np.ones((2, 2)))
    y = x + x
    z = ag.sum(y @ y)
    order = z.topological_sort()
    place = {id(node): i for i, node in enumerate(order)}
    assert len(place) == len(order) == 4 and order[-1] is z
    assert all(place[id(i)] < place[id(node)] for node in order for i in node.inputs)


def test_a_long_chain_needs_no_recursion():
    x = node = ag.Tensor(np.ones(()))
    for _ in range(5000):
        node = node + x
    node.backward()
    assert x.grad == 5001


def test_a_node_costs_two_arrays_and_owns_them():
    value = np.ones((300, 300))
    with Trace() as trace:
        x = ag.Tensor(value)
        assert trace.snapshot().current_bytes == 2 * value.nbytes  # L12-16, L12-22
    value[:] = 7
    assert x.value.max() == 1


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_lazy_node_has_a_gradient_only_on_request(requires_grad):
    value = np.ones((300, 300))
    with Trace() as trace:
        x = ag.LazyTensor(value, requires_grad=requires_grad)
        assert trace.snapshot().current_bytes == (1 + requires_grad) * value.nbytes  # L12-29
    assert (x.grad is None) is not requires_grad


def test_lazy_sum_makes_or_adds():
    x = ag.LazyTensor(np.ones((2, 3)))
    ag.lazy_sum(x).backward()
    ag.lazy_sum(x).backward()
    np.testing.assert_array_equal(x.grad, np.full((2, 3), 2.0))


def test_lazy_steps_are_the_ones_that_were_connected():
    seen = []
    x, w = ag.LazyTensor(np.ones((2, 3))), ag.LazyTensor(np.ones((3, 1)))
    product = ag.lazy_matmul(x, w, lambda *nodes: seen.append(nodes))
    total = ag.lazy_add(product, product, lambda *nodes: seen.append(nodes))
    total._backward()
    product._backward()
    assert seen == [(product, product, total), (x, w, product)]


def remat_chain(x, weights):
    """The products of x by the weights; each can be computed again from x."""
    nodes, start = [], x

    def again(count):
        value = start.value
        for w in weights[:count]:
            value = value @ w.value
        return value

    def product(x, w):
        def step(x, w, output):
            for tensor, share in ((x, output.grad @ w.value.T), (w, x.value.T @ output.grad)):
                tensor.grad = share if tensor.grad is None else tensor.grad + share
            ag.discard_value_if_has_rematerializer(x)

        output = ag.RematTensor(x.value @ w.value, inputs=(x, w))
        ag.discard_value_if_has_rematerializer(x)
        return ag.connect(step, output)

    for count, w in enumerate(weights, start=1):
        x = product(x, w)
        x.rematerializer = lambda count=count: again(count)
        nodes.append(x)
    return nodes


def test_discarded_values_are_given_back_before_each_step():
    values = [rng.standard_normal(shape) for shape in ((5, 3), (3, 4), (4, 2), (2, 6))]
    x, *weights = (ag.RematTensor(value) for value in values)
    nodes = remat_chain(x, weights)
    loss = ag.remat_sum(nodes[-1])
    assert [node.value is None for node in nodes] == [True] * 3 and x.value is not None

    def rematerialize(node):
        for tensor in node.inputs:
            tensor.value = tensor.value if tensor.value is not None else tensor.rematerializer()

    loss.backward(rematerialize)
    assert [node.value is None for node in nodes] == [True] * 3 and loss.grad is None
    eager_x, *eager = (ag.Tensor(value) for value in values)
    ag.sum(((eager_x @ eager[0]) @ eager[1]) @ eager[2]).backward()
    for ours, theirs in zip((x, *weights), (eager_x, *eager), strict=True):
        np.testing.assert_allclose(ours.grad, theirs.grad, rtol=1e-12)


def test_without_a_rematerializer_a_value_is_kept():
    x = ag.RematTensor(np.ones((2, 3)))
    assert x.rematerializer is None
    ag.remat_sum(x).backward()
    np.testing.assert_array_equal(x.value, np.ones((2, 3)))
    np.testing.assert_array_equal(x.grad, np.ones((2, 3)))
    ag.remat_sum(x).backward()  # adds to what is there
    np.testing.assert_array_equal(x.grad, np.full((2, 3), 2.0))
