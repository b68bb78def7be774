"""The page that a student reads after grading: verdict, diagnosis, what was measured, what was allowed.

It is as kind as a check and says as much, except for what would give hidden cases away. Their data and
their seed are not shown, and of an error's message, which an answer could fill with its input, only the
words. What is for a person to look at (flags) stands in the class report, not here.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from course_utils.checks.core import Status
from course_utils.checks.show import MARKS
from course_utils.grading import dependence, pages, written
from course_utils.grading.dependence import failed_below
from course_utils.grading.finals import Final
from course_utils.grading.lessons import lessons
from course_utils.grading.masking import LONGEST, fit_to_show
from course_utils.grading.records import Ending, ExerciseResult, Graded, RowStatus
from course_utils.grading.rows import number
from course_utils.grading.wording import diagnosis, lesson_title, rendered

CROSS = "\N{MULTIPLICATION X}"

LEGEND = "In a bar, the solid line is the most that was allowed, the dashed line the least that is possible."
EXEMPT = "exempt"
IN_OTHER_WORDS = {  # what the reader says of a file -> what its owner can do
    "its JSON ends or breaks": "The file is cut off, or another program than a notebook's has changed it. "
    "Open it in Jupyter, save it, and hand it in again.",
    "an empty file": "The file is empty. Hand the notebook in again.",
    "no answer of this course in it": "It is a notebook, but none of this course's answers is in it.",
    "no notebook in": "Hand in the notebook itself: the file that ends in .ipynb. What came was no notebook.",
    "not a notebook": "Hand in the notebook itself: the file that ends in .ipynb. What came was no notebook.",
}
OF_THE_WHOLE = {
    RowStatus.GRADED: "",
    RowStatus.PARTLY: "Some answers were stopped before they ended. The others count as they are.",
    RowStatus.UNREADABLE: "Your file could not be read as a notebook, so nothing in it was graded.",
    RowStatus.WRONG_NOTEBOOK: "The notebook that you handed in is not the one that was asked for.",
    RowStatus.MISSING: "Nothing was handed in under your name.",
    RowStatus.GRADER_ERROR: "The grader failed on your submission. That is not your fault, and no "
    "grade: your instructor has been told.",
}


def what_to_do(note: str) -> str:
    """A row's note; where the reader stumbled over the file, what its owner can do, and the note."""
    says = [say for sign, say in IN_OTHER_WORDS.items() if sign in note]
    named = f" ({note})" if ".py" in note or "no notebook in" in note else ""
    return says[0] + named if says else note


def page_path(folder: Path, student: str, notebook: str) -> Path:
    return folder / pages.safe_name(student) / f"{pages.safe_name(notebook or 'no_lesson')}.html"


def write_feedback(
    graded: Iterable[Graded],
    folder: Path,
    sheet: Path | None = None,
    found: Iterable[Final] = (),
    names: Mapping[str, str] | None = None,
) -> list[Path]:
    """FOLDER/<student>/<NN_topic>.html for each row; the paths. `sheet` has points for words.

    found: what the points come to; names: people's names, by student. A page of an earlier run whose row is
    gone goes too, whatever its lesson. Raises CourseError where a page, or the sheet, cannot be written or
    read.
    """
    graded = list(graded)
    given = written.given_points(sheet) if sheet else {}
    finals = {(final.student, final.notebook): final for final in found}
    made = []
    for row in graded:
        points = written.points_of(given, row.student, row.notebook)
        final = finals.get((row.student, row.notebook))
        page = feedback_page(row, points, final, pages.person(row.student, names))
        made.append(pages.write_page(page_path(folder, row.student, row.notebook), page))
    remove_old(folder, made)
    return made


def remove_old(folder: Path, made: list[Path]) -> None:
    """Take away pages that an earlier run made and this one did not; nothing that has another name."""
    kinds = {page_path(folder, "x", name).name for name in (*lessons(), "")}
    for path in set(folder.glob("*/*.html")) - set(made):
        if path.name in kinds:
            with suppress(OSError):
                path.unlink()
                path.parent.rmdir()  # only if it is empty now


def feedback_page(
    row: Graded,
    words: dict[str, tuple[float, str]] | None = None,
    final: Final | None = None,
    who: str = "",
) -> str:
    """One submission's page. `words`: {question: (points, comment)}, given by a person; `who` is HTML."""
    body = [f"<p>{who or pages.person(row.student)}</p>"]
    if told := OF_THE_WHOLE.get(row.status, ""):
        body.append(f'<p class="doubt">{told}</p>')
    if row.note and row.status is not RowStatus.GRADER_ERROR:
        body.append(f'<p class="soft">{pages.prose(what_to_do(row.note)[:LONGEST])}</p>')
    body += points_part(row, words or {}, final)
    below = failed_below(row)
    for name, result in row.results.items():
        more = dependence.told(name, below[name]) if name in below else ""
        body += exercise_part(result, row.sources.get(result.exercise, ""), more)
    if any("<svg" in part for part in body):
        body.append(f'<p class="soft">{LEGEND}</p>')
    body += words_part(row, words or {})
    if row.results and row.checks_version:
        body.append(
            '<p class="soft">Graded with other inputs than the notebook\'s, by the same checks '
            f"(version {pages.text(row.checks_version)}).</p>"
        )
    lesson = f" on lesson {lesson_title(row.notebook)}" if row.notebook else ""
    return pages.page(f"Feedback{lesson}", body)


