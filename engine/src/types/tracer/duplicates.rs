//! Blocks that hold the same as others that are reached in the same way: texts, arrays, objects.

use super::claims::Strength;
use super::memory::Memory;
use super::names::{NameForm, NONE};
use super::rows::{Known, Patterns};
use super::waste::{Sum, UNSHARED, WORTH};
use crate::failure::{filled, push, with_room, Control, Result};
use crate::resident_pages::{in_memory, Present};
use crate::types::facts::Form;

/// A function may well have captured so much by value.
const CAPTURED: u64 = 64;
/// Numbers may be the same by chance.
const BY_CHANCE: u64 = 48;
/// So much is read at once.
const PIECE: usize = 4096;
/// The most frequent contents that are told.
const MOST_FREQUENT: usize = 3;

/// Equal contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Same {
    /// Of one of them.
    pub start: u64,
    pub bytes: u64,
    /// How many blocks have it.
    pub number: u64,
}

/// The blocks that are reached in one way and of which many are equal.
#[derive(Clone, Debug)]
pub struct Copies {
    pub pattern: u32,
    pub blocks: u64,
    /// Those of which one copy would do; used is what one copy of each takes.
    pub sum: Sum,
    pub frequent: Vec<Same>,
    /// Characters.
    pub is_text: bool,
}

/// What of a block counts: not the counts of who shares it, not what is unused.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    start: u64,
    bytes: u64,
}

/// Those that waste anything worth telling.
pub fn copies(known: &Known, patterns: &Patterns, present: Option<&Present>, control: &Control) -> Result<Vec<Copies>> {
    let count = patterns.all.len();
    let mut begins: Vec<usize> = filled(count + 1, 0)?;
    let is_compared = |block: usize| {
        let name = known.name(block);
        name != NONE && known.named.level[block] <= Strength::Local as u8 && (patterns.of[block] as usize) < count
    };
    for block in (0..patterns.of.len()).filter(|block| is_compared(*block)) {
        begins[patterns.of[block] as usize + 1] += 1;
    }
    for number in 0..count {
        begins[number + 1] += begins[number];
    }
    let (mut places, mut sorted) = (begins.clone(), filled(begins[count], 0u32)?);
    for block in (0..patterns.of.len()).filter(|block| is_compared(*block)) {
        let place = &mut places[patterns.of[block] as usize];
        sorted[*place] = block as u32;
        *place += 1;
    }
    let mut found = Vec::new();
    for pattern in 0..count {
        let blocks = &sorted[begins[pattern]..begins[pattern + 1]];
        if blocks.len() > 1 && patterns.all[pattern].bytes >= WORTH {
            if let Some(each) = of_pattern(known, pattern as u32, blocks, present, control)? {
                push(&mut found, each)?;
            }
        }
    }
    Ok(found)
}

fn of_pattern(
    known: &Known,
    pattern: u32,
    blocks: &[u32],
    present: Option<&Present>,
    control: &Control,
) -> Result<Option<Copies>> {
    let memory = known.memory;
    let mut hashed: Vec<(u64, u64, u32)> = with_room(blocks.len())?;
    for block in blocks {
        let Some(contents) = contents(known, *block)? else { continue };
        control.advance(contents.bytes)?;
        // where nothing was written yet nothing is shared
        if let Some((hash, true)) = hash(memory, contents) {
            hashed.push((hash, contents.bytes, *block));
        }
    }
    hashed.sort_unstable();
    let (mut sum, mut frequent) = (Sum::default(), Vec::new());
    let mut rest = &hashed[..];
    while let Some((hash, bytes, _)) = rest.first().copied() {
        let end = rest.partition_point(|each| (each.0, each.1) <= (hash, bytes));
        let (group, behind) = rest.split_at(end);
        rest = behind;
        if group.len() > 1 {
            add_group(known, group, present, &mut sum, &mut frequent)?;
        }
    }
    if sum.unused() < WORTH {
        return Ok(None);
    }
    frequent.sort_by_key(|same: &Same| (std::cmp::Reverse(same.number * same.bytes), same.start));
    frequent.truncate(MOST_FREQUENT);
    let name = &known.names[known.name(blocks[0] as usize) as usize];
    let is_text = match name.of.filter(|_| name.form == NameForm::Array) {
        Some(of) => known.layouts.types.facts(of)?.form == Form::Character || name.text.contains("u8"),
        None => false,
    };
    Ok(Some(Copies { pattern, blocks: blocks.len() as u64, sum, frequent, is_text }))
}

