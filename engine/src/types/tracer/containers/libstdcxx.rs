//! libstdc++'s containers, from GCC 4.9 on, with strings of the old and the new ABI.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::forms::*;
use super::libcxx;
use crate::bits::Bits;
use crate::failure::{copied, filled, push, with_room, Result};
use crate::types::facts::{Argument, Facts, Field, Form, TypeId};
use crate::types::spelling::{parts_of, spelled};
use crate::types::tracer::claims::{Claim, Strength, Take};
use crate::types::tracer::layouts::{TypeTable, MOST_MEMBERS};
use crate::types::tracer::memory::Memory;

/// Templates of control blocks: with the object inside, with a pointer to it, with a deleter besides.
pub const INPLACE: &str = "std::_Sp_counted_ptr_inplace";
const ALONE: &str = "std::_Sp_counted_ptr";
const DELETED: &str = "std::_Sp_counted_deleter";
const OF_ARRAYS: &str = "std::__sp_array_delete";
const DELETER: &str = "std::default_delete<";
/// Which of a control block's virtual functions is `_M_dispose`: after two destructors.
const DISPOSE: u64 = 2;

/// "map" of std::map<int, int>; None for a name outside std.
fn template_of(name: &str) -> Option<String> {
    // inline namespaces, and where the containers are that `_GLIBCXX_DEBUG` wraps
    const INNER: [&str; 3] = ["__cxx11", "__cxx1998", "__8"];
    let whole = name.split('<').next()?.strip_prefix("std::")?;
    Some(whole.split("::").filter(|part| !INNER.contains(part)).collect::<Vec<_>>().join("::"))
}

/// Whether that is the library's own name of a container's node, or of what all nodes begin with.
pub fn is_node(name: &str) -> bool {
    const NODES: [&str; 5] = [
        "std::_List_node",
        "std::_Rb_tree_node",
        "std::_Fwd_list_node",
        "std::__detail::_List_node_base",
        "std::__detail::_Hash_node",
    ];
    NODES.iter().any(|node| name.starts_with(node))
}

pub fn container(types: &Rc<TypeTable>, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    if facts.form != Form::Struct {
        return Ok(None);
    }
    match &*got!(template_of(&facts.name)) {
        "map" | "multimap" | "set" | "multiset" => tree(types, of, facts),
        "unordered_map" | "unordered_multimap" | "unordered_set" | "unordered_multiset" => hash(types, of, facts),
        "list" => list(types, of, facts),
        "forward_list" => forward_list(types, of, facts),
        "vector" => vector(types, of, facts),
        "deque" => deque(types, of, facts),
        "basic_string" => string(types, of, facts),
        "valarray" => valarray(types, of, facts),
        "unique_ptr" => unique_ptr(types, of, facts),
        "shared_ptr" | "weak_ptr" => shared_ptr(types, of, facts),
        "optional" => optional(types, of, facts),
        "variant" => variant(types, of),
        "any" => any(types, of),
        "function" => function(types, of),
        "filesystem::path" => path(types, of, facts),
        _ => Ok(None),
    }
}

// pointers

fn unique_ptr(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let owned = got!(type_argument(facts, 0));
    // the first element of a tuple
    let base = got!(inside(types, of, "std::_Head_base<0")?);
    let head = got!(find(types, base.of, "_M_head_impl")?);
    let object = got!(Object::of(types, head.of, types.facts(owned)?.form == Form::Array)?);
    Ok(Some(Container::Owned(Owned::new(base.offset.saturating_add(head.offset), object))))
}

/// Where a control block has how many share its object, and how many know it; or how many do.
#[derive(Clone, Copy)]
pub struct Counts {
    pub uses: u64,
    pub weak: u64,
}

/// A class of control blocks, by its vtable's name.
#[derive(Clone, Copy)]
pub struct Control {
    pub of: TypeId,
    pub size: u64,
    /// Where it has the pointer to its object; 0: the object lies in it.
    pub pointer: u64,
    /// What the pointer leads to, if that is known.
    pub object: Option<Object>,
}

/// How a library makes its control blocks.
pub trait Sharing {
    /// How many hold the object, and the block; None: it has no such counts.
    fn counted(&self, memory: &Memory, uses: u64, weak: u64) -> Option<Counts>;

    /// By the class's name and one of its methods. None where it is not known how it is made.
    fn control(&self, shared: &Shared, name: &str, method: u64) -> Result<Option<Control>>;
}

/// shared_ptr and weak_ptr: the control block says by its vtable what it is and where its object is; where the pointer
/// leads is of no account, as it may lead to a part of another object.
pub struct Shared {
    pub types: Rc<TypeTable>,
    place: u64,
    pub counts: Counts,
    held: Option<TypeId>,
    sharing: &'static dyn Sharing,
    /// By the vtable.
    known: RefCell<HashMap<u64, Option<Control>>>,
}

/// A control block that has proved itself; at 0: none.
struct Block {
    address: u64,
    uses: u64,
    weak: u64,
    /// None: it is not known how it is made.
    control: Option<Control>,
}

impl Shared {
    pub fn made(
        types: &Rc<TypeTable>,
        place: u64,
        counts: Counts,
        held: Option<TypeId>,
        sharing: &'static dyn Sharing,
    ) -> Container {
        let types = types.clone();
        Container::Other(Box::new(Shared { types, place, counts, held, sharing, known: RefCell::default() }))
    }

    fn block(&self, memory: &Memory, address: u64) -> Result<Option<Block>> {
        let block = got!(memory.word(address.wrapping_add(self.place)));
        if block == 0 {
            return Ok(Some(Block { address: 0, uses: 0, weak: 0, control: None }));
        }
        let Counts { uses, weak } = self.counts;
        let (uses, weak) = (block.wrapping_add(uses), block.wrapping_add(weak));
        let counted = got!(self.sharing.counted(memory, uses, weak));
        let table = got!(memory.word(block).filter(|table| *table != 0));
        got!(memory.at(block));
        let known = self.known.borrow().get(&table).copied();
        let control = match known {
            Some(known) => known,
            None => {
                let name = got!(memory.class_of(table));
                let dispose = memory.word(table.wrapping_add(DISPOSE * self.types.word())).unwrap_or(0);
                let control = self.sharing.control(self, &name, dispose)?;
                self.known.borrow_mut().insert(table, control);
                control
            }
        };
        if let Some(control) = control {
            got!(memory.holds(block, control.size));
        }
        Ok(Some(Block { address: block, uses: counted.uses, weak: counted.weak, control }))
    }

