// Buffers packed in the thread pool, of which nine in ten are dropped again: blocks of up to 50 KB leave large pieces.
const zlib = require("zlib");
const text = Buffer.alloc(60000, "the same words over and over ");
let kept = [];
let round = 0;

function next() {
    let left = 40;
    for (let i = 0; i < 40; i++) {
        zlib.deflate(text, { level: 1 }, (error, packed) => {
            kept.push(Buffer.concat([packed, Buffer.alloc(9000 + ((kept.length * 7919) % 40000), 1)]));
            if (--left === 0) ++round < 100 ? next() : drop();
        });
    }
}

function drop() {
    kept = kept.filter((_, i) => i % 10 === 0);
    gc();
    setTimeout(() => {
        gc();
        console.log("ready");
        setInterval(() => {}, 100000);
    }, 300);
}
next();
