"""The lessons and the registry of their checks hold the same exercises."""

from pathlib import Path

import pytest

from course_utils.authoring.outline import outline
from course_utils.authoring.source import read_lesson
from course_utils.checks import LESSONS, lesson_exercises

SOURCES = sorted((Path(__file__).parents[1] / "solutions").glob("[0-9]*.py"))


def test_every_lesson_has_checks_and_every_check_a_lesson():
    assert [str(int(source.name[:2])) for source in SOURCES] == list(LESSONS)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_lesson_and_its_checks_hold_the_same_exercises(source):
    headings = outline(read_lesson(source)).exercises
    assert [h.id for h in headings] == list(lesson_exercises(str(int(source.name[:2]))))
    assert sum(h.minutes for h in headings if not h.optional) <= 120


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_points_and_minutes_are_told_at_the_start(source):
    lesson = read_lesson(source)
    points = sum(heading.points for heading in outline(lesson).exercises)
    assert f"{points} points" in lesson.cells[0].text and "minutes" in lesson.cells[0].text