def points_part(row: Graded, words: dict, final: Final | None) -> list[str]:
    """What it comes to, and from what: checks, optional exercises, words, lateness, as in the gradebook."""
    core = [result for result in row.results.values() if not result.optional]
    extra = [result for result in row.results.values() if result.optional]
    parts = [f"{points_told(core)} by the checks"] if core else []
    if extra:
        count = final is None or final.counts_optional
        bonus = "a bonus" if count else "which are for you alone"
        parts.append(f"{points_told(extra)} of optional exercises, {bonus}")
    parts += words_told(row, words, final)
    told = f"{'; '.join(parts)}." if parts else ""
    if final is None:
        return [f"<p><strong>{told}</strong></p>"] if told else []
    if final.why == EXEMPT:
        return [f"<p><strong>This lesson does not count for you.</strong> {told}</p>"]
    if final.points is None:
        return [f"<p>{told}</p>"] if told else []
    if final.days_late:
        days = f"{final.days_late} day{'s' * (final.days_late != 1)}"
        told += f" It came {days} late, free days and extensions taken off: of the "
        told += f"{number(final.earned)} points earned, {100 * final.share:.0f} % count."
    whole = f"{number(final.points)} of {number(final.max_points)} points"
    return [f'<p class="total"><strong>{whole}</strong></p>', f"<p>{told}</p>" if told else ""]


def words_told(row: Graded, words: dict, final: Final | None) -> list[str]:
    """Points for answers in words, what they can be, and whether some are still to come."""
    by_hand = number(sum(points for points, _ in words.values()))
    most = number(final.in_words) if final and final.in_words else ""
    told = [f"{by_hand}{f' of {most}' if most else ''} for answers in words"] if words else []
    if any(question not in words for _, _, question in written.answers([row])):
        told.append("an answer in words is not read yet" + (f" (worth {most})" if most else ""))
    return told if told or not most else [f"0 of {most} for answers in words"]


def points_told(results: list[ExerciseResult]) -> str:
    got, most = (sum(getattr(r, name) for r in results) for name in ("points", "max_points"))
    return f"{number(got)} of {number(most)} points"


def exercise_part(result: ExerciseResult, source: str, more: str = "") -> list[str]:
    """One exercise: the verdict as word and mark, why (and `more` of it), and bars of measured against allowed."""
    kind = {Status.PASSED: "passed", Status.NOT_ATTEMPTED: "open"}.get(result.status, "failed")
    mark = MARKS.get(result.status, CROSS)
    optional = ", optional" if result.optional else ""
    parts = [
        f'<section class="exercise {kind}"><h2>{mark} Exercise {pages.text(result.exercise)}'
        f" - {pages.text(result.title)}: {pages.text(result.status)}</h2>",
        f'<p class="soft">{result.points:g} of {result.max_points:g} points{optional}</p>',
    ]
    if told := fit_to_show(result, source):
        parts.append(f"<p>{diagnosis(told)}</p>")
    if more:
        parts.append(f'<p class="doubt">{pages.prose(more)}</p>')
    for name, measure in list(result.measured.items())[:12]:
        limits = pages.allowed(measure)
        figure = pages.quantity(measure.get("value"), measure.get("unit", ""))
        parts.append(
            f"<div>{pages.text(name)}: {pages.text(figure)}"
            + (f'; <span class="soft">allowed: {pages.text(limits)}</span>' if limits else "")
            + f"{pages.measure_bar(name, measure)}</div>"
        )
    if source.strip() and (result.status != Status.NOT_ATTEMPTED or more):
        what = (
            "cell that was found" if result.status == Ending.NOT_FOUND else "answer that was graded"
        )
        parts.append(
            f"<details><summary>The {what}</summary><pre>{pages.text(source)}</pre></details>"
        )
    return [*parts, "</section>"]


def words_part(row: Graded, words: dict[str, tuple[float, str]]) -> list[str]:
    """Answers in words, with the points and the comment of whoever read them."""
    parts = []
    for (_, _, question), answer in written.answers([row]).items():
        points, comment = words.get(question, (None, ""))
        told = "not read yet" if points is None else f"{number(points)} points"
        parts += [
            f'<section class="exercise"><h2>Question {pages.text(question)}: {told}</h2>',
            rendered(answer),
            f"<p><strong>{pages.prose(comment)}</strong></p>" if comment else "",
            "</section>",
        ]
    return parts
