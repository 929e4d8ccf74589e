// The plots over time of one queue, or of all, with the choice of how far back.

import { h, refill } from "./dom.js";
import { compact, duration, rate, span } from "./format.js";
import { follow } from "./live.js";
import { dueBars } from "./due.js";
import { plot } from "./plot.js";

const RANGES = [
  ["10 min", { fine: 1, seconds: 600 }],
  ["1 h", { fine: 0, seconds: 3600 }],
  ["24 h", { fine: 0, seconds: 86_400 }],
];

/** Gives {plots, due, end, delayed}; `delayed` is told how many jobs are delayed. */
export function charts(queue, fail) {
  const plots = [
    plot({
      title: "Throughput",
      note: "jobs a second",
      show: rate,
      series: [
        { name: "in", column: "pushed", kind: "b" },
        { name: "done", column: "acked", kind: "a", area: true },
        { name: "failing", column: "bad", kind: "c" },
      ],
    }),
    plot({
      title: "Lateness",
      note: "of the oldest ready job",
      show: (value) => (value === 0 ? "0" : duration(value * 1000)),
      axis: span,
      seconds: true,
      series: [{ name: "late by", column: "late", kind: "a", area: true }],
    }),
    plot({
      title: "Backlog",
      note: "jobs",
      show: compact,
      series: [
        { name: "ready", column: "ready", kind: "a", area: true },
        { name: "leased", column: "leased", kind: "b" },
        { name: "dead", column: "dead", kind: "c" },
      ],
    }),
  ];
  const due = dueBars();
  let range = RANGES[0][1];
  let delayed = 0;
  const history = follow(
    "history",
    () => ({ queue, ...range }),
    (columns) => plots.forEach((one) => one.update(columns)),
    fail,
    2000,
  );
  let told = null;
  const bars = follow("due", { queue }, (answer) => due.update((told = answer), delayed), fail, 3000);
  const choice = rangeChoice((chosen) => {
    range = chosen;
    history.again();
  });
  return {
    plots: [choice, plots.map((one) => one.element)],
    due: due.element,
    delayed: (count) => {
      const changed = (count === 0) !== (delayed === 0);
      delayed = count;
      if (changed && told) due.update(told, delayed);
    },
    end: () => {
      history.end();
      bars.end();
    },
  };
}

function rangeChoice(choose) {
  const box = h("div", { class: "segments", role: "group", "aria-label": "How far back" });
  const show = (chosen) =>
    refill(
      box,
      RANGES.map(([name, range]) =>
        h("button", { type: "button", class: "segment", "aria-pressed": String(range === chosen), onclick: () => pick(range) }, name),
      ),
    );
  const pick = (range) => {
    const at = RANGES.findIndex(([, one]) => one === range);
    show(range);
    box.children[at].focus();
    choose(range);
  };
  show(RANGES[0][1]);
  return box;
}
