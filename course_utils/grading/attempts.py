"""Which of several attempts counts: the best, or the last one handed in.

The best is the one that comes to most once lateness has taken its part, so an attempt that was on time never
pays for a later one. The last goes by the times that are known of all of them, else by the platform's own
number for each upload. Where neither is there, nobody can say which was the last: the best counts until a
person does, and the student is named.
"""

import datetime
from collections.abc import Iterable

from course_utils.grading import platforms
from course_utils.grading.policy import Policy, moment
from course_utils.grading.records import Graded, RowStatus
from course_utils.grading.rows import core_points

Group = list[Graded]


def chosen(rows: Iterable[Graded], rules: Policy | None = None) -> tuple[Group, Group]:
    """(one row a student and notebook, sorted; those of them that were not the last for certain).

    A failure of the grader's outranks every other row: it must be seen.
    """
    rules, groups = rules or Policy(), {}
    for row in rows:
        groups.setdefault((row.student, row.notebook), []).append(row)
    for student, notebook in [key for key in groups if key[1] == ""]:
        if any(
            key[0] == student and key[1] for key in groups
        ):  # a stray file beside a notebook of ours
            del groups[student, notebook]
    picked, unsure = [], []
    for key in sorted(groups):
        mine = groups[key]
        read = [row for row in mine if row.status in (RowStatus.GRADED, RowStatus.PARTLY)] or mine
        failed = [row for row in mine if row.status is RowStatus.GRADER_ERROR]
        row = max(reversed(failed or read), key=lambda each: comes_to(each, rules))
        if rules.attempts == "last" and not failed:
            last = last_of(read, rules)
            differ = {(core_points(each), tuple(sorted(each.written.items()))) for each in read}
            if last is None and len(differ) > 1:
                unsure.append(row)
            row = last or row
        picked.append(row)
    return picked, unsure


def comes_to(row: Graded, rules: Policy) -> tuple[float, int]:
    """What a row comes to, and how little it is late."""
    days = rules.days_late(row.student, row.notebook, row.handed_in)
    return core_points(row, rules.count_optional) * rules.share(days), -days


def last_of(mine: Group, rules: Policy) -> Graded | None:
    """The last of these attempts; None where nothing tells. The same content twice is one attempt."""
    due = rules.due.get(mine[0].notebook)
    zone = due.tzinfo if due else datetime.UTC
    times, turns, sources = {}, {}, set()
    for row in mine:
        when, named = moment(row.handed_in), platforms.named(row.origin)
        when = when.replace(tzinfo=zone) if when and when.tzinfo is None else when
        sources.add((named.platform, named.number) if named and named.turn else None)
        keep_latest(times, row.content_hash, when)
        keep_latest(turns, row.content_hash, named.turn if named else None)
    for known, is_known in ((times, True), (turns, len(sources) == 1 and None not in sources)):
        latest = [key for key, at in known.items() if at == max(known.values(), default=None)]
        if is_known and len(known) == len({row.content_hash for row in mine}) and len(latest) == 1:
            return next(row for row in reversed(mine) if row.content_hash == latest[0])
    if len({row.content_hash for row in mine}) == 1:
        return max(reversed(mine), key=lambda each: comes_to(each, rules))
    return None


def keep_latest(found: dict, key: str, at) -> None:
    if at is not None:
        found[key] = max(at, found.get(key, at))
