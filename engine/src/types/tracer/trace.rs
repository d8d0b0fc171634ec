//! Follows the pointers of typed variables from block to block, the strongest claims first.
//!
//! A claim leads to none that is stronger than itself. So the first that is taken for a block is the strongest there
//! is, and none has to be taken back, but where two equally strong ones contradict each other: then neither counts, and
//! all is followed once more without that block. What keeps wrong names away:
//!
//! - A pointer leads to a block's start, and the chunk is what malloc gives for just that size.
//! - A `T *` to a larger block is no array of T: C structs begin with the struct they extend. Elements beyond the first
//!   have to have pointers that are right, or a number beside the pointer has to count them.
//! - Where a word that should be a pointer leads nowhere, the block is not of that type.
//! - A polymorphic object's vtable tells its type and its start.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use super::claims::Strength;
use super::containers::forms::places;
use super::layouts::{FlatType, Layouts, TypeTable, Vtables};
use super::lists::Enclosing;
use super::lost;
use super::memory::Memory;
use super::names::{At, BlockName, Claimed, NameForm, Proof, CONTESTED, NOBODY, NONE, NO_LEVEL};
use super::objects::{Interior, Objects, Pointer};
use super::rules::Rules;
use crate::contents;
use crate::failure::{filled, include, insert, kept_at, push, Control, Failure, Result};
use crate::image::Span;
use crate::types::facts::{Language, TypeId};

/// Pointers into blocks that are worth asking for all structs of a program.
const FEW_INTERIOR: usize = 2;
/// So often all is followed without blocks that were contested.
const ROUNDS: u32 = 3;
/// Claims that are looked at together.
const AT_ONCE: usize = 1 << 13;
/// So many claims of others wait at most until those that are looked at together are done.
const MOST_WAITING: usize = 1 << 16;
/// So far the way to a block is looked at for contested ones.
const CHAIN: usize = 256;
const LEVELS: usize = Strength::Field as usize + 1;
/// Those that make certain what a block is.
const CERTAIN: usize = Strength::Rule as usize + 1;

/// A variable from which types are followed.
#[derive(Clone, Debug)]
pub struct Start {
    /// "cache::table", "main(): book".
    pub label: Rc<str>,
    pub of: TypeId,
    pub place: Option<u64>,
    /// A pointer that is in a register.
    pub value: Option<u64>,
    /// Of a local: which frame of its thread has it, 0 the innermost.
    pub frame: Option<u32>,
    /// Of one that was optimised out: where its function goes on, and the words that may be it.
    pub code: u64,
    pub words: Vec<u64>,
}

impl Start {
    pub fn new(label: &str, of: TypeId) -> Start {
        Start { label: label.into(), of, place: None, value: None, frame: None, code: 0, words: Vec::new() }
    }
}

/// Of each live block, by its number: its name, how strong the claim is, and the way to it.
#[derive(Default)]
pub struct Named {
    pub name: Vec<u32>,
    pub level: Vec<u8>,
    /// Another block, or of a variable -1 - its number among the starts.
    pub parent: Vec<i32>,
    /// The way from the parent; "[]" in it stands for the block's `number`, and so does "[#]" at its end.
    pub step: Vec<u16>,
    pub number: Vec<u32>,
    /// Of an array: how many are in use.
    pub elements: Vec<u32>,
    /// Structs to which no pointer leads, but to a member further on (container_of); in order.
    pub enclosing: Vec<u32>,
}

impl Named {
    fn new(count: usize) -> Result<Named> {
        Ok(Named {
            name: filled(count, NONE)?,
            level: filled(count, NO_LEVEL)?,
            parent: filled(count, 0)?,
            step: filled(count, 0)?,
            number: filled(count, 0)?,
            elements: filled(count, 0)?,
            enclosing: Vec::new(),
        })
    }

    #[inline]
    fn put(&mut self, claimed: &Claimed) {
        let block = claimed.block as usize;
        self.name[block] = claimed.name;
        self.level[block] = claimed.level as u8;
        self.parent[block] = claimed.parent;
        self.step[block] = claimed.step;
        self.number[block] = claimed.number;
        self.elements[block] = claimed.elements;
    }

