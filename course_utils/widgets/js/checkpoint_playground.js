// Keep a value or discard it: the peak, what is computed again, the schedule, and the point among all others.
// What each choice comes to is looked up; a schedule is a word, a computes the first value and A drops it.

const WIDE = 330, NARROW = "max-width: 430px";
const KINDS = { // what a life of a value is: its look, and its meaning as the lessons' charts have it
  kept: { colour: COLOURS[0], pattern: "" },
  again: { colour: COLOURS[4], pattern: "lines" },
  gradient: { colour: COLOURS[1], pattern: "dots" },
};
const MEANINGS = {
  kept: "activation", again: "activation that is computed again later", gradient: "gradient",
};
const percent = (share) => `${Number((100 * share).toPrecision(3))} %`;
const least = (stairs, budget) => Math.min(...stairs.filter(([peak]) => peak <= budget).map(([, time]) => time));
const several = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

function render({ model, el }) {
  const { networks, ways, onSite } = model.get("data");
  const { body, tell } = frame(el, model, {
    title: networks.length > 1 ? "Keep or discard" : `Keep or discard: ${networks[0].title}`,
    about: "Press a value: is it kept from the way forward, or discarded and computed again when the way back "
      + "needs it? A segment at a time: what is made again on the way stays until it is read.",
  });
  let network = networks[0], way = Object.keys(ways)[0], bits = model.get("step"), shown = null, optimum = "", parts;
  const save = follow(model, "step", (value) => { if (value !== bits) { bits = value; shown = null; draw(); } });
  const run = () => shown ?? network.runs[way][bits];
  const choose = (value, said = "") => { // from the optimum one comes back to one's own choice
    const back = shown ? "Back at your own choice: " : "";
    bits = value;
    shown = null;
    draw(back + said, false, back ? back + said : "");
    save(bits);
  };
  const all = () => 2 ** network.choices.length - 1;
  const which = choice({
    label: "Network", value: "0", options: networks.map(({ title }, i) => [String(i), title]),
    onChange: (i) => { network = networks[Number(i)]; shown = null; build(); choose(all()); },
  });
  const back = choice({
    label: "Comes back", value: way, options: Object.entries(ways),
    onChange: (key) => { way = key; choose(bits, `Values come back ${ways[key]}.`); },
  });
  const place = element("div");
  fill(body, networks.length > 1 ? which.node : null, back.node, place);

  function build() {
    const budgets = [...new Set([...network.sets, ...network.all].map(([peak]) => peak))].sort((a, b) => a - b);
    const budget = slider({
      label: "Budget", max: budgets.length - 1, value: budgets.length - 1, brief: true,
      words: (i) => say(budgets[i]), onInput: () => draw("", true),
    });
    const nodes = drawNodes(network, (i) => {
      choose(bits ^ (1 << i), `${valueOf(network, i).name} ${bits >> i & 1 ? "discarded" : "kept"}.`);
    });
    const at = () => budgets[Number(budget.input.value)];
    const optimum = network.best.length
      ? button("Show the optimum for this budget", () => showOptimum(at()), { class: "course-optimum" })
      : element("p", { class: "course-about" }, onSite ? `The optimum itself is in the notebook, once exercise ${network.exercise} is passed there.`
        : `The optimum itself is shown here once exercise ${network.exercise} is passed, and this cell is run again.`);
    const price = element("p", { class: "course-price", style: "min-height: 5.6em; margin: 6px 0" });
    parts = { nodes, price, at, schedule: drawSchedule(network), front: drawFront(network) };
    const columns = "grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr))";
    fill(place, element("div", { class: "course-panels", style: columns },
      element("div", {}, nodes.node, element("div", { class: "course-buttons" },
        button("Keep all", () => choose(all(), "All kept.")), button("Discard all", () => choose(0, "All discarded.")))),
      element("div", {}, price, budget.node, optimum),
      element("div", {}, element("h4", {}, "Schedule"), parts.schedule.node),
      element("div", {}, element("h4", {}, "Memory against time"), parts.front.node)));
  }

  function draw(said = "", isBudget = false, first = "") {
    const [peak, time, again, word] = run(), budget = parts.at();
    parts.nodes.draw(shown ? keptBy(network, word) : bits, Boolean(shown));
    parts.schedule.draw(run(), budget);
    parts.front.draw(run(), network.runs[way], budget, shown ? "optimum" : "yours");
    const price = `Peak ${say(peak)}; ${several(again, "value")} computed again, `
      + `${percent(time / network.forward)} of the forward pass.`;
    const own = compare(network, peak, time), above = againstBudget(network, peak, budget);
    parts.price.textContent = [shown ? optimum : first, price, own, above, shown ? "Press a value to go back to your own choice." : ""].join(" ").trim();
    tell({ news: isBudget ? above || "Your peak is within it." : [said, price, own, above].join(" ").trim() });
  }

  /** A choice that is as quick as the best schedule of all; if there is none, that schedule. One's own choice stays. */
  function showOptimum(budget) {
    const time = least(network.all, budget);
    const fits = (each) => each[0] <= budget && each[1] === time;
    const key = [way, ...Object.keys(ways)].find((each) => network.runs[each].some(fits));
    shown = key ? network.runs[key].find(fits) : network.best[network.all.findIndex((each) => each[1] === time)];
    optimum = `The best schedule of all, ${key ? `a choice that comes back ${ways[key]}` : "which no choice of what to keep makes"}:`;
    draw(optimum);
  }

  build();
  draw();
}

