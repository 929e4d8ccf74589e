// Pushes one webhook, and prints the id of its job: node producer.js URL BODY [DELAY [ID]]

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { backoffMs, connect } from "./dq.js";

// An ID stays taken for 5 minutes (dq.id-keep). Later than that, the same push could make a second job.
const PATIENCE_MS = 240_000;

// It may be taken a moment later: a failover goes on, there is no room, the module is being exchanged.
const PASSES = /^(READONLY|LOADING|MASTERDOWN|NOREPLICAS|MISCONF|DQFULL|OOM|ERR unknown command)/;

/** Sends again until there is an answer: with an ID of its own, a job that is pushed twice is one job. */
async function push(redis, queue, payload, id, delay) {
  const start = Date.now();
  for (let tries = 0; ; tries++) {
    try {
      return await redis.call("DQ.PUSH", queue, payload, "ID", id, "DELAY", delay);
    } catch (error) {
      const final = error.name === "ReplyError" && !PASSES.test(error.message);
      if (final || Date.now() - start > PATIENCE_MS) throw error;
      console.error("again in a moment:", error.message);
      await sleep(backoffMs(tries));
    }
  }
}

// The id is made before the first try: whoever calls this again after a crash passes an id of his own.
const [url, body, delay = "0", id = randomUUID()] = process.argv.slice(2);
if (body === undefined) {
  console.error("usage: node producer.js URL BODY [DELAY [ID]]");
  process.exit(2);
}
const redis = connect(5000);
const payload = JSON.stringify({ kind: "webhook", url, body });
try {
  console.log(await push(redis, process.env.DQ_QUEUE ?? "webhooks", payload, id, delay));
} catch (error) {
  console.error("not pushed:", error.message);
  process.exitCode = 1;
}
redis.disconnect();
