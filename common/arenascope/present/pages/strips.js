"use strict";
// The strips of heaps: what is drawn, zoomed into, and summed up of `data`.

const PARTS = ["used", "cached", "bookkeeping", "damaged", "foreign", "free", "top"];   // from the bottom of a strip up
const OVER = ["resident", "releasable", "releasable_resident", "tops"];
const MEANS = {
  used: ["in use", "in the program's hands"], cached: ["cached", "in thread caches and fastbins"],
  free: ["free", "in bins"], top: ["top", "free, at an arena's end"],
  bookkeeping: ["bookkeeping", "malloc's own headers, fenceposts"],
  foreign: ["foreign", "somebody else's, by sbrk"], damaged: ["damaged", "could not be read as chunks"],
  resident: ["resident", "in memory: upper band; what is free is pale elsewhere"],
  releasable: ["releasable", "by malloc_trim(0): lower band"],
  releasable_resident: ["of it in memory", "by this much RSS would fall"],
  tops: ["tops", "what trim --tops releases besides: lower band"],
  splits: ["cuts", "places where blocks in use cut free memory up: thin band right beneath"],
};
const ALWAYS = ["used", "cached", "free", "top", "bookkeeping"];
const SPLITS = "splits";   // counts places, not bytes
const STACK = 36, BAND = 5, GAP = 2, CUTS = 4;
const TYPES = data.types.map((type, number) => {
  MEANS[`type${number}`] = [type.name, type.module ?? ""];
  return `type${number}`;
});
const LAYERS = [...PARTS, ...OVER, ...TYPES];
const shown = new Set([...LAYERS, SPLITS]);
let colours = {}, active = null;

// the data

function unpack(text, count) {
  const bytes = atob(text), cells = new Float64Array(count);
  let at = 0, filled = 0;
  const number = () => {
    let value = 0, scale = 1, byte;
    do { byte = bytes.charCodeAt(at++); value += (byte & 127) * scale; scale *= 128; } while (byte & 128);
    return value;
  };
  while (at < bytes.length) {
    const head = number(), times = head % 2 ? number() : 1;
    cells.fill(Math.floor(head / 2), filled, filled + times);
    filled += times;
  }
  if (filled !== count) throw new Error(`${filled} cells where ${count} were expected`);
  return cells;
}

function prepare(row) {
  const heap = { ...row, start: BigInt(row.address), count: Math.ceil(row.bytes / row.cell), from: 0, to: row.bytes, cells: {}, sums: {} };
  for (const layer of [...LAYERS, SPLITS]) {
    const text = row.layers[layer];
    heap.cells[layer] = text === null ? null : text === undefined ? new Float64Array(heap.count) : unpack(text, heap.count);
    heap.sums[layer] = text === null ? null : heap.cells[layer].reduce((sum, value) => sum + value, 0);
  }
  return heap;
}

const sumOf = (layer) => heaps.reduce((sum, heap) => plus(sum, heap.sums[layer]), 0);
const heaps = data.heaps.map(prepare);

// the types of which there is most have the colours that other pages give them
const largest = [...TYPES].sort((one, other) => sumOf(other) - sumOf(one));
const FILLS = Object.fromEntries(typeFills(largest.map((layer) => MEANS[layer][0])).map((fill, place) => [largest[place], fill]));
const fillOf = (layer) => FILLS[layer] ?? layer;

// words

const place = (heap, offset) => "0x" + (heap.start + BigInt(Math.round(offset))).toString(16);
function share(value, whole) {
  if (value === null || !whole) return "";
  const percent = 100 * value / whole;
  return percent > 0 && percent < 1 ? "<1 %" : Math.floor(percent) + " %";
}

// the table on top, whose rows switch their layers

