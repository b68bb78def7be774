// What is on chip, what crosses, how much has crossed, at every event of a recorded run.

const KINDS = ["load", "allocate", "free", "store"]; // as packed_events.py numbers them
const WIDTH = 350, LEFT = 8, ROOM = WIDTH - 2 * LEFT;
const ALARM = COLOURS[3], THIN = { stroke: "currentColor", "stroke-width": 0.8 };

function render({ model, el }) {
  const data = model.get("data");
  const { body, tell } = frame(el, model, { title: data.title,
    about: `Each load and store as the counting memory recorded it. Step, or drag in the chart. ${data.note}` });
  const grey = "#767676", look = { ...looks(Object.keys(data.arrays)), temporary: { colour: grey }, scores: { colour: grey, pattern: "lines" } };
  for (const result of ["C", "O"]) if (look[result]) look[result].pattern = "cross";
  const now = { chosen: data.controls.map((each) => each.start), every: false, capacity: data.capacity, part: 0 };
  const hbm = hbmPicture(data, look), chip = chipPicture(look), chart = chartPicture(), traffic = trafficPicture(data.most);
  const values = table("On chip now", ["value", "made by", "shape", "bytes"]);
  const arrays = table("Arrays in HBM, so far", ["array", "shape", "read", "written"]);
  const place = element("div"), says = element("p", { class: "course-line" });
  let steps = [], control = null, mine = [], whole = 1, beyond = "";

  const choose = (at) => (value) => { now.chosen[at] = String(value); change(); };
  const controls = data.controls.map((each, at) => each.options
    ? choice({ label: each.label, options: Object.entries(each.options), value: each.start, onChange: choose(at) })
    : valueSlider(each.label, each.values, Number(each.start), (value) => each.words.replaceAll("{}", value), choose(at)));
  if (data.capacities.length > 1) controls.push(valueSlider("Bytes on chip", data.capacities, now.capacity,
    count, (bytes) => { now.capacity = bytes; change(); }));
  controls.push(choice({ label: "A step is", options: [["", "what crosses"], ["every", "every value made"]], value: "",
    onChange: (value) => { now.every = value === "every"; change(); } }));
  fill(body, element("div", { class: "course-controls" }, controls.map((each) => each.node)), place, says,
    element("div", { class: "course-panels" }, hbm.node, element("div", {}, chip.node, chart.node, traffic.node)),
    element("div", { class: "course-panels" }, arrays.node, values.node));

  function change() { // stay at the same part of the whole run
    const key = now.chosen.join("/"), events = decode(data.runs[key], data.subjects);
    const all = stepsOf(events, now.every, Infinity), most = Math.max(...all.map(({ live }) => live));
    whole = Math.max(all.length - 1, 1);
    beyond = most > now.capacity ? `Does not fit: ${count(most)} bytes on a chip of ${count(now.capacity)}. ` : "";
    steps = stepsOf(events, now.every, now.capacity);
    control?.stop();
    control = stepper({ label: "Step", steps: steps.length, value: Math.min(Math.round(now.part * whole), steps.length - 1), milliseconds: 500,
      words: (at) => `${at + 1} of ${steps.length}`, onStep: go });
    fill(place, control.node);
    const moved = new Set(events.filter((event) => event.box.length).map((event) => event.name));
    mine = Object.entries(data.arrays).filter(([name]) => moved.has(name));
    const rows = Math.min(Math.max(...steps.map((step) => step.values.length)), 11);
    update(values.node, { style: `height: ${1.55 * rows + 4.6}em; overflow: auto` });
    hbm.start(events, now.chosen.includes("causal"));
    chart.start(steps, now.capacity);
    traffic.start(data.formulas[key], !beyond);
    draw(Number(control.input.value));
  }
  function go(at) {
    now.part = at / whole;
    draw(at);
  }
  function draw(at) {
    const step = steps[at];
    hbm.draw(step);
    chip.draw(step, now.capacity);
    chart.draw(at);
    traffic.draw(step, at === steps.length - 1);
    fill(says, element("b", {}, beyond), inWords(step, now.capacity));
    values.fill(step.values.map((value) => [[swatch(chip.fills[value.array]), nameOf(value)], value.made, shapeOf(value), count(value.bytes)]));
    arrays.fill(crossings(steps.slice(0, at + 1), mine));
    tell({ place: `Step ${at + 1} of ${steps.length}.`, news: `${says.textContent} ${traffic.said(at === steps.length - 1)}` });
  }
  chart.onPick((part) => {
    const at = clamp(Math.floor(part * steps.length), 0, steps.length - 1);
    control.stop();
    control.set(at);
    go(at);
  });
  change();
  return () => control.stop();
}

