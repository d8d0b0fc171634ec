//! A damaged image: memory that somebody made up, swept and followed as a process's is.
#![no_main]

use arbitrary::{Result, Unstructured};
use arenascope::blocks::{Blocks, Mapped};
use arenascope::contents::{beginning_with, contents, Ground};
use arenascope::dominators::dominators;
use arenascope::edges::{edges, pointers, search};
use arenascope::encoded_pointers::encoded;
use arenascope::failure::Control;
use arenascope::groups::groups;
use arenascope::holders::{hold, Held, Lead};
use arenascope::image::{Image, Piece, Span};
use arenascope::ownership::{ownership, Tree};
use arenascope::resident_pages::{pages, Join, Rules};
use arenascope::stale::{Excluded, Stale};
use arenascope::sweep::{sweep, Chunks, Listed, Stretch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = look(data);
});

fn look(data: &[u8]) -> Result<()> {
    let mut input = Unstructured::new(data);
    let wide = input.ratio(3, 4)?;
    let base: u64 = if wide { 0x5555_0000_0000 } else { 0x5555_0000 };
    let small = input.int_in_range(0..=255)? * 8;
    let mut image = Image::new(if wide { 8 } else { 4 }, input.ratio(1, 4)?);
    let spans: Vec<Span> = (0..input.int_in_range(0..=3)?)
        .map(|_| Ok(Span { start: address(&mut input, base)?, end: address(&mut input, base)? }))
        .collect::<Result<_>>()?;
    let stretches: Vec<Stretch> = (0..input.int_in_range(0..=3)?)
        .map(|_| {
            let (start, limit, end) =
                (address(&mut input, base)?, address(&mut input, base)?, address(&mut input, base)?);
            Ok(Stretch { start, limit, end, wrong: input.arbitrary()?, main: input.arbitrary::<u8>()?.into() })
        })
        .collect::<Result<_>>()?;
    let mut listed: Vec<u64> = Vec::new();
    for _ in 0..input.int_in_range(0..=4)? {
        listed.push(address(&mut input, base)?);
    }
    listed.sort_unstable();
    let fast: Vec<u8> = listed.iter().map(|at| (*at >> 4) as u8 & 1).collect();
    let others = [Mapped { start: base + small, end: base + small + 8, size: input.arbitrary()? }];
    let why: u8 = input.arbitrary()?;

    let memory = input.take_rest();
    let size = memory.len() as u64;
    if image.set(&[Piece::of(base, memory)]).is_err() {
        return Ok(());
    }
    let control = Control::default();
    let whole = [Span { start: base, end: base + size }];
    let rules = Chunks { least: 32, header: 16 };
    let lists = Listed { chunks: &listed, fast: &fast };
    let mut all = stretches;
    all.push(Stretch { start: base, limit: base + size / 16 * 16, end: base + size, wrong: 2, main: 1 });
    let Ok((swept, besides, _)) = sweep(&image, &all, rules, &lists, 1, &control) else { return Ok(()) };
    let Ok((blocks, _)) = Blocks::of_sweep(swept, &others, -8, &control) else { return Ok(()) };
    let mut stale = Stale::default();
    let ranges: Vec<Excluded> =
        spans.iter().map(|span| Excluded { start: span.start, end: span.end, why: why.into() }).collect();
    let _ = stale.exclude(&ranges);
    let _ = stale.declare(&blocks, &blocks.starts[..blocks.len() / 2], &[24], &[1, 0, 1], 8, why, 0);
    let _ = pointers(&image, &blocks, &spans, 1, &control);
    let _ = search(&image, Span { start: base, end: base + small }, &spans, 1, &control);
    let data = &spans[..spans.len().min(1)];
    let ground = Ground { image: &image, blocks: &blocks, low: base, high: base + size, data };
    let _ = contents(&ground, &vec![-1; ground.blocks.len()], 1, &control);
    let _ = beginning_with(&image, &blocks, &whole, 1, &control);
    let Ok((graph, _)) = edges(&image, &blocks, &stale, &whole, why, 1, &control) else { return Ok(()) };
    let count = blocks.len();
    let nodes: Vec<u32> = (0..count as u32).collect();
    let _ = encoded(&image, &blocks, &blocks, &nodes, &spans, 1, &control);
    groups(&graph, &nodes, wide, &control).expect("groups of a graph of ours");
    let leads: Vec<Lead> = (0..count.min(4))
        .map(|owner| Lead { rank: owner as u32 / 2, owner: owner as i32, edge: (owner as u32) << 3, parent: -1 })
        .collect();
    let (mut whose, mut parents) = (vec![-1; count], vec![-1; count]);
    let (mut ties, mut ranks) = (vec![-1; count], vec![0; count]);
    let mut held = Held { whose: &mut whose, parents: &mut parents, ties: &mut ties, ranks: &mut ranks };
    hold(&graph, &leads, 4, &mut held, &control).expect("holders of a graph of ours");
    let heads: Vec<u32> = leads.iter().map(|lead| lead.edge >> 3).collect();
    let offsets: Vec<u64> = (0..=heads.len() as u64).collect();
    let tree = dominators(&graph, &offsets, &heads, &control).expect("dominators of a graph of ours");
    let tree = Tree::new(&graph, &tree.nodes, &tree.above, &offsets, &heads).expect("a sound tree");
    let told = ownership(tree, &blocks.sizes, &whose, &ties, &control).expect("ownership of a graph of ours");
    let rules = Rules { page: 4096, kept: 48, header: 16 };
    let owners = heads.len() + 1;
    let _ = pages(&blocks, &whole, &whole, &besides, &told.whose, owners, rules, &Join::Nobody, &control);
    Ok(())
}

/// Mostly something near, sometimes anything.
fn address(input: &mut Unstructured, base: u64) -> Result<u64> {
    match input.int_in_range(0..=7)? {
        0 => input.arbitrary(),
        _ => Ok(base.wrapping_add(input.int_in_range(0..=4096)? * 8).wrapping_sub(64)),
    }
}
