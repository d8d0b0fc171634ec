//! All objects that roots lead to, each by the shortest way, and the places where these ways lead.

use std::collections::HashMap;

use super::objects::{Step, Visitor};
use super::types::{Class, Shape, Types, NONE, POOLS};
use crate::bits::Bits;
use crate::failure::{filled, insert, push, Control, Failure, Pace, Result};

/// A place that many objects may have: an element of a list is at the same place as the others.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The place in front of it; NONE: it is a root.
    pub parent: u32,
    pub step: Step,
    pub class: u32,
    /// How many places are in front of it.
    pub depth: u32,
    pub objects: u64,
    /// Of these and the memory that they have beside themselves.
    pub bytes: u64,
    pub elements: u64,
    /// Of the largest one, and where that is.
    pub largest: u64,
    pub sample: u64,
    /// Of caches alone.
    pub hits: u64,
    pub misses: u64,
    pub is_unbounded: bool,
}

struct Node {
    address: u64,
    place: u32,
}

/// What was found.
pub struct Walk<'a> {
    pub types: &'a Types<'a>,
    pub places: Vec<Place>,
    by_step: HashMap<(u32, Step, u32), u32>,
    nodes: Vec<Node>,
    parents: Vec<u32>,
    /// The numbers of nodes by their addresses; NONE is free.
    table: Vec<u32>,
    /// The blocks of malloc's that have been counted.
    counted: Bits,
    followed: usize,
    /// What words lead to of which no more is known, and classes that were met: these ways are the last.
    later: Vec<Later>,
    /// Of each class, by its number.
    pub classes: Vec<ClassSum>,
    asked: Vec<Asked>,
    /// Bytes that were found in pools.
    pub in_pools: u64,
}

/// All objects of a class, with the memory that they have beside themselves.
#[derive(Clone, Copy, Default)]
pub struct ClassSum {
    pub objects: u64,
    pub bytes: u64,
}

/// A block of malloc's or of Python's, by any address in it, and the first object that has it.
struct Asked {
    start: u64,
    end: u64,
    node: u32,
}

#[derive(Clone, Copy)]
struct Later {
    object: u64,
    place: u32,
    parent: u32,
    step: Step,
}

/// Places of one image.
const MOST_PLACES: usize = 1 << 17;
/// So far in front of a place one is looked for that is alike, and from so deep on no other is made.
const BEFORE: u32 = 6;
const DEEPEST: u32 = 48;
const MOST_NODES: usize = 1 << 31;
const FIRST_TABLE: usize = 1 << 12;

