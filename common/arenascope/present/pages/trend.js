"use strict";
const NS = "http://www.w3.org/2000/svg";
const label = (each) => each.by === "part" && data.labels[each.name] || each.name;
const HOW = { "steadily": "steadily", "at-once": "at once", "unevenly": "unevenly", "ended": "then held still", "held-still": "held still" };
const TITLES = { part: "Parts of resident memory", type: "Types of blocks in use", container: "Containers, by their elements", owner: "Owners of blocks in use", arena: "Arenas, by what they took", used: "Arenas, by what the program holds",
  bin: "Lists of free chunks", size: "Sizes of blocks in use" };
// elements are no bytes
const amount = (value, each) => each && each.by === "container" ? value.toLocaleString("en") : size(value);
const signed = (value, each) => (value > 0 ? "+" : "") + amount(value, each);
// as the commands write it
const when = (seconds) => new Date(seconds * 1000).toLocaleString("sv");
function element(name, attributes, parent, text) {
  const made = name.startsWith("svg:") ? document.createElementNS(NS, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

const fillOf = (each) => each.by === "part" ? PART[each.name] ?? "group" : "used";
const every = [...new Set(data.series.flatMap((each) => each.moments.map((moment) => moment[0])))].sort((one, other) => one - other);
const first = every[0], last = every[every.length - 1];
const parts = data.series.filter((each) => each.by === "part").sort((one, other) => other.after - one.after);
const rss = data.series.find((each) => each.by === "rss");
let from = first, to = last, single = null;

// the chart

/** Below the chart: without what is the same all over it. */
function moment(seconds) {
  const [day, time] = when(seconds).split(" ");
  return when(from).startsWith(day) && when(to).startsWith(day) ? time : to - from < 7 * 86400 ? `${day.slice(5)} ${time.slice(0, 5)}` : day;
}
const LETTER = 7, LEFT = 70, BOTTOM = 22, TOP = 8, RIGHT = 12;
function valueAt(series, time) {
  let value = 0;
  for (const [at, bytes] of series.moments) { if (at > time) break; value = bytes; }
  return value;
}
function layers() { return single ? [single] : parts.length ? parts : rss ? [rss] : []; }
function draw() {
  const plot = $("plot"), box = plot.getBoundingClientRect(), width = box.width || 800, height = box.height || 300;
  plot.replaceChildren();
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const shown = layers(), times = every.filter((time) => time >= from && time <= to);
  const stacks = times.map((time) => { let sum = 0; return shown.map((each) => sum += valueAt(each, time)); });
  const tallest = Math.max(1, ...stacks.map((stack) => stack[stack.length - 1] || 0));
  const limit = !single && data.limit && data.limit.bytes < 2 * tallest ? data.limit.bytes : null;
  const most = 1.05 * Math.max(tallest, limit || 0);
  const x = (time) => LEFT + (width - LEFT - RIGHT) * (to > from ? (time - from) / (to - from) : .5);
  const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - value / most);
  const step = 2 ** Math.ceil(Math.log2(most / 5));
  for (let value = 0; value <= most; value += step) {
    element("svg:line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }, plot);
    element("svg:text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, plot, amount(value, single));
  }
  const room = LETTER * (moment(from).length + 3), columns = Math.max(1, Math.min(6, Math.floor((width - LEFT - RIGHT) / room) - 1));
  for (let column = 0, before = ""; column <= columns; column++) {
    const time = from + (to - from) * column / columns, told = moment(time);
    // within a second there is one
    if (told !== before) element("svg:text", { class: "moment", x: x(time), y: height - 6, "text-anchor": column ? column === columns ? "end" : "middle" : "start" }, plot, told);
    before = told;
  }
  shown.forEach((each, index) => {
    const upper = times.map((time, at) => `${x(time)},${y(stacks[at][index])}`);
    const lower = times.map((time, at) => `${x(time)},${y(index ? stacks[at][index - 1] : 0)}`).reverse();
    if (times.length) element("svg:polygon", { points: [...upper, ...lower].join(" "), fill: `var(--${fillOf(each)})` }, plot);
  });
  if (limit) {
    element("svg:line", { class: "limit", x1: LEFT, x2: width - RIGHT, y1: y(limit), y2: y(limit) }, plot);
    element("svg:text", { x: width - RIGHT, y: y(limit) - 4, "text-anchor": "end" }, plot, "limit " + size(limit));
  }
  $("charted").textContent = single ? `${TITLES[single.by] || "RSS"}: ${label(single)}` : "Resident memory, by what it is";
  $("legend").replaceChildren();
  shown.forEach((each) => {
    if (shown.length > 1 && !each.moments.some(([, bytes]) => bytes)) return;
    element("span", {}, $("legend")).append(swatch(fillOf(each)), label(each));
  });
  plot.timeAt = (pixel) => from + (to - from) * Math.min(1, Math.max(0, (pixel - box.left - LEFT) / (width - LEFT - RIGHT)));
  plot.place = x;
}
function tip(event) {
  const time = $("plot").timeAt(event.clientX), at = every.reduce((best, each) => Math.abs(each - time) < Math.abs(best - time) ? each : best, first);
  const table = make("table");
  [...layers()].reverse().forEach((each) => { const row = element("tr", {}, table); row.append(heading(label(each), "row")); element("td", {}, row, amount(valueAt(each, at), each)); });
  tell(event.clientX, event.clientY, make("b", when(at)), table);
}
let pressed = null, brush = null;
const all = () => { from = first; to = last; draw(); };
$("plot").addEventListener("pointerdown", (event) => { pressed = $("plot").timeAt(event.clientX); $("plot").setPointerCapture(event.pointerId); });
$("plot").addEventListener("pointermove", (event) => {
  tip(event);
  if (pressed === null) return;
  const now = $("plot").timeAt(event.clientX), place = $("plot").place;
  brush = brush && brush.isConnected ? brush : element("svg:rect", { class: "brush", y: TOP, height: 1000 }, $("plot"));
  brush.setAttribute("x", place(Math.min(pressed, now)));
  brush.setAttribute("width", Math.abs(place(now) - place(pressed)));
});
$("plot").addEventListener("pointerup", (event) => {
  const now = $("plot").timeAt(event.clientX), begin = Math.min(pressed, now), end = Math.max(pressed, now);
  pressed = null;
  if (every.filter((time) => time >= begin && time <= end).length > 1) { from = begin; to = end; }
  draw();
});
$("plot").addEventListener("pointerleave", untell);
$("plot").addEventListener("dblclick", all);
$("plot").addEventListener("keydown", (event) => { if (event.key === "0" || event.key === "Escape") all(); });
$("parts").addEventListener("click", () => { single = null; mark(null); draw(); });
addEventListener("resize", draw);

// the tables

function mark(row) { document.querySelectorAll("tr.on").forEach((each) => each.classList.remove("on")); if (row) row.classList.add("on"); }
function spark(series, cell) {
  const values = series.moments, least = Math.min(...values.map((each) => each[1])), span = Math.max(...values.map((each) => each[1])) - least || 1;
  const svg = element("svg:svg", { viewBox: "0 0 120 20", preserveAspectRatio: "none" }, cell);
  const points = values.map(([time, value]) => `${(2 + 116 * (last > first ? (time - first) / (last - first) : 0)).toFixed(1)},${(18 - 16 * (value - least) / span).toFixed(1)}`);
  element("svg:path", { d: "M" + points.join("L") }, svg);
}
/** What held still is no answer to what grew: its rows are there when they are asked for, and on paper. */
function fold(table, still) {
  const count = still.rows.length, cell = count ? element("td", { colspan: COLUMNS.length + 1 }, element("tr", {}, element("tfoot", {}, table))) : null;
  if (!cell) return;
  const button = element("button", { type: "button", class: "alike" }, cell);
  const show = (shown) => {
    still.hidden = !shown;
    // no heading over nothing
    table.tHead.hidden = !shown && table.tBodies[0].rows.length === 0;
    button.textContent = shown ? "hide what held still" : `${count} held still`;
    button.setAttribute("aria-expanded", shown);
  };
  button.addEventListener("click", () => show(still.hidden));
  addEventListener("beforeprint", () => show(true));
  show(false);
}
// as the sentences above have it
const RATE = last - first < 7200 ? { words: "a minute", parts: 60 } : { words: "an hour", parts: 1 };
const COLUMNS = [["", label], ["before", (each) => each.before, amount], ["now", (each) => each.after, amount], ["change", (each) => each.change, signed],
  [RATE.words, (each) => each.until === null && Math.round(each.per_hour / RATE.parts) || 0, (value, each) => value ? signed(value, each) : ""], ["since", (each) => each.since || 0, (value) => value ? moment(value) : ""],
  ["how", (each) => HOW[each.how]]];
for (const [by, title] of Object.entries(TITLES)) {
  const rows = data.series.filter((each) => each.by === by);
  // containers come in order: what lies within one that grew has more elements, and holds less
  if (by !== "container") rows.sort((one, other) => Math.abs(other.change) - Math.abs(one.change));
  if (!rows.length) continue;
  element("h2", {}, $("tables"), title);
  const table = element("table"), head = element("tr", {}, element("thead", {}, table)), moved = element("tbody", {}, table), still = element("tbody", {}, table);
  $("tables").append(wide(table, title));
  const lines = rows.map((each) => {
    const held = each.how === "held-still", row = element("tr", {}, held ? still : moved);
    COLUMNS.forEach(([, value, form], index) => {
      if (index) element("td", {}, row, form ? form(value(each), each) : value(each));
      else element("button", { type: "button" }, element("th", { scope: "row" }, row), value(each));
    });
    spark(each, element("td", {}, row));
    row.addEventListener("click", () => { single = each; mark(row); draw(); $("charted").scrollIntoView({ block: "nearest" }); });
    return [each, row];
  });
  fold(table, still);
  COLUMNS.forEach(([name, value]) => {
    const cell = element("th", { scope: "col" }, head);
    element("button", { type: "button" }, cell, name || "name").addEventListener("click", () => {
      const up = cell.getAttribute("aria-sort") === "descending";
      head.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", up ? "ascending" : "descending");
      const compare = (one, other) => typeof one === "string" ? other.localeCompare(one) : other - one;
      lines.sort(([one], [other]) => (up ? -1 : 1) * compare(value(one), value(other))).forEach(([, row]) => row.parentNode.append(row));
    });
  });
  head.append(heading("over time"));
}

// the words

$("title").textContent = data.verdict;
document.title = data.verdict;
const who = (each) => `${each.name || "process"} ${each.pid === null ? "?" : each.pid}`;
$("about").textContent = `${who(data.process)}: ${data.process.snapshots} snapshots, ${when(data.process.first)} to ${when(data.process.last)}`
  + (data.earlier.length ? `; started again ${data.earlier.length === 1 ? "once" : data.earlier.length + " times"}, before: ${data.earlier.map(who).join(", ")}` : "");
draw();
document.documentElement.dataset.ready = data.series.length;
