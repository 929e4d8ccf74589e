// A plot over time in SVG: lines that differ by colour and by dash, a crosshair by pointer and by keyboard, and the same
// in words for those who do not see it.

import { h, refill, s, write } from "./dom.js";
import { hourAndMinute, timeOfDay, zone } from "./format.js";

const HEIGHT = 132;
const LEFT = 42;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 20;
/** Rows of the table that stands for the plot. */
const ROWS = 12;

/** Round numbers for the top of a plot: of counts, and of seconds. */
const COUNTS = [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10];
const SECONDS = [1, 2, 4, 10, 20, 40, 60, 120, 240, 600, 1200, 2400, 3600, 7200, 14_400, 28_800, 86_400, 172_800, 345_600, 864_000];

/**
 * `series` are {name, column, kind}; `kind` names the look: a, b or c, an `area` is filled.
 * A value of null is a gap: nothing is known of that moment.
 * `show` writes a value for people, `axis` the same with little room; `seconds` says that values are such.
 * Gives {element, update}.
 */
export function plot({ title, series, show, axis = show, seconds = false, note }) {
  const svg = s("svg", { class: "plot", role: "img", tabindex: "0" });
  const legend = h("ul", { class: "legend" }, series.map((one) => legendItem(one)));
  const table = h("table", { class: "plain" });
  const reading = h("p", { class: "reading", "aria-live": "off" });
  const details = h("details", { class: "as-table" }, h("summary", {}, "As a table"), table);
  const element = h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("h2", {}, title), note ? h("span", { class: "dim" }, note) : null, legend),
    h("div", { class: "plot-frame" }, svg, reading),
    details,
  );
  const look = { title, series, show, axis, seconds };
  let drawn = null;
  const cross = crosshair(svg, reading, () => drawn);
  const update = (columns) => {
    drawn = draw(svg, columns, look);
    series.forEach((one, at) => write(legend.children[at].querySelector("b"), drawn.count ? value(columns[one.column].at(-1), show) : "–"));
    cross.again();
    if (details.open) fillTable(table, columns, series, show);
  };
  new ResizeObserver(() => drawn && update(drawn.columns)).observe(svg);
  details.addEventListener("toggle", () => details.open && drawn && fillTable(table, drawn.columns, series, show));
  return { element, update };
}

const value = (number, show) => (number === null ? "–" : show(number));

const known = (values) => values.filter((value) => value !== null);

function legendItem(one) {
  const line = s("svg", { class: "key", viewBox: "0 0 18 8", "aria-hidden": "true" }, s("path", { class: `line ${one.kind}`, d: "M0 4H18" }));
  return h("li", {}, line, h("span", {}, one.name), h("b", {}, "–"));
}

function draw(svg, columns, { title, series, show, axis, seconds }) {
  const count = columns.at.length;
  const width = Math.max(200, svg.clientWidth || 600);
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  if (count === 0) {
    refill(svg, s("text", { x: width / 2, y: HEIGHT / 2, class: "tick", "text-anchor": "middle" }, "Nothing yet"));
    svg.setAttribute("aria-label", `${title}: nothing yet`);
    return { count, columns, width, xs: [], series, show };
  }
  const { from, to } = columns;
  const top = nice(Math.max(1, ...series.flatMap((one) => known(columns[one.column]))), seconds);
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const xs = columns.at.map(x);
  refill(
    svg,
    [0, top / 2, top].map((value) => gridline(y(value), axis(value), width)),
    ticks(from, to).map((at) => s("text", { x: x(at), y: HEIGHT - 4, class: "tick", "text-anchor": "middle" }, at % 60 ? timeOfDay(at * 1000) : hourAndMinute(at * 1000))),
    [...series].reverse().map((one) => line(one, xs, columns[one.column], y)),
    s("g", { class: "cross" }),
  );
  svg.setAttribute("aria-label", words(title, columns, series, show, from, to));
  return { count, columns, width, xs, y, series, show };
}

