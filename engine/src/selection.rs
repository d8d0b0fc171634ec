//! Expressions about blocks: a recogniser says by one what its blocks look like, and all of them are looked at
//! together.
//!
//! An expression is a list of nodes that refer to earlier ones; its value is the last one's. What cannot be read has no
//! value, nor has what is computed from it; a comparison of it does not hold.

use std::collections::HashMap;

use crate::blocks::Blocks;
use crate::failure::{filled, joined, push, with_room, Control, Failure, Pace, Result};
use crate::image::{in_threads, Cursor, Image, Span};

/// So many bytes of text are looked at.
const LONGEST_TEXT: u64 = 256;
/// Nodes that depend on each other; nodes; repetitions within each other; steps of one block's evaluation.
const DEEPEST: u32 = 500;
const MOST_NODES: usize = 1 << 14;
const LEVELS: usize = 4;
const MOST_STEPS: u32 = 1 << 20;
/// Pages that are kept by each thread: blocks of a kind lead to a few of them, mostly.
const PAGES: usize = 64;
const PAGE_BITS: u32 = 12;
/// Blocks that one thread looks at together.
const TOGETHER: usize = 1 << 13;

/// What is computed of up to three others and a number, by `operation`: see `Evaluation::computed`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Node {
    pub operation: u32,
    pub first: u32,
    pub second: u32,
    pub third: u32,
    pub number: u64,
}

/// How many others each operation refers to, by its number.
const OPERANDS: [u32; 23] = [0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 3, 1, 2, 2, 0, 2, 2];
pub const NUMBER: u32 = 0;
pub const ADDRESS: u32 = 1;
pub const SIZE: u32 = 2;
pub const PLACE: u32 = 3;
pub const LOAD: u32 = 4;
pub const ADD: u32 = 5;
pub const SUBTRACT: u32 = 6;
pub const MULTIPLY: u32 = 7;
pub const BITS: u32 = 8;
pub const UP: u32 = 9;
pub const DOWN: u32 = 10;
pub const EQUAL: u32 = 11;
pub const LESS: u32 = 12;
pub const BOTH: u32 = 13;
pub const EITHER: u32 = 14;
pub const NOT: u32 = 15;
pub const CHOICE: u32 = 16;
pub const WITHIN: u32 = 17;
pub const FIRST: u32 = 18;
pub const TEXT: u32 = 19;
pub const BASE: u32 = 20;
pub const REMAINDER: u32 = 21;
pub const AT_MOST: u32 = 22;

const NOT_KEPT: u8 = 0;
const FOR_A_REPETITION: u8 = 1;
const FOR_A_ROW: u8 = 2;

pub struct Expression<'a> {
    nodes: &'a [Node],
    /// Sets of numbers: a node has where its own begins in these and how many ranges it has, which are in order.
    ranges: &'a [Span],
    /// Of each node whether its value is kept for others, as several refer to it: not at all, for a repetition, or for
    /// the row.
    keeping: Vec<u8>,
}

