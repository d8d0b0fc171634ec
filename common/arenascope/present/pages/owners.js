"use strict";
const ROW = 26, LEAST = 0.0012, LEVELS = 40, ALL = -1;
const BY = [["holds", "bytes that it holds"], ["resident", "of these in memory"], ["returns", "pages that would return"]];
/** The first are seen on a phone without scrolling. */
const COLUMNS = [["holds", "holds", size], ["would return", "returns", size], ["share", "holds", (value) => ofAll(value, root.holds)], ["in memory", "resident", size], ["blocks", "blocks", number]];
let by = "holds", focus = ALL;

const nodes = data.nodes.map(([name, kind, above, blocks, holds, resident, returns], at) => ({ at, name, kind, above, blocks, holds, resident, returns, below: [] }));
const root = { at: ALL, name: "all of it", above: null, below: [], blocks: 0, holds: 0, resident: 0, returns: 0 };
for (const node of nodes) {
  const over = node.above === ALL ? root : nodes[node.above];
  over.below.push(node);
  if (over === root) for (const each of ["blocks", "holds", "resident", "returns"]) root[each] = plus(root[each], node[each]);
}
const find = (at) => at === ALL ? root : nodes[at];

// words

const words = (node) => `${node.name}\n${exact(node.holds)} in ${node.blocks.toLocaleString("en")} blocks (${ofAll(node.holds, root.holds)})\n`
  + `in memory ${exact(node.resident)}\nwould return ${exact(node.returns)}`;
function button(text, act) { const made = make("button", text); made.type = "button"; made.onclick = act; return made; }

// the picture

function colour(node) {
  if (["shared", "smaller"].includes(node.kind)) return "group";
  if (node.above === ALL) return node.kind === "unreached" ? "warn" : "used";
  return `type${typeFill(node.name)}`;
}

function box(node, left, width, row) {
  const found = button(width > 0.02 ? `${node.name}  ${size(node[by])}` : "", () => look(node.at));
  const wanted = $("find").value.toLowerCase();
  found.style.left = `${100 * left}%`; found.style.width = `${100 * width}%`; found.style.top = `${row * ROW}px`;
  if (!found.textContent) found.style.padding = 0;
  filled(found, colour(node)); found.title = words(node);
  if (!found.textContent) found.setAttribute("aria-label", words(node));
  found.dataset.node = node.at; found.dataset.bytes = node.holds;
  found.classList.toggle("dull", wanted !== "" && !node.name.toLowerCase().includes(wanted));
  return found;
}

function draw() {
  const boxes = [];
  let rows = 0;
  const spread = (node, left, width, row) => {
    const whole = node[by];
    if (!whole || row > LEVELS) return;
    const below = [...node.below].sort((one, other) => other[by] - one[by]);
    for (const each of below) {
      const part = width * each[by] / whole;
      if (part < LEAST) break;
      boxes.push(box(each, left, part, row));
      rows = Math.max(rows, row + 1);
      spread(each, left, part, row + 1);
      left += part;
    }
  };
  const top = find(focus);
  if (focus !== ALL) { boxes.push(box(top, 0, 1, 0)); rows = 1; }
  spread(top, 0, 1, rows);
  $("tree").replaceChildren(...boxes);
  $("tree").style.height = `${rows * ROW}px`;
  const way = [];
  for (let node = top; node; node = node.above === null ? null : find(node.above)) way.unshift(node);
  $("way").replaceChildren(...way.map((node) => button(node.name, () => look(node.at))));
  table(top);
}

function table(top) {
  const own = { name: top === root ? "" : `${top.name} itself`, at: null };
  for (const each of ["blocks", "holds"]) own[each] = top.below.reduce((sum, node) => sum - node[each], top[each]);
  for (const each of ["resident", "returns"]) own[each] = top.below.reduce((sum, node) => plus(sum, node[each] === null ? null : -node[each]), top[each]);
  const rows = [...(own.holds ? [own] : []), ...[...top.below].sort((one, other) => other[by] - one[by])];
  const key = (node) => JSON.stringify([unnumbered(node.name), ...COLUMNS.map(([, what]) => node[what])]);
  $("rows").replaceChildren(...runs(rows, key).flatMap((run) => {
    if (run.length === 1) return run.map(line);
    const first = line(run[0]);
    first.firstChild.append(alike(run, () => { first.replaceWith(...run.map(line)); }));
    return [first];
  }));
}
function line(node) {
  const row = make("tr"), first = heading(undefined, "row");
  first.append(node.at === null ? node.name : button(node.name, () => look(node.at)));
  row.append(first, ...COLUMNS.map(([, what, form]) => {
    const cell = make("td", form(node[what]));
    if (form === size) { cell.title = exact(node[what]); cell.dataset[what] = node[what] === null ? "null" : node[what]; }
    return cell;
  }));
  return row;
}

function look(at) { focus = at; draw(); }
const up = () => { const above = find(focus).above; if (above !== null) look(above); };

function start() {
  about("only the row above leads to the blocks of a row, but others lead to what is shared as well; blocks of one type are one row");
  $("sentence").append(...codes(data.sentence));
  const heads = make("tr");
  heads.append(...["what", ...COLUMNS.map(([name]) => name)].map((name) => heading(name)));
  $("heads").append(heads);
  document.querySelector("main").append(wide(document.querySelector("table"), "what lies below it"));
  keepClearOf(document.querySelector(".bar"));
  for (const [name, label] of BY) if (root[name] !== null) { const option = make("option", label); option.value = name; $("by").append(option); }
  $("by").onchange = () => { by = $("by").value; draw(); };
  $("find").oninput = draw;
  document.addEventListener("keydown", (event) => {
    if (event.target === $("find") || !["Escape", "Backspace"].includes(event.key)) return;
    event.preventDefault();
    up();
  });
  draw();
  document.documentElement.dataset.ready = nodes.length;
}
start();
