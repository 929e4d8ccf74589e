// The actions. Each asks first: what will happen, and to how many jobs. Then it says what was done.

import { post, read } from "./api.js";
import { ask } from "./ask.js";
import { jobs, letters, number, parseDuration } from "./format.js";
import { say } from "./say.js";

let allowed = false;

export function allowActions(yes) {
  allowed = yes;
}

export const mayAct = () => allowed;

/** Does it and says what was done; gives whether it worked. */
async function run(queue, action) {
  try {
    const told = await post("act", { queue: queue.key }, action);
    say(`${queue.name}: ${told.done}.`);
    return true;
  } catch (error) {
    const detail = error.detail ? ` (${error.detail})` : "";
    say(`${queue.name}: ${error.message}${detail}. ${error.advice?.join(" ") ?? ""}`, "failed");
    return false;
  }
}

/** How it stands now, for a question that says how many. */
async function fresh(queue) {
  const counts = await read("counts", { queue: queue.key }).catch(() => null);
  return { ...queue.row, ...counts };
}

const duration = (text) => (parseDuration(text) === null ? "A duration is a number with ms, s, m, h or d: 30s, 5m, 2h." : null);

const spread = {
  name: "spread",
  label: "Spread over",
  value: "0s",
  hint: "They come due one after the other over this time. 0s: all at once. 10m gives what failed time to recover.",
  check: duration,
};

export async function pause(queue) {
  const row = await fresh(queue);
  const lines = [
    "Nothing is claimed from it until it is resumed. Pushes, acknowledgements and leases go on; workers go on waiting.",
    `${jobs(row.ready)} ready, ${number(row.leased)} in progress, ${number(row.waiting)} workers waiting.`,
  ];
  if (await ask({ title: `Pause ${queue.name}?`, lines, confirm: "Pause" })) await run(queue, { do: "pause" });
}

export async function resume(queue) {
  const row = await fresh(queue);
  const lines = [`Workers claim its jobs again: ${jobs(row.ready)} ready, ${number(row.waiting)} workers waiting.`];
  if (await ask({ title: `Resume ${queue.name}?`, lines, confirm: "Resume" })) await run(queue, { do: "resume" });
}

export async function purge(queue) {
  const row = await fresh(queue);
  const states = ["ready", "delayed", "leased", "dead"];
  const fields = states.map((state) => ({
    name: state,
    label: `${number(row[state])} ${state === "dead" ? "dead letters" : state}`,
    type: "checkbox",
    hint: state === "leased" ? "Their workers lose their leases." : undefined,
  }));
  fields[0].check = () => (states.some((state) => document.getElementById(`ask-${state}`).checked) ? null : "Choose what is to go.");
  const answer = await ask({
    title: `Purge ${queue.name}?`,
    lines: ["All jobs that are in these states now are removed for good. Nothing brings them back."],
    fields,
    confirm: "Purge for good",
    danger: true,
  });
  return answer !== null && run(queue, { do: "purge", states: states.filter((state) => answer[state]) });
}

export async function rescheduleAll(queue) {
  const row = await fresh(queue);
  const answer = await ask({
    title: `Reschedule all of ${queue.name}?`,
    lines: [
      `${jobs(row.ready + row.delayed)} that are ready or delayed now get one new due time. Those in progress stay as they are.`,
    ],
    fields: [{ name: "delay", label: "Due in", value: "0s", hint: "0s: now. Or 30s, 5m, 2h, 1d.", check: duration }],
    confirm: "Reschedule",
    danger: true,
  });
  return answer !== null && run(queue, { do: "reschedule", delay_ms: parseDuration(answer.delay) });
}

/** What the server calls the death of a job whose leases lapsed too often. */
const LAPSES_EXHAUSTED = "lapses-exhausted";

const REASONS = [
  ["", "any reason"],
  ["failed", "failed: a worker gave up"],
  ["retries-exhausted", "retries exhausted"],
  [LAPSES_EXHAUSTED, "lapses exhausted: workers crashed"],
  ["stale", "stale: nobody worked on the queue"],
];

export async function replayAll(queue) {
  const row = await fresh(queue);
  const answer = await ask({
    title: `Replay the dead letters of ${queue.name}?`,
    lines: [`${letters(row.dead)}, or those of one reason, become jobs again in their old order, with their failures counted from zero.`],
    fields: [{ name: "reason", label: "Those with the reason", options: REASONS }, spread],
    confirm: "Replay",
  });
  if (answer === null) return false;
  return run(queue, { do: "replay", reason: answer.reason || null, spread_ms: parseDuration(answer.spread) });
}

/** A group as it was shown. If its dead letters are not the same any more, nothing is done. */
const shown = ({ reason, shape, count, first_at, last_at }) => ({ reason, shape, count, first_at, last_at });

const named = (queue, group) => `The dead letters of ${queue.name} with the error “${group.shape || "no error text"}” (${group.reason})`;

export async function replayGroup(queue, group) {
  const answer = await ask({
    title: `Replay ${letters(group.count)}?`,
    lines: [`${named(queue, group)} become jobs again, with their failures counted from zero.`, "Only those that are shown now: if they have changed meanwhile, nothing is done."],
    fields: [spread],
    confirm: `Replay ${number(group.count)}`,
  });
  if (answer === null) return false;
  return run(queue, { do: "replay", group: shown(group), spread_ms: parseDuration(answer.spread) });
}

export async function cancelGroup(queue, group) {
  const answer = await ask({
    title: `Cancel ${letters(group.count)}?`,
    lines: [`${named(queue, group)} are removed for good.`, "Only those that are shown now: if they have changed meanwhile, nothing is done."],
    confirm: `Cancel ${number(group.count)} for good`,
    dismiss: "Keep them",
    danger: true,
  });
  return answer !== null && run(queue, { do: "cancel", group: shown(group) });
}

export async function replayIds(queue, ids) {
  const answer = await ask({
    title: `Replay ${letters(ids.length)}?`,
    lines: [`${names(ids)} of ${queue.name} ${ids.length === 1 ? "becomes a job" : "become jobs"} again, due now, with failures counted from zero.`],
    confirm: "Replay",
  });
  return answer !== null && run(queue, { do: "replay", ids });
}

export async function cancelIds(queue, ids, state) {
  const what = state === "dead" ? letters(ids.length) : jobs(ids.length);
  const lines = [`${names(ids)} of ${queue.name} ${ids.length === 1 ? "is" : "are"} removed for good.`];
  if (state === "leased") lines.push("A worker that has one loses its lease.");
  const answer = await ask({ title: `Cancel ${what}?`, lines, confirm: "Cancel for good", dismiss: ids.length === 1 ? "Keep it" : "Keep them", danger: true });
  return answer !== null && run(queue, { do: "cancel", ids, state });
}

export async function rescheduleIds(queue, ids) {
  const answer = await ask({
    title: `Reschedule ${jobs(ids.length)}?`,
    lines: [`${names(ids)} of ${queue.name} ${ids.length === 1 ? "gets" : "get"} another due time and ${ids.length === 1 ? "stays the same job" : "stay the same jobs"}.`],
    fields: [{ name: "delay", label: "Due in", value: "0s", hint: "0s: now. Or 30s, 5m, 2h, 1d.", check: duration }],
    confirm: "Reschedule",
  });
  return answer !== null && run(queue, { do: "reschedule", ids, delay_ms: parseDuration(answer.delay) });
}

/** One id, or how many there are. */
function names(ids) {
  return ids.length === 1 ? `The job ${ids[0]}` : `The ${number(ids.length)} chosen`;
}