impl Expression<'_> {
    pub fn new<'a>(nodes: &'a [Node], ranges: &'a [Span]) -> Result<Expression<'a>> {
        if nodes.is_empty() || nodes.len() > MOST_NODES {
            return Err(Failure::BadInput);
        }
        // the repetitions that each depends on, as bits
        let (mut levels, mut depths) = (with_room(nodes.len())?, with_room(nodes.len())?);
        let mut uses = filled(nodes.len(), 0u32)?;
        for (at, node) in nodes.iter().enumerate() {
            let count = *OPERANDS.get(node.operation as usize).ok_or(Failure::BadInput)?;
            let operands = &[node.first, node.second, node.third][..count as usize];
            if operands.iter().any(|each| *each as usize >= at) {
                return Err(Failure::BadInput);
            }
            operands.iter().for_each(|each| uses[*each as usize] += 1);
            let mut level = operands.iter().fold(0u8, |all, each| all | levels[*each as usize]);
            let depth = 1 + operands.iter().map(|each| depths[*each as usize]).max().unwrap_or(0u32);
            let right = match node.operation {
                PLACE => {
                    level = 1u8.checked_shl(node.number as u32).unwrap_or(0);
                    node.number < LEVELS as u64
                }
                FIRST => {
                    level &= !1u8.checked_shl(node.number as u32).unwrap_or(0);
                    node.number < LEVELS as u64
                }
                LOAD => matches!(node.number, 0 | 1 | 2 | 4 | 8),
                WITHIN => set_of(ranges, node.number).is_some(),
                TEXT => node.number < 2,
                _ => true,
            };
            if !right || depth > DEEPEST {
                return Err(Failure::BadInput);
            }
            levels.push(level);
            depths.push(depth);
        }
        let mut keeping = with_room(nodes.len())?;
        let kept_for = |(uses, level): (&u32, &u8)| match (*uses > 1, *level == 0) {
            (false, _) => NOT_KEPT,
            (true, false) => FOR_A_REPETITION,
            (true, true) => FOR_A_ROW,
        };
        keeping.extend(uses.iter().zip(&levels).map(kept_for));
        Ok(Expression { nodes, ranges, keeping })
    }
}

fn set_of(ranges: &[Span], number: u64) -> Option<&[Span]> {
    let (first, count) = ((number >> 32) as usize, (number & 0xFFFF_FFFF) as usize);
    ranges.get(first..)?.get(..count)
}

/// What an expression is about.
pub enum Rows<'a> {
    Blocks(&'a Blocks),
    /// Other places, each with a number and where what it lies in begins.
    Places(&'a [u64], &'a [u64], &'a [u64]),
}

impl Rows<'_> {
    fn len(&self) -> usize {
        match self {
            Rows::Blocks(blocks) => blocks.len(),
            Rows::Places(places, _, _) => places.len(),
        }
    }

    /// Where it is, what is usable of it, and where what it lies in begins.
    fn at(&self, number: usize, word: u64) -> (u64, u64, u64) {
        match self {
            Rows::Blocks(blocks) => {
                let start = blocks.starts[number];
                // the last address of a block in a mapping of its own is not the next block's
                (start, (blocks.ends[number] - start).saturating_add(1) & !(word - 1), 0)
            }
            Rows::Places(places, sizes, bases) => (places[number], sizes[number], bases[number]),
        }
    }
}

struct Evaluation<'a> {
    expression: &'a Expression<'a>,
    image: &'a Image,
    near: Cursor<'a>,
    far: Vec<Cursor<'a>>,
    address: u64,
    size: u64,
    base: u64,
    places: [u64; LEVELS],
    steps: u32,
    /// What was computed already, and in which turn.
    known: Vec<(u64, Option<u64>)>,
    /// The turn in which this row began, and that of this repetition.
    row: u64,
    turn: u64,
}

