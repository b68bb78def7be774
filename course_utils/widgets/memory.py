"""The memory timeline: scrub through a program, and see which arrays are alive, since when, and why.

The same record as `plots.memory_timeline` draws: it says what every array is called, how large it is, and
the line after which it was there first.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from course_utils import plots
from course_utils.timeline import UNNAMED, Step, Timeline
from course_utils.widgets.base import show, table

__all__ = ["recorded_engines", "scrub", "timeline_data"]

TRACES = Path(__file__).with_name("traces")


def scrub(
    *timelines: Timeline,
    titles: Sequence[str] = (),
    skip: Sequence[str] = (),
    title: str = "What is alive, step by step",
) -> None:
    """Show timelines to scrub through, side by side, with the figure of `plots.memory_timeline` in their stead.

    titles: a name for each timeline. skip: labels of steps to leave out.
    """
    data = timeline_data(*timelines, titles=titles, skip=skip, title=title)
    rows = [
        [f"{engine['name']} {number}".strip(), step["label"], *_figures(step), _names(step)]
        for engine in data["engines"]
        for number, step in enumerate(engine["steps"], start=1)
    ]
    heads = ["step", "after", "alive, bytes", "peak, bytes", "arrays"]
    show(
        "memory_timeline",
        data,
        lambda: plots.memory_timeline(*timelines, titles=titles, skip=skip),
        table(title, heads, rows),
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
    *timelines: Timeline, titles: Sequence[str] = (), skip: Sequence[str] = (), title: str = ""
) -> dict:
    """The record as the script reads it: engines, their steps, and the blocks alive after each."""
    numbered = (f"program {n}" for n in range(len(titles) + 1, len(timelines) + 1))
    names = [*titles, *numbered] if titles or len(timelines) > 1 else [""]
    return {
        "title": title,
        "engines": [
            {"name": name, "steps": _steps(timeline, skip)}
            for name, timeline in zip(names, timelines, strict=True)
        ],
    }


def _steps(timeline: Timeline, skip: Sequence[str]) -> list[dict]:
    made: dict[str, str] = {}  # array -> label of the step after which it was there first
    steps = []
    for step in timeline.steps:
        for name in step.blocks:
            made.setdefault(name, step.label)
        if step.label in skip:
            continue
        blocks = [
            {
                "name": name,
                "bytes": nbytes,
                "shape": " x ".join(map(str, step.shapes.get(name, ()))),
                "made": "" if name == UNNAMED else made[name],
            }
            for name, nbytes in step.blocks.items()
        ]
        steps.append(
            {
                "label": step.label,
                "current": step.current_bytes,
                "peak": step.peak_bytes,
                "blocks": blocks,
            }
        )
    return steps


def _figures(step: dict) -> tuple[str, str]:
    return f"{step['current']:,}", f"{step['peak']:,}"


def _names(step: dict) -> str:
    return ", ".join(block["name"] for block in step["blocks"])
