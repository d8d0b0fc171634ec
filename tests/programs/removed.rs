// A hash table of which half the entries were removed, and what they had is lost: their places keep the addresses.
use std::collections::HashMap;
use std::{hint::black_box, thread, time::Duration};

fn main() {
    let mut kept: HashMap<u64, Box<[u64; 500]>> = HashMap::with_capacity(1000);
    for key in 0..800 {
        kept.insert(key, Box::new([key; 500]));
    }
    for key in 0..400 {
        let lost = kept.remove(&(key * 2)).unwrap();
        black_box(!(Box::leak(lost) as *mut _ as usize));
    }
    println!("ready");
    loop {
        thread::sleep(Duration::from_secs(3600));
        black_box(&kept);
    }
}
