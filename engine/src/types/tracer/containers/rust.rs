//! Containers of Rust's standard library. Their elements' types are templates' arguments; the members' names differ
//! from release to release, so that a pointer and a number are looked for by their form.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::forms::*;
use crate::failure::{filled, push, Result};
use crate::types::facts::{Facts, Form, TypeId};
use crate::types::tracer::claims::{Claim, Strength, Take};
use crate::types::tracer::layouts::{TypeTable, MOST_MEMBERS};
use crate::types::tracer::memory::Memory;

const TABLE: &str = "hashbrown::raw::RawTable<";

pub fn container(types: &Rc<TypeTable>, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    if facts.form != Form::Struct {
        let held = facts.fields.iter().map(|each| Some(each.of)).collect();
        return Ok(Variants::of(types, facts)?
            .map(|variants| Container::Value(OfValue::new(0, held, Box::new(Tagged { variants, place: 0 })))));
    }
    match facts.name.split('<').next().unwrap_or_default() {
        "alloc::vec::Vec" => vector(types, of, facts),
        "alloc::collections::vec_deque::VecDeque" => queue(types, of, facts),
        "alloc::collections::btree::map::BTreeMap" => tree(types, of, facts),
        "std::collections::hash::map::HashMap"
        | "std::collections::hash::set::HashSet"
        | "hashbrown::map::HashMap"
        | "hashbrown::set::HashSet"
        | "hashbrown::raw::RawTable" => table(types, of, facts),
        "std::sync::once_lock::OnceLock" => made_once(types, of, "value.value.value.value"),
        "std::sync::lazy_lock::LazyLock" => made_once(types, of, "data.value.value.value"),
        template if template.ends_with("::lazy::Storage") => lazy(types, of),
        _ => match (pair(facts, ["pointer", "vtable"]), pair(facts, ["data_ptr", "length"])) {
            (Some([pointer, table]), _) => dynamic(types, facts, pointer, table),
            (_, Some([pointer, length])) => slice(types, pointer, length),
            _ => Ok(None),
        },
    }
}

/// These members, where it has no others.
fn pair(facts: &Facts, names: [&str; 2]) -> Option<[Member; 2]> {
    let member = |name: &str| {
        let field = facts.fields.iter().find(|field| &*field.name == name)?;
        Some(Member { offset: field.offset, of: field.of })
    };
    Some([member(names[0])?, member(names[1])?]).filter(|_| facts.fields.len() == 2)
}

/// The step to an entry's key, of a map.
pub const KEY: &str = ".key";

// BTreeMap

const LEAF: &str = "alloc::collections::btree::node::LeafNode";
/// Bytes of a node's length, and of its number among its parent's edges.
const INDEX: u64 = 2;

/// A kind of node: its type, its size, and where members lie.
#[derive(Clone, Copy)]
struct TreeNode {
    of: TypeId,
    size: u64,
    parent: u64,
    rank: u64,
    length: u64,
    keys: u64,
    values: u64,
}

impl TreeNode {
    /// `front`: where in the whole it begins.
    fn new(types: &TypeTable, of: TypeId, front: u64) -> Result<Option<TreeNode>> {
        let facts = types.facts(of)?;
        let found = got!(places(types, of, "", "parent parent_idx len keys vals")?);
        let [parent, rank, length, keys, values] = found.map(|place| place.saturating_add(front));
        let made = TreeNode { of, size: facts.size, parent, rank, length, keys, values };
        Ok(facts.name.starts_with(LEAF).then_some(made))
    }
}

/// A key or a value.
#[derive(Clone, Copy)]
struct Element {
    of: TypeId,
    size: u64,
}

/// BTreeMap.
struct Tree {
    /// The root's pointer, its height, how many entries there are.
    words: Words<3>,
    leaf: TreeNode,
    internal: Option<TreeNode>,
    edges: u64,
    key: Element,
    value: Element,
}

