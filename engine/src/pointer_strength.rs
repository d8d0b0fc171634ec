//! How sure it is that a word is a pointer to a block: its start is what malloc gave, its inside may be chance or old.
//!
//! Some insides are as good as the start, by what the block itself holds (the same that memcheck knows by
//! --leak-check-heuristics). glibc rounds sizes up: what was asked for lies within a range.

use std::collections::{BTreeMap, BTreeSet};

use crate::blocks::Blocks;
use crate::container_bodies::fits;
use crate::edges::target;
use crate::failure::{append, push, Control, Failure, Pace, Result};
use crate::graph::Graph;
use crate::image::{Cursor, Image};
use crate::interior_pointers::{insides, leads_back};

/// Bytes of each entry in a PHP array, and of its two places in the table in front.
const BUCKET: u64 = 32;
const SLOTS: u64 = 8;
/// The same of an array without keys, since 8.2 and before.
const PACKED: [u64; 2] = [16, 32];
const FEWEST: u64 = 8;
const LOOKED_AT: usize = 256;
const SLACK: u64 = 32;
/// Control bytes of Rust's tables that are repeated behind their end; what stands in a free place.
const GROUP: u64 = 16;
const DELETED: u8 = 0x80;
const EMPTY: u8 = 0xFF;
/// Bytes in front of what perl's struct opslab (since 5.34) hands out.
const OP_SLAB: u64 = 40;
const SLICES: u64 = 128;
const MOST_SLICES: u64 = 1 << 16;
/// Of a slab of glib's: so much is left to malloc at its end, and from there the ring of all slabs is so far ahead.
const SLICES_BEHIND: u64 = 16;
const SLAB_INFO: u64 = 48;
const LINE: u64 = 64;
/// LUA_TTHREAD.
const LUA_THREAD: u8 = 8;
/// Bytes; words that are looked at.
const SMALLEST_POOL: u64 = 256;
const POOL_HEADER: u64 = 5;
/// Words by which a block may be larger than was asked for, and of the shortest chunk.
const ROUNDED: u64 = 3;
const SHORTEST: u64 = 4;
const LONGEST_COUNT: u64 = 1 << 40;
/// Bytes in front of new T[n] where T is aligned to as many.
const WIDE_COOKIES: [u64; 3] = [16, 32, 64];
/// So many blocks of a size that are pointed to at one offset are no chance.
const MANY_ALIKE: usize = 8;

pub const EXECUTABLE: u64 = 1;
pub const ABSENT: u64 = 2;

/// A mapping of a file that nobody else changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Constant {
    pub start: u64,
    pub end: u64,
    /// EXECUTABLE, or ABSENT from this image.
    pub flags: u64,
}

/// What a program has in front of a block.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Front {
    pub bytes: u32,
    /// 1: what comes after it is handed out in small pieces.
    pub holds_pieces: u32,
}

/// A pointer that is judged.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Judged {
    pub block: u64,
    pub value: u64,
    /// Where it lies, if it may be a link; else 0.
    pub at: u64,
}

/// Bytes in front of a text of redis: twice a number of 1 to 8 bytes, or none, and one that tells which.
pub const SDS_HEADERS: [u64; 5] = [1, 3, 5, 9, 17];
pub const LONGEST_SDS: usize = 17;

/// What stands in front of a text of redis.
pub struct Sds {
    pub length: u64,
    /// Without the zero at the end.
    pub room: u64,
}

/// None: that is no such header. `number`: of bytes of the image.
pub fn sds(header: &[u8], number: impl Fn(&[u8]) -> u64) -> Option<Sds> {
    let kind = SDS_HEADERS.iter().position(|bytes| *bytes == header.len() as u64)?;
    let (told, numbers) = header.split_last()?;
    if usize::from(told & 7) != kind {
        return None;
    }
    let (length, room) = numbers.split_at(numbers.len() / 2);
    let [length, room] = if kind == 0 { [u64::from(told >> 3); 2] } else { [length, room].map(number) };
    (length <= room).then_some(Sds { length, room })
}

pub struct Ground<'a> {
    pub image: &'a Image,
    pub blocks: &'a Blocks,
    /// In order.
    pub constants: &'a [Constant],
    /// Of each block; empty: none has one.
    pub fronts: &'a [Front],
}

/// Judges pointers into blocks.
struct Strength<'a> {
    ground: &'a Ground<'a>,
    word: u64,
    cursor: Cursor<'a>,
    /// By the block, as far as somebody asked.
    pools: BTreeMap<u64, bool>,
}

