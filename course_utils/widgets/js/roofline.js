// Operations under a machine's roof: where their sizes put them, and how fast they can be there at most.

function render({ model, el }) {
  const data = model.get("data");
  const { body, tell } = frame(el, model, {
    title: "Under the roof",
    about: "A letter is what the roof allows at most; a number in a square was measured. Move N and D.",
  });
  const now = { roof: 0, n: data.start[0], d: data.start[1], itemsize: data.itemsizes[0] };
  const roofs = choice({ label: "Machine", value: "0",
    options: data.roofs.map((roof, i) => [String(i), roof.name]), onChange: (i) => change({ roof: Number(i) }) });
  const bytes = choice({ label: "Bytes a number", value: String(now.itemsize),
    options: data.itemsizes.map((size) => [String(size), String(size)]), onChange: (size) => change({ itemsize: Number(size) }) });
  const size = (label, key, sizes) => slider({ label, max: sizes.length - 1, value: now[key], brief: true,
    words: (i) => count(sizes[i]), onInput: (i) => change({ [key]: i }) });
  const drawing = element("div", { class: "course-drawing" });
  const possible = element("ul", { class: "course-marks" }), measured = element("ul", { class: "course-marks" });
  const heading = element("h4", {}, "Measured");
  fill(body,
    element("div", { class: "course-panels" }, data.roofs.length > 1 ? roofs.node : null, data.itemsizes.length > 1 ? bytes.node : null),
    size("N, rows or tokens", "n", data.ns).node, size("D, size of a head", "d", data.ds).node, drawing, possible, heading, measured,
    data.source ? element("p", { class: "course-about" }, data.source) : null);

  const order = [...new Set([...data.roofs.flatMap((roof) => roof.measured), ...Object.values(data.rungs).flat()]
    .filter((each) => each.at !== null).map((each) => each.name))]; // a rung keeps its number at every size
  const change = (what) => { Object.assign(now, what); draw(); };
  let picture = null;
  const draw = () => {
    const roof = data.roofs[now.roof], sizes = `${data.ns[now.n]}/${data.ds[now.d]}`;
    const allowed = data.operations.map(({ name, grid }, i) => under(roof, { name, mark: "ABCDEFGH"[i], at: grid[now.d][now.n] / now.itemsize }));
    const known = [...roof.measured, ...(data.rungs[sizes] ?? [])];
    const seen = known.filter((each) => each.at !== null)
      .map((each) => under(roof, { ...each, mark: String(order.indexOf(each.name) + 1) }));
    picture.draw(now.roof, allowed, seen);
    fill(possible, allowed.map((each) => entry(each, `${about(each.at)} operations a byte. ${bound(each)}`)));
    fill(measured, seen.map((each) => entry(each, was(each))), withoutPlace(known));
    heading.hidden = !known.length;
    const place = `N = ${count(data.ns[now.n])}, D = ${data.ds[now.d]}, on ${roof.name}.`;
    const news = [together("Memory bound", allowed.filter((each) => each.isMemory)),
      together("Compute bound", allowed.filter((each) => !each.isMemory))].filter(Boolean).join(" ");
    tell({ place, news, written: `${place} ${news}` });
  };
  const stop = onWidth(drawing, (width) => {
    picture = roofPicture(data, width);
    fill(drawing, picture.node);
    draw();
  });
  return stop;
}

/** What the roof makes of an intensity: the rate it allows, and what decides. */
function under(roof, each) {
  const slope = each.at * roof.bytes;
  return { ...each, most: Math.min(roof.flops, slope), isMemory: slope < roof.flops };
}

const about = (number) => (number >= 100 ? count(number) : String(Number(number.toPrecision(3))));
const rate = (flops) => (flops >= 1e12 ? `${about(flops / 1e12)} TFLOP/s` : `${about(flops / 1e9)} GFLOP/s`);
const bound = (each) => `${each.isMemory ? "Memory" : "Compute"} bound: at most ${rate(each.most)}.`;

