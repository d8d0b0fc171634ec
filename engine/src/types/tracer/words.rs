//! What blocks are by their own words, where the pointers to them tell no type: texts, bytes that a number counts, and
//! structs that the program reaches elsewhere.

use std::collections::BTreeMap;

use super::claims::Strength;
use super::layouts::FlatType;
use super::names::{Claimed, NameForm, Proof, NONE};
use super::trace::Tracer;
use crate::failure::{filled, push, Result};
use crate::types::facts::{Language, TypeId};

/// So many blocks to which one member leads are looked at.
const SAMPLE: usize = 256;
/// So many blocks at least tell what a member leads to.
const FEW: usize = 2;

impl Tracer<'_> {
    /// Blocks to which a member leads that tells no type, where all of them are of one struct that is known elsewhere.
    pub(super) fn name_by_words(&mut self) -> Result<bool> {
        let mut known: Vec<bool> = filled(self.objects.names.names.len(), false)?;
        let mut of_members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for block in 0..self.named.name.len() {
            let (name, level) = (self.named.name[block], self.named.level[block]);
            let Some(told) = self.objects.names.names.get(name as usize) else { continue };
            if level <= Strength::Rule as u8 {
                known[name as usize] = true;
            } else if level == Strength::Field as u8 && told.of.is_none() && self.named.elements[block] == 0 {
                push(of_members.entry(name).or_default(), block as u32)?;
            }
        }
        let mut by_chunk: BTreeMap<u64, Vec<TypeId>> = BTreeMap::new();
        for (told, _) in self.objects.names.names.iter().zip(known).filter(|(_, known)| *known) {
            if let (NameForm::Object, Some(of)) = (told.form, told.of) {
                let facts = self.objects.types.facts(of)?;
                if facts.language == Language::C && facts.size > 0 {
                    push(by_chunk.entry(self.objects.memory.malloc.chunk_for(facts.size)).or_default(), of)?;
                }
            }
        }
        let mut any = false;
        for blocks in of_members.values().filter(|blocks| blocks.len() >= FEW) {
            let size = self.objects.memory.size(blocks[0]);
            let is_alike = blocks.iter().all(|block| self.objects.memory.size(*block) == size);
            let Some(of) = by_chunk.get(&size).filter(|_| is_alike) else { continue };
            let Some(only) = self.only(of, blocks)? else { continue };
            let name = self.objects.names.object(only)?;
            for block in blocks {
                let before = self.as_it_is(*block);
                self.claim_later(Claimed { name, level: Strength::Words, ..before })?;
            }
            any = true;
        }
        Ok(any)
    }

    /// The one type that agrees with what blocks hold: no word contradicts it, and in most of them a pointer leads to
    /// what is certain to be of its type.
    fn only(&mut self, types: &[TypeId], blocks: &[u32]) -> Result<Option<TypeId>> {
        let mut found = None;
        for of in types {
            let layout = self.objects.layouts.of(*of)?;
            let (mut agree, mut fits) = (0, true);
            for block in blocks.iter().take(SAMPLE) {
                let place = self.objects.memory.start(*block);
                fits = fits && self.objects.proofs(&layout, place, Proof::Any, 0)?.is_some();
                agree += usize::from(fits && self.leads_to_its_types(&layout, place));
            }
            if fits && found.replace((*of, agree)).is_some() {
                return Ok(None);
            }
        }
        let least = FEW.max(blocks.len().min(SAMPLE).div_ceil(2));
        Ok(found.filter(|(_, agree)| *agree >= least).map(|(of, _)| of))
    }

    fn leads_to_its_types(&self, layout: &FlatType, place: u64) -> bool {
        layout.slots.iter().any(|slot| {
            let value = self.objects.memory.word(place.wrapping_add(slot.offset)).unwrap_or(0);
            let Some(block) = self.objects.memory.at(value) else { return false };
            slot.target.is_some() && self.objects.names.sure_object(&self.named, block) == slot.target
        })
    }

    /// Texts that fill their blocks, and bytes that a number beside the pointer counts.
    pub(super) fn tell_contents(&mut self) -> Result<()> {
        for block in 0..self.named.name.len() {
            if self.named.level[block] != Strength::Field as u8 || self.named.name[block] == NONE {
                continue;
            }
            let name = self.objects.names.names.get(self.named.name[block] as usize);
            let is_text = name.is_some_and(|name| name.of.is_some());
            let counted = std::mem::take(&mut self.named.elements[block]) > 0;
            let memory = self.objects.memory;
            if counted || is_text && memory.ends_with_text(block as u32, 0)? || memory.has_sds(block as u32) {
                self.named.level[block] = Strength::Words as u8;
            }
        }
        Ok(())
    }
}
