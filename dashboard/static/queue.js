// A queue: what it does and how it stands, with its jobs, dead letters and settings behind tabs.

import { mayAct, pause, purge, replayAll, rescheduleAll, resume } from "./actions.js";
import { charts } from "./charts.js";
import { showDead } from "./dead.js";
import { foreign, h, refill, write } from "./dom.js";
import { queueErrors } from "./errors.js";
import { bytes, compact, duration, microseconds, number, rate } from "./format.js";
import { showJobs } from "./jobs.js";
import { follow } from "./live.js";
import { sign } from "./overview.js";
import { go, jobLink, queueLink } from "./router.js";
import { showSettings } from "./settings.js";
import { pageOrTrouble } from "./trouble.js";

const TABS = [
  ["", "At a glance", null],
  ["ready", "Ready", "ready"],
  ["delayed", "Delayed", "delayed"],
  ["leased", "Leased", "leased"],
  ["dead", "Dead", "dead"],
  ["settings", "Settings", null],
];

/** Shows the queue of this key, with the tab. */
export function showQueue(main, key, tab, { heard, fail }) {
  const queue = { key, name: decodeName(key), row: emptyRow(key) };
  const mark = h("span", { class: "mark" });
  const title = h("h1", {}, mark, foreign(queue.name));
  const why = h("ul", { class: "reasons", "aria-label": "State" });
  const tabs = TABS.map(([name, text, count]) => tabLink(key, tab, name, text, count));
  const buttons = h("div", { class: "buttons" });
  const body = h("div", { class: "tab-body" });
  const content = [
    h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/" }, "All queues")),
    h("div", { class: "head queue-head" }, h("div", {}, title, why), searchForm(queue), buttons),
    h("nav", { class: "tabs", "aria-label": "Parts of the queue" }, tabs.map((one) => one.element)),
    body,
  ];
  const page = pageOrTrouble(main, content);
  document.title = `${queue.name} · DQ`;
  let placed = false;
  const inside = show(body, queue, tab, fail);
  const paint = (answer) => {
    const alone = answer.row ? null : answer.trouble;
    heard(answer, Boolean(alone));
    if (!page.shows(alone)) return;
    queue.name = answer.name;
    const is = Boolean(answer.row);
    queue.row = answer.row ?? emptyRow(key);
    if (title.lastChild.textContent !== queue.name) title.lastChild.textContent = queue.name;
    refillOnce(mark, queue.row.level, () => sign(queue.row.level));
    why.className = `reasons ${queue.row.level}`;
    const reasons = is ? queue.row.why : ["There is no such queue: no job was ever pushed to it, or it is empty and was removed"];
    refillOnce(why, reasons.join("\n"), () => reasons.map((reason) => h("li", {}, reason)));
    tabs.forEach((one) => one.update(queue.row));
    if (!placed) content[2].querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    placed = true;
    refillOnce(buttons, `${queue.row.paused} ${mayAct()}`, () => actionButtons(queue));
    inside.update?.(answer);
  };
  const live = follow("queue", { queue: key }, paint, fail);
  return () => {
    live.end();
    inside.end?.();
  };
}

function show(body, queue, tab, fail) {
  if (tab === "settings") return showSettings(body, queue);
  if (tab === "dead") return showDead(body, queue);
  if (["ready", "delayed", "leased"].includes(tab)) return showJobs(body, queue, tab);
  return showGlance(body, queue, fail);
}

/** Refills if it shows something else than before. */
function refillOnce(element, key, children) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  refill(element, children());
}

