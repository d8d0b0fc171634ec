@INCLUDE strips.js@

// What the commands' documents say. A figure is shown by its place in them, and by nothing else.

const documents = data.documents, report = documents.report;

const at = (path) => path.split("/").reduce((value, key) => value === null || value === undefined ? value : value[key], documents);
const text = (value) => value === null ? "?" : String(value);
function said(path, form = size, tag = "span") {
  const value = at(path) ?? null, made = make(tag, form(value));
  made.dataset.key = path; made.dataset.value = JSON.stringify(value);
  if (form === size) made.title = exact(value);
  return made;
}
function put(tag, name, ...pieces) { const made = make(tag, undefined, name); made.append(...pieces.filter((each) => each !== null && each !== undefined)); return made; }
const says = (...pieces) => put("p", "", ...pieces);
const many = (value, what) => `${number(value)} ${what}${value === 1 ? "" : "s"}`;

function section(id, title, ...lead) {
  const box = part(id, title, ...lead);
  $("main").append(box);
  return box;
}
/** Short words for the bar: it is one line on a desk. */
const SHORT = { findings: "not needed", split: "where", why: "why", todo: "what to do", blocks: "blocks", whose: "whose", types: "types", owners: "owners", containers: "containers", leaks: "lost", pins: "in the way",
  trim: "trim", arenas: "arenas", params: "limits", others: "outside malloc", map: "map", read: "how read", words: "words" };
function part(id, title, ...lead) {
  const box = put("section", "", make("h2", title), ...lead), link = make("a", SHORT[id]);
  box.id = id; link.href = "#" + id; link.title = title;
  $("nav").append(link);
  return box;
}
const fold = (summary, ...pieces) => put("details", "", make("summary", summary), ...pieces);
/** A section of what a command said; null where it said why it cannot. */
function told(id, title, ...lead) {
  const failed = documents[id].failed, box = section(id, title, ...(failed === undefined ? lead : [put("p", "hint", "not told: " + failed)]));
  return failed === undefined ? box : null;
}

// words: those of the glossary, explained at the pointer, and below all of it those that stand on this page

const named = new Map(data.words.flatMap(([names, meaning]) => names.map((name) => [name, { names, meaning }])));
const PLAIN = new Set(["free", "used", "list", "state", "system", "core", "small", "large", "fast", "main", "place", "places", "piece", "pieces", "block", "blocks", "page", "pages", "in use", "return", "threads", "params", "released", "in memory", "by", "bytes", "size", "time", "before", "after", "now", "since", "from", "to", "of", "how", "what", "who", "whose", "where", "count", "name", "user", "type", "value", "values", "holds", "held", "room", "largest", "share", "part", "kind", "certain"]);
const word = (names) => new RegExp(`(?<![\\w-])(?:${names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})(?![\\w-])`, "g");
const ANY = word([...named.keys()].filter((name) => !PLAIN.has(name)).sort((one, other) => other.length - one.length));
/** What is marked is a name or a command; the rest, with each word of malloc's explained once. */
function glossed(words) {
  const met = new Set();
  return words.split("`").flatMap((piece, at) => at % 2 ? [make("code", piece)] : explained(piece, met));
}
const coded = (words) => put("span", "", ...codes(words ?? ""));
const sentence = (words) => coded(words[0].toUpperCase() + words.slice(1) + ".");
function explained(words, met) {
  const pieces = [];
  let from = 0;
  for (const hit of words.matchAll(ANY)) {
    const { names, meaning } = named.get(hit[0]);
    if (met.has(names)) continue;
    met.add(names);
    const made = make("abbr", hit[0]);
    made.title = meaning;
    pieces.push(words.slice(from, hit.index), made);
    from = hit.index + hit[0].length;
  }
  return [...pieces, words.slice(from)];
}
function glossary() {
  const shown = $("main").innerText, list = put("dl"), box = put("details", "", make("summary", "each word of malloc's that stands on this page"), list);
  for (const [names, meaning] of data.words) if (word(names).test(shown)) list.append(make("dt", names[0]), put("dd", "", ...codes(meaning)));
  section("words", "What the words mean").append(box);
}
// what is folded would be missed on paper
const folded = () => [...document.querySelectorAll("details:not([open])")];
let opened = [];
window.addEventListener("beforeprint", () => { opened = folded(); opened.forEach((each) => { each.open = true; }); });
window.addEventListener("afterprint", () => { opened.forEach((each) => { each.open = false; }); });