function totals(title, layers, whole) {
  const table = make("table");
  table.append(make("caption", title));
  for (const layer of layers) {
    const row = table.insertRow(), head = heading(undefined, "row"), label = make("label"), box = make("input");
    box.type = "checkbox"; box.checked = true;
    box.onchange = () => { box.checked ? shown.add(layer) : shown.delete(layer); row.classList.toggle("off", !box.checked); drawAll(); };
    if (layer !== "releasable_resident") label.append(box);
    label.append(swatch(fillOf(layer)), MEANS[layer][0]); head.append(label); row.append(head);
    if (layer === "releasable_resident") { head.style.paddingLeft = "20px"; }
    figure(row, layer, sumOf(layer), layer === SPLITS ? 0 : whole);
    row.append(make("td", MEANS[layer][1], "means"));
  }
  $("totals").append(table);
  return table;
}
function figure(row, layer, value, whole) {
  const cell = make("td", layer === SPLITS ? number(value) : size(value));
  cell.title = layer === SPLITS ? number(value) : exact(value); cell.dataset.layer = layer; cell.dataset.bytes = value === null ? "null" : value;
  row.append(cell, make("td", share(value, whole)));
}
function drawTotals() {
  const whole = heaps.reduce((sum, heap) => sum + heap.bytes, 0);
  const parts = PARTS.filter((layer) => ALWAYS.includes(layer) || sumOf(layer) !== 0);
  const row = totals("what each byte is", parts, whole).insertRow();
  row.className = "sum"; row.append(heading("all heaps", "row"));
  figure(row, "all", whole, whole);
  totals("what else is true of it", sumOf(SPLITS) ? [...OVER, SPLITS] : OVER, whole);
  if (TYPES.length) totals("what blocks in use are", TYPES, whole).className = "types";
  for (const heap of heaps) {
    const known = PARTS.reduce((sum, layer) => plus(sum, heap.sums[layer]), 0);
    if (known !== null && known !== heap.bytes) say(`arena ${heap.arena}: the cells of ${heap.address} sum to ${known} of ${heap.bytes} bytes`);
  }
}

// the strips

/** The figures of the whole cells that [low, high) reaches into: {first, last, start, end, each layer's bytes}. */
function figures(heap, low, high) {
  const first = Math.max(0, Math.min(heap.count - 1, Math.floor(low / heap.cell)));
  const last = Math.max(first + 1, Math.min(heap.count, Math.ceil(high / heap.cell)));
  const found = { start: first * heap.cell, end: Math.min(heap.bytes, last * heap.cell) };
  for (const layer of [...LAYERS, SPLITS]) {
    const cells = heap.cells[layer];
    let sum = 0;
    if (cells) for (let at = first; at < last; at++) sum += cells[at];
    found[layer] = cells ? sum : null;
  }
  return found;
}

function draw(heap) {
  const canvas = heap.canvas, ratio = window.devicePixelRatio || 1, width = Math.round(canvas.clientWidth * ratio);
  if (!heap.visible || !width) return;
  const scale = (length) => Math.round(length * ratio), step = (heap.to - heap.from) / width;
  canvas.width = width; canvas.height = scale(STACK + CUTS + 3 * GAP + 2 * BAND);
  const pen = canvas.getContext("2d"), stack = scale(STACK), band = scale(BAND), between = stack + scale(GAP), cuts = scale(CUTS), upper = between + cuts + scale(GAP), lower = upper + band + scale(GAP);
  pen.fillStyle = colours.ground;
  pen.fillRect(0, 0, width, stack); pen.fillRect(0, between, width, cuts); pen.fillRect(0, upper, width, band); pen.fillRect(0, lower, width, band);
  const box = (layer, x, y, height, alpha) => { pen.globalAlpha = alpha; pen.fillStyle = colours[layer]; pen.fillRect(x, y, 1, height); };
  let low = heap.from, cell = -1, same = null;
  for (let x = 0; x < width; x++, low = heap.from + x * step) {
    // zoomed in, many columns show one cell
    const only = Math.floor(low / heap.cell) === Math.ceil((low + step) / heap.cell) - 1 ? Math.floor(low / heap.cell) : -1;
    const found = only >= 0 && only === cell ? same : figures(heap, low, low + step);
    cell = only; same = found;
    const length = found.end - found.start, here = found.resident === null ? 1 : found.resident / length;
    let y = stack;
    for (const layer of PARTS) {
      const bytes = layer === "used" && found.used === null ? held(found, length) : found[layer];
      if (!bytes) continue;
      // the little that is in use is what keeps the rest: never less than can be seen
      const least = layer === "used" || layer === "damaged" ? scale(2) : 0;
      const height = Math.max(least, Math.round(stack * bytes / length));
      const alpha = layer === "free" || layer === "top" ? 0.22 + 0.78 * here : 1;
      if (shown.has(layer)) box(layer, x, Math.max(0, y - height), Math.min(height, y), alpha);
      if (layer === "used" && shown.has(layer)) {
        // over it, each type by its share of what is in use
        let base = y;
        for (const type of TYPES) {
          if (!found[type]) continue;
          const part = Math.max(1, Math.round(height * found[type] / bytes));
          if (shown.has(type)) box(type, x, Math.max(0, base - part), Math.min(part, base), 1);
          base -= part;
        }
      }
      y -= height;
    }
    // one place is seen, a hundred are seen to be many
    if (shown.has(SPLITS) && found.splits) box(SPLITS, x, between, cuts, Math.min(1, 0.45 + 0.3 * Math.log10(found.splits)));
    if (shown.has("resident") && found.resident) box("resident", x, upper, band, 0.15 + 0.85 * here);
    if (shown.has("releasable") && found.releasable) box("releasable", x, lower, band, 0.3 + 0.7 * found.releasable / length);
    else if (shown.has("tops") && found.tops) box("tops", x, lower, band, 0.3 + 0.7 * found.tops / length);
  }
  pen.globalAlpha = 1;
  where(heap);
}
/** Where use and caches cannot be told apart: both. */
const held = (found, length) => length - PARTS.reduce((sum, layer) => sum + (found[layer] ?? 0), 0);

