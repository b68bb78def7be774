"""The site's pages: one for each lesson, and the page of contents.

Plain HTML that is readable without the style sheet and without a script: the script lets widgets live,
nothing more. Every address is relative, so the folder works on any server, and opened from a disk.
"""

import re
from html import escape

from course_utils.site.cells import Page, cells_html, prose
from course_utils.site.outline import Exercise, Lesson

COURSE = "Memory and IO in Deep Learning"


def shell(title: str, body: str, widgets: list[str], description: str = "") -> str:
    """A whole document. widgets: names of the scripts that it needs."""
    scripts = "".join(f'<script defer src="widgets/{name}.js"></script>\n' for name in widgets)
    scripts += '<script defer src="site.js"></script>\n'
    about = f'<meta name="description" content="{escape(description)}">\n' if description else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="course.py site">\n{about}'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f'<link rel="stylesheet" href="site.css">\n<link rel="stylesheet" href="widgets.css">\n'
        f'{scripts}</head>\n<body>\n<a class="skip" href="#main">To the text</a>\n{body}\n</body>\n</html>\n'
    )


def lesson_page(
    lesson: Lesson, notebook: dict, before: Lesson | None, after: Lesson | None
) -> tuple[str, Page]:
    """A lesson as a page, and what it needs besides: pictures, and the names of its widgets."""
    page = Page(anchors={"main"})
    text = cells_html(notebook, page)
    links = [f'<li><a href="#{anchor}">{words}</a></li>' for anchor, words in page.sections]
    sections = "".join(links)
    contents = (
        '<nav class="sections" aria-label="On this page"><details><summary>On this page</summary>'
        f"<ol>{sections}</ol></details></nav>\n"
        if sections
        else ""
    )
    body = (
        f'<header class="top"><a href="index.html">{COURSE}</a></header>\n'
        f'<div class="page">\n{contents}<main id="main" tabindex="-1">\n{how_to_work(lesson)}{text}\n</main>\n</div>\n'
        f"{neighbours(before, after)}"
    )
    title = f"{lesson.number} {bare(lesson.title)} - {COURSE}"
    return shell(title, body, page.widgets, bare(lesson.promise)), page


def how_to_work(lesson: Lesson) -> str:
    return (
        '<p class="note">This is the lesson as you get it, run once without answers. To work on it, and to have '
        f"your answers checked, say <code>python course.py lab {lesson.number}</code> in the course's folder. "
        f'The notebook as a file: <a href="notebooks/{lesson.stem}.ipynb" download>{lesson.stem}.ipynb</a>.</p>\n'
    )


def neighbours(before: Lesson | None, after: Lesson | None) -> str:
    links = [
        f'<a rel="{rel}" href="{lesson.stem}.html"><span>{word}</span> '
        f"<b>{lesson.number} {inline(lesson.title)}</b></a>"
        for rel, word, lesson in (("prev", "Before:", before), ("next", "Next:", after))
        if lesson
    ]
    links.insert(1 if before else 0, '<a class="all" href="index.html">All lessons</a>')
    return f'<nav class="neighbours" aria-label="Lessons">{"".join(links)}</nav>'


def contents_page(lessons: list[Lesson], opening: str) -> str:
    """The page of contents. opening: a paragraph or two of Markdown on what the course is."""
    items = "\n".join(f"<li>{entry(lesson)}</li>" for lesson in lessons)
    hours = round(sum(lesson.minutes or 0 for lesson in lessons) / 60)
    body = (
        f'<main id="main" class="contents" tabindex="-1">\n<h1>{COURSE}</h1>\n{prose(opening, Page())}\n'
        f"<h2>Lessons</h2>\n<p>{len(lessons)} lessons, about {hours} hours in all. The times are for "
        f'the core of a lesson, with the reading.</p>\n<ol class="lessons">\n{items}\n</ol>\n</main>'
    )
    return shell(
        COURSE, body, [], "The bytes that deep learning holds, and the bytes that it moves."
    )


def entry(lesson: Lesson) -> str:
    """A lesson in the contents: what you will do, what it takes, its exercises."""
    core = [exercise for exercise in lesson.exercises if not exercise.optional]
    extra = len(lesson.exercises) - len(core)
    many = "exercise" if len(core) == 1 else "exercises"
    facts = [f"{len(core)} {many}, {lesson.points} points"] if core else []
    facts += [f"about {lesson.minutes} minutes"] if lesson.minutes else []
    facts += [f"{extra} optional"] if extra else []
    rows = "".join(exercise_row(exercise) for exercise in lesson.exercises)
    exercises = (
        f'<details><summary>Exercises<span class="unseen"> of lesson {lesson.number}</span></summary>'
        f"<ul>{rows}</ul></details>"
        if rows
        else ""
    )
    title = f'<span class="number">{lesson.number}</span> {inline(lesson.title)}'
    return (
        f'<h3><a href="{lesson.stem}.html">{title}</a></h3>\n'
        f'<p>{inline(lesson.promise)}</p>\n<p class="facts">{" · ".join(facts)}</p>\n{exercises}'
    )


def exercise_row(exercise: Exercise) -> str:
    facts = f"{exercise.points} points, {exercise.difficulty}, {exercise.minutes} min"
    facts += ", optional" if exercise.optional else ""
    return f'<li>{exercise.id} {inline(exercise.title)} <span class="facts">{facts}</span></li>'


def inline(text: str) -> str:
    """A line of Markdown, without a paragraph around it."""
    return re.sub(r"^<p>|</p>\n?$", "", prose(text, Page()))


def bare(text: str) -> str:
    """A line of Markdown as plain text."""
    return re.sub(r"[`*$]", "", text)
