// Lets widgets live on a page without a kernel, and keeps the page's other parts within reach of the keyboard.
"use strict";

/** What a widget asks of its model: `get`, `set`, `save_changes`, `on`. Nothing is kept. */
function pageModel(state) {
  const values = { step: 0, ...state }, listeners = {};
  return {
    get: (name) => values[name],
    set: (name, value) => {
      if (values[name] === value) return;
      values[name] = value;
      for (const listener of listeners[`change:${name}`] ?? []) listener();
    },
    save_changes: () => {},
    on: (event, listener) => { (listeners[event] ??= []).push(listener); },
    off: (event, listener) => { listeners[event] = (listeners[event] ?? []).filter((each) => each !== listener); },
  };
}

for (const slot of document.querySelectorAll(".course-widget-slot")) {
  const render = window.courseWidgets?.[slot.dataset.script];
  if (!render) continue; // the figure before it stays
  const place = document.createElement("div");
  try {
    render({ model: pageModel(JSON.parse(slot.querySelector("script").textContent)), el: place });
    slot.append(place);
  } catch (problem) { // the figure before it stays, and so do the page's other widgets
    console.error(problem);
  }
}

/** What scrolls sideways takes the focus, so that the arrow keys reach its end; and it shows that it goes on. */
function reachScrollers() {
  for (const part of document.querySelectorAll(".wide")) {
    const scrolls = part.scrollWidth > part.clientWidth;
    if (scrolls) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
    if (scrolls && !part.hasAttribute("role")) { // code and outputs have theirs
      part.setAttribute("role", "group");
      part.setAttribute("aria-label", part.matches(".math") ? "Formula" : part.matches(".output") ? "Output" : "Table");
    }
    showEnd(part);
  }
}
function showEnd(part) {
  part.classList.toggle("goes-on", part.scrollLeft + part.clientWidth < part.scrollWidth - 4);
}
reachScrollers();
addEventListener("scroll", ({ target }) => { if (target.classList?.contains("wide")) showEnd(target); },
  { capture: true, passive: true });
addEventListener("resize", reachScrollers);

// On a wide screen the page's sections stand beside the text, open.
const sections = document.querySelector(".sections details");
const beside = matchMedia("(min-width: 1240px)");
const unfold = () => { if (sections) sections.open = beside.matches; };
unfold();
beside.addEventListener("change", unfold);

// On paper everything is open.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("main details:not([open])")) {
    part.open = true;
    part.dataset.forPrint = "";
  }
});
addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("[data-for-print]")) {
    part.open = false;
    delete part.dataset.forPrint;
  }
});
