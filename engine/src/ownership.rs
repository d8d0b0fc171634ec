//! What each owner holds: by the dominator tree of owners and blocks, and who leads to what no owner alone leads to.

use std::collections::{BTreeMap, VecDeque};

use crate::edges::target;
use crate::failure::{add_up, filled, push, with_room, Control, Failure, Pace, Result};
use crate::graph::Graph;
use crate::holders::NOBODY;

const NONE: u32 = u32::MAX;
/// Of so many owners a shared block learns: of more than that it is not known who all are.
const MOST: usize = 8;
/// Who leads to less than 1/100 of what some lead to is not named.
const ONE_IN_NAMED: u64 = 100;
/// Who leads to so many of NEARLY parts of what another holds is as good a holder.
const AS_GOOD: u64 = 9;
const NEARLY: u64 = 10;
/// A way goes on while one block holds more than half of what the step above holds.
const DEEPEST: usize = 8;
/// So many groups of joint owners are told.
const MOST_JOINTLY: usize = 3;

/// Who leads to a block: its main holder and others, its main holder alone, or from JOINTLY on the first, the second …
/// of the groups of joint owners.
pub const SEVERAL: u8 = 0;
pub const ALONE: u8 = 1;
pub const JOINTLY: u8 = 2;

/// What one owner is the main holder of; the last row is what nobody leads to.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Row {
    pub blocks: u64,
    pub bytes: u64,
    /// What nobody else leads to.
    pub alone_blocks: u64,
    pub alone_bytes: u64,
    /// What another owner leads to in as few steps.
    pub tied_bytes: u64,
    /// Its part of `steps`.
    pub first_step: u64,
    pub steps: u64,
    /// Its part of `others`, who lead to what it does not hold alone.
    pub first_other: u64,
    pub others: u64,
    /// 1: there are no more of them.
    pub whole: u64,
    /// So many of the first of them lead to nearly all that it holds.
    pub as_good: u64,
}

/// A block on the way from an owner to where what it holds spreads.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Step {
    pub block: u64,
    pub blocks: u64,
    pub bytes: u64,
}

/// What all owners of a group lead to, and nobody else.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Joint {
    pub bytes: u64,
    /// Its part of `joint_owners`.
    pub first: u64,
    pub owners: u64,
}

#[derive(Default)]
pub struct Ownership {
    /// Of each block: the number of its owner, or of all owners where nobody leads to it; the block that alone leads to
    /// it, or NOBODY; who leads to it.
    pub whose: Vec<i32>,
    pub above: Vec<i32>,
    pub sharing: Vec<u8>,
    pub rows: Vec<Row>,
    pub steps: Vec<Step>,
    pub others: Vec<u32>,
    pub joints: Vec<Joint>,
    pub joint_owners: Vec<u32>,
}

/// Blocks that several owners lead to, and nothing below them alone, with what hangs on each.
struct Shared {
    sizes: Vec<u64>,
    /// Of each the owners that are known to lead there.
    known: Vec<[u32; MOST]>,
    counts: Vec<u8>,
}

impl Shared {
    fn of(&self, place: usize) -> &[u32] {
        &self.known[place][..usize::from(self.counts[place])]
    }

    /// Whether these are all.
    fn is_whole(&self, place: usize) -> bool {
        usize::from(self.counts[place]) < MOST
    }

    fn learn(&mut self, place: usize, owner: u32) -> bool {
        let count = usize::from(self.counts[place]);
        if count == MOST || self.known[place][..count].contains(&owner) {
            return false;
        }
        self.known[place][count] = owner;
        self.counts[place] += 1;
        true
    }

    fn sorted(&self, place: usize) -> Vec<u32> {
        let mut owners = self.of(place).to_vec();
        owners.sort_unstable();
        owners
    }