function where(heap) {
  const zoomed = heap.to - heap.from < heap.bytes;
  heap.place.textContent = `${place(heap, heap.from)} – ${place(heap, heap.to)}`;
  heap.place.classList.toggle("zoomed", zoomed);
  heap.length.textContent = zoomed ? ` ${size(Math.round(heap.to - heap.from))} of ${size(heap.bytes)}` : ` ${size(heap.bytes)}`;
}
const drawAll = () => heaps.forEach(draw);

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
function look(heap, from, to) {
  const span = clamp(to - from, Math.min(heap.bytes, 16 * heap.cell), heap.bytes);
  heap.from = clamp(from, 0, heap.bytes - span);
  heap.to = heap.from + span;
  draw(heap);
}
function zoom(heap, factor, at) {
  const middle = heap.from + at * (heap.to - heap.from), span = clamp((heap.to - heap.from) * factor, Math.min(heap.bytes, 16 * heap.cell), heap.bytes);
  look(heap, middle - at * span, middle + (1 - at) * span);
}
const move = (heap, part) => { const by = part * (heap.to - heap.from); look(heap, heap.from + by, heap.to + by); };

function tip(heap, at, x, y) {
  const canvas = heap.canvas, step = (heap.to - heap.from) / Math.max(1, canvas.clientWidth), low = heap.from + at * (heap.to - heap.from);
  const found = figures(heap, low, low + step), length = found.end - found.start;
  const title = make("div", `${place(heap, found.start)} – ${place(heap, found.end)}`, "where"), table = make("table");
  for (const layer of LAYERS) {
    if (!found[layer] && !(layer === "used" || layer === "resident")) continue;
    const row = table.insertRow(), head = heading(undefined, "row");
    head.append(swatch(fillOf(layer)), MEANS[layer][0]);
    row.append(head, make("td", exact(found[layer])), make("td", share(found[layer], length)));
  }
  if (found.splits) {
    const row = table.insertRow(), head = heading(undefined, "row");
    head.append(swatch(SPLITS), MEANS.splits[0]);
    row.append(head, make("td", number(found.splits)), make("td", ""));
  }
  tell(x, y, title, make("div", `arena ${heap.arena}, ${size(length)}`, "who"), table);
}

function choose(heap) {
  active?.canvas.classList.remove("on");
  active = heap;
  heap?.canvas.classList.add("on");
}

