//! The C interface of CPython's objects: questions and answers are as in messages.rs.

use super::cycles::garbage;
use super::objects::Step;
use super::paths::{cycles, path, rows, sums, Mostly, Root};
use super::types::{Release, Shape, Types, Values};
use super::walk::Walk;
use crate::failure::{push, Control, Failure, Result};
use crate::image::Span;
use crate::messages::{answered, Answer, Asked, Tellable};
use crate::types::tracer::memory::{Malloc, Memory};
use crate::{Engine, Given, Table};

/// Words of an interpreter that are looked at for the dict of modules.
const MOST_WORDS: u64 = 1 << 20;

/// A function that runs: its code, where its variables begin, what is written in front of it.
struct Frame<'a> {
    code: u64,
    variables: u64,
    text: &'a str,
}

/// What lies below modules and frames, by the way to it. Asked is: what `Release` has; constants, where each
/// begins, its bytes; spans in which interpreters lie; frames, of each its code, where its variables begin and what
/// is written in front; addresses. Answered is: how many dicts of modules there are, how many objects, their bytes in
/// CPython's own pools, all bytes that pools have handed out, and rows (see `Row`), of caches whether they have no bound, hits, misses and what takes
/// most below (see `Mostly`); then what only leads to itself (see `Cycle`); then the way to the object that has
/// what lies at each address, and its class ("": there is none); then what there is of each class, what takes most
/// first: its name, objects, bytes.
#[no_mangle]
pub unsafe extern "C" fn arenascope_python(
    engine: &Engine,
    numbers: &Table,
    text: &Table,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let mut asked = Asked::of(numbers, text);
        let release = release(&mut asked)?;
        let constants: Vec<(u64, &[u8])> = asked.next()?;
        let spans = asked.list(|asked| Ok(Span { start: asked.next()?, end: asked.next()? }))?;
        let frames = asked.list(|asked| {
            let (code, variables, text) = asked.next()?;
            Ok(Frame { code, variables, text })
        })?;
        let addresses: Vec<u64> = asked.next()?;
        let malloc = Malloc::new(8, 16, 4096);
        if engine.image.word != 8 {
            return Err(Failure::BadInput);
        }
        let memory = Memory::new(&engine.image, &engine.blocks, malloc, &(), &[], &[])?;
        let types = Types::new(&memory, release, &constants);
        let mut walk = Walk::new(&types)?;
        for address in addresses {
            walk.ask(address)?;
        }
        let mut roots = Vec::new();
        let dicts = modules(&types, &spans)?;
        for dict in &dicts {
            add_modules(&mut walk, &mut roots, *dict)?;
        }
        // who reads a path knows a module better than a function that runs
        walk.follow(control)?;
        for frame in &frames {
            add_frame(&mut walk, &mut roots, frame)?;
        }
        walk.follow(control)?;
        walk.follow_rest(control)?;
        let found = rows(&walk, &roots)?;
        let objects = walk.objects();
        let garbage = garbage(&walk, control)?;
        let cycles = cycles(&mut walk, &garbage, roots.len() as u32, control)?;
        answer.add((dicts.len(), objects, walk.in_pools, walk.handed_out(control)?))?;
        answer.list(found.iter(), |answer, row| {
            answer.add((&row.path, &row.class, &row.key, &row.element, row.containers, row.elements, row.largest))?;
            answer.add((row.held_objects, row.held_bytes, row.sample))?;
            answer.list(row.cache.iter(), |answer, cache| {
                answer.add((cache.is_unbounded, cache.hits, cache.misses, &cache.mostly))
            })
        })?;
        answer.list(cycles.iter(), |answer, cycle| {
            answer.add((&cycle.class, &cycle.way, cycle.objects, cycle.held_objects, cycle.held_bytes))?;
            answer.add((cycle.sample, &cycle.mostly))
        })?;
        let told: Vec<_> = walk.told().collect();
        answer.list(told.into_iter(), |answer, told| {
            let Some((place, object)) = told else { return answer.add([""; 2]) };
            // what only leads to itself has no root
            answer.add(path(&walk, &roots, place)?)?;
            answer.add(types.class_name(types.of(object)?))
        })?;
        let sums = sums(&walk)?;
        answer.list(sums.iter(), |answer, (name, sum)| answer.add((name, sum.objects, sum.bytes)))
    })
}

