// The password of the page.

import { post } from "./api.js";
import { h, refill } from "./dom.js";

export function showLogin(main, then) {
  if (main.querySelector("[data-login]")) return;
  const input = h("input", { id: "password", type: "password", autocomplete: "current-password", required: true });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const form = h(
    "form",
    { class: "login", "data-login": true },
    h("h1", {}, "Sign in"),
    h("p", { class: "dim" }, "This dashboard has a password."),
    h("div", { class: "field" }, h("label", { for: "password" }, "Password"), input),
    wrong,
    h("button", { class: "primary" }, "Sign in"),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    try {
      await post("login", {}, { password: input.value });
      then();
    } catch (error) {
      wrong.textContent = error.status === 403 ? "That is not the password." : error.message;
      input.select();
    }
  });
  refill(main, form);
  input.focus();
}