impl Tree {
    /// Its nodes, whether each is a leaf, and how many entries each has; None unless it has proved itself.
    fn nodes(&self, memory: &Memory, address: u64) -> Result<Option<Vec<(u64, bool, u64)>>> {
        const HIGHEST: u64 = 32;
        const CAPACITY: u64 = 11;
        let [root, height, length] = got!(self.words.read(memory, address));
        let mut found = Vec::new();
        if root == 0 || length == 0 {
            return Ok((length == 0).then_some(found));
        }
        let (mut left, mut count) = (vec![(root, height, 0, 0)], 0);
        while let Some((at, level, above, index)) = left.pop() {
            let node = got!(self.kind(level));
            let used = got!(memory.number(at.wrapping_add(node.length), INDEX));
            let is_right = level <= HIGHEST
                && memory.holds(at, node.size).is_some()
                && 0 < used
                && used <= CAPACITY
                && memory.word(at.wrapping_add(node.parent)) == Some(above)
                && (above == 0 || memory.number(at.wrapping_add(node.rank), INDEX) == Some(index));
            count += used;
            if !is_right || count > length {
                return Ok(None);
            }
            push(&mut found, (at, level == 0, used))?;
            for number in 0..if level > 0 { used + 1 } else { 0 } {
                let edge = at.wrapping_add(self.edges).wrapping_add(number * memory.word_size());
                let child = got!(memory.word(edge).filter(|child| *child != 0));
                push(&mut left, (child, level - 1, at, number))?;
            }
        }
        Ok((count == length).then_some(found))
    }

    /// Of a node at a level.
    fn kind(&self, level: u64) -> Option<TreeNode> {
        if level > 0 {
            self.internal
        } else {
            Some(self.leaf)
        }
    }

    /// Calls for each entry, in their order, of one that has proved itself: the node, and which of its entries it is.
    fn each_entry(
        &self,
        memory: &Memory,
        address: u64,
        mut take: impl FnMut(u64, &TreeNode, u64) -> Result<()>,
    ) -> Result<()> {
        let Some([root, height, _]) = self.words.read(memory, address) else { return Ok(()) };
        // of nodes on the way down how many edges and entries are done
        let mut way = vec![(root, height, 0)];
        while let Some((at, level, done)) = way.pop() {
            let Some(node) = self.kind(level) else { return Ok(()) };
            let used = memory.number(at.wrapping_add(node.length), INDEX).unwrap_or(0);
            if level == 0 {
                (0..used).try_for_each(|entry| take(at, &node, entry))?;
                continue;
            }
            if done > 0 && done <= used {
                take(at, &node, done - 1)?;
            }
            if done <= used {
                push(&mut way, (at, level, done + 1))?;
                let edge = at.wrapping_add(self.edges).wrapping_add(done * memory.word_size());
                push(&mut way, (memory.word(edge).unwrap_or(0), level - 1, 0))?;
            }
        }
        Ok(())
    }
}

impl Other for Tree {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let Some(nodes) = self.nodes(memory, address)? else { return Ok(false) };
        for (at, is_leaf, _) in &nodes {
            let node = self.internal.filter(|_| !is_leaf).unwrap_or(self.leaf);
            take(&Claim { step: " (node)", words: false, ..Claim::new(*at, node.of, Strength::Container) })?;
        }
        // values are written as elements; those of a set have no size
        let of_key = if self.value.size > 0 { KEY } else { "" };
        let mut number = 0;
        self.each_entry(memory, address, |at, node, entry| {
            for (element, step, place) in [(&self.key, of_key, node.keys), (&self.value, "", node.values)] {
                if element.size > 0 {
                    let place = place.wrapping_add(element.size.wrapping_mul(entry));
                    let claim = Claim::inline(at.wrapping_add(place), element.of);
                    take(&Claim { number: Some(number), step, ..claim })?;
                }
            }
            number += 1;
            Ok(())
        })?;
        Ok(true)
    }

    fn place_in_set(&self) -> Option<u64> {
        Some(self.key.size).filter(|_| self.value.size == 0)
    }

    fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        let nodes = self.nodes(memory, address)?;
        Ok(nodes.map(|nodes| nodes.iter().map(|(_, _, used)| used).sum()))
    }
}

