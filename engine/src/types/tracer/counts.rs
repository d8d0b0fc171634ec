//! How many objects a block has: by numbers and pointers beside the pointer to it.

use super::layouts::{FlatType, Number, Slot, TypeTable};
use super::memory::Memory;
use crate::failure::Result;

/// So many numbers beside a pointer are tried as its count.
const MOST: usize = 64;

/// A block, and the object that has the pointer to it; its place is None for an element of an array.
pub struct Counts<'a, 'b> {
    pub memory: &'a Memory<'b>,
    pub types: &'a TypeTable,
    pub layout: &'a FlatType,
    pub place: Option<u64>,
    pub block: u32,
}

impl Counts<'_, '_> {
    fn number(&self, place: u64, each: &Number) -> Option<u64> {
        self.memory.number(place.wrapping_add(each.offset), each.size)
    }

    /// How many objects it is for at least: its last word may be there for the chunk's alignment alone.
    pub fn least(&self, size: u64) -> u64 {
        self.memory.room(self.block).saturating_sub(self.memory.word_size()) / size.max(1)
    }

    /// A number in the same object that says how many the block has; 0: none.
    pub fn beside(&self, size: u64) -> u64 {
        let (Some(place), true) = (self.place, size > 0) else { return 0 };
        let most = self.memory.room(self.block) / size;
        let counts = |count: &u64| (2..=most).contains(count) && self.memory.fits(self.block, count * size);
        let numbers = self.layout.numbers.iter().take(MOST);
        numbers.filter_map(|each| self.number(place, each)).find(counts).unwrap_or(0)
    }

    /// Likewise a number that says which power of 2, as hash tables keep it; 0: none.
    pub fn by_exponent(&self, size: u64) -> u64 {
        let (Some(place), true) = (self.place, size > 0) else { return 0 };
        let most = self.memory.room(self.block) / size;
        let powers = self.layout.powers.iter().take(MOST).filter_map(|each| self.number(place, each));
        let mut counts = powers.filter(|power| (1..64).contains(power) && most >> power > 0).map(|power| 1 << power);
        counts.find(|count| self.memory.fits(self.block, count * size)).unwrap_or(0)
    }

    /// Pointers of the same type into the same block, as those behind the last element in use and at the end of the
    /// room; 0: there is none.
    pub fn by_ends(&self, slot: &Slot) -> Result<u64> {
        let (Some(place), Some(target)) = (self.place, slot.target) else { return Ok(0) };
        let size = self.types.facts(target)?.size;
        let (start, room) = (self.memory.start(self.block), self.memory.room(self.block));
        let (mut least, mut most) = (u64::MAX, 0);
        for each in self.layout.slots.iter().filter(|each| each.target == slot.target && each.offset > slot.offset) {
            let end = self.memory.word(place.wrapping_add(each.offset)).and_then(|word| word.checked_sub(start));
            if let Some(end) = end.filter(|end| size > 0 && (1..=room).contains(end) && end % size == 0) {
                (least, most) = (least.min(end), most.max(end));
            }
        }
        Ok(if most > 0 && self.memory.fits(self.block, most) { least / size } else { 0 })
    }

    /// How many elements a struct that ends in T[] has, by a number in it; 0: none says it.
    pub fn flexible(&self) -> Result<u64> {
        let (Some(place), Some((element, offset))) = (self.place, self.layout.flexible) else { return Ok(0) };
        let size = self.types.facts(element)?.size;
        let room = self.memory.room(self.block);
        // the struct may have been counted with its padding; a text has a zero byte more
        let fits = |count: u64, base: u64| {
            let whole = count.checked_mul(size).and_then(|bytes| bytes.checked_add(base));
            whole.is_some_and(|whole| self.memory.fits(self.block, whole))
        };
        let is_count = |count: &u64| {
            *count > 0
                && count.saturating_mul(size) <= room
                && [offset, self.layout.size]
                    .iter()
                    .any(|base| fits(*count, *base) || fits(count.saturating_add(1), *base))
        };
        let numbers = self.layout.numbers.iter().take(MOST);
        Ok(numbers.filter_map(|each| self.number(place, each)).find(is_count).unwrap_or(0))
    }
}

/// How many objects `new T[n]` made, which it keeps in front of them; 0: it did not.
pub fn in_front(memory: &Memory, value: u64, block: u32, size: u64) -> u64 {
    let (front, word) = (value - memory.start(block), memory.word_size());
    if (front != word && front != 2 * word) || size == 0 {
        return 0;
    }
    let count = memory.word(value - word).unwrap_or(0);
    let bytes = count.saturating_mul(size);
    if bytes > 0 && bytes <= memory.room(block) && memory.fits(block, front + bytes) {
        count
    } else {
        0
    }
}