function was({ at, flops, most }) {
  const share = flops > 1.005 * most ? "more than the roof allows: some of it came from a cache"
    : `${Math.round(100 * flops / most)} % of what the roof allows there`;
  return `${rate(flops)} at ${about(at)} operations a byte, ${share}.`;
}

const together = (what, those) => (those.length
  ? `${what}: ${those.map((each) => `${each.mark} at most ${rate(each.most)}`).join(", ")}.` : "");

/** A line for what was measured and has no intensity, and one for what was not measured here. */
function withoutPlace(known) {
  const line = (what, those, say) => (those.length
    ? element("li", {}, element("span", {}, element("b", {}, what), `: ${those.map(say).join("; ")}.`)) : null);
  const unplaced = known.filter((each) => each.at === null);
  return [
    line("Traffic not known, so not in the picture", unplaced.filter((each) => each.flops !== null), (each) => `${each.name} ${rate(each.flops)}`),
    line("Not measured at this size", unplaced.filter((each) => each.flops === null), (each) => `${each.name} (${each.reason})`),
  ];
}

/** A line of the list: the mark as it is in the picture, the name, and what is to be said. */
function entry(each, words) {
  const drawn = element("svg", { viewBox: "0 0 22 22", "aria-hidden": "true", class: "course-mark" }, mark(each, 11, 11));
  return element("li", {}, drawn, element("span", {}, element("b", {}, each.name), `: ${words}`));
}

/** A letter in a circle or a number in a square, its edge in its own colour. */
function mark(each, x, y) {
  const isLetter = each.mark >= "A", at = (isLetter ? each.mark.charCodeAt(0) - 65 : Number(each.mark) + 2) % COLOURS.length;
  const look = { fill: "var(--paper)", stroke: COLOURS[at], "stroke-width": 2.5 };
  return element("g", {},
    isLetter ? element("circle", { cx: x, cy: y, r: 8.5, ...look })
      : element("rect", { x: x - 7.5, y: y - 7.5, width: 15, height: 15, ...look }),
    element("text", { x, y: y + 4, "font-size": 11, "font-weight": "bold", "text-anchor": "middle" }, each.mark));
}

