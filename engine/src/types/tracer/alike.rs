//! Blocks to which nothing typed leads, as what is lost: those that hold what all blocks hold that surely are of a
//! type.
//!
//! It is a guess, and none where two types do as well.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::claims::Strength;
use super::layouts::{FlatType, Target};
use super::names::{At, Claimed, NameForm, Proof, NO_LEVEL};
use super::trace::Tracer;
use crate::failure::{filled, insert, push, Result};
use crate::types::facts::{Language, TypeId};

/// So many blocks that surely are of a type are looked at.
const SAMPLE: usize = 64;
/// What fewer have in common may be chance: then more pointers have to be right, and none may be missing.
const FEW: usize = 4;
/// Smaller values that are the same in all are numbers, and may differ in others; and numbers may be larger by so many
/// bits.
const LEAST_ADDRESS: u64 = 1 << 16;
const SPARE_BITS: u32 = 8;
const FEW_RIGHT: u32 = 2;
/// So many words of a type are compared.
const MOST_WORDS: usize = 512;
/// So many structs of the program that are as large are looked at; where there are more so many pointers must be right.
const MOST_RIVALS: usize = 256;
const MANY_RIGHT: u32 = 3;
/// So many of the blocks that may be of a type are compared with such structs.
const COMPARED: usize = 64;

/// What blocks of a type have in a word.
#[derive(Clone, Copy, Default)]
struct Word {
    /// In how many of the sample it is the start of a block, and in how many nothing.
    pointers: u32,
    nothing: u32,
    /// The first value there, in how many it is the same, and the largest one.
    first: u64,
    same: u32,
    largest: u64,
}

impl Word {
    /// Whether a value that is no block's start contradicts what the sample has: one where all have blocks or nothing,
    /// another one where all have the same, as a vtable's address, or a larger one than a number's there, as a color's
    /// place has no text. What a block held before it was freed is still there once it is handed out for something
    /// else, but for its first words.
    fn contradicts(&self, value: u64, sample: usize) -> bool {
        let bits = |value: u64| u64::BITS - value.leading_zeros();
        sample >= FEW
            && if self.pointers > 0 {
                (self.pointers + self.nothing) as usize == sample && value != 0
            } else {
                let is_fixed = self.same as usize == sample && self.first >= LEAST_ADDRESS;
                is_fixed && value != self.first || bits(value) > bits(self.largest) + SPARE_BITS
            }
    }
}

/// What blocks have in common that surely are of a type.
struct Model {
    of: TypeId,
    name: u32,
    layout: Rc<FlatType>,
    words: Vec<Word>,
    sample: usize,
    /// The values of pointers to functions, by where they are.
    functions: Vec<BTreeSet<u64>>,
}

/// How well a block agrees.
#[derive(Clone, Copy)]
struct Agreement {
    right: u32,
    missing: u32,
}

