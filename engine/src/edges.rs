//! Every pointer to a live block, once: from ranges of memory, and from the blocks themselves.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::blocks::{Blocks, NONE};
use crate::failure::{filled, joined, push, with_room, Control, Failure, Result};
use crate::graph::Graph;
use crate::image::{in_threads, Buffer, Image, Span, Task, Window};
use crate::stale::{Stale, COUNTS, NEVER_HOLDS, SURE_SHIFT};

/// An edge leads to the block whose number stands above these bits: to its inside; to past FRONT; from a word that can
/// hold no pointer.
pub const INSIDE: u32 = 1;
pub const DEEP: u32 = 2;
pub const STALE: u32 = 4;
pub const SHIFT: u32 = 3;
/// A program's own headers may stand in so many bytes.
const FRONT: u64 = 32;
const LOW: u64 = 1 << 32;
/// The longest header in front of a text that pointers lead to: redis' sdshdr64.
const BEFORE_TEXT: u64 = 17;
/// Words are resolved so many at a time, so that all wait for memory at once.
const BATCH: usize = 256;

pub fn target(edge: u32) -> usize {
    (edge >> SHIFT) as usize
}

fn edge(number: u32, past: u64) -> u32 {
    number << SHIFT | if past > FRONT { DEEP } else { 0 } | if past > 0 { INSIDE } else { 0 }
}

/// Whether what leads so far into a block may be a number by chance: where a program's heap lies below 4 GiB, 32-bit
/// hashes and counts of 64-bit programs do. Structs inside of blocks are aligned.
fn is_low_number(value: u64, past: u64, word: u64) -> bool {
    word == 8 && value < LOW && past > BEFORE_TEXT && value % 8 != 0
}

/// A pointer that a range of memory has.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Found {
    pub address: u64,
    pub value: u64,
    pub edge: u32,
    /// The number of the range.
    pub span: u32,
}

/// An edge from a word that can hold no pointer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StaleEdge {
    pub address: u64,
    pub source: i32,
    pub edge: u32,
    pub why: u32,
    /// How sure it is: the caller's number; NEVER_HOLDS: no block has this edge.
    pub sure: u32,
}

/// Finds what words lead to, a batch at a time.
struct Finder<'a> {
    blocks: &'a Blocks,
    low: u64,
    reach: u64,
    word: u64,
    values: [u64; BATCH],
    places: [u64; BATCH],
    count: usize,
}

impl<'a> Finder<'a> {
    fn new(blocks: &'a Blocks, word: u64) -> Finder<'a> {
        let (low, high) = blocks.extent();
        let reach = high.wrapping_sub(low);
        Finder { blocks, low, reach, word, values: [0; BATCH], places: [0; BATCH], count: 0 }
    }

    /// Hands each pointer of a window to `found`: (where it lies, its value, its edge, whether it may be a low number).
    #[inline]
    fn look(&mut self, window: &Window, mut found: impl FnMut(u64, u64, u32, bool) -> Result<()>) -> Result<()> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        for (at, value) in window.words.iter().enumerate() {
            if value.wrapping_sub(self.low) <= self.reach {
                self.values[self.count] = *value;
                self.places[self.count] = window.address + at as u64 * self.word;
                self.count += 1;
                if self.count == BATCH {
                    self.settle(&mut found)?;
                }
            }
        }
        self.settle(&mut found)
    }

    fn settle(&mut self, found: &mut impl FnMut(u64, u64, u32, bool) -> Result<()>) -> Result<()> {
        let mut nearest = [(NONE, false); BATCH];
        for (value, to) in self.values[..self.count].iter().zip(&mut nearest) {
            *to = self.blocks.nearest(*value);
        }
        for (at, &(number, begins)) in nearest.iter().enumerate().take(self.count) {
            if begins {
                found(self.places[at], self.values[at], number << SHIFT, false)?;
            } else if number != NONE && self.values[at] <= self.blocks.ends[number as usize] {
                let past = self.values[at] - self.blocks.starts[number as usize];
                let odd = is_low_number(self.values[at], past, self.word);
                found(self.places[at], self.values[at], edge(number, past), odd)?;
            }
        }
        self.count = 0;
        Ok(())
    }
}

/// The pointers that ranges of memory have, in order of the ranges.
pub fn pointers(
    image: &Image,
    blocks: &Blocks,
    spans: &[Span],
    threads: usize,
    control: &Control,
) -> Result<Vec<Found>> {
    let tasks = image.tasks(spans)?;
    joined(in_threads(&tasks, threads, |task, buffer| pointers_of(image, blocks, task, |_| true, control, buffer))?)
}

