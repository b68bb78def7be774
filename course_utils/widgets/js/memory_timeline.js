// Scrub through a program: every live array a block, the peak marked, several engines side by side.

const WIDTH = 330, HEIGHT = 150, LEFT = 58, RIGHT = 4, TOP = 14, BOTTOM = 12;
const ROWS = 6; // of a table that are seen at once; more are scrolled to
const EDGE = { stroke: "currentColor", "stroke-width": 0.7 }; // its colour alone is too pale on some papers
const TOLERANCE = 65536; // a measured peak is right within so many bytes

function render({ model, el }) {
  const { title, engines, moment } = model.get("data");
  const steps = Math.max(...engines.map((engine) => engine.steps.length));
  const most = Math.max(...engines.flatMap((engine) => engine.steps.map((step) => step.peak)));
  const names = [...new Set(engines.flatMap((e) => e.steps.flatMap((s) => s.blocks.map((b) => b.name))))];
  const look = looksOf(names.filter((name) => name !== "unnamed"));
  const { body, tell } = frame(el, model, {
    title,
    about: `Each column is a step, each block in it an array that is alive ${moment === "before" ? "when the step has what it reads" : "after it"}. Drag, or use the arrow keys.`
      + (names.some(isGradient) ? " Dotted: gradients, in the colour of what they are the gradients of." : ""),
  });
  if (engines.length > 2) el.style.maxWidth = "1180px"; // or their tables are cut off
  const rows = Math.min(ROWS, Math.max(...engines.flatMap((e) => e.steps.map((s) => s.blocks.length))));
  const panels = engines.map((engine) => panel(engine, steps, most, look, rows, moment));
  const line = (step) => engines[0].steps[Math.min(step, engines[0].steps.length - 1)].label;
  const control = stepper({
    label: "Step", steps, value: clamp(model.get("step"), 0, steps - 1),
    words: (step) => `${step + 1} of ${steps}: ${line(step)}`,
    onStep: (step) => { draw(step); save(step); },
  });
  const draw = (step) => {
    const said = panels.map((each) => each.draw(step));
    const place = `Step ${step + 1} of ${steps}: ${line(step)}.`, news = said.join(" ");
    tell({ place, news, written: `${place} ${news}` });
  };
  const save = follow(model, "step", (step) => { control.set(step); draw(step); });
  const longest = Math.max(...engines[0].steps.map((step) => step.label.length));
  if (longest > 30) control.node.querySelector("output").style.minHeight = "2.8em"; // room for a second line
  fill(body, control.node, element("div", { class: "course-panels" }, panels.map((each) => each.node)),
    element("div", { class: "course-panels" }, panels.map((each) => each.table))); // after all drawings: these are seen together
  for (const each of panels) each.onPick((step) => { control.stop(); control.set(step); draw(step); save(step); });
  draw(Number(control.input.value));
  return () => control.stop();
}

const isGradient = (name) => /^d[A-Z]|\.grad$/.test(name);

/** A colour for a value and its gradient, which has dots. */
function looksOf(names) {
  const valueOf = (name) => name.replace(/^d(?=[A-Z])|\.(grad|value)$/, "");
  const own = looks([...new Set(names.map(valueOf))]);
  return Object.fromEntries(names.map((name) => {
    const { colour, pattern } = own[valueOf(name)];
    return [name, { colour, pattern: !isGradient(name) ? pattern : pattern ? "dots2" : "dots" }];
  }));
}

