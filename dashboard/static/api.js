// Asks this server. An error is a `Trouble` with words for people.

export class Trouble extends Error {
  constructor(told) {
    super(told.what);
    this.kind = told.kind;
    this.advice = told.advice ?? [];
    this.detail = told.detail ?? "";
  }
}

const GONE = {
  kind: "page",
  what: "No answer from dq-dashboard itself",
  advice: ["It is asked again each second. Is the program still running?"],
};

/** How often, and after how many ms. */
const AGAIN = 5;
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

/** Where too many ask at once, it is asked again a few times. */
export async function read(path, values = {}, signal = undefined) {
  for (let left = AGAIN; ; left -= 1) {
    const response = await send(address(path, values), { signal });
    if (response.status !== 429 || left === 0) return answer(response);
    await new Promise((resolve) => setTimeout(resolve, REST));
  }
}

/** Asks for something that changes something; the header shows that this page asks and no other. */
export async function post(path, values, body) {
  const options = {
    method: "POST",
    headers: { "content-type": "application/json", "x-dq-dashboard": "1" },
    body: JSON.stringify(body),
  };
  return answer(await send(address(path, values), options));
}

async function send(where, options) {
  try {
    return await fetch(where, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble(GONE);
  }
}

async function answer(response) {
  if (response.status === 401) {
    onLogin();
    throw new Trouble({ kind: "login", what: "The password is needed" });
  }
  const told = await response.json().catch(() => ({}));
  if (told?.trouble && !response.ok) throw new Trouble(told.trouble);
  if (!response.ok) throw new Trouble({ kind: "page", what: `dq-dashboard answered ${response.status}`, advice: [] });
  return told;
}
