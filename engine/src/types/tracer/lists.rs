//! Structs to which no pointer leads, but to a member further on (container_of): what intrusive lists and hash tables
//! have in C.
//!
//! A list is decided as a whole: of the structs that have such a member at that place, the one that agrees with what
//! all the blocks hold. From there each link leads from a struct to one of the same type.

use std::collections::{HashMap, HashSet};

use super::claims::Strength;
use super::layouts::{FlatType, Slot, Target, TypeTable};
use super::memory::Memory;
use super::names::{At, Claimed, Proof};
use super::objects::{Objects, Pointer};
use super::trace::Named;
use crate::failure::{entry, push, Result};
use crate::types::facts::{Form, Language, TypeId};

const DEEPEST: u32 = 8;
const MOST_MEMBERS: u32 = 1 << 20;
/// So many blocks of a list are looked at.
const WALK: usize = 256;
/// So many of these at least have to agree with a type; and with so many times as many as with the next one.
const AGREE: u32 = 2;

pub struct Enclosing {
    /// By the type of a member that is a struct, and where it lies.
    by_member: HashMap<(TypeId, u64), Vec<TypeId>>,
    left: u32,
}

impl Enclosing {
    /// Asks for all structs of a program.
    pub fn new(types: &TypeTable) -> Result<Enclosing> {
        let mut made = Enclosing { by_member: HashMap::new(), left: MOST_MEMBERS };
        for (each, _) in types.source().structs(false)? {
            made.add(types, each, each, 0, 0)?;
            if made.left == 0 {
                // what is not seen might fit as well
                made.by_member.clear();
                break;
            }
        }
        Ok(made)
    }

    fn add(&mut self, types: &TypeTable, whole: TypeId, of: TypeId, offset: u64, depth: u32) -> Result<()> {
        if depth >= DEEPEST {
            return Ok(());
        }
        for field in &types.facts(of)?.fields {
            if self.left > 0 && types.facts(field.of)?.form == Form::Struct {
                self.left -= 1;
                let place = offset.saturating_add(field.offset);
                let known = entry(&mut self.by_member, (field.of, place))?;
                if known.last() != Some(&whole) {
                    push(known, whole)?;
                }
                self.add(types, whole, field.of, place, depth + 1)?;
            }
        }
        Ok(())
    }

    /// The types that have such a member there, and for which malloc gives such a block.
    fn fitting(
        &self,
        types: &TypeTable,
        member: TypeId,
        offset: u64,
        block: u32,
        memory: &Memory,
    ) -> Result<Vec<TypeId>> {
        let mut found = Vec::new();
        for each in self.by_member.get(&(member, offset)).into_iter().flatten() {
            if memory.fits(block, types.facts(*each)?.size) {
                push(&mut found, *each)?;
            }
        }
        Ok(found)
    }
}

/// What the blocks of a list are, and whether that is certain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub of: TypeId,
    pub is_sure: bool,
}

