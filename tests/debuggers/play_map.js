// What somebody does on the page of `heap map --html`; what comes of it is left (browser.py) for test_map.py.
"use strict";

setTimeout(() => {
  // the observer draws what is in sight once the browser comes to it, on a busy machine later than this
  for (const each of heaps) { each.visible = true; draw(each); }
  const heap = heaps[1], canvas = heap.canvas, box = canvas.getBoundingClientRect();
  const at = (part) => ({ clientX: box.left + part * box.width, clientY: box.top + 9, bubbles: true, cancelable: true, pointerId: 1 });
  canvas.setPointerCapture = () => {};   // there is no pointer
  const key = (name) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const wheel = (part) => canvas.dispatchEvent(new WheelEvent("wheel", { ...at(part), deltaY: -300 }));
  const span = () => Math.round((heap.to - heap.from) / heap.cell);

  leave("at-first", span());
  leave("scrolls-on", wheel(0.5) && span());
  canvas.focus();
  for (let turn = 0; turn < 9; turn++) wheel(0.25);
  leave("by-wheel", span());

  const before = heap.from;
  canvas.dispatchEvent(new PointerEvent("pointerdown", at(0.5)));
  canvas.dispatchEvent(new PointerEvent("pointermove", at(0.4)));
  canvas.dispatchEvent(new PointerEvent("pointerup", at(0.4)));
  leave("dragged", Math.round(100 * (heap.from - before) / (heap.to - heap.from)));

  canvas.dispatchEvent(new PointerEvent("pointermove", at(0.5)));
  leave("tip-place", document.querySelector("#tip .where").textContent);
  leave("tip-bytes", [...document.querySelectorAll("#tip tr")].map((row) => row.textContent).join("; "));

  key("0");
  leave("by-zero", span());
  key("+");
  leave("by-plus", span());
  const left = heap.from;
  key("ArrowRight");
  leave("by-arrow", heap.from > left);

  const picture = canvas.toDataURL();
  document.querySelectorAll("input[type=checkbox]").forEach((each) => each.click());
  leave("without-layers", picture === canvas.toDataURL() ? "the same" : "other");

  document.querySelector("#sort").value = "size";
  document.querySelector("#sort").onchange();
  leave("order", [...document.querySelectorAll("canvas")].map((each) => heaps.find((one) => one.canvas === each).bytes).join());
}, 1000);