@INCLUDE report_tables.js@

// commands to copy

async function copied(words) {
  const box = make("textarea", words);
  box.style.position = "fixed"; box.style.opacity = "0";
  document.body.append(box); box.select();
  try {
    // from a file, too, where a browser has no other clipboard
    if (document.execCommand("copy")) return true;
    await navigator.clipboard.writeText(words);
    return true;
  } catch { return false; } finally { box.remove(); }
}
/** `only`: without the words around the command. */
function way([words, command], only = false) {
  if (command === null) return put("div", "way", put("span", "", "→ ", words));
  const button = make("button", "copy", "copy"), from = words.indexOf(command), code = make("code", command);
  button.type = "button"; button.setAttribute("aria-label", "copy " + command);
  button.onclick = async () => { button.textContent = await copied(command) ? "copied" : "failed"; setTimeout(() => { button.textContent = "copy"; }, 1500); };
  const around = only ? [code] : from < 0 ? [code, " ", words] : [words.slice(0, from), code, words.slice(from + command.length)];
  return put("div", "way", button, put("span", "", ...around));
}

// the sections

const MEASURES = { resident: "RSS", anonymous: "anonymous memory", "address-space": "anonymous address space" };
/** Who holds most of a row's blocks, and of how many of them that is so where it is not of all. */
const holder = (base, names) => ["held by", (row, index) => {
  const { held_by: held, blocks } = row;
  return put("span", "", coded(names[index]), ...(held && held.blocks < blocks ? [" (", said(`${base}/${index}/held_by/blocks`, number), " of ", said(`${base}/${index}/blocks`, number), ")"] : []));
}, null, { ...LEFT, by: (_, index) => names[index] }];
const called = new Map(Object.entries(data.called)), short = (type) => called.get(type) ?? type;
function typeCell(row) {
  const cell = put("span", "", short(row.type) + (row.owner && row.kind !== "holder" ? ` of ${row.owner}` : ""));
  if (row.certain === false) { cell.className = "guess"; cell.append(" ?"); }
  cell.title = [called.has(row.type) ? row.type : "", row.how ? (row.certain === false ? "a guess: " : "") + row.how : ""].filter(Boolean).join("\n");
  return cell;
}
const LEFT = { name: "left" }, MONO = { name: "fixed mono" };

/** What the program need not have: the largest in words, all of it as a table. */
function findings() {
  const rows = report.findings;
  if (!rows?.length) return;
  const box = section("findings", "What it need not have"), list = put("ol"), all = fold(`${many(rows.length, "row")}, with figures`);
  data.told.forEach((index) => {
    const { text, advice, until } = rows[index];
    list.append(put("li", "", make("strong", text), put("div", "", ...glossed(advice.text)), put("div", "evidence", ...glossed(until.text))));
  });
  if (data.told.length) box.append(list);
  box.append(all);
  const where = (row) => (row.path ?? short(row.type) ?? "") + (row.certain ? "" : " ?");
  table(all, "report/findings", [["what", where, null, { ...LEFT, by: where, hint: "the path to it, as the program writes it, or the type; ? is a guess" }], ["why", "reason", text, { ...LEFT, hint: "docs/types.md says what each is" }],
    ["type", (row) => row.path === null ? "" : short(row.type) ?? "", null, LEFT], ["number", "blocks", number, { hint: "containers or blocks at fault" }], ["bytes", "bytes", size, { hint: "rows may overlap" }], ["in memory", "resident_bytes", size], ["one of them", "sample", text, MONO]], { whole: true });
}