/// Those of one part of a range whose edges are `wanted`.
pub fn pointers_of(
    image: &Image,
    blocks: &Blocks,
    task: &Task,
    wanted: impl Fn(u32) -> bool,
    control: &Control,
    buffer: &mut Buffer,
) -> Result<Vec<Found>> {
    let mut finder = Finder::new(blocks, image.word);
    let mut rows = Vec::new();
    image.each_window(task, control, buffer, |window| {
        finder.look(&window, |address, value, edge, _| match wanted(edge) {
            true => push(&mut rows, Found { address, value, edge, span: task.span }),
            false => Ok(()),
        })
    })?;
    Ok(rows)
}

/// The edges of all blocks, which lie in these spans, and those of them that come from words that hold no pointers.
/// `odd` is what is said of low numbers.
pub fn edges(
    image: &Image,
    blocks: &Blocks,
    stale: &Stale,
    spans: &[Span],
    odd: u8,
    threads: usize,
    control: &Control,
) -> Result<(Graph, Vec<StaleEdge>)> {
    let tasks = image.tasks(spans)?;
    let mut counts: Vec<AtomicU32> = with_room(blocks.len())?;
    counts.resize_with(blocks.len(), AtomicU32::default);
    let parts = in_threads(&tasks, threads, |task, buffer| {
        let mut finder = Finder::new(blocks, image.word);
        let (mut edges, mut excluded) = (Vec::new(), Vec::new());
        let mut source = blocks.starts.partition_point(|start| *start <= task.start).saturating_sub(1);
        let mut cursor = stale.cursor(task.start);
        let mut held = 0;
        image.each_window(task, control, buffer, |window| {
            finder.look(&window, |address, _, edge, is_low| {
                while source + 1 < blocks.len() && blocks.starts[source + 1] <= address {
                    counts[source].fetch_add(held, Ordering::Relaxed);
                    held = 0;
                    source += 1;
                }
                // the word has to end with the block, and what points to itself is not held by that
                let inside = blocks.starts[source] <= address && address + image.word <= blocks.ends[source] + 2;
                if !inside || target(edge) == source {
                    return Ok(());
                }
                let odd = if is_low { odd } else { COUNTS };
                let why = stale.why(blocks, &mut cursor, address, Some(source as u32), image.word, odd);
                let edge = if why == COUNTS { edge } else { edge | STALE };
                if why != COUNTS {
                    let (why, sure) = (why & ((1 << SURE_SHIFT) - 1), why >> SURE_SHIFT);
                    let (source, why) = (source as i32, u32::from(why));
                    push(&mut excluded, StaleEdge { address, source, edge, why, sure: u32::from(sure) })?;
                    if sure == NEVER_HOLDS {
                        return Ok(());
                    }
                }
                held += 1;
                push(&mut edges, edge)
            })
        })?;
        if held > 0 {
            counts[source].fetch_add(held, Ordering::Relaxed);
        }
        Ok((edges, excluded))
    })?;
    let mut offsets = filled(blocks.len() + 1, 0u32)?;
    for (number, count) in counts.iter().enumerate() {
        let all = offsets[number].checked_add(count.load(Ordering::Relaxed));
        offsets[number + 1] = all.ok_or(Failure::NoMemory)?;
    }
    drop(counts);
    let mut all = with_room(parts.iter().map(|(edges, _)| edges.len()).sum())?;
    let mut excluded = with_room(parts.iter().map(|(_, excluded)| excluded.len()).sum())?;
    for (edges, rows) in parts {
        all.extend(edges);
        excluded.extend(rows);
    }
    Ok((Graph::new(offsets, all), excluded))
}

/// A word that leads into a range that was asked for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Word {
    pub address: u64,
    pub value: u64,
}

/// The words that lead into a range, its end included, in order of the spans.
pub fn search(image: &Image, goal: Span, spans: &[Span], threads: usize, control: &Control) -> Result<Vec<Word>> {
    let reach = goal.end.checked_sub(goal.start).ok_or(Failure::BadInput)?;
    let tasks = image.tasks(spans)?;
    let parts = in_threads(&tasks, threads, |task, buffer| {
        let mut rows = Vec::new();
        image.each_window(task, control, buffer, |window| {
            for (at, value) in window.words.iter().enumerate() {
                if value.wrapping_sub(goal.start) <= reach {
                    push(&mut rows, Word { address: window.address + at as u64 * image.word, value: *value })?;
                }
            }
            Ok(())
        })?;
        Ok(rows)
    })?;
    joined(parts)
}
