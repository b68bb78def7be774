// What the course's widgets share: elements with roles and labels, controls for mouse, touch and keyboard, words of
// what changed, one look in light and dark. A widget's own file follows in the same module; of Jupyter it knows
// `model.get`, `set`, `save_changes` and `on`, so that it runs on a page without a kernel.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "rect", "line", "path", "text", "circle", "polyline", "polygon", "defs", "pattern"]);
const FOCUSED = new Set(["input", "select", "button", "summary"]);

// Okabe and Ito's palette without black and yellow: told apart by all.
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"];
const PALE = new Set(["#E69F00", "#56B4E9"]); // white marks would be lost on them
// The second and third time that a colour is used. Dots are for gradients, here as in every figure.
const PATTERNS = ["", "cross", "lines"];

const present = (children) => children.flat().filter((child) => child != null);

/** An element of HTML or SVG: element("rect", {x: 0, onclick: f}, child, "text"). null leaves an attribute out. */
function element(tag, attributes = {}, ...children) {
  const node = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  update(node, attributes);
  // JupyterLab takes the arrow keys for its cells, except from elements that say this of themselves.
  if (FOCUSED.has(tag) || "tabindex" in attributes) node.setAttribute("data-lm-suppress-shortcuts", "true");
  node.append(...present(children));
  return node;
}

/** Set attributes that differ; a function is an event's handler ("onclick"). */
function update(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value == null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
  return node;
}

/** Children in place of the old ones. */
function fill(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

/** Bytes as people read them: 512 bytes, 8.00 kB, 98.3 MB (powers of 1000). */
function say(bytes) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (Math.abs(bytes) >= size) return `${(bytes / size).toPrecision(3)} ${unit}`;
  return `${bytes} bytes`;
}

const count = (number) => Math.round(number).toLocaleString("en");
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
// Copies of this file share a page: they count together.
const newId = (word) => `course-${word}-${(globalThis.courseIds = (globalThis.courseIds ?? 0) + 1)}`;

/** A look for each name, in their order. */
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
    const id = newId("pattern"), isDots = pattern.startsWith("dots");
    const d = { dots: "M3 3h.01", dots2: "M1 1h.01M4 4h.01", lines: "M0 3H6", cross: "M0 3H6M3 0V6" }[pattern];
    defs.append(element("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
      element("rect", { width: 6, height: 6, fill: colour }),
      element("path", { d, stroke: PALE.has(colour) ? "#000" : "#fff", "stroke-width": isDots ? 2.4 : 1.4, "stroke-linecap": "round" })));
    fills[name] = `url(#${id})`;
  }
  return { defs, fills };
}

const swatch = (fill) => element("svg", { viewBox: "0 0 12 12", "aria-hidden": "true", class: "course-swatch" },
  element("rect", { width: 12, height: 12, fill }));

/** A range with its label and its value in words, brief or not. `set(value)` moves it without an event. */
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

/** A slider over steps with back, forward and play, which stops at the end. */
function stepper({ label, steps, value, words, onStep, milliseconds = 600 }) {
  let timer = null;
  const go = (step) => { control.set(clamp(step, 0, steps - 1)); onStep(Number(control.input.value)); };
  const stop = () => {
    if (!timer) return;
    timer = clearInterval(timer);
    play.textContent = "Play";
    delete play.dataset.playing;
    play.dispatchEvent(new Event("course-rest", { bubbles: true })); // `frame` speaks now
  };
  const move = (by) => () => { stop(); go(Number(control.input.value) + by); };
  const back = button("Back", move(-1)), next = button("Next", move(1));
  const control = slider({
    label, max: steps - 1, value, onInput: (step) => { stop(); onStep(step); },
    words: (step) => {
      update(back, { "aria-disabled": step === 0 });
      update(next, { "aria-disabled": step === steps - 1 });
      return words(step);
    },
  });
  const play = button("Play", () => {
    if (timer) return stop();
    if (Number(control.input.value) === steps - 1) go(0);
    play.textContent = "Pause";
    play.dataset.playing = "";
    timer = setInterval(() => {
      if (!play.isConnected || Number(control.input.value) === steps - 1) return stop();
      go(Number(control.input.value) + 1);
    }, milliseconds);
  });
  control.node.append(element("span", { class: "course-buttons" }, back, next, play));
  return { node: control.node, input: control.input, set: control.set, stop };
}

/** A widget's frame: title, body, a line of what changed, and the static figure that it stands for.
 *
 * tell: news is read aloud when the student pauses, not before anything is done, nor while it plays; place before
 * it, unless a slider has just said it. written is seen. The figure stands just before the widget, in a notebook's
 * outputs or on a page: it is hidden while the widget lives, and a button shows it.
 */
function frame(el, model, { title, about }) {
  el.classList.add("course-widget");
  const heading = newId("title");
  const live = element("p", { class: "course-live course-aside", role: "status" });
  const line = element("p", { class: "course-line" }), body = element("div", { class: "course-body" });
  const section = element("div", { // no landmark, as a section with a name is: a page has many
    role: "group", class: "course-frame", "aria-labelledby": heading },
    element("h3", { id: heading }, title), element("p", { class: "course-about" }, about), body, line, live);
  fill(el, section);
  requestAnimationFrame(() => offerFallback(el, section, title)); // when el is in its place
  let pending = null, latest = "", isUsed = false;
  for (const kind of ["pointerdown", "keydown", "click", "input"]) section.addEventListener(kind, () => { isUsed = true; }, true);
  const speak = () => {
    clearTimeout(pending);
    if (isUsed) pending = setTimeout(() => {
      if (!section.querySelector("[data-playing]") && live.textContent !== latest) live.textContent = latest;
    }, 250);
  };
  section.addEventListener("course-rest", speak);
  const tell = ({ place = "", news, written = "" }) => {
    latest = document.activeElement?.type === "range" ? news : `${place} ${news}`.trim();
    if (line.textContent !== written) line.textContent = written;
    speak();
  };
  return { body, tell };
}

function offerFallback(el, section, title) {
  const output = el.closest(".jp-OutputArea-child, .course-widget-slot");
  const fallback = output?.previousElementSibling;
  if (!fallback?.querySelector("[data-course-fallback]")) return;
  const show = (isShown) => {
    fallback.hidden = !isShown;
    toggle.setAttribute("aria-expanded", String(isShown));
    toggle.textContent = `${isShown ? "Hide the" : "Show as a"} figure and ${isShown ? "the" : "a"} table`;
  };
  const toggle = button("", () => {
    show(fallback.hidden);
    const to = fallback.hidden ? toggle : fallback; // it stands above
    to.focus({ preventScroll: true });
    to.scrollIntoView({ block: fallback.hidden ? "nearest" : "start" });
  }, { class: "course-fallback-toggle", "aria-controls": fallback.id ||= newId("figure"),
    "aria-describedby": section.getAttribute("aria-labelledby") });
  update(fallback, { tabindex: -1, role: "group", "aria-label": `${title}, as a figure and a table`, "data-lm-suppress-shortcuts": "true" });
  fallback.classList.add("course-fallback");
  show(false);
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
