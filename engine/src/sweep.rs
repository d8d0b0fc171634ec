//! Sweeps heaps into the table of live blocks: follows size words from chunk to chunk, as long as they are chunks'.
//! What stands where they are not the caller finds out, and has the sweep go on behind it.

use crate::failure::{copied, push, with_room, Control, Failure, Result};
use crate::image::{in_threads, Cursor, Image, Span};

/// Flags of a size word.
const PREV_INUSE: u64 = 1;
const NON_MAIN_ARENA: u64 = 4;
const FLAGS: u64 = 7;
const STEPS: usize = 1 << 14;
/// Chunks that are followed at once.
const MOST_CHUNKS: usize = 1 << 17;

/// Why a sweep stopped.
pub const AT_LIMIT: u64 = 0;
/// The word there is too small for a chunk's size, cannot be read, has wrong flags, or leads past the limit.
pub const NO_CHUNK: u64 = 1;
pub const UNREADABLE: u64 = 2;
pub const WRONG_FLAGS: u64 = 3;
pub const TOO_LONG: u64 = 4;

/// Part of a heap, from a chunk to where the last one ends, and the end of the heap.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stretch {
    pub start: u64,
    pub limit: u64,
    pub end: u64,
    /// Bits that no size word of this heap has.
    pub wrong: u64,
    /// 1: it is the main arena's.
    pub main: u64,
}

/// The layout of chunks.
#[derive(Clone, Copy)]
pub struct Chunks {
    /// Bytes of the smallest chunk, and from a chunk to what malloc returns.
    pub least: u64,
    pub header: u64,
}

/// Where the sweep of a stretch stopped.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stopped {
    pub position: u64,
    pub reason: u64,
    /// The word there, where it can be read.
    pub raw: u64,
}

/// Live blocks in order, with the sizes of their chunks.
#[derive(Default)]
pub struct Swept {
    pub starts: Vec<u64>,
    pub sizes: Vec<u64>,
}

/// Chunks that look used: in lists of thread caches, which are not free, or in fastbins; and malloc's own.
pub struct Listed<'a> {
    /// Addresses of chunks, in order.
    pub chunks: &'a [u64],
    /// Of each whether it is in a fastbin.
    pub fast: &'a [u8],
}

struct Walk<'a> {
    rules: Chunks,
    listed: &'a Listed<'a>,
    next_listed: usize,
    swept: Swept,
    /// What is neither free nor live.
    besides: Vec<Span>,
}

impl Walk<'_> {
    /// The chunk before is in use or not, as the next size word tells.
    fn settle(&mut self, chunk: u64, size: u64, in_use: bool) -> Result<()> {
        while self.next_listed < self.listed.chunks.len() && self.listed.chunks[self.next_listed] < chunk {
            self.next_listed += 1;
        }
        if !in_use {
            return Ok(());
        }
        if self.listed.chunks.get(self.next_listed) == Some(&chunk) {
            if self.listed.fast[self.next_listed] == 0 {
                push(&mut self.besides, Span { start: chunk, end: chunk + size })?;
            }
            return Ok(());
        }
        push(&mut self.swept.starts, chunk + self.rules.header)?;
        push(&mut self.swept.sizes, size)
    }
}

fn sweep_one(
    image: &Image,
    stretch: &Stretch,
    rules: Chunks,
    listed: &Listed,
    control: &Control,
) -> Result<(Swept, Vec<Span>, Stopped)> {
    let mut cursor = Cursor::new()?;
    let next_listed = listed.chunks.partition_point(|chunk| *chunk < stretch.start);
    let mut walk = Walk { rules, listed, next_listed, swept: Swept::default(), besides: Vec::new() };
    let mut position = stretch.start;
    let mut told = position;
    let (mut last, mut last_raw) = (None, 0);
    let mut reason = AT_LIMIT;
    let mut raw = None;
    for step in 1.. {
        if position >= stretch.limit {
            break;
        }
        raw = image.word_at(position + image.word, &mut cursor);
        let Some(word) = raw else {
            reason = UNREADABLE;
            break;
        };
        let size = word & !FLAGS;
        reason = match size {
            _ if word < rules.least => NO_CHUNK,
            _ if word & stretch.wrong != 0 => WRONG_FLAGS,
            _ if size > stretch.limit - position => TOO_LONG,
            _ => AT_LIMIT,
        };
        if reason != AT_LIMIT {
            break;
        }
        if let Some(chunk) = last.replace(position) {
            walk.settle(chunk, position - chunk, word & PREV_INUSE != 0)?;
        }
        last_raw = word;
        position += size;
        if step % STEPS == 0 {
            control.advance(position - told)?;
            told = position;
        }
    }
    control.advance(position - told)?;
    // a heap whose chunks end where it does has no fencepost: top, or its damage, lies elsewhere
    let follow = match reason {
        _ if position == stretch.end => PREV_INUSE,
        AT_LIMIT => image.word_at(position + image.word, &mut cursor).unwrap_or(0),
        _ => raw.unwrap_or(0),
    };
    if let Some(chunk) = last {
        // sysmalloc leaves the header of a too small old top before the post of size 0: it looks like a block
        let is_stub = follow == PREV_INUSE
            && stretch.main == 0
            && last_raw & NON_MAIN_ARENA == 0
            && last_raw < rules.least + rules.header;
        if is_stub {
            push(&mut walk.besides, Span { start: chunk, end: position })?;
        } else {
            walk.settle(chunk, position - chunk, follow & PREV_INUSE != 0)?;
        }
    }
    let stopped = Stopped { position, reason, raw: raw.unwrap_or(0) };
    Ok((walk.swept, walk.besides, stopped))
}

