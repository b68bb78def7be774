"""Checks of lesson 06: bytes that cross between two memories. One module an exercise.

chip       an answer that runs on the two-level memory: what is observed, and what it refused
standard_traffic  what standard attention moved, matrix by matrix
cost     6.1     tile      6.2     product  6.3     standard  6.4
"""

from course_utils.checks.tiling import cost, product, standard, tile

EXERCISES = {module.EXERCISE.id: module.EXERCISE for module in (cost, tile, product, standard)}
