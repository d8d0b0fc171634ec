// What somebody does on the page of `heap owners --html`; what comes of it is left in paragraphs, for test_owners_files.py.
"use strict";
const told = (id, value) => {
  const box = document.createElement("p");
  box.id = id;
  box.textContent = String(value);
  document.body.append(box);
};

setTimeout(() => {
  const boxes = () => [...document.querySelectorAll("#tree button")];
  const tops = nodes.filter((node) => node.above === ALL);
  told("tops", tops.reduce((sum, node) => sum + node.retained, 0));
  told("widths", tops.every((node) => {
    const box = boxes().find((each) => each.dataset.node === String(node.at));
    return !box || Math.abs(parseFloat(box.style.width) - 100 * node.retained / root.retained) < 0.01;
  }));
  const first = boxes().find((each) => nodes[each.dataset.node].name === "first");
  told("first", first.dataset.bytes);
  first.click();
  told("folded", boxes().every((each) => each.dataset.node === first.dataset.node || nodes[each.dataset.node].above !== ALL));
  told("rows", [...document.querySelectorAll("#rows td[data-retained]")].reduce((sum, cell) => sum + Number(cell.dataset.retained), 0));
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  told("again", focus === ALL);
  $("by").value = "returns"; $("by").onchange();
  told("returns", nodes.find((node) => node.name === "first").returns);
  $("find").value = "first"; $("find").oninput();
  told("found", boxes().filter((each) => !each.classList.contains("dull")).map((each) => nodes[each.dataset.node].name).includes("first"));
  document.documentElement.dataset.played = "yes";
}, 300);
