//! Objects that are still there and no longer listed: along one path many of a type are reached, along another few, and
//! a member of theirs says the same.
//!
//! That a list has some objects of a type and another has all of them is no fault: an index may well be of some. It
//! counts only where the program itself says that something has happened to them: a member ("closed", "hashed") has one
//! value in all that both have, and another one in all the others.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::claims::Strength;
use super::counted::words;
use super::memory::Memory;
use super::names::{At, Claimed, NameForm, Proof, NONE};
use super::objects::Objects;
use super::rows::{without_numbers, Known, Patterns};
use super::waste::Sum;
use crate::failure::{filled, insert, kept_at, push, Control, Pace, Result};
use crate::resident_pages::{in_memory, Present};
use crate::types::facts::{Form, TypeId};

/// Of a type there have to be so many.
const FEWEST: usize = 64;
/// So many pointers are looked at.
const MOST_EDGES: usize = 1 << 24;
/// So many paths lead to objects of a type, those with most first.
const MOST_LISTS: usize = 12;
/// In one of so many objects a member may say something else.
const ALIKE: u64 = 100;
/// One of so many of a list has to be reached otherwise for the two lists to be different.
const DIFFERENT: usize = 50;
/// What says that something has happened to an object, besides words in "-ed": closed, hashed, linked, expired.
const STATES: [&str; 13] =
    ["alive", "broken", "dead", "done", "gone", "live", "lost", "open", "over", "paid", "sent", "shut", "stale"];
/// What says what an object is for.
const KINDS: [&str; 4] = ["embed", "fixed", "shared", "signed"];
/// Members that lead to the end of a list, or back.
const BACKWARDS: [&str; 4] = ["prev", "last", "tail", "back"];
/// So deep members are looked at.
const DEEPEST: u32 = 4;
const MOST_MEMBERS: usize = 64;

/// Objects that one list has alone.
#[derive(Clone, Debug)]
pub struct Unlisted {
    /// The list that still has them, and the one that does not.
    pub path: String,
    pub other: String,
    /// The name of their type.
    pub name: u32,
    /// How many objects the first list has.
    pub total: u64,
    pub sum: Sum,
    /// Of those that both have.
    pub listed: u64,
    /// What keeps them apart, its value in those that both have, and in the others.
    pub member: String,
    pub values: [u64; 2],
    pub certain: bool,
}

/// A pointer of one object or variable to another object, by its class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    /// Of the object.
    name: u32,
    target: u32,
    class: u32,
    /// u32::MAX: a variable.
    from: u32,
}

/// Pointers from blocks that are reached in one way, or from structs of one type, by one member, to objects of one
/// type.
pub(super) struct Class {
    pattern: u32,
    step: Rc<str>,
    /// From one object to another of its kind.
    is_link: bool,
    /// Of an array in a variable: so many pointers it has room for.
    places: Option<u64>,
}

struct Classes<'a> {
    known: &'a Known<'a>,
    patterns: &'a Patterns,
    /// The names of what is led to; None: of whatever may be unlisted.
    wanted: Option<&'a HashSet<u32>>,
    all: Vec<Class>,
    /// By pattern, step, and name of what is led to.
    numbers: HashMap<(u32, u16, u32), u32>,
    by_text: HashMap<(bool, u32, Rc<str>, u32), u32>,
    edges: Vec<Edge>,
}

