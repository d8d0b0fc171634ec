//! What containers of C++ and Rust hold, by their words alone.

use arenascope::blocks::Blocks;
use arenascope::container_bodies::*;
use arenascope::failure::{Control, Failure};
use arenascope::image::{Image, Piece, Span};

const HEAP: u64 = 0x5616_0000_0000;
const DATA: u64 = 0x5500_0000_0000;
const CODE: Span = Span { start: 0x4000, end: 0x8000 };
/// Kinds: of blocks of which nothing is known, and of objects.
const UNKNOWN: i32 = 0;
const OBJECT: i32 = 1;
const SHARED: i32 = 2;
const FLAGS: [u32; 3] = [WEAK | PLAIN | SINGLE, HOLDER | SINGLE | HAS_MEMBER, HOLDER | SINGLE | CONTROL | HAS_APART];

/// A heap of blocks beside each other, and variables in front of it.
struct Program {
    word: u64,
    is_big: bool,
    starts: Vec<u64>,
    usables: Vec<u64>,
    kinds: Vec<i32>,
    heap: Vec<u8>,
    data: Vec<u8>,
    of: u32,
    managers: Vec<Manager>,
    known: Vec<Known>,
}

impl Program {
    fn new(of: u32) -> Program {
        let (starts, usables, kinds) = (Vec::new(), Vec::new(), Vec::new());
        let (heap, data, managers) = (vec![0; 8], Vec::new(), Vec::new());
        Program { word: 8, is_big: false, starts, usables, kinds, heap, data, of, managers, known: Vec::new() }
    }

    /// A block that malloc gives for so many bytes.
    fn block(&mut self, asked: u64) -> u64 {
        let usable = ((asked + 8 + 15) & !15).max(32) - 8;
        let start = HEAP + self.heap.len() as u64 + 8;
        self.heap.resize(self.heap.len() + 8 + usable as usize, 0);
        self.starts.push(start);
        self.usables.push(usable);
        self.kinds.push(UNKNOWN);
        start
    }

    fn put(&mut self, address: u64, words: &[u64]) {
        let (bytes, at) = match address {
            HEAP.. => (&mut self.heap, (address - HEAP) as usize),
            _ => (&mut self.data, (address - DATA) as usize),
        };
        let needed = at + 8 * words.len();
        if bytes.len() < needed {
            bytes.resize(needed, 0);
        }
        for (place, word) in bytes[at..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&if self.is_big { word.to_be_bytes() } else { word.to_le_bytes() });
        }
    }

    fn look(&mut self) -> (Bodies, Result<(), Failure>) {
        let mut image = Image::new(self.word, self.is_big);
        let pieces = [Piece::of(DATA, &self.data), Piece::of(HEAP, &self.heap)];
        image.set(&pieces[usize::from(self.data.is_empty())..]).expect("two pieces");
        let ends: Vec<u64> = self.starts.iter().zip(&self.usables).map(|(start, usable)| start + usable - 1).collect();
        let blocks = Blocks::new(&self.starts, &ends, &self.usables).expect("blocks in order");
        let fixed = [Fixed { start: DATA, bytes: self.data.len() as u64, is_stack: 0 }];
        let (low, high) = (HEAP, HEAP + self.heap.len() as u64);
        let ground = Ground {
            image: &image,
            blocks: &blocks,
            flags: &FLAGS,
            fronts: &[],
            mapped: &[],
            fixed: &fixed,
            known: &self.known,
            code: &[CODE],
            managers: &self.managers,
            low,
            high,
            skew: 0,
            mask: 7,
            program: self.of,
        };
        bodies(&ground, &mut self.kinds, &Control::default())
    }

    /// What each block is by its container.
    fn forms(&mut self) -> Vec<Option<u32>> {
        let (found, ended) = self.look();
        ended.expect("it ends by itself");
        let new = |kind: i32| usize::try_from(kind).ok()?.checked_sub(FLAGS.len());
        self.kinds.iter().map(|kind| new(*kind).map(|at| found.kinds[at].form as u32)).collect()
    }
}

fn of_cplusplus() -> Program {
    Program::new(OF_CPLUSPLUS)
}

fn letters(text: &[u8]) -> Vec<u64> {
    text.chunks(8)
        .map(|part| {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            u64::from_le_bytes(bytes)
        })
        .collect()
}

#[test]
fn a_streams_buffer_is_told_by_all_words_of_its_file() {
    for is_big in [false, true] {
        for places in [[0, 0, 0, 0, 0, 0], [10, 100, 0, 0, 0, 0], [0, 0, 0, 0, 7, 4096]] {
            let mut program = of_cplusplus();
            program.is_big = is_big;
            let user = program.block(4096 + 8);
            let flags = if is_big { 0xFBAD_2088 << 32 } else { 0x5616_FBAD_2088 };
            let mut words = vec![flags];
            words.extend(places.map(|place| user + place));
            words.extend([user, user + 4096, 0, 0]);
            program.put(DATA, &words);
            assert_eq!(program.forms(), [Some(STDIO)]);
        }
    }
}

