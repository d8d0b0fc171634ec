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
/** A heading of a table's columns, or of its rows. */
function heading(text, scope = "col") { const made = make("th", text); made.scope = scope; return made; }
/** What is between backticks is a name, or a command. */
const codes = (words) => words.split("`").map((piece, at) => at % 2 ? make("code", piece) : piece);

// colours: the palette is frame.css's

/** Which colour of it a part of resident memory has. */
const PART = { live: "used", mmapped: "mmapped", tcache: "cached", returnable: "releasable", thread_tops: "tops", main_top: "top", scraps: "free",
  unread: "damaged", stacks: "stacks", files: "files", shared: "shared", other: "other", kernel: "kernel" };
/** Which a type of blocks has: by its name, so that it is the same on each page; of few, each has its own. */
const TYPE_FILLS = 8;
function typeFill(name) {
  let sum = 0;
  for (const letter of name.replace(/ \?$/, "")) sum = (31 * sum + letter.codePointAt(0)) % 65521;
  return sum % TYPE_FILLS;
}
function typeFills(names) {
  const taken = new Set();
  return names.map((name) => {
    let fill = typeFill(name);
    while (taken.size < TYPE_FILLS && taken.has(fill)) fill = (fill + 1) % TYPE_FILLS;
    taken.add(fill);
    return `type${fill}`;
  });
}
function filled(element, fill) { element.style.background = `var(--${fill})`; element.dataset.fill = fill; return element; }
const swatch = (fill) => filled(make("span", "", "swatch"), fill);

// rows

/** Rows that follow each other and are the same but for numbers in their names (`key` says what they are), as one run. */
const ALIKE = 4;
const unnumbered = (name) => String(name).replace(/0x[0-9a-f]+|\d+/g, "#");
function runs(rows, key) {
  const found = [];
  for (const row of rows) {
    const its = key(row), last = found[found.length - 1];
    if (last?.key === its) last.rows.push(row); else found.push({ key: its, rows: [row] });
  }
  return found.flatMap((run) => run.rows.length < ALIKE ? run.rows.map((row) => [row]) : [run.rows]);
}
function alike(run, unfold) {
  const made = make("button", `and ${number(run.length - 1)} more with the same figures`, "alike");
  made.type = "button"; made.onclick = unfold;
  return made;
}
/** A table that may be wider than the window, to be scrolled by keys, too. */
function wide(table, name) {
  const box = make("div", undefined, "wide");
  box.setAttribute("role", "group"); box.setAttribute("aria-label", name);
  new ResizeObserver(() => { if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute("tabindex"); }).observe(box);
  box.append(table);
  return box;
}
/** What is jumped to does not come to lie below what sticks to the top. */
function keepClearOf(bar) {
  new ResizeObserver(() => {
    const sticks = getComputedStyle(bar).position === "sticky";
    document.documentElement.style.setProperty("--bar", `${sticks ? bar.offsetHeight : 0}px`);
  }).observe(bar);
}

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
