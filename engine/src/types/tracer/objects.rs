//! What the words of an object claim about other blocks, by the layout of its type.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::claims::{Claim, Strength};
use super::containers::forms::{Container, OfBody, OfNodes};
use super::counts::{in_front, Counts};
use super::layouts::{Alternatives, Embedded, FlatType, Layouts, Slot, Target, TypeTable, Vtables};
use super::memory::Memory;
use super::names::{At, Claimed, Names, Proof, NONE, UNNUMBERED};
use super::rules::Rules;
use crate::bits::Bits;
use crate::failure::{entry, filled, include, push, Control, Result};
use crate::types::facts::{Language, TypeId};

/// So often what a container holds inline may hold such a container.
const DEEPEST: u32 = 16;
/// Likewise of unions, as in Rust's lists: each node would prove itself by all that follow.
const DEEPEST_UNION: u32 = 4;
/// So many objects to which members of unions lead are looked at for one object: each may have several unions.
const MOST_FITS: u32 = 1 << 10;
/// So many elements of an array are looked at for proof.
const FEW_ELEMENTS: u64 = 64;
/// So many elements beyond the first have to have a pointer that is right.
const PROOFS: u64 = 2;
const MOST_INTERIOR: usize = 1 << 20;
/// Words of an array of pointers that are read at once.
const PIECE: u64 = 1 << 13;
/// Objects between two looks at the caller's words.
const PACE: u32 = 1 << 12;

/// How what a union's member leads to agrees with its type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// What is there shows it.
    Proven,
    /// Nothing contradicts it.
    Possible,
    /// Nothing but that the block is larger, by what malloc could not split off or as what extends the type.
    TooLarge,
}

/// A pointer that is looked at: the member that it is, what has it, and where that lies (None: an element of an array).
#[derive(Clone, Copy)]
pub struct Pointer<'b> {
    pub slot: &'b Slot,
    pub value: u64,
    pub layout: &'b FlatType,
    pub place: Option<u64>,
    pub at: &'b At,
}

/// A pointer into a block: where it leads, the type that it is to, and the way.
#[derive(Clone, Copy)]
pub struct Interior {
    pub offset: u64,
    pub of: TypeId,
    pub claimed: Claimed,
}

/// Reads objects of one image, and tells where their words lead.
pub struct Objects<'a> {
    pub memory: &'a Memory<'a>,
    pub layouts: Rc<Layouts>,
    pub types: Rc<TypeTable>,
    pub names: Names,
    pub vtables: Vtables,
    pub rules: Rc<Rules>,
    /// The blocks of which each line of the rules says something wrong.
    pub against: Vec<HashSet<u32>>,
    /// Slots as lines of the rules say they are.
    pub(super) ruled: HashMap<(u32, u32), Rc<Slot>>,
    /// Containers that did not prove themselves, by type.
    pub damaged: HashMap<Rc<str>, u64>,
    /// A holder's first pointer to each place within a block, in the order in which they were met.
    pub interior: Vec<Interior>,
    inside: HashSet<(i32, u32, u64)>,
    /// The blocks that are in a list which was decided.
    listed: Bits,
    /// Blocks that were named by a member further on.
    pub enclosing: Vec<u32>,
    /// Types of which links were found to lead to the same type.
    pub lists: HashSet<TypeId>,
    low: u64,
    high: u64,
    control: &'a Control,
    left: u32,
    fits_left: u32,
    /// "[]", as a prefix.
    brackets: u32,
    /// Room for what is needed for a moment.
    spare: Vec<Claimed>,
    nodes: Vec<u32>,
    words: Vec<u64>,
}