impl<'a> Walk<'a> {
    pub fn new(types: &'a Types<'a>) -> Result<Walk<'a>> {
        Ok(Walk {
            types,
            places: Vec::new(),
            by_step: HashMap::new(),
            nodes: Vec::new(),
            parents: Vec::new(),
            table: filled(FIRST_TABLE, NONE)?,
            counted: Bits::new(types.memory.blocks.len())?,
            followed: 0,
            later: Vec::new(),
            classes: Vec::new(),
            asked: Vec::new(),
            in_pools: 0,
        })
    }

    pub fn objects(&self) -> usize {
        self.nodes.len()
    }

    /// Notes which object has the block in which an address lies.
    pub fn ask(&mut self, address: u64) -> Result<()> {
        let memory = self.types.memory;
        let (start, end) = match (memory.blocks.find(address), self.types.pooled(address)) {
            (Some((block, _)), _) => (memory.start(block), memory.blocks.ends[block as usize]),
            (_, Some((start, size))) => (start, start + size),
            _ => (address, address.saturating_add(1)),
        };
        push(&mut self.asked, Asked { start, end, node: NONE })
    }

    /// Where the objects are that were asked for.
    pub fn told(&self) -> impl Iterator<Item = Option<(u32, u64)>> + '_ {
        self.asked.iter().map(|asked| self.nodes.get(asked.node as usize).map(|node| (node.place, node.address)))
    }

    fn note(&mut self, address: u64, node: u32) {
        for asked in &mut self.asked {
            if asked.node == NONE && asked.start <= address && address < asked.end {
                asked.node = node;
            }
        }
    }

    pub fn address(&self, number: usize) -> u64 {
        self.nodes[number].address
    }

    /// Adds an object that a root leads to by a step, or that is the root itself.
    pub fn start(&mut self, object: u64, root: u32, step: Option<Step>) -> Result<()> {
        let class = self.types.of(object)?;
        if class == NONE {
            return Ok(());
        }
        let mut place = self.place(NONE, Step::Root(root), NONE)?;
        if let Some(step) = step {
            place = self.place(place, step, class)?;
        }
        self.add(object, place, NONE)
    }

    /// Follows all that was added, by the names that a program has.
    pub fn follow(&mut self, control: &Control) -> Result<()> {
        let mut pace = Pace::new(control);
        while self.followed < self.nodes.len() {
            pace.step()?;
            let number = self.followed as u32;
            let Node { address, place } = self.nodes[self.followed];
            self.followed += 1;
            let kind = self.types.of(address)?;
            if kind == NONE {
                continue;
            }
            let class = self.types.class(kind);
            self.note(address, number);
            self.count(address, place, kind, &class)?;
            let types = self.types;
            let is_namespace = self.places[place as usize].step == Step::Own;
            let is_first = self.classes[kind as usize].objects == 1;
            let mut steps = Steps { walk: self, place, number, kind, pace: &mut pace };
            types.visit(address, &class, is_namespace, &mut steps)?;
            if class.is_python && is_first {
                steps.meet(class.address, Step::Class)?;
            }
        }
        Ok(())
    }

    /// Follows the ways that have no names as well.
    pub fn follow_rest(&mut self, control: &Control) -> Result<()> {
        let mut at = 0;
        while at < self.later.len() {
            let Later { object, place, parent, step } = self.later[at];
            at += 1;
            if self.find(object).is_none() {
                let class = self.types.of(object)?;
                let place = self.place(place, step, class)?;
                self.add(object, place, parent)?;
                self.follow(control)?;
            }
            if at == self.later.len() / 2 && at > 1 << 16 {
                self.later.drain(..at);
                at = 0;
            }
        }
        Ok(())
    }

    fn count(&mut self, address: u64, place: u32, kind: u32, class: &Class) -> Result<()> {
        let bytes = self.bytes_at(address);
        let number = kind as usize;
        if number >= self.classes.len() {
            self.classes.try_reserve(number + 1 - self.classes.len())?;
            self.classes.resize(number + 1, ClassSum::default());
        }
        self.classes[number].objects += 1;
        self.classes[number].bytes = self.classes[number].bytes.saturating_add(bytes);
        let elements = self.types.elements(address, class).unwrap_or(0);
        let cache = if class.shape == Shape::Cache {
            let mut words = [0; 4];
            self.types.memory.words(address.saturating_add(80), &mut words).then_some(words)
        } else {
            None
        };
        let place = &mut self.places[place as usize];
        place.objects += 1;
        place.bytes = place.bytes.saturating_add(bytes);
        place.elements = place.elements.saturating_add(elements);
        if place.sample == 0 || elements > place.largest {
            (place.largest, place.sample) = (elements, address);
        }
        if let Some([hits, _, most, misses]) = cache {
            place.hits = place.hits.saturating_add(hits);
            place.misses = place.misses.saturating_add(misses);
            place.is_unbounded |= most as i64 == -1;
        }
        Ok(())
    }

    /// What malloc or CPython takes for what lies there; 0 if it was counted before.
    fn bytes_at(&mut self, address: u64) -> u64 {
        let memory = self.types.memory;
        if let Some((block, _)) = memory.blocks.find(address) {
            return if self.counted.add(block as usize) { memory.size(block) } else { 0 };
        }
        let size = self.types.pooled(address).map_or(0, |(_, size)| size);
        self.in_pools = self.in_pools.saturating_add(size);
        size
    }

    /// Bytes of all blocks that pools have handed out, wherever they are.
    pub fn handed_out(&self, control: &Control) -> Result<u64> {
        let (image, blocks) = (self.types.memory.image(), self.types.memory.blocks);
        let mut pace = Pace::new(control);
        let (mut at, mut sum) = (0, 0u64);
        while let Some(piece) = image.piece_from(at) {
            for pool in POOLS {
                let mut start = piece.start.checked_next_multiple_of(pool).unwrap_or(piece.end);
                while start < piece.end {
                    pace.step()?;
                    let found = self.types.pool(start, pool).filter(|_| blocks.find(start).is_none());
                    sum = sum.saturating_add(found.map_or(0, |(size, number)| size * number));
                    start = start.saturating_add(pool);
                }
            }
            at = piece.end;
        }
        Ok(sum)
    }

    fn slot(&self, address: u64) -> usize {
        let mask = self.table.len() - 1;
        // objects begin at multiples of 8, and often of 16
        let mut at = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 20 & mask;
        while self.table[at] != NONE && self.nodes[self.table[at] as usize].address != address {
            at = (at + 1) & mask;
        }
        at
    }

    /// The number of an object that was met.
    pub fn find(&self, address: u64) -> Option<u32> {
        Some(self.table[self.slot(address)]).filter(|number| *number != NONE)
    }

    fn add(&mut self, address: u64, place: u32, parent: u32) -> Result<()> {
        if self.nodes.len() >= MOST_NODES {
            return Err(Failure::NoMemory);
        }
        if self.nodes.len() * 2 >= self.table.len() {
            self.table = filled(self.table.len() * 2, NONE)?;
            for number in 0..self.nodes.len() {
                let slot = self.slot(self.nodes[number].address);
                self.table[slot] = number as u32;
            }
        }
        let slot = self.slot(address);
        if self.table[slot] == NONE {
            self.table[slot] = self.nodes.len() as u32;
            push(&mut self.nodes, Node { address, place })?;
            push(&mut self.parents, parent)?;
        }
        Ok(())
    }

    /// The place behind another one. Where a way repeats itself, as a list's does, it is the place of before.
    fn place(&mut self, parent: u32, step: Step, class: u32) -> Result<u32> {
        if let Some(known) = self.by_step.get(&(parent, step, class)) {
            return Ok(*known);
        }
        let depth = if parent == NONE { 0 } else { self.places[parent as usize].depth + 1 };
        let place = match self.alike(parent, step, class) {
            Some(alike) => alike,
            None if parent != NONE && (depth > DEEPEST || self.places.len() >= MOST_PLACES) => parent,
            None => {
                let made = Place {
                    parent,
                    step,
                    class,
                    depth,
                    objects: 0,
                    bytes: 0,
                    elements: 0,
                    largest: 0,
                    sample: 0,
                    hits: 0,
                    misses: 0,
                    is_unbounded: false,
                };
                push(&mut self.places, made)?;
                self.places.len() as u32 - 1
            }
        };
        insert(&mut self.by_step, (parent, step, class), place)?;
        Ok(place)
    }

    fn alike(&self, parent: u32, step: Step, class: u32) -> Option<u32> {
        let has_name = matches!(step, Step::Name(_) | Step::Slot(..) | Step::Captured(_));
        let mut at = parent;
        for _ in 0..if has_name { BEFORE } else { 0 } {
            let place = self.places.get(at as usize)?;
            if (place.step, place.class) == (step, class) {
                return Some(at);
            }
            at = place.parent;
        }
        None
    }
}