function split() {
  const parts = report.parts, whole = parts.reduce((sum, part) => sum + part.bytes, 0), measure = MEASURES[report.measure] ?? "memory";
  const box = section("split", "Where it went"), bar = put("div", "split");
  if (!parts.length) { box.append(put("p", "hint", "which pages are in memory is not known")); return; }
  bar.setAttribute("role", "img"); bar.setAttribute("aria-label", parts.map((part) => `${part.label}: ${size(part.bytes)}`).join("; "));
  for (const part of parts) {
    if (!part.bytes) continue;
    const piece = filled(make("div", part.bytes > 0.07 * whole ? size(part.bytes) : "", "slice"), PART[part.part]);
    piece.style.flex = `${part.bytes} 0 0`; piece.title = `${part.label}: ${exact(part.bytes)} (${ofAll(part.bytes, whole)})`;
    bar.append(piece);
  }
  const foot = put("tr", "", heading(measure, "row"), report.rss_bytes === null ? make("td", size(whole)) : said("report/rss_bytes", size, "td"), put("td"));
  // slices too small for a word are named below, by their colours
  const legend = put("ul", "key");
  parts.forEach((part, index) => { if (part.bytes) legend.append(put("li", "", swatch(PART[part.part]), ...glossed(part.label), " ", said(`report/parts/${index}/bytes`, size, "b"))); });
  const shares = fold("as a table, with shares");
  box.append(bar, legend, shares);
  table(shares, "report/parts", [
    ["part", (part) => put("span", "", swatch(PART[part.part]), part.label), null, { ...LEFT, by: (part) => part.label }],
    ["resident", "bytes", size], ["share", (part) => ofAll(part.bytes, whole), null, { by: (part) => part.bytes }],
  ], { foot });
  if (report.swap_bytes) box.append(says("In swap besides: ", said("report/swap_bytes"), "."));
}

/** Of a list, what is read at once; the rest is there when it is asked for. */
const TOLD = 3;
function listed(tag, items) {
  const list = put(tag, "", ...items.slice(0, TOLD)), rest = put(tag, "", ...items.slice(TOLD));
  if (tag === "ol") rest.start = TOLD + 1;
  return items.length > TOLD ? [list, fold(`${items.length - TOLD} more`, rest)] : [list];
}
function conclusions() {
  const causes = report.causes.map((each) => put("li", "", ...glossed(each.cause), put("div", "evidence", ...glossed(each.evidence))));
  const kept = report.held ? "in use, or outside malloc: no owner alone leads to much of it" : "what is in use stays until the program frees it; who holds it is not told here";
  const why = part("why", "Why it stays", ...(causes.length ? listed("ul", causes) : [put("p", "hint", kept)]));
  const steps = report.advice.map((each, index) => {
    const effect = each.effect_bytes ? put("span", "effect", ": " + data.effects[index], said(`report/advice/${index}/effect_bytes`)) : null;
    const ways = data.ways[index], first = ways.findIndex(([, command]) => command !== null), more = ways.filter(([words, command], at) => at !== first || words !== command);
    const costs = each.cost || each.not_when, summary = ["the evidence", more.length ? "how" : "", costs ? "what it costs, and when not" : ""].filter(Boolean).join(", ");
    const details = fold(summary, put("div", "", ...glossed(each.evidence)), ...more.map((each) => way(each)), each.cost && put("div", "", ...glossed(each.cost)), each.not_when && put("div", "", ...glossed(each.not_when)));
    return put("li", "", ...glossed(each.action), effect, first < 0 ? null : way(ways[first], true), details);
  });
  const todo = part("todo", "What to do", ...(steps.length ? listed("ol", steps) : [put("p", "hint", "nothing")]));
  if (report.advice.filter((each) => each.effect_bytes).length > 1) todo.append(put("p", "hint", sentence(data.no_sum)));
  if (data.shared_pages.length) {
    const turns = fold("freed one after the other");
    table(turns, "report/held/in_turn", [["freed, one after the other", (_, index) => coded(data.turns[index]), null, LEFT], ["holds", "retained_bytes", size], ["by itself brings", "alone_bytes", size], ["in all by then", "returns_bytes", size]], { whole: true });
    todo.append(turns);
  }
  $("main").append(put("div", "both", why, todo), put("div", "both", blocks(), whose()));
}

/** The first rows of what a section below has whole. */
const HEAD = 4;
function brief(id, title, of, columns) {
  const failed = documents[of].failed, box = part(id, title, ...(failed === undefined ? [] : [put("p", "hint", "not told: " + failed)]));
  if (failed !== undefined) return box;
  const rows = documents[of][of].length, link = make("a", rows ? `all ${number(rows)}, with more figures` : "none");
  table(box, `${of}/${of}`, columns, { first: HEAD });
  link.href = "#" + of;
  box.append(link);
  return box;
}
const shareOf = (bytes, whole) => (row) => ofAll(row[bytes], whole);
const blocks = () => brief("blocks", "What the blocks are", "types", [["type", typeCell, null, { ...LEFT, by: (row) => short(row.type) }], ["blocks", "blocks", number], ["bytes", "bytes", size],
  ["share", shareOf("bytes", documents.types.totals?.bytes), null, { by: (row) => row.bytes }]]);
