// Numbers, durations and times for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

const named = new Intl.DateTimeFormat("en", { timeZoneName: "short" });

export const number = (n) => whole.format(n);

/** Large numbers as "48.1k", for places where there is no room. */
export function compact(n) {
  const size = Math.abs(n);
  if (size < 1000) return size < 10 && n % 1 !== 0 ? one.format(n) : whole.format(n);
  if (size < 999_500) return `${one.format(n / 1000)}k`;
  if (size < 999_500_000) return `${one.format(n / 1e6)}M`;
  return `${one.format(n / 1e9)}G`;
}

export const rate = (n) => (n === 0 ? "0" : n < 10 ? one.format(n) : whole.format(n));

export const jobs = (n) => `${number(n)} ${n === 1 ? "job" : "jobs"}`;
export const letters = (n) => `${number(n)} dead ${n === 1 ? "letter" : "letters"}`;

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

/** Two units at the most: "2 d 4 h", "3 min 5 s", "1.4 s", "230 ms". */
export function duration(ms) {
  const size = Math.abs(ms);
  if (size < 1000) return `${Math.round(size)} ms`;
  if (size < 10_000) return `${one.format(Math.floor(size / 100) / 10)} s`;
  const first = UNITS.findIndex(([, length]) => size >= length);
  const [unit, length] = UNITS[first];
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((size % length) / next[1]) : 0;
  const head = `${Math.floor(size / length)} ${unit}`;
  return rest > 0 ? `${head} ${rest} ${next[0]}` : head;
}

/** Seconds in one unit: "40 s", "2.5 min", "4 h". */
export function span(seconds) {
  const [unit, length] = UNITS.find(([, ms]) => seconds * 1000 >= ms) ?? ["s", 1000];
  return seconds === 0 ? "0" : `${one.format((seconds * 1000) / length)} ${unit}`;
}

export function microseconds(us) {
  if (us < 1000) return `${number(us)} µs`;
  if (us < 10_000) return `${one.format(us / 1000)} ms`;
  return duration(us / 1000);
}

/** "in 3 min" or "12 s ago", seen from `now`. */
export function relative(at, now) {
  const ahead = at - now;
  if (Math.abs(ahead) < 1000) return "now";
  return ahead > 0 ? `in ${duration(ahead)}` : `${duration(ahead)} ago`;
}

export const timeOfDay = (ms) => clock.format(ms);
export const hourAndMinute = (ms) => short.format(ms);

/** The zone of the times that are shown, by its name: "UTC", "GMT+1". */
export const zone = (ms = Date.now()) => named.formatToParts(ms).find((part) => part.type === "timeZoneName").value;

/** A time with its zone. */
export const date = (ms) => `${day.format(ms)} ${zone(ms)}`;

/** The same time in UTC: "2026-11-30 22:54:01 UTC". */
export const utc = (ms) => `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** Both, for a note beside a time. */
export const dates = (ms) => (zone(ms) === "UTC" ? date(ms) : `${date(ms)} (${utc(ms)})`);

export function bytes(n) {
  if (n < 1024) return `${n} ${n === 1 ? "byte" : "bytes"}`;
  if (n < 1024 * 1024) return `${one.format(n / 1024)} KiB`;
  if (n < 1024 ** 3) return `${one.format(n / 1024 / 1024)} MiB`;
  return `${one.format(n / 1024 ** 3)} GiB`;
}

/** "30s", "5 m", "2h", "1d" or a number of ms as ms; null if it is none of these. */
export function parseDuration(text) {
  const found = /^\s*(\d+)\s*(ms|s|m|h|d)?\s*$/i.exec(text);
  if (!found) return null;
  const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  return Number(found[1]) * units[(found[2] ?? "ms").toLowerCase()];
}