    /// What make_shared makes: a vtable, two counts that end there, an allocator that mostly has no bytes, and the
    /// object, whose class has the name `of`. `own`: the control block's class, where debug information has it.
    pub fn with_object(&self, name: &str, of: &str, own: Option<TypeId>, counts_end: u64) -> Result<Option<Control>> {
        const STORAGES: [&str; 3] = ["_M_impl._M_storage", "_M_obj", "__storage_"];
        let types = &*self.types;
        let mut found = types.by_name(of)?;
        if let (None, Some(held)) = (found, self.held) {
            found = (spelled(&types.facts(held)?.name) == spelled(of)).then_some(held);
        }
        let found = got!(found);
        let size = types.facts(found)?.size;
        if size == 0 {
            return Ok(None);
        }
        let to = alignment(types, found)?;
        let mut place = rounded(counts_end, to);
        let mut whole = rounded(place.saturating_add(size), types.word().max(to));
        if let Some(own) = own {
            let own_size = types.facts(own)?.size;
            if own_size > 0 {
                (place, whole) = (got!(first_of(types, own, &STORAGES)?).offset, own_size);
            }
        }
        let of = types.made_up(name, whole, vec![field("", place, found)], None)?;
        Ok(Some(Control { of, size: whole, pointer: 0, object: None }))
    }
}

impl Other for Shared {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let Some(block) = self.block(memory, address)? else { return Ok(false) };
        let Some(control) = block.control else { return Ok(true) };
        let alive = block.uses > 0;
        let step = if control.pointer != 0 { " (control block)" } else { "" };
        take(&Claim { step, words: alive, ..Claim::new(block.address, control.of, Strength::Container) })?;
        if let (Some(object), true) = (control.object, alive) {
            let pointer = memory.word(block.address.wrapping_add(control.pointer)).unwrap_or(0);
            object.claims(memory, pointer, take)?;
        }
        Ok(true)
    }

    fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        Ok(self.block(memory, address)?.map(|block| u64::from(block.uses > 0)))
    }

    fn shared(&self, memory: &Memory, address: u64) -> Result<Option<SharedBlock>> {
        let known = self.block(memory, address)?.filter(|block| block.address != 0);
        Ok(known.map(|block| SharedBlock { start: block.address, owners: block.uses, weak: block.weak }))
    }
}

/// libstdc++'s own.
struct CountedBase;

impl Sharing for CountedBase {
    fn counted(&self, memory: &Memory, uses: u64, weak: u64) -> Option<Counts> {
        let (uses, weak) = (memory.number(uses, INT)?, memory.number(weak, INT)?);
        (uses < MOST_COUNT && 0 < weak && weak < MOST_COUNT).then_some(Counts { uses, weak })
    }

    fn control(&self, shared: &Shared, name: &str, method: u64) -> Result<Option<Control>> {
        let ((template, arguments), types) = (got!(parts_of(name)), &*shared.types);
        if ![INPLACE, ALONE, DELETED].contains(&template) {
            return Ok(None);
        }
        let counts_end = shared.counts.weak.saturating_add(INT);
        let mut own = types.by_name(name)?;
        if own.is_none() {
            // where a lambda is among its arguments, debug information spells it in another way
            let classes = classes_at(types, method, template)?;
            own = if classes.len() == 1 { Some(classes[0]) } else { None };
        }
        let owned = *got!(arguments.first());
        if template == INPLACE {
            return shared.with_object(name, owned, own, counts_end);
        }
        let deleter = if template == DELETED { *got!(arguments.get(1)) } else { "" };
        let is_array = deleter.contains("[]") || deleter == OF_ARRAYS;
        if let Some(own) = own {
            let pointer = got!(first_of(types, own, &["_M_ptr", "_M_impl._M_ptr"])?);
            let object = Object::of(types, pointer.of, is_array)?;
            return Ok(Some(Control { of: own, size: types.facts(own)?.size, pointer: pointer.offset, object }));
        }
        // clang leaves its members out; the library's deleters have no bytes
        let target = got!(types.by_name(owned.strip_suffix('*').unwrap_or(owned))?);
        if !(deleter.is_empty() || deleter.starts_with(DELETER) || deleter.starts_with(OF_ARRAYS)) {
            return Ok(None);
        }
        let (place, pointer) = (rounded(counts_end, types.word()), types.pointer_to(target)?);
        let size = place.saturating_add(types.word());
        let of = types.made_up(name, size, vec![field("_M_ptr", place, pointer)], None)?;
        Ok(Some(Control { of, size, pointer: place, object: Object::of(types, pointer, is_array)? }))
    }
}

/// The classes of that template whose method the function is that begins there.
fn classes_at(types: &TypeTable, code: u64, template: &str) -> Result<Vec<TypeId>> {
    let mut found = Vec::new();
    for class in types.source().classes_at(code)? {
        let facts = types.facts(class)?;
        if facts.name.strip_prefix(template).is_some_and(|rest| rest.starts_with('<')) {
            push(&mut found, class)?;
        }
    }
    Ok(found)
}

fn shared_ptr(types: &Rc<TypeTable>, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let block = got!(find(types, of, "_M_refcount._M_pi")?);
    let base = got!(types.facts(block.of)?.target);
    let [uses, weak] = got!(places(types, base, "", "_M_use_count _M_weak_count")?);
    let held = argument(types, facts, 0)?;
    Ok(Some(Shared::made(types, block.offset, Counts { uses, weak }, held, &CountedBase)))
}

// elements beside each other

/// vector, of all but bool, with its first word of three there.
pub fn three_words(types: &TypeTable, element: TypeId, start: u64) -> Result<OfBody> {
    OfBody::new(types, element, move |own, memory, address| {
        let mut words = [0; 3];
        let is_there = memory.words(address.wrapping_add(start), &mut words);
        between(memory, Some(words).filter(|_| is_there)?, own.size)
    })
}