function listen(heap) {
  const canvas = heap.canvas;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return clamp((event.clientX - box.left) / box.width, 0, 0.999999); };
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    if (active !== heap && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(heap, event.deltaX / canvas.clientWidth);
    else zoom(heap, Math.pow(1.0016, clamp(event.deltaY, -400, 400)), at(event));
    tip(heap, at(event), event.clientX, event.clientY);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    choose(heap);
    drag = { x: event.clientX, from: heap.from, to: heap.to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const by = (drag.x - event.clientX) / canvas.clientWidth * (drag.to - drag.from);
      canvas.classList.add("drag");
      look(heap, drag.from + by, drag.to + by);
    }
    tip(heap, at(event), event.clientX, event.clientY);
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { drag = null; canvas.classList.remove("drag"); });
  canvas.addEventListener("pointerleave", untell);
  canvas.addEventListener("dblclick", (event) => zoom(heap, 0.25, at(event)));
  canvas.addEventListener("focus", () => choose(heap));
  canvas.addEventListener("blur", () => { if (active === heap) choose(null); untell(); });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const beside = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const acts = { "+": () => zoom(heap, 0.5, 0.5), "=": () => zoom(heap, 0.5, 0.5), "-": () => zoom(heap, 2, 0.5),
      "0": () => look(heap, 0, heap.bytes), Home: () => look(heap, 0, heap.bytes),
      ArrowLeft: () => move(heap, -0.1), ArrowRight: () => move(heap, 0.1), Escape: () => canvas.blur() };
    if (beside) heap.row[beside]?.querySelector("canvas").focus();
    else if (acts[event.key]) acts[event.key]();
    else return;
    event.preventDefault();
    if (!beside && event.key !== "Escape") { const box = canvas.getBoundingClientRect(); tip(heap, 0.5, box.left + box.width / 2, box.bottom - 20); }
  });
}

function build(heap) {
  const row = heap.row = make("section", "", "heap"), name = make("div"), title = make("div", heap.arena ? `arena ${heap.arena}` : "main arena", "name");
  heap.length = make("span", "", "who");
  title.append(heap.length);
  const most = 3, others = heap.threads.length - most;
  const who = make("div", heap.threads.length ? heap.threads.slice(0, most).join(", ") + (others > 0 ? ` and ${others} more` : "") : "no thread", "who");
  who.title = heap.threads.join(", ");
  heap.place = make("div", "", "where");
  name.append(title, who, heap.place);
  const canvas = heap.canvas = make("canvas"), figuresBox = make("div", "", "figures");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `arena ${heap.arena}, heap at ${heap.address}, ${size(heap.bytes)}: ${size(heap.sums.used)} in use, `
    + `${size(heap.sums.resident)} resident, ${size(heap.sums.releasable)} releasable`);
  for (const [label, layer] of [["in use", "used"], ["resident", "resident"], ["trim frees", "releasable_resident"]]) {
    const amount = make("b", layer === "used" ? share(heap.sums.used, heap.bytes) || "?" : size(heap.sums[layer]));
    amount.title = exact(heap.sums[layer]);
    figuresBox.append(make("span", label), amount);
  }
  if (heap.sums.splits) figuresBox.append(make("span", MEANS.splits[0]), make("b", number(heap.sums.splits)));
  row.append(name, canvas, figuresBox);
  listen(heap);
  where(heap);
  seer.observe(canvas);
}
// a canvas out of sight keeps no pixels: there may be thousands
const seer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const heap = heaps.find((each) => each.canvas === entry.target);
    heap.visible = entry.isIntersecting;
    if (heap.visible) draw(heap); else heap.canvas.width = heap.canvas.height = 1;
  }
}, { rootMargin: "300px" });

const ORDERS = {
  "arena, address": () => 0,
  "what a trim frees": (one, other) => (other.sums.releasable_resident ?? 0) - (one.sums.releasable_resident ?? 0),
  "resident": (one, other) => (other.sums.resident ?? 0) - (one.sums.resident ?? 0),
  "in use": (one, other) => (other.sums.used ?? 0) - (one.sums.used ?? 0),
  "size": (one, other) => other.bytes - one.bytes,
  [MEANS.splits[0]]: (one, other) => other.sums.splits - one.sums.splits,
};

function startStrips() {
  drawTotals();
  heaps.forEach(build);
  for (const name of Object.keys(ORDERS)) $("sort").append(make("option", name));
  $("sort").onchange = () => $("heaps").replaceChildren(...[...heaps].sort(ORDERS[$("sort").value]).map((heap) => heap.row));
  $("heaps").append(...heaps.map((heap) => heap.row));
  $("whole").onclick = () => heaps.forEach((heap) => look(heap, 0, heap.bytes));
  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of [...LAYERS, SPLITS, "ground"]) colours[name] = style.getPropertyValue(`--${fillOf(name)}`).trim();
    drawAll();
  };
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  window.addEventListener("resize", drawAll);
  // paper shows all of them
  window.addEventListener("beforeprint", () => { heaps.forEach((heap) => { heap.visible = true; }); paint(); });
}