const whose = () => brief("whose", "Whose they are", "owners", [["whose", (_, index) => coded(documents.owners.whose[index]), null, { ...LEFT, by: (_, index) => documents.owners.whose[index] }],
  ["holds", "held_bytes", size], ["would return", "returns_bytes", size], ["share", shareOf("held_bytes", report.held?.live_bytes), null, { by: (row) => row.held_bytes }]]);

function types() {
  const box = told("types", "All types of blocks");
  if (!box) return;
  // owners and leaks leave these out
  const caches = documents.types.types.find((row) => row.type === "glibc's thread cache")?.blocks;
  box.append(says(said("types/totals/bytes"), " in ", said("types/totals/blocks", number), " live blocks",
    caches ? ` (${number(caches)} of them glibc's thread ${caches === 1 ? "cache" : "caches"})` : "",
    ...(documents.types.totals.resident_bytes === null ? [] : [", ", said("types/totals/resident_bytes"), " of it in memory"]),
    ...(documents.types.totals.bookkeeping_bytes ? ["; ", said("types/totals/bookkeeping_bytes"), " is malloc's bookkeeping"] : []), ".",
    documents.types.left_out ? ` Not shown: ${many(documents.types.left_out, "more type")}.` : ""));
  documents.types.notes.forEach((note) => box.append(put("p", "hint", note.text)));
  table(box, "types/types", [["type", typeCell, null, { ...LEFT, by: (row) => short(row.type), hint: "? is a guess, by what is in the blocks or who leads to them" }], ["module", (row) => row.module ?? "", null, LEFT], ["blocks", "blocks", number], ["bytes", "bytes", size], ["each", (row) => size(Math.round(row.bytes / row.blocks)), null, { by: (row) => row.bytes / row.blocks, hint: "on average" }],
    ...(documents.types.types.some((row) => row.retained_bytes !== null) ? [["retained", "retained_bytes", size, { hint: "with all that only blocks of the type lead to, such as what their members point to: rows overlap" }]] : []),
    ["resident", "resident_bytes", size], ["holds back", "holds_back_bytes", size, { hint: "what would also leave memory if all blocks of the type were freed and malloc_trim(0) called: what is stranded beside them, and their own pages; little where other blocks lie on the same pages" }],
    holder("types/types", documents.types.who), ["one of them", (row) => row.samples[0] ?? "", null, MONO]]);
}

function owners() {
  const box = told("owners", "All owners");
  if (!box) return;
  const held = report.held;
  if (held) {
    box.append(says(said("report/held/reached_bytes"), " of ", said("report/held/live_bytes"), " in blocks is held",
      ...(held.cycle_bytes ? ["; nothing but cycles of Python's objects leads to ", said("report/held/cycle_bytes"), " of it, which is garbage"] : []),
      ...(held.perhaps_lost_bytes ? ["; nothing but unused room of containers leads to ", said("report/held/perhaps_lost_bytes"), " of it, which is perhaps lost"] : []),
      ...(held.lost_bytes ? ["; ", said("report/held/lost_bytes"), " in ", said("report/held/lost_blocks", number), " blocks is lost: nothing leads there"] : []),
      ...(held.possible_bytes ? ["; ", said("report/held/possible_bytes"), " is possibly lost: only pointers to the blocks' insides lead there"] : []),
      ...(held.unknown_bytes ? ["; ", said("report/held/unknown_bytes"), " is led to by no plain pointer: this image lacks some of what may"] : []), "."));
    held.jointly.forEach((_, index) => { if (data.jointly[index]) box.append(says(coded(data.jointly[index]), " hold ", said(`report/held/jointly/${index}/retained_bytes`), " together: each leads there, and nothing else does.")); });
  }
  table(box, "owners/owners", [["whose", (_, index) => coded(documents.owners.whose[index]), null, { ...LEFT, by: (_, index) => documents.owners.whose[index], hint: "a variable, a thread's stack, a mapping" }],
    ["holds", "held_bytes", size, { hint: "what it is the main holder of: of all that lead there the first" }], ["alone", "retained_bytes", size, { hint: "what of that it alone leads to, and could be freed with it" }], ["resident", "retained_resident_bytes", size],
    ["would return", "returns_bytes", size, { hint: "by how much RSS would fall once that is freed and malloc_trim(0) called: pages of its blocks, with what is free beside them; those with anything else on them stay" }], ["blocks", "blocks", number],
    ["mostly under", (row) => row.path[row.path.length - 1]?.expression ?? short(row.type) ?? "", null, { ...LEFT, hint: "the block on which most of it hangs, by the way to it or by its type" }], ["that block", (row) => row.path.length ? row.path[row.path.length - 1].block : "", null, MONO]]);
  if (documents.owners.owners.length > 1) box.append(put("p", "hint", documents.owners.no_sum + "."));
  if (documents.owners.left_out) box.append(put("p", "hint", `Not shown: ${many(documents.owners.left_out, "more owner")}.`));
}

