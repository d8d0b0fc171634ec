//! Places as a program writes them, and the containers that are there with what they hold.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::cycles::{way_round, Garbage};
use super::objects::Step;
use super::types::{Shape, Types, NONE};
use super::walk::{ClassSum, Walk};
use crate::failure::{filled, push, with_room, Control, Result};
use std::rc::Rc;

/// A module, or a function that runs.
pub struct Root {
    pub text: String,
    pub is_frame: bool,
}

/// All containers at one place.
pub struct Row {
    pub path: String,
    pub class: String,
    /// The class of most keys, and of most elements; "": there are none, or they differ.
    pub key: String,
    pub element: String,
    pub containers: u64,
    pub elements: u64,
    pub largest: u64,
    /// With all that lies below them.
    pub held_objects: u64,
    pub held_bytes: u64,
    /// Of the largest one.
    pub sample: u64,
    pub cache: Option<Cache>,
}

/// What `functools.lru_cache` counts.
pub struct Cache {
    pub is_unbounded: bool,
    pub hits: u64,
    pub misses: u64,
    pub mostly: Mostly,
}

/// The class whose objects take most, with what they keep apart.
pub struct Mostly {
    pub class: String,
    pub bytes: u64,
}

/// Objects of one class that only lead to each other, and all that hangs on them.
pub struct Cycle {
    pub class: String,
    /// How one leads to another.
    pub way: String,
    pub objects: u64,
    pub held_objects: u64,
    pub held_bytes: u64,
    pub mostly: Mostly,
    pub sample: u64,
}

/// A tuple of fewer elements is no container, but a value.
const TUPLE: u64 = 16;
/// Of the elements so many percent have one class, or they differ.
const ALIKE: u64 = 90;
const MOST_ROWS: usize = 1 << 12;

/// What holds most first.
pub fn rows(walk: &Walk, roots: &[Root]) -> Result<Vec<Row>> {
    let count = walk.places.len();
    let (bytes, objects) = held(walk)?;
    let (keys, elements) = (most(walk, Step::Key)?, most(walk, Step::Item)?);
    let mut chosen = Vec::new();
    for number in 0..count {
        if is_container(walk, number) {
            push(&mut chosen, number)?;
        }
    }
    chosen.sort_unstable_by_key(|number| (Reverse(bytes[*number]), *number));
    chosen.truncate(MOST_ROWS);
    let mut rows = with_room(chosen.len())?;
    for number in chosen {
        let place = &walk.places[number];
        let class = walk.types.class(place.class);
        let name = |(alike, class): (u64, u32)| {
            let is_most = alike.saturating_mul(100) >= place.elements.saturating_mul(ALIKE);
            walk.types.class_name(if is_most { class } else { NONE })
        };
        rows.push(Row {
            path: path(walk, roots, number as u32)?,
            class: class.name.to_string(),
            key: name(keys[number]),
            element: name(elements[number]),
            containers: place.objects,
            elements: place.elements,
            largest: place.largest,
            held_objects: objects[number],
            held_bytes: bytes[number],
            sample: place.sample,
            cache: match class.shape {
                Shape::Cache => Some(Cache {
                    is_unbounded: place.is_unbounded,
                    hits: place.hits,
                    misses: place.misses,
                    mostly: mostly(walk, number as u32)?,
                }),
                _ => None,
            },
        });
    }
    Ok(rows)
}

/// What there is of each class, by its name; what takes most first.
pub fn sums<'a>(walk: &Walk<'a>) -> Result<Vec<(Rc<str>, ClassSum)>> {
    let mut found = Vec::new();
    for (number, sum) in walk.classes.iter().enumerate().filter(|(_, sum)| sum.objects > 0) {
        push(&mut found, (walk.types.class(number as u32).name.clone(), *sum))?;
    }
    found.sort_by(|(one, of_one), (other, of_other)| (of_other.bytes, one).cmp(&(of_one.bytes, other)));
    found.truncate(MOST_ROWS);
    Ok(found)
}

/// What lies below each place, in bytes and objects.
fn held(walk: &Walk) -> Result<(Vec<u64>, Vec<u64>)> {
    let count = walk.places.len();
    let (mut bytes, mut objects): (Vec<u64>, Vec<u64>) = (with_room(count)?, with_room(count)?);
    bytes.extend(walk.places.iter().map(|place| place.bytes));
    objects.extend(walk.places.iter().map(|place| place.objects));
    // a place comes behind the one in front of it
    for number in (0..count).rev() {
        let at = walk.places[number].parent as usize;
        if at < number {
            bytes[at] = bytes[at].saturating_add(bytes[number]);
            objects[at] = objects[at].saturating_add(objects[number]);
        }
    }
    Ok((bytes, objects))
}

/// What only leads to itself, by classes, what holds most first. The walk takes it in.
pub fn cycles(walk: &mut Walk, garbage: &Garbage, first: u32, control: &Control) -> Result<Vec<Cycle>> {
    // all of the program's own at once: none of them counts for another one, and what they have for them
    for is_own in [true, false] {
        for (number, (class, objects)) in garbage.classes.iter().enumerate().take(MOST_ROWS) {
            if walk.types.class(*class).is_python == is_own {
                for object in objects {
                    walk.start(*object, first.saturating_add(number as u32), None)?;
                }
            }
        }
        walk.follow(control)?;
    }
    let (bytes, objects) = held(walk)?;
    let mut cycles = Vec::new();
    for (number, place) in walk.places.iter().enumerate() {
        let Step::Root(root) = place.step else { continue };
        let Some((class, _)) = root.checked_sub(first).and_then(|at| garbage.classes.get(at as usize)) else {
            continue;
        };
        let cycle = Cycle {
            class: walk.types.class_name(*class),
            way: way_round(walk.types, garbage, *class, place.sample)?,
            objects: place.objects,
            held_objects: objects[number],
            held_bytes: bytes[number],
            mostly: mostly(walk, number as u32)?,
            sample: place.sample,
        };
        push(&mut cycles, cycle)?;
    }
    cycles.sort_by(|one, other| (other.held_bytes, &one.class).cmp(&(one.held_bytes, &other.class)));
    Ok(cycles)
}

