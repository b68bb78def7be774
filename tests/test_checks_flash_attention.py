"""What the checks of lesson 07 rest on: their oracle of slips, and budgets that the lesson states."""

from pathlib import Path

import numpy as np
import pytest

from course_utils.attention import causal_mask, dense_attention, keys_outside_traffic
from course_utils.checks.core import Case, judge_answer
from course_utils.checks.flash_attention import EXERCISES, backward, forward, queries_outside, slips
from course_utils.checks.flash_attention.traffic import _SIZES, _mistakes
from course_utils.hierarchy import SRAM

LESSON = (Path(__file__).parents[1] / "solutions/07_flash_attention.py").read_text(encoding="utf-8")


def inputs(n_queries=11, n_keys=13, d=3):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((n, d)) for n in (n_queries, n_keys, n_keys)]


@pytest.mark.parametrize("block_k", [1, 4, 13, 20])
def test_attention_by_blocks_without_a_slip_is_attention(block_k):
    q, k, v = inputs()
    assert np.allclose(slips.attention_by_blocks(q, k, v, block_k), dense_attention(q, k, v)[0])
    mask = causal_mask(11, 13)
    masked = slips.attention_by_blocks(q, k, v, block_k, visible=mask)
    assert np.allclose(masked, dense_attention(q, k, v, causal=True)[0])


@pytest.mark.parametrize("slip", slips.WHY)
def test_every_slip_changes_the_output_and_is_recognized(slip):
    q, k, v = inputs()
    wrong = slips.attention_by_blocks(q, k, v, 4, slip)
    assert not np.allclose(wrong, dense_attention(q, k, v)[0])
    assert slips.named_slip(wrong, q, k, v, 4).cause == slip


def test_mistaken_counts_differ_from_the_right_one_and_from_each_other():
    sizes = _SIZES[2]  # nothing divides anything
    right = tuple(number // 8 for number in keys_outside_traffic(*sizes))
    counts = [(read, written) for _, _, read, written in _mistakes(*sizes)]
    assert right not in counts and len(set(counts)) == len(counts)


def test_the_lesson_states_the_budgets_that_the_checks_apply():
    told = [forward.CAPACITY_BYTES, queries_outside.CAPACITY_BYTES, backward.CAPACITY_BYTES]
    cases = [case.given for case in queries_outside.EXERCISE.cases(1) if case.given.get("traffic")]
    told += [queries_outside.allowed_bytes(c["n_queries"], c["n_keys"], c["d"]) for c in cases]
    told.append(8 * backward.allowed_numbers(500, 32, 32, 32))
    for number in told:
        assert f"{number:,}" in LESSON, number


def test_a_sequence_that_is_not_stored_whole_names_its_first_row():
    def half(sram, Q, K, V, output, logsumexp):
        n = (len(output) + 1) // 2
        sram.store(output[:n], sram.zeros((n, output.shape[1])))

    verdict = judge_answer(EXERCISES["7.3"], half, 1)
    assert verdict.cause == "rows left out" and "row 50" in verdict.diagnosis


def test_an_input_written_to_is_told():
    def into_keys(sram, Q, K, V, output, logsumexp):
        sram.store(K[0:1], sram.zeros((1, K.shape[1])))

    assert judge_answer(EXERCISES["7.3"], into_keys, 1).cause == "changed its input"


def test_a_second_chip_is_refused():
    def larger(sram, Q, K, V, output, logsumexp):
        with SRAM(10**9, sram.hbm) as mine:
            mine.store(output, mine.load(Q))

    assert judge_answer(EXERCISES["7.3"], larger, 1).cause == "wrong memory"


def test_cases_hold_plain_data_only():
    plain = (int, float, str, bool, tuple)
    for exercise in EXERCISES.values():
        for case in exercise.cases(3):
            assert isinstance(case, Case)
            assert all(isinstance(value, plain) for value in case.given.values())
