"""course.py grade SUBMISSIONS --out DIR: everything that was handed in, graded, with a row for each.

DIR/grades.csv        a row a student and notebook: points, total, seed, version of the checks
DIR/grades.jsonl      all that is known of every submission; a run that was cut short goes on from it
DIR/seed.txt          the private seed that hidden cases come from
DIR/feedback/         a page for each student; DIR/report.html: one for you
DIR/written.csv       answers in words: yours to give points
DIR/figures.json      what it came to, for --compare
DIR/final.csv, import/ with --roster or --policy: final points, and what Canvas and Moodle import
"""

import argparse
import os
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from course_utils.authoring.files import write_whole
from course_utils.errors import CourseError
from course_utils.machine import core_count

FAILED = 1
ONLY_CHECKS = "\n(by what the checks gave alone: the older run kept no figures of its policy)"
STRAY = "If you have asked for it: --notebook, or a [due] in the policy"
AGAIN = (
    "What is graded is kept in grades.jsonl, and the tables are as they were: run the same command again, "
    "and it goes on."
)


def main(arguments: list[str]) -> int:
    """Grade a folder or a ZIP file of submissions. Exit status: 1 where the grader itself failed."""
    options = parse(arguments)
    out = prepare(options.submissions, options.out)
    with ended_like_ctrl_c():
        return grade(options, out)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "course.py grade",
        description="Grade what students handed in: a folder SUBMISSIONS/<student>/<NN_topic>.ipynb, "
        "or what Moodle, Canvas or Gradescope exports.",
    )
    parser.add_argument("submissions", type=Path, metavar="SUBMISSIONS")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where grades go")
    parser.add_argument("--notebook", help="only this lesson (02), into its own --out")
    parser.add_argument("--seed", type=whole, help="of the hidden cases; drawn and kept without it")
    parser.add_argument("--roster", type=Path, metavar="CSV", help="who is in the course")
    parser.add_argument("--policy", type=Path, metavar="TOML", help="points, weights, due dates")
    parser.add_argument("--compare", type=Path, metavar="OLD", help="list what changed since OLD")
    parser.add_argument("--workers", type=whole, default=core_count(), help="processes; one a core")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a dask.distributed cluster")
    parser.add_argument(
        "--inside-container",
        action="store_true",
        help="this machine is itself a throw-away container (Gradescope's): no sandbox in it",
    )
    return parser.parse_args(arguments)


def whole(text: str) -> int:
    """A number for an option: whole, not negative, and no larger than a seed may be."""
    number = int(text)
    if not 0 <= number < 2**63:
        raise argparse.ArgumentTypeError("a whole number from 0 on")
    return number