/// Of blocks with the same hash those that are equal to the first one.
fn add_group(
    known: &Known,
    group: &[(u64, u64, u32)],
    present: Option<&Present>,
    sum: &mut Sum,
    frequent: &mut Vec<Same>,
) -> Result<()> {
    let memory = known.memory;
    let Some(first) = contents(known, group[0].2)? else { return Ok(()) };
    let mut number = 1;
    for (_, _, block) in &group[1..] {
        let Some(other) = contents(known, *block)? else { continue };
        if !is_equal(memory, first, other) {
            continue;
        }
        number += 1;
        let (start, size) = (memory.start(*block), memory.size(*block));
        sum.number += 1;
        sum.room += size;
        sum.resident += in_memory(present, start, size);
    }
    if number == 1 {
        return Ok(());
    }
    let size = memory.size(group[0].2);
    sum.elements += 1;
    sum.room += size;
    sum.used += size;
    if size * number > sum.largest {
        (sum.largest, sum.sample) = (size * number, memory.start(group[0].2));
    }
    push(frequent, Same { start: first.start, bytes: first.bytes, number })
}

/// Whether it is called as compilers call what a function has captured.
pub fn is_captured(name: &str) -> bool {
    ["{lambda(", "{closure_env#"].iter().any(|word| name.contains(word))
}

/// None: what the block is for nobody compares.
fn contents(known: &Known, block: u32) -> Result<Option<Contents>> {
    let (memory, name) = (known.memory, &known.names[known.name(block as usize) as usize]);
    let Some(of) = name.of else { return Ok(None) };
    let (facts, start) = (known.layouts.types.facts(of)?, memory.start(block));
    let (mut front, mut bytes) = (name.front, facts.size);
    // an object that has something else behind it is more than its type says
    if name.form == NameForm::Object && !memory.fits_about(block, facts.size) {
        return Ok(None);
    }
    let is_text = matches!(facts.form, Form::Character) || &*facts.name == "u8";
    let least = match () {
        () if is_captured(&name.text) => CAPTURED,
        () if is_text => UNSHARED,
        () => BY_CHANCE,
    };
    match name.form {
        NameForm::Array => {
            let elements = u64::from(known.named.elements[block as usize]);
            bytes = elements.saturating_mul(facts.size);
        }
        NameForm::Object if of >= 0 => {
            if let Some(counts) = known.layouts.of(of)?.counts {
                front = counts.into_iter().max().unwrap_or(0).saturating_add(memory.word_size());
                bytes = bytes.saturating_sub(front);
            }
        }
        // a control block has its object as the only member; a node has links
        NameForm::Object => match &facts.fields[..] {
            [only] if only.name.is_empty() && name.words => {
                let held = known.layouts.types.facts(only.of)?;
                (front, bytes) = (only.offset, held.size);
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    }
    let is_within = front.checked_add(bytes).is_some_and(|end| end <= memory.room(block));
    let contents = Contents { start: start.wrapping_add(front), bytes };
    Ok(Some(contents).filter(|_| is_within && bytes >= least))
}

/// And whether anything of it is not 0. None where it cannot be read.
fn hash(memory: &Memory, contents: Contents) -> Option<(u64, bool)> {
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let (mut sum, mut any) = (contents.bytes, false);
    each_piece(contents, |at, piece| {
        if !memory.bytes(at, piece) {
            return false;
        }
        for word in piece.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            let word = u64::from_le_bytes(bytes);
            any |= word != 0;
            sum = (sum.rotate_left(5) ^ word).wrapping_mul(FACTOR);
        }
        true
    })
    .then_some((sum, any))
}

fn is_equal(memory: &Memory, one: Contents, other: Contents) -> bool {
    let mut beside = [0; PIECE];
    one.bytes == other.bytes
        && each_piece(one, |at, piece| {
            let beside = &mut beside[..piece.len()];
            memory.bytes(at, piece)
                && memory.bytes(other.start.wrapping_add(at.wrapping_sub(one.start)), beside)
                && piece == beside
        })
}

/// False once `take` is.
fn each_piece(contents: Contents, mut take: impl FnMut(u64, &mut [u8]) -> bool) -> bool {
    let mut buffer = [0; PIECE];
    let mut done = 0;
    while done < contents.bytes {
        let size = (contents.bytes - done).min(PIECE as u64);
        if !take(contents.start.wrapping_add(done), &mut buffer[..size as usize]) {
            return false;
        }
        done += size;
    }
    true
}
