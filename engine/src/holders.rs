//! Each block's main holder: of those who lead to it, the one of the best rank; of these, whoever does so by the fewest
//! pointers to far inside a block (DEEP: more than 32 bytes past its start), then by the fewest steps. Where several do
//! equally well the one with the lowest number is taken, and another one is told.

use std::collections::BTreeMap;

use crate::edges::{target, DEEP};
use crate::failure::{copied, filled, push, Control, Failure, Pace, Result};
use crate::graph::Graph;

pub const NOBODY: i32 = -1;

/// A pointer that an owner has.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Lead {
    /// 0 is the best.
    pub rank: u32,
    pub owner: i32,
    pub edge: u32,
    /// The block that has it, of a stale word's; else NOBODY.
    pub parent: i32,
}

/// What is known of each block: the owner (NOBODY: nothing leads there; `Ownership::whose` has the number of all owners
/// for that), another owner who does as well, the block before it on the way, the rank.
pub struct Held<'a> {
    pub whose: &'a mut [i32],
    pub parents: &'a mut [i32],
    pub ties: &'a mut [i32],
    pub ranks: &'a mut [u8],
}

/// A way to a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    block: u32,
    owner: i32,
    parent: i32,
}

/// Ways by how many steps they are long.
type Waiting = BTreeMap<u32, Vec<Way>>;

