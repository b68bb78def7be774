"""The class on one page, for whoever teaches it: what went well, what did not, whom to look at.

Per exercise: how many passed, what the others got wrong (the commonest causes, each with a diagnosis
as an example), and what stands out in memory or time. Then the submissions that a person should look
at, each with its reason, and the pairs of answers that are nearly the same.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from course_utils.authoring.files import ROOT
from course_utils.checks.core import Status
from course_utils.grading import pages
from course_utils.grading.platforms import LATE
from course_utils.grading.reading import OTHER_NAME
from course_utils.grading.records import ExerciseResult, Graded, RowStatus
from course_utils.grading.similar import Pair, near_identical

COMMONEST, OUTLIERS, PAIRS = 5, 5, 40
FAR = 2.0  # times the class's median: worth a look
QUICK_SECONDS = 1.0  # below, times say more about the machine
BINS = 10
WORTH_A_LOOK = (LATE, OTHER_NAME)  # of a row's note
WANTS_A_PERSON = {
    RowStatus.UNREADABLE: "could not be read",
    RowStatus.WRONG_NOTEBOOK: "is another notebook",
    RowStatus.GRADER_ERROR: "the grader failed: not a grade",
    RowStatus.PARTLY: "some answers were stopped",
}


def write_report(path: Path, graded: Iterable[Graded], root: Path = ROOT) -> Path:
    """Write the class report. Raises CourseError where it cannot be written."""
    rows = list(graded)
    return pages.write_page(path, report_page(rows, near_identical(rows, root)))


def report_page(rows: list[Graded], pairs: list[Pair]) -> str:
    """The report of these rows, as a page."""
    lessons: dict[str, list[Graded]] = defaultdict(list)
    for row in rows:
        lessons[row.notebook].append(row)
    handed_in = sum(row.status is not RowStatus.MISSING for row in rows)
    body = [f"<p>Submissions: {handed_in}.</p>", *looked_at(rows)]
    for notebook, mine in sorted(lessons.items()):
        body += [f"<h2>{pages.text(notebook)}</h2>", *lesson_part(mine)]
    return pages.page("Class report", [*body, *pairs_part(pairs)])


def looked_at(rows: list[Graded]) -> list[str]:
    """Who needs a person, and why; nobody is judged by it."""
    table = []
    for row in rows:
        why = WANTS_A_PERSON.get(row.status)
        reasons = []
        if why:
            reasons.append(f"{why}: {row.note}" if row.note else why)
        elif any(words in row.note for words in WORTH_A_LOOK):
            reasons.append(row.note)
        for result in row.results.values():
            reasons += [f"{result.exercise}: {flag}" for flag in result.flags]
        for reason in reasons:
            table.append([name(row.student), pages.text(row.notebook), pages.prose(reason)])
    there = {row.student for row in rows if row.status is not RowStatus.MISSING}
    missing = len({row.student for row in rows} - there)
    told = [f"<p>{missing} on the roster handed in nothing.</p>"] if missing else []
    if not table:
        return [*told, "<p>No submission was flagged.</p>"]
    table.sort()
    caption = "A flag is a reason to look, not a verdict; points are as the checks gave them."
    head = ["student", "notebook", "why"]
    return [*told, "<h2>For a person to look at</h2>", pages.table(head, table, caption)]


def name(student: str) -> str:
    return f'<span class="name">{pages.text(student)}</span>'


def lesson_part(rows: list[Graded]) -> list[str]:
    """One lesson: totals, then each exercise."""
    graded = [row for row in rows if row.results]
    states = Counter(str(row.status) for row in rows)
    parts = [f"<p>{', '.join(f'{n} {state}' for state, n in states.most_common())}.</p>"]
    if not graded:
        return parts
    shares = [share for row in graded if (share := core_share(row)) is not None]
    parts += [spread(shares)] if shares else []
    by_exercise: dict[str, list[tuple[str, ExerciseResult]]] = defaultdict(list)
    for row in graded:
        for exercise, result in row.results.items():
            by_exercise[exercise].append((row.student, result))
    for exercise in sorted(by_exercise, key=in_order):
        parts += exercise_part(exercise, by_exercise[exercise])
    return parts


def in_order(exercise: str) -> tuple:
    return tuple(int(part) if part.isdigit() else 0 for part in exercise.split(".")), exercise


def core_share(row: Graded) -> float | None:
    """The part of the core's points that a submission earned."""
    core = [result for result in row.results.values() if not result.optional]
    most = sum(result.max_points for result in core)
    return sum(result.points for result in core) / most if most else None


