"""What a kernel's exercise consists of, and the judgement that all of them share.

In this order, since each would hide what comes after it: it is a kernel; it came to its end; no access was
outside a tensor, or to an input; every number was stored, once; the values; the type that it accumulates in;
and the bytes, tensor by tensor.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from course_utils.checks.core import Case, Measure, Observation, Status, Verdict, failed, passed
from course_utils.checks.flash_attention_gpu import faults
from course_utils.checks.judging import say
from course_utils.triton_meter import Launch, Tensor

Wanted = dict[
    str, tuple[np.ndarray, float]
]  # by tensor: values, and the largest error that is let pass
Mistake = tuple[
    str, str, dict[str, np.ndarray]
]  # cause, why, what it leaves in some of the tensors


@dataclass(frozen=True)
class Moves:
    """What may cross for one tensor, in bytes: (least, most). `why` is said when it is more."""

    loaded: tuple[int, int] = (0, 0)
    stored: tuple[int, int] = (0, 0)
    why: str = ""
    cause: str = "read too much"


@dataclass(frozen=True)
class KernelTask:
    """How a kernel's exercise is judged. All are functions of the case. What runs a kernel is not here: a grader's
    sandbox has that, and none of this.

    launch: the grid and the arguments. wanted: outputs and tolerances. mistakes: what typical ones compute.
    moves: the bytes of each tensor. before: patterns that name a cause before values are compared.
    """

    name: str
    launch: Callable[[Case], Launch]
    wanted: Callable[[Case], Wanted]
    mistakes: Callable[[Case], Iterator[Mistake]]
    moves: Callable[[Case], dict[str, Moves]]
    before: Callable[[Case, Observation], Verdict | None] = lambda case, seen: None
    not_finite: str = (
        "exp of a large number overflows, unless the row's largest is subtracted first."
    )

    def judge(self, case: Case, seen: Observation) -> Verdict:
        if wrong := self._not_this_kernel(case, seen):
            return wrong
        if case.given["rung"] == "compiler":
            return _judge_compiled(seen)
        if seen.more.get("no GPU"):
            told = "Not verified: on a GPU, since there is none here."
            return Verdict(Status.PASSED, told)
        if wrong := faults.ended(seen):
            return wrong
        if case.given["rung"] == "GPU":
            told = f"Verified on {seen.more['device']}: values in {case.given['dtype']}."
            return self._wrong_values(case, seen) or Verdict(Status.PASSED, told)
        wrong = faults.forbidden(case, seen, self.launch(case)) or self.before(case, seen)
        wrong = wrong or faults.not_stored(seen) or self._wrong_values(case, seen)
        wrong = wrong or faults.order(seen) or faults.idle(seen, self.launch(case))
        return wrong or self._judge_moves(case, seen)

    def _not_this_kernel(self, case: Case, seen: Observation) -> Verdict | None:
        if "not a kernel" in seen.more:
            return failed(
                "not a kernel",
                f"{self.name} should be a Triton kernel. {seen.more['not a kernel']}",
            )
        if "parameters" in seen.more:
            launch = self.launch(case)
            wanted = ", ".join([*launch.arguments, *launch.constexprs])
            got = ", ".join(seen.more["parameters"])
            return failed("wrong parameters", f"{self.name} takes ({wanted}). Yours takes ({got}).")
        return None

    def _wrong_values(self, case: Case, seen: Observation) -> Verdict | None:
        wanted = self.wanted(case)
        for name, (values, tolerance) in wanted.items():
            got = np.asarray(seen.value[name], np.float64)
            if _within(got, values, tolerance):
                continue
            with np.errstate(all="ignore"):
                for cause, why, twins in self.mistakes(case):
                    twin = twins.get(name)
                    if twin is None or _within(twin, values, 2 * tolerance):
                        continue
                    larger = max(
                        1.0,
                        np.abs(twin).max()
                        / np.abs(values).max(initial=1e-9, where=np.isfinite(values)),
                    )
                    if _within(got, twin, 2 * tolerance * larger):
                        return failed(cause, f"In {name}: {why}")
            return self._unnamed(name, got, values, tolerance)
        return None

    def _unnamed(self, name: str, got: np.ndarray, values: np.ndarray, tolerance: float) -> Verdict:
        unlike = ~np.isfinite(got) & np.isfinite(values)
        if unlike.any():
            at = tuple(map(int, np.argwhere(unlike)[0]))
            return failed("not finite", f"{int(unlike.sum())} elements of {name} are inf or nan, the first at "
                          f"index {at}: {self.not_finite}")  # fmt: skip
        with np.errstate(invalid="ignore"):
            error = np.where(got == values, 0.0, np.abs(got - values))
        at = np.unravel_index(
            np.argmax(np.nan_to_num(error, nan=np.inf, posinf=np.inf)), error.shape
        )
        right = f"{float(values[at]):.6g}"
        return failed("wrong values", f"In {name} expected {right} at index {tuple(map(int, at))}, got "
                      f"{float(got[at]):.6g}. An error of {tolerance:.2g} would pass.")  # fmt: skip

    def _judge_moves(self, case: Case, seen: Observation) -> Verdict:
        allowed = self.moves(case)
        for name, moves in allowed.items():
            for way, (least, most), word in (
                ("loaded", moves.loaded, "read"),
                ("stored", moves.stored, "written"),
            ):
                got = seen.more[way][name]
                if got > most:
                    times = f", {got / most:.3g} times as much" if most else ""
                    return failed(
                        moves.cause if way == "loaded" else "written too much",
                        f"{say(got)} of {name} were {word}{times}; {say(most)} are enough. {moves.why}",
                        **_totals(seen, allowed),
                    )
                if got < least:
                    return failed(
                        "other blocks",
                        f"Only {say(got)} of {name} were {word}, and with blocks of the given sizes it is "
                        f"{say(least)}. Each program works on its own block, of the size in its parameters.",
                        **_totals(seen, allowed),
                    )
        return passed(**_totals(seen, allowed))


def _judge_compiled(seen: Observation) -> Verdict:
    """The compiler's word; and what has been verified by now, since this case comes after the interpreter's."""
    sound = "Verified in Triton's interpreter: values, bounds, and every byte that crosses."
    done = []
    for made in seen.more["compiled"]:
        if made["error"]:
            where = f" at `{made['line']}`" if made["line"] else ""
            return failed(
                "does not compile",
                "The interpreter runs this kernel and its values are right, but Triton's compiler refuses it"
                f"{where}: {made['error']}",
            )
        if made["ended"]:
            told = f" Not verified: that it compiles (the compiler stopped here: {made['ended']})."
            return Verdict(Status.PASSED, sound + told)
        done.append(f"sm_{made['sm']}")
    return Verdict(Status.PASSED, f"{sound} It compiles for {' and '.join(done)}.")


def _totals(seen: Observation, allowed: dict[str, Moves]) -> dict[str, Measure]:
    parts = {}
    for word, way in (("read", "loaded"), ("written", "stored")):
        least, most = (sum(getattr(moves, way)[i] for moves in allowed.values()) for i in (0, 1))
        parts[word] = Measure(sum(seen.more[way].values()), "bytes", most, least)
    return parts


def _within(got: np.ndarray, values: np.ndarray, tolerance: float) -> bool:
    if got.shape != values.shape:
        return False
    with np.errstate(invalid="ignore"):
        return bool(((got == values) | (np.abs(got - values) <= tolerance)).all())


def output(*shape: int, dtype: str = "float32", row_stride: int = 0) -> Tensor:
    """A tensor to be stored to, full of nan: what is not stored shows."""
    numpy_type = "float32" if dtype == "bfloat16" else dtype
    return Tensor(np.full(shape, np.nan, numpy_type), dtype, row_stride, writable=True)


def rungs(
    cases: list[tuple[str, dict]], compiled: dict, on_gpu: list[tuple[str, dict]], seed: int
) -> list[Case]:
    """The cases of an exercise: interpreter, compiler, GPU."""
    made = [Case(name, given | {"rung": "interpreter", "seed": seed}) for name, given in cases]
    made.append(Case("compiled", compiled | {"rung": "compiler", "seed": seed}))
    return made + [
        Case(f"on a GPU: {name}", given | {"rung": "GPU", "seed": seed}) for name, given in on_gpu
    ]
