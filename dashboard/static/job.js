// One job, or one dead letter, whole.

import { cancelIds, mayAct, replayIds, rescheduleIds } from "./actions.js";
import { address, read } from "./api.js";
import { foreign, h, refill, write } from "./dom.js";
import { bytes, date, duration, number, relative, utc, zone } from "./format.js";
import { follow, now } from "./live.js";
import { decodeName, emptyRow } from "./queue.js";
import { queueLink } from "./router.js";
import { troublePage } from "./trouble.js";

const AT = { ready: "Due", delayed: "Due", leased: "Lease ends", dead: "Died", lost: "Due" };
const VIEWS = [["json", "JSON"], ["text", "Text"], ["msgpack", "MessagePack"], ["hex", "Hex"]];

export function showJob(main, key, id, { heard, fail }) {
  const queue = { key, name: decodeName(key), row: emptyRow(key) };
  const crumb = h("a", { href: queueLink(key) }, foreign(queue.name));
  const body = h("div");
  document.title = `${id} · ${queue.name} · DQ`;
  refill(main, h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/" }, "All queues"), h("span", { "aria-hidden": "true" }, "›"), crumb), body);
  let stopped = false;
  const load = async () => {
    try {
      const job = await read("job", { queue: key, id });
      if (!stopped) refill(body, job ? page(queue, job, load) : missing(id));
    } catch (error) {
      if (!stopped) refill(body, troublePage(error));
    }
  };
  load();
  const live = follow(
    "queue",
    { queue: key },
    (answer) => {
      heard(answer);
      queue.name = answer.name;
      queue.row = answer.row ?? queue.row;
      write(crumb.firstChild, answer.name);
      for (const place of body.querySelectorAll("[data-at]")) write(place, relative(Number(place.dataset.at), now()));
    },
    fail,
  );
  return () => {
    stopped = true;
    live.end();
  };
}

function missing(id) {
  return h(
    "section",
    { class: "trouble" },
    h("h1", {}, "No job has the id ", h("code", {}, foreign(id))),
    h("p", {}, "It is done, was cancelled or purged, or was never in this queue. An acknowledged job leaves nothing behind."),
  );
}

function page(queue, job, again) {
  return [
    h(
      "div",
      { class: "head" },
      h("div", {}, h("h1", {}, h("code", { class: "job-id" }, job.id)), h("p", { class: "dim" }, h("span", { class: "tag strong" }, job.state), job.reason ? h("span", { class: "tag" }, job.reason) : null)),
      h("div", { class: "buttons" }, buttons(queue, job, again)),
    ),
    h(
      "div",
      { class: "job" },
      h("div", { class: "job-main" }, job.error_text || job.stack ? failure(job) : null, payload(queue, job)),
      h("div", { class: "job-side" }, times(job), attempts(job)),
    ),
  ];
}

function buttons(queue, job, again) {
  const look = h("button", { type: "button", class: "quiet", onclick: again }, "Refresh");
  if (!mayAct()) return [look];
  const act = (text, action, kind = "") => h("button", { type: "button", class: kind, onclick: async () => (await action(queue, [job.id], job.state === "lost" ? undefined : job.state)) && again() }, text);
  const can = [look];
  if (job.state === "dead") can.push(act("Replay…", replayIds, "primary"));
  if (job.state === "ready" || job.state === "delayed") can.push(act("Reschedule…", rescheduleIds));
  can.push(act("Cancel…", cancelIds, "danger"));
  return can;
}

function failure(job) {
  return h(
    "section",
    { "aria-labelledby": "error-title", class: "panel" },
    h("h2", { id: "error-title" }, job.state === "dead" ? "Error" : "Last error"),
    job.error_text ? h("pre", { class: "error", tabindex: "0", dir: "auto" }, job.error_text) : null,
    job.stack ? [h("h3", {}, "Stack"), h("pre", { class: "stack", tabindex: "0", dir: "auto" }, job.stack)] : null,
  );
}

function payload(queue, job) {
  const { views } = job;
  const has = VIEWS.filter(([key]) => views[key] !== null && views[key] !== undefined);
  const text = h("pre", { class: "payload", tabindex: "0", dir: "auto" });
  const choice = h("div", { class: "segments", role: "group", "aria-label": "How the payload is shown" });
  const pick = (key) => {
    text.textContent = views[key] || "(empty)";
    text.classList.toggle("hex", key === "hex");
    refill(choice, has.map(([name, label]) => h("button", { type: "button", class: "segment", "aria-pressed": String(name === key), onclick: () => { pick(name); choice.children[has.findIndex(([one]) => one === name)].focus(); } }, label)));
  };
  pick(views.best);
  return h(
    "section",
    { "aria-labelledby": "payload-title", class: "panel" },
    h("div", { class: "panel-head" }, h("h2", { id: "payload-title" }, "Payload"), h("span", { class: "dim" }, bytes(views.bytes)), choice, h("a", { href: address("payload", { queue: queue.key, id: job.id }), download: "payload.bin" }, "Download")),
    text,
    views.cut ? h("p", { class: "dim small" }, "Only the beginning is shown; the download has all of it.") : null,
  );
}

function times(job) {
  const rows = [];
  if (job.pushed_at) rows.push(["Pushed", job.pushed_at]);
  rows.push([AT[job.state] ?? "At", job.at]);
  return h(
    "section",
    { class: "panel", "aria-labelledby": "times-title" },
    h("h2", { id: "times-title" }, "Times"),
    h("dl", { class: "facts" }, rows.map(([name, at]) => [h("dt", {}, name), h("dd", {}, h("span", { "data-at": at }, relative(at, now())), h("time", { class: "dim", datetime: new Date(at).toISOString() }, date(at), zone(at) === "UTC" ? null : [h("br"), utc(at)]))])),
  );
}

const FACTS = [
  ["attempt", "Attempt"],
  ["failures", "Failures"],
  ["lapses", "Leases that lapsed"],
  ["releases", "Releases"],
  ["claims", "Claims that ended"],
  ["retries-left", "Retries left"],
  ["retries", "Retries in all"],
  ["lease-ms", "Lease"],
  ["backoff-base-ms", "First backoff"],
  ["backoff-cap-ms", "Longest backoff"],
];

function attempts(job) {
  // The failure that made it a dead letter counts, too.
  const numbers = { ...Object.fromEntries(job.numbers), failures: job.failures };
  const shown = FACTS.filter(([field]) => field in numbers);
  const value = (field) => (field.endsWith("-ms") ? duration(numbers[field]) : number(numbers[field]));
  return h(
    "section",
    { class: "panel", "aria-labelledby": "attempts-title" },
    h("h2", { id: "attempts-title" }, "Attempts"),
    h("dl", { class: "facts" }, shown.map(([field, name]) => [h("dt", {}, name), h("dd", {}, value(field))])),
  );
}
