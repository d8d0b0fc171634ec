//! Links amid structs: pointers to the inside of blocks that are as good as those to the start.

use crate::blocks::Blocks;
use crate::edges::{pointers_of, target, Found, INSIDE};
use crate::failure::{append, copied, push, with_room, Control, Failure, Result};
use crate::graph::Graph;
use crate::image::{in_threads, Buffer, Cursor, Image, Span};

/// Words of such a link at most: two ways down, and up as a node and as a leaf.
const LINKS: u64 = 4;
/// So many bytes are looked through before other threads are worth their start.
const ALONE: u64 = 1 << 20;

/// Whether what a word at `at` leads to is a link that leads back to it: lists and trees that a program has amid its
/// structs. Trees keep a bit of their own in some words.
pub fn leads_back<'a>(image: &'a Image, value: u64, at: u64, cursor: &mut Cursor<'a>) -> bool {
    let word = image.word;
    let link = value - value % word;
    let mut back = false;
    for number in 0..LINKS {
        let place = link.checked_add(number * word);
        let Some(each) = place.and_then(|place| image.word_at(place, cursor)) else { return false };
        back |= at.wrapping_sub(each - each % word) <= (LINKS - 1) * word;
    }
    back
}

/// Marks the blocks into which links of these lead, where these lead back, and what hangs on them; the same for what
/// is marked then. Returns the other pointers to the inside of blocks that were not marked when they were met.
pub fn insides(
    image: &Image,
    blocks: &Blocks,
    graph: &Graph,
    first: &[u32],
    marks: &mut [u8],
    mark: u8,
    threads: usize,
    control: &Control,
) -> Result<Vec<Found>> {
    if graph.len() != blocks.len() || marks.len() != blocks.len() {
        return Err(Failure::BadInput);
    }
    graph.check(first.iter().copied())?;
    let (mut todo, mut rest) = (copied(first)?, Vec::new());
    let (mut buffer, mut cursor) = (Buffer::new()?, Cursor::leaping()?);
    while !todo.is_empty() {
        let mut spans = with_room(todo.len())?;
        spans.extend(
            todo.iter().map(|each| Span { start: blocks.starts[*each as usize], end: blocks.ends[*each as usize] }),
        );
        todo.clear();
        let tasks = image.tasks(&spans)?;
        let open: &[u8] = marks;
        let wanted = |edge: u32| edge & INSIDE != 0 && open[target(edge)] != mark;
        let look = |task: &_, buffer: &mut _| pointers_of(image, blocks, task, wanted, control, buffer);
        let found = if spans.iter().map(|span| span.end - span.start).sum::<u64>() < ALONE {
            let mut found = with_room(tasks.len())?;
            for task in &tasks {
                found.push(look(task, &mut buffer)?);
            }
            found
        } else {
            in_threads(&tasks, threads, look)?
        };
        for each in found.into_iter().flatten() {
            let to = target(each.edge);
            if marks[to] == mark {
                continue;
            }
            if leads_back(image, each.value, each.address, &mut cursor) {
                let met = graph.mark(&[to as u32], marks, mark, true, &mut [], control)?;
                append(&mut todo, met)?;
            } else {
                push(&mut rest, each)?;
            }
        }
    }
    Ok(rest)
}
