// The question before something is done.

import { h, refill } from "./dom.js";

/**
 * Asks, and gives the values of the fields, or null if the answer is no.
 * `fields` are {name, label, type, value, options, hint, check}; `check` says what is wrong with a value, or nothing.
 */
export function ask({ title, lines, fields = [], confirm, dismiss = "Cancel", danger = false }) {
  const dialog = document.getElementById("ask");
  const inputs = fields.map(field);
  const wrong = h("p", { class: "wrong", role: "alert" });
  const no = h("button", { type: "button", class: "quiet", "data-no": true }, dismiss);
  const yes = h("button", { type: "submit", class: danger ? "danger" : "primary", "data-yes": true }, confirm);
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "ask-title" }, title),
    lines.map((line) => h("p", {}, line)),
    inputs.map((input) => input.element),
    wrong,
    h("div", { class: "dialog-buttons" }, no, yes),
  );
  refill(dialog, form);
  return new Promise((resolve) => {
    let answer = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = Object.fromEntries(inputs.map((input) => [input.name, input.read()]));
      const problem = inputs.map((input) => input.check(values[input.name])).find(Boolean);
      if (problem) {
        wrong.textContent = problem;
        return;
      }
      answer = values;
      dialog.close();
    });
    no.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => resolve(answer), { once: true });
    dialog.showModal();
    (inputs[0]?.focus ?? no).focus();
  });
}

function field({ name, label, type = "text", value = "", options, hint, check = () => null }) {
  const id = `ask-${name}`;
  const hintId = hint ? `${id}-hint` : null;
  const common = { id, name, "aria-describedby": hintId };
  const input = options
    ? h("select", common, options.map(([key, text]) => h("option", { value: key }, text)))
    : h("input", { ...common, type, autocomplete: "off", spellcheck: "false" });
  if (type === "checkbox") input.checked = Boolean(value);
  else if (value !== "") input.value = value;
  const words = [h("label", { for: id }, label), hint ? h("small", { id: hintId }, hint) : null];
  const element = h("div", { class: type === "checkbox" ? "field check" : "field" }, type === "checkbox" ? [input, words] : [words[0], input, words[1]]);
  const read = () => (type === "checkbox" ? input.checked : input.value.trim());
  return { name, element, read, check, focus: input };
}
