"""A budget that no schedule meets. Every planner raises this one exception, and it names a budget that works."""


class InfeasibleBudget(ValueError):
    """No schedule that the planner knows stays within the budget.

    smallest_bytes: the smallest budget for which it has one. proven: whether that is certain, or only the
    smallest that was found in time.
    """

    def __init__(self, budget_bytes: float, smallest_bytes: float, proven: bool = True) -> None:
        surely = "is" if proven else "is at most"
        super().__init__(
            f"no schedule stays within {_said(budget_bytes)} bytes: "
            f"the smallest budget that one does {surely} {_said(smallest_bytes)} bytes"
        )
        self.budget_bytes, self.smallest_bytes, self.proven = budget_bytes, smallest_bytes, proven


def _said(nbytes: float) -> str:
    """Whole numbers to the last digit: a budget that is rounded down would not work."""
    return f"{int(nbytes):,}" if nbytes == int(nbytes) else f"{nbytes:,.10g}"
