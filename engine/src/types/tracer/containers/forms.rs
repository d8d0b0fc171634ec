//! What libraries have in common, and the two forms that most of their containers have: nodes with a value each, and
//! one block of all elements.

use std::rc::Rc;

use crate::failure::{push, Result};
use crate::types::facts::{Argument, Facts, Field, Form as TypeForm, TypeId};
use crate::types::tracer::claims::{Claim, Strength, Take};
use crate::types::tracer::layouts::{TypeTable, MOST_MEMBERS};
use crate::types::tracer::memory::Memory;

/// A standard library's containers: None where the type is none of them. Asked once for each type.
pub type Library = fn(&Rc<TypeTable>, TypeId, &Facts) -> Result<Option<Container>>;

/// A class template of a standard library with known arguments, as `std::map<int, Session>`.
pub enum Container {
    Body(OfBody),
    Nodes(OfNodes),
    Value(OfValue),
    Owned(Owned),
    Other(Box<dyn Other>),
}

impl Container {
    /// What the one at this address holds, once it has proved itself (its counts agree, its links lead back): never
    /// more than its count. False: it is damaged, or not yet made, and nothing was taken. Each block that is claimed
    /// was asked by `holds`, but the one object of a pointer (unique_ptr), of which the dynamic type may be another.
    pub fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        match self {
            Container::Body(own) => {
                let Some(body) = own.body(memory, address) else { return Ok(false) };
                if body.block.is_some() {
                    take(&own.claim(&body))?;
                }
            }
            Container::Nodes(own) => {
                let mut nodes = Vec::new();
                let Some(buckets) = own.nodes(memory, address, &mut nodes)? else { return Ok(false) };
                for (number, node) in nodes.iter().enumerate() {
                    take(&own.claim(memory.start(*node), number as u64))?;
                }
                if let Some(claim) = own.claim_buckets(buckets) {
                    take(&claim)?;
                }
            }
            Container::Value(own) => {
                let Some(which) = own.which(memory, address) else { return Ok(false) };
                if let Some(of) = own.types[which] {
                    take(&Claim::inline(address.wrapping_add(own.value), of))?;
                }
            }
            Container::Owned(own) => return own.claims(memory, address, take),
            Container::Other(own) => return own.claims(memory, address, take),
        }
        Ok(true)
    }

    /// How many elements it has; None where it has not proved itself.
    pub fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        Ok(match self {
            Container::Body(own) => own.body(memory, address).map(|body| body.count),
            Container::Nodes(own) => {
                let mut nodes = Vec::new();
                own.nodes(memory, address, &mut nodes)?.map(|_| nodes.len() as u64)
            }
            Container::Value(own) => own.which(memory, address).map(|which| u64::from(own.form.is_there(own, which))),
            Container::Owned(own) => {
                let mut count = 0u64;
                let mut add = |claim: &Claim| {
                    count = count.saturating_add(claim.elements.unwrap_or(1));
                    Ok(())
                };
                own.claims(memory, address, &mut add)?.then_some(count)
            }
            Container::Other(own) => own.elements(memory, address)?,
        })
    }

    /// What one with next to no elements takes besides itself; None: it has more, or has not proved itself, or takes as
    /// little as can be.
    pub fn tiny(&self, memory: &Memory, address: u64) -> Result<Option<Tiny>> {
        match self {
            Container::Nodes(own) => own.tiny(memory, address),
            Container::Other(own) => own.tiny(memory, address),
            _ => Ok(None),
        }
    }

    /// How much it uses of the block that it has for elements; None: it has none, or has not proved itself.
    pub fn room(&self, memory: &Memory, address: u64) -> Result<Option<Room>> {
        Ok(match self {
            Container::Body(own) => own.body(memory, address).and_then(|body| own.room(&body)),
            Container::Nodes(own) => own.form.table(memory, address).map(|(table, count)| {
                let (word, used) = (memory.word_size(), count.min(table.room));
                // how full a table has to be before it grows the program may choose; the smallest have 13
                const SPARSE: u64 = 8;
                const SMALL: u64 = 64;
                let grown = if table.room > SMALL { table.room.saturating_mul(word) / SPARSE } else { 0 };
                Room {
                    start: table.start,
                    elements: count,
                    used: used.saturating_mul(word),
                    room: table.room.saturating_mul(word),
                    grown,
                    is_ahead: false,
                }
            }),
            Container::Other(own) => own.room(memory, address)?,
            Container::Value(_) | Container::Owned(_) => None,
        })
    }
}

