"""The lecture's autograd engine, as the lecture starts with it (figures L12-16 to L12-25).

A `Tensor` is a node of the computation's graph: a value, a gradient of the same size, the tensors it was
made from, and a function that sends its gradient back to them. The value is copied and the gradient is
allocated at once, for every node. That is wasteful, and it is where lesson 02 begins; its next version,
`LazyTensor`, stands at the end.

A node's `_backward` refers to the node, and the node to its `_backward`. So a graph is a ring of
references, and Python frees it when its garbage collector comes by, not when the last name goes.
"""

from collections.abc import Callable

import numpy as np


class Tensor:
    """A node: `value` and `grad` (both arrays of one shape), `inputs` (the nodes it was made from)."""

    def __init__(self, value, inputs=()):
        self.value = 1.0 * value
        self.grad = np.zeros_like(self.value)
        self.inputs = inputs
        self._backward = lambda: None

    def __matmul__(self, other):
        return matmul(self, other)

    def __add__(self, other):
        return add(self, other)

    def topological_sort(self) -> list["Tensor"]:
        """Every node that this one depends on, inputs before outputs, this one last."""
        order, seen, stack = [], set(), [(self, False)]
        while stack:
            node, inputs_done = stack.pop()
            if inputs_done:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((node_in, False) for node_in in reversed(node.inputs))
        return order

    def backward(self) -> None:
        """Fill `grad` of every node with the derivative of this one, a single number."""
        self.grad = np.array(1.0)
        topo_order = self.topological_sort()
        for node in reversed(topo_order):
            node._backward()


def matmul(x: Tensor, w: Tensor) -> Tensor:
    """x @ w: (B, N) times (N, M) gives (B, M)."""
    output = Tensor(np.matmul(x.value, w.value), inputs=(x, w))

    def _backward():
        x.grad += np.matmul(output.grad, w.value.T)
        w.grad += np.matmul(x.value.T, output.grad)

    output._backward = _backward
    return output


def add(x: Tensor, y: Tensor) -> Tensor:
    """x + y, of one shape."""
    output = Tensor(x.value + y.value, inputs=(x, y))

    def _backward():
        x.grad += output.grad
        y.grad += output.grad

    output._backward = _backward
    return output


def sum(x: Tensor) -> Tensor:
    """The sum of all of x's elements, a single number: the lecture's loss."""
    output = Tensor(np.sum(x.value), inputs=(x,))

    def _backward():
        x.grad += output.grad

    output._backward = _backward
    return output


# --- what the lecture does next: a gradient only where it is asked for (L12-29) -------------------


class LazyTensor(Tensor):
    """A node whose `grad` is None, unless `requires_grad`, until the backward pass makes it."""

    def __init__(self, value, requires_grad=False, inputs=()):
        self.value = 1.0 * value
        self.grad = np.zeros_like(self.value) if requires_grad else None
        self.requires_grad = requires_grad
        self.inputs = inputs
        self._backward = lambda: None


def connect(backward: Callable, output: Tensor) -> Tensor:
    """Let `backward(*inputs, output)` be what the output does in its step of the backward pass."""
    output._backward = lambda: backward(*output.inputs, output)
    return output


def lazy_matmul(x: LazyTensor, w: LazyTensor, backward: Callable) -> LazyTensor:
    """x @ w, whose step in the backward pass is `backward(x, w, output)`."""
    output = LazyTensor(np.matmul(x.value, w.value), inputs=(x, w))
    return connect(backward, output)


def lazy_add(x: LazyTensor, y: LazyTensor, backward: Callable) -> LazyTensor:
    """x + y, whose step in the backward pass is `backward(x, y, output)`."""
    output = LazyTensor(x.value + y.value, inputs=(x, y))
    return connect(backward, output)


def lazy_sum(x: LazyTensor) -> LazyTensor:
    """The sum of x's elements. Its step makes x's gradient, ones times its own, if there is none yet."""

    def backward(x, output):
        if x.grad is None:
            x.grad = np.full_like(x.value, output.grad)
        else:
            x.grad += output.grad

    return connect(backward, LazyTensor(np.sum(x.value), inputs=(x,)))


# --- and then: a value may be discarded, where it can be computed again (L12-34, L12-35) ----------


class RematTensor(LazyTensor):
    """A node whose `value` may be None for a while, if `rematerializer()` computes it again.

    rematerializer=None: keep the value.
    """

    def __init__(self, value, requires_grad=False, inputs=(), rematerializer=None):
        super().__init__(value, requires_grad, inputs)
        self.rematerializer = rematerializer

    def backward(self, rematerialize: Callable = lambda node: None) -> None:
        """As before, but `rematerialize(node)` is called ahead of each node's step (L12-38)."""
        self.grad = np.array(1.0)
        for node in reversed(self.topological_sort()):
            rematerialize(node)
            node._backward()


def discard_value_if_has_rematerializer(tensor: RematTensor) -> None:
    """Let go of a value that can be computed again (L12-39)."""
    if tensor.rematerializer is not None:
        tensor.value = None


def remat_sum(x: RematTensor) -> RematTensor:
    """The sum of x's elements. x's value is discarded when it has been read, forward and backward."""
    output = RematTensor(np.sum(x.value), inputs=(x,))

    def _backward():
        if x.grad is None:
            x.grad = np.full_like(x.value, output.grad)
        else:
            x.grad += output.grad
        output.grad = None
        discard_value_if_has_rematerializer(x)

    output._backward = _backward
    discard_value_if_has_rematerializer(x)
    return output
