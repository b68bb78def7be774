// What the course's widgets share: elements with roles and labels, controls that work by mouse, touch and
// keyboard, a line that says what changed, and one look in light and dark. A widget's own file follows this one
// in the same module; it knows nothing of Jupyter but `model.get`, `set`, `save_changes` and `on`, so that the
// same file runs on a page without a kernel.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "rect", "line", "path", "text", "circle", "polyline", "polygon",
  "title", "desc", "defs", "pattern"]);
const FOCUSED = new Set(["input", "select", "button", "summary"]);

// Okabe and Ito's palette without black and yellow: told apart by all, on light and on dark.
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"];
const PATTERNS = ["", "dots", "lines", "cross"]; // the second, third and fourth time a colour is used

/** An element of HTML or SVG: element("rect", {x: 0, onclick: f}, child, "text"). null leaves an attribute out. */
function element(tag, attributes = {}, ...children) {
  const node = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  update(node, attributes);
  // JupyterLab takes the arrow keys for its cells, except from elements that say this of themselves.
  if (FOCUSED.has(tag) || "tabindex" in attributes) node.setAttribute("data-lm-suppress-shortcuts", "true");
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Set attributes that differ; a function is an event's handler ("onclick"). */
function update(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === null || value === undefined) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
  return node;
}

/** Children in place of the old ones. */
function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Bytes as people read them: 512 bytes, 8.0 kB, 98.3 MB, 40.3 GB (powers of 1000). */
function say(bytes) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (Math.abs(bytes) >= size) return `${(bytes / size).toPrecision(3)} ${unit}`;
  return `${bytes} bytes`;
}

const count = (number) => Math.round(number).toLocaleString("en");
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
// Several widgets share a page, each kind with a copy of this file: they count together.
const newId = (word) => `course-${word}-${(globalThis.courseIds = (globalThis.courseIds ?? 0) + 1)}`;

/** Ever the same look for a name: {fill, pattern}; names in the order in which they first appear. */
function looks(names) {
  return Object.fromEntries(names.map((name, i) => [name, {
    colour: COLOURS[i % COLOURS.length],
    pattern: PATTERNS[Math.floor(i / COLOURS.length) % PATTERNS.length],
  }]));
}

/** <defs> for the looks' patterns, and the value of `fill` for each name. */
function patterns(all) {
  const defs = element("defs"), fills = {};
  for (const [name, { colour, pattern }] of Object.entries(all)) {
    if (!pattern) { fills[name] = colour; continue; }
    const id = newId("pattern"), mark = { stroke: "#fff", "stroke-width": 1.5, fill: "none" };
    const shapes = {
      dots: [element("circle", { cx: 3, cy: 3, r: 1.4, fill: "#fff" })],
      lines: [element("path", { d: "M0 3H6", ...mark })],
      cross: [element("path", { d: "M0 3H6M3 0V6", ...mark })],
    };
    defs.append(element("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
      element("rect", { width: 6, height: 6, fill: colour }), shapes[pattern]));
    fills[name] = `url(#${id})`;
  }
  return { defs, fills };
}

/** A range with its label and its value in words. `set(value)` moves it without an event.
 *
 * brief: the words are a number or two, and stand beside the range however narrow the widget is.
 */
function slider({ label, min = 0, max, step = 1, value, words = String, brief = false, onInput }) {
  const id = newId("slider");
  const said = element("output", { for: id, "aria-live": "off" }); // the range itself says it
  const input = element("input", { id, type: "range", min, max, step });
  const show = (number) => {
    input.value = number;
    said.textContent = words(number);
    input.setAttribute("aria-valuetext", said.textContent);
  };
  input.addEventListener("input", () => { show(Number(input.value)); onInput(Number(input.value)); });
  show(value);
  const node = element("div", { class: `course-control${brief ? " course-brief" : ""}` },
    element("label", { for: id }, label), input, said);
  return { node, input, set: show };
}

