"""A budget that no schedule meets. Every planner raises this one exception, and it names a budget that works."""


class InfeasibleBudget(ValueError):
    """No schedule that the planner knows stays within the budget.

    smallest_bytes: the smallest budget for which it has one. proven: whether that is certain, or only the
    smallest that was found in time.
    """

    def __init__(self, budget_bytes: float, smallest_bytes: float, proven: bool = True) -> None:
        surely = "is" if proven else "is at most"
        super().__init__(
            f"no schedule stays within {budget_bytes:,.10g} bytes: "
            f"the smallest budget that one does {surely} {smallest_bytes:,.10g} bytes"
        )
        self.budget_bytes, self.smallest_bytes, self.proven = budget_bytes, smallest_bytes, proven
