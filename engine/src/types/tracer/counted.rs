//! Arrays of C programs beside which stand how many elements are in use, and for how many there is room: told by the
//! members' names, and proved by the block.

use super::containers::forms::{Room, DEEPEST};
use super::layouts::{Layouts, MOST_MEMBERS};
use super::memory::Memory;
use crate::failure::{push, Result};
use crate::types::facts::{Facts, Field, Form, Language, TypeId};

/// Words in members' names.
const USED: [&str; 12] = ["len", "length", "count", "cnt", "n", "num", "used", "nr", "fill", "filled", "nelts", "top"];
const ROOM: [&str; 12] = [
    "cap",
    "capacity",
    "alloc",
    "alloced",
    "allocated",
    "max",
    "room",
    "space",
    "reserved",
    "limit",
    "nalloc",
    "maximum",
];
/// It may be either.
const EITHER: &str = "size";
/// Of one type.
const MOST: usize = 256;
/// Of so many elements from the first on most have to have something in them.
const PROOFS: u64 = 64;
const FEWEST: u64 = 8;

/// A number in an object.
#[derive(Clone, Copy, Debug)]
struct Number {
    offset: u64,
    size: u64,
}

/// A pointer in an object with the two numbers beside it.
#[derive(Debug)]
pub struct CountedArray {
    pointer: u64,
    used: Number,
    room: Number,
    /// Bytes of an element.
    element: u64,
    /// From the object to the pointer: ".tokens.items".
    pub step: Box<str>,
}

/// Those of a type, in its members too. None in Rust, which has its own.
pub fn arrays(layouts: &Layouts, of: TypeId) -> Result<Vec<CountedArray>> {
    let mut found = Vec::new();
    add(layouts, of, 0, "", DEEPEST, &mut { MOST_MEMBERS }, &mut found)?;
    Ok(found)
}

/// `left`: so many members may still be looked at, as a type's members can be of types that have many again.
fn add(
    layouts: &Layouts,
    of: TypeId,
    offset: u64,
    step: &str,
    deep: u32,
    left: &mut u32,
    to: &mut Vec<CountedArray>,
) -> Result<()> {
    let facts = layouts.types.facts(of)?;
    let is_known = facts.form == Form::Struct && matches!(facts.language, Language::C | Language::CPlusPlus);
    *left = left.saturating_sub(facts.fields.len() as u32);
    if !is_known || deep == 0 || *left == 0 || layouts.container(of)?.is_some() {
        return Ok(());
    }
    let mut numbers = Vec::new();
    for field in &facts.fields {
        let inner = layouts.types.facts(field.of)?;
        if inner.form == Form::Integer && inner.size > 1 {
            push(&mut numbers, (field, Number { offset: offset.saturating_add(field.offset), size: inner.size }))?;
        }
    }
    for field in &facts.fields {
        let inner = layouts.types.facts(field.of)?;
        let below =
            || if field.name.is_empty() || field.is_base { step.to_owned() } else { format!("{step}.{}", field.name) };
        match inner.form {
            Form::Struct if to.len() < MOST => {
                add(layouts, field.of, offset.saturating_add(field.offset), &below(), deep - 1, left, to)?;
            }
            Form::Pointer if to.len() < MOST => {
                let Some(element) = element_size(layouts, &inner)? else { continue };
                if let Some((used, room)) = beside(field, &numbers) {
                    let pointer = offset.saturating_add(field.offset);
                    push(to, CountedArray { pointer, used, room, element, step: below().into() })?;
                }
            }
            _ => (),
        }
    }
    Ok(())
}

fn element_size(layouts: &Layouts, pointer: &Facts) -> Result<Option<u64>> {
    let Some(target) = pointer.target else { return Ok(None) };
    let facts = layouts.types.facts(target)?;
    Ok(Some(facts.size).filter(|size| *size > 0 && facts.form != Form::Function))
}

/// The parts of a member's name, as in "nameCount", "name_len".
pub fn words(name: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let begins = letter == '_' || (letter.is_uppercase() && was_lower);
        if begins && found.last().is_some_and(|last| !last.is_empty()) {
            found.push(String::new());
        }
        was_lower = letter.is_lowercase();
        if let Some(last) = found.last_mut().filter(|_| letter != '_') {
            last.extend(letter.to_lowercase());
        }
    }
    found
}

/// The number of elements in use, and of those there is room for: None unless the names leave no doubt.
fn beside(pointer: &Field, numbers: &[(&Field, Number)]) -> Option<(Number, Number)> {
    let (mut used, mut room, mut either) = (Vec::new(), Vec::new(), Vec::new());
    for (field, number) in numbers {
        let words = words(&field.name);
        let has = |some: &[&str]| words.iter().any(|word| some.contains(&word.as_str()));
        let list = match () {
            () if has(&ROOM) => &mut room,
            () if has(&USED) || field.name.strip_prefix('n') == Some(&*pointer.name) => &mut used,
            () if has(&[EITHER]) => &mut either,
            () => continue,
        };
        list.push((*field, *number));
    }
    if room.is_empty() {
        room = std::mem::take(&mut either);
    }
    if used.is_empty() {
        used = either;
    }
    Some((only(pointer, used)?, only(pointer, room)?))
}

/// Of several the one whose name has the pointer's in it.
fn only(pointer: &Field, mut some: Vec<(&Field, Number)>) -> Option<Number> {
    if some.len() > 1 {
        some.retain(|(field, _)| field.name.contains(&*pointer.name));
    }
    match some[..] {
        [(_, number)] => Some(number),
        _ => None,
    }
}

impl CountedArray {
    /// Of the object at a place; None unless the block proves it.
    pub fn room(&self, memory: &Memory, place: u64) -> Option<Room> {
        let number = |number: &Number| memory.number(place.wrapping_add(number.offset), number.size);
        let start = memory.word(place.wrapping_add(self.pointer)).filter(|start| *start != 0)?;
        let (used, room) = (number(&self.used)?, number(&self.room)?);
        let (bytes, block) = (room.checked_mul(self.element)?, memory.at(start)?);
        // a text's room is often told without the 0 behind it
        let fits = memory.fits(block, bytes) || (self.element == 1 && memory.fits(block, bytes.saturating_add(1)));
        if used > room || room == 0 || !fits || !self.is_in_order(memory, start, used) {
            return None;
        }
        let used_bytes = used * self.element;
        Some(Room {
            start,
            elements: used,
            used: used_bytes,
            room: bytes,
            grown: room / 2 * self.element,
            is_ahead: true,
        })
    }

    /// Whether the elements in use lie in front: a hash table that is half empty has gaps.
    fn is_in_order(&self, memory: &Memory, start: u64, used: u64) -> bool {
        if self.element == 1 || used == 0 {
            return true;
        }
        let looked_at = used.min(PROOFS);
        let has_bits = |number: &u64| self.has_bits(memory, start.wrapping_add(number * self.element));
        used >= FEWEST && (0..looked_at).filter(has_bits).count() as u64 * 4 >= looked_at * 3
    }

    fn has_bits(&self, memory: &Memory, element: u64) -> bool {
        let (mut at, end) = (element, element.saturating_add(self.element));
        while at < end {
            let size = (end - at).min(8);
            if memory.number(at, size) != Some(0) {
                return true;
            }
            at += size;
        }
        false
    }
}
