// Tables of what the commands' documents say.

const SHOWN = 12;
const words = (made) => made.textContent ?? String(made);
/** `columns`: [title, what of a row, form, more]; what is a key of the row, or a function of it and its place. */
function table(into, base, columns, { foot = null, sort = null, title = null, whole = false, first = null } = {}) {
  const rows = at(base) ?? [];
  if (title) into.append(make("h3", `${title} (${rows.length.toLocaleString("en")})`));
  const list = make("table", undefined, "list"), head = list.createTHead().insertRow(), body = list.createTBody(), made = new Map();
  const value = (row, index, [, what, , more]) => more?.by ? more.by(row, index) : typeof what === "function" ? words(what(row, index)) : what.split("/").reduce((one, key) => one?.[key], row) ?? null;
  // what no row has needs no column
  columns = columns.filter(([, what]) => typeof what === "string" || !rows.length || rows.some((row, index) => words(what(row, index)) !== ""));
  let order = rows.map((_, index) => index), wanted = "", all = first === null && (whole || rows.length <= SHOWN + 3);
  const line = (index) => {
    if (!made.has(index)) made.set(index, put("tr", "", ...columns.map(([, what, form, more], at) => {
      const tag = at ? "td" : "th", cell = typeof what === "string" ? said(`${base}/${index}/${what}`, form, tag) : put(tag, "", what(rows[index], index));
      if (!at) cell.scope = "row";
      if (more?.name) cell.className = more.name;
      return cell;
    })));
    return made.get(index);
  };
  // the same but for which block, thread or arena it is
  const keys = [];
  const key = (index) => keys[index] ??= JSON.stringify(columns.map((column, at) => {
    const its = value(rows[index], index, column);
    // a column that is sorted by a number may show a name
    const shown = typeof column[1] === "function" ? unnumbered(words(column[1](rows[index], index))) : "";
    return [typeof its === "string" || at === 0 || column[3]?.which ? unnumbered(its) : its, shown];
  }));
  const unfolded = new Set();
  const lines = (run) => {
    const top = line(run[0]), folded = run.length > 1 && !unfolded.has(run[0]);
    top.querySelector(".alike")?.remove();
    if (folded) top.cells[0].append(alike(run, () => { unfolded.add(run[0]); draw(); }));
    return folded ? [top] : run.map(line);
  };
  const find = put("input"), more = make("button", "", "plain"), many = make("span"), below = put("div", "below", many, more, find);
  find.type = "search"; find.placeholder = "find"; find.setAttribute("aria-label", "find in this table"); more.type = "button";
  const draw = () => {
    const found = wanted ? order.filter((index) => JSON.stringify(rows[index]).toLowerCase().includes(wanted)) : order;
    const together = runs(found, key), shown = all ? together : together.slice(0, first ?? SHOWN), left = found.length - shown.flat().length;
    body.replaceChildren(...shown.flatMap(lines));
    many.textContent = left ? `${number(left)} more of ${number(rows.length)} rows are not shown` : `${number(found.length)} of ${number(rows.length)} rows`;
    more.textContent = all ? `show ${SHOWN}` : "show all";
    more.hidden = together.length <= SHOWN;
  };
  find.oninput = () => { wanted = find.value.toLowerCase(); draw(); };
  more.onclick = () => { all = !all; draw(); };
  columns.forEach((column) => {
    const cell = heading(undefined), button = make("button", column[0]);
    cell.className = (column[3]?.name ?? "").replace("mono", "");
    button.type = "button"; button.title = column[3]?.hint ?? named.get(column[0])?.meaning ?? "";
    const by = (up) => {
      head.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", up ? "ascending" : "descending");
      const keys = rows.map((row, index) => value(row, index, column));
      // what is not known comes last, whichever way
      order = rows.map((_, index) => index).sort((one, other) => keys[one] === null || keys[other] === null ? (keys[one] === null) - (keys[other] === null)
        : (up ? 1 : -1) * (typeof keys[one] === "string" ? keys[one].localeCompare(keys[other]) : keys[one] - keys[other]));
      draw();
    };
    button.onclick = () => by(typeof value(rows[0] ?? {}, 0, column) === "string" ? cell.getAttribute("aria-sort") !== "ascending" : cell.getAttribute("aria-sort") === "descending");
    cell.append(button); head.append(cell);
    // of few rows the order of the command is the better one
    if (sort === column[0] && !all) by(false);
  });
  draw();
  if (foot) list.createTFoot().append(foot);
  into.append(wide(list, title ?? into.firstChild.textContent));
  if (first !== null) return;
  if (rows.length > SHOWN + 3 && !whole) into.append(below);
  // what a heading means is read on paper, too
  const hints = columns.filter(([, , , more]) => more?.hint);
  if (rows.length && hints.length) into.append(put("p", "hint legend", ...hints.flatMap(([name, , , { hint }], index) => [index ? "; " : "", make("b", name), ": " + hint]), "."));
}