impl<'a> Evaluation<'a> {
    fn new(expression: &'a Expression<'a>, image: &'a Image) -> Result<Evaluation<'a>> {
        let mut far = with_room(PAGES)?;
        for _ in 0..PAGES {
            far.push(Cursor::leaping()?);
        }
        let known = filled(expression.nodes.len(), (0, None))?;
        let near = Cursor::new()?;
        Ok(Evaluation {
            expression,
            image,
            near,
            far,
            address: 0,
            size: 0,
            base: 0,
            places: [0; LEVELS],
            steps: 0,
            known,
            row: 0,
            turn: 0,
        })
    }

    fn of(&mut self, (address, size, base): (u64, u64, u64)) -> Option<u64> {
        (self.address, self.size, self.base, self.steps) = (address, size, base, 0);
        self.turn += 1;
        self.row = self.turn;
        self.value(self.expression.nodes.len() as u32 - 1)
    }

    fn bytes(&mut self, address: u64, size: usize) -> Option<&[u8]> {
        let is_own = address.wrapping_sub(self.address) < self.size;
        let page = (address >> PAGE_BITS) as usize % PAGES;
        let cursor = if is_own { &mut self.near } else { &mut self.far[page] };
        self.image.bytes_at(address, size, cursor)
    }

    fn load(&mut self, address: u64, size: u64) -> Option<u64> {
        let size = if size == 0 { self.image.word } else { size };
        let image = self.image;
        self.bytes(address, size as usize).map(|bytes| image.number(bytes))
    }

    fn value(&mut self, at: u32) -> Option<u64> {
        let node = self.expression.nodes[at as usize];
        match node.operation {
            NUMBER => return Some(node.number),
            ADDRESS => return Some(self.address),
            SIZE => return Some(self.size),
            BASE => return Some(self.base),
            PLACE => return Some(self.places[node.number as usize]),
            _ => (),
        }
        let keeping = self.expression.keeping[at as usize];
        let since = if keeping == FOR_A_ROW { self.row } else { self.turn };
        if keeping != NOT_KEPT && self.known[at as usize].0 >= since {
            return self.known[at as usize].1;
        }
        self.steps += 1;
        let value = if self.steps < MOST_STEPS { self.computed(node) } else { None };
        if keeping != NOT_KEPT {
            self.known[at as usize] = (since, value);
        }
        value
    }

    fn holds(&mut self, at: u32) -> bool {
        self.value(at).is_some_and(|value| value != 0)
    }

    fn computed(&mut self, node: Node) -> Option<u64> {
        let Node { operation, first, second, third, number } = node;
        let truth = |holds: bool| Some(u64::from(holds));
        match operation {
            LOAD => {
                let address = self.value(first)?;
                return self.load(address, number);
            }
            BOTH => return truth(self.holds(first) && self.holds(second)),
            EITHER => return truth(self.holds(first) || self.holds(second)),
            NOT => return truth(!self.holds(first)),
            CHOICE => return if self.holds(first) { self.value(second) } else { self.value(third) },
            // the first place below a number where something holds
            FIRST => {
                let count = self.value(first)?;
                let level = number as usize;
                let before = self.places[level];
                let mut found = None;
                for place in 0..count {
                    self.places[level] = place;
                    self.turn += 1;
                    if self.holds(second) {
                        found = Some(place);
                        break;
                    }
                    if self.steps >= MOST_STEPS {
                        break;
                    }
                    self.steps += 1;
                }
                self.places[level] = before;
                self.turn += 1;
                return found;
            }
            _ => (),
        }
        let one = self.value(first)?;
        if operation == WITHIN {
            let ranges = set_of(self.expression.ranges, number)?;
            let at = ranges.partition_point(|range| range.start <= one);
            return truth(at > 0 && one < ranges[at - 1].end);
        }
        let other = self.value(second)?;
        match operation {
            ADD => Some(one.wrapping_add(other)),
            SUBTRACT => Some(one.wrapping_sub(other)),
            MULTIPLY => Some(one.wrapping_mul(other)),
            REMAINDER => one.checked_rem(other),
            BITS => Some(one & other),
            UP => u32::try_from(other).ok().and_then(|bits| one.checked_shl(bits)),
            DOWN => u32::try_from(other).ok().and_then(|bits| one.checked_shr(bits)),
            EQUAL => truth(one == other),
            LESS => truth(one < other),
            AT_MOST => truth(one <= other),
            TEXT => {
                let bytes = if other <= LONGEST_TEXT { self.bytes(one, other as usize)? } else { return None };
                truth(if number == 0 { bytes.iter().all(|byte| is_plain(*byte)) } else { is_java_text(bytes) })
            }
            _ => None,
        }
    }
}

/// Of text in ASCII.
pub fn is_plain(byte: u8) -> bool {
    matches!(byte, 32..=126 | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0x1b)
}

/// Java's own UTF-8 has surrogates, and no zero. What is as long as is looked at may end within a letter.
fn is_java_text(bytes: &[u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let (length, least) = match bytes[at] {
            0 => return false,
            1..=0x7F => (1, 0),
            0xC2..=0xDF => (2, 0x80),
            0xE0 => (3, 0xA0),
            0xE1..=0xEF => (3, 0x80),
            0xF0 => (4, 0x90),
            0xF1..=0xF4 => (4, 0x80),
            _ => return false,
        };
        let end = bytes.len().min(at + length);
        let most = if bytes[at] == 0xF4 { 0x8F } else { 0xBF };
        for (place, byte) in bytes[at + 1..end].iter().enumerate() {
            let within = if place == 0 { (least..=most).contains(byte) } else { (0x80..=0xBF).contains(byte) };
            if !within {
                return false;
            }
        }
        if end < at + length && bytes.len() as u64 != LONGEST_TEXT {
            return false;
        }
        at += length;
    }
    true
}

/// The numbers of those for which the expression is not 0, or (as `column`) its values; of those that are `asked`, or
/// of all if none is.
fn looked_at<R: Send>(
    rows: &Rows,
    asked: &[u32],
    threads: usize,
    control: &Control,
    image: &Image,
    expression: &Expression,
    take: impl Fn(&mut Vec<R>, u32, Option<u64>) -> Result<()> + Sync,
) -> Result<Vec<R>> {
    if asked.iter().any(|number| *number as usize >= rows.len()) || rows.len() > u32::MAX as usize {
        return Err(Failure::BadInput);
    }
    let count = if asked.is_empty() { rows.len() } else { asked.len() };
    let mut parts = with_room(count / TOGETHER + 1)?;
    parts.extend((0..count).step_by(TOGETHER).map(|at| at..count.min(at + TOGETHER)));
    let found = in_threads(&parts, threads, |part, _| {
        let mut evaluation = Evaluation::new(expression, image)?;
        let mut taken = Vec::new();
        for at in part.clone() {
            let number = if asked.is_empty() { at as u32 } else { asked[at] };
            take(&mut taken, number, evaluation.of(rows.at(number as usize, image.word)))?;
        }
        control.advance(part.len() as u64)?;
        Ok(taken)
    })?;
    joined(found)
}

pub fn select(
    image: &Image,
    expression: &Expression,
    rows: &Rows,
    asked: &[u32],
    threads: usize,
    control: &Control,
) -> Result<Vec<u32>> {
    looked_at(rows, asked, threads, control, image, expression, |taken, number, value| match value {
        None | Some(0) => Ok(()),
        Some(_) => push(taken, number),
    })
}

/// 0 where there is no value.
pub fn column(
    image: &Image,
    expression: &Expression,
    rows: &Rows,
    asked: &[u32],
    threads: usize,
    control: &Control,
) -> Result<Vec<u64>> {
    looked_at(rows, asked, threads, control, image, expression, |taken, _, value| push(taken, value.unwrap_or(0)))
}

/// Numbers by a value of each: in order of the values, those of one value in their own order. Without numbers of their
/// own they are those of the values' places, without those whose value is 0.
pub struct Grouped {
    pub numbers: Vec<u32>,
    pub values: Vec<u64>,
    /// Where the numbers of each value end.
    pub ends: Vec<u32>,
}

pub fn grouped(numbers: &[u32], of: &[u64], control: &Control) -> Result<Grouped> {
    if (!numbers.is_empty() && numbers.len() != of.len()) || of.len() > u32::MAX as usize {
        return Err(Failure::BadInput);
    }
    let mut pace = Pace::new(control);
    // each value's group, and how many have it
    let mut groups: HashMap<u64, (u32, u32)> = HashMap::new();
    for value in of.iter().filter(|value| **value != 0 || !numbers.is_empty()) {
        pace.step()?;
        groups.try_reserve(1)?;
        groups.entry(*value).or_insert((0, 0)).1 += 1;
    }
    let mut values: Vec<u64> = with_room(groups.len())?;
    values.extend(groups.keys());
    values.sort_unstable();
    let mut ends = with_room(values.len())?;
    let mut end = 0;
    for value in &values {
        let group = groups.get_mut(value).expect("one of them");
        group.0 = end;
        end += group.1;
        ends.push(end);
    }
    let mut found = filled(end as usize, 0)?;
    for (at, value) in of.iter().enumerate() {
        pace.step()?;
        if let Some(group) = groups.get_mut(value) {
            found[group.0 as usize] = numbers.get(at).copied().unwrap_or(at as u32);
            group.0 += 1;
        }
    }
    Ok(Grouped { numbers: found, values, ends })
}

/// Where neighbours of another kind begin.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub first: u32,
    pub kind: i32,
}