fn tree(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    const REFERENCE: &str = "alloc::collections::btree::node::NodeRef";
    const INTERNAL: &str = "alloc::collections::btree::node::InternalNode";
    let reference = got!(inside(types, of, REFERENCE)?);
    let (pointer, height) =
        (got!(find(types, reference.of, "node.pointer")?), got!(find(types, reference.of, "height")?).offset);
    let length = got!(find(types, of, "length")?).offset;
    let (key, value) = (got!(type_argument(facts, 0)), got!(type_argument(facts, 1)));
    let target = got!(types.facts(pointer.of)?.target);
    let leaf = got!(TreeNode::new(types, target, 0)?);
    let (mut internal, mut edges) = (None, 0);
    if let Some(inner) = types.by_name(&types.facts(target)?.name.replacen(LEAF, INTERNAL, 1))? {
        if let Some(data) = find(types, inner, "data")? {
            let made = TreeNode::new(types, target, data.offset)?;
            let size = types.facts(inner)?.size;
            internal = made.map(|made| TreeNode { of: inner, size, ..made });
        }
        edges = find(types, inner, "edges")?.map_or(0, |edges| edges.offset);
    }
    let within = |place: u64| reference.offset.saturating_add(place);
    let words = Words::new(types, [within(pointer.offset), within(height), length]);
    let element = |of: TypeId| -> Result<Element> { Ok(Element { of, size: types.facts(of)?.size }) };
    let (key, value) = (element(key)?, element(value)?);
    Ok(Some(Container::Other(Box::new(Tree { words, leaf, internal, edges, key, value }))))
}

// enums

/// Which variant an enum has.
struct Variants {
    /// Where the number lies, and its size.
    tag: Member,
    size: u64,
    /// The variant that has something else where the tag is, if there is one.
    full: Option<usize>,
    /// The lowest tag of the others, which go on from there in their order, and of the others the first and the end.
    first: u64,
    others: (usize, usize),
}

/// What a variant has in the place of the tag.
struct Leaf {
    offset: u64,
    of: TypeId,
    /// Whether the struct that it is a member of says that it is less than half of all numbers.
    is_capacity: bool,
}

impl Variants {
    /// None where it is not certain how its variants are told.
    fn of(types: &TypeTable, facts: &Facts) -> Result<Option<Variants>> {
        const MOST_VARIANTS: usize = 1 << 10;
        let tag = got!(facts.tag.as_ref());
        let (count, tag) = (facts.fields.len(), Member { offset: tag.offset, of: tag.of });
        if !(1..=MOST_VARIANTS).contains(&count) || facts.fields.iter().any(|each| each.offset != 0) {
            return Ok(None);
        }
        let size = types.facts(tag.of)?.size;
        let mut full: Option<(usize, Leaf)> = None;
        for (number, each) in facts.fields.iter().enumerate() {
            let mut leaves = Vec::new();
            let (from, to) = (tag.offset, tag.offset.saturating_add(size));
            let within = Within { types, from, to, left: Cell::new(MOST_MEMBERS) };
            within.leaves(each.of, DEEPEST, Leaf { offset: 0, of: each.of, is_capacity: false }, &mut leaves)?;
            if let Some(leaf) = leaves.pop() {
                if full.is_some() || !leaves.is_empty() {
                    return Ok(None);
                }
                full = Some((number, leaf));
            }
        }
        let Some((full, leaf)) = full else {
            return Ok(Some(Variants { tag, size, full: None, first: 0, others: (0, count) }));
        };
        let held = types.facts(leaf.of)?;
        if count < 2 || leaf.offset != tag.offset || held.size != size || !(1..=8).contains(&size) {
            return Ok(None);
        }
        // the lowest value that what lies there cannot have
        let first = match held.form {
            Form::Pointer | Form::Reference => 0,
            Form::Integer if leaf.is_capacity => 1 << (8 * size - 1),
            _ => return Ok(None),
        };
        // what lies between the others in their order has a number, too
        let others = (usize::from(full == 0), count - usize::from(full == count - 1));
        let is_told = first > 0 || count == 2;
        Ok(is_told.then_some(Variants { tag, size, full: Some(full), first, others }))
    }

