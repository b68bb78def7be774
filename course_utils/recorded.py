"""Measurements that were made once and are kept: read here, written by `course.py bench` alone.

Most readers have no GPU, and the lesson on GPUs must not make up numbers for them. So a real machine was
measured, and whatever shows one of its numbers shows its name and the date too. A fresh measurement on the
reader's own GPU has the same face, and every figure draws either.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from course_utils.errors import CourseError

SCHEMA = 1
FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@dataclass(frozen=True)
class Measurement:
    """One rung at one size, forward or backward. If `reason` is not empty, it says why there are no numbers.

    `ratio` is how many times as fast it is as PyTorch's flash backend (or what stood in for it).
    """

    rung: str
    n: int
    d: int
    causal: bool
    passes: str  # "forward" or "backward"
    ms: float = (
        0.0  # the median; a tenth of the runs took less than ms_low, a tenth more than ms_high
    )
    ms_low: float = 0.0
    ms_high: float = 0.0
    repeats: int = 0
    tflops: float = 0.0
    of_matmul: float = 0.0  # part of the rate of a large matrix product
    ratio: float | None = None
    traffic_bytes: int | None = None  # by closed form, where there is one
    extra_bytes: int = 0  # at worst, besides the results
    extra_bytes_a_sequence: float = 0.0  # the same for one sequence of the batch
    errors: tuple[float, ...] = ()  # of O, or of dQ, dK, dV, against float64, by norm
    skipped: str = ""
    failed: str = ""
    traffic_failed: str = (
        ""  # why traffic_bytes could not be counted, though there is a closed form
    )

    @property
    def reason(self) -> str:
        return self.skipped or self.failed

    @classmethod
    def of(cls, row: dict) -> "Measurement":
        row = {"passes" if name == "pass" else name: value for name, value in row.items()}
        known = {name: row[name] for name in cls.__dataclass_fields__ if name in row}
        return cls(**known | {"errors": tuple(known.get("errors", ()))})


@dataclass(frozen=True)
class Recorded:
    """A file of measurements, or a fresh one. `data` is all of it, as the file has it."""

    data: dict = field(repr=False)
    is_fresh: bool = False

    @property
    def machine(self) -> str:
        """The GPU's name (or the CPU's)."""
        return self.data["machine"].get("gpu") or self.data["machine"].get("cpu", "unknown machine")

    @property
    def date(self) -> str:
        """The day, as 2026-11-21."""
        return self.data["date"][:10]

    @property
    def machine_line(self) -> str:
        """Machine, versions and date: for every caption."""
        names = ["torch"] + ["triton"] * (self.data["kind"] == "gpu")
        told = [self.machine, *(f"{name} {self.data['versions'][name]}" for name in names)]
        return ", ".join(told) + f", {'measured here' if self.is_fresh else 'recorded'} {self.date}"

    def __str__(self) -> str:
        return self.machine_line

    @property
    def measurements(self) -> list[Measurement]:
        """Every row of the ladder."""
        return [Measurement.of(row) for row in self.data.get("ladder", ())]

    def ladder(
        self, d: int = 64, causal: bool = False, passes: str = "forward"
    ) -> dict[str, dict[int, Measurement]]:
        """By rung, in the ladder's order, and by n; rows without numbers are there with their `reason`."""
        found = {}
        for m in sorted(self.measurements, key=lambda m: m.n):
            if (m.d, m.causal, m.passes) == (d, causal, passes):
                found.setdefault(m.rung, {})[m.n] = m
        return {rung: found[rung] for rung in self.titles if rung in found}

    def at(
        self, rung: str, n: int, d: int = 64, causal: bool = False, passes: str = "forward"
    ) -> Measurement:
        """One rung at one size. Raises CourseError, naming what there is, if it was not measured."""
        rows = self.ladder(d, causal, passes)
        if rung not in rows:
            raise CourseError(f"no rung {rung!r} at D = {d}; there are: {_list(rows)}")
        if n not in rows[rung]:
            raise CourseError(f"{rung} was not measured at N = {n}, but at {_list(rows[rung])}")
        return rows[rung][n]

    @property
    def titles(self) -> dict[str, str]:
        """The rungs' names in the file, and what figures call them."""
        return self.data.get("rungs", {})

    @property
    def baseline(self) -> str:
        """The rung that ratios are taken to: "flash" on any GPU from sm_80 on."""
        return self.data.get("baseline", "flash")

    @property
    def matmul_tflops(self) -> float:
        """The rate of a large matrix product of 16-bit numbers, in 10^12 operations a second."""
        return self.data["ceilings"]["matmul_flops_per_second"] / 1e12

    @property
    def copy_tb_per_second(self) -> float:
        """Bytes that a large copy reads and writes a second, in 10^12."""
        return self.data["ceilings"]["copy_bytes_per_second"] / 1e12

    @property
    def gn27(self) -> dict:
        """The paper's measurement again: `sizes`, `paper`, and `rows` (variant, rung, ms, peak_bytes, ...)."""
        return self.data["gn27"]

    def gn27_row(self, rung: str, variant: str = "causal, dropout") -> dict:
        """One row of it: ms, peak_bytes, runtime_ratio and peak_ratio to the dense way."""
        for row in self.gn27["rows"]:
            if (row["rung"], row["variant"]) == (rung, variant):
                return row
        raise CourseError(f"GN-27 was not measured for {rung!r}, {variant!r}")

    @property
    def accuracy(self) -> list[dict]:
        """Errors in every number format: dtype, d, causal, rung, o, dq, dk, dv, ratios."""
        return self.data.get("accuracy", [])

    @property
    def targets(self) -> list[dict]:
        """What the course's kernels must reach: what, wanted, reached, met."""
        return self.data.get("targets", [])

    @property
    def tests(self) -> dict:
        """The tests marked gpu: passed, failed, skipped, date; empty if they were not run."""
        return self.data.get("tests", {})


def recorded(kind: str = "gpu", folder: Path = FOLDER) -> Recorded:
    """The measurements kept in benchmarks/<kind>.json. CourseError if there are none to be read."""
    file = folder / f"{kind}.json"
    how = f"make them with: python course.py bench {kind}"
    try:
        data = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise CourseError(f"there are no measurements in benchmarks/{file.name}; {how}") from None
    except (OSError, ValueError) as error:
        raise CourseError(f"benchmarks/{file.name} can't be read ({error}); {how}") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise CourseError(f"benchmarks/{file.name} is not of schema {SCHEMA}; {how}")
    return Recorded(data)


def _list(names: Iterable) -> str:
    return ", ".join(str(name) for name in names) or "none"
