// Asks again each second while the page is in view. Knows queue time, and how old what is shown is.

import { read } from "./api.js";

const EVERY = 1000;
let ahead = 0;

/** Queue time in ms, as the server told it last. */
export const now = () => Date.now() + ahead;

let heardAt = null;
let heardAge = 0;

export function hear(told) {
  if (typeof told.now === "number") ahead = told.now - Date.now();
  if (typeof told.age_ms === "number") [heardAt, heardAge] = [performance.now(), told.age_ms];
}

/** How old the data is, in ms; null before the first. The clock of the browser has no part in it. */
export const age = () => (heardAt === null ? null : performance.now() - heardAt + heardAge);

/**
 * Calls `show` with what `path` answers, each `every` ms, and `fail` with what stands in the way, until the function that
 * it gives is called. `values` may be a function, for what changes meanwhile.
 */
export function follow(path, values, show, fail, every = EVERY) {
  const stop = new AbortController();
  let timer = 0;
  let last = 0;
  const look = async () => {
    clearTimeout(timer);
    if (document.hidden) return;
    // A look that was overtaken by a later one, such as after a letter more in a search, shows nothing any more.
    const turn = (last += 1);
    const isOver = () => stop.signal.aborted || turn !== last;
    try {
      const told = await read(path, typeof values === "function" ? values() : values, stop.signal);
      if (isOver()) return;
      hear(told ?? {});
      show(told);
    } catch (error) {
      if (isOver() || error.name === "AbortError") return;
      fail(error);
    }
    timer = setTimeout(look, every);
  };
  document.addEventListener("visibilitychange", look);
  look();
  const end = () => {
    stop.abort();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
  return { end, again: look };
}