    /// Of each of so many names, how many blocks it is sure of.
    pub fn sure(&self, names: usize) -> Result<Vec<u64>> {
        let mut counts = filled(names, 0)?;
        for (name, level) in self.name.iter().zip(&self.level) {
            if *level <= Strength::Rule as u8 {
                if let Some(count) = counts.get_mut(*name as usize) {
                    *count += 1;
                }
            }
        }
        Ok(counts)
    }

    fn forget(&mut self, block: u32) {
        let block = block as usize;
        (self.name[block], self.level[block], self.parent[block]) = (NONE, NO_LEVEL, NOBODY);
    }
}

/// Claims that wait, in order.
#[derive(Default)]
struct Queue {
    parts: VecDeque<Vec<Claimed>>,
}

impl Queue {
    fn push(&mut self, claimed: Claimed) -> Result<()> {
        // a vector that grew would need as much memory once more
        match self.parts.back_mut() {
            Some(part) if part.len() < AT_ONCE => push(part, claimed),
            _ => {
                self.parts.try_reserve(1)?;
                let mut part = Vec::new();
                push(&mut part, claimed)?;
                self.parts.push_back(part);
                Ok(())
            }
        }
    }
}

/// What is looked at in blocks of one name.
struct Look {
    layout: Rc<FlatType>,
    label: u32,
    front: u64,
    is_array: bool,
}

/// Names the live blocks of one image.
pub struct Tracer<'a> {
    pub objects: Objects<'a>,
    pub named: Named,
    memory: &'a Memory<'a>,
    layouts: Rc<Layouts>,
    types: Rc<TypeTable>,
    control: &'a Control,
    modules: &'a [Span],
    left: Vec<Queue>,
    /// Blocks that were contested in a round before.
    banned: HashSet<u32>,
    /// Blocks, and names that are wrong of them.
    refused: HashSet<(u32, u32)>,
    /// What blocks that are looked into were called by a member.
    before: HashMap<u32, Claimed>,
    enclosing: Option<Enclosing>,
    /// By names.
    looks: Vec<Option<Option<Rc<Look>>>>,
    found: Vec<Claimed>,
    /// Bytes of a block, on average.
    mean: u64,
}

