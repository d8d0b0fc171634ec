@INCLUDE strips.js@

about("each strip is one heap, lowest address on the left");
$("sentence").textContent = data.sentence;
startStrips();
document.documentElement.dataset.ready = heaps.length;
