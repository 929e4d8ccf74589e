// Why jobs fail: the errors of jobs that will be retried, and of dead letters, over all queues or in one.

import { cancelGroup, mayAct, pause, replayGroup } from "./actions.js";
import { foreign, h, refill, write } from "./dom.js";
import { dates, jobs, letters, number, relative } from "./format.js";
import { ageTimes } from "./jobs.js";
import { follow, now } from "./live.js";
import { jobLink, queueLink } from "./router.js";
import { pageOrTrouble } from "./trouble.js";

const STATES = { retrying: "retrying", dead: "dead" };
/** Errors on the page of a queue. */
const FEW = 5;

/** The page with the errors of all queues. */
export function showErrors(main, { heard, fail }) {
  document.title = "Errors · DQ";
  const note = h("p", { class: "dim", role: "status" });
  const list = h("ol", { class: "groups" });
  const content = [
    h("nav", { class: "crumbs", "aria-label": "Breadcrumbs" }, h("a", { href: "#/" }, "All queues")),
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Errors"), note)),
    list,
  ];
  const page = pageOrTrouble(main, content);
  const paintGroups = groupList(list, { withQueues: true });
  const paint = (told) => {
    const alone = told.errors.groups.length ? null : told.trouble;
    heard(told, Boolean(alone));
    if (!page.shows(alone)) return;
    write(note, covered(told));
    paintGroups(told.errors.groups);
  };
  return follow("errors", {}, paint, fail).end;
}

/** The most common errors of one queue, for its page. Gives {element, end}. */
export function queueErrors(queue, fail) {
  const note = h("p", { class: "dim small" });
  const list = h("ol", { class: "groups" });
  const element = h("section", { class: "queue-errors", "aria-labelledby": "errors-title", hidden: true }, h("h2", { id: "errors-title" }, "Errors"), note, list);
  const paintGroups = groupList(list, { withQueues: false });
  const paint = (told) => {
    const groups = told.errors.groups.slice(0, FEW);
    element.hidden = groups.length === 0;
    write(note, covered(told));
    paintGroups(groups);
  };
  const live = follow("errors", { queue: queue.key }, paint, fail, 2000);
  return { element, end: live.end };
}

/** How much of the jobs the errors are of. */
function covered({ errors, dead, dead_queues: queues }) {
  const parts = [];
  if (errors.sampled_jobs) {
    const all = errors.sampled_all ? "" : "a sample of ";
    parts.push(`Retrying: ${all}${jobs(errors.sampled_jobs)} read in ${number(errors.sampled_queues)} ${errors.sampled_queues === 1 ? "queue" : "queues"}`);
  }
  if (dead) parts.push(`Dead: ${number(Math.min(errors.dead_read, dead))} of ${letters(dead)} read, in ${number(queues)} ${queues === 1 ? "queue" : "queues"}`);
  if (errors.groups.length < errors.all_groups) parts.push(`the first ${number(errors.groups.length)} of ${number(errors.all_groups)} errors are shown`);
  if (!parts.length) return "No job has failed, as far as jobs were read.";
  return `${parts.join(" · ")}. One page of jobs is read a second, of the queues that fail most first.`;
}

/** Paints groups into a list; it stays as it is while the keyboard is in it. */
function groupList(list, look) {
  let key = "";
  return (groups) => {
    const next = JSON.stringify(groups);
    if (next !== key && !list.contains(document.activeElement)) {
      refill(list, groups.map((group) => groupItem(group, look)));
      key = next;
    }
    ageTimes(list);
  };
}

function groupItem(group, look) {
  const [first] = group.queues;
  const tags = [h("span", { class: "tag strong" }, STATES[group.state]), group.reason ? h("span", { class: "tag" }, group.reason) : null];
  const more = group.all_queues - group.queues.length;
  return h(
    "li",
    { class: "group", "data-state": group.state },
    h("div", { class: "group-head" }, h("b", { class: "group-count" }, group.at_least ? `${number(group.count)}+` : number(group.count)), tags, look.withQueues ? null : buttons(group, first)),
    h("p", { class: "group-error" }, group.shape ? foreign(group.shape, "code") : h("span", { class: "dim" }, "no error text")),
    look.withQueues ? h("ul", { class: "places" }, group.queues.map((place) => placeItem(group, place)), more > 0 ? h("li", { class: "dim" }, `and ${number(more)} more queues`) : null) : null,
    h(
      "p",
      { class: "dim small" },
      ...(group.state === "dead" ? ["First died ", time(group.first_at), ", last "] : ["First seen by this dashboard ", time(group.first_at), ", last "]),
      time(group.last_at),
      " · for example ",
      h("a", { href: jobLink(first.key, first.example_id), "data-row": true }, h("code", {}, first.example_id)),
      first.example && first.example !== group.shape ? [": ", foreign(first.example)] : null,
    ),
  );
}

function placeItem(group, place) {
  const link = h("a", { href: queueLink(place.key, group.state === "dead" ? "dead" : "") }, foreign(place.name));
  return h("li", {}, link, " ", h("span", { class: "dim" }, number(place.count)), buttons(group, place));
}

/** What can be done about an error in one queue. */
function buttons(group, place) {
  if (!mayAct()) return null;
  const queue = { key: place.key, name: place.name, row: {} };
  const button = (text, act, kind = "") => h("button", { type: "button", class: `small ${kind}`, onclick: act }, text);
  if (group.state === "retrying") return h("span", { class: "buttons" }, button("Pause…", () => pause(queue)));
  if (!group.reason) return null;
  const shown = { ...place, reason: group.reason, shape: group.shape };
  return h("span", { class: "buttons" }, button("Replay…", () => replayGroup(queue, shown)), button("Cancel…", () => cancelGroup(queue, shown), "danger"));
}

const time = (at) => h("time", { datetime: new Date(at).toISOString(), title: dates(at), "data-at": at }, relative(at, now()));
