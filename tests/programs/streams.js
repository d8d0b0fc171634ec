// Streams that are kept open: of each zlib has a state, a window and more.
const zlib = require("zlib");
const kept = [];
for (let i = 0; i < 20; i++) {
    const deflate = zlib.createDeflate();
    deflate.on("data", () => {});
    deflate.write(Buffer.alloc(100000, "the same words over and over " + i));
    const packed = zlib.deflateSync(Buffer.alloc(300000, "other words"));
    const inflate = zlib.createInflate();
    inflate.on("data", () => {});
    inflate.write(packed.subarray(0, packed.length - 8));
    kept.push(deflate, inflate);
}
const all = kept.map((each) => new Promise((done) => each.on("drain", done).once("data", done)));
Promise.all(all).then(() => console.log("ready"));
setInterval(() => kept, 1000);