/** Both axes logarithmic and the same for all sizes, so that what moves is seen to move. */
function roofPicture(data, width) {
  const high = clamp(Math.round(width * 0.5), 300, 380), left = 44, right = 10, top = 26, bottom = 34;
  const rates = data.operations.flatMap(({ grid }) => grid.flat()).flatMap((each) => data.itemsizes.map((size) => each / size));
  const seen = [...data.roofs.flatMap((roof) => roof.measured), ...Object.values(data.rungs).flat()].filter((each) => each.at);
  const balances = data.roofs.map((roof) => roof.flops / roof.bytes);
  const xs = range([...rates, ...balances, ...seen.map((each) => each.at)]);
  const lows = data.roofs.map((roof) => Math.min(roof.flops, xs[0] * roof.bytes));
  const ys = range([...lows, ...seen.map((each) => each.flops), ...data.roofs.map((roof) => 2 * roof.flops)]);
  const along = (value, [low, most]) => Math.log(value / low) / Math.log(most / low);
  const x = (value) => left + (width - left - right) * along(value, xs);
  const y = (value) => high - bottom - (high - top - bottom) * along(value, ys);

  const lines = data.roofs.map((roof, i) => element("polyline", { fill: "none", stroke: "currentColor",
    points: [[xs[0], lows[i]], [balances[i], roof.flops], [xs[1], roof.flops]].map(([a, b]) => `${x(a)},${y(b)}`).join(" ") }));
  const names = data.roofs.map((roof) => element("text", { x: width - right, y: y(roof.flops) - 13, "font-size": 12, class: "course-over",
    "text-anchor": "end" }, `${roof.name}: ${rate(roof.flops)}`));
  const marks = element("g");
  const node = element("svg", { viewBox: `0 0 ${width} ${high}`, role: "img" },
    element("text", { x: 0, y: 13, "font-size": 12 }, "operations a second"),
    element("text", { x: width - right, y: high - 4, "font-size": 12, "text-anchor": "end" }, "operations a byte"),
    powers(xs, width < 480 && xs[1] / xs[0] > 1e3 ? 2 : 1).flatMap((value) => [
      element("line", { class: "axis", x1: x(value), x2: x(value), y1: top, y2: high - bottom, opacity: 0.25 }),
      element("text", { x: x(value), y: high - bottom + 14, "font-size": 11, "text-anchor": "middle" }, power(value))]),
    powers(ys, 1).flatMap((value) => [
      element("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value), opacity: 0.25 }),
      element("text", { x: left - 5, y: y(value) + 4, "font-size": 11, "text-anchor": "end" }, power(value))]),
    lines, marks, names);

  function draw(chosen, allowed, seen) {
    lines.forEach((line, i) => update(line, { "stroke-width": i === chosen ? 2.5 : 1, opacity: i === chosen ? 1 : 0.5,
      "stroke-dasharray": i === chosen ? null : "5 4" }));
    names.forEach((name, i) => update(name, { "font-weight": i === chosen ? "bold" : null, opacity: i === chosen ? 1 : 0.75 }));
    const all = [...seen.map((each) => [each, each.flops]), ...allowed.map((each) => [each, each.most])];
    const points = all.map(([each, flops]) => [x(each.at), y(flops)]), at = placed(points, [left, top], [width - right, high - bottom]);
    const isMoved = (i) => Math.hypot(at[i][0] - points[i][0], at[i][1] - points[i][1]) > 0.5;
    fill(marks, points.map(([a, b], i) => (isMoved(i) ? element("line", { class: "leader", stroke: "currentColor", x1: a, x2: at[i][0], y1: b, y2: at[i][1] }) : null)),
      all.map(([each], i) => mark(each, ...at[i])),
      points.map(([a, b], i) => (isMoved(i) ? element("circle", { class: "true", cx: a, cy: b, r: 3, fill: "currentColor" }) : null)));
    node.setAttribute("aria-label", `Roofline of ${data.roofs[chosen].name}: `
      + allowed.map((each) => `${each.name}, ${about(each.at)} operations a byte, at most ${rate(each.most)}`).join("; ")
      + ". The same is listed below.");
  }
  return { node, draw };
}

/** Where marks are drawn: at their points; of points that are close, below or above (where a roof has its name), or else
 * beside them, so that a mark covers neither another one nor the point of another one.
 */
function placed(points, [x0, y0], [x1, y1]) {
  const taken = [], gap = 18, ways = [[0, 0]];
  for (const aside of [0, gap, -gap, 2 * gap, -2 * gap]) for (const by of [1, 2, 3, 4, -1, -2, -3, -4, 5, 6, 7, 8]) ways.push([aside, by * gap]);
  const isFar = ([a, b], [c, d], least) => Math.abs(a - c) >= least || Math.abs(b - d) >= least;
  const isIn = ([a, b]) => a > x0 + 9 && a < x1 - 9 && b > y0 && b < y1 - 9;
  return points.map((point, i) => {
    const spots = ways.map(([right, down]) => [point[0] + right, point[1] + down]);
    const isFree = (spot) => taken.every((each) => isFar(spot, each, gap));
    const isClear = (spot) => points.every((each, j) => j === i || isFar(spot, each, 13));
    const at = spots.find((spot, n) => (!n || isIn(spot)) && isFree(spot) && isClear(spot)) ?? point;
    taken.push(at);
    return at;
  });
}

const range = (values) => [Math.min(...values) / 1.6, Math.max(...values) * 1.6];

/** Powers of ten within, every so many of them; 2 and 5 times these too where there are few. */
function powers([low, most], every) {
  const found = [], times = most / low < 500 && every === 1 ? [1, 2, 5] : [1];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(most); e += 1)
    if (e % every === 0) found.push(...times.map((by) => by * 10 ** e));
  return found.filter((value) => low <= value && value <= most);
}

function power(value) {
  for (const [unit, size] of [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6]])
    if (value >= size) return `${count(value / size)} ${unit}`;
  return value >= 1 ? count(value) : String(Number(value.toPrecision(1)));
}

export default { render };
