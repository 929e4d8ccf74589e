// Starts the page: signs in, shows the part that the address names, and says how current the data is.

import { allowActions } from "./actions.js";
import { read, post, whenLoginIsNeeded } from "./api.js";
import { h, refill, write } from "./dom.js";
import { showErrors } from "./errors.js";
import { duration, zone } from "./format.js";
import { showJob } from "./job.js";
import { startKeys } from "./keys.js";
import { age } from "./live.js";
import { showLogin } from "./login.js";
import { showOverview } from "./overview.js";
import { showQueue } from "./queue.js";
import { parts } from "./router.js";
import { startTheme } from "./theme.js";
import { banner, troublePage } from "./trouble.js";

const main = document.getElementById("main");
let end = () => {};
let session = null;

/**
 * What each answer tells of the servers goes to the head and the foot of the page. Where the trouble is `alone`, it has
 * the page for itself, and nothing was known before.
 */
function heard(answer, alone = false) {
  const { trouble, servers } = answer;
  banner(alone ? null : (trouble ?? null));
  setLink(trouble ? "down" : "up");
  if (servers.length) {
    const first = servers[0];
    const more = servers.length > 1 ? `, ${servers.length} primaries` : "";
    write(document.getElementById("foot"), `${first.program} · DQ ${first.module} · ${servers.map((server) => server.address).join(", ")}${more} · dq-dashboard ${session.version}${session.may_act ? "" : " · read-only"} · times in ${zone()}`);
  }
}

function fail(error) {
  if (error.kind === "login") return;
  banner({ kind: error.kind, what: error.message });
  setLink("down");
}

/** How old the data may be while all is well: with very many queues the server is asked for them less often. */
const OLD = 15_000;

let state = "";

function setLink(next) {
  state = next;
  showAge();
}

/** Says how old the data is, also while no reply comes. */
function showAge() {
  const ms = age();
  if (!state || ms === null) return;
  const isOld = ms > OLD;
  document.getElementById("link").dataset.state = state === "up" && !isOld ? "up" : "down";
  write(document.getElementById("link-state"), state === "down" ? "no connection" : isOld ? "not live" : "live");
  write(document.getElementById("age"), `· ${ms < 1000 ? "now" : `${duration(Math.floor(ms / 1000) * 1000)} old`}`);
}

function show() {
  end();
  end = () => {};
  const [kind, key, tab = "", id] = parts();
  const tools = { heard, fail };
  if (kind === "q" && tab === "job" && id) end = showJob(main, key, decode(id), tools);
  else if (kind === "q" && key) end = showQueue(main, key, tab, tools);
  else if (kind === "errors") end = showErrors(main, tools);
  else if (!kind) end = showOverview(main, tools);
  else refill(main, troublePage({ kind: "page", what: "There is no such page", advice: ["The key g goes to all queues."] }));
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function begin() {
  try {
    session = await read("session");
  } catch (error) {
    refill(main, troublePage(error));
    setTimeout(begin, 1000);
    return;
  }
  allowActions(session.may_act);
  document.getElementById("target").textContent = session.target;
  document.getElementById("logout").hidden = !(session.password && session.known);
  if (session.known) show();
  else askForPassword();
}

function askForPassword() {
  end();
  end = () => {};
  banner(null);
  showLogin(main, begin);
}

startTheme();
setInterval(showAge, 1000);
startKeys();
whenLoginIsNeeded(askForPassword);
window.addEventListener("hashchange", () => {
  if (!session?.known) return;
  show();
  window.scrollTo(0, 0);
  main.focus({ preventScroll: true });
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("logout").addEventListener("click", async () => {
  await post("logout", {}, {}).catch(() => {});
  begin();
});
refill(main, h("p", { class: "dim" }, "Connecting…"));
begin();
