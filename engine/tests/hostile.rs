//! Tables and images that somebody made up: no call panics, reads past what is there, or works longer than the image
//! is.

use std::io::Write;
use std::os::unix::io::AsRawFd;

use arenascope::blocks::{Blocks, Mapped};
use arenascope::dominators::dominators;
use arenascope::edges::{edges, pointers, search};
use arenascope::encoded_pointers::encoded;
use arenascope::failure::{Control, Failure};
use arenascope::graph::Graph;
use arenascope::groups::groups;
use arenascope::holders::{hold, Held, Lead};
use arenascope::image::{Image, Piece, Span};
use arenascope::interior_pointers::insides;
use arenascope::ownership::{ownership, Tree};
use arenascope::resident_pages::{pages, Join, Rules};
use arenascope::stale::{Excluded, Stale};
use arenascope::sweep::{self, sweep, Chunks, Listed, Stretch};

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// Mostly something near, sometimes anything.
    fn address(&mut self, base: u64, size: u64) -> u64 {
        match self.below(8) {
            0 => self.next(),
            1 => u64::MAX - self.below(64),
            2 => self.below(64),
            _ => base.wrapping_add(self.below(size)).wrapping_sub(64),
        }
    }
}

fn some_blocks(random: &mut Random, base: u64, size: u64) -> Blocks {
    let mut starts = Vec::new();
    let mut at = base;
    while at < base + size {
        starts.push(at);
        at += 16 * (1 + random.below(20));
    }
    let end = |at: usize| starts.get(at + 1).map_or(base + size, |next| next - 1);
    let ends: Vec<u64> = (0..starts.len()).map(|at| (starts[at] + 8 * random.below(40)).min(end(at))).collect();
    let sizes: Vec<u64> = (0..starts.len()).map(|_| 16 * random.below(30)).collect();
    Blocks::new(&starts, &ends, &sizes).expect("sound blocks")
}

fn some_spans(random: &mut Random, base: u64, size: u64) -> Vec<Span> {
    let count = random.below(6);
    (0..count).map(|_| Span { start: random.address(base, size), end: random.address(base, size) }).collect()
}

#[test]
fn every_address_belongs_to_the_block_around_it() {
    let mut random = Random(1);
    for round in 0..60 {
        let base = [0x5555_0000_0000, 0x1000, 0x7fff_ffff_0000][round % 3];
        let spread = [1 << 12, 1 << 22, 1 << 34, 1 << 40][round % 4];
        let mut starts: Vec<u64> = (0..200).map(|_| base + random.below(spread) / 8 * 8).collect();
        starts.sort_unstable();
        starts.dedup();
        let next = |at: usize| starts.get(at + 1).copied().unwrap_or(u64::MAX);
        let ends: Vec<u64> = (0..starts.len())
            .map(|at| (starts[at] + random.below(spread / [2, 64, 1 << 10][round % 3] + 9)).min(next(at) - 1))
            .collect();
        let blocks = Blocks::new(&starts, &ends, &vec![16; starts.len()]).expect("sound blocks");
        for _ in 0..2000 {
            let address = match random.below(3) {
                0 => starts[random.below(starts.len() as u64) as usize].wrapping_add(random.below(32)).wrapping_sub(16),
                1 => ends[random.below(ends.len() as u64) as usize].wrapping_add(random.below(4)).wrapping_sub(2),
                _ => random.address(base, spread),
            };
            let at = starts.partition_point(|start| *start <= address);
            let truth = at.checked_sub(1).filter(|at| address <= ends[*at]);
            assert_eq!(blocks.find(address).map(|(number, _)| number as usize), truth, "{address:#x}");
        }
    }
}

#[test]
fn blocks_that_contradict_each_other_are_refused() {
    for (starts, ends) in
        [(&[16, 16], &[20, 30]), (&[32, 16], &[40, 20]), (&[16, 32], &[8, 40]), (&[17, 32], &[20, 40])]
    {
        assert_eq!(Blocks::new(starts, ends, &[16, 16]).err(), Some(Failure::BadInput));
    }
    assert_eq!(Blocks::new(&[16], &[20], &[]).err(), Some(Failure::BadInput));
}

