//! What of the memory in live blocks a program does not use, by the way to it.
//!
//! Every container that is a variable, or lies in a block that has a type, is read once more: the tracer has proved it.
//! Only what nobody can doubt counts: a container whose block the tracer found by it, and of its room only what growth
//! alone would not have left.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::claims::Strength;
use super::containers::forms::{Container, Room, SharedBlock};
use super::containers::rust::KEY;
use super::counted::{arrays, CountedArray};
use super::duplicates::{copies, is_captured, Copies, Same};
use super::layouts::{Embedded, FlatType};
use super::names::{NameForm, NONE};
use super::objects::Objects;
use super::rows::{Known, Look, Patterns};
use super::unlisted::{keep, unlisted, Unlisted};
use crate::bits::Bits;
use crate::failure::{filled, insert, kept_at, push, Control, Pace, Result};
use crate::resident_pages::{in_memory, Present};
use crate::types::facts::TypeId;
use crate::types::spelling::parts_of;

/// What is smaller takes no more than a pointer to a shared one.
pub const UNSHARED: u64 = 16;
/// What costs less than this is not worth a row.
pub const WORTH: u64 = 4096;
/// How names of containers' nodes end.
const NODE: &str = " node";
/// So deep containers are looked for that lie in others without a block of their own.
const DEEPEST: u32 = 16;

/// Why memory is not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// Containers have room for much more than they hold.
    UnusedRoom,
    /// Containers without elements keep their room.
    Emptied,
    /// Objects are destroyed, and weak pointers keep their memory. Elements are these pointers.
    DestroyedKept,
    /// Blocks have the same contents as others. Elements are the different contents.
    Duplicates,
    /// The same, of what functions have captured.
    Captured,
    /// Containers with next to no elements take more than they hold.
    TinyContainers,
    /// Nodes take much more than the elements in them.
    NodeOverhead,
    /// malloc's blocks are much larger than the objects in them.
    Rounding,
    /// Objects are in one list alone, though they were in another one, too. Elements are those that are in both. Or
    /// texts are in a table of shared ones, and nobody else has them; elements are those that somebody has.
    Unlisted,
}

/// What is reached in one way, and not needed for one reason.
#[derive(Clone, Debug)]
pub struct Waste {
    pub reason: Reason,
    pub path: String,
    pub of: Rc<str>,
    pub certain: bool,
    /// So many there are in all that are reached in this way.
    pub total: u64,
    pub sum: Sum,
    /// Of what is unused, in memory; None: not known.
    pub resident: Option<u64>,
    /// Of duplicates the most frequent contents, and whether these are texts.
    pub frequent: Vec<Same>,
    pub is_text: bool,
    /// Of what is unlisted the list that it is not in, and what keeps it apart; None: the table of shared texts has it.
    pub unlisted: Option<Unlisted>,
}

/// Of several containers or blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub number: u64,
    pub elements: u64,
    pub used: u64,
    pub room: u64,
    pub resident: u64,
    /// A block of the largest, and how large that is.
    pub sample: u64,
    pub largest: u64,
}

impl Sum {
    fn add(&mut self, room: &Room, resident: u64) {
        let Room { start: sample, elements, used, room: largest, .. } = *room;
        self.join(&Sum { number: 1, elements, used, room: largest, resident, sample, largest });
    }

    fn join(&mut self, other: &Sum) {
        self.number += other.number;
        self.elements += other.elements;
        self.used += other.used;
        self.room += other.room;
        self.resident += other.resident;
        if other.largest > self.largest {
            (self.largest, self.sample) = (other.largest, other.sample);
        }
    }

    pub fn unused(&self) -> u64 {
        self.room - self.used
    }
}