impl<'a> Strength<'a> {
    fn new(ground: &'a Ground<'a>) -> Result<Strength<'a>> {
        if !(ground.fronts.is_empty() || ground.fronts.len() == ground.blocks.len()) {
            return Err(Failure::BadInput);
        }
        Ok(Strength { ground, word: ground.image.word, cursor: Cursor::leaping()?, pools: BTreeMap::new() })
    }

    fn word_at(&mut self, address: u64) -> Option<u64> {
        self.ground.image.word_at(address, &mut self.cursor)
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.ground.image.fill_across(address, bytes)
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn front(&self, block: u64) -> Front {
        self.ground.fronts.get(block as usize).copied().unwrap_or(Front { bytes: 0, holds_pieces: 0 })
    }

    fn is_definite(&mut self, judged: Judged) -> bool {
        let Judged { block, value, at } = judged;
        let (start, word) = (self.ground.blocks.starts[block as usize], self.word);
        let usable = self.ground.blocks.ends[block as usize] - start;
        let Some(past) = value.checked_sub(start).filter(|past| *past <= usable) else { return false };
        let front = u64::from(self.front(block).bytes);
        let is_base = past % word == 0 && past < usable;
        past == 0
            || (past == word && usable >= word && self.has_count(start, usable - word))
            || (WIDE_COOKIES.contains(&past) && value % past == 0 && self.has_wide_cookie(value, usable - past, past))
            || ((past == 2 * word || past == 4 * word) && self.is_collected(value))
            || self.is_by_design(start, usable, past)
            || (front > 0 && past == front)
            || (front > 0
                && past > front
                && self.is_by_design(start.saturating_add(front), usable - front, past - front))
            || (past == 3 * word && self.is_old_string(start, usable))
            || (is_base && self.is_vtable_at(start) && self.is_vtable_at(value))
            || self.is_pool(block)
            || (at != 0 && leads_back(self.ground.image, value, at, &mut self.cursor))
    }

    /// Whether something that is known to be pointed to `past` its start begins at `start`.
    fn is_by_design(&mut self, start: u64, usable: u64, past: u64) -> bool {
        self.has_size(start, usable, past)
            || self.is_sds(start, usable, past)
            || self.is_zend_array(start, usable, past)
            || self.is_table(start, usable, past)
            || self.keeps_the_start(start, usable, past)
            || self.is_lua_state(start, usable, past)
    }

    /// Whatever points into a pool points to a piece that was handed out.
    fn is_pool(&mut self, block: u64) -> bool {
        if let Some(known) = self.pools.get(&block) {
            return *known;
        }
        let (start, front) = (self.ground.blocks.starts[block as usize], self.front(block));
        let usable = self.ground.blocks.ends[block as usize] - start;
        let is_pool = self.is_op_slab(start, usable)
            || self.keeps_the_end(start, usable)
            || self.is_slab(start, usable)
            || front.holds_pieces != 0;
        self.pools.insert(block, is_pool);
        is_pool
    }

    /// How many bytes were asked for stands in front, as in sqlite's blocks and some of MariaDB's; or how many these
    /// are with what is in front, as in those that node gives zlib.
    fn has_size(&mut self, start: u64, usable: u64, past: u64) -> bool {
        let size = if past == 8 || past == 16 { self.word_at(start.saturating_add(past - 8)) } else { None };
        let whole = if past == 16 { self.word_at(start) } else { None };
        size.is_some_and(|size| fits(past.saturating_add(size), usable)) || whole.is_some_and(|size| fits(size, usable))
    }

    /// In front of a text its length and its room, as in redis.
    fn is_sds(&mut self, start: u64, usable: u64, past: u64) -> bool {
        let mut header = [0; LONGEST_SDS];
        let Some(header) = header.get_mut(..past as usize) else { return false };
        if past >= usable || !self.read(start, header) {
            return false;
        }
        let Some(Sds { length, room }) = sds(header, |bytes| self.number(bytes)) else { return false };
        let mut end = [1];
        fits(room.saturating_add(past + 1), usable)
            && self.read(start.saturating_add(past + length), &mut end)
            && end == [0]
    }

    /// Places of the entries by hash, or none where they have no keys, in front of these.
    fn is_zend_array(&mut self, start: u64, usable: u64, past: u64) -> bool {
        let mut table = [0; LOOKED_AT];
        if past == SLOTS {
            let slots = &mut table[..SLOTS as usize];
            if self.read(start, slots) && slots.iter().all(|byte| *byte == EMPTY) {
                let rest = usable.saturating_sub(past);
                return PACKED.iter().any(|size| rest / size >= FEWEST && rest % size < SLACK);
            }
        }
        let entries = past / SLOTS;
        if entries < FEWEST || !entries.is_power_of_two() || past % SLOTS != 0 {
            return false;
        }
        let table = &mut table[..past.min(LOOKED_AT as u64) as usize];
        let is_place = |place: &[u8]| {
            let number = self.number(place);
            number < entries || number == 0xFFFF_FFFF
        };
        fits(past.saturating_add(BUCKET * entries), usable) && self.read(start, table) && table.chunks(4).all(is_place)
    }

    /// Whether it is one of Rust's hash tables, with its control bytes `past` its start.
    fn is_table(&mut self, start: u64, usable: u64, past: u64) -> bool {
        let most = past.min(usable.saturating_sub(past + GROUP));
        if past % GROUP != 0 || most < 4 {
            return false;
        }
        (2..64 - most.leading_zeros())
            .map(|bits| 1u64 << bits)
            .any(|places| fits(past + places + GROUP, usable) && self.has_control(start + past, places))
    }

    fn has_control(&self, at: u64, places: u64) -> bool {
        let (mut first, mut again) = ([0; LOOKED_AT], [0; 32]);
        let first = &mut first[..places.min(LOOKED_AT as u64) as usize];
        if !self.read(at, first) {
            return false;
        }
        let repeats = if places < GROUP {
            let again = &mut again[..(GROUP + places) as usize];
            let gap = places as usize..GROUP as usize;
            self.read(at, again) && again[gap].iter().all(|byte| *byte == EMPTY) && again[GROUP as usize..] == *first
        } else {
            let again = &mut again[..GROUP as usize];
            self.read(at + places, again) && *again == first[..GROUP as usize]
        };
        repeats && first.contains(&EMPTY) && first.iter().all(|byte| *byte < DELETED || [EMPTY, DELETED].contains(byte))
    }

    /// Whoever aligns by hand, or puts a header behind a buffer, keeps what free() wants: in front of the place
    /// (MariaDB's LF_DYNARRAY), or as the header's first or second word (GCC's struct _cpp_buff). What is aligned to a
    /// line of the processor's cache may have it further behind (ld.so's struct dlfo_mappings_segment, haproxy's struct
    /// pool_head).
    fn keeps_the_start(&mut self, start: u64, usable: u64, past: u64) -> bool {
        let word = self.word;
        if past == 0 || past % word != 0 {
            return false;
        }
        let last = past + if start.wrapping_add(past) % LINE != 0 { word } else { LINE };
        let (mut at, end) = (past - word, (last + word).min(usable / word * word));
        let mut found = false;
        while at < end {
            match self.word_at(start.saturating_add(at)) {
                Some(value) => found |= value == start,
                None => return false,
            }
            at += word;
        }
        found
    }

    /// lua_State since 5.2, which has a word of the host's in front: its type, and the global state, which lies behind
    /// the state of the main thread.
    fn is_lua_state(&mut self, start: u64, usable: u64, past: u64) -> bool {
        let word = self.word;
        let mut kind = [0];
        if past != word
            || usable < 5 * word
            || !self.read(start.saturating_add(2 * word), &mut kind)
            || kind != [LUA_THREAD]
        {
            return false;
        }
        let Some(common) = self.word_at(start.saturating_add(4 * word)) else { return false };
        if start < common && common < start.saturating_add(usable) {
            return true;
        }
        let mut size = usable.saturating_sub(SLACK);
        while size <= usable {
            let main = common.wrapping_sub(size);
            if main.checked_add(4 * word).and_then(|at| self.word_at(at)) == Some(common) {
                return true;
            }
            size += word;
        }
        false
    }

    /// Pools of nginx and PostgreSQL, and obstacks know where they end.
    fn keeps_the_end(&mut self, start: u64, usable: u64) -> bool {
        let words: Option<Vec<u64>> =
            (0..POOL_HEADER).map(|at| self.word_at(start.saturating_add(at * self.word))).collect();
        let ends = |end: &u64| end.checked_sub(start).is_some_and(|size| fits(size, usable));
        usable >= SMALLEST_POOL && words.is_some_and(|words| words.iter().any(ends))
    }

    /// struct opslab of perl: the next one, the first of them, which is its own first; how many words there are to be
    /// handed out.
    fn is_op_slab(&mut self, start: u64, usable: u64) -> bool {
        if usable < OP_SLAB + 8 {
            return false;
        }
        let words = self.word_at(start.saturating_add(32)).unwrap_or(0) >> 16 & 0xFFFF;
        let first = self.word_at(start.saturating_add(8)).unwrap_or(0);
        let own = first.checked_add(8).and_then(|at| self.word_at(at));
        first != 0 && fits(OP_SLAB + 8 * words, usable) && own == Some(first)
    }

    /// Pages of g_slice_alloc() (glib before 2.76): struct _SlabInfo at the end is in a ring of such.
    fn is_slab(&mut self, start: u64, usable: u64) -> bool {
        let page = 1u64.checked_shl(64 - usable.leading_zeros()).unwrap_or(0);
        if !(SLICES..=MOST_SLICES).contains(&page) || start % page != 0 || !fits(page - SLICES_BEHIND, usable) {
            return false;
        }
        let info = start.saturating_add(page - SLAB_INFO);
        let (after, before) =
            (self.word_at(info.saturating_add(16)).unwrap_or(0), self.word_at(info.saturating_add(24)).unwrap_or(0));
        after != 0
            && before != 0
            && self.word_at(after.saturating_add(24)) == Some(info)
            && self.word_at(before.saturating_add(16)) == Some(info)
    }

    /// new T[n] keeps n in front where T has a destructor; others keep the length.
    fn has_count(&mut self, start: u64, rest: u64) -> bool {
        let count = self.word_at(start).unwrap_or(0);
        // the largest multiple of it that is not longer than the rest
        count != 0 && count <= rest.min(LONGEST_COUNT) && rest % count < ROUNDED * self.word
    }

    /// The count of T that are aligned to so many bytes stands right in front of the first.
    fn has_wide_cookie(&mut self, first: u64, rest: u64, aligned: u64) -> bool {
        let count = self.word_at(first.wrapping_sub(self.word)).unwrap_or(0);
        if count == 0 || count > rest / aligned {
            return false;
        }
        // memalign() leaves what is too short to be a chunk
        rest - rest / count / aligned * aligned * count < (ROUNDED + SHORTEST) * self.word
    }

    /// std::string before C++11's ABI: length, capacity and the count of users stand in front of the text.
    fn is_old_string(&mut self, start: u64, usable: u64) -> bool {
        let (length, capacity) =
            (self.word_at(start).unwrap_or(0), self.word_at(start.saturating_add(self.word)).unwrap_or(0));
        let Some(room) = usable.checked_sub(3 * self.word + 1) else { return false };
        length <= capacity && capacity <= room && room - capacity < ROUNDED * self.word
    }

    /// CPython puts two words of its collector's in front of objects, and since 3.11 two more where their dict is
    /// managed: what follows is a count and a type, whose own type's type is itself.
    fn is_collected(&mut self, value: u64) -> bool {
        let word = self.word;
        let mut next = |address: u64| address.checked_add(word).and_then(|at| self.word_at(at)).unwrap_or(0);
        let kind = next(value);
        let kinds = if kind != 0 { next(kind) } else { 0 };
        kinds != 0 && next(kinds) == kinds
    }

    fn constant(&self, address: u64) -> Option<Constant> {
        let constants = self.ground.constants;
        let at = constants.partition_point(|each| each.end <= address);
        constants.get(at).copied().filter(|each| each.start <= address)
    }

    /// Whether a table of virtual functions begins where the word there leads.
    fn is_vtable_at(&mut self, address: u64) -> bool {
        let Some(table) = self.word_at(address) else { return false };
        let Some(constant) = self.constant(table) else { return false };
        if constant.flags & EXECUTABLE != 0 || table % self.word != 0 {
            return false;
        }
        // a core need not have what only a file has, nor say what it may be used for
        match self.word_at(table) {
            Some(entry) => self.constant(entry).is_some_and(|each| each.flags != 0),
            None => constant.flags & ABSENT != 0,
        }
    }
}