fn vector(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (start, element) = (got!(find(types, of, "_M_impl._M_start")?), got!(argument(types, facts, 0)?));
    let (pointer, word) = (types.facts(start.of)?, types.word());
    if pointer.form == Form::Struct {
        return bits(types, of);
    }
    let [finish, end] = got!(places(types, of, "_M_impl", "_M_finish _M_end_of_storage")?);
    let follows = |place: u64, after: u64| place.checked_sub(start.offset) == Some(after * word);
    if pointer.form != Form::Pointer || !follows(finish, 1) || !follows(end, 2) {
        return Ok(None);
    }
    Ok(Some(Container::Body(three_words(types, element, start.offset)?)))
}

/// vector<bool>: its words of bits begin a block; where its last bit is, a word and a number tell.
fn bits(types: &TypeTable, of: TypeId) -> Result<Option<Container>> {
    let first = got!(find(types, of, "_M_impl._M_start._M_p")?);
    let [finish, bit, end] =
        got!(places(types, of, "_M_impl", "_M_finish._M_p _M_finish._M_offset _M_end_of_storage")?);
    let bits = got!(types.facts(first.of)?.target);
    let words = Words::new(types, [first.offset, finish, end]);
    let own = OfBody::new(types, bits, move |own, memory, address| {
        let [start, finish, end] = words.read(memory, address)?;
        let (bit, in_one) = (memory.number(address.wrapping_add(bit), INT)?, own.size.saturating_mul(8));
        if bit >= in_one || finish < start {
            return None;
        }
        let last = if bit > 0 { finish.checked_add(own.size)? } else { finish };
        let body = between(memory, [start, last, end], own.size)?;
        let whole = body.used - u64::from(bit > 0);
        Some(Body { count: whole.saturating_mul(in_one).saturating_add(bit), ..body })
    })?;
    Ok(Some(Container::Body(own.of_numbers())))
}

/// A buffer of a deque.
pub struct Buffer {
    pub start: u64,
    /// The number of its first element in the deque.
    pub number: u64,
    /// So many places are in front of its first element.
    pub before: u64,
    pub used: u64,
}

/// What a deque has proved.
pub struct Buffers {
    /// 0: there is none.
    pub map: u64,
    /// Of the map, in buffers.
    pub room: u64,
    /// So many bytes of it are in front of the first buffer's place.
    pub front: u64,
    pub all: Vec<Buffer>,
}

impl Buffers {
    pub const NONE: Buffers = Buffers { map: 0, room: 0, front: 0, all: Vec::new() };
}

/// The buffers of the deque at an address; None unless it has proved itself.
type DequeForm = dyn Fn(&Deque, &Memory, u64) -> Result<Option<Buffers>>;

/// deque: a map of buffers; the elements begin somewhere in the first ones.
pub struct Deque {
    pub element: TypeId,
    pub size: u64,
    map: Table,
    /// So many elements are in a buffer.
    pub each: u64,
    form: Box<DequeForm>,
}

impl Deque {
    /// `each`: of elements of a size.
    pub fn made(
        types: &TypeTable,
        facts: &Facts,
        each: impl Fn(u64) -> u64,
        form: impl Fn(&Deque, &Memory, u64) -> Result<Option<Buffers>> + 'static,
    ) -> Result<Option<Container>> {
        let element = got!(argument(types, facts, 0)?);
        let (size, map) = (types.facts(element)?.size, table_of_links(types, format!("{} map", facts.name))?);
        let made = Deque { element, size, map, each: each(size), form: Box::new(form) };
        Ok(Some(Container::Other(Box::new(made))))
    }

    fn buffers(&self, memory: &Memory, address: u64) -> Result<Option<Buffers>> {
        (self.form)(self, memory, address)
    }

    /// So many buffers, to which the words from `place` on lead; None unless each is a block, and none is there twice.
    pub fn blocks(&self, memory: &Memory, place: u64, count: u64) -> Result<Option<Vec<u64>>> {
        let mut found = filled(count as usize, 0)?;
        if !memory.words(place, &mut found) {
            return Ok(None);
        }
        let mut sorted = copied(&found)?;
        sorted.sort_unstable();
        let size = self.each.saturating_mul(self.size);
        let is_right = sorted.windows(2).all(|pair| pair[0] != pair[1])
            && found.iter().all(|each| memory.holds(*each, size).is_some());
        Ok(is_right.then_some(found))
    }
}

impl Other for Deque {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let Some(known) = self.buffers(memory, address)? else { return Ok(false) };
        if known.map == 0 {
            return Ok(true);
        }
        take(&Claim {
            step: " (map)",
            front: known.front,
            name: &self.map.name,
            elements: Some(known.all.len() as u64),
            capacity: Some(known.room - known.front / memory.word_size()),
            ..Claim::new(known.map, self.map.of, Strength::Container)
        })?;
        for buffer in known.all {
            take(&Claim {
                number: Some(buffer.number),
                front: buffer.before * self.size,
                elements: Some(buffer.used),
                capacity: Some(self.each - buffer.before),
                ..Claim::new(buffer.start, self.element, Strength::Container)
            })?;
        }
        Ok(true)
    }

    /// Of one that uses next to nothing of its only buffer.
    fn tiny(&self, memory: &Memory, address: u64) -> Result<Option<Tiny>> {
        const PART: u64 = 8;
        let known = got!(self.buffers(memory, address)?);
        let [Buffer { start, used, .. }] = known.all[..] else { return Ok(None) };
        let blocks = [known.map, start].into_iter().filter_map(|start| memory.at(start));
        let blocks = blocks.map(|block| memory.size(block)).sum();
        let held = used.saturating_mul(self.size);
        let is_tiny =
            used <= 1 || memory.at(start).is_some_and(|block| held.saturating_mul(PART) <= memory.room(block));
        Ok(is_tiny.then_some(Tiny { elements: used, held, blocks, block: start }))
    }

    /// Of its map: buffers that have no element it lets go.
    fn room(&self, memory: &Memory, address: u64) -> Result<Option<Room>> {
        // a map that grows has room in front and behind
        const SPARSE: u64 = 8;
        let word = memory.word_size();
        Ok(self.buffers(memory, address)?.filter(|known| known.map != 0).map(|known| {
            let (elements, room) = (known.all.len() as u64, known.room.saturating_mul(word));
            Room { start: known.map, elements, used: elements * word, room, grown: room / SPARSE, is_ahead: false }
        }))
    }
}

