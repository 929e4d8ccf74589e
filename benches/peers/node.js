// BullMQ, and DQ through the client that BullMQ uses, at the orders of benches/peers.rs (script.rs tells them).
//
//   node node.js bullmq|dq|ping PORT BATCH
//
// BATCH 1 waits for each answer before it asks again; above that the peer's bulk way is used: addBulk and a worker that
// handles so many at once, or MPUSH, CLAIM COUNT and one ACK for all.
'use strict';

const path = require('node:path');
const readline = require('node:readline');
const { createRequire } = require('node:module');

// The libraries are installed elsewhere than this file is.
const installed = createRequire(path.join(process.env.DQ_PEERS_NODE, 'package.json'));
const Redis = installed('ioredis');

const [kind, port, batchText] = process.argv.slice(2);
const batch = Number(batchText);
const address = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const QUEUE = 'peers';
const SIZE = Number(process.env.DQ_PEERS_PAYLOAD);

const now = () => Number(process.hrtime.bigint());
const sleep = ms => new Promise(done => setTimeout(done, ms));

// Like benches/life: text that cannot be compressed, here of letters that JSON does not escape.
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const letter = () => LETTERS[Math.floor(Math.random() * LETTERS.length)];
const payloads = Array.from({ length: 500 }, () => Array.from({ length: SIZE }, letter).join(''));

function bullmq() {
  const { Queue, Worker } = installed('bullmq');
  // The default keeps every finished job; DQ does not.
  const queue = new Queue(QUEUE, { connection: address, defaultJobOptions: { removeOnComplete: true } });
  const worker = handle => new Worker(QUEUE, handle, { connection: address, concurrency: batch });
  return {
    ready: () => queue.waitUntilReady(),
    push: (texts, delay) =>
      texts.length === 1
        ? queue.add('job', texts[0], { delay })
        : queue.addBulk(texts.map(data => ({ name: 'job', data, opts: { delay } }))),
    async work(count) {
      let left = count;
      let all;
      const over = new Promise(done => (all = done));
      const hands = worker(async job => job.data.length);
      hands.on('completed', () => --left === 0 && all());
      await over;
      await hands.close();
    },
    async listen(handle) {
      await worker(async job => handle(job.data)).waitUntilReady();
    },
  };
}

function dq() {
  const db = new Redis(address);
  const claim = (client, count) => client.call('DQ.CLAIM', QUEUE, 'COUNT', count, 'BLOCK', 1500);
  return {
    ready: () => db.ping(),
    async push(texts, delay) {
      if (texts.length === 1) return db.call('DQ.PUSH', QUEUE, texts[0], 'DELAY', delay);
      await db.call('DQ.MPUSH', QUEUE, 'DELAY', delay, 'PAYLOADS', ...texts);
    },
    async work(count) {
      for (let left = count; left > 0; ) {
        const jobs = await claim(db, batch);
        if (jobs.length > 0) left -= await db.call('DQ.ACK', QUEUE, ...jobs.map(job => job[0]));
      }
    },
    async listen(handle) {
      (async () => {
        for (;;) {
          for (const [receipt, payload] of await claim(db, 1)) {
            handle(payload);
            await db.call('DQ.ACK', QUEUE, receipt);
          }
        }
      })();
    },
  };
}

// Commands of no work, in place of push, claim and finish.
function ping() {
  const db = new Redis(address);
  return {
    ready: () => db.ping(),
    push: () => db.ping(),
    async work(count) {
      for (let left = 2 * count; left > 0; left--) await db.ping();
    },
  };
}

const peer = { bullmq, dq, ping }[kind]();

async function push(count, delay) {
  for (let at = 0; at < count; at += batch) {
    const texts = Array.from({ length: Math.min(batch, count - at) }, (_, i) => payloads[(at + i) % payloads.length]);
    await peer.push(texts, delay);
  }
}

async function listen(count) {
  const late = [];
  await peer.listen(payload => {
    late.push(now() - Number(payload));
    if (late.length === count) console.log(`late ${late.join(' ')}`);
  });
  await sleep(500);
}

async function send(count, gap, delay) {
  for (let i = 0; i < count; i++) {
    const due = now() + delay * 1e6;
    await peer.push([String(due).padStart(SIZE)], delay);
    await sleep(gap);
  }
}

(async () => {
  await peer.ready();
  console.log('ok');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [order, ...numbers] = line.split(' ');
    await { push, work: peer.work, listen, send }[order](...numbers.map(Number));
    console.log('ok');
  }
  process.exit(0);
})().catch(error => {
  console.error(error);
  process.exit(1);
});
