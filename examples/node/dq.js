// A worker for DQ: claims, keeps leases, tells what came of each job, stops cleanly. It can stay as it is.

import { Redis } from "ioredis";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";

const BLOCK_MS = 2000; // How long a claim waits at the server; a stop waits for it.
const UNKNOWN_KIND_MS = 30_000; // How long a job that this release does not know is left for another.
const LAST_WORDS_MS = 5000; // How long a worker that stops tries to give its jobs back.

/** It will never go well: the job becomes a dead letter. */
export class Permanent extends Error {}

/** No handler is for this kind of job; another release of the worker may have one. */
export class UnknownKind extends Error {}

/** It may go well later: after `delayMs`, or else after the queue's backoff. */
export class Temporary extends Error {
  constructor(message, { delayMs, ...options } = {}) {
    super(message, options);
    this.delayMs = delayMs;
  }
}

const log = (...words) => console.error(new Date().toISOString(), ...words);

/** After a restart or a failover not all come at once. */
export const backoffMs = (tries) => Math.min(5000, 100 * 2 ** tries) * (0.5 + Math.random() / 2);

/** A client by the environment, which closes a connection that says nothing for `patienceMs`. */
export function connect(patienceMs) {
  const { DQ_URL = "redis://127.0.0.1:6380", DQ_SENTINELS, DQ_MASTER } = process.env;
  const options = {
    // What was under way when a connection broke is not sent again: a second claim would take jobs twice. These two
    // belong together. Without the first it is sent again; without the second its promise is never settled.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: backoffMs,
    // The address leads to a primary that is none any more: it is looked up anew.
    reconnectOnError: (error) => /^(READONLY|MASTERDOWN)/.test(error.message),
    enableReadyCheck: false, // It asks for INFO, which a worker need not be allowed; LOADING is waited out below.
    socketTimeout: patienceMs,
    connectTimeout: 5000,
  };
  if (DQ_SENTINELS) {
    const address = (text) => ({ host: text.slice(0, text.lastIndexOf(":")), port: Number(text.split(":").pop()) });
    Object.assign(options, { sentinels: DQ_SENTINELS.split(",").map(address), name: DQ_MASTER });
  }
  // Commands fail as well, but do not say why there is no connection.
  return new Redis(DQ_URL, options).on("error", (error) => log("no connection:", error.message));
}

export class Worker {
  constructor(queue, handle, { hands = 4, leaseMs = 30_000 } = {}) {
    Object.assign(this, { queue, handle, hands, leaseMs });
    // What is sent behind a claim that waits, waits too: so it has a connection of its own, more patient than the wait.
    this.claims = connect(BLOCK_MS + 5000);
    this.redis = connect(5000);
    this.held = new Map(); // receipt -> the AbortController of its handler
    this.working = new Set(); // promises of hands that are not free
    this.stopping = new AbortController();
  }

  start() {
    this.claiming = this.claim();
    this.keeping = this.keepLeases();
  }

  /** Lets the hands finish for a while; what still runs then is given back, and no failure is counted. */
  async stop(graceMs) {
    this.stopping.abort();
    const grace = sleep(graceMs);
    await this.claiming;
    await Promise.race([grace, Promise.allSettled([...this.working])]);
    const rest = [...this.held.keys()];
    for (const handler of this.held.values()) handler.abort();
    this.held.clear();
    if (rest.length > 0) await this.tell(LAST_WORDS_MS, "DQ.RELEASE", "RECEIPTS", ...rest);
  }