/** Only where types are known by debug information is there anything. */
function containers() {
  const said = documents.containers;
  if (!said.containers?.length) return;
  const box = section("containers", "The largest containers");
  said.notes.forEach((note) => box.append(put("p", "hint", sentence(note.text))));
  const type = (row) => (["list", "tree"].includes(row.form) ? `${row.form} of ` : "") + short(row.type) + (row.links.length ? ` (${row.links.join(", ")})` : "");
  const load = (row) => row.buckets ? (row.elements / row.buckets).toFixed(2) : "";
  table(box, "containers/containers", [["container", (row) => row.path + (row.certain ? "" : " ?"), null, { ...LEFT, by: (row) => row.path, hint: "the path to it, as the program writes it; [] is any element, and ? a guess" }],
    ["elements", "elements", number], ["containers", "containers", number, { hint: "how many of them are in the row" }], ["held", "held_bytes", size, { hint: "its blocks and all to which they lead: rows overlap" }], ["each", (row) => row.elements ? size(Math.round(row.held_bytes / row.elements)) : "", null, { by: (row) => row.elements ? row.held_bytes / row.elements : null }],
    ["load", load, null, { by: (row) => row.buckets ? row.elements / row.buckets : null, hint: "of hash tables: elements for each bucket" }], ["longest chain", (row) => row.longest_chain === null ? "" : number(row.longest_chain), null, { by: (row) => row.longest_chain, hint: "of hash tables: the most elements in one bucket" }],
    ["type", type, null, { ...LEFT, by: type }], ["a block", "sample", text, MONO]]);
  if (said.left_out) box.append(put("p", "hint", `Not shown: ${many(said.left_out, "more row")}.`));
}

function leaks() {
  const box = told("leaks", "What nobody holds"), lost = documents.leaks;
  if (!box) return;
  if (lost.unknown.blocks) box.append(says("No pointer was found to ", said("leaks/unknown/bytes"), " in ", said("leaks/unknown/blocks", number), " blocks, but this image lacks something that may hold one: whether they are lost is not known."));
  if (!lost.leaks.length) { if (!lost.unknown.blocks) box.append(says("Nothing is lost: roots lead to all ", said("leaks/reached/blocks", number), " blocks, ", said("leaks/reached/bytes"), ".")); return; }
  const type = (row) => short(row.type) + (row.certain ? "" : " ?"), cycle = (row) => row.cycle.join(" → ");
  table(box, "leaks/leaks", [["type", type, null, { ...LEFT, by: type }], ["blocks", "blocks", number], ["bytes", "bytes", size], ["lost with them", "indirect_blocks", number, { hint: "blocks that only these lead to" }], ["their bytes", "indirect_bytes", size], ["cycle", cycle, null, { ...LEFT, by: cycle, hint: "the members that lead from one block to the next, until it is round" }],
    ["lost", (row) => row.strength === "definite" ? "for certain" : "perhaps", null, { by: (row) => row.strength }], ["one of them", (row) => row.samples[0] ?? "", null, MONO]]);
}