/// A place in a deque: in its buffer, the buffer's start and end, and where the map leads to the buffer.
struct Spot {
    cur: u64,
    first: u64,
    last: u64,
    node: u64,
}

/// By the map, its size, and the words of two iterators.
fn between_spots(own: &Deque, memory: &Memory, words: [u64; 10]) -> Result<Option<Buffers>> {
    let (word, bytes) = (memory.word_size(), own.each.saturating_mul(own.size));
    let [map, room, ..] = words;
    let place = |at: usize| Spot { cur: words[at], first: words[at + 1], last: words[at + 2], node: words[at + 3] };
    let (start, finish) = (place(2), place(6));
    if map == 0 && start.node == 0 {
        return Ok((start.cur == finish.cur).then_some(Buffers::NONE));
    }
    let size = room.saturating_mul(word);
    let is_within = map <= start.node && start.node <= finish.node && finish.node - map < size;
    let is_right = |each: &Spot| {
        (each.node - map) % word == 0
            && each.first <= each.cur
            && each.cur < each.last
            && each.last - each.first == bytes
            && (each.cur - each.first) % own.size == 0
    };
    if !is_within || !is_right(&start) || !is_right(&finish) || memory.holds(map, size).is_none() {
        return Ok(None);
    }
    let blocks = got!(own.blocks(memory, start.node, (finish.node - start.node) / word + 1)?);
    let ends = (blocks[0], blocks[blocks.len() - 1]);
    if ends != (start.first, finish.first) || (blocks.len() == 1 && finish.cur < start.cur) {
        return Ok(None);
    }
    let (mut all, mut number) = (with_room(blocks.len())?, 0);
    for block in blocks {
        let begin = if block == start.first { start.cur } else { block };
        let end = if block == finish.first { finish.cur } else { block + bytes };
        let (before, used) = ((begin - block) / own.size, (end - begin) / own.size);
        all.push(Buffer { start: block, number, before, used });
        number += used;
    }
    Ok(Some(Buffers { map, room, front: start.node - map, all }))
}

fn deque(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    // bytes of a buffer, for elements that are smaller (`__deque_buf_size`)
    const BUFFER: u64 = 512;
    const SPOTS: &str = "_M_map _M_map_size _M_start._M_cur _M_start._M_first _M_start._M_last _M_start._M_node \
                         _M_finish._M_cur _M_finish._M_first _M_finish._M_last _M_finish._M_node";
    let words = Words::new(types, got!(places(types, of, "_M_impl", SPOTS)?));
    let each = |size: u64| (BUFFER / size).max(1);
    Deque::made(types, facts, each, move |own, memory, address| match words.read(memory, address) {
        Some(words) => between_spots(own, memory, words),
        None => Ok(None),
    })
}

fn string(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (pointer, letter) = (got!(find(types, of, "_M_dataplus._M_p")?).offset, got!(argument(types, facts, 0)?));
    let others = places(types, of, "", "_M_local_buf _M_string_length _M_allocated_capacity")?;
    Ok(Some(Container::Body(match others {
        Some([inside, length, room]) if types.facts(letter)?.size <= types.word() => {
            let words = Words::new(types, [pointer, length, room]);
            OfBody::new(types, letter, move |own, memory, address| own_text(own, memory, address, &words))?
                .of_text(facts, inside)
        }
        None if facts.size == types.word() => {
            let own =
                OfBody::new(types, letter, move |own, memory, address| shared_text(own, memory, address, pointer));
            own?.of_text(facts, 0).with_front(3 * types.word())
        }
        _ => return Ok(None),
    })))
}

/// Of the ABI of GCC 5 and later, with its pointer, its length and its capacity: short ones lie inside.
#[inline]
fn own_text(own: &OfBody, memory: &Memory, address: u64, words: &Words<3>) -> Option<Body> {
    // bytes of the letters that a string has inside, with the 0 after them
    const INSIDE: u64 = 16;
    let [start, count, room] = words.read(memory, address)?;
    if Some(start) == own.inside.map(|inside| address.wrapping_add(inside)) {
        return Body::new(None, 0, count, INSIDE / own.size - 1);
    }
    if count > room {
        return None;
    }
    let block = memory.holds(start, room.saturating_add(1).saturating_mul(own.size))?;
    Body::new(Some(block), start, count, room).filter(|_| is_ended(memory, start, count, own.size))
}

/// Of the old ABI: a pointer to its letters, before which lie length, capacity and how many more share them. The one
/// that all empty strings share is no block.
fn shared_text(own: &OfBody, memory: &Memory, address: u64, pointer: u64) -> Option<Body> {
    let letters = memory.word(address.wrapping_add(pointer)).filter(|letters| *letters != 0)?;
    let (start, mut head) = (letters.wrapping_sub(own.front), [0; 2]);
    let [count, room] = memory.words(start, &mut head).then_some(head)?;
    if count == 0 && room == 0 && memory.at(start).is_none() {
        return Some(Body::NOWHERE);
    }
    if count > room {
        return None;
    }
    let size = room.saturating_add(1).saturating_mul(own.size).saturating_add(own.front);
    let block = memory.holds(start, size)?;
    Body::new(Some(block), start, count, room).filter(|_| is_ended(memory, letters, count, own.size))
}

/// How many, and where.
fn valarray(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let element = got!(argument(types, facts, 0)?);
    let words = Words::new(types, got!(places(types, of, "", "_M_size _M_data")?));
    let own = OfBody::new(types, element, move |own, memory, address| match words.read(memory, address)? {
        [0, _] => Some(Body::NOWHERE),
        [count, start] => Body::new(Some(memory.holds(start, count.saturating_mul(own.size))?), start, count, count),
    });
    Ok(Some(Container::Body(own?)))
}

// nodes

/// How a container's node is made.
struct Made<'a> {
    /// The library's own, which tells where the value is, if debug information has it: before the value's name, and
    /// after it.
    template: (&'a str, &'a str),
    /// Of its links.
    names: &'a [&'a str],
    /// Bytes before them.
    front: u64,
    /// Whether a word follows the value.
    tail: bool,
}

