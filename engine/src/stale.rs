//! Which words can hold pointers at all: ranges that are excluded, and layouts of blocks.

use crate::blocks::Blocks;
use crate::failure::{copied, filled, push, Failure, Result};

/// Reasons are the caller's numbers; 0 is none. They stand in the lower bits, above them how sure that is.
pub const COUNTS: u8 = 0;
pub const SURE_SHIFT: u32 = 6;
/// What such a word leads to is not held by it at all.
pub const NEVER_HOLDS: u8 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Excluded {
    pub start: u64,
    pub end: u64,
    pub why: u64,
}

/// Which words of a block can hold pointers: each of `may` stands for a word, and the same comes again after them.
struct Layout {
    may: Vec<u8>,
    /// In front of it no word holds a pointer.
    begins: u64,
    why: u8,
    /// What is said of words behind the part that is used.
    beyond: u8,
}

#[derive(Default)]
pub struct Stale {
    ranges: Vec<Excluded>,
    layouts: Vec<Layout>,
    /// Of each block its layout's number and one; empty as long as no block has one.
    of: Vec<u32>,
    /// Of each block so many bytes are laid out so.
    used: Vec<u64>,
}

impl Stale {
    /// Takes the ranges in place of those before; they must not share words.
    pub fn exclude(&mut self, ranges: &[Excluded]) -> Result<()> {
        self.ranges = copied(ranges)?;
        self.ranges.sort_unstable_by_key(|range| (range.start, range.end));
        if self.ranges.iter().any(|range| range.why > u64::from(u8::MAX)) {
            return Err(Failure::BadInput);
        }
        Ok(())
    }

    /// `used`: bytes of each of `starts`, of all where it has one value, or none: then the whole block is.
    pub fn declare(
        &mut self,
        blocks: &Blocks,
        starts: &[u64],
        used: &[u64],
        may: &[u8],
        begins: u64,
        why: u8,
        beyond: u8,
    ) -> Result<()> {
        if may.is_empty() || (used.len() > 1 && used.len() != starts.len()) {
            return Err(Failure::BadInput);
        }
        if self.of.is_empty() {
            self.of = filled(blocks.len(), 0)?;
            self.used = filled(blocks.len(), 0)?;
        }
        push(&mut self.layouts, Layout { may: copied(may)?, begins, why, beyond })?;
        for (place, start) in starts.iter().enumerate() {
            if let Some((number, 0)) = blocks.find(*start) {
                let number = number as usize;
                let size = blocks.ends[number] - start + 1;
                self.of[number] = self.layouts.len() as u32;
                self.used[number] = match used {
                    [] => size,
                    [all] => size.min(*all),
                    each => size.min(each[place]),
                };
            }
        }
        Ok(())
    }

    /// Where a search for an address begins; addresses that are asked for after it lie behind it.
    pub fn cursor(&self, address: u64) -> usize {
        self.ranges.partition_point(|range| range.end <= address)
    }

    /// Why the word there is no pointer. `odd`: what is said where neither a range nor a layout tells anything.
    #[inline]
    pub fn why(&self, blocks: &Blocks, cursor: &mut usize, address: u64, block: Option<u32>, word: u64, odd: u8) -> u8 {
        while *cursor < self.ranges.len() && self.ranges[*cursor].end <= address {
            *cursor += 1;
        }
        if let Some(range) = self.ranges.get(*cursor) {
            if range.start <= address {
                return range.why as u8;
            }
        }
        let Some(block) = block.map(|block| block as usize) else { return COUNTS };
        let number = self.of.get(block).copied().unwrap_or(0);
        if number == 0 {
            return odd;
        }
        let layout = &self.layouts[number as usize - 1];
        let past = address - blocks.starts[block];
        if past >= self.used[block] {
            return layout.beyond;
        }
        if past < layout.begins {
            return layout.why;
        }
        let place = (past - layout.begins) / word % layout.may.len() as u64;
        if layout.may[place as usize] != 0 {
            COUNTS
        } else {
            layout.why
        }
    }
}