const valueOf = (network, i) => network.values[network.choices[i]];

const share = (network, time) => percent(time / network.forward);

/** The best within so many bytes: of the choices of what to keep, and of all schedules. */
function bestWithin(network, bytes) {
  const best = least(network.sets, bytes), any = least(network.all, bytes);
  return `the best choice takes ${share(network, best)}, ` + (any < best ? `a freer schedule ${share(network, any)}` : "and no schedule takes less");
}

/** How a point stands among all others with its own peak. */
function compare(network, peak, time) {
  const best = least(network.sets, peak), any = least(network.all, peak);
  return time <= any ? "No schedule with this peak computes less."
    : time <= best ? `No choice with this peak computes less; a freer schedule takes ${share(network, any)}.`
      : `With this peak, ${bestWithin(network, peak)}.`;
}

/** What would be within the budget, where a peak is above it. */
function againstBudget(network, peak, budget) {
  if (peak <= budget) return "";
  return `It is ${say(peak - budget)} above the budget, ` + (least(network.sets, budget) < Infinity ? `within which ${bestWithin(network, budget)}.`
    : `which no choice of what to keep can meet; a freer schedule takes ${share(network, least(network.all, budget))}.`);
}

/** The choices that a schedule keeps, as bits: what it computes once. */
const keptBy = (network, word) => network.choices.reduce((bits, value, i) =>
  bits | (word.split(String.fromCharCode(97 + value)).length === 2) << i, 0);

/** The forward pass: a button for each value that can be kept or discarded, and arrows for who reads whom. */
function drawNodes(network, onToggle) {
  const forward = network.values.filter((value) => !value.gradient), high = 50, base = 92;
  const wide = WIDE / (forward.length + 1), most = Math.max(...forward.map((value) => value.bytes));
  const x = (name) => (forward.findIndex((value) => value.name === name) + 1) * wide; // an input: 0
  const arrows = [], buttons = [];
  for (const value of forward) for (const read of value.reads) {
    const from = x(read) + wide / 2, to = x(value.name) + wide / 2, far = to - from > 1.5 * wide;
    const d = far ? `M${from} 34C${from} 6 ${to} 6 ${to} 34` : `M${from + 9} ${base - 4}H${to - 9}`;
    arrows.push(element("path", { class: "axis", d, "stroke-width": 1.5 }));
  }
  const text = (at, y, words) => element("text", { x: at + wide / 2, y, "font-size": 12.5, "text-anchor": "middle" }, words);
  const drawn = forward.map((value) => {
    const index = network.choices.findIndex((i) => network.values[i] === value), at = x(value.name);
    const tall = Math.max(high * value.bytes / most, 3);
    const bar = element("rect", { x: at + 0.18 * wide, y: base - tall, width: 0.64 * wide, height: tall, "stroke-width": 1.5, fill: "#999" });
    const state = text(at, base + 28, index < 0 ? "last" : "");
    const group = element("g", index < 0 ? {} : {
      role: "button", tabindex: 0, class: "course-node", style: "cursor: pointer; touch-action: manipulation",
      onclick: () => onToggle(index),
      onkeydown: (event) => {
        const last = buttons.length - 1;
        const to = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: last }[event.key];
        if (to !== undefined) buttons[clamp(to, 0, last)].group.focus();
        else if (event.key === "Enter" || event.key === " ") onToggle(index);
        else return;
        event.preventDefault();
      },
    }, element("rect", { x: at + 1, y: 30, width: wide - 2, height: base + 2, fill: "transparent" }),
      bar, text(at, base + 14, value.name), state, text(at, base + 42, number(value.bytes)));
    if (index >= 0) buttons[index] = { group, bar, state, value };
    return group;
  });
  const node = element("svg", { viewBox: `0 0 ${WIDE} ${base + 48}`, style: NARROW, role: "group", "aria-label": "The forward pass" },
    arrows, text(0, base - 16, "input"), text(0, base + 42, "MB"), drawn);
  const draw = (bits, isOther) => buttons.forEach(({ group, bar, state, value }, i) => {
    const kept = bits >> i & 1;
    update(group, { "aria-label": `${value.name}, ${kept ? "kept" : "gone"}${isOther ? " in the optimum" : ""}, ${say(value.bytes)}` });
    update(bar, { fill: kept ? COLOURS[0] : "transparent", stroke: kept ? COLOURS[0] : "currentColor",
      "stroke-dasharray": kept ? null : "3 3" });
    state.textContent = kept ? "kept" : "gone";
  });
  return { node, draw };
}