impl Classes<'_> {
    /// The name that counts of a block that may be unlisted; NONE: it may not.
    fn name(&self, block: u32) -> u32 {
        let block = block as usize;
        let name = self.known.name(block);
        if self.wanted.is_some_and(|wanted| !wanted.contains(&name)) {
            return NONE;
        }
        let Some(own) = self.known.names.get(name as usize) else { return NONE };
        let is_object =
            own.form == NameForm::Object && own.words && self.known.named.level[block] <= Strength::Weak as u8;
        if is_object {
            name
        } else {
            NONE
        }
    }

    fn take(&mut self, claimed: &Claimed, pattern: u32, from: u32, steps: &[Rc<str>]) -> Result<()> {
        let name = self.name(claimed.block);
        if name == NONE || self.edges.len() >= MOST_EDGES {
            return Ok(());
        }
        let key = (pattern, claimed.step, name);
        let class = match self.numbers.get(&key) {
            Some(class) => *class,
            None => {
                let step: Rc<str> = without_numbers(&steps[claimed.step as usize]).into();
                let holder = self.patterns.all[pattern as usize].name;
                let is_link = holder == name;
                // steps differ by numbers alone; a struct of the program's is the same wherever it is
                let is_struct = self
                    .known
                    .names
                    .get(holder as usize)
                    .is_some_and(|holder| holder.form == NameForm::Object && holder.of.is_some_and(|of| of >= 0));
                let text = (is_struct, if is_struct { holder } else { pattern }, step.clone(), name);
                let class = match self.by_text.get(&text) {
                    Some(class) => *class,
                    None => {
                        push(&mut self.all, Class { pattern, step, is_link, places: None })?;
                        let class = self.all.len() as u32 - 1;
                        insert(&mut self.by_text, text, class)?;
                        class
                    }
                };
                insert(&mut self.numbers, key, class)?;
                class
            }
        };
        push(&mut self.edges, Edge { name, target: claimed.block, class, from })
    }
}

/// All pointers to objects.
pub(super) struct Pointers {
    pub classes: Vec<Class>,
    /// In order of the names of what they lead to, and of the blocks.
    edges: Vec<Edge>,
}

impl Pointers {
    /// Those to objects of one name each.
    pub fn by_type(&self) -> Result<Vec<&[Edge]>> {
        let (mut found, mut rest) = (Vec::new(), &self.edges[..]);
        while let Some(name) = rest.first().map(|edge| edge.name) {
            let (own, behind) = rest.split_at(rest.partition_point(|edge| edge.name <= name));
            push(&mut found, own)?;
            rest = behind;
        }
        Ok(found)
    }
}

/// `wanted`: the names of what they lead to; None: whatever may be unlisted.
pub(super) fn pointers(
    known: &Known,
    patterns: &Patterns,
    objects: &mut Objects,
    wanted: Option<&HashSet<u32>>,
    control: &Control,
) -> Result<Pointers> {
    let (numbers, by_text) = (HashMap::new(), HashMap::new());
    let mut classes = Classes { known, patterns, wanted, all: Vec::new(), numbers, by_text, edges: Vec::new() };
    gather(&mut classes, objects, control)?;
    let Classes { all: classes, mut edges, .. } = classes;
    edges.sort_unstable();
    Ok(Pointers { classes, edges })
}

/// Those of each type of which most are in one list alone.
pub fn unlisted(
    known: &Known,
    patterns: &Patterns,
    objects: &mut Objects,
    present: Option<&Present>,
    control: &Control,
) -> Result<Vec<Unlisted>> {
    let pointers = pointers(known, patterns, objects, None, control)?;
    let mut found = Vec::new();
    for own in pointers.by_type()? {
        control.advance(own.len() as u64)?;
        if own.len() >= FEWEST {
            if let Some(each) = of_type(known, patterns, &pointers.classes, own, present, control)? {
                push(&mut found, each)?;
            }
        }
    }
    Ok(found)
}

