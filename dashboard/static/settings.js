// The settings of a queue, those of its own first.

import { read } from "./api.js";
import { h, refill } from "./dom.js";
import { troublePage } from "./trouble.js";

const SOURCE = { queue: "the queue", server: "the server", invalid: "the server: the value in the header is invalid" };

export function showSettings(body, queue) {
  let stopped = false;
  refill(body, h("p", { class: "dim" }, "Reading…"));
  read("settings", { queue: queue.key })
    .then((told) => !stopped && refill(body, page(told)))
    .catch((error) => !stopped && refill(body, troublePage(error)));
  return { end: () => (stopped = true) };
}

function page({ rows, needs }) {
  const own = rows.filter((row) => row.source !== "server");
  const sorted = [...own, ...rows.filter((row) => row.source === "server")];
  const table = h(
    "table",
    { class: "settings" },
    h("caption", { class: "aloud" }, "Settings of this queue"),
    h("thead", {}, h("tr", {}, ["Setting", "Value", "From"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, sorted.map((row) => h("tr", { class: row.source === "queue" ? "own" : null }, h("th", { scope: "row" }, h("code", {}, row.name)), h("td", {}, row.value), h("td", {}, SOURCE[row.source] ?? row.source)))),
  );
  return [
    h("p", { class: "dim" }, own.length ? `${own.length} override the server's; DQ.CONFIG changes them.` : "None overrides the server's; DQ.CONFIG sets one."),
    sorted.length ? table : null,
    needs.length ? h("p", { class: "dim" }, `The user of this page may not read ${rows.length ? "those of the server" : "them"}: ${needs.join(" or ")} allows it.`) : null,
  ];
}