impl<'a> Tracer<'a> {
    /// `modules`: where vtables may lie, in order.
    pub fn new(
        memory: &'a Memory<'a>,
        layouts: Rc<Layouts>,
        modules: &'a [Span],
        rules: Rc<Rules>,
        control: &'a Control,
    ) -> Result<Tracer<'a>> {
        let types = layouts.types.clone();
        let vtables = Vtables::new(types.clone(), modules.to_vec());
        Ok(Tracer {
            objects: Objects::new(memory, layouts.clone(), vtables, rules, control)?,
            named: Named::default(),
            memory,
            layouts,
            types,
            control,
            modules,
            left: Vec::new(),
            banned: HashSet::new(),
            refused: HashSet::new(),
            before: HashMap::new(),
            enclosing: None,
            looks: Vec::new(),
            found: Vec::new(),
            mean: memory.blocks.sizes.iter().sum::<u64>() / memory.blocks.len().max(1) as u64,
        })
    }

    pub fn trace(&mut self, starts: &[Start]) -> Result<()> {
        for _ in 0..ROUNDS {
            self.round(starts)?;
            let named = &self.named;
            let is_contested = |block: i32| block >= 0 && named.name[block as usize] == CONTESTED;
            let (mut any, mut again) = (false, false);
            for (block, name) in named.name.iter().enumerate() {
                any |= *name == CONTESTED;
                again |= *name != NONE && is_contested(named.parent[block]);
            }
            if !any {
                break;
            }
            let contested = (0..).zip(&named.name).filter(|(_, name)| **name == CONTESTED).map(|(block, _)| block);
            self.banned.extend(contested);
            if !again {
                break;
            }
        }
        self.named.enclosing = std::mem::take(&mut self.objects.enclosing);
        self.named.enclosing.sort_unstable();
        self.named.enclosing.dedup();
        self.drop_what_was_contested()?;
        self.doubt_what_may_be_more()?;
        if self.name_by_others()? {
            self.settle(LEVELS)?;
            self.drop_what_was_contested()?;
        }
        self.tell_contents()
    }

    fn round(&mut self, starts: &[Start]) -> Result<()> {
        let (begun, hiding) = self.claimed_by_vtables()?;
        let has_names = !starts.is_empty() || !begun.is_empty() || !hiding.is_empty();
        self.named = Named::new(if has_names { self.memory.blocks.len() } else { 0 })?;
        self.objects.begin_again();
        self.refused.clear();
        self.left.clear();
        self.left.resize_with(LEVELS, Queue::default);
        for (number, start) in starts.iter().enumerate() {
            self.begin(number, start)?;
        }
        for claimed in begun {
            self.left[Strength::Vtable as usize].push(claimed)?;
        }
        self.settle(CERTAIN)?;
        self.drain(LEVELS)?;
        let claims = lost::claims(&mut self.objects, &self.named, starts)?;
        self.push(&claims)?;
        self.drain(LEVELS)?;
        // what no container has told
        let told = self.told_by_containers()?;
        for claimed in hiding {
            if self.named.level[claimed.block as usize] > Strength::Rule as u8 {
                let BlockName { text, of, .. } = &self.objects.names.names[claimed.name as usize];
                let same = told.get(text).copied().flatten();
                let name = match (same, *of) {
                    (Some(same), Some(of)) if self.has_object(of, claimed.block)? => same,
                    _ => claimed.name,
                };
                self.left[Strength::Vtable as usize].push(Claimed { name, ..claimed })?;
            }
        }
        self.settle(LEVELS)?;
        if self.name_by_words()? {
            self.settle(LEVELS)?;
        }
        Ok(())
    }

    /// Takes the claims of the first so many levels, and names what they lead into, until there is no more.
    fn settle(&mut self, levels: usize) -> Result<()> {
        self.drain(levels)?;
        while self.name_by_members()? {
            self.drain(levels)?;
        }
        Ok(())
    }

    /// Takes the claims of the first so many levels.
    fn drain(&mut self, levels: usize) -> Result<()> {
        let mean = self.mean;
        for level in 0..levels {
            // nothing that is found from here is stronger
            while let Some(some) = self.left[level].parts.pop_front() {
                self.take_many(&some)?;
                self.control.advance(mean.saturating_mul(some.len() as u64))?;
            }
        }
        Ok(())
    }

    /// Blocks that have no type, and into which pointers to a member lead; whether any got one. Those to which one
    /// holder leads are decided together: a list's, a hash table's.
    fn name_by_members(&mut self) -> Result<bool> {
        let asked = self.objects.take_interior();
        // to ask for all structs takes long, of C++ above all, where containers have the links
        if self.enclosing.is_none() && asked.len() < FEW_INTERIOR {
            return Ok(false);
        }
        let mut groups: Vec<Vec<Interior>> = Vec::new();
        let mut numbers = HashMap::new();
        for each in asked {
            let block = each.claimed.block as usize;
            if self.named.name[block] == CONTESTED || self.types.facts(each.of)?.language == Language::CPlusPlus {
                continue;
            }
            let key = (each.claimed.parent, each.of, each.offset, self.memory.size(each.claimed.block));
            numbers.try_reserve(1)?;
            let number = *numbers.entry(key).or_insert(groups.len());
            if number == groups.len() {
                push(&mut groups, Vec::new())?;
            }
            push(&mut groups[number], each)?;
        }
        let mut again = false;
        for group in groups {
            if group.iter().any(|each| self.named.level[each.claimed.block as usize] >= Strength::Field as u8) {
                again |= self.decide(&group)?;
            }
        }
        Ok(again)
    }

    /// Names blocks that have the same member at the same place.
    fn decide(&mut self, group: &[Interior]) -> Result<bool> {
        let first = group[0];
        if self.enclosing.is_none() {
            self.enclosing = Some(Enclosing::new(&self.types)?);
        }
        let Some(enclosing) = &self.enclosing else { return Ok(false) };
        let mut blocks = Vec::new();
        for each in group {
            push(&mut blocks, each.claimed.block)?;
        }
        let found =
            self.objects.decide(enclosing, first.of, first.offset, &blocks, first.claimed.parent, &self.named)?;
        let Some(found) = found else { return Ok(false) };
        let name = self.objects.names.object(found.of)?;
        let mut again = false;
        for each in group {
            let block = each.claimed.block;
            if self.named.level[block as usize] < Strength::Field as u8 {
                continue;
            }
            if !found.is_sure && !self.objects.is_proven(found.of, self.memory.start(block), Proof::Any)? {
                continue;
            }
            let level = each.claimed.level.max(if found.is_sure { Strength::Listed } else { Strength::Weak });
            (self.named.level[block as usize], self.named.name[block as usize]) = (NO_LEVEL, NONE);
            self.left[level as usize].push(Claimed { name, level, ..each.claimed })?;
            if found.is_sure {
                self.objects.note_listed(block);
            }
            push(&mut self.objects.enclosing, block)?;
            again = true;
        }
        let parent = usize::try_from(first.claimed.parent).ok().map(|parent| self.named.name[parent] as usize);
        let parent = parent.and_then(|name| self.objects.names.names.get(name));
        if found.is_sure && parent.is_some_and(|name| name.form == NameForm::Object && name.of == Some(found.of)) {
            self.objects.lists.insert(found.of);
        }
        Ok(again)
    }

    // starts

    fn begin(&mut self, number: usize, start: &Start) -> Result<()> {
        let plain = if start.frame.is_none() { Strength::Exact } else { Strength::Local };
        let at = At {
            parent: -1 - number as i32,
            plain,
            label: self.objects.names.texts.number(&start.label)?,
            may_be_unset: plain == Strength::Local,
            ..At::proving(Proof::None)
        };
        let layout = self.layouts.of(start.of)?;
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        if let Some(place) = start.place {
            self.objects.scan(&layout, place, &at, 0, &mut found)?;
        } else if let (Some(value), Some(slot)) = (start.value, lost::pointer_of(&self.layouts, &layout)) {
            let pointer = Pointer { slot: &slot, value, layout: &layout, place: None, at: &at };
            self.objects.follow(&pointer, &mut found)?;
        }
        self.push(&found)?;
        self.found = found;
        Ok(())
    }

    /// Blocks that begin with the vtable of a class, whether anything leads to them or not. The second ones wait, since
    /// a container that leads there knows which object is in it.
    fn claimed_by_vtables(&mut self) -> Result<(Vec<Claimed>, Vec<Claimed>)> {
        let (mut begun, mut hiding) = (Vec::new(), Vec::new());
        let (image, blocks) = (self.memory.image(), self.memory.blocks);
        for each in contents::beginning_with(image, blocks, self.modules, 1, self.control)? {
            let Some(class) = self.objects.vtables.class_of(self.memory, each.first, None)? else { continue };
            if class.top == 0 && self.memory.fits_about(each.block, class.size) {
                let name = self.objects.names.object(class.of)?;
                let claimed = Claimed::of(each.block, name);
                push(if class.hides_object { &mut hiding } else { &mut begun }, claimed)?;
            }
        }
        Ok((begun, hiding))
    }

    /// Whether somebody still owns the object in libstdc++'s control block.
    fn has_object(&self, of: TypeId, block: u32) -> Result<bool> {
        let Some([owners]) = places(&self.types, of, "", "_M_use_count")? else { return Ok(false) };
        let owners = self.memory.number(self.memory.start(block).wrapping_add(owners), 4);
        Ok(owners.is_some_and(|owners| owners > 0))
    }

    /// By text the names of what containers made up; None: of several.
    fn told_by_containers(&self) -> Result<HashMap<Rc<str>, Option<u32>>> {
        let mut found: HashMap<Rc<str>, Option<u32>> = HashMap::new();
        for (number, name) in (0..).zip(&self.objects.names.names) {
            if name.form == NameForm::Object && name.of.is_some_and(|of| of < 0) {
                found.try_reserve(1)?;
                found.entry(name.text.clone()).and_modify(|known| *known = None).or_insert(Some(number));
            }
        }
        Ok(found)
    }

    fn push(&mut self, claims: &[Claimed]) -> Result<()> {
        let named = &mut self.named;
        for claimed in claims {
            let block = claimed.block as usize;
            let before = named.level[block];
            if claimed.level == Strength::Field {
                // whatever names a type takes its place
                if before == NO_LEVEL && !self.banned.contains(&claimed.block) {
                    named.put(claimed);
                }
            // what is told already, most often by the link back
            } else if before > claimed.level as u8
                || (before == claimed.level as u8 && named.name[block] != claimed.name)
            {
                self.left[claimed.level as usize].push(*claimed)?;
            }
        }
        Ok(())
    }

    // claims

    /// Of one level, in their order. What the blocks hold is looked at together.
    fn take_many(&mut self, claims: &[Claimed]) -> Result<()> {
        let mut waiting = Vec::new();
        waiting.try_reserve(claims.len())?;
        for claimed in claims {
            let block = claimed.block as usize;
            let before = self.named.level[block];
            if before < Strength::Field as u8 {
                if before == claimed.level as u8 && self.named.name[block] != claimed.name {
                    // unless what it holds shows that it is not what was said first
                    self.look_into(&waiting)?;
                    waiting.clear();
                    self.take(claimed)?;
                }
            } else if !self.banned.contains(&claimed.block) && !self.is_refused(claimed) {
                if before == Strength::Field as u8 {
                    let before = self.as_it_is(claimed.block);
                    insert(&mut self.before, claimed.block, before)?;
                }
                self.named.put(claimed);
                waiting.push(*claimed);
            }
        }
        self.look_into(&waiting)
    }

    fn is_refused(&self, claimed: &Claimed) -> bool {
        !self.refused.is_empty() && self.refused.contains(&(claimed.block, claimed.name))
    }

    fn take(&mut self, claimed: &Claimed) -> Result<()> {
        if self.named.level[claimed.block as usize] >= Strength::Field as u8 {
            return self.take_many(std::slice::from_ref(claimed));
        }
        if !self.banned.contains(&claimed.block) && !self.is_refused(claimed) {
            return self.contest(claimed);
        }
        Ok(())
    }

    pub(super) fn claim_later(&mut self, claimed: Claimed) -> Result<()> {
        self.left[claimed.level as usize].push(claimed)
    }

    pub(super) fn as_it_is(&self, block: u32) -> Claimed {
        let (named, at) = (&self.named, block as usize);
        Claimed {
            block,
            name: named.name[at],
            elements: named.elements[at],
            parent: named.parent[at],
            number: named.number[at],
            step: named.step[at],
            level: Strength::Field,
            plain: true,
        }
    }

    /// Follows what blocks hold. Where that shows that one is something else, it has the name that it had before.
    fn look_into(&mut self, claims: &[Claimed]) -> Result<()> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        for claimed in claims {
            let from = found.len();
            let Some(look) = self.look(claimed.name)? else { continue };
            let bad = self.look_at(claimed, &look, &mut found)?;
            if claimed.level == Strength::Alike {
                found[from..].iter_mut().for_each(|each| each.level = each.level.max(Strength::Alike));
            }
            let is_wrong = || bad > found[from..].iter().filter(|each| each.level <= Strength::Listed).count() as u64;
            if claimed.plain && bad > 0 && is_wrong() {
                found.truncate(from);
                self.named.forget(claimed.block);
                if let Some(before) = self.before.get(&claimed.block) {
                    self.named.put(before);
                }
                include(&mut self.refused, (claimed.block, claimed.name))?;
            }
            if found.len() > MOST_WAITING {
                self.push(&found)?;
                found.clear();
            }
        }
        self.before.clear();
        self.push(&found)?;
        self.found = found;
        Ok(())
    }

    fn look_at(&mut self, claimed: &Claimed, look: &Look, found: &mut Vec<Claimed>) -> Result<u64> {
        let at = At {
            parent: claimed.block as i32,
            level: claimed.level,
            plain: claimed.level.max(Strength::Exact),
            label: look.label,
            ..At::proving(Proof::None)
        };
        let place = self.memory.start(claimed.block).wrapping_add(look.front);
        if look.is_array {
            return self.objects.scan_array(&look.layout, place, u64::from(claimed.elements), &at, found);
        }
        if let Some([owners, _]) = look.layout.counts {
            // where nobody holds the value it is destroyed, and only its memory is there
            if self.memory.word(place.wrapping_add(owners)) == Some(0) {
                return Ok(0);
            }
        }
        let bad = self.objects.scan(&look.layout, place, &at, 0, found)?;
        self.objects.flexible_elements(&look.layout, place, &at, found)?;
        Ok(bad)
    }

    /// The step by which a block of a name leads to another; "" where its words do not claim the other.
    pub(super) fn step_between(
        &mut self,
        name: Option<&BlockName>,
        elements: u32,
        block: u32,
        to: u32,
    ) -> Result<Rc<str>> {
        let mut found = Vec::new();
        if let Some((name, of)) = name.filter(|name| name.words).and_then(|name| Some((name, name.of?))) {
            if block as usize >= self.memory.blocks.len() {
                return Err(Failure::BadInput);
            }
            let is_array = name.form == NameForm::Array;
            let look = Look { layout: self.layouts.of(of)?, label: 0, front: name.front, is_array };
            let claimed = Claimed { elements, level: Strength::Exact, ..Claimed::of(block, NONE) };
            self.look_at(&claimed, &look, &mut found)?;
        }
        let step = found.iter().find(|claimed| claimed.block == to).map_or(0, |claimed| claimed.step);
        Ok(self.objects.names.steps.all[step as usize].clone())
    }

    /// None: blocks of that name lead nowhere.
    fn look(&mut self, name: u32) -> Result<Option<Rc<Look>>> {
        let names = &mut self.objects.names;
        let at = name as usize;
        if at >= self.looks.len() {
            self.looks.try_reserve(names.names.len() - self.looks.len())?;
            self.looks.resize_with(names.names.len(), || None);
        }
        kept_at(&mut self.looks, at, || {
            let BlockName { of, front, words, form, label, .. } = names.names[at].clone();
            let Some(of) = of.filter(|_| words) else { return Ok(None) };
            let layout = self.layouts.of(of)?;
            if !layout.leads_on() {
                return Ok(None);
            }
            let label = names.texts.number(&label)?;
            Ok(Some(Rc::new(Look { layout, label, front, is_array: form == NameForm::Array })))
        })
    }

    /// Another name for a block that has one by as strong a claim.
    fn contest(&mut self, claimed: &Claimed) -> Result<()> {
        let block = claimed.block as usize;
        if self.named.name[block] == CONTESTED || self.is_tainted(claimed.parent) {
            return Ok(());
        }
        let names = &self.objects.names.names;
        let (before, now) = (&names[self.named.name[block] as usize], &names[claimed.name as usize]);
        if before.text == now.text {
            return Ok(());
        }
        if self.is_tainted(self.named.parent[block]) {
            self.named.put(claimed);
            return self.look_into(std::slice::from_ref(claimed));
        }
        if let (Some(first), Some(second)) = (before.of, now.of) {
            if before.form != NameForm::Union && now.form != NameForm::Union {
                // the way to it stays: what leads here now may have been reached from it
                let kept = Claimed { parent: self.named.parent[block], plain: false, ..*claimed };
                if self.types.begins_with(first, second) {
                    // a pointer to the base or first member; or the array of which it is to the first
                    if first != second || before.form == NameForm::Array {
                        return Ok(());
                    }
                } else if self.types.begins_with(second, first) {
                    return self.rename(&kept);
                }
                if first == second && now.form == NameForm::Array {
                    return self.rename(&kept);
                }
            }
        }
        self.named.name[block] = CONTESTED;
        Ok(())
    }

    fn rename(&mut self, claimed: &Claimed) -> Result<()> {
        let block = claimed.block as usize;
        (self.named.name[block], self.named.elements[block]) = (claimed.name, claimed.elements);
        self.look_into(std::slice::from_ref(claimed))
    }

    /// Whether the way there leads through a block that is contested.
    fn is_tainted(&self, mut block: i32) -> bool {
        for _ in 0..CHAIN {
            if block < 0 {
                return false;
            }
            if self.named.name[block as usize] == CONTESTED {
                return true;
            }
            block = self.named.parent[block as usize];
        }
        false
    }

    /// And what is known only by that.
    fn drop_what_was_contested(&mut self) -> Result<()> {
        const UNKNOWN: u8 = 0;
        const FINE: u8 = 1;
        const WRONG: u8 = 2;
        if !self.named.name.contains(&CONTESTED) {
            return Ok(());
        }
        let named = &mut self.named;
        let mut known = filled(named.name.len(), UNKNOWN)?;
        for (known, name) in known.iter_mut().zip(&named.name) {
            if *name == CONTESTED {
                *known = WRONG;
            }
        }
        let mut way = Vec::new();
        for block in 0..known.len() {
            let mut at = block as i32;
            while at >= 0 && known[at as usize] == UNKNOWN && named.name[at as usize] != NONE {
                push(&mut way, at as usize)?;
                known[at as usize] = FINE;
                at = named.parent[at as usize];
            }
            let is_wrong = at >= 0 && known[at as usize] == WRONG;
            for each in way.drain(..) {
                known[each] = if is_wrong { WRONG } else { FINE };
            }
        }
        for (block, _) in (0..).zip(&known).filter(|(_, known)| **known == WRONG) {
            named.forget(block);
        }
        Ok(())
    }

    /// A struct that another one begins with, where a block of either is as large: a pointer to the first does not tell
    /// which it is.
    fn doubt_what_may_be_more(&mut self) -> Result<()> {
        let names = &mut self.objects.names;
        let mut doubtful: Vec<Option<Option<u32>>> = filled(names.names.len(), None)?;
        let levels = [Strength::Exact, Strength::Array, Strength::Local, Strength::Rule].map(|level| level as u8);
        for block in 0..self.named.name.len() {
            let name = self.named.name[block] as usize;
            if name >= doubtful.len() || !levels.contains(&self.named.level[block]) {
                continue;
            }
            let tail = kept_at(&mut doubtful, name, || {
                let (form, of) = (names.names[name].form, names.names[name].of);
                let Some(of) = of.filter(|_| form == NameForm::Object) else { return Ok(None) };
                let layout = self.layouts.of(of)?;
                let most = self.memory.malloc.chunk_for(layout.size) - self.memory.word_size();
                let is_doubtful = !layout.polymorphic && !self.types.enclosing(of, most)?.is_empty();
                if is_doubtful {
                    names.tail(of).map(Some)
                } else {
                    Ok(None)
                }
            })?;
            if let Some(tail) = tail {
                (self.named.name[block], self.named.level[block]) = (tail, Strength::Weak as u8);
            }
        }
        Ok(())
    }

    /// Whether it is certain what a block is.
    pub fn is_certain(&self, block: u32) -> bool {
        let name = self.objects.names.names.get(self.named.name[block as usize] as usize);
        let is_sure = self.named.level[block as usize] <= Strength::Rule as u8;
        is_sure && name.is_some_and(|name| matches!(name.form, NameForm::Object | NameForm::Array))
    }

    /// How many blocks each line of the rules says something wrong of. Where a list begins is a member, too, but of
    /// none of the objects that are in it: what is sure to be something else is no contradiction.
    pub fn contradicted(&self) -> Result<Vec<u64>> {
        let mut counts = filled(self.objects.against.len(), 0)?;
        for (count, (blocks, is_inside)) in
            counts.iter_mut().zip(self.objects.against.iter().zip(&self.objects.rules.lines))
        {
            *count = blocks.iter().filter(|block| !is_inside || !self.is_certain(**block)).count() as u64;
        }
        Ok(counts)
    }
}
