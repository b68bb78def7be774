"""What a person has to know of a run, or to decide, in lines: for the terminal and the report."""

from course_utils.grading import written
from course_utils.grading.platforms import LATE
from course_utils.grading.policy import Policy, moment
from course_utils.grading.records import Graded
from course_utils.grading.report import Ask
from course_utils.grading.roster import Roster
from course_utils.grading.times import FILE as TIMES
from course_utils.grading.times import Time, without_row

NO_ORDER = (
    f"nothing tells which of several attempts was the last: the best counts. Give times in {TIMES}"
)
WHOSE_TIME = (
    f"{TIMES} has a late time, and there are several attempts: it counts for none. Name the `file`"
)


def asks(unsure: list[Graded], doubtful: list[Graded], rules: Policy) -> list[Ask]:
    """What a person must decide: which attempt was the last, and which one a late time belongs to."""
    found = [(row.student, row.notebook, NO_ORDER) for row in unsure]
    late = [row for row in doubtful if days_late(row, rules)]
    return sorted({*found, *((row.student, row.notebook, WHOSE_TIME) for row in late)})


def asks_told(found: list[Ask]) -> list[str]:
    """A line for each thing to decide, with who is concerned."""
    whys = list(dict.fromkeys(why for _, _, why in found))
    return [
        f"{why}: {some([f'{who} ({lesson[:2]})' for who, lesson, each in found if each == why], 20)}"
        for why in whys
    ]


def about_words(best: list[Graded], given: dict, rules: Policy) -> list[str]:
    """How many answers in words have no points yet, and what that means."""
    waiting = [
        question
        for student, notebook, question in written.answers(best)
        if question not in written.points_of(given, student, notebook)
    ]
    if not waiting:
        return []
    count = f"{len(waiting)} answer{'s' * (len(waiting) != 1)} in words"
    are = f"{count} {'have' if len(waiting) > 1 else 'has'} no points yet ({written.FILE})"
    is_part = any(question in rules.points for question in waiting)
    return [f"{are}: totals are provisional" if is_part else f"{are}; they would be a bonus"]


def about_names_and_times(
    best: list[Graded],
    rules: Policy,
    people: Roster,
    graded: list[Graded] | None = None,
    times: list[Time] | None = None,
) -> list[str]:
    """What rules and tables can't be applied to: times that are not known, names that nobody has."""
    found = []
    due = [row for row in best if row.origin and row.notebook in rules.due]
    untimed = [row for row in due if moment(row.handed_in) is None]
    if untimed:
        who = len({row.student for row in untimed})
        told = f"{len(untimed)} submission{'s' * (len(untimed) != 1)} of {who} student{'s' * (who != 1)}"
        found.append(f"no known time, so on time: {told}, with a due date. See {TIMES}")
    if marked := [f"{row.student} ({row.notebook[:2]})" for row in untimed if LATE in row.note]:
        found.append(f"LATE in the platform's name, and no time, so on time: {some(marked, 20)}")
    late = [row for row in due if rules.share(days_late(row, rules)) < 1]
    if late := [f"{row.student} ({row.notebook[:2]})" for row in late]:
        found.append(f"late, and worth less: {some(late, 20)}")
    strangers = sorted({row.student for row in best} - set(people.students))
    if people.students and strangers:
        found.append(f"{len(strangers)} not on the roster: {some(strangers)}")
    if idle := without_row(graded or best, times or []):
        found.append(f"{TIMES} has {len(idle)} for which nothing is here: {some(idle)}")
    return found


def days_late(row: Graded, rules: Policy) -> int:
    return rules.days_late(row.student, row.notebook, row.handed_in)


def some(names: list[str], most: int = 5) -> str:
    return ", ".join(name[:60] for name in names[:most]) + ", ..." * (len(names) > most)