impl Tellable for Mostly {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add((&self.class, self.bytes))
    }
}

fn release(asked: &mut Asked) -> Result<Release> {
    Ok(Release {
        type_type: asked.next()?,
        letters: asked.next()?,
        has_logs: asked.next()?,
        values: match asked.next::<i64>()? {
            0 => Values::None,
            1 => Values::Beside,
            2 => Values::Odd,
            3 => Values::Inline,
            _ => return Err(Failure::BadInput),
        },
        function_code: asked.next()?,
        function_closure: asked.next()?,
        code_names: [asked.next()?, asked.next()?, asked.next()?],
        code_qualname: asked.next()?,
        type_keys: asked.next()?,
        generator_frame: asked.next()?,
        frame_variables: asked.next()?,
        frame_code: asked.next()?,
    })
}

/// Notes the names of a dict or of a frame, with what goes by them.
fn names_of(to: &mut Vec<(u64, u64)>) -> impl FnMut(u64, Step) -> Result<()> + '_ {
    |object, step| match step {
        Step::Name(name) => push(to, (name, object)),
        _ => Ok(()),
    }
}

/// Interpreters' dicts of modules: each has `sys` and `builtins`, which are modules.
fn modules(types: &Types, spans: &[Span]) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    let mut left = MOST_WORDS;
    for span in spans {
        let mut at = span.start;
        while at < span.end && left > 0 {
            left -= 1;
            let word = types.memory.word(at).unwrap_or(0);
            at = at.saturating_add(8);
            if word == 0 || found.contains(&word) || types.shape(word)? != Some(Shape::Dict) {
                continue;
            }
            let mut are_modules = true;
            for name in ["sys", "builtins"] {
                let named = if are_modules { types.named(word, name)? } else { None };
                are_modules = named.is_some() && types.shape(named.unwrap_or(0))? == Some(Shape::Module);
            }
            if are_modules {
                push(&mut found, word)?;
            }
        }
    }
    Ok(found)
}

/// The program's own first.
fn add_modules(walk: &mut Walk, roots: &mut Vec<Root>, dict: u64) -> Result<()> {
    let types = walk.types;
    let mut pairs = Vec::new();
    types.each_pair(dict, &mut names_of(&mut pairs))?;
    let mut named = Vec::new();
    for (name, module) in pairs {
        let text = types.string(name)?.unwrap_or_else(|| "?".to_owned());
        push(&mut named, (text != "__main__", text, module))?;
    }
    named.sort_by_key(|(is_other, _, _)| *is_other);
    for (_, text, module) in named {
        if types.shape(module)?.is_some() {
            walk.start(module, roots.len() as u32, None)?;
            push(roots, Root { text, is_frame: false })?;
        }
    }
    Ok(())
}

fn add_frame(walk: &mut Walk, roots: &mut Vec<Root>, frame: &Frame) -> Result<()> {
    let types = walk.types;
    let mut pairs = Vec::new();
    types.variables(frame.code, frame.variables, &mut names_of(&mut pairs))?;
    let name = frame.code.checked_add(types.release.code_qualname).and_then(|place| types.memory.word(place));
    let name = types.string(name.unwrap_or(0))?.unwrap_or_else(|| "?".to_owned());
    let number = roots.len() as u32;
    push(roots, Root { text: format!("{}{name}(): ", frame.text), is_frame: true })?;
    for (name, object) in pairs {
        walk.start(object, number, Some(Step::Name(name)))?;
    }
    Ok(())
}
