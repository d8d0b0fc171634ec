//! Encoded pointers: the second look, for blocks that nothing plain leads to. What takes a calculation that the program
//! alone knows (XOR lists, references from a base of its own) is not found.

use crate::bits::Bits;
use crate::blocks::Blocks;
use crate::failure::{filled, joined, push, Control, Failure, Result};
use crate::image::{in_threads, Image, Span, Window};

/// The upper 16 bits are a count or a tag.
pub const TAGGED: u32 = 0;
/// The lower 16 bits are.
pub const SHIFTED: u32 = 1;
/// The word does not lie at a multiple of its size.
pub const UNALIGNED: u32 = 2;
/// A distance from where it lies.
pub const RELATIVE: u32 = 3;

const UPPER: u32 = 48;
const LOWER: u32 = 16;
/// Tags in the low bits stay below malloc's alignment.
const TAGS: u64 = 16;
/// A distance is longer: lengths and counts would lead to a neighbour.
const FAR: u64 = 4096;
/// More upper halves are looked up in a table.
const FEW: usize = 4;

pub const INSIDE: u32 = 1;
pub const PLAIN: u32 = 2;

/// A word that leads to one of the blocks that were asked for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Encoded {
    pub address: u64,
    /// Where it leads.
    pub value: u64,
    /// The block that it lies in; -1: none.
    pub source: i32,
    pub target: u32,
    pub encoding: u32,
    /// INSIDE: it leads past the block's start; PLAIN: the word is no other without decoding.
    pub flags: u32,
    /// The number of the range.
    pub span: u32,
    pub unused: u32,
}

/// What a word may mean.
struct Meaning {
    address: u64,
    value: u64,
    target: u32,
    encoding: u32,
    flags: u32,
}

struct Suspects<'a> {
    blocks: &'a Blocks,
    is_suspect: Vec<bool>,
    word: u64,
    top: u64,
    low: u64,
    reach: u64,
    /// The upper halves of all addresses that lead to suspects, where these have 16 bits.
    halves: Option<Halves>,
}

struct Halves {
    few: Vec<u16>,
    all: Bits,
}

impl Halves {
    /// Whether any of 16 bits in these words, wherever they begin, may be one of them. The compiler makes few
    /// instructions of it.
    #[inline]
    fn may_be_in(&self, words: &[u64], behind: u64) -> bool {
        if self.few.len() > FEW {
            return true;
        }
        let mut found = 0u64;
        for half in &self.few {
            let wanted = u64::from(*half) * 0x0001_0001_0001_0001;
            for (word, next) in words.iter().zip(words[1..].iter().chain(std::iter::once(&behind))) {
                found |= zero_halves(word ^ wanted) | zero_halves((word >> 8 | next << 56) ^ wanted);
            }
        }
        found != 0
    }
}

/// Not zero where one of the four halves is; it may be so, too, where a half is 1 and the one below it is 0.
#[inline]
fn zero_halves(word: u64) -> u64 {
    word.wrapping_sub(0x0001_0001_0001_0001) & !word & 0x8000_8000_8000_8000
}