/// Takes in what one object leads to.
struct Steps<'a, 'b, 'c> {
    walk: &'a mut Walk<'b>,
    place: u32,
    number: u32,
    kind: u32,
    pace: &'a mut Pace<'c>,
}

impl Visitor for Steps<'_, '_, '_> {
    fn meet(&mut self, object: u64, step: Step) -> Result<()> {
        self.pace.step()?;
        if self.walk.find(object).is_some() {
            return Ok(());
        }
        let class = self.walk.types.of(object)?;
        if class == NONE {
            return Ok(());
        }
        if matches!(step, Step::Field(_) | Step::Beside(_) | Step::Class) {
            return push(&mut self.walk.later, Later { object, place: self.place, parent: self.number, step });
        }
        let place = self.walk.place(self.place, step, class)?;
        self.walk.add(object, place, self.number)
    }

    fn keep(&mut self, address: u64) -> Result<bool> {
        self.walk.note(address, self.number);
        let bytes = self.walk.bytes_at(address);
        let place = &mut self.walk.places[self.place as usize];
        place.bytes = place.bytes.saturating_add(bytes);
        let sum = &mut self.walk.classes[self.kind as usize];
        sum.bytes = sum.bytes.saturating_add(bytes);
        Ok(bytes > 0)
    }
}
