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
