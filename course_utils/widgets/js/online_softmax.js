// One block of a softmax at a time: the scores and their maximum, what each weighs in the sum, the output.

const LEFT = 26, NARROW = 30; // room for the axis' numbers; columns below this have their labels on end

function render({ model, el }) {
  const data = model.get("data");
  const { body, tell } = frame(el, model, {
    title: "A softmax, block by block",
    about: "Choose a row and a block size, and step. Then change what is rescaled.",
  });
  const names = Object.keys(data.rows);
  const now = { row: names[0], block: 4, way: "rescaled", step: model.get("step") ?? 0 };
  const facts = element("tbody"), pictures = element("div", { class: "course-drawing" }), place = element("div");
  let steps = null, drawn = [];

  const row = choice({ label: "Row of scores", options: names.map((name) => [name, name]), value: now.row,
    onChange: (value) => change({ row: value, step: 0 }) });
  const way = choice({ label: "What is rescaled", options: Object.entries(data.ways), value: now.way,
    onChange: (value) => change({ way: value }) });
  const block = slider({ label: "Scores in a block", max: data.blocks.length - 1, value: data.blocks.indexOf(now.block), brief: true,
    words: (at) => String(data.blocks[at]), onInput: (at) => change({ block: data.blocks[at], step: 0 }) });
  fill(body, element("div", { class: "course-panels" }, row.node, way.node), block.node, place, pictures,
    element("table", { "aria-label": "what is carried after this block" }, facts));

  const run = () => data.runs[`${now.row}/${now.block}/${now.way}`];
  const save = follow(model, "step", (step) => { if (step !== now.step) change({ step }); });
  const change = (what) => {
    Object.assign(now, what);
    steps?.stop();
    const all = run();
    now.step = clamp(now.step, 0, all.length - 1);
    steps = stepper({ label: "Block", steps: all.length, value: now.step, milliseconds: 900,
      words: (step) => `${step + 1} of ${all.length}`, onStep: (step) => { now.step = step; draw(); } });
    fill(place, steps.node);
    draw();
  };
  const draw = () => {
    const all = run(), step = all[now.step];
    for (const picture of drawn) picture(data.rows[now.row], all, now.step);
    fill(facts, factsOf(step, now.way).map(([what, value]) =>
      element("tr", {}, element("th", { scope: "row" }, what), element("td", {}, value))));
    const news = inWords(step, now.way);
    tell({ place: `Block ${now.step + 1} of ${all.length}.`, news, written: news });
    save(now.step);
  };
  const stop = onWidth(pictures, (width) => {
    const all = [scoresPicture(data, width), weightsPicture(data, width), outputPicture(data, width)];
    drawn = all.map((each) => each.draw);
    fill(pictures, all.map((each) => each.node));
    if (steps) draw();
  });
  change({});
  return () => { stop(); steps.stop(); };
}

const real = (value) => typeof value === "number";
const WORDS = { inf: "∞", "-inf": "−∞", nan: "nan" };
const number = (value) => (real(value) ? String(Number(value.toPrecision(4))) : WORDS[value]);

/** Short enough for a column: two digits, and nothing where there is next to nothing. */
function brief(weight) {
  if (!real(weight)) return WORDS[weight];
  if (weight === 0 || weight >= 0.995) return String(Number(weight.toPrecision(3)));
  return weight < 0.0005 ? "~0" : weight.toFixed(weight < 0.0095 ? 3 : 2).slice(1);
}

const gapOf = (step) => (real(step.output) ? Math.abs(step.output - step.exact) : NaN);
const isRight = (step) => gapOf(step) < 1e-5;

function factsOf(step, way) {
  const rose = step.first > 0 && step.old_max !== step.max;
  const top = rose ? `${number(step.old_max)}, now ${number(step.max)}` : number(step.max);
  const due = number(step.due), wanted = step.due === 1 ? "1" : `1 (it should be ${due})`;
  const factor = { rescaled: due, never: wanted, printed: step.due === 1 ? "1" : `${due}, the sum 1`, "no maximum": "1" };
  return [
    ["largest so far", way === "no maximum" ? `${top} (not used)` : top],
    ["older terms times", step.first === 0 ? "nothing is older" : factor[way]],
    ["running sum", number(step.sum)],
    ["output", number(step.output)],
    ["exact, same scores", number(step.exact)],
    ["off by", isRight(step) ? "0" : real(step.output) ? gapOf(step).toPrecision(2) : "no number is left"],
  ];
}

function inWords(step, way) {
  const which = step.first === step.last ? `Score ${step.last + 1}` : `Scores ${step.first + 1} to ${step.last + 1}`;
  const top = number(step.max), rise = `the maximum rises to ${top}`, due = number(step.due);
  const change = step.max === "-inf" ? "all scores are −∞ so far, and count nothing"
    : way === "no maximum" ? "weights are counted from 0"
    : step.first === 0 ? `the first block, and its largest is ${top}`
    : step.due === 1 ? `the maximum stays ${top}`
    : { rescaled: `${rise}, and all older terms are multiplied by ${due}`,
      never: `${rise}, and older terms stay as they were`,
      printed: `${rise}, older terms of the output are multiplied by ${due}, and the sum is not` }[way];
  const verdict = isRight(step) ? "the output is right"
    : real(step.output) ? `the output is off by ${gapOf(step).toPrecision(2)}` : "the output is nan, and stays so";
  return `${which}: ${change}. The sum is ${number(step.sum)}; ${verdict}.`;
}

