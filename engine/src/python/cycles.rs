//! Objects that only lead to each other: what the collector would free, found as it does it.
//!
//! What it tracks is in rings, through the two words in front of each object. Of those to which no way led, an object
//! lives that has more references than the others explain, with all that it leads to. References that are not surely an
//! object's own explain nothing, so that rather too little is found.

use std::collections::{HashMap, HashSet};

use super::objects::Step;
use super::paths::step_text;
use super::types::{Class, Shape, Types, NONE};
use super::walk::Walk;
use crate::failure::{filled, include, insert, push, Control, Pace, Result};

const COLLECTED: u64 = 1 << 14;
/// From an object back to its links; the bits of them that are flags.
const LINKS: u64 = 16;
const FLAGS: u64 = 3;
/// The rings of generations begin in places so far from each other.
const GENERATION: u64 = 24;
const GENERATIONS: u64 = 3;
const MOST: usize = 1 << 28;
/// Where rings begin; and objects that are damaged.
const MOST_HEADS: usize = 1 << 10;
/// From here on a count says that an object is never freed (3.12).
const IMMORTAL: u64 = 1 << 30;
/// Objects that are looked at for a way round.
const MOST_OF_WAY: usize = 1 << 14;

/// The objects of one class that nothing else leads to.
pub struct Garbage {
    /// Those of classes of the program's own before others.
    pub classes: Vec<(u32, Vec<u64>)>,
    pub numbers: HashMap<u64, u32>,
}

/// Marks what was met in rings.
struct Rings<'a, 'b> {
    walk: &'a Walk<'b>,
    is_met: Vec<bool>,
    others: Vec<u64>,
    numbers: HashMap<u64, u32>,
    heads: Vec<u64>,
}

impl Rings<'_, '_> {
    fn link(&self, links: u64, offset: u64) -> Option<u64> {
        self.walk.types.memory.word(links.checked_add(offset)?).map(|word| word & !FLAGS)
    }

    /// Whether the next one leads back.
    fn is_linked(&self, links: u64) -> bool {
        let next = self.link(links, 0).filter(|next| *next != 0);
        next.and_then(|next| self.link(next, 8)) == Some(links)
    }

    /// Follows the ring in which these links are.
    fn follow(&mut self, first: u64, pace: &mut Pace) -> Result<()> {
        let mut at = first;
        while self.is_linked(at) {
            pace.step()?;
            let object = at.saturating_add(LINKS);
            match self.walk.find(object) {
                Some(number) if std::mem::replace(&mut self.is_met[number as usize], true) => return Ok(()),
                Some(_) => {}
                None if self.numbers.contains_key(&object) || self.heads.contains(&at) => return Ok(()),
                None if self.walk.types.of(object)? != NONE => {
                    if self.others.len() >= MOST {
                        return Ok(());
                    }
                    insert(&mut self.numbers, object, self.others.len() as u32)?;
                    push(&mut self.others, object)?;
                }
                None if self.heads.len() >= MOST_HEADS => return Ok(()),
                None => push(&mut self.heads, at)?,
            }
            at = self.link(at, 0).unwrap_or(0);
        }
        Ok(())
    }
}

/// Whether all that such an object has are its own.
fn is_exact(class: &Class) -> bool {
    const KNOWN: [&str; 6] = ["method", "functools.partial", "property", "classmethod", "staticmethod", "mappingproxy"];
    class.shape == Shape::Function || class.shape == Shape::Plain && KNOWN.contains(&&*class.name)
}

