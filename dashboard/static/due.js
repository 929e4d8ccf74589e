// When the delayed jobs come due: a bar for each span of time.

import { h, refill, write } from "./dom.js";
import { compact, jobs, number, span } from "./format.js";

/** Gives {element, update}; `update` takes the answer of /api/due and how many jobs are delayed. */
export function dueBars() {
  const note = h("span", { class: "dim" });
  const caption = h("caption", { class: "aloud" }, "Delayed jobs by the time until they are due");
  const body = h("tbody");
  const head = h("thead", { class: "aloud" }, h("tr", {}, h("th", { scope: "col" }, "Due"), h("th", { scope: "col" }, "Share"), h("th", { scope: "col" }, "Jobs")));
  const table = h("table", { class: "bars" }, caption, head, body);
  const remark = h("p", { class: "dim small" });
  const element = h("figure", { class: "chart due" }, h("figcaption", {}, h("h2", {}, "When delayed jobs come due"), note), table, remark);
  const update = (told, delayed) => {
    const { edges, due, counted } = told;
    if (delayed === 0 || counted === 0) {
      refill(body, h("tr", {}, h("td", { class: "dim empty" }, delayed === 0 ? "Nothing is delayed." : "Counting…")));
      write(note, "");
      write(remark, "");
      return;
    }
    const names = edges.map((edge, at) => (at === 0 ? `within ${span(edge)}` : `${span(edges[at - 1])} – ${span(edge)}`));
    names.push(`after ${span(edges.at(-1))}`);
    const rows = merge(names, due.bars);
    if (due.beyond > 0) rows.push({ name: "later", count: due.beyond });
    const most = Math.max(1, ...rows.map((row) => row.count));
    refill(body, rows.map((row) => bar(row, most)));
    write(note, jobs(delayed));
    write(remark, due.needs ? `The next 1,000 are counted one by one. With the rule ${due.needs} all are counted.` : "");
  };
  return { element, update };
}

/** Empty bars at the far end say nothing. */
function merge(names, bars) {
  const last = bars.reduce((found, count, at) => (count > 0 ? at : found), 0);
  return names.slice(0, Math.max(last + 1, 4)).map((name, at) => ({ name, count: bars[at] }));
}

function bar({ name, count }, most) {
  const meter = h("div", { class: "bar-track" }, h("div", { class: count ? "bar" : "bar none" }));
  meter.firstChild.style.width = `${(count / most) * 100}%`;
  return h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "bar-cell" }, meter), h("td", { class: "n", title: number(count) }, compact(count)));
}