export function decodeName(key) {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

export function emptyRow(key) {
  return { key, level: "idle", why: [], ready: 0, delayed: 0, leased: 0, dead: 0, waiting: 0, paused: false, late_ms: 0, far: 0 };
}

function tabLink(key, tab, name, text, count) {
  const badge = count ? h("span", { class: "badge" }) : null;
  const element = h("a", { href: queueLink(key, name), class: "tab", "aria-current": tab === name ? "page" : null }, text, badge ? " " : null, badge);
  const update = (row) => badge && write(badge, compact(row[count]));
  return { element, update };
}

function searchForm(queue) {
  const input = h("input", { type: "search", id: "find", placeholder: "Id of a job", "data-search": true, autocomplete: "off", spellcheck: "false", maxlength: "128" });
  const form = h("form", { class: "find", role: "search" }, h("label", { for: "find", class: "aloud" }, "Search a job by its id"), input, h("button", { class: "quiet" }, "Find"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const id = input.value.trim();
    if (id) go(jobLink(queue.key, id));
  });
  return form;
}

function actionButtons(queue) {
  if (!mayAct()) return [];
  const button = (text, act, kind = "") => h("button", { type: "button", class: kind, onclick: () => act(queue) }, text);
  return [
    queue.row.paused ? button("Resume…", resume, "primary") : button("Pause…", pause),
    button("Replay…", replayAll),
    button("Reschedule…", rescheduleAll),
    button("Purge…", purge, "danger"),
  ];
}

const NOW = [
  ["ready", "Ready", (row) => number(row.ready)],
  ["late", "Late by", (row) => (row.late_ms > 0 ? duration(row.late_ms) : "–")],
  ["delayed", "Delayed", (row) => number(row.delayed)],
  ["far", "Far", (row) => number(row.far)],
  ["leased", "Leased", (row) => number(row.leased)],
  ["dead", "Dead", (row) => number(row.dead)],
  ["waiting", "Waiting workers", (row) => number(row.waiting)],
  ["in", "In", (row) => `${rate(row.pushed ?? 0)}/s`],
  ["out", "Done", (row) => `${rate(row.acked ?? 0)}/s`],
  ["bad", "Failing", (row) => `${rate(row.bad ?? 0)}/s`],
  ["p50", "Late p50, since load", (row) => microseconds(row.p50_us ?? 0)],
  ["p99", "Late p99, since load", (row) => microseconds(row.p99_us ?? 0)],
  ["max", "Late max, since load", (row) => microseconds(row.max_us ?? 0)],
  ["memory", "Memory", (row) => bytes(row.memory ?? 0)],
];

function showGlance(body, queue, fail) {
  const values = NOW.map(() => h("dd", {}));
  const tiles = h("dl", { class: "tiles seven" }, NOW.map(([key, name], at) => h("div", { class: `tile ${key}` }, h("dt", {}, name), values[at])));
  const progress = h("div", { class: "progress", role: "status" });
  const plots = charts(queue.key, fail);
  const metrics = h("tbody");
  const age = h("span", { class: "dim" });
  const errors = queueErrors(queue, fail);
  const all = h(
    "details",
    { class: "metrics" },
    h("summary", {}, "All metrics ", age),
    h("table", { class: "plain" }, h("caption", { class: "aloud" }, "Every metric of DQ.STATS; counters begin when the module is loaded"), h("thead", { class: "aloud" }, h("tr", {}, h("th", { scope: "col" }, "Metric"), h("th", { scope: "col" }, "Value"))), metrics),
  );
  refill(body, tiles, progress, errors.element, h("section", { class: "charts", "aria-label": "Plots" }, plots.plots, plots.due), all);
  const update = ({ row, stats, stats_age_ms: age_ms }) => {
    NOW.forEach(([, , show], place) => write(values[place], show(queue.row)));
    plots.delayed(queue.row.delayed);
    const under_way = ["replaying", "purging", "rescheduling"].filter((what) => row?.[what] > 0);
    write(progress, under_way.map((what) => `${what}: ${number(row[what])} to go`).join(" · "));
    write(age, age_ms === undefined ? "" : `· as of ${duration(age_ms)} ago, counters since the module was loaded`);
    if (all.open && stats) refill(metrics, stats.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "n" }, number(value)))));
  };
  const end = () => {
    plots.end();
    errors.end();
  };
  return { update, end };
}