/** One engine: its columns, drawn once; a cursor and a table of so many rows that follow the step. */
function panel(engine, steps, most, look, rowsSeen, moment) {
  const { defs, fills } = patterns(look);
  const wide = (WIDTH - LEFT - RIGHT) / steps, high = HEIGHT - TOP - BOTTOM;
  const y = (bytes) => TOP + high * (1 - bytes / most);
  const peak = Math.max(...engine.steps.map((step) => step.peak));
  const peakAt = engine.steps.findIndex((step) => step.peak > peak - TOLERANCE);
  const columns = engine.steps.map((step, i) => {
    let below = 0;
    const blocks = step.blocks.map(({ name, bytes }) => {
      below += bytes;
      const tall = Math.max(high * bytes / most - 0.5, 0.5), width = Math.max(wide - 1, 0.5);
      const block = element("rect", { x: LEFT + i * wide, y: y(below), width, height: tall, fill: fills[name] ?? "#999", ...EDGE });
      const size = Math.min(9, tall - 0.5), long = 0.6 * size * name.length + 1;
      return long > width || size < 7 ? block : element("g", {}, block, element("text", { class: "course-over", "text-anchor": "middle",
        x: LEFT + (i + 0.5) * wide - 0.5, y: y(below) + tall / 2 + 0.36 * size, "font-size": size }, name));
    });
    if (step.peak > below) blocks.push(element("rect", { // what lived only during the step
      x: LEFT + i * wide, y: y(step.peak), width: Math.max(wide - 1, 0.5), height: y(below) - y(step.peak),
      fill: "none", ...EDGE, "stroke-dasharray": "2 2",
    }));
    return element("g", {}, blocks);
  });
  const cursor = element("rect", { y: TOP - 4, width: wide, height: high + 8, fill: "none", "stroke-width": 2,
    stroke: "currentColor" });
  const drawing = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `${engine.name} memory over ${engine.steps.length} steps, at most ${say(peak)} in step ${peakAt + 1}`.trim() },
    defs, element("g", { class: "course-columns" }, columns),
    element("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(peak), y2: y(peak), "stroke-dasharray": "5 3" }),
    element("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(0), y2: y(0) }),
    element("text", { x: LEFT - 4, y: y(peak) + 4, "font-size": 12, "text-anchor": "end" }, say(peak)),
    element("text", { x: LEFT - 4, y: y(0) + 4, "font-size": 12, "text-anchor": "end" }, "0"),
    cursor);
  const now = element("p", { class: "course-about", style: "min-height: 2.8em" });
  const rows = element("tbody");
  const table = element("table", { class: "course-rows", style: "width: 100%" },
    element("thead", {}, element("tr", {}, ["array", "shape", "bytes", "made by"].map((head) =>
      element("th", { scope: "col", class: head === "bytes" ? "number" : null }, head)))), rows);
  const heading = (words) => (engine.name ? element("h4", {}, words) : null);
  const node = element("div", {}, heading(engine.name), drawing, now), list = element("div", {}, heading(`${engine.name}: arrays`),
    element("div", { class: "course-scroll", tabindex: 0, role: "group", "aria-label": `${engine.name} arrays alive`.trim(),
      style: `height: ${1.55 * (rowsSeen + 1) + 1.2}em; overflow: auto` }, table));

  function draw(at) {
    const index = Math.min(at, engine.steps.length - 1), step = engine.steps[index];
    cursor.setAttribute("x", LEFT + index * wide - 0.5);
    columns.forEach((column, i) => column.classList.toggle("course-now", i === index));
    const number = step.blocks.length; // the table may show fewer at once
    now.textContent = `${say(step.current)} in ${number} array${number === 1 ? "" : "s"} `
      + (moment === "before" ? `when this step has what it reads, up to ${say(step.peak)} on the way there. `
        : `after this step, up to ${say(step.peak)} during it. `)
      + `Peak: ${say(peak)}, ` + (index === peakAt ? "here." : `in step ${peakAt + 1}.`);
    fill(rows, [...step.blocks].reverse().map((block) => element("tr", {}, // as they lie in the column
      element("th", { scope: "row" }, swatch(fills[block.name] ?? "#999"), block.name, block.state ? ` (${block.state})` : null),
      element("td", {}, block.shape || (block.bytes <= 8 ? "scalar" : "")), element("td", { class: "number" }, count(block.bytes)),
      element("td", {}, block.made ? element("code", {}, block.made) : block.name === "unnamed" ? null : "before"))));
    const fresh = step.blocks.filter((block) => block.state).map((block) => block.name), { gone } = step;
    return (engine.name ? `${engine.name}: ` : "") + say(step.current)
      + (fresh.length ? `, new ${fresh.join(", ")}` : "") + (gone.length ? `, freed ${gone.join(", ")}` : "") + ".";
  }

  const onPick = (pick) => {
    const at = (event) => {
      const box = drawing.getBoundingClientRect();
      const x = (event.clientX - box.left) * WIDTH / box.width - LEFT;
      pick(clamp(Math.floor(x / wide), 0, engine.steps.length - 1));
    };
    drawing.style.touchAction = "pan-y";
    drawing.addEventListener("pointerdown", (event) => { drawing.setPointerCapture(event.pointerId); at(event); });
    drawing.addEventListener("pointermove", (event) => { if (event.buttons) at(event); });
  };
  return { node, table: list, draw, onPick };
}

export default { render };
