@INCLUDE strips.js@

about("each strip is one heap, lowest address on the left");
$("sentence").append(...codes(data.sentence));
startStrips();
keepClearOf(document.querySelector(".bar"));
document.documentElement.dataset.ready = heaps.length;
