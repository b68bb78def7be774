"""Uses a widget as people do: by mouse, by keys, by touch; and measures what a step takes.

Nothing here knows a widget by name: each has a range (its steps) and buttons, or one of them.
"""

STEP_LIMIT_MILLISECONDS = 30
REST_MILLISECONDS = 300  # it speaks 250 after its last change

# Everything that a reader can see or hear of a widget, without what it says about its own figure.
STATE = "el => el.querySelector('.course-body').innerHTML + [...el.querySelectorAll('input, select')].map(i => i.value)"

MEASURE = """async (el) => {
  const range = [...el.querySelectorAll('input[type=range]')].sort((a, b) => b.max - a.max)[0];
  const times = [], steps = Number(range.max) + 1, turns = 20;
  for (let turn = 0; turn < turns; turn += 1) { // over the whole range
    const start = performance.now();
    range.value = steps > turns ? Math.floor(turn * steps / turns) : turn % steps;
    range.dispatchEvent(new Event('input', { bubbles: true }));
    el.getBoundingClientRect(); // what was drawn is laid out, too
    times.push(performance.now() - start);
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  return times.sort((a, b) => a - b)[times.length >> 1];
}"""


def step_milliseconds(widget) -> float:
    """The median of a step on the widget's longest range, drawing included."""
    return widget.evaluate(MEASURE)


def changes(widget, act) -> bool:
    """Does this act change what the widget shows?"""
    before = widget.evaluate(STATE)
    act()
    return widget.evaluate(STATE) != before


def reset(widget) -> None:
    """To the first step of its longest range."""
    widget.evaluate(
        "el => { const r = [...el.querySelectorAll('input[type=range]')].sort((a, b) => b.max - a.max)[0];"
        "r.value = 0; r.dispatchEvent(new Event('input', { bubbles: true })); }"
    )


def longest_range(widget):
    return widget.evaluate_handle(
        "el => [...el.querySelectorAll('input[type=range]')].sort((a, b) => b.max - a.max)[0]"
    ).as_element()


def live_text(page, widget) -> str:
    """What is read aloud, once the widget has come to rest."""
    page.wait_for_timeout(REST_MILLISECONDS)
    return widget.query_selector(".course-live").inner_text()


def unanswered(page, widget, *touches: bool) -> list[str]:
    """The ways of using a widget that change nothing: its button, by mouse or touch or both, and its keys."""
    silent = []
    widget.scroll_into_view_if_needed()
    reset(widget)
    before = live_text(page, widget)
    button = widget.query_selector("button:has-text('Next')")
    for touch in touches:
        if button is not None and not changes(widget, button.tap if touch else button.click):
            silent.append("its button Next, by touch" if touch else "its button Next, by mouse")
        reset(widget)
    longest_range(widget).focus()
    words = longest_range(widget).get_attribute("aria-valuetext")
    if not changes(widget, lambda: page.keyboard.press("ArrowRight")):
        silent.append("the right arrow key on its slider")
    page.keyboard.press("End")
    told = live_text(page, widget) != before
    if button is None:  # a slider says its own value; where no more has changed, that is all
        told = told or longest_range(widget).get_attribute("aria-valuetext") != words
    if not told:
        silent.append("the line that is read aloud")
    return silent