/// What wastes most first. `present`: what is in memory, where that is known.
pub fn waste(known: &Known, objects: &mut Objects, present: Option<&Present>, control: &Control) -> Result<Vec<Waste>> {
    let patterns = Patterns::new(known, control)?;
    let seen = Bits::new(known.named.name.len())?;
    let (steps, places, counted) = (Steps::default(), Places::default(), HashMap::new());
    let mut visit = Visit { known, patterns, present, seen, steps, places, counted, has_any: HashMap::new() };
    visit.everything(control)?;
    let mut found = Vec::new();
    for place in &visit.places.all {
        for (reason, sum) in [
            (Reason::UnusedRoom, place.sparse),
            (Reason::Emptied, place.emptied),
            (Reason::DestroyedKept, place.destroyed),
        ] {
            // a single small one is filled again, or costs nothing
            if sum.number > 0 && (place.total > 1 || sum.unused() >= WORTH) {
                push(&mut found, visit.row(place, reason, sum)?)?;
            }
        }
    }
    visit.rows_of_kept_texts(&mut found)?;
    visit.tiny_rows(&mut found)?;
    visit.costs_of_blocks(&mut found, control)?;
    for each in copies(known, &visit.patterns, present, control)? {
        push(&mut found, visit.row_of_copies(each))?;
    }
    for each in unlisted(known, &visit.patterns, objects, present, control)? {
        push(&mut found, visit.row_of_unlisted(each))?;
    }
    found.sort_by(|one, other| {
        (other.sum.unused(), &one.path, one.reason).cmp(&(one.sum.unused(), &other.path, other.reason))
    });
    Ok(found)
}

/// What is in blocks of one name.
#[derive(Clone, Copy)]
struct Content {
    reason: Reason,
    bytes: u64,
    /// Of the object or the node.
    whole: u64,
    /// Of nodes: so often as much they may take.
    times: u64,
}

/// How much two paths of members have in common, up to the end of a member.
fn in_common(one: &str, other: &str) -> usize {
    let alike = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let is_end = |text: &str| text[alike..].is_empty() || text[alike..].starts_with(['.', '[']);
    if one.is_char_boundary(alike) && other.is_char_boundary(alike) && is_end(one) && is_end(other) {
        return alike;
    }
    let begin = one.char_indices().map(|(at, _)| at).take_while(|at| *at <= alike).last().unwrap_or(0);
    one[..begin].rfind(['.', '[']).unwrap_or(0)
}

/// Texts of steps within blocks, by numbers; 0 is "".
struct Steps {
    all: Vec<Rc<str>>,
    /// By the text before, the type that has what is behind it, and the number of that in the type.
    numbers: HashMap<(u32, TypeId, u32), u32>,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { all: vec!["".into(), "[]".into()], numbers: HashMap::new() }
    }
}

const NO_STEP: u32 = 0;
/// In place of a container's number: its elements, and their keys; from there downwards arrays that lie in an object,
/// and those that the program counts. A container's is another one in each type.
const ELEMENTS: u32 = u32::MAX;
const KEYS: u32 = ELEMENTS - 1;
const REPEATED: u32 = KEYS - 1;
const COUNTED: u32 = 1 << 31;
const ELEMENT_STEP: u32 = 1;
/// Of what has the same number in all types.
const ANY_TYPE: TypeId = 0;

impl Steps {
    /// `part`: of an element, as its claim has it.
    fn element(&mut self, container: u32, part: &str) -> Result<u32> {
        let element = self.behind(container, ANY_TYPE, ELEMENTS, "[]")?;
        if part == KEY {
            self.behind(element, ANY_TYPE, KEYS, KEY)
        } else {
            Ok(element)
        }
    }

    fn behind(&mut self, before: u32, of: TypeId, number: u32, text: &str) -> Result<u32> {
        if let Some(known) = self.numbers.get(&(before, of, number)) {
            return Ok(*known);
        }
        let (made, text) = (self.all.len() as u32, format!("{}{text}", self.all[before as usize]));
        push(&mut self.all, text.into())?;
        insert(&mut self.numbers, (before, of, number), made)?;
        Ok(made)
    }
}

/// Where containers are that are reached in one way.
struct Place {
    pattern: u32,
    step: u32,
    name: Rc<str>,
    /// Those that have a block.
    total: u64,
    /// All of them, where that matters.
    visited: u64,
    sparse: Sum,
    emptied: Sum,
    destroyed: Sum,
    tiny: Sum,
    kept: KeptTexts,
}