impl Objects<'_> {
    /// Decides of what type the blocks are, to a member of which, at the same place in each, a holder's pointers
    /// lead.
    pub fn decide(
        &mut self,
        enclosing: &Enclosing,
        member: TypeId,
        offset: u64,
        blocks: &[u32],
        holder: i32,
        named: &Named,
    ) -> Result<Option<Decision>> {
        let Some(first) = blocks.first() else { return Ok(None) };
        let fitting = enclosing.fitting(&self.types, member, offset, *first, self.memory)?;
        if fitting.is_empty() {
            return Ok(None);
        }
        let inner = self.layouts.of(member)?;
        let some = self.walk(&inner, offset, blocks)?;
        let mut agreeing = Vec::new();
        for of in fitting {
            if let Some((agree, doubts)) = self.agree(of, offset, inner.size, &some)? {
                push(&mut agreeing, (agree, of, doubts))?;
            }
        }
        let least = agreeing.iter().map(|(.., doubts)| *doubts).min();
        agreeing.retain(|(.., doubts)| Some(*doubts) == least || *doubts < AGREE);
        // where they agree as well as each other it is the one that others of the list are
        // the one that leads there may have the list's head in it
        let others = || some.iter().filter(|block| i64::from(**block) != i64::from(holder));
        let in_list = |of: TypeId| others().filter(|block| self.names.sure_object(named, **block) == Some(of)).count();
        agreeing.sort_by_key(|(agree, of, _)| std::cmp::Reverse((*agree, in_list(*of))));
        let is_list = inner.is_link();
        Ok(match agreeing[..] {
            [(agree, of, _)] if agree > 0 => Some(Decision { of, is_sure: is_list && agree >= AGREE }),
            [(most, of, _), (next, ..), ..] if most >= AGREE && most >= AGREE * next => {
                Some(Decision { of, is_sure: is_list })
            }
            [(most, of, _), (_, other, _), ..] if most > 0 && in_list(of) > 0 && in_list(other) == 0 => {
                Some(Decision { of, is_sure: is_list && most >= AGREE })
            }
            _ => None,
        })
    }

    /// The blocks of a size that a list leads to, from some of them on.
    fn walk(&self, inner: &FlatType, offset: u64, blocks: &[u32]) -> Result<Vec<u32>> {
        let mut found: Vec<u32> = blocks.iter().copied().take(WALK).collect();
        let mut met: HashSet<u32> = found.iter().copied().collect();
        let mut next = 0;
        while next < found.len() && found.len() < WALK {
            let start = self.memory.start(found[next]);
            for link in &inner.slots {
                let value = self.memory.word(start.wrapping_add(offset).wrapping_add(link.offset)).unwrap_or(0);
                let Some((block, begins)) = self.memory.before(value) else { continue };
                let leads_on = if link.is_void {
                    begins && self.leads_back(inner, value.wrapping_add(offset), start)
                } else {
                    link.target == Some(inner.of) && value - self.memory.start(block) == offset
                };
                if leads_on && self.memory.size(block) == self.memory.size(found[0]) && met.insert(block) {
                    push(&mut found, block)?;
                }
            }
            next += 1;
        }
        Ok(found)
    }

    /// Whether a hash handle has a pointer to a struct's start, as the next one in the order of insertion has.
    fn leads_back(&self, inner: &FlatType, place: u64, start: u64) -> bool {
        let mut voids = inner.slots.iter().filter(|slot| slot.is_void);
        voids.any(|slot| self.memory.word(place.wrapping_add(slot.offset)) == Some(start))
    }

    /// How many of the blocks hold what shows that they are of a type, besides the links, and how many what makes it
    /// doubtful; None where one contradicts it.
    fn agree(&mut self, of: TypeId, offset: u64, size: u64, blocks: &[u32]) -> Result<Option<(u32, u32)>> {
        let layout = self.layouts.of(of)?;
        let known = (offset, offset.saturating_add(size));
        let (mut agree, mut doubts) = (0, 0);
        for block in blocks {
            let place = self.memory.start(*block);
            match self.proofs_beside(&layout, place, known)? {
                Some(right) => agree += u32::from(right),
                None => return Ok(None),
            }
            for slot in layout.slots.iter().filter(|slot| slot.offset < known.0 || known.1 <= slot.offset) {
                let value = self.memory.word(place.wrapping_add(slot.offset)).unwrap_or(0);
                if self.is_larger(slot, value)? {
                    doubts += 1;
                    break;
                }
            }
        }
        Ok(Some((agree, doubts)))
    }

    /// Whether a pointer leads to a block that is larger than its type.
    fn is_larger(&self, slot: &Slot, value: u64) -> Result<bool> {
        let (Target::Object, Some(target), Some(block)) = (slot.to, slot.target, self.memory.at(value)) else {
            return Ok(false);
        };
        let inner = self.layouts.of(target)?;
        Ok(!inner.polymorphic && inner.flexible.is_none() && !self.memory.fits_about(block, inner.size))
    }

    fn proofs_beside(&mut self, layout: &FlatType, place: u64, known: (u64, u64)) -> Result<Option<bool>> {
        self.proofs_as(layout, place, &At { known, ..At::proving(Proof::Any) }, 0)
    }

    /// The claim of a link in a list's struct, to one of the same type; None where it may lead to anything else.
    pub(super) fn listed(&mut self, pointer: &Pointer, block: u32) -> Result<Option<Claimed>> {
        let Pointer { slot, value, layout, place, at } = *pointer;
        let (Some(place), Some(target)) = (place, slot.target) else { return Ok(None) };
        let start = self.memory.start(block);
        let within = value - start;
        let is_list = slot.link == Some(within) && (self.is_listed(at.parent) || self.lists.contains(&layout.of));
        if !is_list || !self.memory.fits(block, layout.size) || self.types.facts(layout.of)?.language != Language::C {
            return Ok(None);
        }
        // where there is a link back it has to lead here
        let mut others = layout.slots.iter().filter(|other| other.link == slot.link && other.offset != slot.offset);
        let back =
            |other: &Slot| self.memory.word(start.wrapping_add(other.offset)) == Some(place.wrapping_add(within));
        let has_others = others.clone().next().is_some();
        if has_others && !others.any(back) {
            return Ok(None);
        }
        let known = (within, within.saturating_add(self.types.facts(target)?.size));
        if self.proofs_beside(layout, start, known)?.is_none() {
            return Ok(None);
        }
        self.note_listed(block);
        push(&mut self.enclosing, block)?;
        let name = self.names.object(layout.of)?;
        self.claim(at.plain.max(Strength::Listed), block, name, pointer, 0).map(Some)
    }
}