function arenas() {
  const box = told("arenas", "Arenas");
  if (!box) return;
  const limits = documents.params.arenas, keys = ["system_bytes", "used_bytes", "tcache/bytes", "fast/bytes", "bins/bytes", "top_bytes", "resident_bytes", "trim_resident_bytes"];
  const names = ["system", "used", "tcache", "fast", "bins", "top", "resident", "trim returns"];
  const limited = documents.params.note_record?.figures ?? {}, why = "params/note_record/figures/";
  const because = limited.processors ? [": ", said(why + "arenas_each", number), " for each of ", said(why + "processors", number), limited.processors === 1 ? " processor" : " processors", ", as no limit is set"] : [];
  if (limits) box.append(says(said("params/arenas/count", number), limits.count === 1 ? " arena" : " arenas", "; this process may make ", limits.limit === null ? "a number that is not known" : said("params/arenas/limit", number), ...because, "."));
  const hints = { system: "taken from the kernel; the next five are what became of that", used: "in blocks that the program has not freed", tcache: "freed, kept by threads for themselves", fast: "freed, in fastbins",
    bins: "freed, in lists", top: "free, at the arena's end", resident: "what of all of it is in memory", "trim returns": "what malloc_trim(0) would give back" };
  const foot = put("tr", "", heading("all", "row"), put("td"), put("td"), ...keys.map((key) => said("arenas/totals/" + key, size, "td")));
  const threads = (row) => row.threads.map((each) => `${each.name ?? ""} ${each.tid}`.trim());
  table(box, "arenas/arenas", [["arena", (row) => `${row.index}${row.main ? " main" : ""}`, null, { name: "fixed", by: (row) => row.index }],
    ["threads", (row) => { const names = threads(row), cell = put("span", "", names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "") || "none"); cell.title = names.join(", "); return cell; }, null, { ...LEFT, by: (row) => row.threads.length }],
    ["heaps", "heaps", number], ...keys.map((key, index) => [names[index], key, size, { hint: hints[names[index]] }])], { foot, sort: "resident" });
}

function trim() {
  const box = told("trim", "What malloc_trim would return");
  if (!box) return;
  const { resident_bytes: back, release_bytes: released } = documents.trim.totals, or = (value) => value ? size(value) : value === 0 ? "no" : "?";
  box.append(says("malloc_trim(0) would return ", said("trim/totals/resident_bytes", or), back ? " of resident memory" : " resident memory",
    ...(released && back !== null && back < released ? [" (it would give up ", said("trim/totals/release_bytes"), " of addresses, ", back ? "the rest of them" : "all of them", " not in memory)"] : []),
    ...(documents.trim.arenas.length > 1 ? ["; the tops of thread arenas, which it never touches, have ", said("trim/totals/tops_resident_bytes", or), " more (--tops)."] : ["."])));
  const keys = ["madvise_bytes", "brk_bytes", "resident_bytes", "kept/top_bytes", "kept/top_resident_bytes", "kept/subpage_bytes", "kept/tcache_bytes", "tops_bytes"];
  const names = ["addresses by madvise", "addresses by brk", "RSS falls", "top stays", "its pages in memory", "stranded", "tcache", "--tops"];
  const hints = { "addresses by madvise": "whole free pages between blocks", "addresses by brk": "the end of the main arena's top", "RSS falls": "what of both is in memory", "top stays": "free, at the arena's end",
    stranded: "free, in pages that blocks in use share", tcache: "free, kept by threads", "--tops": "what trim --tops would give back besides" };
  table(box, "trim/arenas", [["arena", "index", text, { name: "fixed" }], ...keys.map((key, index) => [names[index], key, size, { hint: hints[names[index]] }])], { sort: "RSS falls" });
  const reasons = put("ul");
  documents.trim.reasons.forEach((each) => reasons.append(put("li", "", ...glossed(each.text))));
  if (documents.trim.reasons.length) box.append(make("h3", "Why the rest stays"), reasons);
}