def prepare(submissions: Path, out: Path) -> Path:
    """DIR, made where it is missing. Raises CourseError where it cannot be, or would be graded."""
    if not submissions.exists():
        raise CourseError(f"{submissions}: there is no such folder or ZIP file")
    if out.resolve() == submissions.resolve() or submissions.resolve() in out.resolve().parents:
        raise CourseError(f"--out {out} lies among the submissions: choose a folder beside them")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CourseError(f"--out {out}: {error.strerror}") from None
    return out


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM, and a terminal that is closed, are Ctrl-C: what is done is kept, the sandboxes go."""

    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(number, interrupt) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before):
            signal.signal(number, handler)


def grade(options: argparse.Namespace, out: Path) -> int:
    """Grade, then write everything that is made from the rows."""
    from course_utils.grading import (
        compare,
        figures,
        finals,
        ledger,
        policy,
        publishing,
        roster,
        telling,
        written,
    )
    from course_utils.grading.attempts import chosen
    from course_utils.grading.batch import Batch
    from course_utils.grading.grade_one import Settings
    from course_utils.grading.lessons import choose_lesson, lessons
    from course_utils.grading.progress_bar import ProgressBar
    from course_utils.grading.times import read_times, with_times

    wanted = choose_lesson(options.notebook) if options.notebook else None
    rules = policy.read_policy(options.policy, lessons())
    people = roster.read_roster(options.roster)
    rules.check_names(people)
    times = read_times(options.submissions, people.student)
    publishing.refuse_mixed(out, wanted)
    # a typing error in points is told now, not after an hour
    written.given_points(out / written.FILE, rules.points)
    old = compare.old_run(options.compare) if options.compare else None
    total = count(options.submissions, people)
    settings = Settings(seed_of(out, options.seed), wanted, options.inside_container)
    with workers_for(options) as workers, ProgressBar(total, "grading") as bar:
        book = ledger.Ledger(out / ledger.FILE)
        batch = Batch(settings, book, lambda row, reused: bar.step(row.student, reused))
        try:
            graded = batch.run(handed_in(options.submissions, people), workers)
        except BaseException:
            book.close()
            print(f"\ngraded {len(batch.rows)} of {total}. {AGAIN}", file=sys.stderr)
            raise
    book.close(graded)
    graded, doubtful = with_times(graded, times)
    best, unsure = chosen(map(rules.with_points, graded), rules)
    notebooks, strays = ([wanted], []) if wanted else finals.asked_for(best, rules)
    best += finals.missing_rows(best, people, notebooks, settings.seed, graded)
    best.sort(key=lambda row: (row.student, row.notebook))
    asks = telling.asks(unsure, doubtful, rules)
    with_finals = bool(options.roster or options.policy or options.inside_container)
    found, told = publishing.publish(out, best, rules, people, strays, asks, with_finals)
    told += telling.about_names_and_times(best, rules, people, graded, times)
    print(*told, *telling.asks_told(asks), sep="\n", end="\n" * bool(told or asks))
    for stray in strays if options.roster or options.policy else ():
        print(f"{stray}: few handed it in, so it counts in no total. {STRAY}")
    (out / compare.FILE).unlink(missing_ok=True)
    if old is not None:
        plain = figures.figures(chosen(graded)[0])
        changed = compare.changes(old, found if old.is_whole else compare.Run(plain, {}))
        compare.write_changes(out / compare.FILE, changed)
        print(compare.told(changed) + (ONLY_CHECKS if not old.is_whole else ""))
    return summary(out, best)


def handed_in(place: Path, people) -> Iterator:
    """Every submission, under its student's name in the roster. Raises CourseError."""
    from course_utils.grading.platforms import source
    from course_utils.grading.submissions import collect

    for each in collect(place, people.knows):
        named = source(each.origin, each.student)
        student = people.student(each.student, named.platform if named else "")
        yield replace(each, student=student)


def count(place: Path, people) -> int:
    """How many submissions there are. Raises CourseError for none, and where somebody would be lost."""
    from course_utils.grading.layout import refuse_lost, refuse_unclear
    from course_utils.grading.platforms import source
    from course_utils.grading.submissions import collect

    refuse_unclear(place, people.knows)
    total, strangers = 0, {}
    for each in collect(place, people.knows):
        total += 1
        if not people.knows(each.student) and source(each.origin, each.student) is None:
            inside = each.origin.removeprefix(str(place))
            strangers.setdefault(each.student, set()).add(inside)
    if not total:
        raise CourseError(f"{place}: no notebooks in it")
    refuse_lost(strangers, people.knows, people.student)
    return total


def workers_for(options: argparse.Namespace) -> AbstractContextManager:
    """This machine's processes, or a cluster's. Raises CourseError: no sandbox, no grading."""
    from course_utils.grading.batch import cluster_workers, local_workers

    if options.scheduler:
        return cluster_workers(options.scheduler)
    from course_utils.grading.sandbox.choose import choose_sandbox

    sandbox = choose_sandbox(options.inside_container)
    return local_workers(max(1, options.workers), sandbox)


def seed_of(out: Path, given: int | None) -> int:
    """The private seed: the one given, else an earlier run's, else a new one. It stays in DIR."""
    path = out / "seed.txt"
    if given is None and path.exists():
        try:
            return whole(path.read_text("utf-8").strip())
        except (OSError, ValueError, argparse.ArgumentTypeError):
            raise CourseError(f"{path}: holds no seed; give one with --seed") from None
    seed = secrets.randbelow(10**15) if given is None else given
    write_whole({path: f"{seed}\n".encode()})
    os.chmod(path, 0o600)
    return seed


def summary(out: Path, best: list) -> int:
    """Say how it went, and where things are."""
    from course_utils.grading.records import RowStatus
    from course_utils.grading.report import reasons

    counts = Counter(str(row.status) for row in best)
    told = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    people = len({row.student for row in best})
    print(f"{len(best)} row{'s' * (len(best) != 1)}, {people} student{'s' * (people != 1)}: {told}")
    flagged = sum(bool(reasons(row)) for row in best)
    if flagged:
        print(f"{flagged} to be looked at: see {out / 'report.html'}")
    print(f"{out / 'grades.csv'}, {out / 'report.html'}, {out / 'feedback'}")
    failed = counts[str(RowStatus.GRADER_ERROR)]
    if failed:
        print(f"the grader itself failed on {failed}: their rows say why; they have no points yet")
    return FAILED if failed else 0