    fn which(&self, memory: &Memory, address: u64) -> Option<usize> {
        let value = memory.number(address.wrapping_add(self.tag.offset), self.size)?;
        let (from, to) = self.others;
        match value.checked_sub(self.first) {
            Some(at) if at < (to - from) as u64 => Some(from + at as usize).filter(|other| self.full != Some(*other)),
            Some(_) if self.first > 0 => None,
            _ => self.full,
        }
    }
}

/// Bytes of an object.
struct Within<'a> {
    types: &'a TypeTable,
    from: u64,
    to: u64,
    /// So many members are looked at yet.
    left: Cell<u32>,
}

impl Within<'_> {
    /// Adds all that has bytes in common with these, until there are two; an enum in it is one thing.
    fn leaves(&self, of: TypeId, deep: u32, at: Leaf, found: &mut Vec<Leaf>) -> Result<()> {
        // last parts of the names of numbers that are less than half of all
        const CAPACITY: [&str; 2] = ["Cap", "UsizeNoHighBit"];
        let facts = self.types.facts(of)?;
        let end = at.offset.saturating_add(facts.size);
        if facts.size == 0 || at.offset >= self.to || end <= self.from || found.len() > 1 || self.left.get() == 0 {
            return Ok(());
        }
        self.left.set(self.left.get().saturating_sub(facts.fields.len() as u32 + 1));
        if facts.form != Form::Struct {
            return push(found, at);
        }
        let owner = facts.name.split('<').next().and_then(|template| template.rsplit("::").next());
        let is_capacity = owner.is_some_and(|owner| CAPACITY.contains(&owner));
        for field in facts.fields.iter().filter(|_| deep > 0) {
            let offset = at.offset.saturating_add(field.offset);
            self.leaves(field.of, deep - 1, Leaf { offset, of: field.of, is_capacity }, found)?;
        }
        Ok(())
    }
}

/// An enum, or what has the state of one at a place.
struct Tagged {
    variants: Variants,
    place: u64,
}

impl ValueForm for Tagged {
    fn which(&self, _: &OfValue, memory: &Memory, address: u64) -> Option<usize> {
        self.variants.which(memory, address.wrapping_add(self.place))
    }
}

/// What a thread has of its own, once it has asked for it: a value in one state of several.
fn lazy(types: &TypeTable, of: TypeId) -> Result<Option<Container>> {
    let value = got!(find(types, of, "value.value.value")?);
    let state = got!(find(types, of, "state.value.value")?);
    let facts = types.facts(state.of)?;
    let variants = got!(Variants::of(types, &facts)?);
    let alive = |name: &str| (name == "Alive").then_some(value.of);
    let held: Vec<_> = facts.fields.iter().map(|each| alive(&each.name)).collect();
    let is_one = held.iter().flatten().count() == 1;
    let form = Tagged { variants, place: state.offset };
    Ok(is_one.then(|| Container::Value(OfValue::new(value.offset, held, Box::new(form)))))
}

/// OnceLock, LazyLock: a state, and a value that is made when it is first asked for.
struct MadeOnce {
    state: Member,
    /// Bytes of the state, and of the value.
    size: u64,
    value: Element,
    place: u64,
}

impl ValueForm for MadeOnce {
    fn which(&self, _: &OfValue, memory: &Memory, address: u64) -> Option<usize> {
        // of which number means that it is made, releases of Rust differ: 4, then 0, which before meant that it is not
        const MADE: u64 = 4;
        const MADE_OR_NOT: u64 = 0;
        // so much of the value is looked at
        const MOST: u64 = 64;
        let state = memory.number(address.wrapping_add(self.state.offset), self.size)?;
        let word = |at: u64| memory.word(address.wrapping_add(self.place).wrapping_add(at * memory.word_size()));
        let words = (self.value.size / memory.word_size()).min(MOST);
        let is_made = state == MADE || (state == MADE_OR_NOT && (0..words).any(|at| word(at).unwrap_or(0) != 0));
        Some(usize::from(is_made))
    }
}

