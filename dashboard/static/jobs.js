// The jobs of one state, page by page.

import { cancelIds, mayAct, replayIds, rescheduleIds } from "./actions.js";
import { read } from "./api.js";
import { foreign, h, refill, write } from "./dom.js";
import { dates, jobs, number, relative, zone } from "./format.js";
import { now } from "./live.js";
import { jobLink } from "./router.js";
import { troublePage } from "./trouble.js";

const TIMES = { ready: "Due", delayed: "Due", leased: "Lease ends", dead: "Died" };

/** The table of jobs with its choice; `state` says what its time is. Gives {element, fill, chosen, unchoose}. */
export function jobTable(queue, state, changed = () => {}) {
  const body = h("tbody");
  const all = h("input", { type: "checkbox", "aria-label": "Choose all of this page" });
  const dead = state === "dead";
  const head = [
    mayAct() ? h("th", { scope: "col", class: "choose" }, all) : null,
    h("th", { scope: "col" }, "Id"),
    h("th", { scope: "col", class: "when" }, TIMES[state]),
    h("th", { scope: "col", class: "n" }, "Attempt"),
    h("th", { scope: "col", class: "wide" }, dead ? "Error" : "Payload"),
  ];
  const element = h(
    "table",
    { class: "jobs" },
    h("caption", { class: "aloud" }, `${dead ? "Dead letters" : `Jobs that are ${state}`}`),
    h("thead", {}, h("tr", {}, head)),
    body,
  );
  const boxes = () => [...body.querySelectorAll("input[type=checkbox]")];
  const chosen = () => boxes().filter((box) => box.checked).map((box) => box.value);
  const tell = () => {
    all.checked = boxes().length > 0 && boxes().every((box) => box.checked);
    changed(chosen());
  };
  all.addEventListener("change", () => {
    boxes().forEach((box) => (box.checked = all.checked));
    tell();
  });
  body.addEventListener("change", tell);
  const fill = (list) => {
    const kept = new Set(chosen());
    refill(body, list.map((job) => jobRow(queue, job, state, kept.has(job.id))));
    tell();
  };
  const unchoose = () => {
    boxes().forEach((box) => (box.checked = false));
    tell();
  };
  return { element, fill, chosen, unchoose };
}

function jobRow(queue, job, state, isChosen) {
  const box = h("input", { type: "checkbox", value: job.id, "aria-label": `Choose ${job.id}` });
  box.checked = isChosen;
  const text = state === "dead" ? job.error || `(${job.reason}, no error text)` : job.payload;
  const tags = [];
  if (state === "dead") tags.push(h("span", { class: "tag" }, job.reason));
  if (job.failures > 0) tags.push(h("span", { class: "tag" }, `failed ${number(job.failures)} ${job.failures === 1 ? "time" : "times"}`));
  if (job.lapses > 0) tags.push(h("span", { class: "tag" }, `lapsed ${number(job.lapses)} ${job.lapses === 1 ? "time" : "times"}`));
  return h(
    "tr",
    {},
    mayAct() ? h("td", { class: "choose" }, box) : null,
    h("th", { scope: "row", class: "id" }, h("a", { href: jobLink(queue.key, job.id), "data-row": true }, h("code", {}, job.id))),
    h("td", { class: "when", title: dates(job.at), "data-at": job.at }, relative(job.at, now())),
    h("td", { class: "n", "data-name": "Attempt" }, number(job.attempt)),
    h("td", { class: "wide" }, foreign(text || "(empty)"), tags),
  );
}

/** The times in the table as they are now. */
export function ageTimes(element) {
  for (const cell of element.querySelectorAll("[data-at]")) write(cell, relative(Number(cell.dataset.at), now()));
}

/** The buttons for what is chosen. */
export function choiceBar(queue, state, table, done) {
  const count = h("span", { class: "dim", role: "status" });
  const act = (action) => async () => {
    if (!(await action(queue, table.chosen(), state))) return;
    table.unchoose();
    done();
  };
  const buttons = [];
  if (state === "dead") buttons.push(h("button", { type: "button", onclick: act(replayIds) }, "Replay…"));
  if (state === "ready" || state === "delayed") buttons.push(h("button", { type: "button", onclick: act(rescheduleIds) }, "Reschedule…"));
  buttons.push(h("button", { type: "button", class: "danger", onclick: act(cancelIds) }, "Cancel…"));
  const element = h("div", { class: "choice", hidden: true }, count, buttons);
  const update = (ids) => {
    element.hidden = ids.length === 0;
    write(count, ids.length ? `${jobs(ids.length)} chosen` : "");
  };
  return { element, update };
}

/** A list with pages: first, next, and from a time on. `lead` goes before the buttons. */
export function pagedJobs(place, queue, state, lead = null) {
  let bar = null;
  const table = jobTable(queue, state, (ids) => bar?.update(ids));
  bar = choiceBar(queue, state, table, () => load());
  const note = h("p", { class: "dim", role: "status" });
  const first = h("button", { type: "button", class: "quiet", "data-first": true }, "First");
  const next = h("button", { type: "button", class: "quiet", "data-next": true }, "Next");
  const time = h("input", { type: "datetime-local", id: `from-${state}`, step: "1" });
  const jump = h("div", { class: "jump" }, h("label", { for: `from-${state}` }, `From (${zone()})`), time);
  const trouble = h("div");
  let at = {};
  let page = 1;
  let cursor = "0";
  let stopped = false;
  const load = async () => {
    try {
      const found = await read("jobs", { queue: queue.key, state, ...at });
      if (stopped) return;
      cursor = found.next;
      refill(trouble);
      table.fill(found.jobs);
      next.disabled = cursor === "0";
      first.disabled = page === 1 && at.from === undefined;
      table.element.hidden = found.jobs.length === 0;
      write(note, found.jobs.length ? `Page ${number(page)}` : page > 1 || at.from ? "None from here on." : `None is ${state}.`);
    } catch (error) {
      if (!stopped) refill(trouble, troublePage(error));
    }
  };
  const start = () => {
    [at, page] = [{}, 1];
    time.value = "";
    load();
  };
  first.addEventListener("click", start);
  next.addEventListener("click", () => {
    [at, page] = [{ after: cursor }, page + 1];
    load();
    table.element.scrollIntoView({ block: "nearest" });
  });
  time.addEventListener("change", () => {
    const from = new Date(time.value).getTime();
    [at, page] = [Number.isNaN(from) ? {} : { from }, 1];
    load();
  });
  const again = h("button", { type: "button", class: "quiet", onclick: () => load() }, "Refresh");
  refill(place, lead, h("div", { class: "toolbar" }, first, next, again, jump, note, bar.element), trouble, table.element);
  load();
  return {
    update: () => ageTimes(table.element),
    end: () => (stopped = true),
  };
}

export function showJobs(body, queue, state) {
  return pagedJobs(body, queue, state);
}