#[derive(Default)]
pub struct Stretches {
    pub rows: Vec<Stretch>,
    /// Of each range: where its rows end, and the bytes of all of its blocks.
    pub ends: Vec<u32>,
    pub bytes: Vec<u64>,
}

/// Neighbours of one kind, `kinds` has one for each block, in each range of blocks' numbers. Those between the first
/// and the last ones that are smaller than `least` bytes are, with neighbours that are so too, of no kind: -1.
pub fn stretches(
    blocks: &Blocks,
    kinds: &[i32],
    ranges: &[[u32; 2]],
    least: u64,
    control: &Control,
) -> Result<Stretches> {
    let mut pace = Pace::new(control);
    let mut found = Stretches::default();
    for [first, stop] in ranges {
        let (first, stop) = (*first as usize, *stop as usize);
        let kinds = kinds.get(first..stop).ok_or(Failure::BadInput)?;
        let sizes = blocks.sizes.get(first..stop).ok_or(Failure::BadInput)?;
        let (mut at, mut bytes, mut is_small) = (0, 0u64, false);
        while at < kinds.len() {
            let (begin, kind, mut size) = (at, kinds[at], 0u64);
            while at < kinds.len() && kinds[at] == kind {
                pace.step()?;
                size = size.saturating_add(sizes[at]);
                at += 1;
            }
            bytes = bytes.saturating_add(size);
            let hides = size < least && begin > 0 && at < kinds.len();
            if !(hides && is_small) {
                let kind = if hides { -1 } else { kind };
                push(&mut found.rows, Stretch { first: (first + begin) as u32, kind })?;
            }
            is_small = hides;
        }
        push(&mut found.ends, u32::try_from(found.rows.len()).map_err(|_| Failure::BadInput)?)?;
        push(&mut found.bytes, bytes)?;
    }
    Ok(found)
}