fn made_once(types: &TypeTable, of: TypeId, value: &str) -> Result<Option<Container>> {
    let (once, value) = (got!(find(types, of, "once")?), got!(find(types, of, value)?));
    let is_number = |facts: &Facts| facts.form == Form::Integer;
    let state = got!(first_within(types, once.of, &is_number, &|facts| facts.form == Form::Struct)?);
    let size = types.facts(state.of)?.size;
    let state = Member { offset: once.offset.saturating_add(state.offset), ..state };
    let held = Element { of: value.of, size: types.facts(value.of)?.size };
    let form = MadeOnce { state, size, value: held, place: value.offset };
    Ok(Some(Container::Value(OfValue::new(value.offset, vec![None, Some(value.of)], Box::new(form)))))
}

// elements beside each other

/// Of a RawVec's pointer and its capacity.
fn places_of_buffer(types: &TypeTable, of: TypeId) -> Result<Option<[u64; 2]>> {
    let buffer = got!(find(types, of, "buf")?);
    let leaf =
        |form: Form| first_within(types, buffer.of, &|facts| facts.form == form, &|facts| facts.form == Form::Struct);
    let (pointer, capacity) = (got!(leaf(Form::Pointer)?).offset, got!(leaf(Form::Integer)?).offset);
    Ok(Some([pointer, capacity].map(|place| place.saturating_add(buffer.offset))))
}

/// Whether its memory comes from malloc. Older releases have no allocator among the arguments.
fn is_global(types: &TypeTable, facts: &Facts) -> Result<bool> {
    let last = facts.arguments.len().checked_sub(1).filter(|last| *last > 0);
    Ok(match last.and_then(|last| type_argument(facts, last)) {
        Some(allocator) => &*types.facts(allocator)?.name == "alloc::alloc::Global",
        None => true,
    })
}

/// Vec; a String has one of bytes.
fn vector(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let [pointer, capacity] = got!(places_of_buffer(types, of)?);
    let (length, element) = (got!(find(types, of, "len")?).offset, got!(argument(types, facts, 0)?));
    let words = Words::new(types, [pointer, capacity, length]);
    let own = OfBody::new(types, element, move |own, memory, address| match words.read(memory, address)? {
        // it leads to where no block can be, as it may not be null
        [_, 0, used] => (used == 0).then_some(Body::NOWHERE),
        [start, room, used] if used <= room => {
            Body::new(Some(memory.holds(start, room.saturating_mul(own.size))?), start, used, room)
        }
        _ => None,
    })?;
    Ok(is_global(types, facts)?.then_some(Container::Body(own)))
}

/// VecDeque: elements from a first one on, at the end of the block again from its start.
struct Queue {
    /// The pointer, the capacity, the first element's number, the length.
    words: Words<4>,
    element: TypeId,
    size: u64,
}

impl Queue {
    fn read(&self, memory: &Memory, address: u64) -> Option<[u64; 4]> {
        let words = self.words.read(memory, address)?;
        let [start, room, head, used] = words;
        if room == 0 {
            return (used == 0).then_some([0; 4]);
        }
        let is_proved = used <= room && head < room && memory.holds(start, room.saturating_mul(self.size)).is_some();
        is_proved.then_some(words)
    }
}

impl Other for Queue {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let Some([start, room, head, used]) = self.read(memory, address) else { return Ok(false) };
        if room == 0 {
            return Ok(true);
        }
        let first = used.min(room - head);
        take(&Claim {
            number: Some(0),
            front: head * self.size,
            elements: Some(first),
            capacity: Some(room - head),
            ..Claim::new(start, self.element, Strength::Container)
        })?;
        for number in first..used {
            let at = start + (number - first) * self.size;
            take(&Claim { number: Some(number), ..Claim::inline(at, self.element) })?;
        }
        Ok(true)
    }

    fn room(&self, memory: &Memory, address: u64) -> Result<Option<Room>> {
        let known = self.read(memory, address).filter(|[_, room, ..]| *room > 0);
        Ok(known.map(|[start, room, head, used]| Room {
            start,
            elements: used,
            used: used * self.size,
            room: room * self.size,
            grown: room / 2 * self.size,
            is_ahead: head == 0,
        }))
    }
}