/// All pointers of variables and typed blocks to objects.
fn gather(classes: &mut Classes, objects: &mut Objects, control: &Control) -> Result<()> {
    let known = classes.known;
    let mut found = Vec::new();
    for (number, start) in known.starts.iter().enumerate() {
        let (Some(place), Some(pattern)) = (start.place, classes.patterns.root_of(start)) else { continue };
        let layout = known.layouts.of(start.of)?;
        let at = At { parent: -1 - number as i32, ..At::proving(Proof::None) };
        objects.scan(&layout, place, &At { plain: Strength::Exact, ..at }, 0, &mut found)?;
        found.extend(objects.take_interior().into_iter().map(|inside| inside.claimed));
        let before = classes.all.len();
        for claimed in found.drain(..) {
            classes.take(&claimed, pattern, u32::MAX, &objects.names.steps.all)?;
        }
        for class in &mut classes.all[before..] {
            let array = layout.repeats.iter().find(|repeat| class.step.starts_with(&*repeat.step));
            class.places = array.map(|array| array.count);
        }
    }
    let mut looks = filled(known.names.len(), None)?;
    let mut pace = Pace::new(control);
    for block in 0..known.named.name.len() {
        pace.step()?;
        let name = known.name(block);
        if name == NONE {
            continue;
        }
        let look = kept_at(&mut looks, name as usize, || {
            Ok(known.look(name)?.filter(|look| look.layout.leads_on()).map(Rc::new))
        })?;
        let Some(look) = look else { continue };
        let place = known.memory.start(block as u32).wrapping_add(look.front);
        let at = At { parent: block as i32, plain: Strength::Exact, ..At::proving(Proof::None) };
        if look.is_array {
            let count = u64::from(known.named.elements[block]);
            objects.scan_array(&look.layout, place, count, &at, &mut found)?;
        } else {
            objects.scan(&look.layout, place, &at, 0, &mut found)?;
        }
        found.extend(objects.take_interior().into_iter().map(|inside| inside.claimed));
        for claimed in found.drain(..) {
            classes.take(&claimed, classes.patterns.of[block], block as u32, &objects.names.steps.all)?;
        }
    }
    Ok(())
}

/// Objects that are reached along one path, by their places among those of the type.
pub(super) struct List {
    class: u32,
    pub members: Vec<bool>,
    pub count: usize,
    /// An array in which each place is taken: nothing has gone from it.
    is_full: bool,
}

/// Objects of one name, and the lists that have them.
pub(super) struct Listed {
    pub blocks: Vec<u32>,
    /// Those with most first.
    pub lists: Vec<List>,
}

/// `edges`: to objects of one name.
pub(super) fn lists_of(classes: &[Class], edges: &[Edge], control: &Control) -> Result<Listed> {
    let mut blocks: Vec<u32> = Vec::new();
    for edge in edges {
        if blocks.last() != Some(&edge.target) {
            push(&mut blocks, edge.target)?;
        }
    }
    let place = |block: u32| blocks.binary_search(&block).ok();
    let mut by_class: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
    let mut at = 0u32;
    for edge in edges {
        // both are in order
        at += u32::from(blocks[at as usize] != edge.target);
        push(by_class.entry(edge.class).or_default(), (at, edge.from))?;
    }
    let mut of: Vec<(u32, Vec<(u32, u32)>)> = by_class.into_iter().collect();
    of.sort_by_key(|(class, some)| (std::cmp::Reverse(some.len()), *class));
    let (links, heads): (Vec<_>, Vec<_>) = of.into_iter().partition(|(class, _)| classes[*class as usize].is_link);
    let mut lists = Vec::new();
    for (class, some) in heads.into_iter().take(MOST_LISTS) {
        let mut members = filled(blocks.len(), false)?;
        some.iter().for_each(|(at, _)| members[*at as usize] = true);
        let is_full = classes[class as usize].places == Some(some.len() as u64);
        push(&mut lists, List { class, members, count: 0, is_full })?;
    }
    for (_, some) in links.into_iter().take(MOST_LISTS) {
        follow(&mut lists, &some, &place, blocks.len(), control)?;
    }
    for list in &mut lists {
        list.count = list.members.iter().filter(|is_member| **is_member).count();
    }
    lists.sort_by_key(|list| {
        let step = &classes[list.class as usize].step;
        let is_from_behind = BACKWARDS.iter().any(|word| step.ends_with(word));
        (std::cmp::Reverse(list.count), is_from_behind, list.class)
    });
    Ok(Listed { blocks, lists })
}

/// The path to a list.
pub(super) fn text_of(known: &Known, patterns: &Patterns, classes: &[Class], list: &List) -> Result<String> {
    let class = &classes[list.class as usize];
    let pattern = &patterns.all[class.pattern as usize];
    let path = format!("{}{}", pattern.text, known.step(pattern, &class.step, None)?);
    Ok(without_link(&path).to_owned())
}

