// Asks this server. An error is a `Trouble` with words for people.

export class Trouble extends Error {
  constructor(told) {
    super(told.what);
    this.kind = told.kind;
    this.advice = told.advice ?? [];
    this.detail = told.detail ?? "";
    this.status = told.status;
  }
}

const GONE = {
  kind: "page",
  what: "No reply from dq-dashboard itself",
  advice: ["It is asked again each second. Is the program still running?"],
};

/** How long a reply may take, in ms: of what is read, and of an action, which may go through very many dead letters. */
const READ = 5000;
const ACT = 120_000;

const SLOW_ACTION = {
  kind: "page",
  what: "No reply from dq-dashboard: the action may still be under way",
  advice: ["The log of dq-dashboard says what was done."],
};

/** How often what has to wait for its turn is asked for again, and after how many ms unless the reply says so. */
const AGAIN = 12;
const REST = 2000;

let onLogin = () => {};

/** What to do where the server asks for the password. */
export function whenLoginIsNeeded(todo) {
  onLogin = todo;
}

/** `{queue: key}` as the part of an address behind `?`; keys of queues are encoded already. */
function query(values) {
  const parts = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return parts.map(([name, value]) => `${name}=${name === "queue" ? value : encodeURIComponent(value)}`).join("&");
}

export function address(path, values = {}) {
  const text = query(values);
  return text ? `api/${path}?${text}` : `api/${path}`;
}

/** If too many ask at once, or what is asked for is still being read, it is asked again a few times. */
export async function read(path, values = {}, signal = undefined) {
  for (let left = AGAIN; ; left -= 1) {
    const response = await send(address(path, values), { signal: within(READ, signal) });
    if (response.status !== 429 || left === 0) return answer(response);
    await new Promise((resolve) => setTimeout(resolve, response.retryAfter === "0" ? 0 : REST));
  }
}

/** Asks for something that changes something; the header shows that this page asks and no other. */
export async function post(path, values, body) {
  const options = {
    method: "POST",
    headers: { "content-type": "application/json", "x-dq-dashboard": "1" },
    body: JSON.stringify(body),
    signal: within(ACT),
  };
  return answer(await send(address(path, values), options, SLOW_ACTION));
}

/** A signal that aborts after so many ms, or with another one. */
function within(ms, signal) {
  const timeout = AbortSignal.timeout(ms);
  return signal ? AbortSignal.any([timeout, signal]) : timeout;
}

async function send(where, options, gone = GONE) {
  try {
    const response = await fetch(where, { credentials: "same-origin", cache: "no-store", ...options });
    // A program that hangs in the middle of a reply hangs, too.
    const text = await response.text();
    return { status: response.status, ok: response.ok, retryAfter: response.headers.get("retry-after"), text };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble(error.name === "TimeoutError" ? gone : GONE);
  }
}

async function answer(response) {
  if (response.status === 401) {
    onLogin();
    throw new Trouble({ kind: "login", what: "The password is needed" });
  }
  const told = parse(response.text);
  if (told?.trouble && !response.ok) throw new Trouble(told.trouble);
  if (!response.ok) throw new Trouble({ kind: "page", what: `dq-dashboard replied with status ${response.status}`, status: response.status });
  return told;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
