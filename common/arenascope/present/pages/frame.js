"use strict";
// of every page: its data, its problems, and how figures are written

const $ = (id) => document.getElementById(id);
function say(problem) { const item = document.createElement("li"); item.textContent = problem; $("problems").append(item); }
window.onerror = (message) => { say("this page failed: " + message); };
const data = JSON.parse($("data").textContent);
data.problems.forEach(say);

/** What is not known stays unknown in a sum. */
const plus = (one, other) => one === null || other === null ? null : one + other;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
function size(value) {
  if (value === null) return "?";
  let unit = 0;
  for (; Math.abs(value) >= 1023.95 && unit < UNITS.length - 1; unit++) value /= 1024;
  // a tie goes to the even one, as in the commands' texts
  const tenths = 10 * value, tie = tenths - Math.floor(tenths) === 0.5, rounded = Math.round(tenths);
  return unit ? `${((tie && rounded % 2 ? rounded - 1 : rounded) / 10).toFixed(1)} ${UNITS[unit]}` : `${value} B`;
}
const exact = (value) => value === null ? "not known" : `${value.toLocaleString("en")} B`;
const number = (value) => value === null ? "?" : value.toLocaleString("en");
const ofAll = (value, whole) => value === null || !whole ? "" : `${(100 * value / whole).toFixed(1)} %`;

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}
function swatch(colour) { const box = make("span", "", "swatch"); box.style.background = `var(--${colour})`; return box; }

/** The line below the title, of a page that shows one image at one moment. */
function about(more) {
  const taken = data.taken === null ? "" : `, ${new Date(data.taken * 1000).toLocaleString("sv").replace("T", " ")}`;
  $("about").textContent = `glibc ${data.glibc ?? "of unknown release"}${taken}; ${more}`;
}

/** Beside the pointer: these elements, above it where there is no room below. */
function tell(x, y, ...elements) {
  const box = $("tip");
  box.replaceChildren(...elements);
  box.style.display = "block";
  box.style.left = Math.max(8, Math.min(x + 16, window.innerWidth - box.offsetWidth - 8)) + "px";
  box.style.top = (y + 20 + box.offsetHeight > window.innerHeight ? Math.max(8, y - box.offsetHeight - 14) : y + 20) + "px";
}
const untell = () => { $("tip").style.display = "none"; };