#[test]
fn pieces_may_lie_anywhere_but_over_each_other() {
    let bytes = [0u8; 64];
    let mut image = Image::new(8, false);
    assert!(image.set(&[Piece::of(64, &bytes), Piece::of(0, &bytes)]).is_ok());
    assert_eq!(image.set(&[Piece::of(0, &bytes), Piece::of(63, &bytes)]).err(), Some(Failure::BadInput));
    assert_eq!(image.set(&[Piece::of(u64::MAX - 8, &bytes)]).err(), Some(Failure::BadInput));
}

#[test]
fn a_file_may_be_shorter_than_it_was() {
    let mut file = tempfile();
    file.write_all(&[7u8; 10_000]).expect("room for a file");
    let mut image = Image::new(8, false);
    let all = Piece { address: 0x1000, bytes: 1 << 20, data: std::ptr::null(), fd: file.as_raw_fd().into(), offset: 0 };
    image.set(&[all]).expect("one piece");
    let word = u64::from_ne_bytes([7; 8]);
    let goal = Span { start: word, end: word };
    let spans = [Span { start: 0, end: u64::MAX }];
    let found = search(&image, goal, &spans, 2, &Control::default()).expect("what there is");
    assert_eq!(found.len(), 10_000 / 8);
}

fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("arenascope-{}", std::process::id()));
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).expect("a new file");
    std::fs::remove_file(path).expect("its name is not needed");
    file
}

#[test]
fn any_memory_is_looked_through_and_ends() {
    let mut random = Random(2);
    for round in 0..300u64 {
        let (word, base) = if round % 2 == 0 { (8, 0x5555_0000_0000) } else { (4, 0x5555_0000) };
        let size = 64 << random.below(8);
        let bytes: Vec<u8> = (0..size / 8)
            .flat_map(|_| match random.below(3) {
                0 => random.next().to_ne_bytes(),
                1 => 0u64.to_ne_bytes(),
                _ => (base + random.below(size)).to_ne_bytes(),
            })
            .collect();
        let mut image = Image::new(word, random.below(4) == 0);
        image.set(&[Piece::of(base, &bytes)]).expect("one piece");
        let blocks = some_blocks(&mut random, base, size);
        let mut spans = some_spans(&mut random, base, size);
        spans.push(Span { start: base, end: base + size });
        let control = Control::default();
        pointers(&image, &blocks, &spans, 2, &control).expect("pointers");
        let mut stale = Stale::default();
        let why = |random: &mut Random| random.below(200);
        let ranges: Vec<Excluded> = some_spans(&mut random, base, size)
            .into_iter()
            .map(|span| Excluded { start: span.start, end: span.end, why: why(&mut random) })
            .collect();
        stale.exclude(&ranges).expect("any ranges");
        stale.declare(&blocks, &[base, 7, base + 8], &[24], &[1, 0, 1], 8, 3, 0).expect("any starts");
        let inside = [Span { start: base, end: base + size }];
        let (graph, _) = edges(&image, &blocks, &stale, &inside, 1, 2, &control).expect("edges");
        let suspects: Vec<u32> = (0..blocks.len() as u32).filter(|at| at % 3 == 0).collect();
        encoded(&image, &blocks, &blocks, &suspects, &spans, 2, &control).expect("encoded pointers");
        let mut marks: Vec<u8> = (0..blocks.len()).map(|at| 2 * u8::from(at % 4 == 0)).collect();
        let rest = insides(&image, &blocks, &graph, &suspects, &mut marks, 2, 2, &control).expect("insides");
        assert!(rest.iter().all(|each| each.edge & 1 == 1));
        follow(&mut random, &graph, &blocks);
    }
}

