// Starts the page: who looks, what is shown, and what stands in the way.

import { allowActions } from "./actions.js";
import { read, post, whenLoginIsNeeded } from "./api.js";
import { h, refill, write } from "./dom.js";
import { showJob } from "./job.js";
import { startKeys } from "./keys.js";
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
 * the page for itself, and there are no figures of before.
 */
function heard(answer, alone = false) {
  const { trouble, servers } = answer;
  banner(alone ? null : (trouble ?? null));
  const link = document.getElementById("link");
  link.dataset.state = trouble ? "down" : "up";
  write(link, trouble ? "no connection" : "live");
  if (servers.length) {
    const first = servers[0];
    const more = servers.length > 1 ? `, ${servers.length} primaries` : "";
    write(document.getElementById("foot"), `${first.program} · DQ ${first.module} · ${servers.map((server) => server.address).join(", ")}${more} · dq-dashboard ${session.version}${session.may_act ? "" : " · looks only"}`);
  }
}

function fail(error) {
  if (error.kind === "login") return;
  banner({ kind: error.kind, what: error.message });
  const link = document.getElementById("link");
  link.dataset.state = "down";
  write(link, "no connection");
}

function show() {
  end();
  end = () => {};
  const [kind, key, tab = "", id] = parts();
  const tools = { heard, fail };
  if (kind === "q" && tab === "job" && id) end = showJob(main, key, decode(id), tools);
  else if (kind === "q" && key) end = showQueue(main, key, tab, tools);
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
