// Asks again each second while the page is in view, and knows queue time.

import { read } from "./api.js";

const EVERY = 1000;
let ahead = 0;

/** Queue time in ms, as the server told it last. */
export const now = () => Date.now() + ahead;

export function hear(told) {
  if (typeof told.now === "number") ahead = told.now - Date.now();
}

/**
 * Calls `show` with what `path` answers, each `every` ms, and `fail` with what stands in the way, until the function that
 * it gives is called. `values` may be a function, for what changes meanwhile.
 */
export function follow(path, values, show, fail, every = EVERY) {
  const stop = new AbortController();
  let timer = 0;
  const look = async () => {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const told = await read(path, typeof values === "function" ? values() : values, stop.signal);
      if (stop.signal.aborted) return;
      hear(told ?? {});
      show(told);
    } catch (error) {
      if (stop.signal.aborted || error.name === "AbortError") return;
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