impl Tracer<'_> {
    /// Names blocks after others that hold the same; whether any got a name.
    pub(super) fn name_by_others(&mut self) -> Result<bool> {
        let unnamed = self.named.level.iter().filter(|level| **level == NO_LEVEL).count();
        if unnamed == 0 {
            return Ok(false);
        }
        let models = self.models()?;
        let mut by_size: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (number, model) in models.iter().enumerate() {
            // malloc gives one that is larger by what it cannot split off
            let (least, spare) =
                (self.objects.memory.malloc.chunk_for(model.layout.size), self.objects.memory.malloc.align());
            for chunk in [least, least.saturating_add(spare)] {
                push(by_size.entry(chunk).or_default(), number)?;
            }
        }
        let mut likely: BTreeMap<usize, Vec<(u32, u32)>> = BTreeMap::new();
        for block in 0..self.named.name.len() as u32 {
            if self.named.level[block as usize] != NO_LEVEL {
                continue;
            }
            self.objects.step()?;
            let size = self.objects.memory.size(block);
            let Some(several) = by_size.get(&size) else { continue };
            let mut only = None;
            let mut count = 0;
            for number in several {
                if let Some(right) = self.agrees(&models[*number], block)? {
                    count += 1;
                    only = Some((*number, right));
                }
            }
            if let (1, Some((number, right))) = (count, only) {
                // what contradicts one type does not speak for another one
                if self.is_contradicted(&models[number], block)? {
                    continue;
                }
                push(likely.entry(number).or_default(), (block, right))?;
            }
        }
        let structs = if likely.is_empty() { Vec::new() } else { self.objects.types.source().structs(true)? };
        let mut any = false;
        for (number, blocks) in likely {
            let model = &models[number];
            if self.has_rivals(model, &models, &blocks, &structs)? {
                continue;
            }
            for (block, _) in blocks {
                let claimed = Claimed { level: Strength::Alike, plain: true, ..Claimed::of(block, model.name) };
                self.claim_later(claimed)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Of each type of which blocks surely are that have pointers.
    fn models(&mut self) -> Result<Vec<Model>> {
        let names = self.objects.names.names.len();
        let counts = self.named.sure(names)?;
        let mut models = Vec::new();
        let mut places: HashMap<u32, usize> = HashMap::new();
        for (name, count) in counts.iter().enumerate() {
            let told = &self.objects.names.names[name];
            let (NameForm::Object, Some(of), 1..) = (told.form, told.of, *count) else { continue };
            let layout = self.objects.layouts.of(of)?;
            let words = (layout.size / self.objects.memory.word_size().max(1)) as usize;
            if layout.polymorphic || layout.parts() == 0 || layout.flexible.is_some() || words > MOST_WORDS {
                continue;
            }
            insert(&mut places, name as u32, models.len())?;
            let (words, functions) =
                (filled(words, Word::default())?, filled(layout.functions.len(), BTreeSet::new())?);
            push(&mut models, Model { of, name: name as u32, layout, words, sample: 0, functions })?;
        }
        let mut met: Vec<u64> = filled(names, 0)?;
        for block in 0..self.named.name.len() {
            let name = self.named.name[block];
            if self.named.level[block] > Strength::Rule as u8 || !places.contains_key(&name) {
                continue;
            }
            // from all over the heap
            let stride = counts[name as usize].div_ceil(SAMPLE as u64);
            if met[name as usize] % stride == 0 {
                self.learn(&mut models[places[&name]], block as u32)?;
            }
            met[name as usize] += 1;
        }
        Ok(models)
    }

    fn learn(&self, model: &mut Model, block: u32) -> Result<()> {
        let place = self.objects.memory.start(block);
        let mut values = filled(model.words.len(), 0)?;
        if !self.objects.memory.words(place, &mut values) {
            return Ok(());
        }
        model.sample += 1;
        for (word, value) in model.words.iter_mut().zip(values) {
            word.pointers += u32::from(self.objects.memory.at(value).is_some());
            word.nothing += u32::from(value == 0);
            if model.sample == 1 {
                word.first = value;
            }
            word.same += u32::from(value == word.first);
            word.largest = word.largest.max(value);
        }
        for (values, offset) in model.functions.iter_mut().zip(&model.layout.functions) {
            values.insert(self.objects.memory.word(place.wrapping_add(*offset)).unwrap_or(0));
        }
        Ok(())
    }

    /// Whether a block has a word that none of the type has.
    fn is_contradicted(&self, model: &Model, block: u32) -> Result<bool> {
        let mut values = filled(model.words.len(), 0)?;
        if !self.objects.memory.words(self.objects.memory.start(block), &mut values) {
            return Ok(true);
        }
        let is_no_block = |value: u64| self.objects.memory.at(value).is_none();
        let mut both = model.words.iter().zip(values);
        Ok(both.any(|(word, value)| is_no_block(value) && word.contradicts(value, model.sample)))
    }

    /// How many pointers of a block lead where those of the type do; None where something is otherwise, or too little
    /// shows it.
    fn agrees(&mut self, model: &Model, block: u32) -> Result<Option<u32>> {
        let place = self.objects.memory.start(block);
        let mut values = filled(model.words.len(), 0)?;
        if model.sample == 0 || !self.objects.memory.words(place, &mut values) {
            return Ok(None);
        }
        let mut found = Agreement { right: 0, missing: 0 };
        for (word, value) in model.words.iter().zip(values) {
            if self.objects.memory.at(value).is_some() {
                if word.pointers == 0 {
                    return Ok(None);
                }
                found.right += 1;
            } else if word.pointers as usize == model.sample {
                found.missing += 1;
            }
        }
        for (values, offset) in model.functions.iter().zip(&model.layout.functions) {
            if !values.contains(&self.objects.memory.word(place.wrapping_add(*offset)).unwrap_or(0)) {
                return Ok(None);
            }
        }
        let is_few = model.sample < FEW;
        let enough = if is_few { found.right >= FEW_RIGHT && found.missing == 0 } else { found.right > found.missing };
        if !enough || self.objects.proofs(&model.layout, place, Proof::Any, 0)? != Some(true) {
            return Ok(None);
        }
        for slot in &model.layout.slots {
            let value = self.objects.memory.word(place.wrapping_add(slot.offset)).unwrap_or(0);
            let (Target::Object, Some(target), Some(to)) = (slot.to, slot.target, self.objects.memory.at(value)) else {
                continue;
            };
            let inner = self.objects.layouts.of(target)?;
            let is_right = inner.polymorphic
                || inner.flexible.is_some()
                || self.objects.names.sure_object(&self.named, to).is_some_and(|of| of == target)
                || self.objects.memory.fits_about(to, inner.size)
                    && self.objects.proofs(&inner, value, Proof::Any, 0)?.is_some();
            if !is_right {
                return Ok(None);
            }
        }
        Ok(Some(found.right))
    }

    /// Whether another struct of the program, of which no block surely is, agrees as well with what blocks hold.
    fn has_rivals(
        &mut self,
        model: &Model,
        models: &[Model],
        blocks: &[(u32, u32)],
        structs: &[(TypeId, u64)],
    ) -> Result<bool> {
        let types = self.objects.types.clone();
        if model.of < 0 || types.facts(model.of)?.language == Language::Rust {
            // libraries wrap what lies in a block in types of their own
            return Ok(false);
        }
        let malloc = self.objects.memory.malloc;
        let chunk = malloc.chunk_for(model.layout.size);
        let mut rivals = Vec::new();
        for (of, _) in structs.iter().filter(|(_, size)| malloc.chunk_for(*size) == chunk) {
            if !models.iter().any(|other| other.of == *of) {
                push(&mut rivals, *of)?;
            }
        }
        if rivals.len() > MOST_RIVALS {
            return Ok(blocks.iter().any(|(_, right)| *right < MANY_RIGHT));
        }
        for of in rivals {
            let layout = self.objects.layouts.of(of)?;
            let is_other = layout.name != model.layout.name && !layout.polymorphic && !types.begins_with(of, model.of);
            if is_other && self.is_as_likely(&layout, blocks)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether no block contradicts a type of which as many pointers lead to where it says.
    fn is_as_likely(&mut self, layout: &FlatType, blocks: &[(u32, u32)]) -> Result<bool> {
        let mut claims = Vec::new();
        for (block, right) in blocks.iter().take(COMPARED) {
            claims.clear();
            let place = self.objects.memory.start(*block);
            let bad = self.objects.scan(layout, place, &At::proving(Proof::Any), 0, &mut claims)?;
            if bad > 0 || claims.len() < *right as usize {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
