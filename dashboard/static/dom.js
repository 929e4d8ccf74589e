// Makes elements. Data only ever becomes text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`onclick`) and children; strings become text. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

function put(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Takes all children away and puts these in. */
export function refill(element, ...children) {
  element.replaceChildren();
  put(element, children);
}

/** Writes a text where it differs, so that a reader of the screen and a selection are not disturbed. */
export function write(element, text) {
  const string = String(text);
  if (element.textContent !== string) element.textContent = string;
}

/** Text that is not seen, but read aloud. */
export function aloud(text) {
  return h("span", { class: "aloud" }, text);
}

/** Foreign text: it keeps its own direction and never turns what is around it. */
export function foreign(text, tag = "bdi") {
  return h(tag, { class: "foreign", dir: "auto" }, text);
}