function pins() {
  const box = told("pins", "What is in the way");
  if (!box) return;
  if (documents.pins.groups?.length) table(box, "pins/groups", [["type", typeCell, null, { ...LEFT, by: (row) => short(row.type) }], ["blocks", "blocks", number], ["bytes", "bytes", size], ["holds back", "releases_bytes", size], ["of it in memory", "resident_bytes", size],
    holder("pins/groups", documents.pins.who_groups)], { title: "Types of blocks, were all of one freed" });
  if (documents.pins.pins.length) table(box, "pins/pins", [["block", "user_address", text, MONO], ["what it is", (row) => short(row.type) ?? row.symbol ?? "", null, LEFT], ["arena", "arena", number, { which: true }], ["bytes", "bytes", size], ["holds back", "releases_bytes", size, { hint: "what would leave memory were that block alone freed, its own page among it" }], ["of it in memory", "resident_bytes", size],
    ["held by", (_, index) => coded(documents.pins.who_pins[index]), null, { ...LEFT, by: (_, index) => documents.pins.who_pins[index] }]], { title: "Single blocks" });
  if (!documents.pins.groups?.length && !documents.pins.pins.length) box.append(put("p", "hint", "Of free memory: no single block, nor all of a type, keeps much more of it from being returned than pages of its own.",
    ...(data.shared_pages.length ? [" Of memory in use: ", ...data.shared_pages.flatMap((line) => [coded(line), "."])] : []),
    ...(documents.pins.own_left_out ? [" Not shown: ", said("pins/own_left_out", number), " beside free memory that would mainly give back their own (--own)."] : [])));
}

function params() {
  const box = told("params", "Thresholds and limits");
  if (!box) return;
  if (documents.params.note) box.append(says(documents.params.note + "."));
  table(box, "params/params", [["parameter", "name", text, LEFT], ["value", "value", number], ["default", "default", (value) => value === null ? "none" : number(value)], ["asked for", (row) => row.requested ?? "", null, LEFT], ["why", (row) => row.note ?? "", null, LEFT]], { whole: true });
}

function others() {
  if (!report.other_mappings.length && !report.allocators.length) return;
  const box = section("others", "Outside malloc");
  report.allocators.forEach((each) => box.append(says(`${each.name} (${each.how}): ${each.instead}`)));
  table(box, "report/other_mappings", [["mapping", "address", text, MONO], ["bytes", "bytes", size], ["what", (row) => row.name || "anonymous", null, LEFT], ["whose", (row) => row.allocator ?? "", null, LEFT]]);
}

function strips() {
  const box = told("map", "Every heap, by address", says(documents.map.sentence ?? ""));
  if (!box) return;
  box.append($("strips").content);
  startStrips();
}

function read() {
  const box = section("read", "How this was read"), list = put("dl"), version = documents.version;
  const row = (name, ...pieces) => { if (pieces[0] !== null && pieces[0] !== undefined) list.append(make("dt", name), put("dd", "", ...pieces)); };
  row("taken", data.taken === null ? "from a core, which does not say when" : when());
  row("stood still", data.held === null ? "not for arenascope: what was looked at stood still already" : `the process, for ${pause(1)}, once, while it was read; another look such as this takes about as long`);
  row("arenascope", version.arenascope); row("by", data.door.join(", ")); row("Python", version.python);
  row("glibc", `${data.glibc ?? "of unknown release"}, found by ${data.located_by}`);
  row("layout", version.layout);
  if (version.checks) row("checks", said("version/checks/held", number), " of ", said("version/checks/tried", number), " passed");
  row("complete", data.problems.length ? "no: see the problems above" : "yes: nothing was left out");
  box.append(list);
  if (version.failed) box.append(put("p", "hint", "not told: " + version.failed));
  if (version.checks) box.append(put("details", "", make("summary", "what was checked"), put("ul", "", ...version.checks.list.map((each) => make("li", `${each.held ? "" : "FAILED: "}${each.check}`)))));
}
/** For how long the process stood still. */
const pause = (digits) => data.held < 1 ? `${(1000 * data.held).toFixed(digits)} ms` : `${data.held.toFixed(1)} s`;
const when = () => new Date(data.taken * 1000).toLocaleString("sv");

function start() {
  const name = documents.process?.name;
  if (name) { $("title").append(` (${name})`); document.title += ` (${name})`; }
  $("about").textContent = [`glibc ${data.glibc ?? "of unknown release"}`, data.taken === null ? null : when(), data.held === null ? null : `stood still for ${pause(0)}, once`,
    `arenascope ${documents.version.arenascope ?? ""}`].filter(Boolean).join(", ");
  $("sentence").textContent = report.verdict;
  $("holder").append(...data.holder.map(coded));
  if (report.growth) $("grown").textContent = report.growth.text;
  data.notes.forEach((note) => $("notes").append(make("li", note)));
  [findings, split, conclusions, types, owners, containers, leaks, pins, trim, arenas, params, others, strips, read, glossary].forEach((each) => each());
  keepClearOf($("nav"));
  document.documentElement.dataset.ready = "yes";
}
start();
