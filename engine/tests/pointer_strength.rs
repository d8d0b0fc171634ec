//! Pointers to the inside of blocks: which are meant, by what the blocks hold, and which may be chance.

use arenascope::blocks::Blocks;
use arenascope::failure::{Control, Failure};
use arenascope::graph::Graph;
use arenascope::image::{Image, Piece};
use arenascope::pointer_strength::{judge, reach, Constant, Front, Ground, Judged, ABSENT, EXECUTABLE};

const AT: u64 = 0x7f00_0000_1000;
/// Its vtables, and its code.
const CONSTANTS: [Constant; 2] =
    [Constant { start: 0x4000, end: 0x5000, flags: 0 }, Constant { start: 0x5000, end: 0x6000, flags: EXECUTABLE }];

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Whether a pointer `past` the start of a block that was asked for with these bytes is meant.
fn is_meant(data: &[u8], past: u64, front: &[Front]) -> bool {
    let mut block = data.to_vec();
    block.resize(data.len() + (16 - (data.len() + 8) % 16) % 16, 0);
    let size = block.len() as u64;
    let tables = words(&[0x5010, 0x5020]);
    let mut image = Image::new(8, false);
    image.set(&[Piece::of(0x4800, &tables), Piece::of(AT, &block)]).expect("two pieces");
    let blocks = Blocks::new(&[AT], &[AT + size], &[size + 8]).expect("a block");
    let ground = Ground { image: &image, blocks: &blocks, constants: &CONSTANTS, fronts: front };
    judge(&ground, &[Judged { block: 0, value: AT + past, at: 0 }]).expect("a judgement") == [1]
}

fn sds(width: usize, kind: u8, length: u64, room: u64, text: &[u8]) -> Vec<u8> {
    let mut bytes = [&length.to_le_bytes()[..width], &room.to_le_bytes()[..width], &[kind], text].concat();
    bytes.resize(2 * width + 1 + room as usize + 1, 0);
    bytes
}

fn zend(entries: usize, place: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..entries).flat_map(|_| [u32::MAX.to_le_bytes(), place.to_le_bytes()].concat()).collect();
    bytes.resize(bytes.len() + 32 * entries, 0);
    bytes
}

fn table(size: usize, control: &[u8]) -> Vec<u8> {
    let again =
        if control.len() >= 16 { control[..16].to_vec() } else { [&vec![0xFF; 16 - control.len()], control].concat() };
    [&vec![b'x'; size * control.len()], control, &again].concat()
}

fn behind(front: usize, rest: &[u64]) -> Vec<u8> {
    [vec![0; front], words(rest)].concat()
}

fn control() -> Vec<u8> {
    [&[0x80][..], &(0..15).collect::<Vec<u8>>(), &[0xFF; 16]].concat()
}

#[test]
fn what_is_meant() {
    let lua = |common: u64| [words(&[0, 0, 8, AT + 64, common]), vec![0; 176], vec![0; 1000]].concat();
    let cases: Vec<(&str, Vec<u8>, u64)> = vec![
        ("the start", vec![0; 100], 0),
        ("size in front", [words(&[100]), vec![0; 100]].concat(), 8),
        ("size in front of the second word", [words(&[0, 100]), vec![0; 100]].concat(), 16),
        ("the whole size in front", [words(&[328, 0]), vec![0; 312]].concat(), 16),
        ("sds of a byte", sds(1, 1, 5, 40, b"hello"), 3),
        ("sds of two", sds(2, 2, 300, 300, &[b'h'; 300]), 5),
        ("sds of eight", sds(8, 4, 5, 3000, b"hello"), 17),
        ("PHP's array", zend(8, 0), 64),
        ("PHP's array without keys", [vec![0xFF; 8], vec![0; 128]].concat(), 8),
        ("a hash table", table(24, &control()), 24 * 32),
        ("a small hash table", table(16, &[0xFF, 1, 0xFF, 0xFF]), 64),
        ("aligned by hand, the start in front", [behind(40, &[AT]), vec![0; 200]].concat(), 48),
        ("a header behind a buffer, the start first", behind(200, &[AT, 1, 2, 3]), 200),
        ("a header behind a buffer, the start second", behind(200, &[1, AT, 2, 3]), 200),
        ("a line of the cache, the start further behind", [behind(104, &[AT]), vec![0; 200]].concat(), 64),
        ("a state of Lua whose common part lies in it", lua(AT + 216), 8),
        ("a count of elements", [words(&[25]), vec![0; 8 * 25]].concat(), 8),
        ("a second base", words(&[0x4800, 7 << 40, 0x4808, 8, 9]), 16),
        ("a pool that knows its end", [words(&[AT + 100, AT + 512]), vec![0; 496]].concat(), 133),
        ("perl's ops", [words(&[0, AT, 0, 0, 64 << 16, 0]), vec![0; 504]].concat(), 77),
    ];
    for (name, data, past) in cases {
        assert!(is_meant(&data, past, &[]), "{name}");
    }
}