#[test]
fn a_pointer_into_a_large_heap_is_no_magic_number() {
    let mut program = of_cplusplus();
    let users: Vec<u64> = (0..64).map(|_| program.block(24)).collect();
    let words: Vec<u64> = users.iter().flat_map(|user| [*user, 0xFBAD_0000, *user]).collect();
    program.put(DATA, &words);
    assert!(program.forms().iter().all(Option::is_none));
}

#[test]
fn strings_and_vectors_have_the_size_of_their_bodies() {
    let mut program = of_cplusplus();
    let (text, numbers, inner) = (program.block(31), program.block(80), program.block(41));
    program.put(text, &letters(b"thirty letters are a long text"));
    program.put(inner, &letters(b"forty letters are a text that is longer."));
    // a vector of strings, of which the second is short
    program.put(numbers, &[inner, 40, 40, 0, numbers + 48, 3, 0x636261, 0]);
    program.put(DATA, &[0, text, 30, 30, 0, numbers, numbers + 64, numbers + 80, 0]);
    let (found, ended) = program.look();
    ended.expect("it ends by itself");
    let kinds: Vec<_> = program.kinds.iter().map(|kind| found.kinds[*kind as usize - FLAGS.len()]).collect();
    assert_eq!(kinds.iter().map(|kind| kind.form as u32).collect::<Vec<_>>(), [STRING, VECTOR, STRING]);
    assert!(kinds.iter().all(|kind| kind.certain == 0));
    // the inner one is of the vector's elements, and that of a variable
    let name = |of: u64| found.names[(of - (1 << 32)) as usize];
    let elements = name(kinds[2].owner);
    assert_eq!((elements.part, name(elements.of).of, name(elements.of).part), (2, DATA + 40, 0));
    let body = program.usables[1] - 80;
    program.kinds = vec![UNKNOWN; 3];
    program.put(DATA + 56, &[numbers + 80 + body + 64]);
    assert_eq!(program.forms()[1], None, "a vector with more room than its block has");
}

#[test]
fn nodes_are_as_many_as_are_counted() {
    let mut program = of_cplusplus();
    let buckets = program.block(5 * 8);
    let nodes: Vec<u64> = (0..3).map(|_| program.block(24)).collect();
    for (at, node) in nodes.iter().enumerate() {
        program.put(*node, &[nodes.get(at + 1).copied().unwrap_or(0)]);
    }
    program.put(DATA, &[buckets, 5, nodes[0], 3, 0x3F80_0000, 0]);
    let hashed = Some(HASHED);
    assert_eq!(program.forms(), [Some(BUCKETS), hashed, hashed, hashed]);
    program.kinds = vec![UNKNOWN; 4];
    program.put(nodes[2], &[nodes[0]]);
    assert!(program.forms().iter().all(Option::is_none), "a ring");
}

#[test]
fn trees_and_lists_lead_back_to_their_holder() {
    let mut program = of_cplusplus();
    let [root, left, right, one, other] = [(); 5].map(|()| program.block(40));
    let (tree, list) = (DATA + 8, DATA + 64);
    program.put(root, &[1, tree, left, right]);
    program.put(left, &[0, root, 0, 0]);
    program.put(right, &[0, root, 0, 0]);
    program.put(tree, &[0, root, left, right, 3]);
    program.put(one, &[other, list]);
    program.put(other, &[list, one]);
    program.put(list, &[one, other, 2, 0, 0]);
    let (node, link) = (Some(TREE), Some(LIST));
    assert_eq!(program.forms(), [node, node, node, link, link]);
}

#[test]
fn a_deque_has_a_map_of_its_blocks() {
    let mut program = of_cplusplus();
    let (map, first, last) = (program.block(64), program.block(512), program.block(512));
    program.put(map + 24, &[first, last]);
    program.put(DATA, &[map, 8, first + 16, first, first + 512, map + 24, last + 64, last, last + 512, map + 32]);
    assert_eq!(program.forms(), [Some(DEQUE); 3]);
}

