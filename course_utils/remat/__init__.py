"""Rematerialization: which values of a computation to keep, and which to compute again.

model       the cost model, stated once: values, what they take, what making them reads
simulate    the price of a schedule: peak bytes, time, what was computed again
execute     the same schedule on real arrays, counted to the byte
plans       schedules of a chain, written with brackets: [[1, 2, 3], [4, 5, 6]]
planners    plans of a chain: periodic, by halves, and the best one under a budget
training    from a forward graph to the graph of a training step
operations  what the operations of a network take, and read on their way back
networks    a residual chain, a U and a transformer, on real arrays
drops       from an order of computations to a schedule that drops as early as it can
exhaustive  the best schedule of a small graph, by trying everything
milp        the best schedule of a graph, as a mixed-integer programme (after Jain et al. 2020)
solver      the books of such a programme, and HiGHS behind it
budget      what a planner says when no schedule fits

`planners`, `exhaustive` and `milp` hold what the exercises of lesson 04 ask for: read them after you have
solved those.
"""
