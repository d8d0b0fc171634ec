//! Sets of small numbers, a bit for each.

use crate::failure::{filled, Result};

pub struct Bits(Vec<u64>);

impl Bits {
    /// Of numbers below `end`.
    pub fn new(end: usize) -> Result<Bits> {
        Ok(Bits(filled(end.div_ceil(64), 0)?))
    }

    /// False for what is above the end, too.
    #[inline]
    pub fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|bits| bits >> (number % 64) & 1 == 1)
    }

    /// False: it was there.
    #[inline]
    pub fn add(&mut self, number: usize) -> bool {
        let is_new = !self.has(number);
        self.0[number / 64] |= 1 << (number % 64);
        is_new
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    pub fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }
}
