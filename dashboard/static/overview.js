// All queues at a glance, what needs attention first.

import { charts } from "./charts.js";
import { aloud, foreign, h, refill, s, write } from "./dom.js";
import { bytes, compact, duration, number, rate } from "./format.js";
import { follow } from "./live.js";
import { spark } from "./plot.js";
import { queueLink } from "./router.js";
import { pageOrTrouble } from "./trouble.js";

const WORDS = { bad: "Needs action", warn: "Look at it", note: "Worth knowing", flowing: "Flowing", idle: "Idle" };

/** What a rate is the mean of: with many queues each is asked for its metrics less often. */
function measured(row) {
  if (row.age_ms === null || !row.rate_s) return "not measured yet";
  return `the mean of ${duration(row.rate_s * 1000)}, until ${duration(row.age_ms)} ago`;
}

const COLUMNS = [
  ["late", "Late by", (row) => (row.late_ms > 0 ? duration(row.late_ms) : "–")],
  ["ready", "Ready", (row) => compact(row.ready)],
  ["delayed", "Delayed", (row) => compact(row.delayed)],
  ["leased", "Leased", (row) => compact(row.leased)],
  ["dead", "Dead", (row) => compact(row.dead)],
  ["in", "In /s", (row) => (row.age_ms === null ? "…" : rate(row.pushed)), measured],
  ["out", "Done /s", (row) => (row.age_ms === null ? "…" : rate(row.acked)), measured],
  ["waiting", "Waiting", (row) => compact(row.waiting)],
];

/** Orders of the list: dq-dashboard sorts it, since a browser has only the first rows. */
const SORTS = {
  attention: "attention needed",
  name: "name",
  late: "lateness",
  ready: "ready jobs",
  dead: "dead letters",
  done: "throughput",
};

/** A sign for how urgent it is: another shape for each, so that the colour is not the only one. */
export function sign(level) {
  const shapes = {
    bad: () => [s("path", { d: "M8 1 15.5 14.5H.5Z" }), s("path", { class: "ink", d: "M8 6v4M8 12v.6" })],
    warn: () => [s("path", { class: "hollow", d: "M8 2 14.5 13.8H1.5Z" }), s("path", { class: "stroke", d: "M8 6.5v3.4M8 11.6v.5" })],
    note: () => [s("circle", { class: "hollow", cx: 8, cy: 8, r: 5.5 }), s("path", { class: "stroke", d: "M8 7.5v3.5M8 5v.5" })],
    flowing: () => [s("path", { class: "stroke", d: "M1.5 8h11M9 4l4 4-4 4" })],
    idle: () => [s("path", { class: "stroke", d: "M4 8h8" })],
  };
  return h("span", { class: `sign ${level}` }, s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, shapes[level]()), aloud(WORDS[level]));
}

export function showOverview(main, { heard, fail }) {
  document.title = "Queues · DQ";
  const headline = h("h1", {}, "Queues");
  const servers = h("div", { class: "notes" });
  const tiles = h("dl", { class: "tiles" });
  const search = h("input", { type: "search", id: "match", placeholder: "Name of a queue", "data-search": true, autocomplete: "off", spellcheck: "false" });
  const sort = h("select", { id: "sort" }, Object.entries(SORTS).map(([key, name]) => h("option", { value: key }, name)));
  const count = h("p", { class: "dim count", role: "status" });
  const body = h("tbody");
  const table = h(
    "table",
    { class: "queues", id: "queues" },
    h("caption", { class: "aloud" }, "The queues, with what needs attention first"),
    h(
      "thead",
      {},
      h("tr", {}, h("th", { scope: "col", class: "name" }, "Queue"), COLUMNS.map(([key, name]) => h("th", { scope: "col", class: `n ${key}` }, name)), h("th", { scope: "col", class: "line" }, "Backlog")),
    ),
    body,
  );
  const empty = h("div", { class: "empty-state", hidden: true });
  const plots = charts("", () => {});
  const content = [
    h("div", { class: "head" }, headline, servers),
    tiles,
    h(
      "div",
      { class: "glance" },
      h(
        "section",
        { "aria-label": "Queues" },
        h("div", { class: "toolbar" }, h("label", { for: "match", class: "aloud" }, "Search queues by name"), search, h("span", { class: "jump" }, h("label", { for: "sort" }, "By"), sort), count),
        table,
        empty,
        plots.due,
      ),
      h("section", { class: "charts", "aria-label": "Plots over time" }, plots.plots),
    ),
  ];
  const page = pageOrTrouble(main, content);
  const rows = new Map();
  let painted = sort.value;
  const paint = (answer) => {
    const alone = answer.totals.queues ? null : answer.trouble;
    heard(answer, Boolean(alone));
    if (!page.shows(alone)) return;
    write(headline, sentence(answer));
    refillNotes(servers, answer.servers);
    fillTiles(tiles, answer.totals);
    plots.delayed(answer.totals.delayed);
    paintRows(body, rows, answer.rows, painted !== sort.value);
    painted = sort.value;
    write(count, counted(answer));
    empty.hidden = answer.rows.length > 0;
    table.hidden = !empty.hidden;
    refillEmpty(empty, answer);
  };
  const live = follow("live", () => ({ match: search.value || undefined, sort: sort.value }), paint, fail);
  search.addEventListener("input", live.again);
  sort.addEventListener("change", live.again);
  return () => {
    live.end();
    plots.end();
  };
}

