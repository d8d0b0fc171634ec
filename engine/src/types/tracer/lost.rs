//! Locals that were optimised out: what their functions' words lead to, where a block proves to be of their type.

use std::collections::{HashMap, HashSet};

use super::claims::Strength;
use super::containers::forms::Container;
use super::layouts::{FlatType, Layouts, Slot, Target};
use super::names::{At, Claimed, Proof};
use super::objects::{Objects, Pointer};
use super::trace::{Named, Start};
use crate::failure::{entry, push, Result};
use crate::types::facts::{Form, TypeId};

/// Of a container so many elements are looked at for proof.
const FEW_NODES: usize = 64;

/// A variable that may lead to a block.
struct Lost<'a> {
    /// Among the starts.
    number: usize,
    start: &'a Start,
    slot: Slot,
    /// Of what it leads to.
    of: TypeId,
}

/// Of a variable that is a pointer or a reference, or has one that owns and nothing else.
pub fn pointer_of(layouts: &Layouts, layout: &FlatType) -> Option<Slot> {
    if layout.parts() != 1 {
        return None;
    }
    if let Some(slot) = layout.slots.first() {
        return Some(slot.clone());
    }
    let each = layout.containers.first()?;
    let Container::Owned(owned) = &*each.container else { return None };
    Some(Slot {
        offset: each.offset,
        to: Target::Object,
        target: Some(owned.target()?),
        step: "".into(),
        member: "".into(),
        is_void: false,
        is_ruled: false,
        link: None,
        number: layouts.next_number(),
    })
}

/// Only blocks of which no member tells the type are looked at.
pub fn claims(objects: &mut Objects, named: &Named, starts: &[Start]) -> Result<Vec<Claimed>> {
    let mut blocks: Vec<u32> = Vec::new();
    let mut by_block: HashMap<u32, Vec<Lost>> = HashMap::new();
    for lost in variables(objects, starts)? {
        if let Some(block) = only(objects, named, &lost)? {
            let those = entry(&mut by_block, block)?;
            if those.is_empty() {
                push(&mut blocks, block)?;
            }
            push(those, lost)?;
        }
    }
    let mut claims = Vec::new();
    for block in blocks {
        let those = &by_block[&block];
        // of functions that are inlined into another the outermost has it; of several the first
        let frame = |lost: &&Lost| lost.start.frame.unwrap_or(0);
        let Some(lost) = those.iter().rev().max_by_key(frame) else { continue };
        if may_be_another(objects, block, lost, those)? {
            continue;
        }
        let at = At {
            parent: -1 - lost.number as i32,
            level: Strength::Local,
            plain: Strength::Local,
            label: objects.names.texts.number(&lost.start.label)?,
            ..At::proving(Proof::None)
        };
        let name = objects.names.object(lost.of)?;
        let (value, layout) = (objects.memory.start(block), objects.layouts.of(lost.start.of)?);
        let pointer = Pointer { slot: &lost.slot, value, layout: &layout, place: None, at: &at };
        push(&mut claims, objects.claim(Strength::Local, block, name, &pointer, 0)?)?;
    }
    Ok(claims)
}

fn variables<'a>(objects: &Objects, starts: &'a [Start]) -> Result<Vec<Lost<'a>>> {
    let mut found = Vec::new();
    for (number, start) in starts.iter().enumerate().filter(|(_, start)| !start.words.is_empty()) {
        let layout = objects.layouts.of(start.of)?;
        let Some(slot) = pointer_of(&objects.layouts, &layout).filter(|slot| slot.to == Target::Object) else {
            continue;
        };
        let Some(of) = slot.target else { continue };
        let facts = objects.types.facts(of)?;
        // of what has a vtable this tells the type
        if facts.form == Form::Struct && facts.size > 0 && !facts.polymorphic {
            push(&mut found, Lost { number, start, slot, of })?;
        }
    }
    Ok(found)
}

/// The one block that it can lead to.
fn only(objects: &mut Objects, named: &Named, lost: &Lost) -> Result<Option<u32>> {
    let mut found = None;
    for word in &lost.start.words {
        let Some(block) = objects.memory.at(*word).filter(|block| found != Some(*block)) else { continue };
        if proves(objects, lost.of, block)? && found.replace(block).is_some() {
            return Ok(None);
        }
    }
    Ok(found.filter(|block| named.level[*block as usize] >= Strength::Field as u8))
}

/// Whether a block may be of other types than the variable's: of those that were met, and those that its function
/// knows. The members that it begins with are proven with it.
fn may_be_another(objects: &mut Objects, block: u32, lost: &Lost, those: &[Lost]) -> Result<bool> {
    let types = objects.types.clone();
    if those.iter().any(|each| each.of != lost.of) {
        return Ok(true);
    }
    let (size, slack) = (types.facts(lost.of)?.size, objects.memory.malloc.least);
    let mut others = Vec::new();
    for of in types.met() {
        if of >= 0 && types.facts(of)?.form == Form::Struct {
            push(&mut others, of)?;
        }
    }
    for each in those {
        let (least, most) = (size.saturating_sub(slack).max(1), size.saturating_add(slack));
        others.extend(types.source().structs_of_source_file(each.start.code, least, most)?);
    }
    let mut seen = HashSet::new();
    for of in others {
        let is_another = of != lost.of && seen.insert(of) && !types.begins_with(lost.of, of);
        if is_another && proves(objects, of, block)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether what a block holds shows that it is of this type.
fn proves(objects: &mut Objects, of: TypeId, block: u32) -> Result<bool> {
    let (size, place) = (objects.types.facts(of)?.size, objects.memory.start(block));
    if size == 0 || !objects.memory.fits(block, size) {
        return Ok(false);
    }
    let layout = objects.layouts.of(of)?;
    if objects.proofs(&layout, place, Proof::Typed, 0)?.is_none() {
        return Ok(false);
    }
    let mut proven = false;
    let mut nodes = Vec::new();
    for each in &layout.containers {
        let Container::Nodes(own) = &*each.container else { continue };
        if own.strength != Strength::Container {
            continue;
        }
        if own.nodes(objects.memory, place.wrapping_add(each.offset), &mut nodes)?.is_none() {
            continue;
        }
        let inner = objects.layouts.of(own.node.of)?;
        for node in nodes.iter().take(FEW_NODES) {
            match objects.proofs(&inner, objects.memory.start(*node), Proof::Typed, 0)? {
                None => return Ok(false),
                Some(right) => proven |= right,
            }
        }
    }
    Ok(proven)
}