    /// Who leads to some of them, with the bytes, whoever leads to most first; whether these are all.
    fn leading(&self, places: &[u32]) -> (Vec<(u64, u32)>, bool) {
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut sum, mut whole) = (0, true);
        for place in places {
            let place = *place as usize;
            sum += self.sizes[place];
            whole &= self.is_whole(place);
            for owner in self.of(place) {
                *sizes.entry(*owner).or_default() += self.sizes[place];
            }
        }
        let least = sum / ONE_IN_NAMED;
        let mut owners: Vec<(u64, u32)> =
            sizes.iter().filter(|(_, size)| **size >= least).map(|(owner, size)| (*size, *owner)).collect();
        owners.sort_unstable_by_key(|(size, owner)| (u64::MAX - size, *owner));
        let is_all = whole && owners.len() == sizes.len();
        (owners, is_all)
    }
}

pub struct Tree<'a> {
    graph: &'a Graph,
    nodes: &'a [u32],
    above: &'a [u32],
    offsets: &'a [u64],
    held: &'a [u32],
    /// With what hangs on each node.
    bytes: Vec<u64>,
    blocks: Vec<u32>,
    /// The node below it that holds most.
    largest: Vec<u32>,
}

impl<'a> Tree<'a> {
    /// The tree of `Dominators`; `held[offsets[n]..offsets[n + 1]]` are the nth owner's blocks.
    pub fn new(
        graph: &'a Graph,
        nodes: &'a [u32],
        above: &'a [u32],
        offsets: &'a [u64],
        held: &'a [u32],
    ) -> Result<Tree<'a>> {
        let owners = offsets.len().checked_sub(1).ok_or(Failure::BadInput)?;
        let right = offsets[owners] == held.len() as u64
            && offsets.windows(2).all(|two| two[0] <= two[1])
            && nodes.len() == above.len()
            && nodes.iter().all(|node| (*node as usize) < owners + 1 + graph.len())
            && above.iter().enumerate().all(|(at, over)| (*over as usize) < at.max(1));
        if !right {
            return Err(Failure::BadInput);
        }
        graph.check(held.iter().copied())?;
        let count = nodes.len();
        let (bytes, blocks) = (filled(count, 0)?, filled(count, 0)?);
        Ok(Tree { graph, nodes, above, offsets, held, bytes, blocks, largest: filled(count, NONE)? })
    }

    fn owners(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The block of the node at a place; None: it is an owner.
    fn block(&self, at: usize) -> Option<usize> {
        (self.nodes[at] as usize).checked_sub(self.owners() + 1)
    }

    fn sum(&mut self, sizes: &[u64], pace: &mut Pace) -> Result<()> {
        for at in (1..self.nodes.len()).rev() {
            pace.step()?;
            if let Some(block) = self.block(at) {
                self.bytes[at] += sizes[block];
                self.blocks[at] += 1;
            }
            let over = self.above[at] as usize;
            self.bytes[over] += self.bytes[at];
            self.blocks[over] += self.blocks[at];
            let largest = self.largest[over];
            if largest == NONE || self.bytes[at] >= self.bytes[largest as usize] {
                self.largest[over] = at as u32;
            }
        }
        Ok(())
    }

    /// Who leads to each of the shared blocks, which stand at these places of the tree: the nearest owners, as pointers
    /// go. Only pointers from what hangs on one owner or shared block to another shared block count.
    fn shared(&self, at: &[u32], pace: &mut Pace) -> Result<Shared> {
        let owners = self.owners();
        let mut sizes = with_room(at.len())?;
        sizes.extend(at.iter().map(|at| self.bytes[*at as usize]));
        let mut shared = Shared { sizes, known: filled(at.len(), [NONE; MOST])?, counts: filled(at.len(), 0)? };
        if at.is_empty() {
            return Ok(shared);
        }
        let mut place = filled(self.graph.len(), NONE)?;
        for (number, at) in at.iter().enumerate() {
            place[self.block(*at as usize).expect("only blocks are shared")] = number as u32;
        }
        // of each node the owner, or behind all owners the shared block, that it hangs on
        let nodes = self.nodes.len();
        let mut hangs_on = filled(nodes, NONE)?;
        for at in 1..nodes {
            let over = self.above[at] as usize;
            hangs_on[at] = match self.block(at) {
                _ if over > 0 => hangs_on[over],
                Some(block) => owners as u32 + place[block],
                None => self.nodes[at] - 1,
            };
        }
        let leads = |at: usize| {
            let own = hangs_on[at];
            let edges = self.block(at).map_or(&[][..], |block| self.graph.of(block));
            edges
                .iter()
                .map(|edge| place[target(*edge)])
                .filter_map(move |to| (to != NONE && owners as u32 + to != own).then_some((own as usize, to)))
        };
        let mut begins = filled(owners + at.len() + 1, 0u64)?;
        for at in 1..nodes {
            pace.step()?;
            leads(at).for_each(|(source, _)| begins[source + 1] += 1);
        }
        for source in 1..begins.len() {
            begins[source] += begins[source - 1];
        }
        let mut targets = filled(begins[owners + at.len()] as usize, 0u32)?;
        let mut fill = with_room(begins.len())?;
        fill.extend_from_slice(&begins);
        for at in 1..nodes {
            for (source, to) in leads(at) {
                pace.step()?;
                targets[fill[source] as usize] = to;
                fill[source] += 1;
            }
        }
        let of = |source: usize| &targets[begins[source] as usize..begins[source + 1] as usize];
        let mut todo: VecDeque<(u32, u32)> = VecDeque::new();
        for owner in 0..owners {
            let held = &self.held[self.offsets[owner] as usize..self.offsets[owner + 1] as usize];
            for to in held.iter().map(|block| place[*block as usize]).filter(|to| *to != NONE) {
                if shared.learn(to as usize, owner as u32) {
                    todo.try_reserve(1)?;
                    todo.push_back((to, owner as u32));
                }
            }
        }
        for owner in 0..owners {
            for to in of(owner) {
                if shared.learn(*to as usize, owner as u32) {
                    todo.try_reserve(1)?;
                    todo.push_back((*to, owner as u32));
                }
            }
        }
        while let Some((from, owner)) = todo.pop_front() {
            for to in of(owners + from as usize) {
                pace.step()?;
                if shared.learn(*to as usize, owner) {
                    todo.try_reserve(1)?;
                    todo.push_back((*to, owner));
                }
            }
        }
        Ok(shared)
    }

    /// The way down from a node, while one block holds most of what is above it.
    fn way(&self, from: u32, mut most: u64, to: &mut Vec<Step>) -> Result<()> {
        let mut at = from;
        for _ in 0..DEEPEST {
            if at == NONE || self.bytes[at as usize] <= most / 2 {
                break;
            }
            let block = self.block(at as usize).expect("only blocks are below an owner") as u64;
            most = self.bytes[at as usize];
            push(to, Step { block, blocks: u64::from(self.blocks[at as usize]), bytes: most })?;
            at = self.largest[at as usize];
        }
        Ok(())
    }
}