fn queue(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let [pointer, capacity] = got!(places_of_buffer(types, of)?);
    let ([head, length], element) = (got!(places(types, of, "", "head len")?), got!(argument(types, facts, 0)?));
    let (words, size) = (Words::new(types, [pointer, capacity, head, length]), types.facts(element)?.size);
    let made = Container::Other(Box::new(Queue { words, element, size }));
    Ok(is_global(types, facts)?.then_some(made))
}

/// Control bytes that are looked at together, and repeated after their end: with SSE2, and without.
const GROUPS: [u64; 2] = [GROUP, 8];
const GROUP: u64 = 16;

/// HashMap and HashSet: entries, the last one first, and after them a byte for each place.
struct Entries {
    types: Rc<TypeTable>,
    name: String,
    /// The pointer to the bytes, how many places but one, how many entries.
    words: Words<3>,
    /// What lies in each place, where, and the step to it: of a map key and value, of a set what it is of.
    parts: Vec<(TypeId, u64, &'static str)>,
    is_set: bool,
    /// Bytes of a place.
    size: u64,
}

/// What a table has proved.
struct Entered {
    /// 0: there is no block.
    start: u64,
    size: u64,
    /// Where the bytes for places begin, before which entries lie.
    control: u64,
    bytes: Vec<u8>,
}

impl Entries {
    fn table(&self, memory: &Memory, address: u64) -> Result<Option<Entered>> {
        const MOST_PLACES: u64 = 1 << 32;
        let [control, mask, entries] = got!(self.words.read(memory, address));
        if mask >= MOST_PLACES || mask & (mask + 1) != 0 {
            return Ok(None);
        }
        if mask == 0 {
            let none = Entered { start: 0, size: 0, control, bytes: Vec::new() };
            return Ok((entries == 0).then_some(none));
        }
        let places = mask + 1;
        let before = rounded(places.saturating_mul(self.size), GROUP);
        let (start, size) = (control.wrapping_sub(before), before.saturating_add(places + GROUP));
        let block = got!(memory.holds(start, size));
        let mut bytes = filled((places + GROUP) as usize, 0)?;
        let room = memory.room(block);
        if !memory.bytes(control, &mut bytes) {
            return Ok(None);
        }
        let is_repeated = GROUPS.iter().any(|group| {
            let (from, length) = (places.max(*group) as usize, places.min(*group) as usize);
            let again = &bytes[from..bytes.len().min(from + length)];
            is_asked(before + places + group, room) && again == &bytes[..again.len()]
        });
        bytes.truncate(places as usize);
        let is_right = bytes.iter().filter(|byte| is_entry(**byte)).count() as u64 == entries && start < control;
        Ok((is_right && is_repeated).then_some(Entered { start, size, control, bytes }))
    }
}

fn is_entry(byte: u8) -> bool {
    byte < 0x80
}

/// Whether a block that has so many bytes may have been asked for with so many.
fn is_asked(asked: u64, room: u64) -> bool {
    let slack = if room >= 128 << 10 { 4096 } else { 32 };
    asked <= room && room - asked < slack
}

impl Other for Entries {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let Some(table) = self.table(memory, address)? else { return Ok(false) };
        if table.start == 0 {
            return Ok(true);
        }
        let whole = self.types.made_up(&format!("{} table", self.name), table.size, Vec::new(), None)?;
        take(&Claim { step: " (table)", words: false, ..Claim::new(table.start, whole, Strength::Container) })?;
        let taken = table.bytes.iter().zip(1..).filter(|(byte, _)| is_entry(**byte)).map(|(_, place)| place);
        for (place, number) in taken.zip(0..) {
            let at = table.control - place * self.size;
            for (of, offset, step) in &self.parts {
                take(&Claim { number: Some(number), step, ..Claim::inline(at.wrapping_add(*offset), *of) })?;
            }
        }
        Ok(true)
    }

    fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        let table = self.table(memory, address)?;
        Ok(table.map(|table| table.bytes.iter().filter(|byte| is_entry(**byte)).count() as u64))
    }

    fn place_in_set(&self) -> Option<u64> {
        // with its control byte
        Some(self.size.saturating_add(1)).filter(|_| self.is_set)
    }

    fn room(&self, memory: &Memory, address: u64) -> Result<Option<Room>> {
        // of so many places at least a table is
        const LEAST: u64 = 8;
        let known = self.table(memory, address)?.filter(|table| table.start != 0);
        Ok(known.map(|table| {
            let elements = table.bytes.iter().filter(|byte| is_entry(**byte)).count() as u64;
            let (places, each) = (table.bytes.len() as u64, self.size.saturating_add(1));
            // one that is doubled was full to seven eighths
            let grown = if places > LEAST { places / 16 * 7 } else { 1 };
            Room {
                start: table.start,
                elements,
                used: elements.saturating_mul(each),
                room: places.saturating_mul(each),
                grown: grown.saturating_mul(each),
                is_ahead: false,
            }
        }))
    }
}

fn table(types: &Rc<TypeTable>, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let raw = got!(inside(types, of, TABLE)?);
    let own = types.facts(raw.of)?;
    let found = got!(places(types, raw.of, "table", "ctrl bucket_mask items")?);
    let element = got!(argument(types, &own, 0)?);
    if !is_global(types, &own)? {
        return Ok(None);
    }
    let words = Words::new(types, found.map(|place| place.saturating_add(raw.offset)));
    let place = types.facts(element)?;
    let mut parts = Vec::new();
    if let [key, value] = &place.fields[..] {
        let is_set = types.facts(value.of)?.size == 0;
        for (field, name, step) in [(key, "0", if is_set { "" } else { KEY }), (value, "1", "")] {
            if &*field.name == name && types.facts(field.of)?.size > 0 {
                parts.push((field.of, field.offset, step));
            }
        }
    }
    let is_set = parts.len() == 1 && parts[0].1 == 0;
    if parts.is_empty() {
        parts.push((element, 0, ""));
    }
    let (name, size) = (facts.name.to_string(), place.size);
    Ok(Some(Container::Other(Box::new(Entries { types: types.clone(), name, words, parts, is_set, size }))))
}

// pointers

/// A pointer with a length: Box<[T]>, Rc<str>; also one that borrows, which leads to a block of that size by chance at
/// most.
struct Several {
    words: Words<2>,
    element: TypeId,
    size: u64,
    /// Of Rc and Arc: how many bytes are in front, and where in these they count.
    front: u64,
    counts: Option<[u64; 2]>,
    name: String,
}

impl Other for Several {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let Some([start, count]) = self.words.read(memory, address).filter(|words| !words.contains(&0)) else {
            return Ok(true);
        };
        if memory.holds(start, count.saturating_mul(self.size).saturating_add(self.front)).is_some() {
            take(&Claim {
                number: Some(0),
                front: self.front,
                name: &self.name,
                elements: Some(count),
                ..Claim::new(start, self.element, Strength::Exact)
            })?;
        }
        Ok(true)
    }

    fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        Ok(self.words.read(memory, address).map(|[_, count]| count))
    }

    fn shared(&self, memory: &Memory, address: u64) -> Result<Option<SharedBlock>> {
        let [strong, weak] = got!(self.counts);
        let [start, _] = got!(self.words.read(memory, address));
        let count = |place: u64| memory.word(start.wrapping_add(place));
        let (owners, weak) = (got!(count(strong)), got!(count(weak)));
        Ok(memory.at(start).map(|_| SharedBlock { start, owners, weak }))
    }
}

fn slice(types: &TypeTable, pointer: Member, length: Member) -> Result<Option<Container>> {
    let facts = types.facts(pointer.of)?;
    if facts.form != Form::Pointer || types.facts(length.of)?.form != Form::Integer {
        return Ok(None);
    }
    let (mut element, mut front, mut counts, mut name) = (got!(facts.target), 0, None, String::new());
    let target = types.facts(element)?;
    if target.name.split('<').next().is_some_and(|template| COUNTED_IN_RUST.contains(&template)) {
        let value = got!(target.fields.iter().find(|each| ["value", "data"].contains(&&*each.name)));
        counts = places(types, element, "", "strong weak")?;
        (element, front, name) = (value.of, value.offset, target.name.to_string());
    }
    let (size, words) = (types.facts(element)?.size, Words::new(types, [pointer.offset, length.offset]));
    let made = Several { words, element, size, front, counts, name };
    Ok((size > 0).then(|| Container::Other(Box::new(made))))
}