#[test]
fn a_functions_body_is_told_by_the_symbol_of_its_manager() {
    let (manager, invoker) = (CODE.start + 16, CODE.start + 64);
    for (verdict, form) in [(MANAGER, Some(FUNCTION)), (NO_MANAGER, None), (NAMELESS, Some(FUNCTION))] {
        let mut program = of_cplusplus();
        let body = program.block(32);
        program.put(DATA, &[body, 0, manager, invoker, 0]);
        let (found, ended) = program.look();
        ended.expect("it ends by itself");
        assert_eq!((found.asked, program.kinds[0]), (vec![manager], UNKNOWN));
        program.managers = vec![Manager { address: manager, verdict }];
        assert_eq!(program.forms(), [form]);
    }
}

#[test]
fn what_rust_holds() {
    let mut program = Program::new(OF_RUST);
    let (text, table, inner) = (program.block(32), program.block(8 * 24 + 24), program.block(20));
    program.put(text, &letters(b"thirty letters are a long text"));
    program.put(inner, &letters(b"twenty letters long."));
    let control = table + 8 * 24;
    let taken = [0xFFu8, 0x11, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
    let bytes: Vec<u8> = taken.iter().chain(&[0xFF; 8]).chain(&taken).copied().collect();
    program.put(control, &letters(&bytes));
    // an entry is a String: its room, where it is, its length
    program.put(table + 6 * 24, &[20, inner, 20]);
    program.put(DATA, &[0, 32, text, 30, 0, control, 7, 6, 1, 0]);
    assert_eq!(program.forms(), [Some(VEC_BYTES), Some(TABLE), Some(VEC_BYTES)]);
}

#[test]
fn members_and_shared_objects_have_kinds_of_their_own() {
    let mut program = of_cplusplus();
    let (holder, buffer, control, object) =
        (program.block(24), program.block(100), program.block(24), program.block(64));
    program.kinds = vec![OBJECT, UNKNOWN, SHARED, UNKNOWN];
    program.put(holder, &[buffer, 100]);
    program.put(control, &[1, 0x0000_0001_0000_0001, object]);
    assert_eq!(program.forms(), [None, Some(MEMBER), None, Some(APART)]);
}

#[test]
fn many_structs_alike_have_the_same_container() {
    for (count, form) in [(12, Some(VECTOR)), (3, None)] {
        let mut program = of_cplusplus();
        let blocks: Vec<(u64, u64)> = (0..count).map(|_| (program.block(56), program.block(200))).collect();
        for (holder, body) in &blocks {
            program.put(*holder, &[7, *body, *body + 100, *body + 200]);
        }
        program.put(DATA, &[0]);
        assert!(program.forms().chunks(2).all(|two| two == [None, form]));
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let mut program = of_cplusplus();
    program.block(24);
    program.put(DATA, &[0]);
    program.kinds = vec![17];
    assert_eq!(program.look().1, Err(Failure::BadInput));
    program.kinds = vec![];
    assert_eq!(program.look().1, Err(Failure::BadInput));
}

/// Numbers that look random and are the same each time.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

#[test]
fn any_words_are_looked_through_and_it_ends() {
    let mut random = 5;
    for round in 0..400 {
        let mut program = Program::new(round % 8);
        program.is_big = round % 5 == 0;
        program.word = if round % 7 == 0 { 4 } else { 8 };
        let blocks: Vec<u64> = (0..40).map(|_| program.block(next(&mut random) % 300)).collect();
        program.kinds = blocks.iter().map(|_| (next(&mut random) % 4) as i32 - 1).collect();
        let some = |random: &mut u64| match next(random) % 8 {
            0 => next(random),
            1 => u64::MAX - next(random) % 64,
            2 => CODE.start + next(random) % 256,
            3 => 0x3F80_0000,
            4 => next(random) % 64,
            5 => 0xFBAD_0000 + next(random) % 64,
            _ => blocks[(next(random) % 40) as usize] + 8 * (next(random) % 3),
        };
        let end = HEAP + program.heap.len() as u64;
        for address in (HEAP..end - 8).step_by(8).chain((DATA..DATA + 4096).step_by(8)) {
            let word = some(&mut random);
            program.put(address, &[word]);
        }
        let addresses = (0..256).map(|at| CODE.start + at);
        program.managers = addresses.map(|address| Manager { address, verdict: address % 3 }).collect();
        let (_, ended) = program.look();
        ended.expect("it ends by itself");
    }
}

#[test]
fn holders_that_were_known_before_are_looked_through_too() {
    let mut program = of_cplusplus();
    let (holder, body) = (program.block(40), program.block(31));
    program.kinds[0] = -1;
    program.put(holder, &[0, body, 30, 30]);
    program.put(body, &letters(b"thirty letters are a long text"));
    program.put(DATA, &[0]);
    assert_eq!(program.forms()[1], None);
    program.kinds = vec![-1, UNKNOWN];
    program.known = vec![Known { start: holder, bytes: 40, kind: OBJECT as u64 }];
    assert_eq!(program.forms()[1], Some(STRING));
}
