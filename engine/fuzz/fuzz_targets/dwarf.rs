//! Debug information that somebody made up: abbreviations, and entries by them.
#![no_main]

#[allow(dead_code)]
#[path = "../../tests/dwarf.rs"]
mod dwarf;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (Some(first), Some(rest)) = (data.first(), data.get(1..)) else { return };
    let (abbreviations, entries) = rest.split_at(usize::from(*first).min(rest.len()));
    dwarf::ask(&dwarf::opened(&dwarf::elf(&[(".debug_abbrev", abbreviations), (".debug_info", entries)])));
});