const number = (bytes) => Number((bytes / 1e6).toPrecision(3));

/** The lives of all values in a schedule, and the bytes alive at each of its computations. */
function lives(network, word) {
  const born = new Map(), found = [], alive = [];
  const left = [...word].filter((letter) => letter >= "a").reduce((all, letter) => all.set(letter, (all.get(letter) ?? 0) + 1), new Map());
  const end = (letter) => {
    const value = network.values[letter.charCodeAt(0) - 97];
    const kind = value.gradient ? "gradient" : left.get(letter) ? "again" : "kept";
    found.push({ value, kind, first: born.get(letter), last: alive.length - 1 });
    born.delete(letter);
  };
  let held = 0;
  for (const letter of word) {
    const small = letter.toLowerCase(), value = network.values[small.charCodeAt(0) - 97];
    if (letter === small) {
      held += value.bytes;
      alive.push(held + value.workspace);
      born.set(small, alive.length - 1);
      left.set(small, left.get(small) - 1);
    } else { held -= value.bytes; end(small); }
  }
  [...born.keys()].forEach(end);
  return { found, alive };
}

/** Time runs to the right: above, when each value is alive; below, how many bytes are. */
function drawSchedule(network) {
  const lanes = [...new Set(network.values.filter((value) => value.bytes).map((value) => value.lane))];
  const left = 60, lane = 16, top = 4, under = top + lane * lanes.length + 12, high = 62, base = under + high;
  const { defs, fills } = patterns(KINDS);
  const bars = element("g"), text = (x, y, words, anchor = "end") =>
    element("text", { x, y, "font-size": 12.5, "text-anchor": anchor }, words);
  const svg = element("svg", { viewBox: `0 0 ${WIDE} ${base + 16}`, style: NARROW, role: "img" }, defs,
    lanes.flatMap((name, i) => [text(left - 5, top + lane * i + 12, name),
      element("line", { x1: left, x2: WIDE, y1: top + lane * (i + 1), y2: top + lane * (i + 1), stroke: "currentColor", opacity: 0.15 })]),
    element("line", { class: "axis", x1: left, x2: WIDE, y1: base, y2: base }), bars,
    text(left - 5, base, "0"), text(WIDE, base + 13, "time, a column for each computation"));
  const legend = element("p", { class: "course-about" }, Object.entries(MEANINGS).flatMap(([kind, words]) => [
    swatch(fills[kind]), `${words}. `]));
  const most = Math.max(...Object.values(network.runs).flat().map(([peak]) => peak));
  const y = (bytes) => base - high * bytes / most;

  function draw([peak, , again, word], budget) {
    const { found, alive } = lives(network, word), wide = (WIDE - left) / alive.length, at = alive.indexOf(peak);
    fill(bars,
      found.filter(({ value }) => value.bytes).map(({ value, kind, first, last }) => element("rect", {
        x: left + first * wide + 0.5, width: Math.max((last - first + 1) * wide - 1, 1), height: kind === "gradient" ? 6 : 8, stroke: "currentColor", "stroke-width": 0.6,
        y: top + lane * lanes.indexOf(value.lane) + (kind === "gradient" ? 9 : 0.5), fill: fills[kind],
      })),
      alive.map((bytes, i) => element("rect", { x: left + i * wide + 0.5, width: wide - 1, y: y(bytes),
        height: base - y(bytes), fill: i === at ? COLOURS[3] : "#808080" })),
      element("line", { class: "axis", x1: left, x2: WIDE, y1: y(budget), y2: y(budget), "stroke-dasharray": "5 3" }),
      element("path", { d: `M${left + (at + 0.5) * wide} ${y(peak) - 1}l-4 -7h8z`, fill: "currentColor" }), // the peak, in all colours
      text(left - 5, Math.min(y(peak) + 4, base - 10), `${number(peak)} MB`));
    fill(list, steps(network, word).map((each, i) => element("li", {}, each, i === at ? ": the peak" : null)));
    svg.setAttribute("aria-label", `${alive.length} computations, ${again} of them repetitions; `
      + `peak ${say(peak)} at computation ${at + 1}; dashed: the budget`);
  }
  const list = element("ol", { class: "course-schedule" });
  const folded = element("details", {}, element("summary", {}, "The schedule as a list"), list);
  return { node: element("div", {}, svg, legend, folded), draw };
}