/// Holds by these leads, and by what is held with one of their ranks, what nobody holds yet. Edges with the bits
/// `skipped` are not followed.
pub fn hold(graph: &Graph, leads: &[Lead], skipped: u32, held: &mut Held, control: &Control) -> Result<()> {
    let mut pace = Pace::new(control);
    let count = graph.len();
    let sizes = [held.whose.len(), held.parents.len(), held.ties.len(), held.ranks.len()];
    if sizes != [count; 4] || leads.iter().any(|lead| lead.parent >= count as i32 || lead.owner < 0) {
        return Err(Failure::BadInput);
    }
    graph.check(leads.iter().map(|lead| target(lead.edge) as u32))?;
    let mut ranks: Vec<u32> = leads.iter().map(|lead| lead.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut before: Vec<u32> = Vec::new();
    for block in (0..count as u32).filter(|block| held.whose[*block as usize] != NOBODY) {
        push(&mut before, block)?;
    }
    for rank in ranks {
        let (mut plain, mut deep) = (Vec::new(), Vec::new());
        for lead in leads.iter().filter(|lead| lead.rank == rank) {
            let way = Way { block: target(lead.edge) as u32, owner: lead.owner, parent: lead.parent };
            push(if lead.edge & DEEP != 0 { &mut deep } else { &mut plain }, way)?;
        }
        let mut waiting = Waiting::from([(0, plain)]);
        let mut later = Waiting::from([(0, deep)]);
        for block in before.iter().filter(|block| u32::from(held.ranks[**block as usize]) == rank) {
            pace.step()?;
            let owner = held.whose[*block as usize];
            for edge in graph.of(*block as usize) {
                if held.whose[target(*edge)] == NOBODY && edge & skipped == 0 {
                    let way = Way { block: target(*edge) as u32, owner, parent: *block as i32 };
                    let to = if edge & DEEP != 0 { &mut later } else { &mut waiting };
                    push(to.entry(1).or_default(), way)?;
                }
            }
        }
        while !waiting.is_empty() {
            follow(graph, waiting, &mut later, rank as u8, skipped, held, &mut pace)?;
            waiting = std::mem::take(&mut later);
        }
    }
    Ok(())
}

/// All that is as many insides away, in order of the steps. `later` gets what is one inside further.
fn follow(
    graph: &Graph,
    mut waiting: Waiting,
    later: &mut Waiting,
    rank: u8,
    skipped: u32,
    held: &mut Held,
    pace: &mut Pace,
) -> Result<()> {
    let mut deeper = Vec::new();
    while let Some((step, mut ways)) = waiting.pop_first() {
        ways.retain(|way| held.whose[way.block as usize] == NOBODY);
        ways.sort_unstable();
        let next = settle(&ways, rank, held, pace)?;
        let mut plain = waiting.remove(&(step + 1)).unwrap_or_default();
        for block in next {
            let owner = held.whose[block as usize];
            for edge in graph.of(block as usize) {
                pace.step()?;
                if held.whose[target(*edge)] == NOBODY && edge & skipped == 0 {
                    let way = Way { block: target(*edge) as u32, owner, parent: block as i32 };
                    push(if edge & DEEP != 0 { &mut deeper } else { &mut plain }, way)?;
                }
            }
        }
        if !plain.is_empty() {
            waiting.insert(step + 1, plain);
        }
        if !deeper.is_empty() {
            let to = later.entry(step + 1).or_default();
            to.try_reserve(deeper.len())?;
            to.append(&mut deeper);
        }
    }
    Ok(())
}

/// The best of these ways, which are sorted, for each of the blocks, which nobody held; the blocks.
fn settle(ways: &[Way], rank: u8, held: &mut Held, pace: &mut Pace) -> Result<Vec<u32>> {
    let mut new: Vec<u32> = Vec::new();
    for way in ways {
        pace.step()?;
        let block = way.block as usize;
        if held.whose[block] == NOBODY {
            push(&mut new, way.block)?;
            held.whose[block] = way.owner;
            held.parents[block] = way.parent;
            held.ranks[block] = rank;
        }
        if held.ties[block] == NOBODY {
            let other = match way.parent {
                _ if way.owner != held.whose[block] => way.owner,
                NOBODY => NOBODY,
                parent => held.ties[parent as usize],
            };
            if other != held.whose[block] {
                held.ties[block] = other;
            }
        }
    }
    Ok(new)
}

/// Of each block its bytes and those of all that it leads to by these ways: `parents` has the block before each on the
/// way, or NOBODY.
pub fn below(graph: &Graph, parents: &[i32], sizes: &[u64], control: &Control) -> Result<Vec<u64>> {
    let count = graph.len();
    if parents.len() != count || sizes.len() != count || parents.iter().any(|parent| *parent >= count as i32) {
        return Err(Failure::BadInput);
    }
    let mut pace = Pace::new(control);
    let mut sums = copied(sizes)?;
    let mut waiting = filled(count, 0u32)?;
    for parent in parents.iter().filter(|parent| **parent >= 0) {
        waiting[*parent as usize] += 1;
    }
    for leaf in 0..count {
        let mut block = leaf;
        // from each leaf upwards, as far as all others have come
        while waiting[block] == 0 {
            pace.step()?;
            waiting[block] = u32::MAX;
            let Ok(parent) = usize::try_from(parents[block]) else { break };
            sums[parent] = sums[parent].saturating_add(sums[block]);
            waiting[parent] -= 1;
            block = parent;
        }
    }
    Ok(sums)
}

/// Of each block its bytes and those of all below it (see `below`), down to the next block of its kind on each way,
/// which has its own.
pub fn costs(graph: &Graph, above: &[i32], kinds: &[i32], sizes: &[u64], control: &Control) -> Result<Vec<u64>> {
    const NONE: u32 = u32::MAX;
    let count = graph.len();
    let most = kinds.iter().copied().max().unwrap_or(0);
    if kinds.len() != count || kinds.iter().any(|kind| *kind < 0) {
        return Err(Failure::BadInput);
    }
    let sums = below(graph, above, sizes, control)?;
    let mut costs = copied(&sums)?;
    // the first block below each, the last one of which is above all, and the next block beside each
    let (mut first, mut beside) = (filled(count + 1, NONE)?, filled(count, NONE)?);
    for block in (0..count).rev() {
        let over = usize::try_from(above[block]).unwrap_or(count);
        beside[block] = std::mem::replace(&mut first[over], block as u32);
    }
    // of each kind the nearest block on the way down, and of each block the one of its kind above it
    let (mut nearest, mut before) = (filled(most as usize + 1, NONE)?, filled(count, NONE)?);
    let (mut pace, mut at, mut downwards) = (Pace::new(control), first[count], true);
    while at != NONE {
        pace.step()?;
        let block = at as usize;
        let kind = kinds[block] as usize;
        if downwards {
            before[block] = std::mem::replace(&mut nearest[kind], at);
            if first[block] != NONE {
                at = first[block];
                continue;
            }
        }
        nearest[kind] = before[block];
        if let Some(cost) = costs.get_mut(before[block] as usize) {
            *cost = cost.saturating_sub(sums[block]);
        }
        downwards = beside[block] != NONE;
        at = if downwards { beside[block] } else { u32::try_from(above[block]).unwrap_or(NONE) };
    }
    Ok(costs)
}
