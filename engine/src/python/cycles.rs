//! Objects that only lead to each other: what the collector would free, found as it does it.
//!
//! What it tracks is in rings, through the two words in front of each object. Of those to which no way led, an object lives
//! that has more references than the others explain, with all that it leads to. References that are not surely an object's own
//! explain nothing, so that rather too little is found.

use std::collections::HashMap;

use super::objects::{Step, Visitor};
use super::paths::step_text;
use super::types::{Class, Shape, Types, NONE};
use super::walk::Walk;
use crate::failure::{filled, insert, push, Control, Pace, Result};

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

/// Counts references among objects that no way led to.
struct Counting<'a> {
    numbers: &'a HashMap<u64, u32>,
    left: &'a mut [i64],
    /// All that its object has are its own.
    is_exact: bool,
}

impl Visitor for Counting<'_> {
    fn meet(&mut self, object: u64, step: Step) -> Result<()> {
        let is_own = match step {
            Step::Field(_) => self.is_exact,
            // a tuple has these, which the function has
            Step::Captured(_) | Step::Class => false,
            _ => true,
        };
        if let (true, Some(number)) = (is_own, self.numbers.get(&object)) {
            self.left[*number as usize] -= 1;
        }
        Ok(())
    }

    fn keep(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// What lives, and leads to others.
struct Living<'a> {
    numbers: &'a HashMap<u64, u32>,
    lives: &'a mut [bool],
    todo: Vec<u32>,
}

impl Visitor for Living<'_> {
    fn meet(&mut self, object: u64, _: Step) -> Result<()> {
        match self.numbers.get(&object) {
            Some(number) if !std::mem::replace(&mut self.lives[*number as usize], true) => {
                push(&mut self.todo, *number)
            }
            _ => Ok(()),
        }
    }

    fn keep(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

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
        visit(types, *object, |class| Counting { numbers: &numbers, left: &mut left, is_exact: is_exact(class) })?;
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
        let mut living = Living { numbers: &numbers, lives: &mut lives, todo };
        visit_with(types, others[number as usize], &mut living)?;
        todo = living.todo;
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

fn visit<V: Visitor>(types: &Types, object: u64, make: impl FnOnce(&Class) -> V) -> Result<()> {
    let class = types.of(object)?;
    if class == NONE {
        return Ok(());
    }
    let class = types.class(class);
    types.visit(object, &class, true, &mut make(&class))
}

fn visit_with(types: &Types, object: u64, to: &mut impl Visitor) -> Result<()> {
    let class = types.of(object)?;
    if class == NONE {
        return Ok(());
    }
    types.visit(object, &types.class(class), true, to)
}

/// Finds the nearest object of a class behind another one.
struct Round<'a> {
    types: &'a Types<'a>,
    numbers: &'a HashMap<u64, u32>,
    class: u32,
    found: Vec<(u64, usize, Step)>,
    known: HashMap<u64, ()>,
    from: usize,
    end: Option<(usize, Step)>,
}

impl Visitor for Round<'_> {
    fn meet(&mut self, object: u64, step: Step) -> Result<()> {
        let is_asked = self.end.is_none() && self.numbers.contains_key(&object) && step != Step::Key;
        if !is_asked || self.found.len() >= MOST_OF_WAY {
            return Ok(());
        }
        if self.types.of(object)? == self.class {
            self.end = Some((self.from, step));
            return Ok(());
        }
        if !self.known.contains_key(&object) {
            insert(&mut self.known, object, ())?;
            push(&mut self.found, (object, self.from, step))?;
        }
        Ok(())
    }

    fn keep(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// How an object of a class leads to one of the same class, as a program writes it; "": it does not, or is too far.
pub fn way_round(types: &Types, garbage: &Garbage, class: u32, object: u64) -> Result<String> {
    let mut found = Vec::new();
    push(&mut found, (object, 0, Step::Own))?;
    let numbers = &garbage.numbers;
    let mut round = Round { types, numbers, class, found, known: HashMap::new(), from: 0, end: None };
    while round.end.is_none() && round.from < round.found.len() {
        let (object, _, step) = round.found[round.from];
        let number = types.of(object)?;
        if number != NONE {
            let kind = types.class(number);
            let is_namespace = step == Step::Own;
            types.visit(object, &kind, is_namespace, &mut round)?;
        }
        round.from += 1;
    }
    let Some((mut at, last)) = round.end else { return Ok(String::new()) };
    let mut way = vec![last];
    while at != 0 {
        let (_, from, step) = round.found[at];
        push(&mut way, step)?;
        at = from;
    }
    let mut text = types.class(class).name.to_string();
    for step in way.into_iter().rev() {
        text.push_str(&step_text(types, step)?);
    }
    Ok(text)
}