/** One of several, by name: options is a list of [value, text]. */
function choice({ label, options, value, onChange }) {
  const id = newId("choice");
  const select = element("select", { id },
    options.map(([key, text]) => element("option", { value: key }, text)));
  select.value = value;
  select.addEventListener("change", () => onChange(select.value));
  const node = element("div", { class: "course-control" }, element("label", { for: id }, label), select);
  return { node, select, set: (key) => { select.value = key; } };
}

function button(text, onClick, attributes = {}) {
  return element("button", { type: "button", onclick: onClick, ...attributes }, text);
}

/** A slider over steps with back, forward and play. Arrow keys on the slider step; playing stops at the end. */
function stepper({ label, steps, value, words, onStep, milliseconds = 600 }) {
  let timer = null;
  const go = (step) => { control.set(clamp(step, 0, steps - 1)); onStep(Number(control.input.value)); };
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  const control = slider({
    label, max: steps - 1, value, words, onInput: (step) => { stop(); onStep(step); },
  });
  const move = (by) => () => { stop(); go(Number(control.input.value) + by); };
  const play = button("Play", () => {
    if (timer) return stop();
    if (Number(control.input.value) === steps - 1) go(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      if (!play.isConnected || Number(control.input.value) === steps - 1) return stop();
      go(Number(control.input.value) + 1);
    }, milliseconds);
  });
  control.node.append(element("span", { class: "course-buttons" },
    button("Back", move(-1)), button("Next", move(1)), play));
  return { node: control.node, input: control.input, set: control.set, stop };
}

/** A widget's frame: title, body, a line read aloud, and the static figure that it stands for.
 *
 * The figure is what stands just before it, in a notebook's outputs or on a page: it is hidden while the widget
 * lives, and a button shows it.
 */
function frame(el, model, { title, about }) {
  el.classList.add("course-widget");
  const heading = newId("title");
  const live = element("p", { class: "course-live", role: "status", "aria-live": "polite" });
  const body = element("div", { class: "course-body" });
  const section = element("div", { // no landmark, as a section with a name is: a page has many
    role: "group", class: "course-frame", "aria-labelledby": heading },
    element("h3", { id: heading }, title), element("p", { class: "course-about" }, about), body, live);
  fill(el, section);
  requestAnimationFrame(() => offerFallback(el, section)); // when el is in its place
  let pending = null;
  const tell = (text) => { // wait until the student pauses: a reader should not hear every step in passing
    clearTimeout(pending);
    pending = setTimeout(() => { if (live.textContent !== text) live.textContent = text; }, 250);
  };
  return { body, tell };
}

function offerFallback(el, section) {
  const output = el.closest(".jp-OutputArea-child, .course-widget-slot");
  const fallback = output?.previousElementSibling;
  if (!fallback?.querySelector("[data-course-fallback]")) return;
  const toggle = button("Show as a figure and a table", () => {
    fallback.hidden = !fallback.hidden;
    toggle.setAttribute("aria-expanded", String(!fallback.hidden));
  }, { "aria-expanded": "false", class: "course-fallback-toggle" });
  fallback.hidden = true;
  fallback.classList.add("course-fallback");
  section.append(toggle);
}

/** Call draw(width) with the node's width in pixels, now and when it changes: text keeps its size then. */
function onWidth(node, draw) {
  let drawn = 0;
  const see = () => {
    const width = Math.round(node.clientWidth) || drawn || 560; // before the node is in its place
    if (width !== drawn) draw(drawn = width);
  };
  const observer = new ResizeObserver(see);
  observer.observe(node);
  see();
  return () => observer.disconnect();
}

/** Keep a trait and the view in step: the view's own changes are saved, others' are drawn. */
function follow(model, name, draw) {
  model.on(`change:${name}`, () => draw(model.get(name)));
  return (value) => {
    if (model.get(name) === value) return;
    model.set(name, value);
    model.save_changes();
  };
}
