//! libc++'s containers, where debug information has them in an inline namespace (`std::__1`).

use std::rc::Rc;

use super::forms::*;
use super::libstdcxx::{
    key_of, three_words, AnyValue, Buffer, Buffers, Chain, Control, Counts, Deque, Hash, Manager, OneOf, Perhaps, Ring,
    Shared, Sharing, Tree,
};
use crate::failure::{with_room, Result};
use crate::types::facts::{Facts, Form, TypeId};
use crate::types::spelling::parts_of;
use crate::types::tracer::claims::{Claim, Strength, Take};
use crate::types::tracer::layouts::TypeTable;
use crate::types::tracer::memory::Memory;

/// The template of a control block with the object inside.
pub const INPLACE: &str = "__shared_ptr_emplace";
const ALONE: &str = "__shared_ptr_pointer";

/// "map" of std::__1::map<int, int>; None for a name outside such a namespace.
pub fn template_of(name: &str) -> Option<&str> {
    const NAMESPACES: [&str; 4] = ["__1", "__2", "__ndk1", "__Cr"];
    let whole = name.split('<').next()?;
    let (namespace, template) = whole.strip_prefix("std::")?.split_once("::")?;
    NAMESPACES.contains(&namespace).then_some(template)
}

/// Whether that is the library's own name of a container's node, or of what all nodes begin with.
pub fn is_node(name: &str) -> bool {
    const NODES: [&str; 4] = ["__list_node", "__tree_node", "__tree_end_node", "__hash_node"];
    template_of(name).is_some_and(|template| NODES.iter().any(|node| template.starts_with(node)))
}

pub fn container(types: &Rc<TypeTable>, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    if facts.form != Form::Struct {
        return Ok(None);
    }
    match got!(template_of(&facts.name)) {
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
        "variant" => variant(types, of, facts),
        "any" => any(types, of),
        "function" => function(types, of, facts),
        _ => Ok(None),
    }
}