fn is_container(walk: &Walk, number: usize) -> bool {
    let place = &walk.places[number];
    if place.class == NONE || place.step == Step::Own || place.elements == 0 {
        return false;
    }
    match walk.types.class(place.class).shape {
        // those of code have no names
        Shape::Tuple => {
            !matches!(place.step, Step::Field(_) | Step::Beside(_))
                && place.elements >= TUPLE.saturating_mul(place.objects)
        }
        Shape::Dict => !is_of_cache(walk, number),
        Shape::List | Shape::Set | Shape::Deque | Shape::Cache | Shape::Array => true,
        _ => false,
    }
}

/// Whether that is the dict in which a cache keeps its entries.
fn is_of_cache(walk: &Walk, number: usize) -> bool {
    let place = &walk.places[number];
    let above = walk.places.get(place.parent as usize).map_or(NONE, |above| above.class);
    place.step == Step::Content && above != NONE && walk.types.class(above).shape == Shape::Cache
}

/// Of each place how many objects behind such a step have the class that is most frequent among those reached from
/// there first, and that class.
fn most(walk: &Walk, step: Step) -> Result<Vec<(u64, u32)>> {
    let mut found = filled(walk.places.len(), (0, NONE))?;
    let shape = |at: usize| match walk.places.get(at).map_or(NONE, |place| place.class) {
        NONE => Shape::Plain,
        class => walk.types.class(class).shape,
    };
    for place in walk.places.iter().filter(|place| place.parent != NONE) {
        let mut at = place.parent as usize;
        // a cache has its results in entries of their own, if it has a bound
        let is_result = place.step == Step::Content && shape(at) == Shape::Link && walk.places[at].step == step;
        if is_result {
            at = walk.places[at].parent as usize;
        } else if place.step != step || place.class != NONE && walk.types.class(place.class).shape == Shape::Link {
            continue;
        }
        if walk.places.get(at).is_some() && is_of_cache(walk, at) {
            at = walk.places[at].parent as usize;
        }
        let Some(most) = found.get_mut(at) else { continue };
        if place.objects > most.0 {
            *most = (place.objects, place.class);
        }
    }
    Ok(found)
}

/// The way to a place, as a program would write it; "": no root leads there.
pub fn path(walk: &Walk, roots: &[Root], place: u32) -> Result<String> {
    let mut way = Vec::new();
    let mut at = place;
    while let Some(place) = walk.places.get(at as usize) {
        push(&mut way, place.step)?;
        at = place.parent;
    }
    let mut text = String::new();
    let mut is_variable = false;
    for step in way.into_iter().rev() {
        let part = match step {
            Step::Root(number) => {
                // what only leads to itself has none
                let Some(root) = roots.get(number as usize) else { return Ok(text) };
                is_variable = root.is_frame;
                root.text.clone()
            }
            _ => step_text(walk.types, step)?,
        };
        // a function's variables follow its name
        let is_first = !matches!(step, Step::Root(_)) && std::mem::replace(&mut is_variable, false);
        let part = if is_first { part.trim_start_matches('.') } else { &part };
        text.push_str(part);
    }
    Ok(text)
}

pub fn step_text(types: &Types, step: Step) -> Result<String> {
    Ok(match step {
        Step::Name(name) | Step::Captured(name) => format!(".{}", types.string(name)?.as_deref().unwrap_or("?")),
        Step::Slot(class, offset) => {
            let class = types.class_at(class)?;
            let slot = class.as_ref().and_then(|class| class.slots.iter().find(|(place, _)| *place == offset));
            format!(".{}", slot.map_or("?", |(_, name)| name))
        }
        Step::Item => "[]".to_owned(),
        Step::Place(number) => format!("[{number}]"),
        Step::Key => "(key)".to_owned(),
        Step::Class => ".__class__".to_owned(),
        Step::Field(offset) | Step::Beside(offset) => format!("+{offset}"),
        Step::Root(_) | Step::Own | Step::Content => String::new(),
    })
}

fn mostly(walk: &Walk, place: u32) -> Result<Mostly> {
    let mut is_below = filled(walk.places.len(), false)?;
    let mut bytes: HashMap<u32, u64> = HashMap::new();
    for (number, each) in walk.places.iter().enumerate().skip(place as usize) {
        let is_it = number == place as usize;
        if is_it || is_below.get(each.parent as usize).copied().unwrap_or(false) {
            is_below[number] = true;
            bytes.try_reserve(1)?;
            let sum = bytes.entry(each.class).or_insert(0);
            *sum = sum.saturating_add(each.bytes);
        }
    }
    let most = bytes.into_iter().filter(|(class, _)| *class != NONE).max_by_key(|(class, sum)| (*sum, Reverse(*class)));
    let (class, bytes) = most.unwrap_or((NONE, 0));
    Ok(Mostly { class: walk.types.class_name(class), bytes })
}
