// Buffers that come and go, compressed in the thread pool.
const zlib = require("zlib");
const kept = [];
let rounds = 0;

function round() {
    const text = Buffer.alloc(200000, "the same words over and over ");
    for (let i = 0; i < 8; i++) {
        zlib.deflate(text, { level: 6 }, (error, packed) => {
            kept.push(Buffer.concat([packed, Buffer.alloc(Math.floor(Math.random() * 40000) + 9000)]));
            if (kept.length > 300) kept.splice(Math.floor(Math.random() * 200), 100);
        });
    }
    if (++rounds === 20) console.log("ready");
    setTimeout(round, 20);
}
round();