/// A ring begins and ends in a struct of links.
pub(super) fn without_link(path: &str) -> &str {
    [".next", ".prev", "[]"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path)
}

fn of_type(
    known: &Known,
    patterns: &Patterns,
    classes: &[Class],
    edges: &[Edge],
    present: Option<&Present>,
    control: &Control,
) -> Result<Option<Unlisted>> {
    let Listed { blocks, lists } = lists_of(classes, edges, control)?;
    let Some(name) = edges.first().map(|edge| edge.name).filter(|_| blocks.len() >= FEWEST) else { return Ok(None) };
    let place = |block: u32| blocks.binary_search(&block).ok();
    let mut best: Option<(usize, usize, Split)> = None;
    for (at, all) in lists.iter().enumerate() {
        for (beside, few) in lists.iter().enumerate().skip(at + 1).filter(|(_, few)| !few.is_full) {
            control.advance(blocks.len() as u64)?;
            let both = all.members.iter().zip(&few.members).filter(|(one, other)| **one && **other).count();
            let alone = all.count - both;
            // the first one has all that the second one has
            let is_within = few.count >= 4 && (few.count - both) * DIFFERENT <= few.count;
            if !is_within || alone < FEWEST / 2 || alone * 10 < all.count {
                continue;
            }
            if best.as_ref().is_some_and(|(one, other, _)| lists[*one].count - lists[*other].count >= alone) {
                continue;
            }
            if let Some(split) = split(known, name, &blocks, all, few)? {
                best = Some((at, beside, split));
            }
        }
    }
    let Some((all, few, split)) = best else { return Ok(None) };
    let (all, few) = (&lists[all], &lists[few]);
    let text = |list: &List| text_of(known, patterns, classes, list);
    let is_alone = |at: usize| all.members[at] && !few.members[at];
    let mut sum = keep(known, name, &blocks, &is_alone, present)?;
    let mut nodes: Vec<u32> = Vec::new();
    for edge in edges.iter().filter(|edge| edge.class == all.class && edge.from != u32::MAX) {
        if place(edge.target).is_some_and(is_alone) && is_node(known, edge.from)? {
            push(&mut nodes, edge.from)?;
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    sum.room += nodes.iter().map(|node| known.memory.size(*node)).sum::<u64>();
    sum.number = (0..blocks.len()).filter(|at| is_alone(*at)).count() as u64;
    let listed = all.count as u64 - sum.number;
    sum.elements = listed;
    let sample = (0..blocks.len()).find(|at| is_alone(*at)).map_or(0, |at| known.memory.start(blocks[at]));
    sum.sample = sample;
    let certain = blocks.iter().all(|block| known.named.level[*block as usize] <= Strength::Local as u8);
    Ok(Some(Unlisted {
        path: text(all)?,
        other: text(few)?,
        name,
        total: all.count as u64,
        sum,
        listed,
        member: split.member,
        values: split.values,
        certain,
    }))
}

/// Whether a block is a node that a container has made for an element.
fn is_node(known: &Known, block: u32) -> Result<bool> {
    let name = known.names.get(known.name(block as usize) as usize);
    let Some(of) = name.and_then(|name| name.of).filter(|of| *of < 0) else { return Ok(false) };
    let facts = known.layouts.types.facts(of)?;
    Ok(facts.fields.len() > 1 && facts.fields.iter().any(|field| field.name.is_empty()))
}

/// Adds what links lead to, to the list of which the most hangs on them.
fn follow(
    lists: &mut [List],
    links: &[(u32, u32)],
    place: &dyn Fn(u32) -> Option<usize>,
    count: usize,
    control: &Control,
) -> Result<()> {
    let mut next: Vec<(u32, u32)> = Vec::new();
    for (to, from) in links {
        if let Some(from) = place(*from) {
            push(&mut next, (from as u32, *to))?;
        }
    }
    next.sort_unstable();
    let mut begins: Vec<u32> = filled(count + 1, 0)?;
    next.iter().for_each(|(from, _)| begins[*from as usize + 1] += 1);
    for at in 0..count {
        begins[at + 1] += begins[at];
    }
    let mut best: Option<(usize, usize, Vec<bool>)> = None;
    for (number, list) in lists.iter().enumerate() {
        control.advance(count as u64)?;
        let mut members: Vec<bool> = filled(count, false)?;
        members.copy_from_slice(&list.members);
        let mut waiting: Vec<u32> = Vec::new();
        for at in (0..count).filter(|at| list.members[*at]) {
            push(&mut waiting, at as u32)?;
        }
        // those that lie in front of all others
        let heads = waiting.len();
        let led = next.iter().filter(|(_, to)| list.members[*to as usize]).count();
        let mut more = 0;
        while let Some(at) = waiting.pop() {
            for (_, to) in &next[begins[at as usize] as usize..begins[at as usize + 1] as usize] {
                if !members[*to as usize] {
                    members[*to as usize] = true;
                    more += 1;
                    push(&mut waiting, *to)?;
                }
            }
        }
        // the first ones of chains are not led to by these
        if led * DIFFERENT <= heads.max(1) && best.as_ref().map_or(more > 0, |(most, ..)| more > *most) {
            best = Some((more, number, members));
        }
    }
    if let Some((more, number, members)) = best {
        if more * 10 >= links.len() * 9 {
            lists[number].members = members;
        }
    }
    Ok(())
}

/// What keeps objects apart.
struct Split {
    member: String,
    values: [u64; 2],
}

/// A number in an object.
struct Member {
    name: String,
    offset: u64,
    /// In bytes; of a bit-field those that it lies in.
    size: u64,
    shift: u64,
    mask: u64,
    /// Of an enum the names of its values; empty: only 0 and 1 tell anything.
    names: Vec<(Rc<str>, i64)>,
}

fn split(known: &Known, name: u32, blocks: &[u32], all: &List, few: &List) -> Result<Option<Split>> {
    let own = &known.names[name as usize];
    let Some(of) = own.of else { return Ok(None) };
    let mut members = Vec::new();
    add_members(known, of, own.front, "", DEEPEST, &mut members)?;
    if let Some(counts) = known.layouts.of(of)?.counts {
        // how many share a value tells nothing of the value
        members.retain(|member| !counts.contains(&member.offset));
    }
    for member in members {
        let mut seen = [(0u64, 0u64); 2];
        let mut totals = [0u64; 2];
        for (at, block) in blocks.iter().enumerate().filter(|(at, _)| all.members[*at]) {
            let which = usize::from(!few.members[at]);
            let Some(value) = member.value(known.memory, known.memory.start(*block)) else { continue };
            totals[which] += 1;
            // the most frequent value, where one has more than half
            let (most, count) = &mut seen[which];
            match () {
                () if *count == 0 => (*most, *count) = (value, 1),
                () if *most == value => *count += 1,
                () => *count -= 1,
            }
            if totals[which] % 256 == 0 && *count * 2 < totals[which] {
                break;
            }
        }
        if seen[0].0 == seen[1].0 || totals.contains(&0) {
            continue;
        }
        let mut others = [0u64; 2];
        for (at, block) in blocks.iter().enumerate().filter(|(at, _)| all.members[*at]) {
            let which = usize::from(!few.members[at]);
            let value = member.value(known.memory, known.memory.start(*block));
            others[which] += u64::from(value != Some(seen[which].0));
        }
        if (0..2).all(|which| others[which] * ALIKE <= totals[which]) {
            let values = [seen[0].0, seen[1].0];
            if member.tells_a_state(values) {
                return Ok(Some(Split { member: member.name, values }));
            }
        }
    }
    Ok(None)
}

/// Whether a name says that something has happened, not what an object is for from the first.
fn is_state(name: &str) -> bool {
    let is_participle = |word: &str| word.len() > 3 && word.ends_with("ed") && !word.ends_with("eed");
    words(name).iter().any(|word| (is_participle(word) && !KINDS.contains(&&**word)) || STATES.contains(&&**word))
}

impl Member {
    /// Whether these values say of an object that something has happened to it, or not yet.
    fn tells_a_state(&self, values: [u64; 2]) -> bool {
        let is_called = is_state(self.name.rsplit('.').next().unwrap_or(&self.name));
        if self.names.is_empty() {
            return is_called && values.iter().all(|value| *value <= 1);
        }
        let is_one = |(name, value): &(Rc<str>, i64)| values.contains(&(*value as u64)) && is_state(name);
        is_called || self.names.iter().any(is_one)
    }

    fn value(&self, memory: &Memory, object: u64) -> Option<u64> {
        let value = memory.number(object.wrapping_add(self.offset), self.size)?;
        Some(value >> self.shift & self.mask)
    }
}

fn add_members(known: &Known, of: TypeId, offset: u64, before: &str, deep: u32, to: &mut Vec<Member>) -> Result<()> {
    let facts = known.layouts.types.facts(of)?;
    if deep == 0 || facts.form != Form::Struct || known.layouts.container(of)?.is_some() {
        return Ok(());
    }
    let called = |name: &str| match (before, name) {
        ("", name) => name.to_owned(),
        (before, "") => before.to_owned(),
        (before, name) => format!("{before}.{name}"),
    };
    for bits in facts.bits.iter().filter(|bits| bits.size > 0 && bits.size < 8 && known.memory.is_little()) {
        let (place, shift) = (offset.saturating_add(bits.offset / 8), bits.offset % 8);
        let (name, mask) = (called(&bits.name), (1 << bits.size) - 1);
        let size = if shift + bits.size > 8 { 2 } else { 1 };
        if to.len() < MOST_MEMBERS {
            push(to, Member { name, offset: place, size, shift, mask, names: Vec::new() })?;
        }
    }
    for field in &facts.fields {
        let inner = known.layouts.types.facts(field.of)?;
        let (place, name) = (offset.saturating_add(field.offset), called(&field.name));
        match inner.form {
            Form::Struct => add_members(known, field.of, place, &name, deep - 1, to)?,
            Form::Boolean | Form::Enum | Form::Integer if (1..=8).contains(&inner.size) && to.len() < MOST_MEMBERS => {
                let names = inner.enumerators.clone();
                push(to, Member { name, offset: place, size: inner.size, shift: 0, mask: u64::MAX, names })?;
            }
            _ => (),
        }
    }
    Ok(())
}

/// What objects keep by that name: their blocks, and all that is reached through them first.
pub fn keep(
    known: &Known,
    name: u32,
    blocks: &[u32],
    is_meant: &dyn Fn(usize) -> bool,
    present: Option<&Present>,
) -> Result<Sum> {
    const UNKNOWN: u8 = 0;
    const NOT: u8 = 1;
    const MEANT: u8 = 2;
    let (named, memory) = (known.named, known.memory);
    let mut state = filled(named.name.len(), UNKNOWN)?;
    for (at, block) in blocks.iter().enumerate() {
        state[*block as usize] = if is_meant(at) { MEANT } else { NOT };
    }
    let (mut sum, mut way) = (Sum::default(), Vec::new());
    for block in 0..state.len() {
        let mut at = block;
        let told = loop {
            if state[at] != UNKNOWN {
                break state[at];
            }
            // others of their kind are not theirs
            if known.name(at) == NONE || known.name(at) == name || way.len() > state.len() {
                break NOT;
            }
            push(&mut way, at)?;
            match usize::try_from(named.parent[at]) {
                Ok(parent) => at = parent,
                Err(_) => break NOT,
            }
        };
        way.drain(..).for_each(|each| state[each] = told);
        if state[block] == MEANT {
            let (start, size) = (memory.start(block as u32), memory.size(block as u32));
            sum.room += size;
            sum.resident += in_memory(present, start, size);
        }
    }
    Ok(sum)
}