function valueSlider(label, values, start, words, onPick) {
  return slider({ label, max: values.length - 1, value: values.indexOf(start), brief: true,
    words: (at) => words(values[at]), onInput: (at) => onPick(values[at]) });
}

function decode(codes, subjects) {
  const events = [], blocks = [];
  for (let i = 0; i < codes.length; i += 1) {
    const kind = KINDS[codes[i] % 4], number = Math.floor(codes[i] / 4);
    let block = blocks.length, subject = subjects[number];
    if (kind === "free") subject = blocks[block -= number];
    else if (kind === "store") { const ago = codes[i += 1]; block = ago ? block - ago : -1; }
    else blocks.push(subject);
    const [name, box, shape, bytes] = subject;
    events.push({ kind, block, name, box, shape, bytes });
  }
  return events;
}

/** Steps: a load or a store each, or what is computed between two (every: one of its values), until an overflow.
 *
 * A step is right after its event; what is let go then is gone in the next. Of a computation it is the fullest moment.
 * What is made for a window that was loaded before is "new".
 */
function stepsOf(events, every, capacity) {
  const goes = new Map(); // block -> its store: a sum is drawn there at once
  for (const event of events) if (event.kind === "store" && !goes.has(event.block)) goes.set(event.block, event);
  const here = new Map(), stored = new Map(), pairs = new Map(), loaded = new Set(), steps = [];
  let live = 0, read = 0, written = 0, freed = [], computing = null;
  for (const event of events) {
    const { kind, block, name, shape, bytes } = event;
    if (kind === "free") {
      live -= bytes;
      if (!["scores", "temporary"].includes(here.get(block).array)) freed.push(here.get(block));
      here.delete(block);
      continue;
    }
    if (kind === "store") {
      written += bytes;
      stored.set(boxed(name, event.box), event);
      event.fresh = here.get(block)?.fresh;
    } else {
      const target = (kind === "load" ? event : goes.get(block)) ?? scoresOf(shape, [...here.values()]);
      const { name: array = "temporary", box = [] } = target ?? {}, window = boxed(array, box);
      live += bytes;
      if (kind === "load") loaded.add(window);
      here.set(block, { array, box, shape, bytes, made: kind === "load" ? kind : name, fresh: kind !== "load" && loaded.has(window) });
      if (target?.name === "scores") pairs.set(nameOf(target), target);
    }
    const overflow = live > capacity;
    if (kind === "load" && !overflow) read += bytes;
    const state = { values: [...here.values()], live, done: [stored, pairs], overflow };
    if (kind === "allocate" && computing && !every) {
      computing.made += 1;
      if (live > computing.live) Object.assign(computing, state, { event });
    } else {
      steps.push({ kind, event, freed, read, written, made: 1, ...state });
      computing = kind === "allocate" ? steps.at(-1) : null;
      freed = [];
    }
    steps.at(-1).counts = [stored.size, pairs.size]; // how much of `done` is done by now
    if (overflow) break;
  }
  return steps;
}

/** A row for each query on chip, a column for each key. */
function scoresOf(shape, values) {
  const box = ["Q", "K"].map((name) => values.findLast(({ array, made }) => array === name && made === "load")?.box[0]);
  return box.every((side, axis) => side && shape[axis] === side[1] - side[0]) ? { name: "scores", box } : null;
}

