// Short notes of what was done, seen and read aloud.

import { h } from "./dom.js";

const STAYS = 8000;

export function say(text, kind = "done") {
  const close = h("button", { type: "button", class: "quiet small", "aria-label": "Close this note" }, "×");
  const note = h("div", { class: `toast ${kind}` }, h("p", {}, text), close);
  const end = () => note.remove();
  close.addEventListener("click", end);
  document.getElementById("toasts").append(note);
  setTimeout(end, STAYS);
}
