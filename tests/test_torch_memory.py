"""Torch's live bytes, counted exactly."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from course_utils import torch_memory  # noqa: E402
from course_utils.torch_memory import saved_bytes, torch_peak_bytes  # noqa: E402


@pytest.fixture
def x():
    return torch.ones(1000, 1000)  # 4,000,000 bytes


def test_temporary_and_result_are_alive_together(x) -> None:
    assert torch_peak_bytes(lambda: (x * x).sum(1)) == 4_000_000 + 4_000


def test_a_temporary_that_died_before_is_not_added(x) -> None:
    def in_turn():
        (x * x).sum(1)
        (x * x).sum(1)

    assert torch_peak_bytes(in_turn) == 4_000_000 + 4_000


def test_two_that_live_at_once_are_added(x) -> None:
    assert torch_peak_bytes(lambda: (x * x, x * x)) == 8_000_000


def test_views_cost_nothing_and_so_does_what_was_there(x) -> None:
    assert torch_peak_bytes(lambda: x.T[:10].T) == 0


def test_an_error_leaves_the_profiler_usable(x) -> None:
    with pytest.raises(ZeroDivisionError):
        torch_peak_bytes(lambda: 1 / 0)
    assert torch_peak_bytes(lambda: x * x) == 4_000_000


def test_dense_attention_takes_two_squares() -> None:
    query, key, value = (torch.ones(512, 64) for _ in range(3))
    peak_bytes = torch_peak_bytes(lambda: torch.softmax(query @ key.T, dim=-1) @ value)
    assert 0 <= peak_bytes - 2 * 512 * 512 * 4 < 1000


def test_another_torch_is_told_in_one_line() -> None:
    with pytest.raises(RuntimeError, match="does not tell its allocations"):
        torch_memory._changes(SimpleNamespace(profiler=None))


def test_saved_for_backward_counts_each_buffer_once(x) -> None:
    weight = torch.ones(1000, 1000, requires_grad=True)
    assert saved_bytes(lambda: x @ weight) == 4_000_000  # x, for weight's gradient
    assert saved_bytes(lambda: (x @ weight) + (x @ weight)) == 4_000_000
    assert saved_bytes(lambda: torch.exp(weight)) == 4_000_000  # its result
    assert saved_bytes(lambda: weight + 1) == 0


def test_parameters_are_not_counted(x) -> None:
    weight = torch.ones(1000, 1000, requires_grad=True)
    assert saved_bytes(lambda: weight * weight) == 4_000_000
    assert saved_bytes(lambda: weight * weight, parameters=[weight]) == 0


def test_nothing_is_printed_and_torch_comes_late() -> None:
    program = (
        "import sys; from course_utils.torch_memory import torch_peak_bytes\n"
        "assert 'torch' not in sys.modules\n"
        "import torch; print(torch_peak_bytes(lambda: torch.ones(10)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("40\n", "")
