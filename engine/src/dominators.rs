//! Who alone leads to what: immediate dominators, by the semi-NCA algorithm of Georgiadis and Tarjan, of a graph whose
//! node 0 leads to the owners (nodes from 1 on), which lead to blocks (nodes behind the owners).
//!
//! All is numbered in the order in which a depth-first search meets it, so that parents come before children.

use crate::edges::target;
use crate::failure::{filled, push, with_room, Control, Failure, Pace, Result};
use crate::graph::Graph;

const NONE: u32 = u32::MAX;

/// Of what can be reached from node 0, in the order in which it was met.
#[derive(Default)]
pub struct Dominators {
    pub nodes: Vec<u32>,
    /// Of each, the place in that order of the last one that every way leads through; the first has none (0).
    pub above: Vec<u32>,
}

struct Nodes<'a> {
    graph: &'a Graph,
    /// `held[offsets[n]..offsets[n + 1]]` are the blocks of the nth owner.
    offsets: &'a [u64],
    held: &'a [u32],
}

impl Nodes<'_> {
    fn owners(&self) -> usize {
        self.offsets.len() - 1
    }

    /// How many targets a node has.
    fn count(&self, node: usize) -> usize {
        let owners = self.owners();
        match node {
            0 => owners,
            _ if node <= owners => (self.offsets[node] - self.offsets[node - 1]) as usize,
            _ => self.graph.of(node - owners - 1).len(),
        }
    }

    fn target(&self, node: usize, at: usize) -> usize {
        let owners = self.owners();
        match node {
            0 => at + 1,
            _ if node <= owners => self.held[self.offsets[node - 1] as usize + at] as usize + owners + 1,
            _ => target(self.graph.of(node - owners - 1)[at]) + owners + 1,
        }
    }
}

pub fn dominators(graph: &Graph, offsets: &[u64], held: &[u32], control: &Control) -> Result<Dominators> {
    let right = offsets.first() == Some(&0)
        && offsets.last() == Some(&(held.len() as u64))
        && offsets.windows(2).all(|two| two[0] <= two[1])
        && graph.len() + offsets.len() < NONE as usize;
    if !right {
        return Err(Failure::BadInput);
    }
    graph.check(held.iter().copied())?;
    let of = Nodes { graph, offsets, held };
    let mut pace = Pace::new(control);
    let (nodes, mut above, slots) = search(&of, &mut pace)?;
    let (begins, sources) = sources(&of, &nodes, slots, &mut pace)?;
    let mut semi = numbers(nodes.len())?;
    let mut label = numbers(nodes.len())?;
    let mut ancestor = with_room(nodes.len())?;
    ancestor.extend_from_slice(&above);
    let mut way = Vec::new();
    for at in (1..nodes.len()).rev() {
        let mut least = above[at];
        for source in &sources[begins[at] as usize..begins[at + 1] as usize] {
            pace.step()?;
            let mut source = *source;
            if source as usize > at {
                if ancestor[source as usize] as usize > at {
                    shorten(source, at as u32 + 1, &mut ancestor, &mut label, &semi, &mut way)?;
                }
                source = semi[label[source as usize] as usize];
            }
            least = least.min(source);
        }
        semi[at] = least;
    }
    for at in 1..nodes.len() {
        pace.step()?;
        let mut over = above[at];
        while over > semi[at] {
            over = above[over as usize];
        }
        above[at] = over;
    }
    Ok(Dominators { nodes, above })
}

fn numbers(count: usize) -> Result<Vec<u32>> {
    let mut made = with_room(count)?;
    made.extend(0..count as u32);
    Ok(made)
}

/// What is known of a node, side by side, as each look waits for memory.
#[derive(Clone, Copy)]
struct Slot {
    /// In the order in which nodes are met; NONE: it was not met.
    place: u32,
    /// So many edges of nodes that were met lead to it.
    sources: u32,
}

/// The nodes in the order in which they are met, where in it the parent of each stands, and what is known of each.
fn search(of: &Nodes, pace: &mut Pace) -> Result<(Vec<u32>, Vec<u32>, Vec<Slot>)> {
    let mut slots = filled(of.owners() + 1 + of.graph.len(), Slot { place: NONE, sources: 0 })?;
    let (mut nodes, mut parents) = (Vec::new(), Vec::new());
    let mut way: Vec<(u32, u32)> = Vec::new();
    slots[0].place = 0;
    push(&mut nodes, 0u32)?;
    push(&mut parents, 0u32)?;
    push(&mut way, (0, 0))?;
    while let Some((at, next)) = way.last_mut() {
        let (at, node) = (*at, nodes[*at as usize] as usize);
        let count = of.count(node);
        let mut found = None;
        while (*next as usize) < count && found.is_none() {
            pace.step()?;
            let to = of.target(node, *next as usize);
            *next += 1;
            let slot = &mut slots[to];
            slot.sources += 1;
            if slot.place == NONE {
                slot.place = nodes.len() as u32;
                found = Some(to);
            }
        }
        match found {
            Some(to) => {
                push(&mut way, (nodes.len() as u32, 0))?;
                push(&mut nodes, to as u32)?;
                push(&mut parents, at)?;
            }
            None => {
                way.pop();
            }
        }
    }
    Ok((nodes, parents, slots))
}

/// The places of those that lead to each place, but where only its parent does: where those of each begin, and these.
fn sources(of: &Nodes, nodes: &[u32], slots: Vec<Slot>, pace: &mut Pace) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut begins = with_room(nodes.len() + 1)?;
    // where those of each end, from where they are put in front of each other
    let mut count = 0u32;
    for node in nodes {
        pace.step()?;
        let own = slots[*node as usize].sources;
        count = count.checked_add(if own > 1 { own } else { 0 }).ok_or(Failure::NoMemory)?;
        begins.push(count);
    }
    begins.push(count);
    let mut sources = filled(count as usize, 0u32)?;
    for (node, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.place != NONE) {
        for at in 0..of.count(node) {
            pace.step()?;
            let to = slots[of.target(node, at)];
            if to.sources > 1 {
                let begin = &mut begins[to.place as usize];
                *begin -= 1;
                sources[*begin as usize] = slot.place;
            }
        }
    }
    Ok((begins, sources))
}

/// Makes `label` the node with the least semidominator on the way to what is not linked yet, and that way short.
fn shorten(
    node: u32,
    linked: u32,
    ancestor: &mut [u32],
    label: &mut [u32],
    semi: &[u32],
    way: &mut Vec<u32>,
) -> Result<()> {
    let mut top = node as usize;
    while ancestor[top] >= linked {
        push(way, top as u32)?;
        top = ancestor[top] as usize;
    }
    while let Some(each) = way.pop() {
        let each = each as usize;
        if semi[label[top] as usize] < semi[label[each] as usize] {
            label[each] = label[top];
        }
        ancestor[each] = ancestor[top];
        top = each;
    }
    Ok(())
}