/// The first of these members that there is; of a compressed pair its first part.
fn first(types: &TypeTable, of: TypeId, paths: &[&str]) -> Result<Option<Member>> {
    for path in paths {
        let found = first_of(types, of, &[&format!("{path}.__value_"), path])?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

// elements beside each other

fn vector(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (begin, element) = (got!(find(types, of, "__begin_")?), got!(argument(types, facts, 0)?));
    let word = types.word();
    if types.facts(element)?.form == Form::Boolean {
        let bits = got!(types.facts(begin.of)?.target);
        let count = got!(first(types, of, &["__size_"])?).offset;
        let room = got!(first(types, of, &["__cap_alloc_", "__cap_"])?).offset;
        let words = Words::new(types, [begin.offset, count, room]);
        let own =
            OfBody::new(types, bits, move |own, memory, address| bits_in(own, words.read(memory, address)?, memory));
        return Ok(Some(Container::Body(own?.of_numbers())));
    }
    let end = got!(find(types, of, "__end_")?).offset;
    let last = got!(first(types, of, &["__end_cap_", "__cap_"])?).offset;
    let follows = |place: u64, after: u64| place.checked_sub(begin.offset) == Some(after * word);
    let own = three_words(types, element, begin.offset)?;
    Ok((follows(end, 1) && follows(last, 2)).then_some(Container::Body(own)))
}

/// vector<bool>: where its words begin, how many bits it has, and how many words there is room for.
fn bits_in(own: &OfBody, [start, bits, room]: [u64; 3], memory: &Memory) -> Option<Body> {
    let in_one = own.size.checked_mul(8).filter(|bits| *bits > 0)?;
    if bits > room.saturating_mul(in_one) {
        return None;
    }
    if room == 0 {
        return (start == 0).then_some(Body::NOWHERE);
    }
    let block = memory.holds(start, room.saturating_mul(own.size))?;
    Body::new(Some(block), start, bits.div_ceil(in_one), room).map(|body| Body { count: bits, ..body })
}

/// basic_string: a long one has a mark in the word of its capacity, the length of a short one is in a byte there.
struct Text {
    /// A long one's letters, length and capacity.
    words: Words<3>,
    /// Where the mark is, which is the highest bit of the whole, or the lowest of all.
    mark: u64,
    is_last: bool,
    /// So many letters a short one has at most.
    most: u64,
}

impl Text {
    #[inline]
    fn body(&self, own: &OfBody, memory: &Memory, address: u64) -> Option<Body> {
        let [start, count, room] = self.words.read(memory, address)?;
        let mark = memory.number(address.wrapping_add(self.mark), 1)?;
        if mark & (if self.is_last { 0x80 } else { 1 }) == 0 {
            return Body::new(None, 0, if self.is_last { mark } else { mark >> 1 }, self.most);
        }
        let highest = 1u64 << (8 * memory.word_size() - 1);
        let room = if self.is_last { room & (highest - 1) } else { room & !1 };
        if count >= room {
            return None;
        }
        let block = memory.holds(start, room.saturating_mul(own.size))?;
        Body::new(Some(block), start, count, room - 1).filter(|_| is_ended(memory, start, count, own.size))
    }
}

fn string(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let letter = got!(argument(types, facts, 0)?);
    let (size, word, mut whole) = (types.facts(letter)?.size, types.word(), None);
    for each in ["__r_.__value_", "__r_", "__rep_"] {
        if whole.is_none() && find(types, of, &format!("{each}.__l"))?.is_some() {
            whole = Some(each);
        }
    }
    let whole = got!(whole);
    let [data, count, short] = got!(places(types, of, whole, "__l.__data_ __l.__size_ __s.__data_")?);
    // the capacity may have bits of its word: it has what the others leave
    let mut left = [0, word, 2 * word].into_iter().filter(|each| *each != data && *each != count);
    let (Some(room), None) = (left.next(), left.next()) else { return Ok(None) };
    let is_last = room > data;
    let form = Text {
        words: Words::new(types, [data, count, room]),
        mark: if is_last { facts.size.saturating_sub(1) } else { room },
        is_last,
        most: (facts.size / size).saturating_sub(1 + u64::from(short > 0)),
    };
    let own = OfBody::new(types, letter, move |own, memory, address| form.body(own, memory, address))?;
    Ok(Some(Container::Body(own.of_text(facts, short))))
}

/// valarray: its begin, and its end.
fn valarray(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (begin, element) = (got!(find(types, of, "__begin_")?).offset, got!(argument(types, facts, 0)?));
    let words = Words::new(types, [begin, begin.saturating_add(types.word())]);
    let own = OfBody::new(types, element, move |own, memory, address| {
        let [start, end] = words.read(memory, address)?;
        between(memory, [start, end, end], own.size)
    });
    Ok(Some(Container::Body(own?)))
}

/// By the map's four words, the first element's number, how many there are: the elements begin somewhere in the first
/// buffers.
fn from_first(own: &Deque, memory: &Memory, words: [u64; 6]) -> Result<Option<Buffers>> {
    let (each, word) = (own.each, memory.word_size());
    let [map, begin, end, top, first, count] = words;
    if map == 0 {
        return Ok((words == [0, 0, 0, 0, first, 0]).then_some(Buffers::NONE));
    }
    let is_right = map <= begin && begin <= end && end <= top;
    if !is_right || [begin, end, top].iter().any(|place| (place - map) % word != 0) {
        return Ok(None);
    }
    got!(memory.holds(map, top - map));
    let blocks = got!(own.blocks(memory, begin, (end - begin) / word)?);
    if first.saturating_add(count) > (blocks.len() as u64).saturating_mul(each) {
        return Ok(None);
    }
    let mut all = with_room(blocks.len())?;
    for (start, from) in blocks.into_iter().zip((0..).step_by(each as usize)) {
        let (low, high) = (first.max(from), (first + count).min(from + each));
        let (used, before) = if high > low { (high - low, low - from) } else { (0, 0) };
        all.push(Buffer { start, number: low - first, before, used });
    }
    Ok(Some(Buffers { map, room: (top - map) / word, front: begin - map, all }))
}

fn deque(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    // bytes of a buffer, and how many elements it has at least (`__deque_block_size`)
    const BUFFER: u64 = 4096;
    const LEAST: u64 = 16;
    let [map, begin, end] = got!(places(types, of, "__map_", "__first_ __begin_ __end_")?);
    let first_one = got!(find(types, of, "__start_")?).offset;
    let top = got!(first(types, of, &["__map_.__end_cap_", "__map_.__cap_"])?).offset;
    let count = got!(first(types, of, &["__size_"])?).offset;
    let each = |size| if size < BUFFER / LEAST { BUFFER / size } else { LEAST };
    let words = Words::new(types, [map, begin, end, top, first_one, count]);
    Deque::made(types, facts, each, move |own, memory, address| match words.read(memory, address) {
        Some(words) => from_first(own, memory, words),
        None => Ok(None),
    })
}

// nodes

/// `after`: how many bytes lie in front of the value, as far as its alignment lets them.
fn node(types: &TypeTable, owner: &str, value: TypeId, names: &[&str], after: u64) -> Result<Node> {
    let (held, to) = (types.facts(value)?.size, alignment(types, value)?);
    let place = rounded(after, to);
    let size = rounded(place.saturating_add(held), types.word().max(to));
    let mut fields = links(types, names, 0)?;
    fields.push(field("", place, value));
    let of = types.made_up(&format!("{owner} node"), size, fields, key_of(types, owner, value, place)?)?;
    Ok(Node { of, size, value: held, tail: size })
}

fn tree(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    const ROOTS: [&str; 2] = ["__tree_.__pair1_.__value_.__left_", "__tree_.__end_node_.__left_"];
    let whole = got!(find(types, of, "__tree_")?);
    let value = got!(argument(types, &*types.facts(whole.of)?, 0)?);
    let root = got!(first_of(types, of, &ROOTS)?).offset;
    let count = got!(first(types, of, &["__tree_.__pair3_", "__tree_.__size_"])?).offset;
    let begin = got!(find(types, of, "__tree_.__begin_node_")?).offset;
    // after three words comes the colour
    let after = 3 * types.word() + 1;
    let node = node(types, &facts.name, value, &["__left_", "__right_", "__parent_"], after)?;
    let (words, links) = (Words::new(types, [count, root, begin, begin]), Links { parent: 2, left: 0, right: 1 });
    // the header begins with the pointer to the root
    let form = Tree { header: root, words, has_last: false, links };
    Ok(Some(Container::Nodes(OfNodes::new(node, Box::new(form)))))
}

/// unordered_map and the like: as libstdc++, but that an empty one has no buckets.
fn hash(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let table = got!(find(types, of, "__table_")?);
    let value = got!(argument(types, &*types.facts(table.of)?, 0)?);
    let buckets = got!(first(types, of, &["__table_.__bucket_list_.__ptr_"])?).offset;
    let namespace = facts.name.split("unordered_").next().unwrap_or_default();
    let deleter = got!(inside(types, of, &format!("{namespace}__bucket_list_deallocator<"))?);
    let room = got!(first(types, deleter.of, &["__data_", "__size_"])?).offset.saturating_add(deleter.offset);
    let before = got!(first(types, of, &["__table_.__p1_", "__table_.__first_node_"])?).offset;
    let count = got!(first(types, of, &["__table_.__p2_", "__table_.__size_"])?).offset;
    let word = types.word();
    let node = node(types, &facts.name, value, &["__next_"], 2 * word)?;
    let words = Words::new(types, [buckets, room, before, count]);
    let form = Hash { words, before, single: None, code: Some(word), may_be_bare: true };
    let buckets = table_of_links(types, format!("{} buckets", facts.name))?;
    Ok(Some(Container::Nodes(OfNodes::new(node, Box::new(form)).with_buckets(buckets))))
}

fn list(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let value = got!(argument(types, facts, 0)?);
    let [header, previous] = got!(places(types, of, "", "__end_ __end_.__prev_")?);
    let count = got!(first(types, of, &["__size_alloc_", "__size_"])?).offset;
    if previous != header {
        return Ok(None);
    }
    let node = node(types, &facts.name, value, &["__prev_", "__next_"], 2 * types.word())?;
    let form = Ring { header, count: Some(count), backwards: true };
    Ok(Some(Container::Nodes(OfNodes::new(node, Box::new(form)))))
}

fn forward_list(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (value, pair) = (got!(argument(types, facts, 0)?), got!(first(types, of, &["__before_begin_"])?));
    let head = got!(find(types, pair.of, "__next_")?).offset;
    let node = node(types, &facts.name, value, &["__next_"], types.word())?;
    Ok(Some(Chain::made(pair.offset.saturating_add(head), node)))
}

// pointers

fn unique_ptr(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let (pointer, owned) = (got!(first(types, of, &["__ptr_"])?), got!(type_argument(facts, 0)));
    let object = got!(Object::of(types, pointer.of, types.facts(owned)?.form == Form::Array)?);
    Ok(Some(Container::Owned(Owned::new(pointer.offset, object))))
}

/// shared_ptr and weak_ptr: the counts are one less than who holds it.
struct SharedCount;

/// Bytes of a count.
const COUNT: u64 = 8;

impl Sharing for SharedCount {
    fn counted(&self, memory: &Memory, uses: u64, weak: u64) -> Option<Counts> {
        const OWNERS: u64 = 1 << 32;
        let count = |place: u64| memory.number(place, COUNT).map(|count| count.wrapping_add(1));
        let (uses, weak) = (count(uses)?, count(weak)?);
        // all who hold the object hold the block together once
        (uses < OWNERS && 0 < weak && weak < OWNERS).then_some(Counts { uses, weak })
    }

    fn control(&self, shared: &Shared, name: &str, _: u64) -> Result<Option<Control>> {
        let ((template, arguments), types) = (got!(parts_of(name)), &*shared.types);
        let template = got!(template_of(template));
        if template != INPLACE && template != ALONE {
            return Ok(None);
        }
        let (owned, own) = (*got!(arguments.first()), got!(types.by_name(name)?));
        if template == INPLACE {
            return shared.with_object(name, owned, Some(own), shared.counts.weak.saturating_add(COUNT));
        }
        let pointer = got!(first_of(types, own, &["__data_.__value_.__value_", "__ptr_"])?);
        let is_array = arguments.get(1).map_or(true, |deleter| deleter.contains("[]"));
        let object = Object::of(types, pointer.of, is_array)?;
        Ok(Some(Control { of: own, size: types.facts(own)?.size, pointer: pointer.offset, object }))
    }
}

fn shared_ptr(types: &Rc<TypeTable>, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let block = got!(find(types, of, "__cntrl_")?);
    let base = got!(types.facts(block.of)?.target);
    let [uses, weak] = got!(places(types, base, "", "__shared_owners_ __shared_weak_owners_")?);
    let held = argument(types, facts, 0)?;
    Ok(Some(Shared::made(types, block.offset, Counts { uses, weak }, held, &SharedCount)))
}

// values

fn optional(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let held = got!(argument(types, facts, 0)?);
    let [value, flag] = got!(places(types, of, "", "__val_ __engaged_")?);
    Ok(Some(Perhaps::made(value, flag, held)))
}

fn variant(types: &TypeTable, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let whole = got!(first_of(types, of, &["__impl_", "__impl"])?);
    let (index, data) = (got!(find(types, whole.of, "__index")?), got!(find(types, whole.of, "__data")?).offset);
    let within = |place: u64| whole.offset.saturating_add(place);
    let alternatives = (0..facts.arguments.len()).map(|number| type_argument(facts, number)).collect();
    let size = types.facts(index.of)?.size;
    Ok(Some(OneOf::made(within(index.offset), size, within(data), alternatives)))
}

fn any(types: &Rc<TypeTable>, of: TypeId) -> Result<Option<Container>> {
    let handler = got!(first(types, of, &["__h_", "__h"])?).offset;
    let storage = got!(first(types, of, &["__s_", "__s"])?).offset;
    let manager = Manager::new(types, handler, "::__handle(");
    Ok(Some(Container::Other(Box::new(AnyValue { manager, storage }))))
}

/// function: a pointer to an object with a vtable, which lies inside where it is small.
struct Function {
    types: Rc<TypeTable>,
    pointer: u64,
    /// Of the room for a small one.
    room: u64,
    name: String,
}

impl Other for Function {
    fn claims(&self, memory: &Memory, address: u64, take: &mut Take) -> Result<bool> {
        const BODY: &str = "__function::__func";
        let (held, inside) = (memory.word(address.wrapping_add(self.pointer)), address.wrapping_add(self.room));
        let Some(held) = held.filter(|held| *held != 0) else { return Ok(held.is_some()) };
        let Some(class) = memory.word(held).and_then(|table| memory.class_of(table)) else { return Ok(false) };
        if template_of(&class) != Some(BODY) {
            return Ok(false);
        }
        let of = self.types.by_name(&class)?;
        if held == inside {
            of.into_iter().try_for_each(|of| take(&Claim::inline(inside, of)))?;
            return Ok(true);
        }
        let Some(block) = memory.at(held) else { return Ok(false) };
        let of = match of {
            Some(of) => of,
            // of a lambda: the vtable alone tells what it is
            None => self.types.made_up(&self.name, memory.room(block), Vec::new(), None)?,
        };
        if memory.holds(held, self.types.facts(of)?.size).is_none() {
            return Ok(false);
        }
        take(&Claim { name: &self.name, ..Claim::new(held, of, Strength::Container) })?;
        Ok(true)
    }

    fn elements(&self, memory: &Memory, address: u64) -> Result<Option<u64>> {
        let held = memory.word(address.wrapping_add(self.pointer));
        Ok(held.map(|held| u64::from(held != 0)))
    }
}

fn function(types: &Rc<TypeTable>, of: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let [pointer, room] = got!(places(types, of, "", "__f_.__f_ __f_.__buf_")?);
    let (types, name) = (types.clone(), format!("{} body", facts.name));
    Ok(Some(Container::Other(Box::new(Function { types, pointer, room, name }))))
}