impl Made<'_> {
    fn node(&self, types: &TypeTable, owner: &str, value: TypeId) -> Result<Node> {
        let (facts, word) = (types.facts(value)?, types.word());
        let to = alignment(types, value)?.max(word);
        let mut place = rounded(self.front + self.names.len() as u64 * word, to);
        let mut size = rounded(place.saturating_add(facts.size), word);
        size = rounded(size.saturating_add(if self.tail { word } else { 0 }), to);
        if let Some(own) = types.by_name(&format!("{}{}{}", self.template.0, facts.name, self.template.1))? {
            let whole = types.facts(own)?.size;
            if let Some(storage) = first_of(types, own, &["_M_storage", "_M_value_field"])? {
                if whole >= storage.offset.saturating_add(facts.size) {
                    (place, size) = (storage.offset, whole);
                }
            }
        }
        let mut fields = links(types, self.names, self.front)?;
        fields.push(field("", place, value));
        let of = types.made_up(&format!("{owner} node"), size, fields, key_of(types, owner, value, place)?)?;
        Ok(Node { of, size, value: facts.size, tail: rounded(place.saturating_add(facts.size), word) })
    }
}

/// Of those whose keys stand once, in front of their values or alone: where a node has its key.
pub fn key_of(types: &TypeTable, owner: &str, value: TypeId, place: u64) -> Result<Option<Field>> {
    let template = owner.split('<').next().unwrap_or(owner).rsplit("::").next();
    match template {
        Some("set" | "unordered_set") => Ok(Some(field("", place, value))),
        Some("map" | "unordered_map") => {
            // libc++ has the pair in a struct
            let first = got!(first_of(types, value, &["first", "__cc_.first", "__cc.first"])?);
            Ok(Some(field("first", place.saturating_add(first.offset), first.of)))
        }
        _ => Ok(None),
    }
}

/// map, set, multimap, multiset.
pub struct Tree {
    /// What the root has as its parent.
    pub header: u64,
    /// How many there are, the pointers to the root, to the first node and to the last one.
    pub words: Words<4>,
    /// Whether there is a pointer to the last one.
    pub has_last: bool,
    pub links: Links,
}

impl NodesForm for Tree {
    fn nodes(&self, node: &Node, memory: &Memory, address: u64, to: &mut Vec<u32>) -> Result<Option<Buckets>> {
        let [count, root, first, last] = got!(self.words.read(memory, address));
        let header = address.wrapping_add(self.header);
        let are_ends = |one: u64, other: u64| one == first && (!self.has_last || other == last);
        let is_right = if count == 0 {
            root == 0 && are_ends(header, header)
        } else {
            in_order(memory, root, header, self.links, node.size, count, to)?
                && are_ends(memory.start(to[0]), memory.start(to[to.len() - 1]))
        };
        Ok(is_right.then(Buckets::default))
    }

    fn count(&self, memory: &Memory, address: u64) -> Option<u64> {
        self.words.read(memory, address).map(|[count, ..]| count)
    }
}

fn tree(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    const PATHS: &str = "_M_node_count _M_header._M_parent _M_header._M_left _M_header._M_right";
    let whole = got!(find(types, of, "_M_t")?);
    let value = got!(argument(types, &*types.facts(whole.of)?, 1)?);
    let header = got!(find(types, of, "_M_t._M_impl._M_header")?).offset;
    let words = Words::new(types, got!(places(types, of, "_M_t._M_impl", PATHS)?));
    // a colour is in front
    let template = ("std::_Rb_tree_node<", ">");
    let made = Made { template, names: &["_M_parent", "_M_left", "_M_right"], front: types.word(), tail: false };
    let form = Tree { header, words, has_last: true, links: Links { parent: 1, left: 2, right: 3 } };
    Ok(Some(Container::Nodes(OfNodes::new(made.node(types, &facts.name, value)?, Box::new(form)))))
}

/// list. Without a count before GCC 5.
pub struct Ring {
    pub header: u64,
    pub count: Option<u64>,
    /// The pointer to the node before comes first.
    pub backwards: bool,
}

impl NodesForm for Ring {
    fn nodes(&self, node: &Node, memory: &Memory, address: u64, to: &mut Vec<u32>) -> Result<Option<Buckets>> {
        let header = address.wrapping_add(self.header);
        let first = got!(memory.word(header));
        let count = match self.count {
            Some(place) => Some(got!(memory.word(address.wrapping_add(place)))),
            None => None,
        };
        let is_right = both_ways(memory, header, first, node.size, count, to)?;
        if self.backwards {
            to.reverse();
        }
        Ok(is_right.then(Buckets::default))
    }
}

fn list(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (header, value) = (got!(find(types, of, "_M_impl._M_node")?), got!(argument(types, facts, 0)?));
    got!(find(types, of, "_M_impl._M_node._M_next")?);
    // GCC 5 to 7 keep the count as the value of a list node
    let count = first_of(types, header.of, &["_M_size", "_M_storage"])?;
    let count = count.map(|count| header.offset.saturating_add(count.offset));
    let made = Made { template: ("std::_List_node<", ">"), names: &["_M_next", "_M_prev"], front: 0, tail: false };
    let form = Ring { header: header.offset, count, backwards: false };
    Ok(Some(Container::Nodes(OfNodes::new(made.node(types, &facts.name, value)?, Box::new(form)))))
}

/// forward_list, whose first node is there. It has neither a count nor links back: all that is known is that each node
/// has the right size.
pub struct Chain(pub u64);

impl NodesForm for Chain {
    fn nodes(&self, node: &Node, memory: &Memory, address: u64, to: &mut Vec<u32>) -> Result<Option<Buckets>> {
        let first = got!(memory.word(address.wrapping_add(self.0)));
        Ok(one_way(memory, first, node.size, None, to, |_| true)?.then(Buckets::default))
    }
}

impl Chain {
    pub fn made(head: u64, node: Node) -> Container {
        Container::Nodes(OfNodes::new(node, Box::new(Chain(head))).weaker(Strength::Exact))
    }
}

fn forward_list(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (head, value) = (got!(find(types, of, "_M_impl._M_head._M_next")?), got!(argument(types, facts, 0)?));
    let made = Made { template: ("std::_Fwd_list_node<", ">"), names: &["_M_next"], front: 0, tail: false };
    Ok(Some(Chain::made(head.offset, made.node(types, &facts.name, value)?)))
}