#[test]
fn what_is_chance() {
    let cases: Vec<(&str, Vec<u8>, u64)> = vec![
        ("zeros", vec![0; 24 * 32 + 48], 24 * 32),
        ("a size that is another", [words(&[40]), vec![0xAA; 100]].concat(), 8),
        ("a text of another type", sds(1, 2, 5, 40, b"hello"), 3),
        ("a text longer than its room", sds(1, 1, 41, 40, b""), 3),
        ("an array with a place beyond it", zend(8, 8), 64),
        ("an array of twelve", zend(12, 0), 96),
        ("another place of a table", table(24, &control()), 24 * 32 + 16),
        ("two words behind where the start is kept", [behind(40, &[AT]), vec![0; 200]].concat(), 56),
        ("no line of the cache", [behind(120, &[AT]), vec![0; 200]].concat(), 80),
        ("pointers to text", words(&[0x4800, 7 << 40, 0x5010, 8, 9]), 16),
        ("ops without a first slab", [words(&[0, 0, 0, 0, 64 << 16, 0]), vec![0; 504]].concat(), 77),
        ("its middle", [words(&[AT + 100, AT + 300]), vec![0; 496]].concat(), 133),
    ];
    for (name, data, past) in cases {
        assert!(!is_meant(&data, past, &[]), "{name}");
    }
}

#[test]
fn what_comes_after_a_programs_front_is_judged_as_a_block() {
    let (front, pool) = (Front { bytes: 16, holds_pieces: 0 }, Front { bytes: 16, holds_pieces: 1 });
    let data = [vec![0xAA; 16], sds(1, 1, 5, 40, b"hello")].concat();
    assert!(is_meant(&data, 16, &[front]) && is_meant(&data, 19, &[front]));
    assert!(!is_meant(&data, 19, &[]) && !is_meant(&data, 25, &[front]) && is_meant(&data, 25, &[pool]));
}

#[test]
fn blocks_of_a_size_that_are_pointed_to_at_one_offset_are_meant() {
    for (many, sure) in [(12, true), (4, false)] {
        // the first one is reached, and leads into the second as roots lead into the others
        let starts: Vec<u64> = (0..many).map(|at| AT + 64 * at).collect();
        let ends: Vec<u64> = starts.iter().map(|start| start + 47).collect();
        let mut bytes = vec![0xAA; 64 * many as usize];
        bytes[..8].copy_from_slice(&(starts[1] + 20).to_le_bytes());
        let mut image = Image::new(8, false);
        image.set(&[Piece::of(AT, &bytes)]).expect("one piece");
        let blocks = Blocks::new(&starts, &ends, &vec![64; many as usize]).expect("blocks");
        let offsets: Vec<u32> = (0..=many).map(|at| u32::from(at > 0)).collect();
        let graph = Graph::given(&offsets, &[1 << 3 | 1]).expect("an edge");
        let ground = Ground { image: &image, blocks: &blocks, constants: &[], fronts: &[] };
        let seed = |block: u64| Judged { block, value: starts[block as usize] + 20, at: 0 };
        let seeds: Vec<Judged> = (2..many).map(seed).collect();
        let mut marks = vec![0; many as usize];
        marks[0] = 2;
        let found = reach(&ground, &graph, &seeds, &mut marks, 2, 1, &Control::default()).expect("it ends");
        assert_eq!(found.inside.len(), many as usize - 1);
        assert_eq!((found.alike.len(), marks), if sure { (11, vec![2; 12]) } else { (0, vec![2, 0, 0, 0]) });
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let bytes = [0u8; 64];
    let mut image = Image::new(8, false);
    image.set(&[Piece::of(AT, &bytes)]).expect("one piece");
    let blocks = Blocks::new(&[AT], &[AT + 40], &[48]).expect("a block");
    let absent = [Constant { start: 0x4000, end: 0x5000, flags: ABSENT }];
    let ground = Ground { image: &image, blocks: &blocks, constants: &absent, fronts: &[] };
    assert_eq!(judge(&ground, &[Judged { block: 1, value: AT, at: 0 }]), Err(Failure::BadInput));
    for value in [0, AT - 1, AT + 41, u64::MAX] {
        assert_eq!(judge(&ground, &[Judged { block: 0, value, at: u64::MAX }]), Ok(vec![0]));
    }
}
