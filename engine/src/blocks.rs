//! The table of live blocks, and which block an address belongs to.
//!
//! Each MiB of addresses in which blocks begin (a granule) has a bitmap of the places where they can, with a count of
//! the bits before each of its words: a binary search in millions of starts would wait for memory at every step.

use crate::failure::{add_up, copied, filled, push, with_room, Control, Failure, Pace, Result};
use crate::sweep::Swept;

const GRANULE_BITS: u32 = 20;
/// Granules are found by a table for each 16 GiB in which there are any.
const TABLE_BITS: u32 = 14;
/// More granules than that are not made for the insides of blocks: these are searched for.
const MOST_GRANULES: usize = 1 << 24;
/// Granules of one block, at most; longer ones are searched for.
const LONG: u64 = 1 << 10;
const ABSENT: u32 = u32::MAX;
pub const NONE: u32 = u32::MAX;
/// An edge has three bits beside a block's number.
pub const MOST_BLOCKS: usize = 1 << 29;

struct Granule {
    /// How many blocks begin before it.
    before: u32,
    /// Its bitmap's number; ABSENT where no block begins.
    bitmap: u32,
}

struct Table {
    key: u64,
    granules: Vec<u32>,
}

/// A block in a mapping of its own.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mapped {
    pub start: u64,
    pub end: u64,
    pub size: u64,
}

#[derive(Default)]
pub struct Blocks {
    pub starts: Vec<u64>,
    /// The last address that belongs to each.
    pub ends: Vec<u64>,
    /// How much of the heap each takes.
    pub sizes: Vec<u64>,
    /// The last address of all: a damaged block's end may be anywhere.
    last: u64,
    /// Bits that are 0 in all starts: 3 or 4.
    shift: u32,
    tables: Vec<Table>,
    granules: Vec<Granule>,
    bits: Vec<u64>,
    ranks: Vec<u32>,
    long: Vec<u32>,
}

impl Blocks {
    /// Blocks in order of their addresses.
    pub fn new(starts: &[u64], ends: &[u64], sizes: &[u64]) -> Result<Blocks> {
        Blocks::made(copied(starts)?, copied(ends)?, copied(sizes)?, &Control::default())
    }

    fn made(starts: Vec<u64>, ends: Vec<u64>, sizes: Vec<u64>, control: &Control) -> Result<Blocks> {
        let right = starts.len() == ends.len()
            && starts.len() == sizes.len()
            && starts.len() < MOST_BLOCKS
            && add_up(&sizes)
            && starts.windows(2).all(|two| two[0] < two[1])
            && starts.iter().zip(&ends).all(|(start, end)| start <= end && start % 8 == 0);
        if !right {
            return Err(Failure::BadInput);
        }
        let shift = if starts.iter().all(|start| start % 16 == 0) { 4 } else { 3 };
        let last = ends.iter().copied().max().unwrap_or(0);
        let mut made = Blocks { starts, ends, sizes, last, shift, ..Blocks::default() };
        made.index(&mut Pace::new(control))?;
        Ok(made)
    }