/** How often each array has crossed, in times its size. */
function crossings(steps, arrays) {
  const size = (shape) => shape.reduce((a, b) => a * b, 1);
  return arrays.map(([name, shape]) => [name, shape.join(" x "), ...["load", "store"].map((kind) => {
    const sum = steps.reduce((so_far, { kind: what, event, overflow }) =>
      so_far + (what === kind && event.name === name && !overflow ? size(event.shape) : 0), 0);
    return !sum ? "not" : sum === size(shape) ? "once" : `${Number((sum / size(shape)).toFixed(2))} times`;
  })]);
}

const boxed = (name, box) => (box.length ? `${name}[${box.map((each) => each.join(":")).join(", ")}]` : name);
const nameOf = ({ array, name, box, fresh }) => (fresh ? "new " : "") + boxed(array ?? name, box);
const shapeOf = ({ shape }) => (shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`);

function inWords({ kind, event, made, freed, values, live, overflow }, capacity) {
  const bytes = `${count(event.bytes)} bytes`;
  if (overflow) return `SRAMOverflow: ${kind === "load" ? "loading " : ""}${nameOf(event)} needs ${bytes} for ${shapeOf(event)}, `
    + `and of ${count(capacity)} only ${count(capacity - live + event.bytes)} are free.`;
  const gone = freed.length ? `Let go: ${freed.map(nameOf).join(", ")}. ` : "";
  const done = kind !== "allocate" ? `${kind === "load" ? "Load" : "Store"} ${nameOf(event)}, ${bytes}.`
    : made > 1 ? `Compute: ${made} values made, here at the fullest.` : `On chip, ${event.name} makes ${shapeOf(event)}, ${bytes}.`;
  return `${gone}${done} ${values.length} value${values.length === 1 ? "" : "s"} on chip, ${count(live)} of ${count(capacity)} bytes.`;
}

function picture(wide, high, ...parts) {
  const node = element("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img" }, ...parts);
  return { node, label: (text) => node.setAttribute("aria-label", text) };
}
const words = (x, y, text = "", more = {}) => element("text", { x, y, "font-size": 12.5, ...more }, text);

/** Tiles on chip in colour, finished (or, of scores, formed) in grey. */
function hbmPicture({ arrays, places, size: [wide, high] }, look) {
  const { defs, fills } = patterns(look), frames = element("g"), tiles = element("g");
  const done = element("path", { fill: "currentColor", opacity: 0.2 });
  const grid = element("path", { class: "axis", "stroke-width": 0.6, opacity: 0.6 }), mask = element("path", { class: "axis" });
  const { node, label } = picture(wide, high, defs, done, grid, mask, frames, tiles);
  update(node, { style: `max-width: ${1.3 * wide}px` });
  const rect = (name, [rows, columns = [0, 1]]) => { // a vector is a column; a turned matrix lies on its side
    const at = places[name], [m, n = 1] = arrays[name] ?? [arrays.Q[0], arrays.K[0]];
    const [down, across, tall, broad] = at.turned ? [columns, rows, n, m] : [rows, columns, m, n];
    return { x: at.x + at.wide * across[0] / broad, y: at.y + at.high * down[0] / tall,
      width: at.wide * (across[1] - across[0]) / broad, height: at.high * (down[1] - down[0]) / tall };
  };
  const outline = (rects) => rects.map(({ x, y, width, height }) => `M${x} ${y}h${width}v${height}h${-width}z`).join("");

  function start(events, is_causal) {
    const windows = new Map(events.filter(({ name, box }) => box.length && places[name]).map((event) => [nameOf(event), event]));
    const moved = new Set([...windows.values()].map((event) => event.name).concat("scores"));
    fill(frames, Object.entries(places).filter(([name]) => moved.has(name)).map(([name, at]) => [
      element("rect", { x: at.x, y: at.y, width: at.wide, height: at.high, fill: "none", stroke: "currentColor",
        "stroke-dasharray": name === "scores" ? "5 4" : null }),
      words(at.x, at.y - 5, at.label, { "font-size": wide / 30 })]).flat());
    grid.setAttribute("d", outline([...windows.values()].slice(0, 800).map(({ name, box }) => rect(name, box))));
    const square = places.scores ?? places.S;
    mask.setAttribute("d", is_causal ? `M${square.x} ${square.y}l${square.wide} ${square.high}` : "");
  }
  function draw({ kind, event, values, done: [stored, pairs], counts, overflow }) {
    const finished = [...[...stored.values()].slice(0, counts[0]), ...[...pairs.values()].slice(0, counts[1])];
    done.setAttribute("d", outline(finished.filter(({ name }) => places[name]).map(({ name, box }) => rect(name, box))));
    const here = values.filter(({ array, box }) => box.length && places[array]);
    const shown = here.map(({ array, box }) => element("rect", { ...rect(array, box), fill: fills[array], ...THIN }));
    if (kind !== "allocate" && places[event.name]) shown.push(element("rect", { ...rect(event.name, event.box), fill: "none",
      stroke: overflow ? ALARM : "currentColor", "stroke-width": 3.5 }));
    fill(tiles, shown);
    label(`Matrices in HBM. On chip: ${here.map(nameOf).join(", ") || "no tile"}. ${finished.length} tiles stored, or formed, so far.`);
  }
  return { node, start, draw };
}

/** A bar as long as the capacity; an arrow for what crosses. */
function chipPicture(look) {
  const { defs, fills } = patterns(look), top = 46, high = 34, parts = element("g"), crossing = element("g");
  const edge = element("rect", { x: LEFT, y: top, height: high, fill: "none", stroke: "currentColor", "stroke-width": 2 });
  const text = words(LEFT, top + high + 17);
  const { node, label } = picture(WIDTH, top + high + 24, defs, words(LEFT, 12, "HBM"),
    element("path", { class: "axis", d: `M0 17H${WIDTH}`, "stroke-dasharray": "6 4" }), parts, edge, crossing, text);
  function draw({ kind, event, values, live, overflow }, capacity) {
    const scale = ROOM / Math.max(capacity, live), last = values.at(-1);
    let right = LEFT, middle = LEFT + 12;
    fill(parts, values.map((value) => {
      const wide = value.bytes * scale, x = right, beyond = overflow && value === last;
      right += wide;
      if (kind === "load" ? value === last : nameOf(value) === nameOf(event)) middle = x + wide / 2;
      const name = value.array === "temporary" ? value.made : value.array, long = 8 * name.length + 8;
      return element("g", {}, element("rect", { x, y: top, width: Math.max(wide - 0.6, 0.4), height: high,
        ...(beyond ? { fill: "none", stroke: ALARM, "stroke-width": 3, "stroke-dasharray": "5 3" } : { fill: fills[value.array] }) }),
      wide < long ? null : [
        element("rect", { x: x + (wide - long) / 2, y: top + 7, width: long, height: 20, rx: 3, style: "fill: var(--paper)" }),
        words(x + wide / 2, top + 22, name, { "text-anchor": "middle" })]);
    }));
    edge.setAttribute("width", capacity * scale);
    const x = clamp(middle, LEFT + 8, WIDTH - 14), is_left = x < WIDTH / 2, [from, to] = kind === "load" ? [18, top - 2] : [top - 2, 18];
    const back = (to - from) / 4, told = `${kind} ${event.name}: ${count(event.bytes)} bytes`;
    fill(crossing, kind === "allocate" ? null : [
      element("path", { d: `M${x} ${from}V${to}M${x - 6} ${to - back}L${x} ${to}l6 ${-back}`, fill: "none", stroke: "currentColor", "stroke-width": 3 }),
      words(x + (is_left ? 14 : -14), 36, told, { "text-anchor": is_left ? "start" : "end",
        "font-size": Math.min(12.5, ((is_left ? WIDTH - x : x) - 16) / (0.56 * told.length)) })]);
    text.textContent = `${overflow ? "overflow" : "on chip"}: ${count(live)} of ${count(capacity)} bytes`;
    label(text.textContent);
  }
  return { node, draw, fills };
}

/** Bytes on chip over all steps. */
function chartPicture() {
  const base = 66, tall = 46, text = words(LEFT, 13);
  const area = element("path", { fill: COLOURS[0], opacity: 0.6 });
  const limit = element("path", { stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": "8 3" });
  const cursor = element("rect", { y: base - tall - 2, height: tall + 6, fill: "none", stroke: ALARM, "stroke-width": 2.5 });
  const { node, label } = picture(WIDTH, base + 8, area, limit, cursor,
    element("path", { class: "axis", d: `M${LEFT} ${base}h${ROOM}` }), text);
  let wide = 1;
  function start(steps, capacity) {
    const peak = Math.max(...steps.map((step) => step.live)), y = (bytes) => base - tall * bytes / Math.max(peak, capacity);
    wide = ROOM / steps.length;
    area.setAttribute("d", `M${LEFT} ${base}${steps.map((step) => `V${y(step.live)}h${wide}`).join("")}V${base}z`);
    limit.setAttribute("d", `M${LEFT} ${y(capacity)}h${ROOM}`);
    text.textContent = `over the steps: at most ${count(peak)} (dashed: the chip)`;
    label(`On chip ${text.textContent}`);
  }
  const draw = (at) => update(cursor, { x: LEFT + at * wide, width: Math.max(wide, 1) });
  const onPick = (pick) => {
    const at = (event) => {
      const box = node.getBoundingClientRect();
      pick(((event.clientX - box.left) * WIDTH / box.width - LEFT) / ROOM);
    };
    node.style.touchAction = "pan-y";
    for (const kind of ["down", "move"]) node.addEventListener(`pointer${kind}`, (event) => {
      if (event.buttons) { node.setPointerCapture(event.pointerId); at(event); }
    });
  };
  return { node, start, draw, onPick };
}

/** What has crossed, and the closed form. */
function trafficPicture(most) {
  const { defs, fills } = patterns({ read: { colour: COLOURS[0] }, written: { colour: COLOURS[1], pattern: "lines" } });
  const rows = [18, 62].map((y) => ({ text: words(LEFT, y - 4),
    bars: ["read", "written"].map((way) => element("rect", { y: y + 1, height: 16, fill: fills[way], ...THIN })) }));
  const { node, label } = picture(WIDTH, 84, defs, rows.map(({ text, bars }) => [text, ...bars]).flat());
  const set = ({ text, bars }, what, [read, written], after = "") => {
    update(bars[0], { x: LEFT, width: read * ROOM / most });
    update(bars[1], { x: LEFT + read * ROOM / most, width: written * ROOM / most });
    text.textContent = `${what}: ${count(read)} read + ${count(written)} written${after}`;
  };
  let formula = null;
  function start(closed_form, fits) {
    if (!closed_form) return;
    set(rows[1], "closed form", formula = fits ? closed_form : [0, 0]);
    if (!fits) rows[1].text.textContent = "closed form: none, since it does not fit";
  }
  function draw({ read, written, overflow }, is_last) {
    const meets = is_last && !overflow && formula && read === formula[0] && written === formula[1];
    set(rows[0], "moved", [read, written], meets ? ": they meet" : "");
    label(said(true));
  }
  const said = (all) => `Bytes ${rows.slice(0, 1 + all).map(({ text }) => text.textContent).filter(Boolean).join("; ")}.`;
  return { node, start, draw, said };
}

function table(label, heads) {
  const rows = element("tbody"), cells = (tag, texts) => texts.map((text) => element(tag, tag === "th" ? { scope: "col" } : {}, text));
  const node = element("div", { class: "course-scroll", tabindex: 0, role: "group", "aria-label": label },
    element("h4", {}, label), element("table", { class: "course-rows" }, element("thead", {}, element("tr", {}, cells("th", heads))), rows));
  return { node, fill: (all) => fill(rows, all.map(([first, ...rest]) =>
    element("tr", {}, element("th", { scope: "row" }, first), cells("td", rest)))) };
}

export default { render };
