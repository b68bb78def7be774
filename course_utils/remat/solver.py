"""A mixed-integer programme, written down row by row, with HiGHS behind it.

`milp` says what a schedule is in terms of unknowns that are 0 or 1. This module only keeps the books: which
unknown has which column, what a row adds up to, what the solver found and how much of it is proven.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

import numpy as np


@dataclass(frozen=True)
class Linear:
    """A constant plus unknowns with coefficients: {column: coefficient}."""

    constant: float = 0.0
    coefficients: Mapping[int, float] = field(default_factory=dict)

    def __add__(self, other: "Linear | float") -> "Linear":
        other = other if isinstance(other, Linear) else Linear(other)
        total = dict(self.coefficients)
        for column, coefficient in other.coefficients.items():
            total[column] = total.get(column, 0.0) + coefficient
        return Linear(self.constant + other.constant, total)

    def __mul__(self, factor: float) -> "Linear":
        scaled = {column: factor * each for column, each in self.coefficients.items()}
        return Linear(factor * self.constant, scaled)

    __rmul__ = __mul__
    __radd__ = __add__

    def __sub__(self, other: "Linear | float") -> "Linear":
        return self + -1 * (other if isinstance(other, Linear) else Linear(other))

    def value(self, solution: np.ndarray) -> float:
        """What it comes to where the unknowns have these values."""
        return self.constant + sum(c * solution[j] for j, c in self.coefficients.items())


NO, YES = Linear(0.0), Linear(1.0)


@dataclass(frozen=True)
class Solution:
    """What the solver found: the unknowns (None: nothing), the objective, a bound below it, the end.

    status: "optimal", "stopped" at the time limit, or "infeasible".
    """

    status: str
    unknowns: np.ndarray | None
    objective: float
    bound: float


class Programme:
    """Unknowns and rows. What is to be made small is the sum of each unknown's cost."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._upper: list[float] = []
        self._whole: list[int] = []
        self._rows: list[Mapping[int, float]] = []
        self._limits: list[float] = []
        self._impossible = False

    def unknown(self, cost: float = 0.0, *, whole: bool = True, at_most: float = 1.0) -> Linear:
        """A new unknown from 0 to `at_most`."""
        self._costs.append(cost)
        self._upper.append(at_most)
        self._whole.append(int(whole))
        return Linear(0.0, {len(self._costs) - 1: 1.0})

    def at_most(self, left: Linear, right: Linear | float) -> None:
        """A new row: left <= right."""
        row = left - right
        coefficients = {column: each for column, each in row.coefficients.items() if each}
        if coefficients:
            self._rows.append(coefficients)
            self._limits.append(-row.constant)
        elif row.constant > 1e-9:
            self._impossible = True

    def solve(self, limit_seconds: float) -> Solution:
        """The best unknowns, or the best that were found in time. (HiGHS, through SciPy.)"""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        if self._impossible:
            return Solution("infeasible", None, inf, inf)
        if not self._costs:
            return Solution("optimal", np.zeros(0), 0.0, 0.0)
        entries = [(r, c, each) for r, row in enumerate(self._rows) for c, each in row.items()]
        rows, columns, data = zip(*entries) if entries else ((), (), ())
        matrix = csr_array((data, (rows, columns)), shape=(len(self._rows), len(self._costs)))
        found = milp(
            self._costs,
            constraints=LinearConstraint(matrix, -np.inf, self._limits),
            integrality=self._whole,
            bounds=Bounds(0, self._upper),
            options={"time_limit": limit_seconds, "mip_rel_gap": 0},
        )
        if found.status == 2:
            return Solution("infeasible", None, inf, inf)
        if found.status not in (0, 1):
            raise RuntimeError(f"the solver gave up: {found.message}")
        bound = -inf if found.mip_dual_bound is None else found.mip_dual_bound
        objective = inf if found.x is None else float(found.fun)
        return Solution("stopped" if found.status else "optimal", found.x, objective, bound)
