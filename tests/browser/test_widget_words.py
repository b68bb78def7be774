"""What widgets say and where they put things: each script alone on an empty page, with a model of its own."""

import json

import numpy as np
import pytest

from course_utils.timeline import trace_lines
from course_utils.widgets import checkpoints, roofline, tiles
from course_utils.widgets.base import script, style
from course_utils.widgets.memory import recorded_engines, timeline_data

SHOW = """async ([source, data, step]) => {
  document.body.innerHTML = '<div id="widget"></div>';
  const state = { data, step };
  const model = { get: (name) => state[name], set: (name, value) => { state[name] = value; },
    save_changes() {}, on() {} };
  const module = await import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
  module.default.render({ model, el: document.querySelector('#widget') });
}"""


@pytest.fixture(scope="module")
def page(chromium):
    context = chromium.new_context(viewport={"width": 420, "height": 900})
    page = context.new_page()
    page.set_content(f"<style>{style()}</style>")
    yield page
    context.close()


def show(page, name: str, data: dict, step: int = 0):
    plain = json.loads(json.dumps(data))
    page.evaluate(SHOW, [script(name), plain, step])
    return page.locator("#widget")


def to(page, label: str, value: int) -> None:
    """A range to one of its values."""
    page.get_by_label(label, exact=True).evaluate(
        "(el, value) => { el.value = value; el.dispatchEvent(new Event('input')); }", value
    )


def rebound():
    x = np.ones(100_000)
    x = x + 1
    return x


def test_a_name_given_to_another_array_is_told_as_new(page):
    shown = show(page, "memory_timeline", timeline_data(trace_lines(rebound), title="t"))
    to(page, "Step", 1)
    row = shown.locator("tbody tr").first.inner_text()
    assert "x (new)" in row and "x = x + 1" in row
    assert "new x, freed the old x" in shown.locator(".course-line").inner_text()


def roofs(width: int) -> list[tuple[float, float]]:
    """Points that collide in lesson 06: three operations under one roof on a narrow drawing."""
    return [(width * share, high) for share, high in ((0.5, 80), (0.52, 84), (0.55, 80), (0.9, 80))]


@pytest.mark.parametrize("width", [290, 900])
def test_marks_of_a_roofline_cover_no_other_and_no_point_of_another(page, width):
    points = [*roofs(width), (width * 0.5, 80), (width * 0.1, 200)]
    source = script("roofline").replace("export default { render };", "")
    placed = page.evaluate(
        f"(points) => {{ {source}\nreturn placed(points, [44, 26], [{width} - 10, 266]); }}", points
    )
    far = [max(abs(a - c), abs(b - d)) for i, (a, b) in enumerate(placed) for c, d in placed[:i]]
    assert min(far) >= 18
    assert placed[-1] == list(points[-1]) and placed[3] == list(points[3])  # alone: at its point
    near = [
        max(abs(a - c), abs(b - d))
        for i, (a, b) in enumerate(placed)
        for j, (c, d) in enumerate(points)
        if i != j and (c, d) != tuple(points[i])
    ]
    assert min(near) >= 13


def test_on_a_narrow_roofline_every_mark_is_at_its_point_or_led_to_it(page):
    data = roofline.roofline_data(
        {"a laptop": (1e11, 1e10), "A100": (312e12, 1935e9)},
        {"1 column": (0.5, 4e9)},
        ("product", "scores", "kernels"),
    )
    shown = show(page, "roofline", data)
    marks = shown.locator(".course-drawing svg > g > g").count()
    led = shown.locator(".course-drawing .leader").count()
    assert marks == 4 and led == shown.locator(".course-drawing .true").count()


@pytest.fixture
def uneven(page):
    """The playground of lesson 04's uneven chain, everything kept, with its best schedules."""
    data = checkpoints.playground_data("uneven")
    data["networks"][0]["best"] = checkpoints._stored()["uneven"]["best"]
    return show(page, "checkpoint_playground", data, step=0b1111111)


