// What somebody does on the page of `heap report --html`; what comes of it is left (browser.py) for test_report_page.py.
"use strict";

setTimeout(async () => {
  const list = (id) => document.querySelector(`#${id} .list`);
  leave("problems-told", [...$("problems").children].map((each) => each.textContent));
  leave("answer", $("sentence").textContent);
  leave("holder", $("holder").textContent);
  leave("sections", [...document.querySelectorAll("main section")].map((each) => each.id));
  leave("legend", [...document.querySelectorAll("#split .key li")].map((each) => [each.textContent, getComputedStyle(each.firstChild).backgroundColor]));
  leave("slices", [...document.querySelectorAll("#split .split div")].map((each) => getComputedStyle(each).backgroundColor));
  for (let alike; (alike = document.querySelector("button.alike"));) alike.click();
  document.querySelectorAll("details:not(#words details)").forEach((each) => { each.open = true; });
  document.querySelectorAll(".below button.plain").forEach((each) => { if (!each.hidden) each.click(); });
  leave("said", document.body.innerText.replaceAll("\t", " | "));
  leave("figures", [...document.querySelectorAll("[data-key]")].map((each) => [each.dataset.key, JSON.parse(each.dataset.value), each.textContent]));
  leave("totals", Object.fromEntries([...document.querySelectorAll("[data-layer]")].map((each) => [each.dataset.layer, JSON.parse(each.dataset.bytes)])));
  const heads = [...list("types").querySelectorAll("th button")], bytes = heads.find((each) => each.textContent === "bytes");
  bytes.click();
  leave("falling", [...list("types").querySelectorAll("td[data-key$='/bytes']")].map((each) => Number(each.dataset.value)));
  bytes.click();
  leave("rising", [...list("types").querySelectorAll("td[data-key$='/bytes']")].map((each) => Number(each.dataset.value)));
  let copy = "";
  document.execCommand = () => { copy = document.activeElement.value; return true; };
  const button = document.querySelector("button.copy");
  if (button) { await button.onclick(); leave("copied", copy); leave("button", button.textContent); }
  document.documentElement.dataset.played = "yes";
}, 300);
