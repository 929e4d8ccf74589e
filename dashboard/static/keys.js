// The keyboard shortcuts, and the dialog that lists them.

import { h, refill } from "./dom.js";
import { go, parts, queueLink } from "./router.js";
import { changeTheme } from "./theme.js";

const KEYS = [
  ["?", "This help"],
  ["g", "All queues"],
  ["/", "Search: a queue by its name, a job by its id"],
  ["j  k", "The next row, the one before"],
  ["Enter", "Open the row"],
  ["e", "Errors"],
  ["1 … 6", "The tabs of a queue"],
  ["u", "Up: from a job to its queue, from a queue to all"],
  ["n  p", "The next page of jobs, the first page"],
  ["t", "Dark, light, or as the system has it"],
  ["Esc", "Close a dialog, leave a field"],
];

const TABS = ["", "ready", "delayed", "leased", "dead", "settings"];

export function startKeys() {
  document.getElementById("help-open").addEventListener("click", help);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (press(event.key)) event.preventDefault();
  });
}

function press(key) {
  const [kind, queue, tab] = parts();
  if (key === "?") return help(), true;
  if (key === "g") return go("#/"), true;
  if (key === "e") return go("#/errors"), true;
  if (key === "t") return changeTheme(), true;
  if (key === "/") return focus("[data-search]");
  if (key === "j" || key === "k") return step(key === "j" ? 1 : -1);
  if (key === "n") return click("[data-next]:not(:disabled)");
  if (key === "p") return click("[data-first]:not(:disabled)");
  if (key === "u") return go(tab ? queueLink(queue) : "#/"), true;
  if (kind === "q" && /^[1-6]$/.test(key)) return go(queueLink(queue, TABS[key - 1])), true;
  return false;
}

function focus(selector) {
  const element = document.querySelector(selector);
  element?.focus();
  element?.select?.();
  return Boolean(element);
}

function click(selector) {
  const element = document.querySelector(selector);
  element?.click();
  return Boolean(element);
}

/** Goes to the link of the next row. */
function step(by) {
  const links = [...document.querySelectorAll("a[data-row]")];
  if (!links.length) return false;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1);
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
  return true;
}

function help() {
  const dialog = document.getElementById("help");
  const rows = KEYS.map(([keys, what]) => [
    h("dt", {}, keys.split("  ").map((key, at) => [at ? " " : "", h("kbd", {}, key)])),
    h("dd", {}, what),
  ]);
  refill(
    dialog,
    h("h2", { id: "help-title" }, "Keys"),
    h("dl", { class: "keys" }, rows),
    h("form", { method: "dialog", class: "dialog-buttons" }, h("button", { class: "primary" }, "Close")),
  );
  dialog.showModal();
}