def spread(shares: list[float]) -> str:
    """How the totals are spread, in tenths of the core's points."""
    counts = [0] * (BINS + 1)
    for share in shares:
        counts[min(BINS, max(0, int(share * BINS)))] += 1
    labels = [f"{10 * at}" for at in range(BINS)] + ["100 %"]
    middle = f"median {100 * median(shares):.0f} % of the core's points"
    drawn = pages.histogram(counts, labels, f"{len(shares)} submissions by points earned; {middle}")
    return f'<p class="soft">Points earned, in percent of the core; {middle}.</p>{drawn}'


def exercise_part(exercise: str, results: list[tuple[str, ExerciseResult]]) -> list[str]:
    """One exercise: the pass rate, the commonest causes, and what stands out."""
    first = results[0][1]
    count = Counter(str(result.status) for _, result in results)
    passed, failed = count[Status.PASSED], count[Status.FAILED]
    untried = count[Status.NOT_ATTEMPTED]
    stopped = len(results) - passed - failed - untried
    optional = ", optional" if first.optional else ""
    parts = {
        "passed": (passed, "good"), "failed": (failed, "bad"), "stopped": (stopped, "doubt"),
        "not attempted": (untried, "open"),
    }  # fmt: skip
    told = ", ".join(f"{number} {word}" for word, (number, _) in parts.items() if number)
    return [
        f"<h3>{pages.text(exercise)} - {pages.text(first.title)}{optional}: "
        f"{100 * passed / len(results):.0f} % passed</h3>",
        f'{pages.parts_bar(parts)}<p class="soft">{told}</p>',
        *causes([result for _, result in results]),
        *outliers(results),
    ]


def causes(results: list[ExerciseResult]) -> list[str]:
    """The commonest causes, each with a diagnosis as an example."""
    wrong = [r for r in results if r.status not in (Status.PASSED, Status.NOT_ATTEMPTED)]
    count = Counter(result.cause or str(result.status) for result in wrong)
    rows = []
    for cause, times in count.most_common(COMMONEST):
        said = Counter(r.diagnosis for r in wrong if (r.cause or str(r.status)) == cause)
        example = said.most_common(1)[0][0]
        rows.append([str(times), pages.text(cause), pages.prose(example[:600])])
    return [pages.table(["times#", "cause", "an example"], rows)] if rows else []


def outliers(results: list[tuple[str, ExerciseResult]]) -> list[str]:
    """Passed answers that need far more than the median: memory, traffic, time."""
    figures: dict[str, list[tuple[float, str, str]]] = defaultdict(list)
    for student, result in results:
        for what, measure in all_measured(result) if result.status == Status.PASSED else ():
            value = pages.finite(measure.get("value"))
            if value:
                figures[what].append((value, student, measure.get("unit", "")))
    rows = []
    for what, mine in sorted(figures.items()):
        usual = median(value for value, _, _ in mine)
        far = sorted((each for each in mine if each[0] > FAR * usual), reverse=True)
        for value, student, unit in far[:OUTLIERS] if len(mine) >= 5 else ():
            shown = (pages.quantity(value, unit), pages.quantity(usual, unit))
            rows.append([pages.text(what), name(student), *map(pages.text, shown)])
    head = ["passed, but", "student", "measured", "the class's median"]
    return [pages.table(head, rows)] if rows else []


def all_measured(result: ExerciseResult) -> list[tuple[str, dict]]:
    """What the check measured, and what the sandbox saw from outside."""
    outside = {
        "the sandbox's peak": {"value": result.sandbox_peak_bytes, "unit": "bytes"},
        "time in the sandbox": {"value": max(result.seconds, QUICK_SECONDS), "unit": "s"},
    }
    return [*result.measured.items(), *outside.items()]


def pairs_part(pairs: list[Pair]) -> list[str]:
    """Nearly identical answers, as a hint."""
    rows = [
        [name(pair.students[0]), name(pair.students[1]), pages.text(pair.exercise),
         f"{100 * pair.share:.0f} %", "the same text" if pair.same_text else "names differ"]
        for pair in pairs[:PAIRS]
    ]  # fmt: skip
    if not rows:
        return []
    more = f" {len(pairs) - PAIRS} more are not shown." if len(pairs) > PAIRS else ""
    return [
        "<h2>Nearly the same answers</h2>",
        "<p>A hint, not a verdict: two people who were taught together, or who both read a book, write "
        f"alike. Read both before you say anything.{more}</p>",
        pages.table(["student", "student", "exercise", "shared#", "text"], rows),
    ]