function sentence({ totals, trouble }) {
  if (trouble) return totals.queues ? "Last known state" : "Queues";
  if (totals.queues === 0) return "No queues yet";
  const all = `${number(totals.queues)} ${totals.queues === 1 ? "queue" : "queues"}`;
  if (totals.attention === 0) return totals.acked > 0 ? `${all}: all flowing` : `${all}: all quiet`;
  return `${number(totals.attention)} of ${all} ${totals.attention === 1 ? "needs" : "need"} attention`;
}

function counted({ matching, rows, totals }) {
  if (matching === totals.queues && rows.length === matching) return "";
  const shown = rows.length < matching ? `, the first ${number(rows.length)} are shown` : "";
  return `${number(matching)} of ${number(totals.queues)} match${shown}`;
}

function refillEmpty(empty, { totals }) {
  const text = totals.queues ? "No queue has this in its name." : "No queue has been made on this server. The first push makes one:";
  if (empty.firstChild?.textContent === text) return;
  refill(empty, h("p", {}, text), totals.queues ? null : h("pre", { tabindex: "0" }, "redis-cli DQ.PUSH mail 'hello' DELAY 3s"));
}

function refillNotes(place, servers) {
  const lines = servers.flatMap((server) => server.notes.map((note) => `${server.address} ${note}`));
  const key = lines.join("\n");
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  refill(place, lines.map((line) => h("p", { class: "note-line" }, sign("warn"), line)));
}

function fillTiles(tiles, totals) {
  const facts = [
    ["Ready", compact(totals.ready), number(totals.ready)],
    ["Late by", totals.late_ms > 0 ? duration(totals.late_ms) : "–", "the oldest ready job"],
    ["Delayed", compact(totals.delayed), number(totals.delayed)],
    ["Leased", compact(totals.leased), number(totals.leased)],
    ["Dead", compact(totals.dead), number(totals.dead)],
    ["In", `${rate(totals.pushed)}/s`, "pushed"],
    ["Done", `${rate(totals.acked)}/s`, "acknowledged"],
    ["Failing", `${rate(totals.bad)}/s`, "retried, failed or lapsed"],
    ["Waiting", compact(totals.waiting), "blocked workers"],
    ["Memory", bytes(totals.memory), "of the keys of the queues"],
  ];
  if (tiles.children.length !== facts.length) {
    refill(tiles, facts.map(([name, , title]) => h("div", { class: "tile", title }, h("dt", {}, name), h("dd", {}))));
  }
  facts.forEach(([, value, title], at) => {
    write(tiles.children[at].lastChild, value);
    tiles.children[at].title = title;
  });
}

/** Writes into the rows that are there; the order stays while somebody is at it. */
function paintRows(body, rows, wanted, now) {
  const keys = new Set(wanted.map((row) => row.key));
  for (const [key, row] of rows) {
    if (!keys.has(key)) {
      row.element.remove();
      rows.delete(key);
    }
  }
  for (const data of wanted) {
    if (!rows.has(data.key)) rows.set(data.key, newRow(data));
    rows.get(data.key).update(data);
  }
  const busy = !now && (body.matches(":hover") || body.contains(document.activeElement));
  wanted.forEach((data, at) => {
    const { element } = rows.get(data.key);
    if (!element.isConnected || (!busy && body.children[at] !== element)) body.insertBefore(element, body.children[at] ?? null);
  });
}

function newRow(data) {
  const mark = h("span", { class: "mark" });
  const why = h("span", { class: "why" });
  const line = spark(data.backlog);
  const cells = COLUMNS.map(([key, name]) => h("td", { class: `n ${key}`, "data-name": name }));
  const link = h("a", { href: queueLink(data.key), "data-row": true }, foreign(data.name));
  const element = h("tr", { "data-queue": data.key }, h("th", { scope: "row", class: "name" }, mark, link, why), cells, h("td", { class: "line" }, line.element));
  let level = "";
  const update = (row) => {
    if (level !== row.level) {
      level = row.level;
      element.dataset.level = level;
      refill(mark, sign(level));
    }
    write(why, row.why.join(" · "));
    COLUMNS.forEach(([, , show, title], at) => {
      write(cells[at], show(row));
      if (title) cells[at].title = title(row);
      cells[at].classList.toggle("zero", ["0", "–"].includes(cells[at].textContent));
    });
    cells[0].classList.toggle("hot", row.late_ms >= 2000);
    cells[4].classList.toggle("hot", row.dead > 0);
    line.update(row.backlog);
  };
  update(data);
  return { element, update };
}
