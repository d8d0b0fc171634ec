//! Memory as damaged as can be: every word of it may lead anywhere in it. What is right is tested with real Pythons.

use super::cycles::garbage;
use super::objects::Step;
use super::paths::{cycles, path, rows, Root};
use super::types::{Release, Types, Values};
use super::walk::Walk;
use crate::blocks::Blocks;
use crate::failure::Control;
use crate::image::{Image, Piece};
use crate::types::tracer::memory::{Malloc, Memory};

const BASE: u64 = 0x7f00_0000_0000;
const BYTES: u64 = 1 << 14;
const TYPE: u64 = BASE + 0x100;

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn release(number: u64) -> Release {
    let old = [72, 88, 80];
    let values = [Values::None, Values::Beside, Values::Odd, Values::Inline][number as usize % 4];
    let is_old = values == Values::None;
    Release {
        type_type: TYPE,
        letters: if is_old { 48 } else { 40 },
        has_logs: !is_old,
        values,
        function_code: 48,
        function_closure: 72,
        code_names: if is_old { old } else { [96; 3] },
        code_qualname: 112,
        type_keys: 872,
        generator_frame: 72,
        frame_variables: 72,
        frame_code: 0,
    }
}

/// An image of words that lead somewhere in it, or are small, and some types, whose objects are everywhere.
fn image(seed: u64) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut words: Vec<u64> = (0..BYTES / 8)
        .map(|_| match next(&mut state) % 8 {
            0 => next(&mut state),
            1 | 2 => next(&mut state) % 600,
            3 => TYPE + next(&mut state) % 12 * 0x400,
            _ => BASE + next(&mut state) % BYTES / 16 * 16,
        })
        .collect();
    let names: [&[u8]; 8] = [
        b"set",
        b"cell",
        b"function",
        b"generator",
        b"Own",
        b"module",
        b"collections.deque",
        b"functools._lru_list_elem",
    ];
    for number in 0..12u64 {
        let at = (TYPE - BASE + number * 0x400) as usize / 8;
        words[at + 1] = TYPE;
        words[at + 3] = BASE + 0x40;
        words[at + 4] = 16 + next(&mut state) % 12 * 8;
        words[at + 5] = next(&mut state) % 3 * 4;
        words[at + 21] = 1 << (24 + number) | (next(&mut state) & 0x7fff);
        if number >= 8 {
            words[at + 21] &= (1 << 24) - 1;
            words[at + 3] = BASE + BYTES - 64 * (number - 7);
        }
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes[0x40..0x44].copy_from_slice(b"dict");
    bytes[0x44] = 0;
    for number in 1..5usize {
        let name = names[(seed as usize + number) % names.len()];
        let at = bytes.len() - 64 * number;
        bytes[at..at + name.len()].copy_from_slice(name);
        bytes[at + name.len()] = 0;
    }
    bytes
}

#[test]
fn damaged_memory_ends_no_walk() {
    let mut met = 0;
    for seed in 1..60 {
        let bytes = image(seed);
        let mut image = Image::new(8, false);
        image.set(&[Piece::of(BASE, &bytes)]).unwrap();
        let starts: Vec<u64> = (0..16).map(|number| BASE + number * 1024).collect();
        let ends: Vec<u64> = starts.iter().map(|start| start + 1016).collect();
        let blocks = Blocks::new(&starts, &ends, &[1024; 16]).unwrap();
        let memory = Memory::new(&image, &blocks, Malloc::new(8, 16, 4096), &(), &[], &[]).unwrap();
        let types = Types::new(&memory, release(seed), &[]);
        let mut walk = Walk::new(&types).unwrap();
        let control = Control::default();
        for number in 0..BYTES / 64 {
            walk.start(BASE + number * 64, 0, Some(Step::Name(BASE + number * 16))).unwrap();
        }
        walk.follow(&control).unwrap();
        walk.follow_rest(&control).unwrap();
        let roots = [Root { text: "app".to_owned(), is_frame: seed % 2 == 0 }];
        let held = rows(&walk, &roots).unwrap();
        assert!(held.iter().all(|row| row.path.starts_with("app")));
        for place in 0..walk.places.len() as u32 {
            path(&walk, &roots, place).unwrap();
        }
        let garbage = garbage(&walk, &control).unwrap();
        cycles(&mut walk, &garbage, 1, &control).unwrap();
        met += walk.objects();
    }
    assert!(met > 1_000, "{met}");
}