/// Of a set of texts that are shared.
#[derive(Default)]
struct KeptTexts {
    /// Those that nobody else has, by blocks.
    alone: Vec<u32>,
    /// What these take of the set itself.
    places: u64,
    /// Those that somebody has.
    others: u64,
}

#[derive(Default)]
struct Places {
    all: Vec<Place>,
    numbers: HashMap<(u32, u32), usize>,
}

impl Places {
    fn of(&mut self, at: &At, step: u32, name: &Rc<str>) -> Result<&mut Place> {
        let (pattern, name) = (at.pattern, name.clone());
        let number = match self.numbers.get(&(pattern, step)) {
            Some(number) => *number,
            None => {
                let [sparse, emptied, destroyed, tiny] = [Sum::default(); 4];
                let (total, visited, kept) = (0, 0, KeptTexts::default());
                let place = Place { pattern, step, name, total, visited, sparse, emptied, destroyed, tiny, kept };
                push(&mut self.all, place)?;
                insert(&mut self.numbers, (pattern, step), self.all.len() - 1)?;
                self.all.len() - 1
            }
        };
        Ok(&mut self.all[number])
    }
}

/// What has the object that is looked at.
#[derive(Clone, Copy)]
struct At {
    /// A block, or a variable as a parent is numbered.
    holder: i32,
    pattern: u32,
    /// What leads from the block to the object.
    step: u32,
    /// Of an element of a set: bytes that it takes there.
    in_set: Option<u64>,
}

struct Visit<'a> {
    known: &'a Known<'a>,
    patterns: Patterns,
    present: Option<&'a Present<'a>>,
    /// The blocks whose containers were met.
    seen: Bits,
    steps: Steps,
    places: Places,
    /// By type, those that the program counts itself.
    counted: HashMap<TypeId, Rc<Vec<CountedArray>>>,
    has_any: HashMap<TypeId, bool>,
}

