//! Debug information that is damaged: no question about it panics or takes long.

use std::io::Write;
use std::os::unix::io::AsRawFd;
use std::time::Instant;

use arenascope::failure::Control;
use arenascope::types::dwarf::files::{GivenModule, Places};
use arenascope::types::dwarf::program::Program;
use arenascope::types::dwarf::units::Debug;
use arenascope::types::dwarf::variables::Symbol;
use arenascope::types::facts::{Form, TypeSource};

/// Of a unit: struct thing { int number; struct thing *next; short few : 3; enum kind kind; } first[2]; main().
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x13, 0x0b, 0x03, 0x08, 0, 0, // compile unit: language, name
    2, 0x24, 0, 0x03, 0x08, 0x3e, 0x0b, 0x0b, 0x0b, 0, 0, // base type: name, encoding, size
    3, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // structure: name, size
    4, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0, // member: name, type, place
    5, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x0d, 0x0b, 0x6b, 0x0b, 0, 0, // member: name, type, bits, their place
    6, 0x0f, 0, 0x0b, 0x0b, 0x49, 0x13, 0, 0, // pointer: size, type
    7, 0x34, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18, 0, 0, // variable: name, type, location
    8, 0x01, 1, 0x49, 0x13, 0, 0, // array: type
    9, 0x21, 0, 0x2f, 0x0b, 0, 0, // range: its last index
    10, 0x04, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // enumeration: name, size
    11, 0x28, 0, 0x03, 0x08, 0x1c, 0x0b, 0, 0, // enumerator: name, value
    12, 0x2e, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, // function: name, its first address, its bytes
    13, 0x16, 0, 0x03, 0x08, 0x49, 0x13, 0, 0, // typedef: name, type
    0,
];
const FIRST: u64 = 0x4010;
const MAIN: u64 = 0x1000;

/// Where entries are that others refer to.
struct Entries {
    int: u32,
    thing: u32,
    pointer: u32,
    kind: u32,
    array: u32,
}

fn unit(at: &Entries) -> (Vec<u8>, Entries) {
    let mut made = vec![0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8];
    let mut found = Entries { int: 0, thing: 0, pointer: 0, kind: 0, array: 0 };
    made.extend(b"\x01\x0cmain.c\0");
    found.int = made.len() as u32;
    made.extend(b"\x02int\0\x05\x04");
    found.kind = made.len() as u32;
    made.extend(b"\x0akind\0\x04\x0bRED\0\x01\x0bBLUE\0\xc8\0");
    found.thing = made.len() as u32;
    made.extend(b"\x03thing\0\x18");
    made.extend([&b"\x04number\0"[..], &at.int.to_le_bytes(), b"\0"].concat());
    made.extend([&b"\x04next\0"[..], &at.pointer.to_le_bytes(), b"\x08"].concat());
    made.extend([&b"\x05few\0"[..], &at.int.to_le_bytes(), b"\x03\x20"].concat());
    made.extend([&b"\x04kind\0"[..], &at.kind.to_le_bytes(), b"\x10\0"].concat());
    found.pointer = made.len() as u32;
    made.extend([&b"\x06\x08"[..], &at.thing.to_le_bytes()].concat());
    found.array = made.len() as u32;
    made.extend([&b"\x08"[..], &at.thing.to_le_bytes(), b"\x09\x01\0"].concat());
    made.extend([&b"\x0dthing_t\0"[..], &at.thing.to_le_bytes()].concat());
    made.extend([&b"\x07first\0"[..], &at.array.to_le_bytes(), b"\x09\x03", &FIRST.to_le_bytes()].concat());
    made.extend([&b"\x0cmain\0"[..], &MAIN.to_le_bytes(), &32u64.to_le_bytes()].concat());
    made.push(0);
    let length = made.len() as u32 - 4;
    made[..4].copy_from_slice(&length.to_le_bytes());
    (made, found)
}

fn sound_unit() -> Vec<u8> {
    let (_, places) = unit(&Entries { int: 0, thing: 0, pointer: 0, kind: 0, array: 0 });
    unit(&places).0
}

