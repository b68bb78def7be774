"""3.4: a segment is recomputed once, and let go of. The count of products tells, and the peak."""

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import over_budget
from course_utils.checks.rematerialization import listing, run, training
from course_utils.checks.rematerialization.run import Layers


def _judge(case: Case, seen: Observation) -> Verdict:
    layers = Layers(case)
    wrong = (
        training.wrong_result(layers, seen)
        or listing.wrong_values(layers, seen)
        or training.wrong_stage(layers, seen)
        or training.wrong_training(layers, seen)
    )
    if wrong:
        return wrong
    if case.given.get("memory"):
        return training.judge_memory(layers, seen)
    wrong = (
        _values_left(seen)
        or _products(case, layers, seen)
        or training.wrong_alone(layers, seen)
        or _not_in_the_nodes(layers, seen)
    )
    return wrong or passed()


def _values_left(seen: Observation) -> Verdict | None:
    if not seen.more["left"]:
        return None
    layer = seen.more["left"][0]
    return failed(
        "segment not freed",
        f"After the backward pass the output of layer {layer} still has a value that came back. A product's step "
        "discards its inputs' values, each once: what is filled in after that step stays.",
    )


def _not_in_the_nodes(layers: Layers, seen: Observation) -> Verdict | None:
    for each in seen.more["alone"]:
        passed_by = range(layers.start(each["layer"]) + 1, each["layer"])
        empty = [k for k in passed_by if k not in each["filled"]]
        if empty:
            return failed(
                "not in the nodes",
                f"The rematerializer of layer {each['layer']} passes the output of layer {empty[0]}, whose node is "
                "still without a value afterwards. What it computes on its way is to wait in the nodes.",
            )
    return None


def _products(case: Case, layers: Layers, seen: Observation) -> Verdict | None:
    one = layers.flops(0, 1)
    again = sum(layers.flops(segment[0], segment[-1] + 1) for segment in layers.segments())
    done = seen.more["flops"] - layers.pass_flops()
    if case.given["widths"][0] != case.given["widths"][-1]:
        unit, one = "multiplications and additions", 1
    else:
        unit = "products"
    measure = Measure(done / one, unit, 1.001 * again / one, 0.999 * again / one)
    per_tensor = sum(
        layers.flops(segment[0], layer + 1) for segment in layers.segments() for layer in segment
    )
    each_alone = abs(done - per_tensor) < 0.001 * per_tensor and per_tensor > again
    if done < 0.999 * again:
        return failed(
            "too few products",
            f"What was discarded takes {again / one:.6g} {unit} to compute again; {max(done, 0) / one:.6g} were "
            "counted. Values were kept somewhere, or multiplied where products are not counted: use `@` or "
            "np.matmul on the nodes' values.",
        )
    return over_budget(
        "recomputed",
        measure,
        "each value from its checkpoint" if each_alone else "too many products",
        f"{done / one:.6g} {unit} were computed again; with each segment computed once it is {again / one:.6g}. "
        "On its way to the value that is asked for, a rematerializer passes others that will be asked for next.",
    )


EXERCISE = Exercise("3.4", "a segment at a time", 3, listing.cases, run.run, _judge)
