"""Checks of lesson 03: what is discarded, and what it costs to compute it again. One module an exercise.

refill    3.1
product   3.2: pair is its cases in small, chain its memory
engine    the course's own product for nodes that lose their values; a training step on it, observed
listing   3.3, and segments 3.4: run is what they run on, training what both must fulfil
reverse   3.5: stages is what it runs on
"""

from course_utils.checks.rematerialization import listing, product, refill, reverse, segments

MODULES = (refill, product, listing, segments, reverse)
EXERCISES = {module.EXERCISE.id: module.EXERCISE for module in MODULES}