function gridline(y, text, width) {
  return s(
    "g",
    {},
    s("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: "grid" }),
    s("text", { x: LEFT - 6, y: y + 4, class: "tick", "text-anchor": "end" }, text),
  );
}

/** A line from point to point, with a break at each gap; a point between two gaps is a dot. */
function line(one, xs, values, y) {
  const parts = runs(values).map(([from, to]) => {
    const points = xs.slice(from, to).map((x, at) => `${x.toFixed(1)} ${y(values[from + at]).toFixed(1)}`);
    return { path: `M${points.join("L")}`, first: xs[from].toFixed(1), last: xs[to - 1].toFixed(1), alone: to - from === 1 ? from : null };
  });
  const area = one.area ? s("path", { class: `area ${one.kind}`, d: parts.map(({ path, first, last }) => `${path}L${last} ${y(0)}L${first} ${y(0)}Z`).join("") }) : null;
  const dots = parts.filter(({ alone }) => alone !== null).map(({ alone }) => s("circle", { class: `dot ${one.kind}`, cx: xs[alone], cy: y(values[alone]), r: 2.5 }));
  return s("g", {}, area, s("path", { class: `line ${one.kind}`, d: parts.map(({ path }) => path).join("") }), dots);
}

/** Where the values between gaps begin and end. */
function runs(values) {
  const found = [];
  values.forEach((value, at) => {
    if (value === null) return;
    if (at > 0 && values[at - 1] !== null) found.at(-1)[1] = at + 1;
    else found.push([at, at + 1]);
  });
  return found;
}

/** The least round number that is not below. */
function nice(value, seconds) {
  if (seconds) return SECONDS.find((step) => step >= value) ?? value;
  const size = 10 ** Math.floor(Math.log10(value));
  return COUNTS.map((step) => step * size).find((step) => step >= value);
}

/** Round times of day, about four. */
function ticks(from, to) {
  const step = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600].find((length) => (to - from) / length <= 4.5) ?? 21_600;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  const span = to - from;
  return found.filter((at) => at - from > span * 0.04 && to - at > span * 0.04);
}

/** What a plot says, in a sentence. */
function words(title, columns, series, show, from, to) {
  const each = series.map((one) => {
    const values = known(columns[one.column]);
    if (!values.length) return `${one.name} unknown`;
    return `${one.name} from ${show(Math.min(...values))} to ${show(Math.max(...values))}, now ${value(columns[one.column].at(-1), show)}`;
  });
  return `${title}, ${hourAndMinute(from * 1000)} to ${hourAndMinute(to * 1000)} ${zone()}: ${each.join("; ")}. Arrow keys read single points.`;
}

function crosshair(svg, reading, drawn) {
  let at = null;
  const paint = () => {
    const now = drawn();
    const group = svg.querySelector(".cross");
    if (!group || at === null || !now?.count) {
      group?.replaceChildren();
      write(reading, "");
      return;
    }
    at = Math.min(Math.max(at, 0), now.count - 1);
    const x = now.xs[at];
    refill(
      group,
      s("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
      now.series
        .filter((one) => now.columns[one.column][at] !== null)
        .map((one) => s("circle", { class: `dot ${one.kind}`, cx: x, cy: now.y(now.columns[one.column][at]), r: 3 })),
    );
    const values = now.series.map((one) => `${one.name} ${value(now.columns[one.column][at], now.show)}`);
    write(reading, `${timeOfDay(now.columns.at[at] * 1000)} ${zone()} · ${values.join(" · ")}`);
  };
  const leave = () => {
    at = null;
    reading.setAttribute("aria-live", "off");
    paint();
  };
  svg.addEventListener("pointermove", (event) => {
    const now = drawn();
    if (!now?.count) return;
    const frame = svg.getBoundingClientRect();
    const x = ((event.clientX - frame.left) / frame.width) * now.width;
    at = now.xs.reduce((best, here, place) => (Math.abs(here - x) < Math.abs(now.xs[best] - x) ? place : best), 0);
    paint();
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
    if (!step || !drawn()?.count) return;
    event.preventDefault();
    at = (at ?? drawn().count - (step < 0 ? 0 : 1)) + step;
    reading.setAttribute("aria-live", "polite");
    paint();
  });
  return { again: paint };
}

function fillTable(table, columns, series, show) {
  const step = Math.max(1, Math.ceil(columns.at.length / ROWS));
  const places = [...columns.at.keys()].filter((at) => (columns.at.length - 1 - at) % step === 0).reverse();
  refill(
    table,
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, `Time, ${zone()}`), series.map((one) => h("th", { scope: "col" }, one.name)))),
    h("tbody", {}, places.map((at) => h("tr", {}, h("th", { scope: "row" }, timeOfDay(columns.at[at] * 1000)), series.map((one) => h("td", {}, value(columns[one.column][at], show)))))),
  );
}

/** A small line for a table. */
export function spark(values) {
  const svg = s("svg", { class: "spark", viewBox: "0 0 72 18", preserveAspectRatio: "none", "aria-hidden": "true" });
  const path = s("path", { class: "line a" });
  svg.append(path);
  const update = (points) => {
    const top = Math.max(1, ...points) * 1.25;
    const x = (at) => (points.length < 2 ? 72 : (at / (points.length - 1)) * 72);
    path.setAttribute("d", points.length ? `M${points.map((value, at) => `${x(at).toFixed(1)} ${(16.5 - (value / top) * 15).toFixed(1)}`).join("L")}` : "");
  };
  update(values);
  return { element: svg, update };
}