/// Whether each of these is as good as a pointer to its block's start.
pub fn judge(ground: &Ground, judged: &[Judged]) -> Result<Vec<u8>> {
    let mut strength = Strength::new(ground)?;
    let mut found = Vec::new();
    for each in judged {
        if each.block >= ground.blocks.len() as u64 {
            return Err(Failure::BadInput);
        }
        push(&mut found, u8::from(strength.is_definite(*each)))?;
    }
    Ok(found)
}

/// What pointers to the inside of blocks lead to.
#[derive(Default)]
pub struct Reached {
    pub inside: Vec<u32>,
    /// What is reached at an offset that is the same for most blocks of its size.
    pub alike: Vec<u32>,
}

/// Blocks that only pointers to their inside lead to.
struct Reach<'a> {
    strength: Strength<'a>,
    reached: Reached,
    /// Offsets, by size, at which most blocks of that size are pointed to.
    offsets: BTreeMap<u64, BTreeSet<u64>>,
    /// How far inside other pointers lead.
    past: BTreeMap<u32, BTreeSet<u64>>,
}

impl Reach<'_> {
    fn size(&self, block: u32) -> u64 {
        self.strength.ground.blocks.sizes[block as usize]
    }

    /// Whether such a pointer is as good as one to the start; where it is not, how far inside it leads is kept.
    fn is_lifted(&mut self, judged: Judged) -> Result<bool> {
        if self.strength.is_definite(judged) {
            return Ok(true);
        }
        let block = judged.block as u32;
        let past = judged.value.wrapping_sub(self.strength.ground.blocks.starts[block as usize]);
        if self.offsets.get(&self.size(block)).is_some_and(|offsets| offsets.contains(&past)) {
            push(&mut self.reached.alike, block)?;
            return Ok(true);
        }
        self.past.entry(block).or_default().insert(past);
        Ok(false)
    }

    /// Blocks of a size to which pointers lead at one offset inside, as to most of their size: they are meant, whatever
    /// stands there. The others may be something else.
    fn alike(&mut self, graph: &Graph, marks: &mut [u8], mark: u8, control: &Control) -> Result<Vec<u32>> {
        let mut groups: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for block in self.past.keys().filter(|block| marks[**block as usize] != mark) {
            push(groups.entry(self.size(*block)).or_default(), *block)?;
        }
        let mut new = Vec::new();
        for (size, blocks) in groups {
            let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
            for past in blocks.iter().flat_map(|block| &self.past[block]) {
                *counts.entry(*past).or_default() += 1;
            }
            // the smallest of the most frequent
            let Some((common, count)) = counts.iter().rev().max_by_key(|(_, count)| **count) else { continue };
            if *count < MANY_ALIKE || 2 * count <= blocks.len() {
                continue;
            }
            self.offsets.entry(size).or_default().insert(*common);
            let mut some = Vec::new();
            for block in blocks.iter().filter(|block| self.past[*block].contains(common)) {
                push(&mut some, *block)?;
            }
            self.reached.alike.try_reserve(some.len())?;
            self.reached.alike.extend(&some);
            let met = graph.mark(&some, marks, mark, true, &mut [], control)?;
            append(&mut new, met)?;
        }
        Ok(new)
    }
}

