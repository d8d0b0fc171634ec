// What somebody does on the page of `heap trend --html`; what comes of it is left (browser.py) for test_trend.py.
"use strict";

setTimeout(() => {
  const plot = $("plot"), box = plot.getBoundingClientRect();
  plot.setPointerCapture = () => {};   // there is no pointer
  const at = (part) => ({ clientX: box.left + part * box.width, clientY: box.top + 50, bubbles: true, pointerId: 1 });
  leave("rows", JSON.stringify([...document.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent))));
  leave("polygons", document.querySelectorAll("#plot polygon").length);
  plot.dispatchEvent(new PointerEvent("pointerdown", at(0.3)));
  plot.dispatchEvent(new PointerEvent("pointermove", at(0.6)));
  plot.dispatchEvent(new PointerEvent("pointerup", at(0.9)));
  leave("zoomed", from > first && to < last);
  plot.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
  leave("whole-again", from === first && to === last);
  document.querySelector("tbody tr").click();
  const moments = () => [...document.querySelectorAll("#plot text.moment")].map((each) => { const { left, right } = each.getBoundingClientRect(); return [each.textContent, left, right]; });
  leave("moments", [[first, last], ...[1200, 320].map((wide) => { plot.style.width = `${wide}px`; draw(); return moments(); })]);
  leave("single", document.querySelectorAll("#plot polygon").length);
}, 500);