/// How many chunks have this size word.
#[repr(C)]
pub struct Count {
    pub raw: u64,
    pub chunks: u64,
}

/// The end of a free chunk: which size word stands there, and what stands in front of it, the size once more.
#[repr(C)]
pub struct End {
    pub index: u64,
    pub address: u64,
    pub foot: u64,
}

/// A chunk that was watched for.
#[repr(C)]
pub struct Mark {
    pub index: u64,
    pub address: u64,
}

/// Adjacent chunks by their size words.
#[derive(Default)]
pub struct Trail {
    pub raws: Vec<u64>,
    pub counts: Vec<Count>,
    pub free: Vec<End>,
    pub marks: Vec<Mark>,
    /// Where the last one ends.
    pub end: u64,
    /// The word there is no chunk's, or cannot be read.
    pub broken: bool,
}

/// Follows size words from `start` on, as long as chunks begin in front of `until`, and with a whole word in front of
/// `limit`: `MOST_CHUNKS` of them at most. `watched` are chunks in order.
pub fn follow(image: &Image, start: u64, until: u64, limit: u64, least: u64, watched: &[u64]) -> Result<Trail> {
    if least < 2 * image.word || limit > u64::MAX / 2 || until > limit {
        return Err(Failure::BadInput);
    }
    let mut cursor = Cursor::new()?;
    let mut trail = Trail { end: start, ..Trail::default() };
    let mut next = watched.partition_point(|chunk| *chunk < start);
    while trail.end < until && trail.end + image.word <= limit && trail.raws.len() < MOST_CHUNKS {
        let position = trail.end;
        let words = image.bytes_at(position, 2 * image.word as usize, &mut cursor);
        let (foot, raw) =
            words.map_or((None, None), |two| (image.decoded(two), image.decoded(&two[image.word as usize..])));
        let Some(raw) = raw.filter(|raw| *raw >= least) else {
            trail.broken = true;
            break;
        };
        let index = trail.raws.len() as u64;
        if raw & PREV_INUSE == 0 {
            push(&mut trail.free, End { index, address: position, foot: foot.unwrap_or(0) })?;
        }
        while watched.get(next).is_some_and(|chunk| *chunk < position) {
            next += 1;
        }
        if watched.get(next) == Some(&position) {
            push(&mut trail.marks, Mark { index, address: position })?;
        }
        push(&mut trail.raws, raw)?;
        trail.end = position.saturating_add(raw & !FLAGS);
    }
    let mut sorted = copied(&trail.raws)?;
    sorted.sort_unstable();
    for raw in sorted {
        match trail.counts.last_mut() {
            Some(count) if count.raw == raw => count.chunks += 1,
            _ => push(&mut trail.counts, Count { raw, chunks: 1 })?,
        }
    }
    Ok(trail)
}

/// Sweeps stretches of heaps: the live blocks of each, what else in them is not free, and where each sweep stopped.
pub fn sweep(
    image: &Image,
    stretches: &[Stretch],
    rules: Chunks,
    listed: &Listed,
    threads: usize,
    control: &Control,
) -> Result<(Vec<Swept>, Vec<Span>, Vec<Stopped>)> {
    let right = listed.chunks.len() == listed.fast.len()
        && listed.chunks.windows(2).all(|two| two[0] < two[1])
        && rules.least >= 2 * image.word
        && stretches.iter().all(|each| each.start <= each.limit && each.limit <= each.end && each.end <= u64::MAX / 2);
    if !right {
        return Err(Failure::BadInput);
    }
    let parts = in_threads(stretches, threads, |each, _| sweep_one(image, each, rules, listed, control))?;
    let (mut swept, mut stopped) = (with_room(parts.len())?, with_room(parts.len())?);
    let mut besides = with_room(parts.iter().map(|(_, besides, _)| besides.len()).sum())?;
    for (blocks, spans, at) in parts {
        swept.push(blocks);
        besides.extend(spans);
        stopped.push(at);
    }
    Ok((swept, besides, stopped))
}