/// Puts a value in these places where there is none yet, which is -1.
pub fn fill(values: &mut [i32], places: &[u32], value: i32) -> Result<()> {
    for place in places {
        let slot = values.get_mut(*place as usize).ok_or(Failure::BadInput)?;
        if *slot == -1 {
            *slot = value;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Piece;

    const AT: u64 = 0x10000;

    fn image(words: &[u64]) -> Image {
        let mut image = Image::new(8, cfg!(target_endian = "big"));
        let data = words.as_ptr().cast();
        image.set(&[Piece { address: AT, bytes: 8 * words.len() as u64, data, fd: -1, offset: 0 }]).unwrap();
        image
    }

    fn node(operation: u32, first: u32, second: u32, number: u64) -> Node {
        Node { operation, first, second, third: 0, number }
    }

    fn selected(words: &[u64], nodes: &[Node], ranges: &[Span]) -> Vec<u32> {
        let starts: Vec<u64> = (0..words.len() as u64 / 2).map(|at| AT + 16 * at).collect();
        let ends: Vec<u64> = starts.iter().map(|start| start + 16).collect();
        let blocks = Blocks::new(&starts, &ends, &vec![16; starts.len()]).unwrap();
        let expression = Expression::new(nodes, ranges).unwrap();
        let image = image(words);
        select(&image, &expression, &Rows::Blocks(&blocks), &[], 2, &Control::default()).unwrap()
    }

    #[test]
    fn a_neighbour_leads_back() {
        // the first and the third lead to each other, the second nowhere
        let words = [AT + 32, 0, 1, 0, AT, 0];
        let nodes = [
            node(ADDRESS, 0, 0, 0),
            node(LOAD, 0, 0, 0),
            node(LOAD, 1, 0, 8),
            node(EQUAL, 2, 0, 0),
            node(NOT, 3, 0, 0),
        ];
        assert_eq!(selected(&words, &nodes[..4], &[]), [0, 2]);
        assert_eq!(selected(&words, &nodes, &[]), [1]);
    }

    #[test]
    fn the_first_word_of_a_set() {
        let words = [7, 70, 5, 6, 50, 9];
        let nodes = [
            node(NUMBER, 0, 0, 2),
            node(PLACE, 0, 0, 0),
            node(NUMBER, 0, 0, 3),
            node(UP, 1, 2, 0),
            node(ADDRESS, 0, 0, 0),
            node(ADD, 3, 4, 0),
            node(LOAD, 5, 0, 8),
            node(WITHIN, 6, 0, 2),
            node(FIRST, 0, 7, 0),
            node(EQUAL, 8, 0, 0),
            node(NUMBER, 0, 0, 1),
            node(EQUAL, 8, 10, 0),
        ];
        let ranges = [Span { start: 6, end: 10 }, Span { start: 50, end: 51 }];
        assert_eq!(selected(&words, &nodes, &ranges), [1]);
    }

    #[test]
    fn what_refers_to_later_nodes_is_refused() {
        for nodes in [&[][..], &[node(LOAD, 0, 0, 8)], &[node(99, 0, 0, 0)], &[node(PLACE, 0, 0, 9)]] {
            assert!(Expression::new(nodes, &[]).is_err());
        }
    }

    #[test]
    fn numbers_by_their_values() {
        let found = grouped(&[10, 11, 12, 13], &[7, 5, 7, 9], &Control::default()).unwrap();
        assert_eq!((found.numbers, found.values, found.ends), (vec![11, 10, 12, 13], vec![5, 7, 9], vec![1, 3, 4]));
        assert_eq!(grouped(&[], &[0, 4, 0, 4], &Control::default()).unwrap().numbers, [1, 3]);
        assert!(grouped(&[1], &[], &Control::default()).is_err());
        let mut kinds = [-1, 3, -1];
        fill(&mut kinds, &[0, 1], 8).unwrap();
        assert_eq!(kinds, [8, 3, -1]);
        assert!(fill(&mut kinds, &[3], 8).is_err());
    }

    #[test]
    fn neighbours_of_one_kind() {
        let mut blocks = Blocks::default();
        blocks.sizes = vec![16, 16, 16, 64, 16, 16, 64, 64, 16];
        let kinds = [5, 5, 6, 5, 6, 7, 5, 5, 6];
        let told = |least, ranges: &[[u32; 2]]| {
            let found = stretches(&blocks, &kinds, ranges, least, &Control::default()).unwrap();
            let rows: Vec<_> = found.rows.iter().map(|row| (row.first, row.kind)).collect();
            (rows, found.ends, found.bytes)
        };
        let all = vec![(0, 5), (2, 6), (3, 5), (4, 6), (5, 7), (6, 5), (8, 6)];
        assert_eq!(told(0, &[[0, 9]]), (all, vec![7], vec![288]));
        let large = vec![(0, 5), (2, -1), (3, 5), (4, -1), (6, 5), (8, 6)];
        assert_eq!(told(32, &[[0, 9]]), (large, vec![6], vec![288]));
        // the first and the last ones of a range may go on beside it
        assert_eq!(told(32, &[[4, 6], [6, 6], [2, 3]]), (vec![(4, 6), (5, 7), (2, 6)], vec![2, 2, 3], vec![32, 0, 16]));
        for wrong in [[3, 2], [8, 10]] {
            assert!(stretches(&blocks, &kinds, &[wrong], 0, &Control::default()).is_err());
        }
    }

    #[test]
    fn java_has_letters_of_its_own() {
        for good in [&b"java/lang"[..], b"\xED\xA0\x80", "ä".as_bytes(), b"\xC2\x80"] {
            assert!(is_java_text(good), "{good:?}");
        }
        for bad in [&b"a\0"[..], b"\xC3", b"\x80", b"\xE0\x80\x80", b"\xF5\x80\x80\x80"] {
            assert!(!is_java_text(bad), "{bad:?}");
        }
    }
}