/// unordered_map, unordered_set, and those with several of one key.
pub struct Hash {
    /// The pointer to the buckets, how many they are, the pointer to the first node, how many nodes there are.
    pub words: Words<4>,
    /// Where the pointer to the first node is.
    pub before: u64,
    /// Where the bucket is that lies inside.
    pub single: Option<u64>,
    /// Where a node keeps its hash; None: nowhere.
    pub code: Option<u64>,
    /// An empty one has no buckets.
    pub may_be_bare: bool,
}

impl NodesForm for Hash {
    fn nodes(&self, node: &Node, memory: &Memory, address: u64, to: &mut Vec<u32>) -> Result<Option<Buckets>> {
        let word = memory.word_size();
        let [start, room, first, count] = got!(self.words.read(memory, address));
        if start == 0 || room == 0 {
            return Ok((self.may_be_bare && start == 0 && count == 0).then(Buckets::default));
        }
        let alone = self.single.is_some_and(|single| start == address.wrapping_add(single));
        if !(if alone { room == 1 } else { memory.holds(start, room.saturating_mul(word)).is_some() }) {
            return Ok(None);
        }
        let (mut before, mut bucket) = (address.wrapping_add(self.before), None);
        let (header, count) = (before, Some(count));
        let is_right = match self.code {
            // each bucket leads to the node before its first one
            Some(code) => one_way(memory, first, node.size, count, to, |node| {
                let Some(own) = memory.word(node.wrapping_add(code)).map(|code| code % room) else { return false };
                let is_right = bucket == Some(own) || memory.word(start.wrapping_add(own * word)) == Some(before);
                (before, bucket) = (node, Some(own));
                is_right
            })?,
            None => {
                one_way(memory, first, node.size, count, to, |_| true)? && are_before(memory, start, room, header, to)?
            }
        };
        Ok(is_right.then_some(Buckets { start, room: if alone { 0 } else { room } }))
    }

    fn count(&self, memory: &Memory, address: u64) -> Option<u64> {
        self.words.read(memory, address).map(|[_, _, _, count]| count)
    }

    fn table(&self, memory: &Memory, address: u64) -> Option<(Buckets, u64)> {
        let [start, room, _, count] = self.words.read(memory, address)?;
        let alone = self.single.is_some_and(|single| start == address.wrapping_add(single));
        (start != 0 && !alone).then_some((Buckets { start, room }, count))
    }
}

/// Whether each bucket in use leads to what is before a node: the header, or another node.
fn are_before(memory: &Memory, start: u64, room: u64, header: u64, nodes: &[u32]) -> Result<bool> {
    const PIECE: u64 = 512;
    let before = &nodes[..nodes.len().saturating_sub(1)];
    let known = BlockSet::new(before)?;
    let (mut words, mut used, mut at) = ([0; PIECE as usize], false, 0);
    while at < room {
        let some = &mut words[..(room - at).min(PIECE) as usize];
        if !memory.words(start.wrapping_add(at * memory.word_size()), some) {
            return Ok(false);
        }
        for value in some.iter().filter(|value| **value != 0) {
            used = true;
            if *value != header && !memory.at(*value).is_some_and(|block| known.has(block)) {
                return Ok(false);
            }
        }
        at += some.len() as u64;
    }
    Ok(used != nodes.is_empty())
}

/// Some blocks.
enum BlockSet {
    /// They lie close together, from the first one on.
    Close(u32, Bits),
    /// In order.
    Apart(Vec<u32>),
}

impl BlockSet {
    fn new(blocks: &[u32]) -> Result<BlockSet> {
        const CLOSE: usize = 64;
        let (least, most) =
            blocks.iter().fold((u32::MAX, 0), |(least, most), each| (least.min(*each), most.max(*each)));
        let span = most.saturating_sub(least) as usize;
        if span / CLOSE < blocks.len() {
            let mut bits = Bits::new(span + 1)?;
            for each in blocks {
                bits.add((each - least) as usize);
            }
            return Ok(BlockSet::Close(least, bits));
        }
        let mut sorted = copied(blocks)?;
        sorted.sort_unstable();
        Ok(BlockSet::Apart(sorted))
    }

    fn has(&self, block: u32) -> bool {
        match self {
            BlockSet::Close(least, bits) => block >= *least && bits.has((block - least) as usize),
            BlockSet::Apart(sorted) => sorted.binary_search(&block).is_ok(),
        }
    }
}

fn hash(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    const PATHS: &str = "_M_buckets _M_bucket_count _M_before_begin _M_element_count";
    let table = types.facts(got!(find(types, of, "_M_h")?).of)?;
    let found = got!(places(types, of, "_M_h", PATHS)?);
    let single = find(types, of, "_M_h._M_single_bucket")?.map(|found| found.offset);
    let value = got!(argument(types, &table, 1)?);
    let traits = got!(table.arguments.len().checked_sub(1).and_then(|last| type_argument(&table, last)));
    let Some(Argument::Value(keeps_code)) = types.facts(traits)?.arguments.first().copied() else { return Ok(None) };
    let after = if keeps_code != 0 { ", true>" } else { ", false>" };
    let template = ("std::__detail::_Hash_node<", after);
    let node =
        Made { template, names: &["_M_nxt"], front: 0, tail: keeps_code != 0 }.node(types, &facts.name, value)?;
    let code = (keeps_code != 0).then_some(node.tail);
    let form = Hash { words: Words::new(types, found), before: found[2], single, code, may_be_bare: false };
    let buckets = table_of_links(types, format!("{} buckets", facts.name))?;
    Ok(Some(Container::Nodes(OfNodes::new(node, Box::new(form)).with_buckets(buckets))))
}

// values

pub const INT: u64 = 4;
/// Of parts of a path, and of who shares an object.
const MOST_COUNT: u64 = 1 << 31;
/// So many words a function object may have that lies inside a std::function.
const FUNCTOR: u64 = 2;
const KEPT_INSIDE: &str = "std::any::_Manager_internal";
const INSIDE_IN_LIBCXX: &str = "__any_imp::_SmallHandler";

/// Class templates whose function copies and destroys what is held, and which argument that is.
fn managed_argument(template: &str) -> Option<usize> {
    match libcxx::template_of(template).unwrap_or(template) {
        "std::_Function_handler" => Some(1),
        // since GCC 11
        "std::_Function_base::_Base_manager" => Some(0),
        KEPT_INSIDE | "std::any::_Manager_external" => Some(0),
        INSIDE_IN_LIBCXX | "__any_imp::_LargeHandler" => Some(0),
        _ => None,
    }
}