/// Of the block in which a container has its elements, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Where the block begins.
    pub start: u64,
    pub elements: u64,
    /// What lies before the elements and behind them counts as used.
    pub used: u64,
    pub room: u64,
    /// A container that only ever grew uses at least so much of it.
    pub grown: u64,
    /// What is used lies in front of what is not.
    pub is_ahead: bool,
}

/// A container with next to no elements, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiny {
    pub elements: u64,
    /// What the elements take.
    pub held: u64,
    /// Its blocks, with malloc's own bytes.
    pub blocks: u64,
    /// One of them; 0: it has none.
    pub block: u64,
}

/// A container that has no form in common with others: see `Container`.
pub trait Other {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool>;

    /// Those that have numbers.
    fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        let mut count = 0u64;
        let is_proved = self.claims(memory, address, &mut |claim| {
            count += if claim.number.is_some() { claim.elements.unwrap_or(1) } else { 0 };
            Ok(())
        })?;
        Ok(is_proved.then_some(count))
    }

    fn room(&self, _: &Memory, _: u64) -> Result<Option<Room>> {
        Ok(None)
    }

    fn tiny(&self, _: &Memory, _: u64) -> Result<Option<Tiny>> {
        Ok(None)
    }

    /// Of a set whose elements lie in its own blocks: bytes that one of them takes there.
    fn place_in_set(&self) -> Option<u64> {
        None
    }

    /// Of a pointer that shares an object: the block with the counts.
    fn shared(&self, _: &Memory, _: u64) -> Result<Option<SharedBlock>> {
        Ok(None)
    }
}

/// A block that counts who shares an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBlock {
    pub start: u64,
    /// How many hold the object; 0: it is destroyed.
    pub owners: u64,
    /// How many know it, of a destroyed one.
    pub weak: u64,
}

/// What Rust's Rc and Arc point to: two counts before the value.
pub const COUNTED_IN_RUST: [&str; 3] = ["alloc::rc::RcBox", "alloc::rc::RcInner", "alloc::sync::ArcInner"];

/// A made-up node.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub of: TypeId,
    pub size: u64,
    /// Of its value.
    pub value: u64,
    /// Where what follows its value may lie.
    pub tail: u64,
}

/// An array of pointers to nodes or buffers: the type of one, and what the array is called.
pub struct Table {
    pub of: TypeId,
    pub name: Rc<str>,
}

/// Of a hash table; no room: it has none that is a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    pub start: u64,
    pub room: u64,
}

/// Whatever proves its nodes.
pub struct OfNodes {
    pub node: Node,
    pub strength: Strength,
    buckets: Option<Table>,
    form: Box<dyn NodesForm>,
}

pub trait NodesForm {
    /// Adds its nodes in their order, as blocks; None unless it has proved itself: what was added is worth nothing
    /// then.
    fn nodes(&self, node: &Node, memory: &Memory, address: u64, to: &mut Vec<u32>) -> Result<Option<Buckets>>;

    /// How many nodes it says that there are, without a proof; None: it does not, or takes as little as can be.
    fn count(&self, _: &Memory, _: u64) -> Option<u64> {
        None
    }

    /// The table of a hash table that has one, and how many nodes it says that there are, without a proof.
    fn table(&self, _: &Memory, _: u64) -> Option<(Buckets, u64)> {
        None
    }
}

impl OfNodes {
    pub fn new(node: Node, form: Box<dyn NodesForm>) -> OfNodes {
        OfNodes { node, strength: Strength::Container, buckets: None, form }
    }

    pub fn weaker(self, strength: Strength) -> OfNodes {
        OfNodes { strength, ..self }
    }

    pub fn with_buckets(self, buckets: Table) -> OfNodes {
        OfNodes { buckets: Some(buckets), ..self }
    }

    /// In place of what `to` had, the blocks of its nodes in their order; None unless it has proved itself.
    pub fn nodes(&self, memory: &Memory, address: u64, to: &mut Vec<u32>) -> Result<Option<Buckets>> {
        to.clear();
        self.form.nodes(&self.node, memory, address, to)
    }

