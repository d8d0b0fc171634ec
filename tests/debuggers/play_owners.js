// What somebody does on the page of `heap owners --html`; what comes of it is left (browser.py) for test_owners_files.py.
"use strict";

setTimeout(() => {
  const boxes = () => [...document.querySelectorAll("#tree button")];
  const tops = nodes.filter((node) => node.above === ALL);
  leave("tops", tops.reduce((sum, node) => sum + node.holds, 0));
  leave("widths", tops.every((node) => {
    const box = boxes().find((each) => each.dataset.node === String(node.at));
    return !box || Math.abs(parseFloat(box.style.width) - 100 * node.holds / root.holds) < 0.01;
  }));
  const first = boxes().find((each) => nodes[each.dataset.node].name === "first");
  leave("first", first.dataset.bytes);
  first.click();
  leave("folded", boxes().every((each) => each.dataset.node === first.dataset.node || nodes[each.dataset.node].above !== ALL));
  leave("rows", [...document.querySelectorAll("#rows td[data-holds]")].reduce((sum, cell) => sum + Number(cell.dataset.holds), 0));
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  leave("again", focus === ALL);
  $("by").value = "returns"; $("by").onchange();
  leave("returns", nodes.find((node) => node.name === "first").returns);
  $("find").value = "first"; $("find").oninput();
  leave("found", boxes().filter((each) => !each.classList.contains("dull")).map((each) => nodes[each.dataset.node].name).includes("first"));
  document.documentElement.dataset.played = "yes";
}, 300);
