"""Everything that is made from the rows: tables, pages, figures, and files for platforms.

All of it is of one run. What an earlier run left, and this one has no rows for, goes.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading import (
    exports,
    feedback,
    figures,
    finals,
    ledger,
    report,
    rows,
    telling,
    written,
    written_page,
)
from course_utils.grading.compare import Run
from course_utils.grading.lessons import lessons
from course_utils.grading.policy import Policy
from course_utils.grading.records import Graded
from course_utils.grading.roster import Roster


def refuse_mixed(out: Path, wanted: str | None) -> None:
    """Raises CourseError where a run over one lesson would leave others' pages and points half there."""
    there = {row.notebook for row in ledger.read_rows(out / ledger.FILE)} - {"", wanted}
    if wanted and there:
        raise CourseError(
            f"--out {out} holds {', '.join(sorted(there)[:3])} of an earlier run, and --notebook would leave "
            "its tables without them: use another --out"
        )


def publish(
    out: Path,
    best: list[Graded],
    rules: Policy,
    people: Roster,
    strays: Sequence[str] = (),
    asks: Sequence[report.Ask] = (),
    with_finals: bool = True,
) -> tuple[Run, list[str]]:
    """Write it all into `out`; what it came to, and what holds of the whole run, in sentences.

    Points given by hand are read first, and kept. strays: lessons that nobody was asked for; they count in
    no total. asks: what a person must decide. with_finals: whether there are final.csv and import/. Raises
    CourseError.
    """
    sheet, names = out / written.FILE, {s: each["name"] for s, each in people.students.items()}
    written.update_sheet(sheet, best, people.student)
    given = written.given_points(sheet)
    by_hand = {
        (row.student, row.notebook): sum(
            points for points, _ in written.points_of(given, row.student, row.notebook).values()
        )
        for row in best
    }
    known = rules.lessons(lessons())
    in_words = {notebook: rules.most_in_words(lesson) for notebook, lesson in known.items()}
    rows.write_csv(out / rows.FILE, best, known, by_hand, rules.count_optional, in_words)
    asked = [row for row in best if row.notebook not in strays]
    found = finals.finals(asked, people, rules, known, by_hand)
    there = [row for row in best if row.origin]
    made = feedback.write_feedback(there, out / "feedback", sheet, found, names)
    told = telling.about_words(best, given, rules)
    report.write_report(out / "report.html", best, names=names, asks=asks, told=told)
    written_page.write_written(out / "written.html", best, sheet, names=names)
    if with_finals:
        finals.write_finals(out / finals.FILE, found, people, rules)
        of_whom = {(row.student, row.notebook): page for row, page in zip(there, made)}
        exports.write_exports(out / "import", found, best, people, rules, of_whom)
    else:
        exports.remove_old(out / "import")
        with suppress(OSError):
            (out / finals.FILE).unlink()
    run = Run(figures.figures(best, found, by_hand), figures.percents(found, rules))
    figures.write_figures(out / figures.FILE, run.figures, run.percents)
    return run, told