  /** Claims as many jobs as there are free hands, never more. */
  async claim() {
    const { signal } = this.stopping;
    for (let tries = 0; !signal.aborted; ) {
      if (this.working.size >= this.hands) {
        await Promise.race(this.working);
        continue;
      }
      const options = ["COUNT", this.hands - this.working.size, "LEASE", this.leaseMs, "BLOCK", BLOCK_MS];
      let jobs = [];
      try {
        jobs = await this.claims.callBuffer("DQ.CLAIM", this.queue, ...options);
        tries = 0;
      } catch (error) {
        log("no jobs:", error.message);
        await sleep(backoffMs(++tries), null, { signal }).catch(() => {});
      }
      if (signal.aborted && jobs.length > 0) {
        await this.tell(LAST_WORDS_MS, "DQ.RELEASE", "RECEIPTS", ...jobs.map(([receipt]) => receipt.toString()));
        return;
      }
      for (const [receipt, payload, id] of jobs) {
        const hand = this.work(receipt.toString(), payload, id.toString()).finally(() => this.working.delete(hand));
        this.working.add(hand);
      }
    }
  }

  async work(receipt, payload, id) {
    const handler = new AbortController();
    this.held.set(receipt, handler);
    const end = await this.outcome(receipt, payload, id, handler.signal);
    // One that was broken off has nothing to tell: its job is somebody else's, or was given back.
    if (this.held.delete(receipt) && end) await this.tell(Infinity, ...end);
  }

  /** Runs the handler, and gives the command that tells what came of it. */
  async outcome(receipt, payload, id, signal) {
    try {
      await this.handle(payload, id, signal);
      return ["DQ.ACK", receipt];
    } catch (error) {
      if (signal.aborted) return null;
      if (error instanceof UnknownKind) {
        log(receipt, "is of the unknown kind", error.message);
        return ["DQ.RELEASE", "DELAY", UNKNOWN_KIND_MS, "RECEIPTS", receipt];
      }
      const why = ["ERROR", error?.message ?? String(error), "STACK", inspect(error)];
      if (error instanceof Permanent) return ["DQ.FAIL", receipt, ...why];
      // Any other error too, a bug say: the next release may have mended it, and retries are bounded.
      const delay = error?.delayMs === undefined ? [] : ["DELAY", error.delayMs];
      return ["DQ.RETRY", receipt, ...delay, ...why];
    }
  }

  /** Tells the end of a job until there is an answer: a receipt acts once, so telling it again does no harm. */
  async tell(patienceMs, verb, ...words) {
    const job = verb === "DQ.RELEASE" ? words.at(-1) : words[0];
    const start = Date.now();
    let stale = false;
    let tries = 0;
    for (; ; tries++) {
      try {
        const answer = await this.redis.call(verb, this.queue, ...words);
        stale = verb === "DQ.ACK" ? answer === 0 : verb === "DQ.RELEASE" && answer.every((ms) => ms === -1);
        if (!stale) log(verb, job, answer);
        break;
      } catch (error) {
        stale = error.message.startsWith("DQLOST");
        if (stale) break;
        log(verb, job, "is not told:", error.message);
        // A refusal that lasts for a lease is no failover. Without an answer nobody else has the job either.
        const patience = error.name === "ReplyError" ? this.leaseMs : patienceMs;
        if (Date.now() - start > patience) return log(verb, job, "is given up: the job comes back when its lease ends");
        await sleep(backoffMs(tries));
      }
    }
    if (stale && tries > 0) log(verb, job, "stale: an earlier try did it, or the lease ran out meanwhile");
    else if (stale) log(verb, job, "stale: its lease ran out, and it is somebody else's");
  }

  /** One command for all jobs at hand, three times a lease. */
  async keepLeases() {
    for (;;) {
      await sleep(this.leaseMs / 3, null, { ref: false });
      const receipts = [...this.held.keys()];
      if (receipts.length === 0) continue;
      try {
        const left = await this.redis.call("DQ.EXTEND", this.queue, this.leaseMs, ...receipts);
        const lost = receipts.filter((receipt, i) => left[i] === -1 && this.held.has(receipt)); // Else it has just ended.
        for (const receipt of lost) {
          log(receipt, "stale: its lease is lost while it runs");
          this.held.get(receipt).abort();
        }
      } catch (error) {
        log("leases are not extended:", error.message);
      }
    }
  }
}