    /// The blocks of a sweep, and others with ends of their own, in no order. An end is `beyond` behind what malloc
    /// returned and the size of the chunk. Where two claim one place the first one counts; the number of the others.
    pub fn of_sweep(mut swept: Vec<Swept>, others: &[Mapped], beyond: i64, control: &Control) -> Result<(Blocks, u64)> {
        for other in others {
            let (mut starts, mut sizes) = (with_room(1)?, with_room(1)?);
            starts.push(other.start);
            sizes.push(other.size);
            push(&mut swept, Swept { starts, sizes })?;
        }
        swept.retain(|each| !each.starts.is_empty());
        swept.sort_by_key(|each| each.starts[0]);
        let count = swept.iter().map(|each| each.starts.len()).sum();
        let (mut starts, mut ends, mut sizes) = (with_room(count)?, with_room(count)?, with_room(count)?);
        for each in swept {
            starts.extend(each.starts);
            sizes.extend(each.sizes);
            control.advance(0)?;
        }
        // damaged arenas may claim one heap twice
        let mut twice = 0;
        if starts.windows(2).any(|two: &[u64]| two[0] >= two[1]) {
            let mut last = None;
            let mut kept = 0;
            for at in 0..starts.len() {
                if last.map_or(true, |last| starts[at] > last) {
                    last = Some(starts[at]);
                    (starts[kept], sizes[kept]) = (starts[at], sizes[at]);
                    kept += 1;
                }
            }
            twice = (starts.len() - kept) as u64;
            starts.truncate(kept);
            sizes.truncate(kept);
        }
        // so may a damaged size
        let end = |(start, size): (&u64, &u64)| start.saturating_add(*size).saturating_add_signed(beyond);
        ends.extend(starts.iter().zip(&sizes).map(end));
        for other in others {
            if let Ok(at) = starts.binary_search(&other.start) {
                ends[at] = other.end;
            }
        }
        Ok((Blocks::made(starts, ends, sizes, control)?, twice))
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn index(&mut self, pace: &mut Pace) -> Result<()> {
        let per_granule = 1 << (GRANULE_BITS - self.shift - 6);
        for number in 0..self.starts.len() {
            pace.step()?;
            let (start, end) = (self.starts[number], self.ends[number]);
            let first = start >> GRANULE_BITS;
            let slot = self.granule(first, number)?;
            if self.granules[slot].bitmap == ABSENT {
                self.granules[slot].bitmap = (self.bits.len() / per_granule) as u32;
                self.bits.try_reserve(per_granule)?;
                self.bits.resize(self.bits.len() + per_granule, 0);
            }
            let place = (start & ((1 << GRANULE_BITS) - 1)) >> self.shift;
            let word = self.granules[slot].bitmap as usize * per_granule + (place >> 6) as usize;
            self.bits[word] |= 1 << (place & 63);
            // the next block's first granule is its own
            let next = self.starts.get(number + 1).map_or(u64::MAX, |next| next >> GRANULE_BITS);
            let last = (end >> GRANULE_BITS).min(next.saturating_sub(1));
            if last > first {
                if last - first > LONG || self.granules.len() as u64 + (last - first) > MOST_GRANULES as u64 {
                    push(&mut self.long, number as u32)?;
                } else {
                    for inside in first + 1..=last {
                        self.granule(inside, number + 1)?;
                    }
                }
            }
        }
        self.ranks = filled(self.bits.len(), 0)?;
        for (bits, ranks) in self.bits.chunks(per_granule).zip(self.ranks.chunks_mut(per_granule)) {
            let mut rank = 0u32;
            for (word, before) in bits.iter().zip(ranks) {
                *before = rank;
                rank += word.count_ones();
            }
        }
        Ok(())
    }

    /// The granule's place; it is made if it is not there. Granules come in order.
    fn granule(&mut self, number: u64, before: usize) -> Result<usize> {
        let key = number >> TABLE_BITS;
        if self.tables.last().map_or(true, |table| table.key != key) {
            push(&mut self.tables, Table { key, granules: filled(1 << TABLE_BITS, ABSENT)? })?;
        }
        let table = self.tables.last_mut().expect("just made");
        let slot = &mut table.granules[(number & ((1 << TABLE_BITS) - 1)) as usize];
        if *slot == ABSENT {
            *slot = self.granules.len() as u32;
            push(&mut self.granules, Granule { before: before as u32, bitmap: ABSENT })?;
        }
        Ok(*slot as usize)
    }

    #[inline]
    fn table(&self, key: u64) -> Option<&Table> {
        if self.tables.len() <= 4 {
            return self.tables.iter().find(|table| table.key == key);
        }
        self.tables.binary_search_by_key(&key, |table| table.key).ok().map(|at| &self.tables[at])
    }

    /// The last block that begins at or before an address in a place where blocks are, and whether it begins there.
    /// The address may lie behind its end.
    #[inline]
    pub fn nearest(&self, address: u64) -> (u32, bool) {
        let number = address >> GRANULE_BITS;
        let slot = match self.table(number >> TABLE_BITS) {
            Some(table) => table.granules[(number & ((1 << TABLE_BITS) - 1)) as usize],
            None => ABSENT,
        };
        if slot == ABSENT {
            return (if self.long.is_empty() { NONE } else { self.long_one(address) }, false);
        }
        let granule = &self.granules[slot as usize];
        if granule.bitmap == ABSENT {
            return (granule.before.wrapping_sub(1), false);
        }
        let place = (address & ((1 << GRANULE_BITS) - 1)) >> self.shift;
        let word = (granule.bitmap as usize) * (1 << (GRANULE_BITS - self.shift - 6)) + (place >> 6) as usize;
        let (bits, bit) = (self.bits[word], place & 63);
        let upto = bits & (u64::MAX >> (63 - bit));
        let count = granule.before + self.ranks[word] + upto.count_ones();
        let begins = bits >> bit & 1 == 1 && address & ((1 << self.shift) - 1) == 0;
        (count.wrapping_sub(1), begins)
    }

    #[cold]
    fn long_one(&self, address: u64) -> u32 {
        let at = self.long.partition_point(|number| self.starts[*number as usize] <= address);
        if at == 0 {
            NONE
        } else {
            self.long[at - 1]
        }
    }

    /// The block that an address belongs to, and how far into it.
    #[inline]
    pub fn find(&self, address: u64) -> Option<(u32, u64)> {
        let (number, begins) = self.nearest(address);
        if begins {
            return Some((number, 0));
        }
        if number == NONE || address > self.ends[number as usize] {
            return None;
        }
        Some((number, address - self.starts[number as usize]))
    }

    /// The first and the last address of all.
    pub fn extent(&self) -> (u64, u64) {
        self.starts.first().map_or((1, 0), |first| (*first, self.last))
    }
}
