// Dead letters: grouped by their error, the newest, and all from the oldest on.

import { cancelGroup, mayAct, replayGroup } from "./actions.js";
import { read } from "./api.js";
import { foreign, h, refill, write } from "./dom.js";
import { dates, letters, number, relative } from "./format.js";
import { choiceBar, ageTimes, jobTable, pagedJobs } from "./jobs.js";
import { follow, now } from "./live.js";
import { jobLink } from "./router.js";
import { troublePage } from "./trouble.js";

const VIEWS = [["groups", "By error"], ["newest", "Newest"], ["all", "Oldest first"]];

let chosenView = "groups";

export function showDead(body, queue) {
  const place = h("div");
  const choice = h("div", { class: "segments", role: "group", "aria-label": "How the dead letters are shown" });
  let inside = {};
  const pick = (view, focus = false) => {
    inside.end?.();
    chosenView = view;
    refill(choice, VIEWS.map(([key, name]) => h("button", { type: "button", class: "segment", "aria-pressed": String(key === view), onclick: () => pick(key, true) }, name)));
    if (focus) choice.children[VIEWS.findIndex(([key]) => key === view)].focus();
    inside = show(view, place, queue);
  };
  refill(body, choice, place);
  pick(chosenView);
  return { update: () => inside.update?.(), end: () => inside.end?.() };
}

function show(view, place, queue) {
  if (view === "groups") return showGroups(place, queue);
  if (view === "newest") return showNewest(place, queue);
  return pagedJobs(place, queue, "dead");
}

function showGroups(place, queue) {
  const note = h("p", { class: "dim", role: "status" });
  const meter = h("progress", { max: "1", value: "0", "aria-label": "Letters read" });
  const list = h("ol", { class: "groups" });
  const trouble = h("div");
  refill(place, note, meter, trouble, list);
  let key = "";
  const paint = (told) => {
    refill(trouble);
    const dead = queue.row.dead;
    meter.hidden = told.all || told.bounded;
    meter.value = dead ? told.seen / dead : 1;
    write(note, seenSo(told, dead));
    const next = JSON.stringify(told.groups.map((group) => [group.reason, group.shape, group.count]));
    if (next !== key && !list.contains(document.activeElement)) refill(list, told.groups.map((group) => groupItem(queue, group, told.seen)));
    key = next;
  };
  const live = follow("groups", { queue: queue.key }, paint, (error) => refill(trouble, troublePage(error)));
  return { update: () => ageTimes(list), end: live.end };
}

function seenSo(told, dead) {
  if (told.bounded) return `${number(told.seen)} of ${letters(dead)} are grouped: the limit is reached.`;
  if (told.all) return told.seen ? `All ${letters(told.seen)}, by their error.` : "No dead letters.";
  return `${number(told.seen)} of ${letters(dead)} read so far, those of the last minutes first.`;
}

function groupItem(queue, group, seen) {
  const share = h("div", { class: "bar" });
  share.style.width = `${(group.count / Math.max(1, seen)) * 100}%`;
  const button = (text, act, kind = "") => h("button", { type: "button", class: kind, onclick: () => act(queue, group) }, text);
  const canAct = mayAct() && group.reason;
  const buttons = canAct ? h("span", { class: "buttons" }, button(`Replay ${number(group.count)}…`, replayGroup), button("Cancel…", cancelGroup, "danger")) : null;
  return h(
    "li",
    { class: "group" },
    h("div", { class: "group-head" }, h("b", { class: "group-count" }, number(group.count)), h("span", { class: "tag" }, group.reason || "several reasons"), buttons),
    h("p", { class: "group-error" }, group.shape ? foreign(group.shape, "code") : h("span", { class: "dim" }, "no error text")),
    h("div", { class: "bar-track thin", "aria-hidden": "true" }, share),
    h(
      "p",
      { class: "dim small" },
      "First ",
      time(group.first_at),
      ", last ",
      time(group.last_at),
      " · for example ",
      h("a", { href: jobLink(queue.key, group.example_id), "data-row": true }, h("code", {}, group.example_id)),
      group.example && group.example !== group.shape ? [": ", foreign(group.example)] : null,
    ),
  );
}

const time = (at) => h("time", { datetime: new Date(at).toISOString(), title: dates(at), "data-at": at }, relative(at, now()));

function showNewest(place, queue) {
  let bar = null;
  const table = jobTable(queue, "dead", (ids) => bar?.update(ids));
  const note = h("p", { class: "dim", role: "status" }, "Looking…");
  const trouble = h("div");
  let stopped = false;
  const load = async () => {
    try {
      const page = await read("newest", { queue: queue.key });
      if (stopped) return;
      refill(trouble);
      table.fill(page.jobs);
      table.element.hidden = page.jobs.length === 0;
      write(note, page.jobs.length ? `The ${number(page.jobs.length)} that died last, the last one first` : "No dead letters.");
    } catch (error) {
      if (!stopped) refill(trouble, troublePage(error));
    }
  };
  bar = choiceBar(queue, "dead", table, load);
  const again = h("button", { type: "button", class: "quiet", onclick: load }, "Refresh");
  refill(place, h("div", { class: "toolbar" }, again, note, bar.element), trouble, table.element);
  load();
  return { update: () => ageTimes(table.element), end: () => (stopped = true) };
}