    fn tiny(&self, memory: &Memory, address: u64) -> Result<Option<Tiny>> {
        let (table, count) = match self.form.table(memory, address) {
            Some((table, count)) => (Some(table), count),
            None => (None, self.form.count(memory, address).unwrap_or(u64::MAX)),
        };
        // a node of a tree is what a tree needs
        if count > u64::from(self.buckets.is_some()) {
            return Ok(None);
        }
        let mut nodes = Vec::new();
        if self.nodes(memory, address, &mut nodes)?.is_none() {
            return Ok(None);
        }
        let mut blocks = nodes.iter().map(|node| memory.size(*node)).sum();
        let mut block = nodes.first().map_or(0, |node| memory.start(*node));
        if let Some(table) = table.and_then(|table| memory.at(table.start)) {
            blocks += memory.size(table);
            block = memory.start(table);
        }
        Ok(Some(Tiny { elements: count, held: count * self.node.value, blocks, block }))
    }

    pub fn claim(&self, node: u64, number: u64) -> Claim<'_> {
        Claim { number: Some(number), ..Claim::new(node, self.node.of, self.strength) }
    }

    pub fn claim_buckets(&self, buckets: Buckets) -> Option<Claim<'_>> {
        let of = self.buckets.as_ref().filter(|_| buckets.room > 0)?;
        let claim = Claim::new(buckets.start, of.of, Strength::Container);
        Some(Claim { step: " (buckets)", name: &of.name, elements: Some(buckets.room), ..claim })
    }
}

/// Elements that lie beside each other in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// None: there is no block.
    pub block: Option<u32>,
    /// Where the block begins.
    pub start: u64,
    pub used: u64,
    pub room: u64,
    /// How many elements it has: of bits other than are in use.
    pub count: u64,
}

impl Body {
    pub const NOWHERE: Body = Body { block: None, start: 0, used: 0, room: 0, count: 0 };

    /// None unless so many elements are in use as there may be.
    #[inline]
    pub fn new(block: Option<u32>, start: u64, used: u64, room: u64) -> Option<Body> {
        (used <= room).then_some(Body { block, start, used, room, count: used })
    }
}

/// The body of the one at an address; None unless it has proved itself.
type BodyForm = dyn Fn(&OfBody, &Memory, u64) -> Option<Body>;

/// Whatever proves its body.
pub struct OfBody {
    /// The elements' type, and its size.
    pub element: TypeId,
    pub size: u64,
    /// Whether elements lead further.
    pub words: bool,
    /// The body's name, for when the elements' type says less.
    pub name: Rc<str>,
    /// So many bytes are before the elements.
    pub front: u64,
    /// So many elements are after them that nobody counts: a string's 0.
    pub after: u64,
    /// Of a string: where in itself the letters of a short one lie.
    pub inside: Option<u64>,
    form: Box<BodyForm>,
}

/// Where a string's letters lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub start: u64,
    /// In letters.
    pub length: u64,
    /// Bytes of a letter.
    pub size: u64,
}

impl OfBody {
    pub fn new(
        types: &TypeTable,
        element: TypeId,
        form: impl Fn(&OfBody, &Memory, u64) -> Option<Body> + 'static,
    ) -> Result<OfBody> {
        let (size, form) = (types.facts(element)?.size, Box::new(form));
        Ok(OfBody { element, size, words: true, name: "".into(), front: 0, after: 0, inside: None, form })
    }

    /// Of what leads nowhere.
    pub fn of_numbers(self) -> OfBody {
        OfBody { words: false, ..self }
    }

    /// A string of that type with a 0 behind its letters, of which short ones may lie `inside` itself.
    pub fn of_text(self, facts: &Facts, inside: u64) -> OfBody {
        let name = format!("{} body", facts.name).into();
        OfBody { name, after: 1, inside: Some(inside), words: false, ..self }
    }

    pub fn with_front(self, front: u64) -> OfBody {
        OfBody { front, ..self }
    }

    /// None unless it has proved itself.
    #[inline]
    pub fn body(&self, memory: &Memory, address: u64) -> Option<Body> {
        (self.form)(self, memory, address)
    }

