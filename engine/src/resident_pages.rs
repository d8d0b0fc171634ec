//! What would leave memory with what an owner holds: pages on which nothing else is, once free chunks have joined.
//!
//! malloc_trim(0) keeps the page in which a free chunk's links lie: what is in use in front of it reaches so much
//! further.

use crate::blocks::Blocks;
use crate::failure::{filled, push, Control, Failure, Pace, Result};
use crate::holders::NOBODY;
use crate::image::Span;

/// Whose a page is on which two owners have something.
pub enum Join<'a> {
    Nobody,
    /// Owners are sets, a bit for each member: it is the set of both.
    Sets,
    /// Owners are nodes of a tree, of each the one above it or NOBODY: it is the lowest node that has both below it.
    Tree(&'a [i32], Vec<u32>),
}

impl<'a> Join<'a> {
    /// Nodes stand behind those above them.
    pub fn tree(above: &'a [i32]) -> Result<Join<'a>> {
        let mut depth = filled(above.len(), 0)?;
        for at in 0..above.len() {
            match above[at] {
                NOBODY => (),
                over if (0..at as i32).contains(&over) => depth[at] = depth[over as usize] + 1,
                _ => return Err(Failure::BadInput),
            }
        }
        Ok(Join::Tree(above, depth))
    }

    fn of(&self, one: i32, other: i32) -> i32 {
        if one == other {
            return one;
        }
        match self {
            Join::Nobody => NOBODY,
            _ if one == NOBODY || other == NOBODY => NOBODY,
            Join::Sets => one | other,
            Join::Tree(above, depth) => {
                let (mut one, mut other) = (one, other);
                while one != other {
                    if depth[one as usize] < depth[other as usize] {
                        (one, other) = (other, one);
                    }
                    one = above[one as usize];
                    if one == NOBODY {
                        return NOBODY;
                    }
                }
                one
            }
        }
    }
}

/// How pages and chunks are.
#[derive(Clone, Copy)]
pub struct Rules {
    pub page: u64,
    /// Bytes of a free chunk that stay.
    pub kept: u64,
    /// Bytes from a chunk to what malloc returns.
    pub header: u64,
}

/// What is in memory, in order, and how much of it lies in front of each part.
pub struct Present<'a> {
    spans: &'a [Span],
    before: Vec<u64>,
}

impl<'a> Present<'a> {
    pub fn new(spans: &'a [Span]) -> Result<Present<'a>> {
        if spans.iter().any(|span| span.start > span.end) || spans.windows(2).any(|two| two[0].end > two[1].start) {
            return Err(Failure::BadInput);
        }
        let mut before = filled(spans.len(), 0)?;
        for at in 1..spans.len() {
            before[at] = before[at - 1] + spans[at - 1].end - spans[at - 1].start;
        }
        Ok(Present { spans, before })
    }

    fn below(&self, address: u64) -> u64 {
        match self.spans.partition_point(|span| span.start <= address) {
            0 => 0,
            at => self.before[at - 1] + address.min(self.spans[at - 1].end) - self.spans[at - 1].start,
        }
    }

    pub fn within(&self, start: u64, end: u64) -> u64 {
        self.below(end) - self.below(start)
    }
}

/// So many of these bytes; 0 where it is not known what is in memory.
pub fn in_memory(present: Option<&Present>, start: u64, bytes: u64) -> u64 {
    present.map_or(0, |present| present.within(start, start.wrapping_add(bytes)))
}

/// By owners' numbers: what of it is in memory, and what would leave it.
pub struct Sums {
    pub resident: Vec<u64>,
    pub returns: Vec<u64>,
}

struct Pages<'a> {
    heap: Span,
    rules: Rules,
    join: &'a Join<'a>,
    present: &'a Present<'a>,
    /// Pages that somebody has something on, and who; what follows may lie on them as well.
    open: Vec<(u64, i32)>,
    sums: Sums,
}

