//! Blocks that hang together: cycles folded into one, and what hangs on each that nothing else leads to.

use crate::edges::{target, INSIDE};
use crate::failure::{append, filled, push, with_room, Control, Pace, Result};
use crate::graph::Graph;

const NONE: u32 = u32::MAX;
/// So many blocks of a way round a cycle are told.
const LONGEST_WAY: usize = 64;

/// Blocks that nothing of the others leads to, or the first of a cycle of which that is so, and what hangs on them.
#[derive(Default)]
pub struct Groups {
    /// In order.
    pub heads: Vec<u32>,
    /// The heads on which others hang, where the others of each end, and these: each hangs on the first that leads to
    /// it; of a cycle the rest as well.
    pub leading: Vec<u32>,
    pub ends: Vec<u64>,
    pub others: Vec<u32>,
    /// Of each cycle the shortest way round from its head on: where each ends, and the blocks. Of a long one only its
    /// begin.
    pub way_ends: Vec<u64>,
    pub ways: Vec<u32>,
}

struct Among<'a> {
    graph: &'a Graph,
    is_asked: Vec<bool>,
    skipped: u32,
}

impl Among<'_> {
    fn targets(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let edges = self.graph.of(node).iter().filter(move |edge| **edge & self.skipped == 0);
        edges.map(|edge| target(*edge)).filter(move |to| self.is_asked[*to] && *to != node)
    }

    /// Each node of a cycle with the first node of it, by Tarjan's algorithm, without recursion: a list of a million
    /// nodes is no deeper than memory.
    fn firsts(&self, nodes: &[u32], pace: &mut Pace) -> Result<Vec<u32>> {
        let count = self.graph.len();
        let mut first = filled(count, NONE)?;
        // the order in which each was met, the lowest order that it leads back to; 0: not met
        let (mut order, mut low) = (filled(count, 0u32)?, filled(count, 0u32)?);
        let mut open: Vec<u32> = Vec::new();
        let mut way: Vec<(u32, usize)> = Vec::new();
        let mut met = 0;
        for start in nodes {
            if order[*start as usize] != 0 {
                continue;
            }
            push(&mut way, (*start, 0))?;
            while let Some((node, at)) = way.last_mut() {
                let node = *node as usize;
                if *at == 0 {
                    met += 1;
                    order[node] = met;
                    low[node] = met;
                    push(&mut open, node as u32)?;
                    pace.step()?;
                }
                let edges = self.graph.of(node);
                let mut next = None;
                while *at < edges.len() && next.is_none() {
                    pace.step()?;
                    let to = target(edges[*at]);
                    let counts = edges[*at] & self.skipped == 0 && self.is_asked[to] && to != node;
                    *at += 1;
                    if counts && order[to] == 0 {
                        next = Some(to);
                    } else if counts && first[to] == NONE {
                        low[node] = low[node].min(order[to]);
                    }
                }
                if let Some(to) = next {
                    push(&mut way, (to as u32, 0))?;
                    continue;
                }
                way.pop();
                if let Some((before, _)) = way.last() {
                    let before = *before as usize;
                    low[before] = low[before].min(low[node]);
                }
                if low[node] == order[node] {
                    let begin = open.iter().rposition(|each| *each as usize == node).expect("it is open");
                    let least = open[begin..].iter().copied().min().expect("itself");
                    for member in open.drain(begin..) {
                        first[member as usize] = least;
                    }
                }
            }
        }
        Ok(first)
    }

    /// The shortest way from a cycle's first node back to it: the blocks on it, the first one first. `before` learns
    /// from where each node of the cycle was met.
    fn way_round(&self, head: u32, first: &[u32], before: &mut [u32], pace: &mut Pace) -> Result<Vec<u32>> {
        let mut met = Vec::new();
        push(&mut met, head)?;
        before[head as usize] = head;
        let mut at = 0;
        while let Some(node) = met.get(at).copied() {
            at += 1;
            for edge in self.graph.of(node as usize).iter().filter(|edge| **edge & self.skipped == 0) {
                pace.step()?;
                let to = target(*edge);
                if to == head as usize && node != head {
                    let mut way = Vec::new();
                    let mut back = node;
                    while back != head {
                        push(&mut way, back)?;
                        back = before[back as usize];
                    }
                    push(&mut way, head)?;
                    way.reverse();
                    way.truncate(LONGEST_WAY);
                    return Ok(way);
                }
                if first[to] == head && before[to] == NONE {
                    before[to] = node;
                    push(&mut met, to as u32)?;
                }
            }
        }
        Ok(Vec::new())
    }
}

/// Every one of these nodes once; they are in order. With `starts_only` pointers to insides do not count.
pub fn groups(graph: &Graph, nodes: &[u32], starts_only: bool, control: &Control) -> Result<Groups> {
    let mut pace = Pace::new(control);
    graph.check(nodes.iter().copied())?;
    let mut is_asked = filled(graph.len(), false)?;
    for node in nodes {
        is_asked[*node as usize] = true;
    }
    let among = Among { graph, is_asked, skipped: if starts_only { INSIDE } else { 0 } };
    let first = among.firsts(nodes, &mut pace)?;
    let (mut is_led_to, mut is_cycle) = (filled(graph.len(), false)?, filled(graph.len(), false)?);
    for node in nodes {
        let head = first[*node as usize];
        if head != *node {
            // of a cycle its first node stands for all
            is_led_to[*node as usize] = true;
            is_cycle[head as usize] = true;
        }
        for to in among.targets(*node as usize) {
            pace.step()?;
            let other = first[to];
            if other != head {
                is_led_to[other as usize] = true;
            }
        }
    }
    let mut found = Groups { heads: with_room(nodes.len())?, ..Groups::default() };
    found.heads.extend(nodes.iter().filter(|node| !is_led_to[**node as usize]));
    let mut before =
        filled(if found.heads.iter().any(|head| is_cycle[*head as usize]) { graph.len() } else { 0 }, NONE)?;
    for head in found.heads.iter().filter(|head| is_cycle[**head as usize]) {
        let way = among.way_round(*head, &first, &mut before, &mut pace)?;
        append(&mut found.ways, way)?;
        push(&mut found.way_ends, found.ways.len() as u64)?;
    }
    let mut is_seen = filled(graph.len(), false)?;
    let mut todo = Vec::new();
    for head in &found.heads {
        let before = found.others.len();
        is_seen[*head as usize] = true;
        push(&mut todo, *head)?;
        while let Some(node) = todo.pop() {
            for to in among.targets(node as usize) {
                pace.step()?;
                if !is_seen[to] {
                    is_seen[to] = true;
                    push(&mut found.others, to as u32)?;
                    push(&mut todo, to as u32)?;
                }
            }
        }
        if found.others.len() > before {
            push(&mut found.leading, *head)?;
            push(&mut found.ends, found.others.len() as u64)?;
        }
    }
    Ok(found)
}
