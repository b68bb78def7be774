"""Checks of lesson 04: which values to keep, under a budget. One module an exercise.

brackets  reads the plans that the answers of 4.2 to 4.4 return
price   4.1     periodic  4.2     halves      4.3     best  4.4
graphs  4.5     torch_plan  4.6     (optional)
"""

from course_utils.checks.optimal_rematerialization import (
    best,
    graphs,
    halves,
    periodic,
    price,
    torch_plan,
)

EXERCISES = {
    module.EXERCISE.id: module.EXERCISE
    for module in (price, periodic, halves, best, graphs, torch_plan)
}