    /// None: it has no block.
    fn room(&self, body: &Body) -> Option<Room> {
        body.block?;
        let bytes = |count: u64| count.saturating_add(self.after).saturating_mul(self.size).saturating_add(self.front);
        Some(Room {
            start: body.start,
            elements: body.count,
            used: bytes(body.used),
            room: bytes(body.room),
            // libraries double it, or less
            grown: bytes(body.room / 2),
            is_ahead: true,
        })
    }

    pub fn claim(&self, body: &Body) -> Claim<'_> {
        Claim {
            words: self.words,
            front: self.front,
            name: &self.name,
            elements: Some(body.used.saturating_add(self.after)),
            capacity: Some(body.room.saturating_add(self.after)),
            number: self.words.then_some(0),
            ..Claim::new(body.start, self.element, Strength::Container)
        }
    }

    /// Of a string; None unless it has proved itself.
    pub fn text(&self, memory: &Memory, address: u64) -> Option<Text> {
        let (inside, body) = (self.inside?, self.body(memory, address)?);
        let start = if body.block.is_some() { body.start + self.front } else { address.wrapping_add(inside) };
        Some(Text { start, length: body.used, size: self.size })
    }
}

/// Whether the letters that begin there are ended by a 0.
pub fn is_ended(memory: &Memory, letters: u64, count: u64, size: u64) -> bool {
    memory.number(letters.wrapping_add(count.wrapping_mul(size)), size) == Some(0)
}

/// Whatever has in one place a value of one of several types, or none; a number tells which.
pub struct OfValue {
    /// Where it lies.
    pub value: u64,
    /// By the number; None: it has no value then.
    pub types: Vec<Option<TypeId>>,
    form: Box<dyn ValueForm>,
}

pub trait ValueForm {
    /// The number; None unless it has proved itself.
    fn which(&self, own: &OfValue, memory: &Memory, address: u64) -> Option<usize>;

    /// Whether that number stands for an element.
    fn is_there(&self, own: &OfValue, which: usize) -> bool {
        own.types[which].is_some()
    }
}

impl OfValue {
    pub fn new(value: u64, types: Vec<Option<TypeId>>, form: Box<dyn ValueForm>) -> OfValue {
        OfValue { value, types, form }
    }

    /// Below the number of types.
    pub fn which(&self, memory: &Memory, address: u64) -> Option<usize> {
        self.form.which(self, memory, address).filter(|which| *which < self.types.len())
    }
}

/// By its start, the end of its elements and its own end. None: none, or not made yet.
#[inline]
pub fn between(memory: &Memory, [start, finish, end]: [u64; 3], size: u64) -> Option<Body> {
    if !(start <= finish && finish <= end) || size == 0 {
        return None;
    }
    let (used, room) = ((finish - start) / size, (end - start) / size);
    if used * size != finish - start || room * size != end - start {
        return None;
    }
    Body::new(if start != 0 { Some(memory.holds(start, end - start)?) } else { None }, start, used, room)
}

/// A balanced tree of as many nodes as memory can hold is not higher.
const TALLEST: usize = 128;

/// Which words of a tree's node lead to others, below 4.
#[derive(Clone, Copy)]
pub struct Links {
    pub parent: usize,
    pub left: usize,
    pub right: usize,
}

/// Adds the nodes of a binary tree below its header, `above`. False unless each child leads back to its parent and each
/// node is a block of this size, as many as are counted. As no node has two parents, none is seen twice.
pub fn in_order(
    memory: &Memory,
    root: u64,
    mut above: u64,
    links: Links,
    size: u64,
    count: u64,
    to: &mut Vec<u32>,
) -> Result<bool> {
    let span = links.parent.max(links.left).max(links.right) + 1;
    let mut waiting = [(0, 0, 0); TALLEST + 1];
    let (mut high, mut node, mut found) = (0, root, 0);
    while node != 0 || high > 0 {
        while node != 0 {
            let mut own = [0; 4];
            if high > TALLEST || !memory.words(node, &mut own[..span]) || own[links.parent] != above {
                return Ok(false);
            }
            let (left, right) = (own[links.left], own[links.right]);
            let Some(block) = memory.holds(node, size).filter(|_| left == 0 || left != right) else {
                return Ok(false);
            };
            waiting[high] = (node, right, block);
            high += 1;
            (above, node) = (node, left);
        }
        high -= 1;
        let block;
        (above, node, block) = waiting[high];
        found += 1;
        if found > count {
            return Ok(false);
        }
        push(to, block)?;
    }
    Ok(found == count)
}