/** A schedule in words: for each computation what it makes, and what is dropped after it. */
function steps(network, word) {
  const made = new Set(), told = [];
  for (const letter of word) {
    const small = letter.toLowerCase(), { name } = network.values[small.charCodeAt(0) - 97];
    if (letter === small) told.push([made.has(name) ? `${name} again` : name]);
    else told.at(-1)?.push(name);
    made.add(name);
  }
  return told.map(([what, ...dropped]) => what + (dropped.length ? ` (drops ${dropped.join(", ")})` : ""));
}

/** Every choice a point: its peak and what it computes again; the stairs are the best that can be done. */
function drawFront(network) {
  const left = 42, right = 8, top = 22, base = 178, { sets, all } = network;
  const peaks = [...Object.values(network.runs).flat(), ...all].map(([peak]) => peak);
  const low = 0.94 * Math.min(...peaks), high = 1.02 * Math.max(...peaks);
  const x = (bytes) => left + (WIDE - left - right) * (bytes - low) / (high - low);
  const inside = element("g");
  const text = (at, y, words, anchor = "middle") => element("text", { x: at, y, "font-size": 12.5, "text-anchor": anchor }, words);
  const svg = element("svg", { viewBox: `0 0 ${WIDE} ${base + 32}`, style: NARROW, role: "img" },
    element("path", { class: "axis", d: `M${left} ${top}V${base}H${WIDE - right}` }), inside,
    ticks(low / 1e6, high / 1e6).map((each) => text(x(each * 1e6), base + 15, each)),
    text(WIDE - right, base + 28, "peak, MB", "end"), text(2, 10, "computed again, of the forward pass", "start"));
  const legend = element("p", { class: "course-about" }, "Diamond: yours. Dots: all other choices. Solid line: the best "
    + "choices for every budget; dashed: the best schedules of all. Upright line: the budget.");

  function draw([peak, time], runs, budget, called) {
    const most = 1.1 * Math.max(network.forward / 4, ...runs.map((each) => each[1]), time);
    const y = (each) => base - (base - top) * Math.min(each / most, 1);
    const stairs = (points, dash) => {
      const d = points.map(([p, t], i) => (i ? `H${x(p)}V${y(t)}` : `M${x(p)} ${top}V${y(t)}`)).join("") + `H${WIDE - right}`;
      return element("path", { d, fill: "none", stroke: "currentColor", "stroke-width": dash ? 1.2 : 2, "stroke-dasharray": dash });
    };
    const seen = new Map(runs.map((each) => [`${each[0]} ${each[1]}`, each])), sideways = x(peak) > WIDE - 70 ? -9 : 9;
    fill(inside,
      ticks(0, most / network.forward).map((share) => text(left - 4, y(share * network.forward) + 4, percent(share), "end")),
      [...seen.values()].map(([p, t]) => element("circle", { cx: x(p), cy: y(t), r: 1.8, fill: COLOURS[0], stroke: "currentColor", "stroke-width": 0.4 })),
      stairs(all, "4 3"), stairs(sets, null),
      element("line", { class: "axis", x1: x(budget), x2: x(budget), y1: top, y2: base, "stroke-dasharray": "5 3" }),
      element("polygon", { points: `${x(peak)},${y(time) - 7} ${x(peak) + 7},${y(time)} ${x(peak)},${y(time) + 7} ${x(peak) - 7},${y(time)}`,
        fill: COLOURS[3], stroke: "currentColor" }),
      update(text(x(peak) + sideways, y(time) - 6, called, sideways > 0 ? "start" : "end"), { class: "course-over" }));
    svg.setAttribute("aria-label", `Peak ${say(peak)}, ${percent(time / network.forward)} computed again, among `
      + `${runs.length} choices. Best choices: `
      + sets.map(([p, t]) => `${percent(t / network.forward)} from ${say(p)} on`).join(", "));
  }
  return { node: element("div", {}, svg, legend), draw };
}

/** Up to six round numbers from low to high. */
function ticks(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const by = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough), found = [];
  for (let at = Math.ceil(low / by) * by; at <= high; at += by) found.push(Number(at.toPrecision(6)));
  return found;
}

export default { render };
