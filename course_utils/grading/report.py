"""The class on one page, for whoever teaches it: what went well, what did not, whom to look at.

Per exercise: how many passed, what the others got wrong (the commonest causes, each with a diagnosis
as an example), and what stands out in memory or time. Then the submissions that a person should look
at, each with its reason, answers that are nearly the same, and those that are the published solution.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from course_utils.authoring.files import ROOT
from course_utils.checks.core import Status
from course_utils.grading import dependence, pages
from course_utils.grading.dependence import failed_below
from course_utils.grading.platforms import LATE
from course_utils.grading.reading import OTHER_NAME
from course_utils.grading.records import ExerciseResult, Graded, RowStatus
from course_utils.grading.rows import in_order
from course_utils.grading.similar import Pair, like_published, near_identical
from course_utils.grading.similar_page import pairs_part, same_part
from course_utils.grading.wording import diagnosis, lesson_title

COMMONEST, OUTLIERS = 5, 5
FAR = 2.0  # times the class's median: worth a look
QUICK_SECONDS = 1.0  # below, times say more about the machine
BINS = 10
WORTH_A_LOOK = (LATE, OTHER_NAME, "by its content")  # of a row's note
Ask = tuple[str, str, str]  # student, notebook, what a person must decide
WANTS_A_PERSON = {
    RowStatus.UNREADABLE: "could not be read",
    RowStatus.WRONG_NOTEBOOK: "is another notebook",
    RowStatus.GRADER_ERROR: "the grader failed: not a grade",
    RowStatus.PARTLY: "some answers were stopped",
}


def write_report(
    path: Path,
    graded: Iterable[Graded],
    root: Path = ROOT,
    names: Mapping[str, str] | None = None,
    asks: Sequence[Ask] = (),
    told: Sequence[str] = (),
) -> Path:
    """Write the class report. Raises CourseError where it cannot be.

    names: people's names, by student; asks: what a person must decide; told: what holds of the whole run.
    """
    rows = list(graded)
    pairs, published = near_identical(rows, root), like_published(rows, root)
    return pages.write_page(path, report_page(rows, pairs, published, names, asks, told))


def report_page(
    rows: list[Graded],
    pairs: list[Pair],
    published: Iterable[Pair] = (),
    names: Mapping[str, str] | None = None,
    asks: Sequence[Ask] = (),
    told: Sequence[str] = (),
) -> str:
    """The report of these rows, as a page."""
    who = {row.student: pages.person(row.student, names) for row in rows}
    lessons: dict[str, list[Graded]] = defaultdict(list)
    for row in rows:
        lessons[row.notebook].append(row)
    handed_in = sum(row.status is not RowStatus.MISSING for row in rows)
    body = [f"<p>Submissions: {handed_in}.</p>"]
    body += [f'<p class="doubt">{pages.prose(each)}</p>' for each in told]
    body += looked_at(rows, who, asks)
    for notebook, mine in sorted(lessons.items()):
        title = pages.prose(lesson_title(notebook)) if notebook else "No lesson of this course"
        body += [f"<h2>{title}</h2>", *lesson_part(mine, who)]
    return pages.page("Class report", [*body, *pairs_part(pairs, who), *same_part(published, who)])


def reasons(row: Graded) -> list[str]:
    """Why a person should look at a submission; [] where nothing asks for it."""
    found, why = [], WANTS_A_PERSON.get(row.status)
    if why:
        found.append(f"{why}: {row.note}" if row.note else why)
    elif any(words in row.note for words in WORTH_A_LOOK):
        found.append(row.note)
    for result in row.results.values():
        found += [f"{result.exercise}: {flag}" for flag in result.flags]
    uses = failed_below(row).items()
    return found + [dependence.told(name, below).partition(": ")[0] for name, below in uses]


def looked_at(rows: list[Graded], who: dict[str, str], asks: Sequence[Ask] = ()) -> list[str]:
    """Who needs a person, and why; nobody is judged by it. `who`: students as HTML."""
    table = [
        [who[row.student], pages.text(row.notebook), pages.prose(reason)]
        for row in rows
        for reason in reasons(row)
    ]
    table += [
        [who.get(student, pages.person(student)), pages.text(notebook), pages.prose(why)]
        for student, notebook, why in asks
    ]
    there = {row.student for row in rows if row.status is not RowStatus.MISSING}
    missing = len({row.student for row in rows} - there)
    told = [f"<p>{missing} on the roster handed in nothing.</p>"] if missing else []
    if not table:
        return [*told, "<p>No submission was flagged.</p>"]
    table.sort()
    caption = "A flag is a reason to look, not a verdict; points are as the checks gave them."
    head = ["student~", "notebook|", "why~"]
    return [*told, "<h2>For a person to look at</h2>", pages.table(head, table, caption)]


def lesson_part(rows: list[Graded], who: dict[str, str]) -> list[str]:
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
        parts += exercise_part(exercise, by_exercise[exercise], who)
    return parts


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


def exercise_part(
    exercise: str, results: list[tuple[str, ExerciseResult]], who: dict[str, str]
) -> list[str]:
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
        *outliers(results, who),
    ]


def causes(results: list[ExerciseResult]) -> list[str]:
    """The commonest causes, each with a diagnosis as an example."""
    wrong = [r for r in results if r.status not in (Status.PASSED, Status.NOT_ATTEMPTED)]
    count = Counter(result.cause or str(result.status) for result in wrong)
    rows = []
    for cause, times in count.most_common(COMMONEST):
        said = Counter(r.diagnosis for r in wrong if (r.cause or str(r.status)) == cause)
        example = said.most_common(1)[0][0]
        rows.append([str(times), pages.text(cause), diagnosis(example[:600])])
    return [pages.table(["times#", "cause", "an example~"], rows)] if rows else []


def outliers(results: list[tuple[str, ExerciseResult]], who: dict[str, str]) -> list[str]:
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
            rows.append([pages.text(what), who[student], *map(pages.text, shown)])
    head = ["passed, but", "student", "measured|", "the class's median|"]
    return [pages.table(head, rows)] if rows else []


def all_measured(result: ExerciseResult) -> list[tuple[str, dict]]:
    """What the check measured, and what the sandbox saw from outside."""
    outside = {
        "the sandbox's peak": {"value": result.sandbox_peak_bytes, "unit": "bytes"},
        "time in the sandbox": {"value": max(result.seconds, QUICK_SECONDS), "unit": "s"},
    }
    return [*result.measured.items(), *outside.items()]