/// Adds the nodes of a ring whose first two words are next and previous. False unless each leads back and is a block of
/// this size, as many as are counted (None: nobody counts them). As no node has two before it, none is seen twice.
pub fn both_ways(
    memory: &Memory,
    header: u64,
    first: u64,
    size: u64,
    count: Option<u64>,
    to: &mut Vec<u32>,
) -> Result<bool> {
    let (mut before, mut node, mut found) = (header, first, 0);
    loop {
        let mut own = [0; 2];
        if !memory.words(node, &mut own) || own[1] != before {
            return Ok(false);
        }
        if node == header {
            return Ok(count.map_or(true, |count| found == count));
        }
        let Some(block) = memory.holds(node, size).filter(|_| count != Some(found)) else { return Ok(false) };
        push(to, block)?;
        found += 1;
        (before, node) = (node, own[0]);
    }
}

/// Adds the nodes of a chain that ends in 0, and tells of each, by its address. False unless each is a block of this
/// size, as many as are counted, and `accept` takes it.
pub fn one_way(
    memory: &Memory,
    first: u64,
    size: u64,
    count: Option<u64>,
    to: &mut Vec<u32>,
    mut accept: impl FnMut(u64) -> bool,
) -> Result<bool> {
    let (mut node, mut met, mut until, mut found) = (first, 0, 2u64, 0);
    while node != 0 {
        if count == Some(found) || node == met {
            return Ok(false);
        }
        let (Some(block), Some(next)) = (memory.holds(node, size), memory.word(node)) else { return Ok(false) };
        if !accept(node) {
            return Ok(false);
        }
        push(to, block)?;
        found += 1;
        if found == until {
            // a node that comes again is met once the distance is as long as its cycle
            (met, until) = (node, 2 * until);
        }
        node = next;
    }
    Ok(count.map_or(true, |count| found == count))
}

/// So deep members are looked for: bases of bases, members of members.
pub const DEEPEST: u32 = 24;

/// A member, or a member of members, and where it is in the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub offset: u64,
    pub of: TypeId,
}

impl Member {
    fn within(self, outer: u64) -> Member {
        Member { offset: self.offset.saturating_add(outer), ..self }
    }
}

/// The value, or the function's answer is that there is none.
macro_rules! got {
    ($found:expr) => {
        match $found {
            Some(found) => found,
            None => return Ok(None),
        }
    };
}
pub(super) use got;

/// A member of a member: "_M_impl._M_start". Each may be a base's, at any depth.
pub fn find(types: &TypeTable, of: TypeId, path: &str) -> Result<Option<Member>> {
    let mut found = Member { offset: 0, of };
    for name in path.split('.') {
        let inner = member(types, found.of, name, DEEPEST, &mut MOST_MEMBERS.clone())?;
        found = got!(inner).within(found.offset);
    }
    Ok(Some(found))
}

