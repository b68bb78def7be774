"""Checks of lesson 02: what the backward pass keeps, and for how long. One module an exercise.

nodes   the engine's nodes that the answers of 2.1 to 2.3 work on
matmul  2.1     chain  2.2     twice  2.3     frozen  2.4
"""

from course_utils.checks.requires_grad import chain, frozen, matmul, twice

EXERCISES = {module.EXERCISE.id: module.EXERCISE for module in (matmul, chain, twice, frozen)}