/// optional, whose value it has if the byte there is 1.
pub struct Perhaps(pub u64);

impl ValueForm for Perhaps {
    fn which(&self, _: &OfValue, memory: &Memory, address: u64) -> Option<usize> {
        // two types: none, and the value's
        memory.number(address.wrapping_add(self.0), 1).map(|flag| flag as usize)
    }
}

impl Perhaps {
    pub fn made(value: u64, flag: u64, held: TypeId) -> Container {
        Container::Value(OfValue::new(value, vec![None, Some(held)], Box::new(Perhaps(flag))))
    }
}

fn optional(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let held = got!(argument(types, facts, 0)?);
    let value = got!(first_of(types, of, &["_M_payload._M_payload._M_value", "_M_payload._M_value"])?);
    let flag = got!(find(types, of, "_M_payload._M_engaged")?);
    let is_whole = types.facts(value.of)?.size == types.facts(held)?.size;
    Ok(is_whole.then(|| Perhaps::made(value.offset, flag.offset, held)))
}

/// variant: which alternative it has, and its value; all lie in one place.
pub struct OneOf {
    index: u64,
    size: u64,
}

impl OneOf {
    pub fn made(index: u64, size: u64, value: u64, mut types: Vec<Option<TypeId>>) -> Container {
        // of the one that has no value, as an exception left it
        types.push(None);
        Container::Value(OfValue::new(value, types, Box::new(OneOf { index, size })))
    }
}

impl ValueForm for OneOf {
    fn which(&self, own: &OfValue, memory: &Memory, address: u64) -> Option<usize> {
        let (number, last) = (memory.number(address.wrapping_add(self.index), self.size)?, own.types.len() - 1);
        // all of its bits are set
        if self.size > 0 && number == u64::MAX >> (64 - 8 * self.size) {
            return Some(last);
        }
        usize::try_from(number).ok().filter(|number| *number < last)
    }

    /// A type that debug information does not have is an element, too.
    fn is_there(&self, own: &OfValue, which: usize) -> bool {
        which + 1 < own.types.len()
    }
}

fn variant(types: &TypeTable, of: TypeId) -> Result<Option<Container>> {
    const MOST_ALTERNATIVES: usize = 255;
    let (index, value) = (got!(find(types, of, "_M_index")?), got!(find(types, of, "_M_u")?));
    let mut alternatives = Vec::new();
    // one in the other, each with its first alternative
    let mut place = value.of;
    while let Some(first) = find(types, place, "_M_first")? {
        if first.offset != 0 {
            return Ok(None);
        }
        alternatives.push(argument(types, &*types.facts(first.of)?, 0)?);
        match find(types, place, "_M_rest")? {
            Some(rest) if alternatives.len() <= MOST_ALTERNATIVES => place = rest.of,
            _ => break,
        }
    }
    let size = types.facts(index.of)?.size;
    Ok((!alternatives.is_empty()).then(|| OneOf::made(index.offset, size, value.offset, alternatives)))
}

/// What the managing function of an any or a function tells.
struct Managed {
    /// Whether what an any has lies in it.
    is_inside: bool,
    /// Of what is held, as the function's symbol has it.
    name: String,
    /// Several, where the debug information has them by one name.
    held: Vec<Held>,
}

/// A type of what is held.
struct Held {
    of: TypeId,
    size: u64,
    /// A lambda has none in debug information.
    has_name: bool,
    is_struct: bool,
    /// A function object that lies inside if it is one of this type.
    is_small: bool,
    begins_with_pointer: bool,
}

impl Held {
    fn new(types: &TypeTable, of: TypeId) -> Result<Held> {
        let facts = types.facts(of)?;
        let is_copied = || -> Result<bool> {
            Ok(facts.size <= FUNCTOR * types.word()
                && first_within(types, of, &|facts| facts.polymorphic || facts.name.starts_with("std::"), &|_| true)?
                    .is_none())
        };
        Ok(Held {
            of,
            size: facts.size,
            has_name: !facts.name.is_empty(),
            is_struct: facts.form == Form::Struct,
            is_small: facts.size == 0 || is_copied()?,
            begins_with_pointer: begins_with_pointer(types, of, DEEPEST, &mut MOST_MEMBERS.clone())?,
        })
    }

    fn claim<'a>(&self, address: u64, managed: &'a Managed) -> Claim<'a> {
        let name = if self.has_name { "" } else { &*managed.name };
        Claim { name, ..Claim::new(address, self.of, Strength::Container) }
    }
}