/// What the collector would free.
pub fn garbage(walk: &Walk, control: &Control) -> Result<Garbage> {
    let mut pace = Pace::new(control);
    let types = walk.types;
    let is_met = filled(walk.objects(), false)?;
    let mut rings = Rings { walk, is_met, others: Vec::new(), numbers: HashMap::new(), heads: Vec::new() };
    for number in 0..walk.objects() {
        pace.step()?;
        let object = walk.address(number);
        let class = types.of(object)?;
        if class != NONE && types.class(class).has(COLLECTED) && !rings.is_met[number] && object > LINKS {
            rings.follow(object - LINKS, &mut pace)?;
        }
    }
    // a generation of which nothing is needed
    for head in rings.heads.clone() {
        for number in 1..GENERATIONS {
            for other in [head.wrapping_add(number * GENERATION), head.wrapping_sub(number * GENERATION)] {
                rings.follow(other, &mut pace)?;
            }
        }
    }
    let Rings { others, numbers, .. } = rings;
    let mut left = filled(others.len(), 0i64)?;
    for (number, object) in others.iter().enumerate() {
        let count = types.memory.word(*object).unwrap_or(0) & 0xffff_ffff;
        left[number] = if count >= IMMORTAL { i64::MAX } else { count as i64 };
    }
    for object in &others {
        pace.step()?;
        visit(types, *object, |class, object, step| {
            let is_own = match step {
                Step::Field(_) => is_exact(class),
                // a tuple has these, which the function has
                Step::Captured(_) | Step::Beside(_) | Step::Class => false,
                _ => true,
            };
            if let (true, Some(number)) = (is_own, numbers.get(&object)) {
                left[*number as usize] -= 1;
            }
            Ok(())
        })?;
    }
    let mut lives = filled(others.len(), false)?;
    let mut todo = Vec::new();
    for number in 0..others.len() {
        if left[number] > 0 {
            lives[number] = true;
            push(&mut todo, number as u32)?;
        }
    }
    while let Some(number) = todo.pop() {
        pace.step()?;
        visit(types, others[number as usize], |_, object, _| match numbers.get(&object) {
            Some(number) if !std::mem::replace(&mut lives[*number as usize], true) => push(&mut todo, *number),
            _ => Ok(()),
        })?;
    }
    by_class(types, &others, &lives, numbers)
}

fn by_class(types: &Types, others: &[u64], lives: &[bool], mut numbers: HashMap<u64, u32>) -> Result<Garbage> {
    let mut classes: Vec<(u32, Vec<u64>)> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    for (object, lives) in others.iter().zip(lives) {
        let class = types.of(*object)?;
        if *lives || class == NONE {
            numbers.remove(object);
            continue;
        }
        places.try_reserve(1)?;
        let place = match places.get(&class) {
            Some(place) => *place,
            None => {
                push(&mut classes, (class, Vec::new()))?;
                places.insert(class, classes.len() - 1);
                classes.len() - 1
            }
        };
        push(&mut classes[place].1, *object)?;
    }
    let order = |(class, objects): &(u32, Vec<u64>)| (!types.class(*class).is_python, std::cmp::Reverse(objects.len()));
    classes.sort_by_key(order);
    Ok(Garbage { classes, numbers })
}

fn visit(types: &Types, object: u64, mut take: impl FnMut(&Class, u64, Step) -> Result<()>) -> Result<()> {
    let class = types.of(object)?;
    if class == NONE {
        return Ok(());
    }
    let class = types.class(class);
    types.visit(object, &class, true, &mut |object: u64, step: Step| take(&class, object, step))
}

/// How an object of a class leads to one of the same class, as a program writes it; "": it does not, or is too far.
pub fn way_round(types: &Types, garbage: &Garbage, class: u32, object: u64) -> Result<String> {
    let mut found = Vec::new();
    push(&mut found, (object, 0, Step::Own))?;
    // the nearest one, and from which object the step to it is
    let (mut end, mut known, mut from) = (None, HashSet::new(), 0);
    while end.is_none() && from < found.len() {
        let (object, _, step) = found[from];
        let number = types.of(object)?;
        if number != NONE {
            types.visit(object, &types.class(number), step == Step::Own, &mut |object: u64, step: Step| {
                let is_asked = end.is_none() && garbage.numbers.contains_key(&object) && step != Step::Key;
                if !is_asked || found.len() >= MOST_OF_WAY {
                    return Ok(());
                }
                if types.of(object)? == class {
                    end = Some((from, step));
                } else if include(&mut known, object)? {
                    push(&mut found, (object, from, step))?;
                }
                Ok(())
            })?;
        }
        from += 1;
    }
    let Some((mut at, last)) = end else { return Ok(String::new()) };
    let mut way = vec![last];
    while at != 0 {
        let (_, from, step) = found[at];
        push(&mut way, step)?;
        at = from;
    }
    let mut text = types.class_name(class);
    for step in way.into_iter().rev() {
        text.push_str(&step_text(types, step)?);
    }
    Ok(text)
}
