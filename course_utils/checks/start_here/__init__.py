"""The check of lesson 00: one warm-up.

reverse_mode  0.1     slips  the usual mistakes in it, by the values that they lead to
"""

from course_utils.checks.start_here import reverse_mode

EXERCISES = {reverse_mode.EXERCISE.id: reverse_mode.EXERCISE}