/// `whose` and `ties` of each block its main holder and another one who does as well.
pub fn ownership(mut tree: Tree, sizes: &[u64], whose: &[i32], ties: &[i32], control: &Control) -> Result<Ownership> {
    let mut pace = Pace::new(control);
    let (count, owners, nodes) = (tree.graph.len(), tree.owners(), tree.nodes.len());
    let is_owner = |number: &i32| *number == NOBODY || (0..owners as i64).contains(&i64::from(*number));
    let lengths = [sizes.len(), whose.len(), ties.len()];
    if lengths != [count; 3] || !whose.iter().all(is_owner) || !add_up(sizes) {
        return Err(Failure::BadInput);
    }
    tree.sum(sizes, &mut pace)?;

    let mut shared_at = Vec::new();
    let mut mine: Vec<Vec<u32>> = with_room(owners)?;
    mine.resize_with(owners, Vec::new);
    let mut own = filled(owners, NONE)?;
    for at in 1..nodes {
        pace.step()?;
        if tree.above[at] > 0 {
            continue;
        }
        match tree.block(at) {
            Some(_) => push(&mut shared_at, at as u32)?,
            None => own[tree.nodes[at] as usize - 1] = at as u32,
        }
    }
    let shared = tree.shared(&shared_at, &mut pace)?;
    let mut sums: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
    for place in (0..shared_at.len()).filter(|place| shared.is_whole(*place)) {
        pace.step()?;
        *sums.entry(shared.sorted(place)).or_default() += shared.sizes[place];
    }
    let mut groups: Vec<(Vec<u32>, u64)> = sums.into_iter().collect();
    groups.sort_by_key(|(_, size)| u64::MAX - size);
    groups.truncate(MOST_JOINTLY);

    let mut found = Ownership {
        whose: filled(count, owners as i32)?,
        above: filled(count, NOBODY)?,
        sharing: filled(count, ALONE)?,
        rows: filled(owners + 1, Row::default())?,
        ..Ownership::default()
    };
    for (group, bytes) in &groups {
        let first = found.joint_owners.len() as u64;
        found.joint_owners.extend(group);
        found.joints.push(Joint { bytes: *bytes, first, owners: group.len() as u64 });
    }
    let mut place = 0;
    for at in 1..nodes {
        pace.step()?;
        let over = tree.above[at] as usize;
        let Some(block) = tree.block(at) else { continue };
        if over > 0 {
            (found.whose[block], found.sharing[block]) = match tree.block(over) {
                Some(over) => (found.whose[over], found.sharing[over]),
                None => (tree.nodes[over] as i32 - 1, ALONE),
            };
            found.above[block] = tree.block(over).map_or(NOBODY, |over| over as i32);
            continue;
        }
        if whose[block] != NOBODY {
            let owners = shared.is_whole(place).then(|| shared.sorted(place));
            let group = groups.iter().position(|(group, _)| Some(group) == owners.as_ref());
            push(&mut mine[whose[block] as usize], place as u32)?;
            found.whose[block] = whose[block];
            found.sharing[block] = group.map_or(SEVERAL, |group| JOINTLY + group as u8);
        }
        place += 1;
    }
    for (block, size) in sizes.iter().enumerate() {
        pace.step()?;
        let row = &mut found.rows[found.whose[block] as usize];
        row.blocks += 1;
        row.bytes += size;
        if ties[block] != NOBODY && whose[block] != NOBODY {
            found.rows[whose[block] as usize].tied_bytes += size;
        }
    }
    for (owner, places) in mine.iter().enumerate() {
        let below = if own[owner] == NONE { NONE } else { tree.largest[own[owner] as usize] };
        let several = places.iter().map(|place| shared_at[*place as usize]);
        let mut first = NONE;
        for at in std::iter::once(below).filter(|below| *below != NONE).chain(several) {
            if first == NONE || tree.bytes[at as usize] > tree.bytes[first as usize] {
                first = at;
            }
        }
        let (others, whole) = shared.leading(places);
        let (first_step, first_other) = (found.steps.len() as u64, found.others.len() as u64);
        for (size, other) in others.iter().filter(|(_, other)| *other as usize != owner) {
            push(&mut found.others, *other)?;
            let row = &mut found.rows[owner];
            row.as_good += u64::from(*size / AS_GOOD >= row.bytes / NEARLY);
        }
        tree.way(first, found.rows[owner].bytes, &mut found.steps)?;
        let row = &mut found.rows[owner];
        if own[owner] != NONE {
            row.alone_blocks = u64::from(tree.blocks[own[owner] as usize]);
            row.alone_bytes = tree.bytes[own[owner] as usize];
        }
        (row.first_step, row.steps) = (first_step, found.steps.len() as u64 - first_step);
        (row.first_other, row.others) = (first_other, found.others.len() as u64 - first_other);
        row.whole = whole.into();
    }
    let lost = &mut found.rows[owners];
    (lost.alone_blocks, lost.alone_bytes, lost.whole) = (lost.blocks, lost.bytes, 1);
    Ok(found)
}
