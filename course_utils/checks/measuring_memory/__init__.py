"""Checks of lesson 01: what arrays take, keep alive, and need on the way. One module an exercise.

payload  1.1     owned  1.2     in_place  1.3     blocks  1.4, with distances, its oracle
"""

from course_utils.checks.measuring_memory import blocks, in_place, owned, payload

EXERCISES = {module.EXERCISE.id: module.EXERCISE for module in (payload, owned, in_place, blocks)}
