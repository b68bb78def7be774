"""What both 3.3 and 3.4 must fulfil: nodes in order, gradients, memory, rematerializers that stand alone."""

from course_utils.checks.core import Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, over_budget, peak, say, wrong_array
from course_utils.checks.rematerialization.run import Layers


def wrong_result(layers: Layers, seen: Observation) -> Verdict | None:
    """The list of nodes, and which of them are kept."""
    if seen.more["kind"]:
        return failed(
            "wrong type",
            f"Expected a list of the {len(layers.weights)} nodes that `matmul` made, one for each layer, "
            f"got {seen.more['kind']}.",
        )
    if seen.more["misplaced"]:
        k = seen.more["misplaced"][0]
        before = f"item {k - 1}" if k else "x"
        return failed(
            "not layer by layer",
            f"Item {k} of the list is not the product of {before} and weights[{k}]. The list has the outputs of the "
            "layers 0, 1, 2 and so on, each once; x is not among them.",
        )
    if seen.more["last_gone"]:
        return failed(
            "last value discarded",
            "The value of the last output is gone before the loss has read it. A value is discarded by whoever "
            "has read it: `matmul` and the sum do that.",
        )
    if -1 in seen.more["lost"]:
        return failed(
            "input discarded", "The input x is kept: it has no rematerializer, and a value."
        )
    for layer in range(len(layers.weights)):
        kept, wanted = layer in seen.more["kept"], layer in layers.checkpoints
        if wanted and not kept:
            return failed(
                "discarded a checkpoint",
                f"Layer {layer} is a checkpoint, but its output has a rematerializer, so its value was "
                "discarded. Whoever starts from it finds nothing.",
            )
        if kept and not wanted:
            return failed(
                "no rematerializer",
                f"The output of layer {layer} is no checkpoint and has no rematerializer: it is kept.",
            )
    if seen.more["lost"]:
        return failed(
            "checkpoint without value", f"The value of layer {seen.more['lost'][0]} is gone."
        )
    return None


def wrong_stage(layers: Layers, seen: Observation) -> Verdict | None:
    """A rematerializer that returned no array, or raised."""
    for refill in seen.more["refills"]:
        if refill["value"] is None or refill["value"] is False:
            return failed(
                "rematerializer returned nothing",
                f"The rematerializer of layer {refill['layer']} returned no array. `backward` stores what it "
                "returns.",
            )
    if seen.more["error"]:
        return failed(
            "error in a rematerializer", f"{seen.more['stage']} came to {seen.more['error']}."
        )
    return None


def wrong_alone(layers: Layers, seen: Observation) -> Verdict | None:
    """A rematerializer called by itself, out of the order in which the backward pass asks."""
    for each in seen.more["alone"]:
        layer = each["layer"]
        told = (
            f"Called by itself, when no other output is there, the rematerializer of layer {layer}"
        )
        if each["error"]:
            return failed("right only once", f"{told} came to {each['error']}.")
        if close(each["value"], layers.outputs[layer]):
            continue
        others = (k for k, output in enumerate(layers.outputs) if close(each["value"], output))
        if (other := next(others, None)) is not None:
            return failed(
                "another layer's output",
                f"{told} returned the output of layer {other}. Nothing goes wrong as long as layer {other} is "
                "always asked first. Does every rematerializer know where its own layer is?",
            )
        return failed("right only once", f"{told} did not return that layer's output.")
    return None


def wrong_training(layers: Layers, seen: Observation) -> Verdict | None:
    """The gradients."""
    for k, (actual, expected) in enumerate(zip(seen.value, layers.gradients())):
        wrong = wrong_array(actual, expected, what=f"the gradient of weight {k}")
        if wrong:
            return wrong
    return None


def judge_memory(layers: Layers, seen: Observation) -> Verdict:
    """Held after the forward pass, peak and rest of the backward one."""
    longest = max(map(len, layers.segments()))
    activation_bytes = layers.x.nbytes
    of_case = f", checkpoints {layers.checkpoints}"
    kept = len(layers.checkpoints)
    forward = Measure(
        seen.more["forward_bytes"],
        "bytes",
        (kept + 0.02) * activation_bytes,
        kept * activation_bytes,
    )
    told = (
        f"After the forward pass {say(seen.more['forward_bytes'])} are held, and the {kept} "
        f"checkpoint{'s' * (kept != 1)} take{'s' * (kept == 1)} {say(kept * activation_bytes)}. "
        "A rematerializer that refers to an array keeps it alive."
    )
    within_forward = peak(seen.more["forward_peak"], (kept + 4) * activation_bytes)
    wrong = over_budget(
        "held after the forward pass", forward, "kept in a closure", told
    ) or over_budget(
        "peak of the forward pass",
        within_forward,
        "discarded too late",
        f"The forward pass had {seen.more['forward_peak'] / activation_bytes:.1f} activations alive at once. The "
        f"checkpoints are {kept}, and a product has an input and an output. Does a node get its rematerializer "
        "before the next product reads it?",
    )
    if wrong:
        return wrong
    within = peak(
        seen.peak_bytes,
        (kept + longest + 4) * activation_bytes,
        (kept + 2) * activation_bytes,
    )
    after = Measure(
        seen.more["after_bytes"],
        "bytes",
        (kept + 1.02) * activation_bytes,
        kept * activation_bytes,
    )
    extra = " and the longest segment" if longest > 1 else ", and one value that came back"
    if seen.more["made_again"] and within.value > within.at_most:
        return failed(
            "nodes in a rematerializer",
            f"The backward pass had {seen.peak_bytes / activation_bytes:.1f} activations alive at once. The "
            "rematerializers call `matmul`, which makes nodes. A node and its `_backward` refer to each other, so "
            "its value stays until the garbage collector comes. Nobody goes backward through these: multiply "
            "values.",
        )
    wrong = over_budget(
        "peak of the backward pass",
        within,
        "kept what came back",
        f"The backward pass had {seen.peak_bytes / activation_bytes:.1f} activations alive at once. The "
        f"checkpoints are {kept}{extra}, {longest}; gradients and what is in use take three or four more. "
        "Values that came back are held after their last reader. What refers to them?",
    ) or over_budget(
        "held after the backward pass",
        after,
        "kept what came back",
        f"After the backward pass {say(seen.more['after_bytes'])} are held: more than the checkpoints and the "
        "gradients. Values that came back are still alive. What refers to them?",
    )
    return wrong or passed(
        **{
            f"held after the forward pass{of_case}": forward,
            f"peak of the backward pass{of_case}": within,
        }
    )