/// What follows from a graph.
fn follow(random: &mut Random, graph: &Graph, blocks: &Blocks) {
    let control = Control::default();
    let count = graph.len() as u64;
    let nodes: Vec<u32> = (0..count as u32).collect();
    let found = groups(graph, &nodes, random.below(2) == 0, &control).expect("groups");
    assert_eq!(found.heads.len() + found.others.len(), nodes.len());
    let leads: Vec<Lead> = (0..4)
        .map(|owner| Lead { rank: owner as u32 / 2, owner, edge: (random.below(count) as u32) << 3, parent: -1 })
        .collect();
    let (mut whose, mut parents) = (vec![-1; count as usize], vec![-1; count as usize]);
    let (mut ties, mut ranks) = (vec![-1; count as usize], vec![0; count as usize]);
    let mut held = Held { whose: &mut whose, parents: &mut parents, ties: &mut ties, ranks: &mut ranks };
    hold(graph, &leads, 4, &mut held, &control).expect("holders");
    let held: Vec<u32> = leads.iter().map(|lead| lead.edge >> 3).collect();
    let offsets = [0, 1, 2, 3, 4];
    let tree = dominators(graph, &offsets, &held, &control).expect("dominators");
    let tree = Tree::new(graph, &tree.nodes, &tree.above, &offsets, &held).expect("a sound tree");
    let told = ownership(tree, &blocks.sizes, &whose, &ties, &control).expect("ownership");
    assert_eq!(told.rows.iter().map(|row| row.bytes).sum::<u64>(), blocks.sizes.iter().sum::<u64>());
    let rules = Rules { page: 4096, kept: 48, header: 16 };
    let heaps = [Span { start: blocks.starts[0] & !4095, end: (blocks.extent().1 | 4095) + 1 }];
    pages(blocks, &heaps, &heaps, &[], &told.whose, 5, rules, &Join::Nobody, &control).expect("pages");
}

#[test]
fn any_heap_is_swept_and_ends() {
    let mut random = Random(3);
    for _ in 0..2000 {
        let (base, size) = (0x5555_0000_0000, 64 << random.below(7));
        let words: Vec<u8> = (0..size / 8)
            .flat_map(|_| match random.below(5) {
                0 => random.next().to_ne_bytes(),
                1 => 0u64.to_ne_bytes(),
                _ => ((16 * (2 + random.below(6))) | random.below(8)).to_ne_bytes(),
            })
            .collect();
        let mut image = Image::new(8, false);
        image.set(&[Piece::of(base, &words)]).expect("one piece");
        let chunk = |random: &mut Random| base + 16 * random.below(size / 16);
        let (mut one, mut other) = (chunk(&mut random), chunk(&mut random));
        if one > other {
            std::mem::swap(&mut one, &mut other);
        }
        let end = if random.below(2) == 0 { other } else { base + size };
        let stretch = Stretch { start: one, limit: other, end, wrong: 2 | 8, main: random.below(2) };
        let mut listed: Vec<u64> = (0..random.below(4)).map(|_| chunk(&mut random)).collect();
        listed.sort_unstable();
        listed.dedup();
        let fast: Vec<u8> = listed.iter().map(|_| random.below(2) as u8).collect();
        let rules = Chunks { least: 32, header: 16 };
        let lists = Listed { chunks: &listed, fast: &fast };
        let (swept, besides, stopped) =
            sweep(&image, &[stretch], rules, &lists, 1, &Control::default()).expect("any heap");
        assert!(stopped[0].position <= other && stopped[0].position >= one);
        assert!(stopped[0].reason != 0 || stopped[0].position == other);
        for (start, bytes) in swept[0].starts.iter().zip(&swept[0].sizes) {
            assert!(*start >= one + 16 && start - 16 + bytes <= other && !listed.contains(&(start - 16)));
        }
        assert!(besides.iter().all(|span| span.start >= one && span.end <= other));
        let trail = sweep::follow(&image, one, other, base + size, 32, &listed).expect("any heap");
        assert!(trail.broken || trail.end >= other.min(base + size - 7));
        assert_eq!(trail.counts.iter().map(|count| count.chunks).sum::<u64>(), trail.raws.len() as u64);
        assert!(trail.free.iter().all(|end| trail.raws[end.index as usize] & 1 == 0));
        assert!(trail.marks.iter().all(|mark| listed.contains(&mark.address)));
        let mapped = [Mapped { start: base + 16, end: base + 24, size: 32 }];
        let (blocks, _) = Blocks::of_sweep(swept, &mapped, -8, &Control::default()).expect("blocks");
        assert!(blocks.starts.windows(2).all(|two| two[0] < two[1]));
    }
}

#[test]
fn a_call_ends_when_it_is_asked_to() {
    let bytes = vec![0u8; 4 << 20];
    let mut image = Image::new(8, false);
    image.set(&[Piece::of(0x1000, &bytes)]).expect("one piece");
    // the second word of the caller's
    let control: Control = unsafe { std::mem::transmute([0u64, 1, 0]) };
    let spans = [Span { start: 0, end: u64::MAX }];
    let ended = search(&image, Span { start: 1, end: 2 }, &spans, 2, &control);
    assert_eq!(ended.err(), Some(Failure::Stopped));
}