/// Box<dyn Trait>: a pointer, and a vtable: the function that drops the value, its size, its alignment, methods. The
/// compiler makes one function of two that are alike, so that two of them have to name the same type.
struct Dynamic {
    types: Rc<TypeTable>,
    words: Words<2>,
    /// By the vtable.
    known: RefCell<HashMap<u64, Option<Element>>>,
}

impl Dynamic {
    /// Of a vtable whose first words are these: the value's type.
    fn held(&self, memory: &Memory, table: u64, [drop, size, _, method]: [u64; 4]) -> Result<Option<Element>> {
        // what symbols call each of a function's closures
        const CLOSURE: &str = "{{closure}}";
        let symbol = got!(memory.symbol(drop).filter(|_| drop != 0 && size != 0));
        let name = symbol.strip_prefix("core::ptr::drop_in_place<").and_then(|name| name.strip_suffix('>'));
        let name = got!(name);
        let of = match name.strip_suffix(CLOSURE) {
            Some(within) => got!(self.closure(memory, within, name, size, table)?),
            None => {
                let method = got!(memory.symbol(method));
                let rest = got!(method.strip_prefix('<').and_then(|rest| rest.strip_prefix(name)));
                if !rest.starts_with(" as ") {
                    return Ok(None);
                }
                got!(self.types.by_name(name)?)
            }
        };
        Ok((self.types.facts(of)?.size == size).then_some(Element { of, size }))
    }

    /// Of a function's closures the only one of that size. The last method is the closure itself.
    fn closure(&self, memory: &Memory, within: &str, name: &str, size: u64, table: u64) -> Result<Option<TypeId>> {
        // so many of one function are looked at
        const MOST_CLOSURES: u32 = 32;
        // of a vtable of FnMut and Fn the method that is the closure itself, where it is not made of another
        let mut words = [0; 6];
        let is_closure = |method: &u64| memory.symbol(*method).is_some_and(|symbol| &*symbol == name);
        if !memory.words(table, &mut words) || !words[4..].iter().any(is_closure) {
            return Ok(None);
        }
        let mut only = None;
        for number in 0..MOST_CLOSURES {
            let Some(of) = self.types.by_name(&format!("{within}{{closure_env#{number}}}"))? else { continue };
            if self.types.facts(of)?.size == size {
                if only.is_some() {
                    return Ok(None);
                }
                only = Some(of);
            }
        }
        Ok(only)
    }
}

impl Other for Dynamic {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        const MOST: usize = 1 << 16;
        let Some([start, table]) = self.words.read(memory, address).filter(|words| !words.contains(&0)) else {
            return Ok(false);
        };
        if !self.known.borrow().contains_key(&table) {
            let mut head = [0; 4];
            if !memory.words(table, &mut head) {
                return Ok(false);
            }
            let held = self.held(memory, table, head)?;
            let mut known = self.known.borrow_mut();
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(table, held);
        }
        let held = self.known.borrow().get(&table).copied().flatten();
        if let Some(held) = held.filter(|held| memory.holds(start, held.size).is_some()) {
            take(&Claim::new(start, held.of, Strength::Exact))?;
        }
        Ok(true)
    }

    fn elements(&self, _: &Memory, _: u64) -> Result<Option<u64>> {
        Ok(Some(1))
    }
}

/// Not of Rc and Arc, whose values have counts in front.
fn dynamic(types: &Rc<TypeTable>, facts: &Facts, pointer: Member, table: Member) -> Result<Option<Container>> {
    if !facts.name.starts_with("alloc::boxed::Box<dyn ") || types.facts(pointer.of)?.form != Form::Pointer {
        return Ok(None);
    }
    let words = Words::new(types, [pointer.offset, table.offset]);
    Ok(Some(Container::Other(Box::new(Dynamic { types: types.clone(), words, known: RefCell::default() }))))
}
