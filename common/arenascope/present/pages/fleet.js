"use strict";
const HEADS = ["process or core", "RSS", "in use", "free", "malloc_trim returns", "stranded", "differs most in", "why memory stays"];
const FIGURES = ["rss", "used", "free", "trim", "stranded"];
const table = make("table"), head = make("tr"), body = make("tbody"), top_ = make("thead");
HEADS.forEach((text) => head.append(heading(text)));
top_.append(head);
table.append(make("caption", "what is furthest above the fleet's median first"), top_, body);
for (const each of data.rows) {
  const line = make("tr"), differs = make("td");
  line.append(heading(each.subject, "row"));
  for (const name of FIGURES) { const cell = make("td", size(each[name])); cell.title = exact(each[name]); line.append(cell); }
  if (each.differs) {
    differs.append(swatch(PART[each.differs] ?? "other"), `+${size(each.above)}: ${each.label} (median ${size(each.median)})`);
    differs.title = exact(each.above);
  } else differs.textContent = "nothing";
  line.append(differs, make("td", each.cause));
  body.append(line);
}
$("fleet").append(wide(table, "the fleet"));
const above = data.rows.filter((each) => each.differs).length;
$("about").textContent = `${number(data.rows.length)} compared, ${number(above)} of them above a median`;
document.documentElement.dataset.ready = "yes";
