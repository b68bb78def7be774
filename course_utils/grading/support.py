"""The statements that an answer needs from elsewhere in its notebook: imports, helpers, constants.

Found by names, as Python would look them up for someone who runs the notebook from the top: the
last definition above the exercise's check counts, and only if there is none, the first one below.
What no cell of the student's defines (a set-up cell was deleted) is taken from the lesson as it was
handed out.
"""

from dataclasses import dataclass, field

from course_utils.grading.statements import CodeCell, Statement

GIVEN = -(10**6)  # the given cells stand above all the student's


@dataclass
class Search:
    """Statements chosen so far, in the order in which they must run."""

    makers: dict[str, list[Statement]]  # by name, in notebook order
    changers: dict[str, list[Statement]]
    open_imports: list[Statement]  # from math import *
    limit: tuple[int, int]
    own: frozenset[tuple[int, int]]  # places of the answer's own statements
    own_names: frozenset[str]
    chosen: list[Statement] = field(default_factory=list)
    seen: set[tuple] = field(default_factory=set)

    def need(self, name: str, place: tuple[int, int], is_later: bool) -> None:
        """Choose what makes a name that a statement at this place needs, and what that needs."""
        makers = [each for each in self.makers.get(name, ()) if each.place not in self.own]
        if not makers:
            for each in self.open_imports:
                self.take(each)
            return
        before = self.limit if is_later else place
        above = [each for each in makers if each.place < before]
        maker = above[-1] if above else makers[0]
        self.take(maker)
        for earlier in reversed(above[:-1]):
            if not maker.is_partial:
                break
            maker = earlier
            self.take(maker)
        for change in self.changers.get(name, ()):
            wanted = name in change.changes or not maker.is_import  # np.random.seed(1) is not
            demonstrates = change.needs & self.own_names  # it calls the answer
            if maker.place < change.place < before and wanted and not demonstrates:
                self.take(change)

    def take(self, found: Statement) -> None:
        key = (found.place, found.source)
        if key in self.seen:
            return
        self.seen.add(key)
        for each in sorted(found.now):
            self.need(each, found.place, is_later=False)
        for each in sorted(found.later - found.makes):
            self.need(each, found.place, is_later=True)
        self.chosen.append(found)


def support_for(
    answer: tuple[Statement, ...],
    cells: list[CodeCell],
    given: tuple[CodeCell, ...],
    limit: int,
) -> tuple[str, ...]:
    """Sources that must run before the answer's own statements, in order, a text for each cell.

    `limit`: the index of the cell that checks the answer.
    """
    statements = [each for cell in cells for each in cell.statements if not each.shows]
    own = frozenset(each.place for each in answer)
    made = {name for each in statements for name in each.makes}
    lent = [
        each
        for cell in given
        for each in cell.statements
        if not each.shows and not each.makes & made
    ]
    lent = [Statement(**vars(each) | {"cell": GIVEN + each.cell}) for each in lent]
    own_names = frozenset().union(*(each.makes for each in answer))
    open_imports = [each for each in statements if each.imports_all]
    search = Search({}, {}, open_imports, (limit, 0), own, own_names)
    for each in lent + statements:
        for name in each.makes:
            search.makers.setdefault(name, []).append(each)
        for name in (each.changes | each.calls) - each.makes:
            search.changers.setdefault(name, []).append(each)
    defined = set()
    for each in answer:
        for name in sorted(each.now - defined):
            search.need(name, each.place, is_later=False)
        defined |= each.makes
    for name in sorted({name for each in answer for name in each.later} - defined):
        search.need(name, (limit, 0), is_later=True)
    for each in (s for s in statements if "setrecursionlimit" in s.source and s.place < (limit, 0)):
        if each.place not in own:
            search.take(each)
    return in_cells(search.chosen)


def in_cells(chosen: list[Statement]) -> tuple[str, ...]:
    """The sources of the chosen statements, neighbours of one cell joined.

    They stay in notebook order as far as no statement stands before what it needs.
    """
    texts, last = [], None
    for each in in_order(chosen):
        if each.cell == last:
            texts[-1] += "\n" + each.source
        else:
            texts.append(each.source)
        last = each.cell
    return tuple(texts)


def in_order(chosen: list[Statement]) -> list[Statement]:
    """Notebook order where every name that is needed at once stands above; else as they were found."""
    by_place = sorted(chosen, key=lambda each: each.place)
    made_by = {name: each for each in chosen for name in each.makes}
    position = {id(each): at for at, each in enumerate(by_place)}
    for each in by_place:
        for name in each.needs:
            maker = made_by.get(name)
            if maker is not None and position[id(maker)] > position[id(each)]:
                return chosen
    return by_place
