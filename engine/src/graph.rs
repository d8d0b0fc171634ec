//! Who leads to whom: the edges of each block, one after the other, and what follows from them.

use std::collections::BTreeMap;

use crate::edges::{target, DEEP, INSIDE, SHIFT, STALE};
use crate::failure::{copied, filled, push, with_room, Control, Failure, Pace, Result};

pub struct Graph {
    /// `edges[offsets[n]..offsets[n + 1]]` are the nth block's, in the order of its words.
    pub offsets: Vec<u32>,
    pub edges: Vec<u32>,
}

/// An edge of a block.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Further {
    pub source: u32,
    pub edge: u32,
}

/// Room for more edges than that would be more than their indices take.
pub fn offset(edges: usize) -> Result<u32> {
    u32::try_from(edges).map_err(|_| Failure::NoMemory)
}

impl Graph {
    pub fn new(offsets: Vec<u32>, edges: Vec<u32>) -> Graph {
        Graph { offsets, edges }
    }

    /// A graph that somebody else made.
    pub fn given(offsets: &[u32], edges: &[u32]) -> Result<Graph> {
        let right = offsets.first() == Some(&0)
            && offsets.last().map(|last| *last as usize) == Some(edges.len())
            && offsets.windows(2).all(|two| two[0] <= two[1])
            && edges.iter().all(|edge| target(*edge) < offsets.len() - 1);
        if !right {
            return Err(Failure::BadInput);
        }
        Ok(Graph { offsets: copied(offsets)?, edges: copied(edges)? })
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn of(&self, block: usize) -> &[u32] {
        &self.edges[self.offsets[block] as usize..self.offsets[block + 1] as usize]
    }

    pub fn check(&self, blocks: impl Iterator<Item = u32>) -> Result<()> {
        let count = self.len();
        for block in blocks {
            if block as usize >= count {
                return Err(Failure::BadInput);
            }
        }
        Ok(())
    }

    /// The same with some edges more, which come behind the others of their blocks.
    pub fn with(&self, further: &[Further], control: &Control) -> Result<Graph> {
        let mut pace = Pace::new(control);
        self.check(further.iter().map(|each| each.source))?;
        self.check(further.iter().map(|each| each.edge >> SHIFT))?;
        let mut more = copied(further)?;
        more.sort_unstable();
        let mut offsets = with_room(self.offsets.len())?;
        let mut edges = with_room(self.edges.len() + more.len())?;
        let mut at = 0;
        for block in 0..self.len() {
            pace.step()?;
            offsets.push(offset(edges.len())?);
            edges.extend_from_slice(self.of(block));
            while at < more.len() && more[at].source as usize == block {
                edges.push(more[at].edge);
                at += 1;
            }
        }
        offsets.push(offset(edges.len())?);
        Ok(Graph { offsets, edges })
    }

    /// The same without some edges of blocks, as often as each is given.
    pub fn without(&self, fewer: &[Further], control: &Control) -> Result<Graph> {
        let mut pace = Pace::new(control);
        self.check(fewer.iter().map(|each| each.source))?;
        let mut fewer = copied(fewer)?;
        fewer.sort_unstable();
        let (mut offsets, mut edges) = (with_room(self.offsets.len())?, with_room(self.edges.len())?);
        let (mut at, mut left) = (0, BTreeMap::new());
        for block in 0..self.len() {
            pace.step()?;
            offsets.push(offset(edges.len())?);
            left.clear();
            while at < fewer.len() && fewer[at].source as usize == block {
                *left.entry(fewer[at].edge).or_insert(0u32) += 1;
                at += 1;
            }
            for edge in self.of(block) {
                pace.step()?;
                match left.get_mut(edge) {
                    Some(count) if *count > 0 => *count -= 1,
                    _ => edges.push(*edge),
                }
            }
        }
        offsets.push(offset(edges.len())?);
        Ok(Graph { offsets, edges })
    }

    /// Edges to these blocks count as such to their insides.
    pub fn deepen(&mut self, targets: &[u32], control: &Control) -> Result<()> {
        let mut pace = Pace::new(control);
        self.check(targets.iter().copied())?;
        let mut is_target = filled(self.len(), false)?;
        for each in targets {
            is_target[*each as usize] = true;
        }
        for edge in &mut self.edges {
            pace.step()?;
            if is_target[target(*edge)] {
                *edge |= DEEP;
            }
        }
        Ok(())
    }

    /// The same without stale edges, and without those from blocks that pass sooner than what they lead to: `passing`
    /// tells of each how much worse those are that hold it.
    pub fn lasting(&self, passing: &[u8], control: &Control) -> Result<Graph> {
        let mut pace = Pace::new(control);
        if passing.len() != self.len() {
            return Err(Failure::BadInput);
        }
        let stays = |block: usize, edge: u32| edge & STALE == 0 && passing[block] <= passing[target(edge)];
        let mut offsets = with_room(self.offsets.len())?;
        let mut count = 0u32;
        for block in 0..self.len() {
            pace.step()?;
            offsets.push(count);
            count += self.of(block).iter().filter(|edge| stays(block, **edge)).count() as u32;
        }
        offsets.push(count);
        let mut edges = with_room(count as usize)?;
        for block in 0..self.len() {
            pace.step()?;
            edges.extend(self.of(block).iter().filter(|edge| stays(block, **edge)));
        }
        Ok(Graph { offsets, edges })
    }

    /// Marks these and what hangs on them: all that had less. Returns them in the order in which they were met.
    /// `parents`, where it is not empty, learns by which block each was met.
    pub fn mark(
        &self,
        first: &[u32],
        marks: &mut [u8],
        mark: u8,
        starts_only: bool,
        parents: &mut [i32],
        control: &Control,
    ) -> Result<Vec<u32>> {
        if marks.len() != self.len() || !(parents.is_empty() || parents.len() == self.len()) {
            return Err(Failure::BadInput);
        }
        self.check(first.iter().copied())?;
        let mut met = Vec::new();
        for block in first {
            if marks[*block as usize] < mark {
                marks[*block as usize] = mark;
                push(&mut met, *block)?;
            }
        }
        let skipped = if starts_only { INSIDE } else { 0 };
        let (mut at, mut pace) = (0, Pace::new(control));
        while at < met.len() {
            pace.step()?;
            let block = met[at] as usize;
            for edge in self.of(block) {
                pace.step()?;
                let to = target(*edge);
                if marks[to] < mark && edge & skipped == 0 {
                    marks[to] = mark;
                    push(&mut met, to as u32)?;
                    if !parents.is_empty() {
                        parents[to] = block as i32;
                    }
                }
            }
            at += 1;
        }
        Ok(met)
    }

    /// The blocks with this mark that have edges to the inside of blocks without it.
    pub fn leading_inside(&self, marks: &[u8], mark: u8, control: &Control) -> Result<Vec<u32>> {
        let mut pace = Pace::new(control);
        if marks.len() != self.len() {
            return Err(Failure::BadInput);
        }
        let mut found = Vec::new();
        for block in 0..self.len() {
            pace.step()?;
            let leads = |edge: &u32| edge & INSIDE != 0 && marks[target(*edge)] != mark;
            if marks[block] == mark && self.of(block).iter().any(leads) {
                push(&mut found, block as u32)?;
            }
        }
        Ok(found)
    }
}
