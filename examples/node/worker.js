// Delivers webhooks from a queue of DQ. README.md says how to start it; dq.js is the worker, this is its handler.

import { once } from "node:events";
import { Permanent, Temporary, UnknownKind, Worker } from "./dq.js";

const env = process.env;
const TIMEOUT_MS = 1000 * Number(env.DQ_HTTP_TIMEOUT_S ?? 10);
const MOST_RETRY_AFTER_MS = 3_600_000; // No receiver puts us off for longer. Keep it below dq.max-delay.

/** `payload` is a Buffer, as pushed by whomever: it is looked into here, where a fault costs only the job. */
async function handle(payload, id, signal) {
  let job;
  try {
    job = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
  } catch (cause) {
    throw new Permanent("the payload is not JSON", { cause });
  }
  const kind = field(job, "kind");
  if (kind !== "webhook") throw new UnknownKind(kind);
  await deliver(field(job, "url"), field(job, "body"), id, signal);
}

function field(job, name) {
  const value = job?.[name];
  if (typeof value !== "string") throw new Permanent(`the payload has no text '${name}'`);
  return value;
}

/** POSTs one webhook. It can come twice: the receiver knows it again by the job's id. */
async function deliver(url, body, id, signal) {
  if (!URL.canParse(url) || !/^https?:/i.test(url)) throw new Permanent(`not a web address: ${url}`);
  const response = await post(url, body, id, signal).catch((cause) => {
    throw new Temporary(`${url}: ${cause.cause?.message || cause.message}`, { cause });
  });
  const { status } = response;
  if (response.ok) return;
  if (status === 429 || status >= 500) {
    throw new Temporary(`${url} answered ${status}`, { delayMs: retryAfterMs(response.headers.get("Retry-After")) });
  }
  throw new Permanent(`${url} answered ${status}`);
}

async function post(url, body, id, signal) {
  // AbortSignal.any([signal, AbortSignal.timeout(ms)]) is shorter, but Node 20 may collect it before it fires, and the
  // request then waits for ever.
  const request = new AbortController();
  const timer = setTimeout(() => request.abort(new Error(`no answer in ${TIMEOUT_MS} ms`)), TIMEOUT_MS);
  const breakOff = () => request.abort(signal.reason);
  signal.addEventListener("abort", breakOff);
  try {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": id };
    // fetch would follow a redirect with a GET, which delivers nothing.
    const response = await fetch(url, { method: "POST", body, headers, redirect: "manual", signal: request.signal });
    await response.body?.cancel(); // Else its connection is not free for the next.
    return response;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", breakOff);
  }
}

/** Seconds, or a date; undefined where there is neither. */
function retryAfterMs(text) {
  const ms = /^\d+$/.test(text ?? "") ? 1000 * Number(text) : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.round(Math.min(Math.max(ms, 0), MOST_RETRY_AFTER_MS));
}

const settings = { hands: Number(env.DQ_HANDS ?? 4), leaseMs: Number(env.DQ_LEASE_MS ?? 30_000) };
const worker = new Worker(env.DQ_QUEUE ?? "webhooks", handle, settings);
worker.start();
await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
console.log("stopping");
await worker.stop(1000 * Number(env.DQ_GRACE_S ?? 20));
process.exit(0);
