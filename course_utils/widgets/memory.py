"""The memory timeline: scrub through a program, and see which arrays are alive, since when, and why.

The same record as `plots.memory_timeline` draws: it says what every array is called, how large it is, and
the line after which it was there first.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from course_utils import plots
from course_utils.timeline import UNNAMED, Step, Timeline
from course_utils.tracing import PEAK_TOLERANCE_BYTES
from course_utils.widgets.base import show, table

__all__ = ["recorded_engines", "scrub", "timeline_data"]

TRACES = Path(__file__).with_name("traces")


def scrub(
    *timelines: Timeline,
    titles: Sequence[str] = (),
    skip: Sequence[str] = (),
    title: str = "What is alive, step by step",
    moment: str = "after",
) -> None:
    """Show timelines to scrub through, side by side, with the figure of `plots.memory_timeline` in their stead.

    titles: a name for each timeline. skip: labels of steps to leave out. moment: "after", or "before" where
    each was marked when the step had all that it reads, before its own work.
    """
    data = timeline_data(*timelines, titles=titles, skip=skip, title=title, moment=moment)
    rows = [
        [f"{engine['name']} {number}".strip(), step["label"], *_figures(step), _names(step)]
        for engine in data["engines"]
        for number, step in enumerate(engine["steps"], start=1)
    ]
    heads = ["step", moment, "alive, bytes", "peak, bytes", "arrays"]
    show(
        "memory_timeline",
        data,
        lambda: plots.memory_timeline(*timelines, titles=titles, skip=skip, moment=moment),
        table(title, heads, rows),
        alts=[_words(data)],
    )


def recorded_engines(*names: str) -> list[Timeline]:
    """What the engines of lessons 02 and 03 did in one training step: "eager", "lazy", "rematerialized".

    A chain of six products of 3.1 MB each; of the rematerialized engine's outputs Z3 alone is kept. Each was
    asked at the same moments, so their steps agree.
    """
    record = json.loads((TRACES / "engines.json").read_text("utf-8"))
    timelines = []
    for name in names:
        timeline = Timeline()
        timeline.steps = [Step(**step) for step in record[name]]
        timelines.append(timeline)
    return timelines


def timeline_data(
    *timelines: Timeline,
    titles: Sequence[str] = (),
    skip: Sequence[str] = (),
    title: str = "",
    moment: str = "after",
) -> dict:
    """The record as the script reads it: engines, their steps, and the blocks alive at each."""
    numbered = (f"program {n}" for n in range(len(titles) + 1, len(timelines) + 1))
    names = [*titles, *numbered] if titles or len(timelines) > 1 else [""]
    return {
        "title": title,
        "moment": moment,
        "engines": [
            {"name": name, "steps": _steps(timeline, skip)}
            for name, timeline in zip(names, timelines, strict=True)
        ],
    }


def _steps(timeline: Timeline, skip: Sequence[str]) -> list[dict]:
    """A name may stand for another buffer than one step before: what is new, and what is gone, is a buffer."""
    before: dict[int, str] = {}  # buffer -> its name, one step before
    seen: set[str] = set()  # names that were there at some step before
    steps: list[dict] = []
    for step in timeline.steps:
        here = {number: name for name, number in step.buffers.items()} | (
            {-1: UNNAMED} if UNNAMED in step.blocks else {}
        )
        if step.label not in skip:
            blocks = [
                {
                    "name": name,
                    "bytes": nbytes,
                    "shape": " x ".join(map(str, step.shapes.get(name, ()))),
                    "made": step.made.get(name, ""),
                    "state": _state(name, step, before, seen, is_first=not steps),
                }
                for name, nbytes in step.blocks.items()
            ]
            steps.append(
                {
                    "label": step.label,
                    "current": step.current_bytes,
                    "peak": step.peak_bytes,
                    "blocks": blocks,
                    "gone": [
                        f"the old {name}" if name in step.blocks else name
                        for number, name in before.items()
                        if number not in here
                    ],
                }
            )
            before = here
        seen |= step.blocks.keys()
    return steps


def _state(name: str, step: Step, before: dict[int, str], seen: set[str], is_first: bool) -> str:
    """ "new", "again" for a value that was there once before and not one step before, or ""."""
    if is_first:  # what an earlier line made was there before
        return "new" if name == UNNAMED or step.made[name] == step.label else ""
    if (-1 if name == UNNAMED else step.buffers[name]) in before:
        return ""
    return "again" if name in seen and name not in before.values() and name != UNNAMED else "new"


def _words(data: dict) -> str:
    """What the figure shows; its numbers are in the table."""
    told = []
    for engine in data["engines"]:
        peaks = [step["peak"] for step in engine["steps"]]
        at = next(
            i for i, peak in enumerate(peaks, start=1) if peak > max(peaks) - PEAK_TOLERANCE_BYTES
        )
        most = f"at most {max(peaks) / 1e6:.3g} MB, in step {at}"
        told.append(f"{engine['name']}: ".removeprefix(": ") + f"{len(peaks)} steps, {most}")
    return "Memory timeline, a row for each step, a block for each array. " + "; ".join(told) + "."


def _figures(step: dict) -> tuple[str, str]:
    return f"{step['current']:,}", f"{step['peak']:,}"


def _names(step: dict) -> str:
    return ", ".join(block["name"] for block in step["blocks"])
