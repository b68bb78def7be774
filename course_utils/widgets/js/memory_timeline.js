// Scrub through a program: every live array a block, the peak marked, several engines side by side.

const WIDTH = 330, HEIGHT = 150, LEFT = 58, RIGHT = 4, TOP = 14, BOTTOM = 12;
const ROWS = 6; // of a table that are seen at once; more are scrolled to
const TOLERANCE = 65536; // a measured peak is right within so many bytes

function render({ model, el }) {
  const { title, engines } = model.get("data");
  const steps = Math.max(...engines.map((engine) => engine.steps.length));
  const most = Math.max(...engines.flatMap((engine) => engine.steps.map((step) => step.peak)));
  const names = [...new Set(engines.flatMap((e) => e.steps.flatMap((s) => s.blocks.map((b) => b.name))))];
  const look = looks(names.filter((name) => name !== "unnamed"));
  const { body, tell } = frame(el, model, {
    title,
    about: "Each column is a step, each block in it an array that is alive. Drag, or use the arrow keys.",
  });
  if (engines.length > 2) el.style.maxWidth = "1140px"; // or their tables are cut off
  const rows = Math.min(ROWS, Math.max(...engines.flatMap((e) => e.steps.map((s) => s.blocks.length))));
  const panels = engines.map((engine) => panel(engine, steps, most, look, rows));
  const line = (step) => engines[0].steps[Math.min(step, engines[0].steps.length - 1)].label;
  const control = stepper({
    label: "Step", steps, value: clamp(model.get("step"), 0, steps - 1),
    words: (step) => `${step + 1} of ${steps}: ${line(step)}`,
    onStep: (step) => { draw(step); save(step); },
  });
  const draw = (step) => {
    const said = panels.map((each) => each.draw(step));
    tell(`Step ${step + 1} of ${steps}, ${line(step)}. ${said.join(" ")}`);
  };
  const save = follow(model, "step", (step) => { control.set(step); draw(step); });
  const longest = Math.max(...engines[0].steps.map((step) => step.label.length));
  if (longest > 30) control.node.querySelector("output").style.minHeight = "2.8em"; // room for a second line
  fill(body, control.node, element("div", { class: "course-panels" }, panels.map((each) => each.node)));
  for (const each of panels) each.onPick((step) => { control.stop(); control.set(step); draw(step); save(step); });
  draw(Number(control.input.value));
  return () => control.stop();
}

/** One engine: its columns, drawn once; a cursor and a table of so many rows that follow the step. */
function panel(engine, steps, most, look, rowsSeen) {
  const { defs, fills } = patterns(look);
  const wide = (WIDTH - LEFT - RIGHT) / steps, high = HEIGHT - TOP - BOTTOM;
  const y = (bytes) => TOP + high * (1 - bytes / most);
  const peak = Math.max(...engine.steps.map((step) => step.peak));
  const peakAt = engine.steps.findIndex((step) => step.peak > peak - TOLERANCE);
  const columns = engine.steps.map((step, i) => {
    let below = 0;
    const blocks = step.blocks.map(({ name, bytes }) => {
      below += bytes;
      return element("rect", {
        x: LEFT + i * wide, y: y(below), width: Math.max(wide - 1, 0.5),
        height: Math.max(high * bytes / most - 0.5, 0.5), fill: fills[name] ?? "#999",
      });
    });
    if (step.peak > below) blocks.push(element("rect", { // what lived only during the step
      x: LEFT + i * wide, y: y(step.peak), width: Math.max(wide - 1, 0.5), height: y(below) - y(step.peak),
      fill: "none", stroke: "#999", "stroke-dasharray": "2 2",
    }));
    return element("g", {}, blocks);
  });
  const cursor = element("rect", { y: TOP - 4, width: wide, height: high + 8, fill: "none", "stroke-width": 2,
    stroke: "currentColor" });
  const drawing = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `${engine.name} memory over ${engine.steps.length} steps, at most ${say(peak)} in step ${peakAt + 1}`.trim() },
    defs, columns,
    element("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(peak), y2: y(peak), "stroke-dasharray": "5 3" }),
    element("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(0), y2: y(0) }),
    element("text", { x: LEFT - 4, y: y(peak) + 4, "font-size": 12, "text-anchor": "end" }, say(peak)),
    element("text", { x: LEFT - 4, y: y(0) + 4, "font-size": 12, "text-anchor": "end" }, "0"),
    cursor);
  const now = element("p", { class: "course-about", style: "min-height: 2.8em" });
  const rows = element("tbody");
  const table = element("table", { class: "course-rows", style: "width: 100%" },
    element("thead", {}, element("tr", {}, ["array", "shape", "bytes", "made by"].map((head) =>
      element("th", { scope: "col" }, head)))), rows);
  const node = element("div", {}, engine.name ? element("h4", {}, engine.name) : null, drawing, now,
    element("div", { class: "course-scroll", tabindex: 0, role: "group", "aria-label": `${engine.name} arrays alive`.trim(),
      style: `height: ${1.55 * (rowsSeen + 1) + 1.2}em; overflow: auto` }, table));

  function draw(at) {
    const index = Math.min(at, engine.steps.length - 1), step = engine.steps[index];
    const before = new Set(index ? engine.steps[index - 1].blocks.map((block) => block.name) : []);
    const here = new Set(step.blocks.map((block) => block.name));
    const gone = [...before].filter((name) => !here.has(name));
    cursor.setAttribute("x", LEFT + index * wide - 0.5);
    columns.forEach((column, i) => column.setAttribute("opacity", i === index ? 1 : 0.45));
    const number = step.blocks.length; // the table may show fewer at once
    now.textContent = `${say(step.current)} in ${number} array${number === 1 ? "" : "s"} after this step, `
      + `up to ${say(step.peak)} during it. `
      + `Peak: ${say(peak)}, ` + (index === peakAt ? "here." : `in step ${peakAt + 1}.`);
    const state = ({ name, made }) =>
      before.has(name) ? null : !made || made === step.label ? " (new)" : " (again)";
    fill(rows, [...step.blocks].reverse().map((block) => element("tr", {}, // as they lie in the column
      element("th", { scope: "row" }, swatch(block.name), block.name, state(block)),
      element("td", {}, block.shape), element("td", { class: "number" }, count(block.bytes)),
      element("td", {}, element("code", {}, block.made)))));
    const fresh = [...here].filter((name) => !before.has(name));
    return (engine.name ? `${engine.name}: ` : "") + say(step.current)
      + (fresh.length ? `, new ${fresh.join(", ")}` : "") + (gone.length ? `, freed ${gone.join(", ")}` : "") + ".";
  }

  function swatch(name) {
    return element("svg", { viewBox: "0 0 12 12", "aria-hidden": "true", class: "swatch",
      style: "display: inline-block; width: 12px; margin-right: 5px; vertical-align: -1px" },
      element("rect", { width: 12, height: 12, fill: fills[name] ?? "#999" }));
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
  return { node, draw, onPick };
}

export default { render };
