// Threads that fill vectors with strings of many sizes, one after the other; each drops two in three again, and stays.
use std::sync::mpsc;
use std::{thread, time::Duration};

const THREADS: u64 = 4;

fn fill(number: u64) -> Vec<Vec<u8>> {
    let mut seed = number + 1;
    let mut kept = Vec::new();
    for _ in 0..12000 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        kept.push(vec![b'x'; 20 + (seed >> 33) as usize % 3000]);
    }
    let mut count = 0;
    kept.retain(|_| {
        count += 1;
        count % 3 == 0
    });
    kept
}

fn main() {
    let (done, filled) = mpsc::channel();
    for number in 0..THREADS {
        let done = done.clone();
        thread::spawn(move || {
            let _kept = fill(number);
            done.send(()).unwrap();
            thread::sleep(Duration::from_secs(3600));
        });
        filled.recv().unwrap();
    }
    println!("ready");
    thread::sleep(Duration::from_secs(3600));
}