/// The first of these members that there is.
pub fn first_of(types: &TypeTable, of: TypeId, paths: &[&str]) -> Result<Option<Member>> {
    for path in paths {
        let found = find(types, of, path)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Where all of these members lie, separated by spaces: members of a member, or of the whole if that is "".
pub fn places<const N: usize>(types: &TypeTable, of: TypeId, within: &str, names: &str) -> Result<Option<[u64; N]>> {
    let outer = if within.is_empty() { Member { offset: 0, of } } else { got!(find(types, of, within)?) };
    let mut found = [0; N];
    for (place, name) in found.iter_mut().zip(names.split_ascii_whitespace()) {
        *place = got!(find(types, outer.of, name)?).within(outer.offset).offset;
    }
    Ok(Some(found))
}

/// Of the members that are looked at yet, those of one type: nested types have 2^n.
pub fn pay(left: &mut u32, facts: &Facts) {
    *left = left.saturating_sub(facts.fields.len() as u32 + 1);
}

fn member(types: &TypeTable, of: TypeId, name: &str, deep: u32, left: &mut u32) -> Result<Option<Member>> {
    if deep == 0 || *left == 0 {
        return Ok(None);
    }
    let facts = types.facts(of)?;
    pay(left, &facts);
    if let Some(field) = facts.fields.iter().find(|field| &*field.name == name && !field.is_base) {
        return Ok(Some(Member { offset: field.offset, of: field.of }));
    }
    // a base's members, and an anonymous union's
    for field in facts.fields.iter().filter(|field| field.is_base || field.name.is_empty()) {
        if let Some(inner) = member(types, field.of, name, deep - 1, left)? {
            return Ok(Some(inner.within(field.offset)));
        }
    }
    Ok(None)
}

/// The first member of a member of which this is true, or the type itself. Only members for which `enters` are
/// looked into.
pub fn first_within(
    types: &TypeTable,
    of: TypeId,
    is_it: &dyn Fn(&Facts) -> bool,
    enters: &dyn Fn(&Facts) -> bool,
) -> Result<Option<Member>> {
    descend(types, of, is_it, enters, DEEPEST, &mut MOST_MEMBERS.clone())
}

fn descend(
    types: &TypeTable,
    of: TypeId,
    is_it: &dyn Fn(&Facts) -> bool,
    enters: &dyn Fn(&Facts) -> bool,
    deep: u32,
    left: &mut u32,
) -> Result<Option<Member>> {
    let facts = types.facts(of)?;
    if is_it(&facts) {
        return Ok(Some(Member { offset: 0, of }));
    }
    if deep == 0 || *left == 0 || !enters(&facts) {
        return Ok(None);
    }
    pay(left, &facts);
    for field in &facts.fields {
        if let Some(inner) = descend(types, field.of, is_it, enters, deep - 1, left)? {
            return Ok(Some(inner.within(field.offset)));
        }
    }
    Ok(None)
}

/// The first member of a member whose type's name begins so, or the type itself.
pub fn inside(types: &TypeTable, of: TypeId, name: &str) -> Result<Option<Member>> {
    first_within(types, of, &|facts| facts.name.starts_with(name), &|_| true)
}

/// The type that is a template's argument, whether complete or not.
pub fn type_argument(facts: &Facts, number: usize) -> Option<TypeId> {
    match facts.arguments.get(number) {
        Some(Argument::Type(of)) => Some(*of),
        _ => None,
    }
}

/// The type that is a template's argument, where it is complete.
pub fn argument(types: &TypeTable, facts: &Facts, number: usize) -> Result<Option<TypeId>> {
    let of = got!(type_argument(facts, number));
    Ok((types.facts(of)?.size > 0).then_some(of))
}

/// Words of an object, which are read at once where they lie close together.
pub struct Words<const N: usize> {
    first: u64,
    /// In words; 0: they are read one by one.
    span: usize,
    at: [u64; N],
}

const MOST_SPAN: usize = 16;

impl<const N: usize> Words<N> {
    pub fn new(types: &TypeTable, places: [u64; N]) -> Words<N> {
        let word = types.word();
        let (first, last) = (places.iter().min().copied().unwrap_or(0), places.iter().max().copied().unwrap_or(0));
        let span = ((last - first) / word) as usize;
        if span >= MOST_SPAN || places.iter().any(|place| (place - first) % word != 0) {
            return Words { first: 0, span: 0, at: places };
        }
        Words { first, span: span + 1, at: places.map(|place| (place - first) / word) }
    }

    /// None where one of them cannot be read.
    #[inline]
    pub fn read(&self, memory: &Memory, address: u64) -> Option<[u64; N]> {
        let (mut all, mut found) = ([0; MOST_SPAN], [0; N]);
        if self.span == 0 {
            for (word, place) in found.iter_mut().zip(&self.at) {
                *word = memory.word(address.wrapping_add(*place))?;
            }
            return Some(found);
        }
        if !memory.words(address.wrapping_add(self.first), &mut all[..self.span]) {
            return None;
        }
        for (word, place) in found.iter_mut().zip(&self.at) {
            *word = all[*place as usize];
        }
        Some(found)
    }
}

/// As far as the members tell: `alignas` is not in debug information's facts.
pub fn alignment(types: &TypeTable, of: TypeId) -> Result<u64> {
    aligned(types, of, DEEPEST, &mut MOST_MEMBERS.clone())
}

fn aligned(types: &TypeTable, of: TypeId, deep: u32, left: &mut u32) -> Result<u64> {
    let (facts, word) = (types.facts(of)?, types.word());
    let is_struct = matches!(facts.form, TypeForm::Struct | TypeForm::Union);
    if deep > 0 && *left > 0 {
        pay(left, &facts);
        if is_struct && !facts.fields.is_empty() {
            let mut most = 1;
            for field in &facts.fields {
                most = most.max(aligned(types, field.of, deep - 1, left)?);
            }
            return Ok(most);
        }
        if let (TypeForm::Array, Some(target)) = (facts.form, facts.target) {
            return aligned(types, target, deep - 1, left);
        }
    }
    let whole = (facts.size & facts.size.wrapping_neg()).max(1);
    // what has no members that we see has bit-fields
    Ok(whole.min(if is_struct { word } else { 2 * word }))
}

pub fn rounded(size: u64, to: u64) -> u64 {
    size.div_ceil(to).saturating_mul(to)
}

/// A pointer from node to node. What it leads to the container tells, not its type.
fn link(types: &TypeTable) -> Result<TypeId> {
    types.pointer_to(types.made_up("node", 0, Vec::new(), None)?)
}

pub fn field(name: &str, offset: u64, of: TypeId) -> Field {
    Field { name: name.into(), offset, of, is_base: false }
}

pub fn links(types: &TypeTable, names: &[&str], start: u64) -> Result<Vec<Field>> {
    let (pointer, word) = (link(types)?, types.word());
    Ok(names.iter().enumerate().map(|(number, name)| field(name, start + number as u64 * word, pointer)).collect())
}

pub fn table_of_links(types: &TypeTable, name: String) -> Result<Table> {
    let of = types.made_up(&name, types.word(), links(types, &[""], 0)?, None)?;
    Ok(Table { of, name: name.into() })
}

/// What a pointer that owns leads to: one object, of this type or one derived from it, or an array.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    of: TypeId,
    size: u64,
    /// Of an array: so many bytes lie before it, where their number does (for `delete[]`).
    front: Option<u64>,
}

impl Object {
    pub fn of(types: &TypeTable, pointer: TypeId, is_array: bool) -> Result<Option<Object>> {
        let facts = types.facts(pointer)?;
        let of = got!(facts.target.filter(|_| facts.form == TypeForm::Pointer));
        let (size, front) = (types.facts(of)?.size, if is_array { Some(alignment(types, of)?) } else { None });
        Ok((size > 0).then_some(Object { of, size, front: front.map(|front| front.max(facts.size)) }))
    }

    pub fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        if address == 0 {
            return Ok(true);
        }
        let Some(front) = self.front else {
            take(&Claim::new(address, self.of, Strength::Exact))?;
            return Ok(true);
        };
        let array = Claim { number: Some(0), ..Claim::new(address, self.of, Strength::Container) };
        if let Some(block) = memory.at(address) {
            // as many as there is room for
            let count = memory.room(block) / self.size;
            if count > 0 {
                take(&Claim { elements: Some(count), strength: Strength::Array, ..array })?;
            }
            return Ok(count > 0);
        }
        let (noted, start) = (memory.word(address.wrapping_sub(memory.word_size())), address.wrapping_sub(front));
        let Some(noted) = noted.filter(|noted| {
            let size = noted.saturating_mul(self.size).saturating_add(front);
            *noted > 0 && memory.holds(start, size).is_some()
        }) else {
            return Ok(false);
        };
        take(&Claim { address: start, elements: Some(noted), front, ..array })?;
        Ok(true)
    }
}

/// unique_ptr.
pub struct Owned {
    place: u64,
    object: Object,
}

impl Owned {
    pub fn new(place: u64, object: Object) -> Owned {
        Owned { place, object }
    }

    /// The type of the one object; None: it has an array.
    pub fn target(&self) -> Option<TypeId> {
        self.object.front.is_none().then_some(self.object.of)
    }

    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        match memory.word(address.wrapping_add(self.place)) {
            Some(object) => self.object.claims(memory, object, take),
            None => Ok(false),
        }
    }
}