def test_what_would_do_within_a_budget_tells_choices_from_all_schedules(page, uneven):
    budgets = page.get_by_label("Budget", exact=True)
    price = uneven.locator(".course-price")
    for step in range(int(budgets.get_attribute("max")) + 1):
        to(page, "Budget", step)
        if " 14.0 MB above" in price.inner_text():
            break
    assert "the best choice takes 57.1 %, a freer schedule 52.4 %" in price.inner_text()
    uneven.get_by_role("button", name="Show the optimum").click()
    told = price.inner_text()
    assert "which no choice of what to keep makes" in told and "52.4 %" in told
    boxes = uneven.locator(".course-node")
    states = [boxes.nth(i).get_attribute("aria-label") for i in range(7)]
    assert sum("gone in the optimum" in state for state in states) >= 3
    boxes.nth(3).click()
    assert price.inner_text().startswith("Back at your own choice: z4 discarded.")
    states = [boxes.nth(i).get_attribute("aria-label").split(",")[1] for i in range(7)]
    assert states == [" kept"] * 3 + [" gone"] + [" kept"] * 3


def test_an_optimum_that_is_a_choice_leaves_ones_own_choice_alone(page, uneven):
    uneven.get_by_role("button", name="Discard all").click()
    to(page, "Budget", int(page.get_by_label("Budget", exact=True).get_attribute("max")))
    uneven.get_by_role("button", name="Show the optimum").click()
    assert "a choice that comes back" in uneven.locator(".course-price").inner_text()
    uneven.locator(".course-node").nth(6).click()
    told = uneven.locator(".course-price").inner_text()
    assert told.startswith("Back at your own choice: z7 kept.")
    states = [uneven.locator(".course-node").nth(i).get_attribute("aria-label") for i in range(7)]
    assert [" gone" in state for state in states] == [True] * 6 + [False]


@pytest.mark.parametrize("place", ["", "yes"])
def test_only_a_notebook_promises_the_optimum_here(page, monkeypatch, tmp_path, place):
    monkeypatch.setenv("COURSE_STATE", str(tmp_path))
    monkeypatch.setenv("COURSE_SITE", place)
    shown = show(page, "checkpoint_playground", checkpoints.playground_data("skip"))
    assert ("this cell is run again" in shown.inner_text()) == (not place)
    assert ("is in the notebook" in shown.inner_text()) == bool(place)


def test_blocks_that_do_not_fit_say_so_at_once_and_have_no_closed_form(page):
    shown = show(page, "tiles_in_motion", tiles.flash_data())
    line = shown.locator(".course-line").first
    assert "Does not fit" not in line.inner_text()
    assert "read +" in shown.text_content().split("closed form: ")[1]
    page.get_by_label("Loop outside", exact=True).select_option("queries")
    for label in ("Queries in a block", "Keys in a block"):
        to(page, label, len(tiles.BLOCKS) - 1)
    assert line.inner_text().startswith("Does not fit: ")
    assert "bytes on a chip of 16,384." in line.inner_text()
    assert "closed form: none, since it does not fit" in shown.text_content()
    to(page, "Bytes on chip", len(tiles.ATTENTION_CAPACITIES) - 1)
    assert "Does not fit" not in line.inner_text() and "read +" in shown.text_content()


def test_what_is_made_anew_of_a_tile_that_was_loaded_has_a_name_of_its_own(page):
    shown = show(page, "tiles_in_motion", tiles.flash_data())
    line, told = shown.locator(".course-line").first, []
    for step in range(34):
        to(page, "Step", step)
        told.append(line.inner_text().split(".")[0])
    assert (
        "Store new row_sums[0:16], 128 bytes" in told and "Load row_sums[0:16], 128 bytes" in told
    )
    assert "Let go: row_maxima[32:48], row_sums[32:48]" in told  # those that were loaded
    assert "Let go: new row_maxima[32:48], new row_sums[32:48]" in told  # those that were stored
    assert "Store O[0:16, 0:16], 2,048 bytes" in told  # changed in place: one value, one name


def test_all_drawings_stand_before_the_tables(page):
    names = ["eager", "lazy", "rematerialized"]
    data = timeline_data(*recorded_engines(*names), titles=names)
    shown = show(page, "memory_timeline", data)
    order = shown.locator("svg[role=img], table").evaluate_all(
        "all => all.map(each => each.localName)"
    )
    assert order == ["svg"] * 3 + ["table"] * 3
