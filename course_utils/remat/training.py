"""From a forward graph to the graph of a training step, by one plain rule.

Every forward value that the loss depends on gets one gradient of its own size. The gradient of v is made in
one step, from a share of each operation that reads v. The share of operation c is computed from the gradient
of c and from those values that `backward_reads` of c names for v. So while the gradient of v is made, the
gradients of all its readers are alive, and what their backward steps read.

The first share is computed in place of the gradient. A further one is an array of the same size beside it,
until it is added: that is workspace. A sum's share is the sum's own gradient, which needs no array.

The gradients of weights are made along the way and are not counted: they are arrays that exist from the
start, as in `execute.matmul_chain`. Where an operation has weights and its input needs no gradient, the step
for the weights is a value without bytes.

The loss reads the last value and makes its gradient, at no cost, as in `Chain.graph`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from course_utils.remat.model import Graph, Value


@dataclass(frozen=True)
class Operation:
    """One operation of the forward pass, named by the value that it makes.

    time, nbytes, workspace_bytes: as in `model.Value`. reads: the values or inputs that it reads.
    backward_reads: for each read that a gradient flows to, the values that this share is computed from:
    some of `reads`, or the operation's own output.
    weights: it has weights, whose gradient is made with the share of its only read.
    is_sum: its shares are its own gradient, handed on as it is.
    backward_times: time of each share. Not given: that of the forward step, as for a product of two
    matrices, and once more for weights.
    backward_workspace_bytes: of each share; 0 if not given.
    """

    time: float
    nbytes: int
    reads: tuple[str, ...]
    backward_reads: Mapping[str, tuple[str, ...]]
    weights: bool = False
    is_sum: bool = False
    workspace_bytes: int = 0
    backward_times: Mapping[str, float] = field(default_factory=dict)
    backward_workspace_bytes: Mapping[str, int] = field(default_factory=dict)


def gradient_name(name: str) -> str:
    """What the gradient of a value is called: d_z3 for z3."""
    return f"d_{name}"


def weights_step(name: str) -> str:
    """What the step is called that makes the gradient of an operation's weights and nothing else."""
    return f"d_{name}_weights"


def training_graph(
    operations: Mapping[str, Operation],
    inputs: Mapping[str, int],
    wanted: tuple[str, ...] = (),
) -> Graph:
    """The graph of a training step: forward values, the loss, and the gradients back.

    operations: in an order in which they can run; the loss reads the last one. inputs: their bytes by
    name. wanted: the inputs whose gradients are wanted. Those are results, and so are the steps for
    weights alone. Raises ValueError where an operation's shares read what it neither reads nor makes,
    or an operation with weights has more than one share.
    """
    values = {}
    for name, operation in operations.items():
        _refuse_impossible(name, operation)
        values[name] = Value(
            operation.time, operation.nbytes, operation.reads, operation.workspace_bytes
        )
    last = list(operations)[-1]
    values[gradient_name(last)] = Value(0, operations[last].nbytes, (last,), once=True)
    results = []
    for name in (*reversed(operations), *wanted):
        readers = readers_backward(operations, name)
        if name != last and any(gradient_name(reader) in values for reader in readers):
            nbytes = operations[name].nbytes if name in operations else inputs[name]
            values[gradient_name(name)] = _gradient(operations, name, readers, nbytes)
            if name in wanted:
                results.append(gradient_name(name))
        operation = operations.get(name)
        alone = operation and not {*operation.backward_reads} & {*operations, *wanted}
        if alone and operation.weights and gradient_name(name) in values:
            values[weights_step(name)] = _weights_alone(name, operation)
            results.append(weights_step(name))
    return Graph(values, tuple(results), tuple(inputs))


def readers_backward(operations: Mapping[str, Operation], name: str) -> list[str]:
    """The operations that send a share of their gradient to this value, sums last: they need no array."""
    readers = [reader for reader, each in operations.items() if name in each.backward_reads]
    return sorted(readers, key=lambda reader: operations[reader].is_sum)


def _gradient(
    operations: Mapping[str, Operation], name: str, readers: list[str], nbytes: int
) -> Value:
    reads, time, workspaces = [], 0, [0]
    for number, reader in enumerate(readers):
        operation = operations[reader]
        reads += [gradient_name(reader), *operation.backward_reads[name]]
        time += operation.backward_times.get(name, operation.time * (1 + operation.weights))
        beside = nbytes if number and not operation.is_sum else 0
        workspaces.append(operation.backward_workspace_bytes.get(name, 0) + beside)
    return Value(time, nbytes, tuple(dict.fromkeys(reads)), max(workspaces), once=True)


def _weights_alone(name: str, operation: Operation) -> Value:
    ((read, saved),) = operation.backward_reads.items()
    reads = (gradient_name(name), *saved)
    workspace_bytes = operation.backward_workspace_bytes.get(read, 0)
    return Value(operation.time, 0, reads, workspace_bytes, once=True)


def _refuse_impossible(name: str, operation: Operation) -> None:
    if operation.weights and len(operation.backward_reads) != 1:
        raise ValueError(f"{name} has weights, so it must send its gradient to one value")
    if len(set(operation.reads)) < len(operation.reads):
        raise ValueError(f"{name} reads a value twice, which would need two shares for it")
    for read, saved in operation.backward_reads.items():
        if read not in operation.reads or not {*operation.reads, name}.issuperset(saved):
            raise ValueError(f"the share of {name} for {read} reads what {name} does not know")
