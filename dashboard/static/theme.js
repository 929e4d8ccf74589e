// Dark, light, or as the system has it.

import { write } from "./dom.js";

const ORDER = ["auto", "light", "dark"];
const SIGN = { auto: "◐", light: "○", dark: "●" };
const NAME = { auto: "Auto", light: "Light", dark: "Dark" };

function kept() {
  try {
    const theme = localStorage.getItem("dq-theme");
    return ORDER.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

let theme = kept();

function apply() {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  write(button, `${SIGN[theme]} ${NAME[theme]}`);
  button.setAttribute("aria-label", `Theme: ${NAME[theme]}. Change it`);
}

export function changeTheme() {
  theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
  try {
    localStorage.setItem("dq-theme", theme);
  } catch {
    // A browser that keeps nothing: the theme holds until the page is left.
  }
  apply();
}

export function startTheme() {
  apply();
  document.getElementById("theme").addEventListener("click", changeTheme);
}
