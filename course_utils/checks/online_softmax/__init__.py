"""Checks of lesson 05: a softmax that is taken in pieces. One module an exercise.

oracle    the softmax of whole rows in float64, and how results with inf and nan are compared
safe      5.1     two_blocks  5.2     stream  5.3     merge   5.4     rows    5.5
*_mistakes  what the usual slips of 5.3, 5.4 and 5.5 give
"""

from course_utils.checks.online_softmax import merge, rows, safe, stream, two_blocks

EXERCISES = {
    module.EXERCISE.id: module.EXERCISE for module in (safe, two_blocks, stream, merge, rows)
}