/// Marks what pointers to the inside lead to that are as good as those to the start, and what hangs on it; returns what
/// all such pointers lead to. `seeds` are those of roots.
pub fn reach(
    ground: &Ground,
    graph: &Graph,
    seeds: &[Judged],
    marks: &mut [u8],
    mark: u8,
    threads: usize,
    control: &Control,
) -> Result<Reached> {
    let blocks = ground.blocks;
    if graph.len() != blocks.len() || marks.len() != blocks.len() {
        return Err(Failure::BadInput);
    }
    graph.check(seeds.iter().map(|seed| u32::try_from(seed.block).unwrap_or(u32::MAX)))?;
    let strength = Strength::new(ground)?;
    let mut reach = Reach { strength, reached: Reached::default(), offsets: BTreeMap::new(), past: BTreeMap::new() };
    let mut pace = Pace::new(control);
    for seed in seeds {
        pace.step()?;
        push(&mut reach.reached.inside, seed.block as u32)?;
        if reach.is_lifted(*seed)? {
            graph.mark(&[seed.block as u32], marks, mark, true, &mut [], control)?;
        }
    }
    let mut todo = graph.leading_inside(marks, mark, control)?;
    while !todo.is_empty() {
        let found = insides(ground.image, blocks, graph, &todo, marks, mark, threads, control)?;
        let mut more = Vec::new();
        for each in found {
            pace.step()?;
            let to = target(each.edge);
            if marks[to] == mark {
                continue;
            }
            if !reach.is_lifted(Judged { block: to as u64, value: each.value, at: 0 })? {
                push(&mut reach.reached.inside, to as u32)?;
            } else {
                let met = graph.mark(&[to as u32], marks, mark, true, &mut [], control)?;
                append(&mut more, met)?;
            }
        }
        todo = if more.is_empty() { reach.alike(graph, marks, mark, control)? } else { more };
    }
    Ok(reach.reached)
}