impl<'a> Objects<'a> {
    pub fn new(
        memory: &'a Memory<'a>,
        layouts: Rc<Layouts>,
        vtables: Vtables,
        rules: Rc<Rules>,
        control: &'a Control,
    ) -> Result<Objects<'a>> {
        let mut names = Names::new(layouts.clone());
        let brackets = names.prefix(0, ["[]", ""])?;
        let blocks = memory.blocks;
        let high = blocks.ends.last().max(blocks.starts.last()).copied().unwrap_or(0);
        Ok(Objects {
            memory,
            types: layouts.types.clone(),
            layouts,
            names,
            vtables,
            against: filled(rules.lines.len(), HashSet::new())?,
            ruled: HashMap::new(),
            rules,
            damaged: HashMap::new(),
            interior: Vec::new(),
            inside: HashSet::new(),
            listed: Bits::new(memory.blocks.len())?,
            enclosing: Vec::new(),
            lists: HashSet::new(),
            low: blocks.starts.first().copied().unwrap_or(1),
            high,
            control,
            left: PACE,
            fits_left: 0,
            brackets,
            spare: Vec::new(),
            nodes: Vec::new(),
            words: filled(PIECE as usize, 0)?,
        })
    }

    /// Forgets what was noted besides names.
    pub fn begin_again(&mut self) {
        self.damaged.clear();
        self.interior.clear();
        self.inside.clear();
        self.listed.clear();
        self.enclosing.clear();
        self.lists.clear();
        self.against.iter_mut().for_each(HashSet::clear);
    }

    /// Takes what was noted of pointers into blocks.
    pub fn take_interior(&mut self) -> Vec<Interior> {
        self.inside.clear();
        std::mem::take(&mut self.interior)
    }

    pub(super) fn is_listed(&self, block: i32) -> bool {
        usize::try_from(block).is_ok_and(|block| self.listed.has(block))
    }

    pub(super) fn note_listed(&mut self, block: u32) {
        self.listed.add(block as usize);
    }

    pub(super) fn step(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left == 0 {
            self.left = PACE;
            self.control.advance(0)?;
        }
        Ok(())
    }

    // words

    /// Adds what an object there claims; how many of its words contradict its type. Where something is to be proved the
    /// first that does ends it.
    pub fn scan(
        &mut self,
        layout: &FlatType,
        place: u64,
        at: &At,
        depth: u32,
        found: &mut Vec<Claimed>,
    ) -> Result<u64> {
        self.step()?;
        if depth == 0 {
            self.fits_left = MOST_FITS;
        }
        let mut bad = 0;
        for slot in &layout.slots {
            if depth == 0 && at.known.0 <= slot.offset && slot.offset < at.known.1 {
                continue;
            }
            let value = self.memory.word(place.wrapping_add(slot.offset)).unwrap_or(0);
            bad += self.word(&Pointer { slot, value, layout, place: Some(place), at }, found)?;
            if bad > 0 && at.proof != Proof::None {
                return Ok(bad);
            }
        }
        if at.proof != Proof::None {
            for bits in &layout.bits {
                let value = self.memory.number(place.wrapping_add(bits.offset), bits.size).unwrap_or(0);
                if value & !bits.mask != 0 {
                    return Ok(bad + 1);
                }
            }
            for offset in &layout.functions {
                bad += self.function(place.wrapping_add(*offset), at, found)?;
                if bad > 0 {
                    return Ok(bad);
                }
            }
        }
        for each in &layout.containers {
            bad += self.open(each, place.wrapping_add(each.offset), at, depth, found)?;
            if bad > 0 && at.proof != Proof::None {
                return Ok(bad);
            }
        }
        for union in &layout.unions {
            if !at.may_be_unset && depth < DEEPEST_UNION {
                self.choose(union, place.wrapping_add(union.offset), at, depth, found)?;
            }
        }
        for repeat in &layout.repeats {
            if at.proof == Proof::None {
                let begin = place.wrapping_add(repeat.offset);
                let prefix = self.names.numbered_prefix(at.prefix, at.number, &repeat.step)?;
                let at = At { prefix, ..*at };
                // not more than the object has room for, or arrays in arrays would have any number
                let room = layout.size.saturating_sub(repeat.offset) / repeat.layout.size.max(1);
                let count = self.memory.most(begin, repeat.layout.size, repeat.count.min(room));
                bad += self.elements(&repeat.layout, begin, count, &at, depth, found)?;
            }
        }
        Ok(bad)
    }

    /// Adds something where a pointer to a function leads to one; 1 where it cannot be such a pointer.
    fn function(&mut self, place: u64, at: &At, found: &mut Vec<Claimed>) -> Result<u64> {
        let value = self.memory.word(place).unwrap_or(0);
        if self.memory.at(value).is_some() || self.memory.leads_nowhere(value, false) {
            return Ok(1);
        }
        if value != 0 && self.memory.has_symbol(value) {
            push(found, claimed(Strength::Field, 0, NONE, at, 0, 0, false))?;
        }
        Ok(0)
    }

    /// Adds what a word claims; 1 where it contradicts its type.
    #[inline]
    fn word(&mut self, pointer: &Pointer, found: &mut Vec<Claimed>) -> Result<u64> {
        if pointer.value == 0 {
            return Ok(0);
        }
        if self.low <= pointer.value && pointer.value <= self.high {
            return self.follow(pointer, found);
        }
        Ok(u64::from(self.memory.leads_nowhere(pointer.value, pointer.slot.is_void)))
    }

    /// The same of all elements of an array that is a block, or lies in it.
    pub fn scan_array(
        &mut self,
        layout: &FlatType,
        place: u64,
        count: u64,
        at: &At,
        found: &mut Vec<Claimed>,
    ) -> Result<u64> {
        let at = At { prefix: self.brackets, ..*at };
        if layout.parts() == 1 && !layout.slots.is_empty() && layout.size == self.memory.word_size() {
            return self.pointers(layout, place, count, &at, found);
        }
        self.elements(layout, place, count, &at, 0, found)
    }

    fn elements(
        &mut self,
        layout: &FlatType,
        place: u64,
        count: u64,
        at: &At,
        depth: u32,
        found: &mut Vec<Claimed>,
    ) -> Result<u64> {
        let (mut bad, mut number) = (0, 0);
        while number < count {
            let begin = place.wrapping_add(number.wrapping_mul(layout.size));
            if self.memory.word(begin).is_none() {
                let Some(next) = self.memory.readable(begin) else { break };
                number = number.max((next.start - begin) / layout.size.max(1));
            }
            let at = At { number: number.min(u64::from(UNNUMBERED) - 1) as u32, ..*at };
            bad += self.scan(layout, place.wrapping_add(number.wrapping_mul(layout.size)), &at, depth, found)?;
            number += 1;
        }
        Ok(bad)
    }

    /// The same of an array of pointers, many at a time.
    fn pointers(
        &mut self,
        layout: &FlatType,
        place: u64,
        count: u64,
        at: &At,
        found: &mut Vec<Claimed>,
    ) -> Result<u64> {
        let (mut bad, mut first, word) = (0, 0, self.memory.word_size());
        let mut words = std::mem::take(&mut self.words);
        while first < count {
            let begin = place.wrapping_add(first.wrapping_mul(word));
            let mut size = PIECE.min(count - first);
            if !self.memory.words(begin, &mut words[..size as usize]) {
                let Some(next) = self.memory.readable(begin) else { break };
                if next.start > begin {
                    first += (next.start - begin).div_ceil(word);
                    continue;
                }
                size = size.min(((next.end - begin) / word).max(1));
                if !self.memory.words(begin, &mut words[..size as usize]) {
                    first += size;
                    continue;
                }
            }
            self.step()?;
            for (value, number) in words[..size as usize].iter().zip(first..) {
                let at = At { number: number.min(u64::from(UNNUMBERED) - 1) as u32, ..*at };
                let pointer = Pointer { slot: &layout.slots[0], value: *value, layout, place: None, at: &at };
                bad += self.word(&pointer, found)?;
            }
            first += size;
        }
        self.words = words;
        Ok(bad)
    }

    pub(super) fn claim(
        &mut self,
        level: Strength,
        block: u32,
        name: u32,
        pointer: &Pointer,
        elements: u64,
    ) -> Result<Claimed> {
        let Pointer { slot, at, .. } = *pointer;
        let step = if at.proof == Proof::None { self.names.slot_step(at.prefix, slot)? } else { 0 };
        Ok(claimed(level, block, name, at, step, elements, true))
    }

    /// By what member or variable leads there.
    fn field(&mut self, block: u32, pointer: &Pointer, to: Target) -> Result<Claimed> {
        let Pointer { slot, at, .. } = *pointer;
        let name = match at.proof {
            Proof::None if to == slot.to => self.names.field(slot, at.label)?,
            Proof::None => self.names.field_of(slot, to, at.label)?,
            _ => NONE,
        };
        self.claim(Strength::Field, block, name, pointer, 0)
    }

    // pointers

    /// Adds where a pointer leads; 1 where it cannot lead there.
    pub fn follow(&mut self, pointer: &Pointer, found: &mut Vec<Claimed>) -> Result<u64> {
        let Pointer { slot, value, at, .. } = *pointer;
        let Some((block, begins)) = self.memory.before(value) else { return Ok(0) };
        if slot.is_ruled && at.proof == Proof::None && self.by_rules(pointer, found)? {
            return Ok(0);
        }
        if let (Target::Object, Some(target)) = (slot.to, slot.target) {
            if begins && self.names.slot_chunk(slot, target, &self.memory.malloc)? == self.memory.size(block) {
                if !at.may_be_unset || self.is_proven(target, value, Proof::Typed)? {
                    let name = if at.proof == Proof::None { self.names.slot_object(slot, target)? } else { NONE };
                    push(found, self.claim(at.plain, block, name, pointer, 0)?)?;
                }
                return Ok(0);
            }
            return self.follow_object(pointer, target, block, found);
        }
        if !begins {
            let is_right = match at.proof {
                Proof::None => !at.may_be_unset && slot.fits_all() && self.memory.behind_header(value).is_some(),
                Proof::Any => self.is_in_own_tail(pointer, block),
                _ => false,
            };
            if is_right {
                push(found, self.field(block, pointer, slot.to)?)?;
            }
            return Ok(0);
        }
        if at.may_be_unset || at.proof == Proof::Typed {
            return Ok(0);
        }
        let claimed = match (slot.to, slot.target) {
            (Target::Pointers, Some(target)) if at.proof == Proof::None => {
                self.array_of_pointers(pointer, target, block)?
            }
            (Target::Numbers, Some(target)) if at.proof == Proof::None => {
                let size = self.types.facts(target)?.size;
                match self.counts(pointer, block).beside(size) {
                    0 => self.field(block, pointer, slot.to)?,
                    count => {
                        let name = self.names.array(target, 0, None)?;
                        self.claim(at.plain.max(Strength::Array), block, name, pointer, count)?
                    }
                }
            }
            _ => {
                let claimed = self.field(block, pointer, slot.to)?;
                let is_bytes = slot.fits_all() && at.proof == Proof::None;
                let bytes = if is_bytes { self.counts(pointer, block).beside(1) } else { 0 };
                Claimed { elements: bytes.min(u64::from(UNNUMBERED)) as u32, ..claimed }
            }
        };
        push(found, claimed)?;
        Ok(0)
    }

    fn counts<'b>(&'b self, pointer: &Pointer<'b>, block: u32) -> Counts<'b, 'a> {
        let Pointer { layout, place, .. } = *pointer;
        Counts { memory: self.memory, types: &self.types, layout, place, block }
    }

    /// Of the object itself that has a block.
    fn own_counts<'b>(&'b self, layout: &'b FlatType, place: u64, block: u32) -> Counts<'b, 'a> {
        Counts { memory: self.memory, types: &self.types, layout, place: Some(place), block }
    }

    /// Whether an object that begins a block has a pointer to what lies behind it there.
    fn is_in_own_tail(&self, pointer: &Pointer, block: u32) -> bool {
        let Pointer { value, layout, place, .. } = *pointer;
        let within = value - self.memory.start(block);
        place == Some(self.memory.start(block)) && layout.size <= within && within < self.memory.room(block)
    }

    /// A pointer to a block that is not just as large as its type, to an object with a vtable, or into a block.
    fn follow_object(
        &mut self,
        pointer: &Pointer,
        target: TypeId,
        block: u32,
        found: &mut Vec<Claimed>,
    ) -> Result<u64> {
        let (Pointer { slot, value, layout, at, .. }, memory) = (*pointer, self.memory);
        let inner = self.layouts.of(target)?;
        let (size, within, room) = (inner.size, value - memory.start(block), memory.room(block));
        let proves = at.proof != Proof::None;
        if !proves && within < room && self.rules.lead_into(target) {
            if let Some(claimed) = self.inside_by_rules(target, block, pointer)? {
                push(found, claimed)?;
                return Ok(0);
            }
        }
        if inner.polymorphic {
            if let Some((class, block)) = self.vtables.dynamic(memory, value, &inner)? {
                let least = if at.plain == Strength::Local { Strength::Local } else { at.level };
                let name = if proves { NONE } else { self.names.object(class.of)? };
                let claimed = self.claim(least.max(Strength::Vtable), block, name, pointer, 0)?;
                push(found, Claimed { plain: false, ..claimed })?;
            }
            return Ok(0);
        }
        if at.proof == Proof::Links {
            // what extends its own kind has such pointers, too
            if inner.is_link() && target != layout.of && within.saturating_add(size) <= room {
                push(found, self.field(block, pointer, slot.to)?)?;
            }
            return Ok(0);
        }
        if !proves && slot.link == Some(within) && within < room {
            if let Some(claimed) = self.listed(pointer, block)? {
                push(found, claimed)?;
                return Ok(0);
            }
        }
        if within > 0 {
            if proves {
                return Ok(0);
            }
            // C has no delete[] to count for
            let is_counted = self.types.facts(target)?.language != Language::C;
            let cookie = if is_counted { in_front(memory, value, block, size) } else { 0 };
            if cookie > 0 {
                let name = self.names.array(target, within, None)?;
                push(found, self.claim(at.plain, block, name, pointer, cookie)?)?;
            } else if within < room {
                let claimed = self.claim(at.plain, block, NONE, pointer, 0)?;
                self.note_interior(Interior { offset: within, of: target, claimed })?;
            }
            return Ok(0);
        }
        if room < size {
            return self.shortened(pointer, target, block, found);
        }
        if !proves && inner.is_link() {
            // a list's link may be the first member
            let claimed = self.claim(at.plain, block, NONE, pointer, 0)?;
            self.note_interior(Interior { offset: 0, of: target, claimed })?;
        }
        if proves {
            if at.proof == Proof::Any {
                push(found, self.field(block, pointer, slot.to)?)?;
            }
            return Ok(0);
        }
        if at.may_be_unset && !self.is_proven(target, value, Proof::Typed)? {
            return Ok(0);
        }
        let claimed = if memory.is_alone(block) && memory.fits(block, size) {
            let name = self.names.object(target)?;
            self.claim(at.plain, block, name, pointer, 0)?
        } else if inner.flexible.is_some() {
            let name = self.names.object(target)?;
            let counted = self.own_counts(&inner, value, block).flexible()? > 0;
            self.claim(if counted { at.plain } else { Strength::Weak }, block, name, pointer, 0)?
        } else {
            self.larger(pointer, target, block)?
        };
        push(found, claimed)?;
        Ok(0)
    }

    /// A pointer to a block that is too small for its type: right where the type ends with text, and the block with
    /// less.
    fn shortened(&mut self, pointer: &Pointer, target: TypeId, block: u32, found: &mut Vec<Claimed>) -> Result<u64> {
        let at = pointer.at;
        let Some(short) = self.types.shortened(target)? else {
            return Ok(u64::from(!self.beginning(pointer, target, block, found)?));
        };
        let layout = self.layouts.of(short)?;
        let holds_all = self.memory.room(block) > layout.size;
        let fits = holds_all && self.memory.ends_with_text(block, layout.size)?;
        if !fits && self.beginning(pointer, target, block, found)? {
            return Ok(0);
        }
        if !holds_all {
            return Ok(1);
        }
        if at.proof != Proof::None {
            if fits {
                push(found, self.claim(at.plain, block, NONE, pointer, 0)?)?;
            }
            return Ok(0);
        }
        let Some(right) = self.proofs(&layout, self.memory.start(block), Proof::Typed, 0)? else { return Ok(1) };
        if fits || right || !at.may_be_unset {
            let name = self.names.object(short)?;
            let level = if fits || right { at.plain } else { Strength::Weak };
            push(found, self.claim(level, block, name, pointer, 0)?)?;
        }
        Ok(0)
    }

    /// Likewise of another struct, which begins as this one does: `struct header` that is a `struct message`. False
    /// where it is none.
    fn beginning(&mut self, pointer: &Pointer, target: TypeId, block: u32, found: &mut Vec<Claimed>) -> Result<bool> {
        let at = pointer.at;
        let chunk = self.memory.size(block);
        let beginnings = self.types.beginnings(target)?;
        let fitting = beginnings.iter().filter(|(_, size)| self.memory.malloc.chunk_for(*size) == chunk);
        let several: Vec<TypeId> = fitting.map(|(of, _)| *of).collect();
        let of = match several[..] {
            [] => return Ok(false),
            [only] => only,
            _ => self.types.either(target, &several)?,
        };
        let layout = self.layouts.of(of)?;
        // others of the kind prove nothing: each of them would have to be looked at first
        let known: Vec<u64> =
            layout.slots.iter().filter(|each| each.target != Some(target)).map(|each| each.offset).collect();
        let start = self.memory.start(block);
        let mut right = false;
        for offset in known {
            let value = self.memory.word(start.wrapping_add(offset)).unwrap_or(0);
            if value != 0 && self.memory.leads_nowhere(value, false) {
                return Ok(false);
            }
            right |= self.memory.at(value).is_some();
        }
        if right && at.proof == Proof::None {
            // which it is, is by its words alone; where their members lead, by the pointer's type
            let name = self.names.one_of(of, &several)?;
            push(found, Claimed { plain: false, ..self.claim(at.plain, block, name, pointer, 0)? })?;
        }
        Ok(right)
    }

    fn note_interior(&mut self, interior: Interior) -> Result<()> {
        let Claimed { parent, block, .. } = interior.claimed;
        let has_room = self.interior.len() < MOST_INTERIOR;
        if has_room && include(&mut self.inside, (parent, block, interior.offset))? {
            push(&mut self.interior, interior)?;
        }
        Ok(())
    }

    /// T[], where something proves it; else T and a tail.
    fn larger(&mut self, pointer: &Pointer, target: TypeId, block: u32) -> Result<Claimed> {
        let Pointer { slot, value, at, .. } = *pointer;
        let inner = self.layouts.of(target)?;
        let counts = self.counts(pointer, block);
        let count = match counts.by_ends(slot)? {
            0 => counts.beside(inner.size),
            count => count,
        };
        let room = if count > 0 { count } else { counts.least(inner.size) };
        if self.is_array(&inner, value, room, count > 0)? {
            let name = self.names.array(target, 0, None)?;
            return self.claim(at.plain.max(Strength::Array), block, name, pointer, room);
        }
        if self.is_proven(target, value, Proof::Any)? {
            let name = self.names.tail(target)?;
            // malloc could not split off the rest: what it holds is as sure as if the block were smaller
            let is_about = self.memory.fits_about(block, inner.size) && self.is_proven(target, value, Proof::Typed)?;
            return self.claim(if is_about { at.plain } else { Strength::Weak }, block, name, pointer, 0);
        }
        self.field(block, pointer, slot.to)
    }

    /// A `T **`: an array of pointers, where a number beside it counts them, or all of its words are right.
    fn array_of_pointers(&mut self, pointer: &Pointer, target: TypeId, block: u32) -> Result<Claimed> {
        let Pointer { slot, at, .. } = *pointer;
        if let Some(pointed) = self.types.facts(target)?.target {
            let text = self.types.text(Some(pointed))?;
            if slot.member.strip_prefix(&*text).is_some_and(|rest| rest.starts_with('.')) {
                // a list's link back, to whatever has a pointer to this element
                return self.field(block, pointer, Target::Anything);
            }
        }
        let counts = self.counts(pointer, block);
        let word = self.memory.word_size();
        let mut count = counts.by_ends(slot)?;
        if count == 0 {
            count = counts.beside(word);
        }
        if count == 0 {
            count = counts.by_exponent(word);
        }
        let room = if count > 0 { count } else { counts.least(word) };
        let element = self.layouts.of(target)?;
        let right = self.right_pointers(&element, self.memory.start(block), room)?.unwrap_or(0);
        if right > PROOFS || (count > 0 && right > 0) {
            let label = if slot.member.is_empty() {
                self.names.texts.all[at.label as usize].clone()
            } else {
                slot.member.clone()
            };
            let name =
                self.names.array(target, 0, Some(&label).filter(|label| !label.is_empty()).map(|label| &**label))?;
            return self.claim(at.plain.max(Strength::Array), block, name, pointer, room);
        }
        self.field(block, pointer, if right > 0 { slot.to } else { Target::Anything })
    }

    /// Whether the elements beyond the first have pointers that are right, and none has one that is wrong.
    pub fn is_array(&mut self, layout: &FlatType, place: u64, count: u64, counted: bool) -> Result<bool> {
        if layout.is_only_links(self.memory.word_size()) {
            // what has such a link in front has pointers behind it that lead anywhere
            return Ok(self.are_heads(layout, place, count).is_some_and(|linked| counted || linked > PROOFS));
        }
        match self.right_elements(layout, place, count, Proof::Typed)? {
            None => return Ok(false),
            Some(typed) if typed >= PROOFS => return Ok(true),
            _ => (),
        }
        if counted && !layout.leads_on() {
            return Ok(true);
        }
        // a pointer to a larger block proves nothing: what extends T in C links to others that do
        let right = self.right_elements(layout, place, count, Proof::Starts)?.unwrap_or(0);
        if right > PROOFS || (counted && right > 0) {
            return Ok(true);
        }
        // arrays in the elements of an array are larger than one object; a hash table's buckets lead into objects
        if counted && self.right_elements(layout, place, count, Proof::Any)?.unwrap_or(0) > PROOFS {
            return Ok(true);
        }
        Ok(counted && self.right_elements(layout, place, count, Proof::Links)?.is_some_and(|right| right > 0))
    }

    /// How many elements of an array have links, where each of these leads to one that has a link back.
    fn are_heads(&self, layout: &FlatType, place: u64, count: u64) -> Option<u64> {
        let link = |element: u64, slot: &Slot| self.memory.word(element.wrapping_add(slot.offset));
        let mut linked = 0;
        for number in 0..count.min(FEW_ELEMENTS) {
            let element = place.wrapping_add(number.wrapping_mul(layout.size));
            for slot in &layout.slots {
                let to = link(element, slot)?;
                if to != 0 && !layout.slots.iter().any(|back| link(to, back) == Some(element)) {
                    return None;
                }
                linked += u64::from(to != 0 && slot.offset == layout.slots[0].offset);
            }
        }
        Some(linked)
    }

    /// In how many elements beyond the first a pointer is right; None where one is wrong.
    fn right_elements(&mut self, layout: &FlatType, place: u64, count: u64, proof: Proof) -> Result<Option<u64>> {
        let mut right = 0;
        for number in 0..count.min(FEW_ELEMENTS) {
            let begin = place.wrapping_add(number.wrapping_mul(layout.size));
            match self.proofs(layout, begin, proof, 0)? {
                None => return Ok(None),
                Some(some) => {
                    right += u64::from(number > 0 && (some || self.leads_to_another(layout, begin, place, count)))
                }
            }
        }
        Ok(Some(right))
    }

    /// Whether an element of an array has a pointer to another element's start: a pool with a list in it.
    fn leads_to_another(&self, layout: &FlatType, element: u64, place: u64, count: u64) -> bool {
        let own = layout.slots.iter().filter(|slot| slot.target == Some(layout.of));
        let values = own.filter_map(|slot| self.memory.word(element.wrapping_add(slot.offset)));
        let size = layout.size.max(1);
        values
            .filter(|value| *value != element)
            .any(|value| value.checked_sub(place).is_some_and(|within| within % size == 0 && within / size < count))
    }

    /// How many pointers of an array lead to objects of just their type's size; None where one is wrong.
    fn right_pointers(&mut self, element: &FlatType, place: u64, count: u64) -> Result<Option<u64>> {
        let Some(slot) = element.slots.first() else { return Ok(None) };
        let mut words = filled(count.min(PIECE) as usize, 0)?;
        if !self.memory.words(place, &mut words) {
            return Ok(None);
        }
        let mut right = 0;
        let mut found = std::mem::take(&mut self.spare);
        for value in words.into_iter().filter(|value| *value != 0) {
            found.clear();
            if !(self.low <= value && value <= self.high) {
                if self.memory.leads_nowhere(value, false) {
                    return Ok(None);
                }
            } else if slot.to == Target::Object {
                let pointer = Pointer { slot, value, layout: element, place: None, at: &At::proving(Proof::Typed) };
                if self.follow(&pointer, &mut found)? > 0 {
                    return Ok(None);
                }
                right += u64::from(!found.is_empty());
            } else if self.memory.at(value).is_none() {
                return Ok(None);
            } else {
                right += 1;
            }
        }
        self.spare = found;
        Ok(Some(right))
    }

    /// Whether what an object there holds shows that it is of that type.
    pub fn is_proven(&mut self, of: TypeId, place: u64, proof: Proof) -> Result<bool> {
        let layout = self.layouts.of(of)?;
        Ok(self.proofs(&layout, place, proof, 0)? == Some(true))
    }

    /// Whether any word of an object agrees with its type; None where one contradicts it.
    pub fn proofs(&mut self, layout: &FlatType, place: u64, proof: Proof, depth: u32) -> Result<Option<bool>> {
        self.proofs_as(layout, place, &At::proving(proof), depth)
    }

    pub(super) fn proofs_as(&mut self, layout: &FlatType, place: u64, at: &At, depth: u32) -> Result<Option<bool>> {
        let mut found = std::mem::take(&mut self.spare);
        found.clear();
        let bad = self.scan(layout, place, at, depth, &mut found)?;
        let right = !found.is_empty();
        self.spare = found;
        Ok((bad == 0).then_some(right))
    }

    /// Adds what the elements of a T[] at the end of a struct claim, where these are proven.
    pub fn flexible_elements(
        &mut self,
        layout: &FlatType,
        place: u64,
        at: &At,
        found: &mut Vec<Claimed>,
    ) -> Result<()> {
        let (Some((element, offset)), block) = (layout.flexible, at.parent as u32) else { return Ok(()) };
        let element = self.layouts.of(element)?;
        let counts = self.own_counts(layout, place, block);
        let count = counts.flexible()?;
        if !element.leads_on() || element.size == 0 {
            return Ok(());
        }
        let word = self.memory.word_size();
        let room = self.memory.room(block).saturating_sub(offset).saturating_sub(word) / element.size;
        let (begin, room) = (place.wrapping_add(offset), if count > 0 { count } else { room });
        if self.is_array(&element, begin, room, count > 0)? {
            let label = self.names.texts.number(&layout.flexible_label)?;
            self.scan_array(&element, begin, room, &At { label, ..*at }, found)?;
        }
        Ok(())
    }

    // containers

    /// Adds what a container claims; 1 where it did not prove itself.
    fn open(&mut self, each: &Embedded, place: u64, at: &At, depth: u32, found: &mut Vec<Claimed>) -> Result<u64> {
        match &*each.container {
            Container::Body(own) => self.open_body(own, each, place, at, found),
            Container::Nodes(own) => self.open_nodes(own, each, place, at, found),
            own => {
                let (mut bad, memory) = (0, self.memory);
                let mut is_over = false;
                let mut take = |claim: &Claim| {
                    if is_over {
                        return Ok(());
                    }
                    if !claim.inline {
                        self.take_claim(claim, each, at, found)?;
                    } else if depth < DEEPEST {
                        let layout = self.layouts.of(claim.of)?;
                        let at = self.names.inline_element(each, claim, at)?;
                        bad += self.scan(&layout, claim.address, &at, depth + 1, found)?;
                    }
                    is_over = at.proof != Proof::None && !found.is_empty();
                    Ok(())
                };
                if !own.claims(memory, place, &mut take)? {
                    bad += self.damage(each, at)?;
                }
                Ok(bad)
            }
        }
    }

    fn open_body(
        &mut self,
        own: &OfBody,
        each: &Embedded,
        place: u64,
        at: &At,
        found: &mut Vec<Claimed>,
    ) -> Result<u64> {
        let Some(body) = own.body(self.memory, place) else { return self.damage(each, at) };
        let Some(block) = body.block.filter(|_| body.used <= body.room) else { return Ok(0) };
        let elements = body.used.saturating_add(own.after);
        let (mut name, mut step, mut number) = (NONE, 0, at.number);
        if at.proof == Proof::None {
            name = self.names.in_container(each, &own.claim(&body), at.label)?;
            step = self.names.container_step(each, at.prefix, at.number, own.words)?;
            if own.words {
                number = 0;
            }
        }
        push(found, claimed(at.level, block, name, &At { number, ..*at }, step, elements, false))?;
        Ok(0)
    }

    fn open_nodes(
        &mut self,
        own: &OfNodes,
        each: &Embedded,
        place: u64,
        at: &At,
        found: &mut Vec<Claimed>,
    ) -> Result<u64> {
        let mut nodes = std::mem::take(&mut self.nodes);
        let Some(buckets) = own.nodes(self.memory, place, &mut nodes)? else {
            self.nodes = nodes;
            return self.damage(each, at);
        };
        if let Some(first) = nodes.first() {
            let level = own.strength.max(at.level);
            if at.proof == Proof::None {
                let claim = own.claim(self.memory.start(*first), 0);
                let name = self.names.in_container(each, &claim, at.label)?;
                let step = self.names.container_step(each, at.prefix, at.number, true)?;
                found.try_reserve(nodes.len())?;
                let at = |number| At { number, ..*at };
                let claims =
                    (0..).zip(&nodes).map(|(number, node)| claimed(level, *node, name, &at(number), step, 0, false));
                found.extend(claims);
            } else {
                push(found, claimed(level, *first, NONE, at, 0, 0, false))?;
            }
        }
        nodes.clear();
        self.nodes = nodes;
        if let Some(claim) = own.claim_buckets(buckets) {
            self.take_claim(&claim, each, at, found)?;
        }
        Ok(0)
    }

    fn damage(&mut self, each: &Embedded, at: &At) -> Result<u64> {
        // a local may not be set yet
        if at.proof == Proof::None && !at.may_be_unset {
            *entry(&mut self.damaged, each.name.clone())? += 1;
        }
        Ok(1)
    }

    fn take_claim(&mut self, claim: &Claim, each: &Embedded, at: &At, found: &mut Vec<Claimed>) -> Result<()> {
        let (memory, proves) = (self.memory, at.proof != Proof::None);
        let level = claim.strength.max(at.level);
        let facts = self.types.facts(claim.of)?;
        let (mut block, mut object) = (memory.at(claim.address), None);
        if claim.elements.is_none() && facts.polymorphic {
            let layout = self.layouts.of(claim.of)?;
            if let Some((class, begins)) = self.vtables.dynamic(memory, claim.address, &layout)? {
                (block, object) = (Some(begins), Some(class.of));
            }
        }
        let Some(block) = block.filter(|_| facts.size > 0) else { return Ok(()) };
        let elements = claim.elements.unwrap_or(0);
        let capacity = if claim.elements.is_none() { 1 } else { claim.capacity.unwrap_or(elements) };
        let size = capacity.saturating_mul(facts.size).saturating_add(claim.front);
        let is_it = object.is_some() || (elements <= capacity && memory.fits_about(block, size));
        if !is_it {
            let may_be = claim.elements.is_none() && !proves && memory.room(block) >= size;
            if !may_be || !self.is_proven(claim.of, claim.address.wrapping_add(claim.front), Proof::Typed)? {
                return Ok(());
            }
        }
        let (mut name, mut step, mut number) = (NONE, 0, at.number);
        if !proves {
            name = match object {
                Some(of) => self.names.object(of)?,
                None if is_it => self.names.in_container(each, claim, at.label)?,
                None => self.names.tail(claim.of)?,
            };
            step = self.names.claim_step(each, at.prefix, at.number, claim.step, claim.number.is_some())?;
            if let Some(own) = claim.number {
                number = own.min(u64::from(UNNUMBERED) - 1) as u32;
            }
        }
        let level = if is_it { level } else { Strength::Weak };
        push(found, claimed(level, block, name, &At { number, ..*at }, step, elements, !is_it))
    }

    // unions

    /// Names what a union's member leads to, only where one alternative alone fits: pointers to characters and to
    /// anything fit always, so that the others have to be proven by what is there.
    fn choose(
        &mut self,
        union: &Alternatives,
        place: u64,
        at: &At,
        depth: u32,
        found: &mut Vec<Claimed>,
    ) -> Result<()> {
        let memory = self.memory;
        let proves = at.proof != Proof::None;
        // by block the members that may lead there
        let mut fits: Vec<(u32, Pointer, Fit)> = Vec::new();
        for layout in &union.layouts {
            if layout.parts() > layout.slots.len() {
                return Ok(());
            }
            for slot in &layout.slots {
                let value = memory.word(place.wrapping_add(slot.offset)).unwrap_or(0);
                if value == 0 {
                    continue;
                }
                let pointer = Pointer { slot, value, layout, place: Some(place), at };
                if slot.is_ruled && !proves && self.by_rules(&pointer, found)? {
                    return Ok(());
                }
                let mut block = memory.at(value);
                if block.is_none() && slot.fits_all() && !proves {
                    block = memory.behind_header(value);
                }
                let Some(block) = block else { continue };
                if let Some(fit) = self.fit(&pointer, block, depth)? {
                    if !fits.iter().any(|(other, known, _)| *other == block && known.slot.target == slot.target) {
                        push(&mut fits, (block, pointer, fit))?;
                    }
                }
            }
        }
        for first in 0..fits.len() {
            let (block, pointer, fit) = fits[first];
            if fits[..first].iter().any(|(other, ..)| *other == block) {
                continue;
            }
            let of_block = || fits[first..].iter().filter(|(other, ..)| *other == block);
            let mut proven = of_block().filter(|(.., fit)| *fit == Fit::Proven);
            let only = proven.next().filter(|_| proven.next().is_none());
            let is_unsure = only.is_none() && (of_block().count() > 1 || fit == Fit::TooLarge);
            let pointer = only.map_or(&pointer, |(_, pointer, _)| pointer);
            let slot = pointer.slot;
            if proves || is_unsure {
                if at.proof == Proof::Any || (at.proof == Proof::Starts && fit != Fit::TooLarge) {
                    push(found, self.field(block, pointer, slot.to)?)?;
                }
                continue;
            }
            let claimed = match (slot.to, slot.target) {
                (Target::Object, Some(target)) => {
                    let name = self.names.one_of_a_union(target)?;
                    self.claim(Strength::Weak, block, name, pointer, 0)?
                }
                _ => self.field(block, pointer, slot.to)?,
            };
            push(found, claimed)?;
        }
        Ok(())
    }

    /// Whether what a union's member leads to can be what it says; None: it cannot.
    fn fit(&mut self, pointer: &Pointer, block: u32, depth: u32) -> Result<Option<Fit>> {
        let Pointer { slot, value, .. } = *pointer;
        let (Target::Object, Some(target)) = (slot.to, slot.target) else { return Ok(Some(Fit::Possible)) };
        let layout = self.layouts.of(target)?;
        let size = self.types.facts(target)?.size;
        if self.memory.room(block) < size || self.fits_left == 0 {
            return Ok(None);
        }
        self.fits_left -= 1;
        let right = self.proofs(&layout, value, Proof::Any, depth + 1)?;
        Ok(right.map(|right| match right {
            _ if !self.memory.fits(block, size) => Fit::TooLarge,
            true => Fit::Proven,
            false => Fit::Possible,
        }))
    }
}

#[inline]
fn claimed(level: Strength, block: u32, name: u32, at: &At, step: u16, elements: u64, plain: bool) -> Claimed {
    let elements = elements.min(u64::from(UNNUMBERED)) as u32;
    Claimed { block, name, elements, parent: at.parent, number: at.number, step, level, plain }
}
