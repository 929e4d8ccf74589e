// What stands in the way, and what to do about it.

import { h, refill, write } from "./dom.js";
import { duration } from "./format.js";

/** A line that is an answer of a command is set apart, to be copied. */
const isCode = (line) => /^(ACL|loadmodule) /.test(line);

/** The whole of a trouble, where there is nothing else to show. */
export function troublePage(trouble) {
  return h(
    "section",
    { class: "trouble", "data-trouble": trouble.kind },
    h("h1", {}, trouble.message ?? trouble.what),
    (trouble.advice ?? []).map((line) => (isCode(line) ? h("pre", { tabindex: "0" }, line) : h("p", {}, line))),
    trouble.detail ? h("p", { class: "dim" }, "The server says: ", h("code", {}, trouble.detail)) : null,
  );
}

/** Puts the content into the page; `shows` puts a trouble in its place, or the content back, and says which it is. */
export function pageOrTrouble(main, content) {
  let key = "";
  refill(main, content);
  return {
    shows: (trouble) => {
      const next = trouble ? `${trouble.kind} ${trouble.what} ${trouble.detail}` : "";
      if (next !== key) refill(main, trouble ? troublePage(trouble) : content);
      key = next;
      return !trouble;
    },
  };
}

let shown = "";

/** The line at the top while a trouble lasts; what is below it is of before. */
export function banner(trouble) {
  const place = document.getElementById("banner");
  const key = trouble ? `${trouble.kind} ${trouble.what}` : "";
  document.body.classList.toggle("stale", Boolean(trouble));
  if (!trouble) {
    if (shown) refill(place);
    shown = "";
    return;
  }
  if (key !== shown) {
    refill(place, h("div", { class: "banner", role: "alert" }, h("strong", {}, trouble.what)), h("p", { class: "banner since", "aria-hidden": "true" }));
    shown = key;
  }
  const since = trouble.for_ms === undefined ? "" : `for ${duration(Math.floor(trouble.for_ms / 1000) * 1000)}; `;
  write(place.querySelector(".since"), `${since}trying again. What is shown below is from before.`);
}