/// An ELF file with these sections.
pub fn elf(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut names, mut body, mut rows) = (b"\0.shstrtab\0".to_vec(), Vec::new(), vec![[0u64; 4]]);
    for (name, bytes) in sections {
        rows.push([names.len() as u64, 1, 64 + body.len() as u64, bytes.len() as u64]);
        names.extend(name.as_bytes());
        names.push(0);
        body.extend_from_slice(bytes);
    }
    rows.push([1, 3, 64 + body.len() as u64, names.len() as u64]);
    body.extend(&names);
    let mut made = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    made.extend([0u64.to_le_bytes(), 0u64.to_le_bytes(), (64 + body.len() as u64).to_le_bytes()].concat());
    for number in [0u16, 0, 64, 56, 0, 64, rows.len() as u16, rows.len() as u16 - 1] {
        made.extend(number.to_le_bytes());
    }
    made.extend(body);
    for [name, kind, offset, size] in rows {
        made.extend((name as u32).to_le_bytes());
        made.extend((kind as u32).to_le_bytes());
        for number in [0, 0, offset, size, 0, 1, 0] {
            made.extend(u64::to_le_bytes(number));
        }
    }
    made
}

pub fn opened(file: &[u8]) -> Program {
    let mut to = tempfile();
    to.write_all(file).expect("a file");
    let path = format!("/proc/self/fd/{}", to.as_raw_fd()).into();
    let given = GivenModule { files: vec![path], build_id: Vec::new(), base: 0, is_program: true, is_libc: false };
    let mut debug = Debug::default();
    debug.add_module(&given, &Places::default()).expect("memory");
    Program::new(debug, &Control::default()).expect("memory")
}

/// One that nobody else sees.
fn tempfile() -> std::fs::File {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("arenascope-dwarf-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("a file");
    std::fs::remove_file(path).expect("it was made");
    file
}

pub fn ask(program: &Program) {
    let mut left: Vec<i32> = program.by_name("thing").expect("memory").into_iter().collect();
    left.extend(program.structs(true).expect("memory").iter().map(|(of, _)| *of));
    left.extend(program.classes_at(MAIN).expect("memory"));
    left.extend(program.structs_of_source_file(MAIN, 1, 1 << 20).expect("memory"));
    left.extend(program.variable(&Symbol { value: FIRST, size: 0, name: "first" }).map(|found| found.of));
    let mut asked = 0;
    while let Some(of) = left.pop().filter(|_| asked < 1000) {
        asked += 1;
        let facts = program.facts(of).expect("memory");
        left.extend(facts.target);
        left.extend(facts.fields.iter().map(|field| field.of));
    }
}

#[test]
fn a_program_has_its_types_and_variables() {
    let program = opened(&elf(&[(".debug_abbrev", ABBREVIATIONS), (".debug_info", &sound_unit())]));
    let found = program.variable(&Symbol { value: FIRST, size: 48, name: "first" }).expect("it is there");
    let array = program.facts(found.of).expect("memory");
    assert_eq!((array.form, array.length, array.size), (Form::Array, Some(2), 48));
    let thing = program.by_name("thing").expect("memory").expect("one");
    assert_eq!(array.target, Some(thing));
    let facts = program.facts(thing).expect("memory");
    let places: Vec<(&str, u64)> = facts.fields.iter().map(|field| (&*field.name, field.offset)).collect();
    assert_eq!(places, [("number", 0), ("next", 8), ("kind", 16)]);
    assert_eq!((facts.bits[0].offset, facts.bits[0].size, facts.bits[0].signed), (32, 3, true));
    assert_eq!(program.facts(facts.fields[1].of).expect("memory").target, Some(thing));
    let kind = program.facts(facts.fields[2].of).expect("memory");
    assert_eq!(kind.enumerators.iter().map(|each| each.1).collect::<Vec<_>>(), [1, 200]);
    assert_eq!(program.structs(true).expect("memory"), [(thing, 24)]);
    assert_eq!(program.structs_of_source_file(MAIN + 8, 20, 24).expect("memory"), [thing]);
    // what is larger than its symbol is another
    assert!(program.variable(&Symbol { value: FIRST, size: 40, name: "first" }).is_none());
}

#[test]
fn what_is_damaged_ends() {
    let (whole, began) = (sound_unit(), Instant::now());
    let mut state = 1u64;
    let mut random = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most as u64) as usize
    };
    for round in 0..3000 {
        let (mut info, mut abbreviations) = (whole.clone(), ABBREVIATIONS.to_vec());
        for _ in 0..1 + round % 8 {
            let at = random(info.len());
            info[at] = random(256) as u8;
            if round % 3 == 0 {
                let at = random(abbreviations.len());
                abbreviations[at] = random(256) as u8;
            }
        }
        if round % 5 == 0 {
            info.truncate(random(info.len()));
        }
        let mut file = elf(&[(".debug_abbrev", &abbreviations), (".debug_info", &info)]);
        if round % 7 == 0 {
            let at = random(file.len());
            file[at] = random(256) as u8;
            file.truncate(random(file.len()) + 1);
        }
        ask(&opened(&file));
    }
    assert!(began.elapsed().as_secs() < 120);
}
