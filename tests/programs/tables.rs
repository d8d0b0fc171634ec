// Hash tables, vectors and strings: on the stack, in boxes, in each other. Each block's address and what it is, as the
// allocator was told before it was asked, goes to standard output; then "ready".
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{thread, time::Duration};

const MOST: usize = 1 << 16;
const NOTHING: usize = 0;
const OTHER: usize = 1;
const TABLE: usize = 2;
const BYTES: usize = 3;
const VECTOR: usize = 4;
static NAMES: [&str; 5] = ["", "-", "table", "bytes", "vector"];
static NOW: AtomicUsize = AtomicUsize::new(NOTHING);
const ZERO: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: [AtomicUsize; MOST] = [ZERO; MOST];
static KINDS: [AtomicUsize; MOST] = [ZERO; MOST];
static USED: AtomicUsize = AtomicUsize::new(0);

struct Noted;
unsafe impl GlobalAlloc for Noted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = unsafe { System.alloc(layout) };
        let now = NOW.load(Relaxed);
        if now != NOTHING {
            let at = USED.fetch_add(1, Relaxed);
            BLOCKS[at].store(block as usize, Relaxed);
            KINDS[at].store(now, Relaxed);
        }
        block
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        for at in 0..USED.load(Relaxed) {
            if BLOCKS[at].load(Relaxed) == block as usize {
                BLOCKS[at].store(0, Relaxed);
            }
        }
        unsafe { System.dealloc(block, layout) }
    }
}
#[global_allocator]
static ALLOCATOR: Noted = Noted;

fn asked<T>(kind: usize, make: impl FnOnce() -> T) -> T {
    NOW.store(kind, Relaxed);
    let made = make();
    NOW.store(NOTHING, Relaxed);
    made
}

fn text(number: u64) -> String {
    let long = format!("the text of number {number}");
    asked(BYTES, || long.clone())
}

struct Plain {
    id: u64,
    by_number: HashMap<u64, [u8; 5]>,
    words: Vec<String>,
}

fn plain(id: u64) -> Box<Plain> {
    let mut made = asked(OTHER, || Box::new(Plain { id, by_number: HashMap::new(), words: Vec::new() }));
    for key in 0..1 + id % 40 {
        asked(TABLE, || made.by_number.insert(key * 1000 + id, [7; 5]));
    }
    made.words = asked(VECTOR, || Vec::with_capacity(5));
    for word in 0..4 {
        made.words.push(text(id * 10 + word));
    }
    made
}

fn main() {
    let mut by_name: HashMap<String, Vec<u64>> = asked(TABLE, || HashMap::with_capacity(1500));
    let mut numbers: HashSet<u32> = asked(TABLE, || HashSet::with_capacity(300));
    let mut structs: Vec<Box<Plain>> = asked(VECTOR, || Vec::with_capacity(100));
    for number in 0..1200 {
        let value = asked(VECTOR, || vec![number; 3 + number as usize % 4]);
        by_name.insert(text(number), value);
    }
    for number in 0..400 {
        by_name.remove(&format!("the text of number {}", number * 3));
    }
    numbers.extend(0..200);
    for id in 0..90 {
        structs.push(plain(id));
    }
    // what is left of others in such places: of the sizes that were given back
    for _ in 0..10 {
        drop(plain(9));
    }
    let mut noise: Vec<Box<[u8]>> = Vec::with_capacity(2000);
    for round in 0..300 {
        for size in [24, 30, 48, 88, 120] {
            let bytes = vec![128 + (round % 100) as u8; size].into_boxed_slice();
            noise.push(asked(OTHER, || bytes.clone()));
        }
    }
    for at in 0..USED.load(Relaxed) {
        let block = BLOCKS[at].load(Relaxed);
        if block != 0 {
            println!("{:#x} {}", block, NAMES[KINDS[at].load(Relaxed)]);
        }
    }
    println!("ready");
    thread::sleep(Duration::from_secs(3600));
    println!("{} {} {}", by_name.len(), numbers.len(), noise.len());
    println!("{}", structs.iter().map(|each| each.id + each.by_number.len() as u64 + each.words.len() as u64).sum::<u64>());
}