impl<'a> Suspects<'a> {
    fn new(blocks: &'a Blocks, suspects: &[u32], word: u64) -> Result<Suspects<'a>> {
        if suspects.iter().any(|each| *each as usize >= blocks.len()) {
            return Err(Failure::BadInput);
        }
        let mut is_suspect = filled(blocks.len(), false)?;
        let (mut low, mut high) = (u64::MAX, 0);
        for number in suspects {
            is_suspect[*number as usize] = true;
            low = low.min(blocks.starts[*number as usize]);
            high = high.max(blocks.ends[*number as usize]);
        }
        let mut made = Suspects {
            blocks,
            is_suspect,
            word,
            top: if word == 8 { u64::MAX } else { u64::from(u32::MAX) },
            low,
            reach: high.saturating_sub(low),
            halves: None,
        };
        if word == 8 {
            made.halves = made.halves(suspects)?;
        }
        Ok(made)
    }

    fn halves(&self, suspects: &[u32]) -> Result<Option<Halves>> {
        let mut all = Bits::new(1 << 16)?;
        let mut few = Vec::new();
        for number in suspects {
            let number = *number as usize;
            let (first, last) = (self.blocks.starts[number] >> 32, self.blocks.ends[number] >> 32);
            // half of all words have an upper half of 0
            if first == 0 || last >= 1 << 16 {
                return Ok(None);
            }
            for half in first..=last {
                if all.add(half as usize) {
                    push(&mut few, half as u16)?;
                }
            }
        }
        Ok(Some(Halves { few, all }))
    }

    /// The suspect that a word leads to, less than `room` bytes past its start, and whether past it.
    #[inline]
    fn of(&self, value: u64, room: u64) -> Option<(u32, bool)> {
        if value.wrapping_sub(self.low) > self.reach {
            return None;
        }
        let (number, past) = self.blocks.find(value)?;
        (self.is_suspect[number as usize] && past < room).then_some((number, past > 0))
    }

    /// Hands each encoded pointer of a window to `found`.
    fn look(&self, window: &Window, mut found: impl FnMut(Meaning) -> Result<()>) -> Result<()> {
        /// Words whose halves are looked at together.
        const GROUP: usize = 32;
        let mut first = 0;
        while first < window.words.len() {
            let words = &window.words[first..window.words.len().min(first + GROUP)];
            let behind = window.words.get(first + words.len()).copied().unwrap_or(window.behind);
            let address = window.address + first as u64 * self.word;
            let whole = match &self.halves {
                Some(halves) => halves.may_be_in(words, behind),
                None => true,
            };
            if whole {
                for (at, word) in words.iter().enumerate() {
                    let next = words.get(at + 1).copied().unwrap_or(behind);
                    self.encodings(address + at as u64 * self.word, *word, next, &mut found)?;
                }
            }
            self.distances(address, words, &mut found)?;
            first += GROUP;
        }
        Ok(())
    }

    /// All but distances.
    fn encodings(
        &self,
        address: u64,
        word: u64,
        next: u64,
        found: &mut impl FnMut(Meaning) -> Result<()>,
    ) -> Result<()> {
        if word == 0 && next == 0 {
            return Ok(());
        }
        let bits = 8 * self.word as u32;
        if self.word == 8 {
            for (encoding, value) in [(TAGGED, word & ((1 << UPPER) - 1)), (SHIFTED, word >> LOWER)] {
                if let Some((target, _)) = self.of(value, TAGS) {
                    // what it leads to is its start, with a tag
                    let flags = if value == word { PLAIN } else { 0 };
                    found(Meaning { address, value, target, encoding, flags })?;
                }
            }
        }
        let room = if self.word == 8 { u64::MAX } else { TAGS };
        for shift in 1..self.word {
            let value = (word >> (8 * shift) | next << (bits - 8 * shift as u32)) & self.top;
            if let Some(halves) = &self.halves {
                if !halves.all.has((value >> 32) as usize) {
                    continue;
                }
            }
            if let Some((target, inside)) = self.of(value, room) {
                let flags = if inside { INSIDE } else { 0 };
                found(Meaning { address: address + shift, value, target, encoding: UNALIGNED, flags })?;
            }
        }
        Ok(())
    }

    fn distances(&self, address: u64, words: &[u64], found: &mut impl FnMut(Meaning) -> Result<()>) -> Result<()> {
        for (at, word) in words.iter().enumerate() {
            let place = address + at as u64 * self.word;
            let value = place.wrapping_add(*word) & self.top;
            if value.wrapping_sub(self.low) <= self.reach && *word >= FAR && *word <= self.top - FAR {
                if let Some((target, _)) = self.of(value, 1) {
                    found(Meaning { address: place, value, target, encoding: RELATIVE, flags: 0 })?;
                }
            }
        }
        Ok(())
    }
}

/// Every encoded pointer to one of the suspects, which are some of `targets`, in order of the spans; `blocks` tell in
/// which of them it lies.
pub fn encoded(
    image: &Image,
    blocks: &Blocks,
    targets: &Blocks,
    suspects: &[u32],
    spans: &[Span],
    threads: usize,
    control: &Control,
) -> Result<Vec<Encoded>> {
    let suspects = Suspects::new(targets, suspects, image.word)?;
    let tasks = image.tasks(spans)?;
    let parts = in_threads(&tasks, threads, |task, buffer| {
        let mut rows = Vec::new();
        image.each_window(task, control, buffer, |window| {
            suspects.look(&window, |Meaning { address, value, target, encoding, flags }| {
                let source = blocks.find(address).map_or(-1, |(number, _)| number as i32);
                push(&mut rows, Encoded { address, value, source, target, encoding, flags, span: task.span, unused: 0 })
            })
        })?;
        Ok(rows)
    })?;
    joined(parts)
}
