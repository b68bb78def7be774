"""Checks of lesson 08: Triton kernels, run and metered wherever there is Triton. One module an exercise.

kernel_runs   a kernel on the rungs that a machine has: interpreter, compiler, GPU
kernel_task   what a kernel's exercise consists of, and the judgement that all share
faults        what no kernel may do
attention_inputs   what attention kernels are given        attention_wanted   what they must leave
forward_mistakes, backward_mistakes   what they get wrong
softmax 8.1   matmul 8.2   budget 8.3   forward 8.4   causal 8.5   backward 8.6, 8.7   fast 8.8
"""

from course_utils.checks.flash_attention_gpu import (
    backward,
    budget,
    causal,
    fast,
    forward,
    matmul,
    softmax,
)

_ALL = [module.EXERCISE for module in (softmax, matmul, budget, forward, causal)]
_ALL += [backward.KEYS_EXERCISE, backward.QUERIES_EXERCISE, fast.EXERCISE]
EXERCISES = {exercise.id: exercise for exercise in _ALL}