impl Pages<'_> {
    /// What goes of a run of pages of one owner, without what lies outside of the heap.
    fn close(&mut self, first: u64, behind: u64, owner: i32) {
        let (start, end) = (first * self.rules.page, behind * self.rules.page);
        if owner != NOBODY && start >= self.heap.start && end <= self.heap.end {
            self.sums.returns[owner as usize] += self.present.within(start, end);
        }
    }

    fn touch(&mut self, page: u64, owner: i32) -> Result<()> {
        match self.open.iter_mut().find(|(open, _)| *open == page) {
            Some((_, before)) => *before = self.join.of(*before, owner),
            None => push(&mut self.open, (page, owner))?,
        }
        Ok(())
    }

    fn add(&mut self, span: Span, owner: i32) -> Result<()> {
        if owner != NOBODY {
            self.sums.resident[owner as usize] += self.present.within(span.start, span.end);
        }
        let size = self.rules.page;
        let (first, last) = (span.start / size, (span.end - 1) / size);
        // what is in use in front of free chunks reaches as far as their links
        let beyond = (span.end + self.rules.kept).div_ceil(size) - 1;
        while let Some(at) = self.open.iter().position(|(page, _)| *page < first) {
            let (page, owner) = self.open.swap_remove(at);
            self.close(page, page + 1, owner);
        }
        self.touch(first, owner)?;
        let mut inner = first + 1;
        if inner < last && self.open.iter().any(|(page, _)| *page == inner) {
            // links of what is in front reach so far
            self.touch(inner, owner)?;
            inner += 1;
        }
        if inner < last {
            self.close(inner, last, owner);
        }
        self.touch(last, owner)?;
        self.touch(beyond, owner)
    }
}

/// `besides` is what else in the heaps is not free, in order; `whose` of each block its owner's number, less than
/// `owners`, or NOBODY.
pub fn pages(
    blocks: &Blocks,
    heaps: &[Span],
    present: &[Span],
    besides: &[Span],
    whose: &[i32],
    owners: usize,
    rules: Rules,
    join: &Join,
    control: &Control,
) -> Result<Sums> {
    let mut pace = Pace::new(control);
    let known = |owner: &i32| *owner == NOBODY || (0..owners as i64).contains(&i64::from(*owner));
    let joins = match join {
        Join::Nobody => true,
        Join::Sets => owners.is_power_of_two(),
        Join::Tree(above, _) => above.len() == owners,
    };
    let right = whose.len() == blocks.len()
        && whose.iter().all(known)
        && joins
        && rules.page.is_power_of_two()
        && rules.kept < rules.page
        && besides.windows(2).all(|two| two[0].start <= two[1].start)
        && besides.iter().all(|span| span.start < span.end && span.end < u64::MAX / 2)
        && blocks.starts.first().map_or(true, |start| *start >= rules.header);
    if !right {
        return Err(Failure::BadInput);
    }
    let present = Present::new(present)?;
    let mut sums = Sums { resident: filled(owners, 0)?, returns: filled(owners, 0)? };
    for heap in heaps {
        let mut pages = Pages { heap: *heap, rules, join, present: &present, open: Vec::new(), sums };
        let begin = |start: u64| blocks.starts.partition_point(|each| *each < start);
        let others = |start: u64| besides.partition_point(|each| each.start < start);
        let (mut at, last) = (begin(heap.start), begin(heap.end));
        let (mut beside, behind) = (others(heap.start), others(heap.end));
        while at < last || beside < behind {
            pace.step()?;
            let start = if at < last { blocks.starts[at] - rules.header } else { u64::MAX };
            if beside < behind && besides[beside].start < start {
                pages.add(besides[beside], NOBODY)?;
                beside += 1;
                continue;
            }
            let end = start.saturating_add(blocks.sizes[at]).min(u64::MAX / 2).max(start + 1);
            pages.add(Span { start, end }, whose[at])?;
            at += 1;
        }
        while let Some((page, owner)) = pages.open.pop() {
            pages.close(page, page + 1, owner);
        }
        sums = pages.sums;
    }
    Ok(sums)
}