/** An empty drawing with a heading, and how to place things in it: a column for each score. */
function columns(heading, width, high, countOf) {
  const wide = (width - LEFT - 4) / countOf, onEnd = wide < NARROW;
  const node = element("svg", { viewBox: `0 0 ${width} ${high}`, role: "img" },
    element("text", { x: 0, y: 13, "font-size": 13 }, heading));
  const at = (j) => LEFT + j * wide, middle = (j) => LEFT + (j + 0.5) * wide;
  const each = (make) => Array.from({ length: countOf }, (_, j) => make(j));
  const rects = each((j) => element("rect", { x: at(j) + 1, width: wide - 2, stroke: "currentColor" }));
  const foot = high - (onEnd ? 42 : 18); // where bars stand, labels below
  const labels = each((j) => element("text", onEnd
    ? { transform: `translate(${middle(j) + 4} ${foot + 4}) rotate(-90)`, "text-anchor": "end", "font-size": 11 }
    : { x: middle(j), y: foot + 14, "text-anchor": "middle", "font-size": 11 }));
  return { node, rects, labels, foot, at, middle, each };
}

/** A dashed line with a number at its left end. */
function level(width, text) {
  const line = element("line", { class: "axis", x1: LEFT, x2: width - 4, "stroke-dasharray": "2 3" });
  const label = element("text", { x: LEFT - 4, "text-anchor": "end", "font-size": 11 }, text);
  const put = (y) => { update(line, { y1: y, y2: y }); update(label, { y: y + 4 }); };
  return { parts: [line, label], label, put };
}

function scoresPicture(data, width) {
  const { node, rects, labels, foot, at } = columns("scores, and the largest so far", width, 140, data.values.length);
  const line = { "stroke-width": 2.5, stroke: COLOURS[3] };
  const top = element("line", line), before = element("line", { ...line, "stroke-dasharray": "5 4" });
  node.append(...rects, ...labels, before, top);
  function draw(row, all, index) {
    const step = all[index], seen = row.filter(real);
    const low = Math.min(...seen) - 1, most = Math.max(...seen);
    const y = (score) => foot - (foot - 26) * (score - low) / (most - low);
    row.forEach((score, j) => {
      const current = j >= step.first && j <= step.last, comes = j > step.last;
      update(rects[j], { y: real(score) ? y(score) : foot, height: real(score) ? foot - y(score) : 0,
        fill: current ? COLOURS[1] : comes ? "none" : COLOURS[0],
        "stroke-dasharray": comes ? "2 2" : null, opacity: comes ? 0.5 : 1 });
      update(labels[j], { "font-weight": current ? "bold" : null });
      labels[j].textContent = number(score);
    });
    const put = (mark, score, end) => update(mark, real(score)
      ? { x1: LEFT, x2: at(end), y1: y(score), y2: y(score), opacity: 1 } : { opacity: 0 });
    put(top, step.max, step.last + 1);
    put(before, step.old_max === step.max ? "" : step.old_max, step.first);
    node.setAttribute("aria-label", `Scores: ${step.last + 1} of ${row.length} have come, the largest so far is ${number(step.max)}.`);
  }
  return { node, draw };
}

function weightsPicture(data, width) {
  const { node, rects, labels, foot } = columns("weights before the division", width, 120, data.values.length);
  const top = level(width, "1");
  top.put(28);
  node.append(...top.parts, ...rects, ...labels);
  function draw(row, all, index) {
    const step = all[index], most = Math.max(1, ...all.at(-1).weights.filter(real));
    top.label.textContent = brief(most);
    rects.forEach((rect, j) => {
      const weight = step.weights[j], tall = real(weight) ? (foot - 28) * weight / most : 0;
      update(rect, { y: foot - tall, height: tall, fill: j >= step.first ? COLOURS[1] : COLOURS[0],
        "stroke-width": tall > 0.5 ? 1 : 0 });
      labels[j].textContent = weight === undefined ? "" : brief(weight);
    });
    node.setAttribute("aria-label", `Weights of ${step.weights.length} scores; the running sum is ${number(step.sum)}.`);
  }
  return { node, draw };
}

function outputPicture(data, width) {
  const high = 128, { node, at, middle } = columns("output: dot; exact: ring; values: crosses", width, high, data.values.length);
  const y = (value) => 66 - 40 * value;
  const crosses = data.values.map((value, j) => element("path", { class: "axis",
    d: `M${middle(j) - 3} ${y(value) - 3}l6 6m-6 0l6 -6` }));
  const marks = element("g");
  for (const value of [-1, 0, 1]) {
    const line = level(width, String(value));
    line.put(y(value));
    node.append(...line.parts);
  }
  node.append(...crosses, marks);
  function draw(row, all, index) {
    crosses.forEach((cross, j) => cross.setAttribute("opacity", j <= all[index].last ? 1 : 0.3));
    fill(marks, all.slice(0, index + 1).map((step, i) => {
      const x = at(step.last + 1) - 7, last = i === index;
      return element("g", { opacity: last ? 1 : 0.6 },
        element("circle", { cx: x, cy: y(step.exact), r: 6, fill: "none", stroke: "currentColor", "stroke-width": last ? 2 : 1 }),
        real(step.output) ? element("circle", { cx: x, cy: y(step.output), r: 3.5, fill: isRight(step) ? COLOURS[2] : COLOURS[3] })
          : last ? element("text", { x: x - 4, y: high - 6, "text-anchor": x > width / 2 ? "end" : "middle", "font-size": 12, "font-weight": "bold" }, "the output is nan") : null);
    }));
    const step = all[index];
    node.setAttribute("aria-label", `Output ${number(step.output)}, exact ${number(step.exact)}.`);
  }
  return { node, draw };
}

export default { render };