fn begins_with_pointer(types: &TypeTable, of: TypeId, deep: u32, left: &mut u32) -> Result<bool> {
    let facts = types.facts(of)?;
    if facts.form == Form::Pointer || deep == 0 {
        return Ok(facts.form == Form::Pointer);
    }
    pay(left, &facts);
    for field in facts.fields.iter().filter(|field| field.offset == 0) {
        if *left > 0 && begins_with_pointer(types, field.of, deep - 1, left)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a pointer to a managing function tells: it is of a class template that has the value's type.
pub struct Manager {
    types: Rc<TypeTable>,
    /// Of the pointer.
    place: u64,
    /// What follows the class in the function's name.
    method: &'static str,
    known: RefCell<HashMap<u64, Option<Rc<Managed>>>>,
}

impl Manager {
    pub fn new(types: &Rc<TypeTable>, place: u64, method: &'static str) -> Manager {
        Manager { types: types.clone(), place, method, known: RefCell::default() }
    }

    /// 0: nothing is held.
    fn function(&self, memory: &Memory, address: u64) -> Option<u64> {
        memory.word(address.wrapping_add(self.place))
    }

    /// None if it is no such function.
    fn managed(&self, memory: &Memory, function: u64) -> Result<Option<Rc<Managed>>> {
        const MOST: usize = 1 << 16;
        if let Some(known) = self.known.borrow().get(&function) {
            return Ok(known.clone());
        }
        let found = self.find(memory, function)?.map(Rc::new);
        let mut known = self.known.borrow_mut();
        if known.len() < MOST {
            known.insert(function, found.clone());
        }
        Ok(found)
    }

    fn find(&self, memory: &Memory, function: u64) -> Result<Option<Managed>> {
        let (symbol, types) = (got!(memory.symbol(function)), &*self.types);
        let (name, _) = got!(symbol.split_once(self.method));
        let (template, arguments) = got!(parts_of(name));
        let place = got!(managed_argument(template));
        let name = *got!(arguments.get(place));
        let mut held = Vec::new();
        for class in classes_at(types, function, template)? {
            if let Some(of) = type_argument(&*types.facts(class)?, place) {
                held.push(Held::new(types, of)?);
            }
        }
        if held.is_empty() {
            if let Some(of) = types.by_name(name)? {
                held.push(Held::new(types, of)?);
            }
        }
        let template = libcxx::template_of(template).unwrap_or(template);
        let is_inside = [KEPT_INSIDE, INSIDE_IN_LIBCXX].contains(&template);
        Ok(Some(Managed { is_inside, name: name.to_owned(), held }))
    }

    /// Whether anything is held.
    fn elements(&self, memory: &Memory, address: u64) -> Option<u64> {
        self.function(memory, address).map(|function| u64::from(function != 0))
    }
}

/// any.
pub struct AnyValue {
    pub manager: Manager,
    pub storage: u64,
}

impl Other for AnyValue {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let storage = address.wrapping_add(self.storage);
        let (Some(function), Some(held)) = (self.manager.function(memory, address), memory.word(storage)) else {
            return Ok(false);
        };
        if function == 0 {
            return Ok(true);
        }
        let Some(managed) = self.manager.managed(memory, function)? else { return Ok(false) };
        let [only] = &managed.held[..] else { return Ok(true) };
        if managed.is_inside {
            take(&Claim::inline(storage, only.of))?;
        } else if memory.holds(held, only.size).is_some() {
            take(&only.claim(held, &managed))?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        Ok(self.manager.elements(memory, address))
    }
}

fn any(types: &Rc<TypeTable>, of: TypeId) -> Result<Option<Container>> {
    let [manager, storage] = got!(places(types, of, "", "_M_manager _M_storage")?);
    let manager = Manager::new(types, manager, "::_S_manage(");
    Ok(Some(Container::Other(Box::new(AnyValue { manager, storage }))))
}

/// function. A functor lies inside if it is small and its bytes may be copied.
struct Function {
    manager: Manager,
    functor: u64,
}

impl Other for Function {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let functor = address.wrapping_add(self.functor);
        let (Some(function), Some(held)) = (self.manager.function(memory, address), memory.word(functor)) else {
            return Ok(false);
        };
        if function == 0 {
            return Ok(true);
        }
        let Some(managed) = self.manager.managed(memory, function)? else { return Ok(false) };
        let is_block = |each: &&Held| each.size > 0 && memory.holds(held, each.size).is_some();
        let inside = || managed.held.iter().filter(|each| each.is_small);
        let mut outside = with_room(managed.held.len())?;
        outside.extend(managed.held.iter().filter(|each| !each.is_small).filter(is_block));
        // who wrote it may have forbidden to copy its bytes: both would fit
        if managed.held.is_empty() || inside().filter(is_block).any(|each| each.has_name && each.is_struct) {
            return Ok(true);
        }
        if outside.is_empty() && inside().next().is_none() {
            return Ok(false);
        }
        if outside.len() > 1 {
            // malloc gives a block that is too large only where the rest would be too small for another
            outside.retain(|each| is_full(memory, held, each.size));
        }
        match (&outside[..], inside().count()) {
            ([only], _) if !inside().any(|each| each.begins_with_pointer) => take(&only.claim(held, &managed))?,
            ([], 1) => inside().try_for_each(|only| take(&Claim::inline(functor, only.of)))?,
            _ => (),
        }
        Ok(true)
    }

    fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        Ok(self.manager.elements(memory, address))
    }
}

fn is_full(memory: &Memory, block: u64, size: u64) -> bool {
    let word = memory.word_size();
    memory.at(block).is_some_and(|block| memory.room(block) < size.max(3 * word).saturating_add(2 * word))
}

fn function(types: &Rc<TypeTable>, of: TypeId) -> Result<Option<Container>> {
    let [manager, functor] = got!(places(types, of, "", "_M_manager _M_functor")?);
    let manager = Manager::new(types, manager, "::_M_manager(");
    Ok(Some(Container::Other(Box::new(Function { manager, functor }))))
}

/// filesystem::path: a string, and the parts of a path that has several, after two ints that count them. The pointer's
/// lowest bits say what kind of path it is.
struct Path {
    text: Member,
    parts: u64,
    part: TypeId,
    size: u64,
}

impl Path {
    /// None unless it has proved itself; Some(None): it has no parts.
    fn in_parts(&self, memory: &Memory, address: u64) -> Option<Option<Claim<'_>>> {
        let word = memory.word(address.wrapping_add(self.parts))?;
        let (block, kind) = (word & !3, word & 3);
        if block == 0 {
            return Some(None);
        }
        let (count, room) = (memory.number(block, INT)?, memory.number(block.wrapping_add(INT), INT)?);
        if count > room || room >= MOST_COUNT || (kind != 0 && count != 0) {
            return None;
        }
        memory.holds(block, room.saturating_mul(self.size).saturating_add(2 * INT))?;
        Some(Some(Claim {
            elements: Some(count),
            capacity: Some(room),
            number: Some(0),
            front: 2 * INT,
            ..Claim::new(block, self.part, Strength::Container)
        }))
    }
}

impl Other for Path {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        let Some(parts) = self.in_parts(memory, address) else { return Ok(false) };
        take(&Claim::inline(address.wrapping_add(self.text.offset), self.text.of))?;
        parts.iter().try_for_each(take)?;
        Ok(true)
    }
}

fn path(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (text, parts) = (got!(find(types, of, "_M_pathname")?), got!(find(types, of, "_M_cmpts")?).offset);
    got!(find(types, of, "_M_pathname._M_dataplus._M_p")?);
    // path::_Cmpt, which only the library itself has: a path, and where in the whole it begins
    let size = facts.size.saturating_add(types.word());
    let part = types.made_up(&format!("{}::_Cmpt", facts.name), size, vec![field("", 0, of)], None)?;
    Ok(Some(Container::Other(Box::new(Path { text, parts, part, size }))))
}
