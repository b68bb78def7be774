"""Checks of lesson 07: attention that stays on the chip. One module an exercise.

chip     a program on the two-level memory, observed; and what is wrong with any of them
slips    attention by blocks of keys, with the usual mistakes
forward  7.1     traffic  7.2     queries_outside  7.3     causal  7.4     backward  7.5
"""

from course_utils.checks.flash_attention import (
    backward,
    causal,
    forward,
    queries_outside,
    traffic,
)

_MODULES = (forward, traffic, queries_outside, causal, backward)
EXERCISES = {module.EXERCISE.id: module.EXERCISE for module in _MODULES}