impl Visit<'_> {
    fn everything(&mut self, control: &Control) -> Result<()> {
        for (number, start) in self.known.starts.iter().enumerate() {
            let (Some(place), Some(pattern)) = (start.place, self.patterns.root_of(start)) else { continue };
            let layout = self.known.layouts.of(start.of)?;
            let at = At { holder: -1 - number as i32, pattern, step: NO_STEP, in_set: None };
            self.object(&layout, place, at, 0)?;
        }
        let mut looks = filled(self.known.names.len(), None)?;
        let mut pace = Pace::new(control);
        for block in 0..self.known.named.name.len() {
            pace.step()?;
            let name = self.known.name(block);
            if name == NONE {
                continue;
            }
            if let Some(look) = kept_at(&mut looks, name as usize, || self.look(name))? {
                self.block(block, &look, &mut pace)?;
            }
        }
        Ok(())
    }

    /// None: blocks of that name have no containers. And whether these are nodes of a set.
    fn look(&mut self, name: u32) -> Result<Option<Rc<(Look, bool)>>> {
        let Some(look) = self.known.look(name)? else { return Ok(None) };
        let text = &self.known.names[name as usize].text;
        let template = text.split('<').next().and_then(|template| template.strip_prefix("std::"));
        let is_node_of_set = template.is_some_and(|template| template.ends_with("set")) && text.ends_with(NODE);
        Ok(self.has_any(&look.layout)?.then(|| Rc::new((look, is_node_of_set))))
    }

    /// Whether objects of that type have containers in them, arrays that the program counts, or counts of owners.
    fn has_any(&mut self, layout: &FlatType) -> Result<bool> {
        if let Some(known) = self.has_any.get(&layout.of) {
            return Ok(*known);
        }
        // members can be of the same types over and over
        insert(&mut self.has_any, layout.of, false)?;
        let mut found =
            layout.counts.is_some() || !layout.containers.is_empty() || !self.counted(layout.of)?.is_empty();
        for repeat in &layout.repeats {
            found = found || self.has_any(&repeat.layout)?;
        }
        self.has_any.insert(layout.of, found);
        Ok(found)
    }

    fn counted(&mut self, of: TypeId) -> Result<Rc<Vec<CountedArray>>> {
        if let Some(known) = self.counted.get(&of) {
            return Ok(known.clone());
        }
        let found = Rc::new(arrays(self.known.layouts, of)?);
        insert(&mut self.counted, of, found.clone())?;
        Ok(found)
    }

    fn block(&mut self, block: usize, (look, is_node_of_set): &(Look, bool), pace: &mut Pace) -> Result<()> {
        let (holder, pattern) = (block as i32, self.patterns.of[block]);
        let place = self.known.memory.start(block as u32).wrapping_add(look.front);
        if let Some(counts) = look.layout.counts.filter(|_| !look.is_array && look.front == 0) {
            self.counted_block(block as u32, counts, pattern)?;
            if self.known.memory.word(place.wrapping_add(counts[0])) == Some(0) {
                return Ok(());
            }
        }
        let in_set = Some(self.known.memory.size(block as u32)).filter(|_| *is_node_of_set);
        let at = At { holder, pattern, step: NO_STEP, in_set };
        if !look.is_array {
            return self.object(&look.layout, place, at, 0);
        }
        for number in 0..u64::from(self.known.named.elements[block]) {
            pace.step()?;
            let place = place.wrapping_add(number.wrapping_mul(look.layout.size));
            self.object(&look.layout, place, At { step: ELEMENT_STEP, ..at }, 0)?;
        }
        Ok(())
    }

    fn object(&mut self, layout: &FlatType, place: u64, at: At, deep: u32) -> Result<()> {
        for each in &layout.containers {
            self.container(each, place.wrapping_add(each.offset), at, deep)?;
        }
        let arrays = self.counted(layout.of)?;
        for (each, number) in arrays.iter().zip(0..) {
            if let Some(room) = each.room(self.known.memory, place) {
                let step = self.steps.behind(at.step, layout.of, COUNTED - number, &each.step)?;
                let block = self.known.memory.at(room.start);
                let name = self.known.text(block.map_or(NONE, |block| self.known.name(block as usize)));
                self.note(&room, At { step, ..at }, &name)?;
            }
        }
        for repeat in &layout.repeats {
            if !self.has_any(&repeat.layout)? {
                continue;
            }
            let begin = place.wrapping_add(repeat.offset);
            // what the layout says of one element holds for all of them
            let number = REPEATED.saturating_sub(repeat.offset.min(1 << 30) as u32);
            let step = self.steps.behind(at.step, layout.of, number, &repeat.step)?;
            let size = repeat.layout.size.max(1);
            let room = layout.size.saturating_sub(repeat.offset) / size;
            for number in 0..self.known.memory.most(begin, size, repeat.count.min(room)) {
                let place = begin.wrapping_add(number.wrapping_mul(size));
                self.object(&repeat.layout, place, At { step, ..at }, deep)?;
            }
        }
        Ok(())
    }

    fn container(&mut self, each: &Embedded, place: u64, at: At, deep: u32) -> Result<()> {
        let memory = self.known.memory;
        let step = self.steps.behind(at.step, ANY_TYPE, each.number, &each.step)?;
        self.note_tiny(each, place, At { step, ..at })?;
        if let Some(room) = each.container.room(memory, place)? {
            self.note(&room, At { step, ..at }, &each.name)?;
        }
        match &*each.container {
            Container::Value(own) => {
                let held = own.which(memory, place).and_then(|which| own.types[which]);
                let Some(of) = held.filter(|_| deep < DEEPEST) else { return Ok(()) };
                let layout = self.known.layouts.of(of)?;
                self.object(&layout, place.wrapping_add(own.value), At { step, ..at }, deep + 1)
            }
            Container::Other(own) if deep < DEEPEST => {
                if let Some(shared) = own.shared(memory, place)? {
                    // a member of an element is no element
                    let in_set = at.in_set.filter(|_| each.step.is_empty());
                    return self.note_shared(&shared, At { step, in_set, ..at }, &each.name);
                }
                let mut inline = Vec::new();
                own.claims(memory, place, &mut |claim| match claim.inline {
                    true => push(&mut inline, (claim.of, claim.address, claim.number.is_some(), claim.step)),
                    false => Ok(()),
                })?;
                let (mut known, in_set) = (None, own.place_in_set());
                for (of, address, is_element, behind) in inline {
                    let layout = match known.take() {
                        Some((before, layout)) if before == of => layout,
                        _ => self.known.layouts.of(of)?,
                    };
                    if self.has_any(&layout)? {
                        let step = if is_element { self.steps.element(step, behind)? } else { step };
                        self.object(&layout, address, At { step, in_set, ..at }, deep + 1)?;
                    }
                    known = Some((of, layout));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Of a container that is reached there.
    fn note(&mut self, room: &Room, at: At, name: &Rc<str>) -> Result<()> {
        let memory = self.known.memory;
        let Some(block) = memory.at(room.start) else { return Ok(()) };
        // what another holder led to is counted there
        let parent = self.known.named.parent.get(block as usize);
        let is_within = room.used <= room.room && room.room <= memory.room(block);
        if parent != Some(&at.holder) || !is_within || !self.seen.add(block as usize) {
            return Ok(());
        }
        let found = self.places.of(&at, at.step, name)?;
        found.total += 1;
        let resident = match room.is_ahead {
            true => in_memory(self.present, room.start.wrapping_add(room.used), room.room - room.used),
            false => in_memory(self.present, room.start, room.room).saturating_sub(room.used),
        };
        if room.elements == 0 {
            found.emptied.add(room, resident);
        } else if room.used < room.grown && !memory.fits_about(block, room.used) {
            found.sparse.add(room, resident);
        }
        Ok(())
    }

    fn note_tiny(&mut self, each: &Embedded, place: u64, at: At) -> Result<()> {
        // of which the smallest ones take more than some words
        const WORDS: u64 = 5;
        let memory = self.known.memory;
        if each.size <= WORDS * memory.word_size() {
            return Ok(());
        }
        let Some(tiny) = each.container.tiny(memory, place)? else { return Ok(()) };
        let parent = memory.at(tiny.block).and_then(|block| self.known.named.parent.get(block as usize));
        if tiny.block != 0 && parent != Some(&at.holder) {
            return Ok(());
        }
        let found = self.places.of(&at, at.step, &each.name)?;
        found.visited += 1;
        let room = each.size.saturating_add(tiny.blocks);
        if room.saturating_sub(tiny.held) > tiny.held {
            let start = match u32::try_from(at.holder) {
                _ if tiny.block != 0 => tiny.block,
                Ok(holder) => memory.start(holder),
                Err(_) => place,
            };
            let resident = in_memory(self.present, place, each.size);
            let (elements, used) = (tiny.elements, tiny.held);
            let room = Room { start, elements, used, room, grown: 0, is_ahead: false };
            found.tiny.add(&room, resident.saturating_add(tiny.blocks).saturating_sub(used));
        }
        Ok(())
    }

    /// Whether a pointer by that name shares a text.
    fn is_shared_text(&self, block: u32, name: &str) -> bool {
        const TEXTS: [&str; 3] = ["str", "[u8]", "alloc::string::String"];
        const STRINGS: [&str; 2] = ["std::__cxx11::basic_string<", "std::basic_string<"];
        let text = match name.starts_with("std::shared_ptr<") {
            true => Some(name),
            false => self.known.names.get(self.known.name(block as usize) as usize).map(|name| &*name.text),
        };
        let Some((_, arguments)) = text.and_then(parts_of) else { return false };
        let is_text = |of: &&str| TEXTS.contains(of) || STRINGS.iter().any(|text| of.starts_with(text));
        arguments.first().is_some_and(is_text)
    }

    /// Of tables of shared texts those that nobody else has.
    fn rows_of_kept_texts(&mut self, to: &mut Vec<Waste>) -> Result<()> {
        const FEWEST: u64 = 32;
        const PART: u64 = 10;
        // where next to nobody has any of them it is the table that they belong to
        const OTHERS: u64 = 100;
        for place in 0..self.places.all.len() {
            let KeptTexts { mut alone, places, others } = std::mem::take(&mut self.places.all[place].kept);
            let number = alone.len() as u64;
            let total = number + others;
            if number < FEWEST || number * PART < total || others * OTHERS < total {
                continue;
            }
            alone.sort_unstable();
            let name = self.known.name(alone[0] as usize);
            let mut sum = keep(self.known, name, &alone, &|_| true, self.present)?;
            (sum.number, sum.elements) = (number, others);
            (sum.room, sum.sample) = (sum.room + places, self.known.memory.start(alone[0]));
            let of = self.known.text(name);
            let row = self.row(&self.places.all[place], Reason::Unlisted, sum)?;
            push(to, Waste { total, of, ..row })?;
        }
        Ok(())
    }

    /// Containers of one type that lie in the same objects are one row.
    fn tiny_rows(&self, to: &mut Vec<Waste>) -> Result<()> {
        let mut of: BTreeMap<(u32, &str), Vec<&Place>> = BTreeMap::new();
        for place in self.places.all.iter().filter(|place| place.tiny.number > 0) {
            of.entry((place.pattern, &place.name)).or_default().push(place);
        }
        for places in of.into_values() {
            let mut steps = places.iter().map(|place| &*self.steps.all[place.step as usize]);
            let mut step = steps.next().unwrap_or_default().to_owned();
            for other in steps {
                step.truncate(in_common(&step, other));
            }
            let mut sum = Sum::default();
            places.iter().for_each(|place| sum.join(&place.tiny));
            let pattern = &self.patterns.all[places[0].pattern as usize];
            let path = format!("{}{}", pattern.text, self.known.step(pattern, &step, None)?);
            let total = places.iter().map(|place| place.visited).sum();
            let row = self.row(places[0], Reason::TinyContainers, sum)?;
            push(to, Waste { path, total, ..row })?;
        }
        Ok(())
    }

    /// What nodes and malloc add to what is in the blocks.
    fn costs_of_blocks(&self, to: &mut Vec<Waste>, control: &Control) -> Result<()> {
        // so often as much as its element a node may take
        const OF_LIST: u64 = 3;
        const OF_OTHERS: u64 = 5;
        let known = self.known;
        // by name what is in a block, and how much more it may take
        let mut most: Vec<Option<Option<Content>>> = filled(known.names.len(), None)?;
        let mut sums: Vec<(Sum, Option<Content>)> = filled(self.patterns.all.len(), (Sum::default(), None))?;
        let mut pace = Pace::new(control);
        for (block, pattern) in self.patterns.of.iter().enumerate() {
            pace.step()?;
            let name = known.name(block);
            if name == NONE || known.named.level[block] > Strength::Local as u8 || known.memory.is_alone(block as u32) {
                continue;
            }
            let content = kept_at(&mut most, name as usize, || self.content(name, OF_LIST, OF_OTHERS))?;
            let (Some(content), Some((sum, of))) = (content, sums.get_mut(*pattern as usize)) else { continue };
            // what is larger than its type has something else behind it
            if !known.memory.fits_about(block as u32, content.whole) {
                continue;
            }
            let (start, size) = (known.memory.start(block as u32), known.memory.size(block as u32));
            let resident = in_memory(self.present, start, size);
            *of = Some(content);
            let room = Room { start, elements: 1, used: content.bytes.min(size), room: size, grown: 0, is_ahead: true };
            sum.add(&room, resident.saturating_sub(room.used));
        }
        for (number, (sum, content)) in sums.into_iter().enumerate() {
            let Some(content) = content else { continue };
            // a header, and a word more, are the price of any block
            const PRICE: u64 = 16;
            let is_much = match content.reason {
                Reason::NodeOverhead => sum.room > content.times.saturating_mul(sum.used),
                _ => sum.unused().saturating_mul(4) > sum.room && sum.unused() > (PRICE + 1) * sum.number,
            };
            if is_much && sum.unused() >= WORTH {
                let pattern = &self.patterns.all[number];
                let (path, of) = (pattern.text.clone(), known.text(pattern.name));
                push(to, self.made(content.reason, path, of, sum.number, sum))?;
            }
        }
        Ok(())
    }

    /// None: blocks of that name are of no one object or element.
    fn content(&self, name: u32, of_list: u64, of_others: u64) -> Result<Option<Content>> {
        let name = &self.known.names[name as usize];
        let Some(of) = name.of.filter(|_| name.form == NameForm::Object) else { return Ok(None) };
        let facts = self.known.layouts.types.facts(of)?;
        if of >= 0 {
            return Ok(Some(Content { reason: Reason::Rounding, bytes: facts.size, whole: facts.size, times: 0 }));
        }
        // a node has links before its element
        let Some(value) = facts.fields.iter().find(|field| field.name.is_empty() && facts.fields.len() > 1) else {
            return Ok(None);
        };
        let bytes = self.known.layouts.types.facts(value.of)?.size;
        let times = if name.text.contains("list<") { of_list } else { of_others };
        Ok(Some(Content { reason: Reason::NodeOverhead, bytes, whole: facts.size, times }))
    }

    /// Of a pointer there that shares an object, or only knows it.
    fn note_shared(&mut self, shared: &SharedBlock, at: At, name: &Rc<str>) -> Result<()> {
        let memory = self.known.memory;
        let Some(block) = memory.at(shared.start) else { return Ok(()) };
        if let Some(place) = at.in_set.filter(|_| self.is_shared_text(block, name)) {
            let kept = &mut self.places.of(&at, at.step, name)?.kept;
            if shared.owners == 1 {
                push(&mut kept.alone, block)?;
                kept.places += place;
            } else {
                kept.others += 1;
            }
        }
        if self.known.named.parent.get(block as usize) != Some(&at.holder) || !self.seen.add(block as usize) {
            return Ok(());
        }
        let size = memory.size(block);
        let resident = in_memory(self.present, shared.start, size);
        let found = self.places.of(&at, at.step, name)?;
        found.total += 1;
        if shared.owners == 0 {
            let (start, elements, room) = (shared.start, shared.weak, size);
            found.destroyed.add(&Room { start, elements, used: 0, room, grown: 0, is_ahead: true }, resident);
        }
        Ok(())
    }

    /// Of a block of Rust's that counts who shares its value.
    fn counted_block(&mut self, block: u32, counts: [u64; 2], pattern: u32) -> Result<()> {
        let memory = self.known.memory;
        let start = memory.start(block);
        let count = |place: u64| memory.word(start.wrapping_add(place));
        let (Some(owners), Some(weak)) = (count(counts[0]), count(counts[1])) else { return Ok(()) };
        let text = self.known.text(self.known.name(block as usize));
        let holder = self.known.named.parent[block as usize];
        let shared = SharedBlock { start, owners, weak };
        self.note_shared(&shared, At { holder, pattern, step: NO_STEP, in_set: None }, &text)
    }

    fn made(&self, reason: Reason, path: String, of: Rc<str>, total: u64, sum: Sum) -> Waste {
        let resident = self.present.map(|_| sum.resident);
        let (certain, is_text) = (true, false);
        Waste { reason, path, of, certain, total, sum, resident, frequent: Vec::new(), is_text, unlisted: None }
    }

    fn row(&self, place: &Place, reason: Reason, sum: Sum) -> Result<Waste> {
        let pattern = &self.patterns.all[place.pattern as usize];
        let path = pattern.text.clone() + &self.known.step(pattern, &self.steps.all[place.step as usize], None)?;
        let row = self.made(reason, path, place.name.clone(), place.total, sum);
        Ok(Waste { certain: pattern.is_certain(), ..row })
    }

    fn row_of_unlisted(&self, each: Unlisted) -> Waste {
        let of = self.known.text(each.name);
        let row = self.made(Reason::Unlisted, each.path.clone(), of, each.total, each.sum);
        Waste { certain: each.certain, unlisted: Some(each), ..row }
    }

    fn row_of_copies(&self, copies: Copies) -> Waste {
        let pattern = &self.patterns.all[copies.pattern as usize];
        let of = self.known.text(pattern.name);
        let reason = if is_captured(&of) { Reason::Captured } else { Reason::Duplicates };
        let row = self.made(reason, pattern.text.clone(), of, copies.blocks, copies.sum);
        Waste { certain: pattern.is_certain(), frequent: copies.frequent, is_text: copies.is_text, ..row }
    }
}
