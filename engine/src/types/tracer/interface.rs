//! The C interface of the tracer: questions and answers as in messages.rs, tables of blocks' names.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use super::containers::forms::Text;
use super::containers::LIBRARIES;
use super::duplicates::Same;
use super::layouts::{Layouts, TypeTable};
use super::memory::{Malloc, Memory};
use super::modules::LoadedModules;
use super::names::{At, BlockName, NameForm, Proof, NONE};
use super::objects::Objects;
use super::reading::{contents, nature, Contents, Nature};
use super::rows::{rows, Elements, Known, RowForm};
use super::rules::{ConditionRow, RuleRow, Rules, CHARACTERS};
use super::trace::{Named, Start, Tracer};
use super::unlisted::Unlisted;
use super::values::{
    matching, values, ways_to, Asked as MatchingAsked, Comparison, Condition, Key, Measured, Member, MemberForm,
    Operand, Question, Split, Step, Tally, Use, Uses, Value, Ways,
};
use super::waste::{waste, Reason};
use crate::failure::{copied, insert, push, with_room, Control, Failure, Result};
use crate::image::Span;
use crate::messages::{answered, told_as_numbers, Answer, Asked, Tellable};
use crate::resident_pages::Present;
use crate::types::dwarf::program::Program;
use crate::types::facts::TypeId;
use crate::{boxed, close, gives, Engine, Given, Table};

/// What memory is besides its bytes.
struct Ground {
    malloc: Malloc,
    mapped: Vec<Span>,
    alone: Vec<u64>,
    modules: Vec<Span>,
}

impl Ground {
    fn asked(asked: &mut Asked, word: u64) -> Result<Ground> {
        let (align, page): (u64, u64) = asked.next()?;
        if !align.is_power_of_two() || align > 1 << 16 || page > 1 << 32 {
            return Err(Failure::BadInput);
        }
        let malloc = Malloc::new(word, align, page);
        Ok(Ground { malloc, mapped: spans(asked)?, alone: asked.next()?, modules: spans(asked)? })
    }

    fn memory<'a>(&'a self, engine: &'a Engine, modules: &'a LoadedModules) -> Result<Memory<'a>> {
        Memory::new(&engine.image, &engine.blocks, self.malloc, modules, &self.mapped, &self.alone)
    }
}

/// In order.
fn spans(asked: &mut Asked) -> Result<Vec<Span>> {
    let found = asked.list(|asked| Ok(Span { start: asked.next()?, end: asked.next()? }))?;
    let is_in_order = found.windows(2).all(|pair| pair[0].end <= pair[1].start);
    if !is_in_order || found.iter().any(|span| span.end < span.start) {
        return Err(Failure::BadInput);
    }
    Ok(found)
}

fn start(asked: &mut Asked) -> Result<Start> {
    let (of, place, value, frame, label, code, words): (_, _, _, _, &str, _, _) = asked.next()?;
    Ok(Start { label: label.into(), of, place, value, frame, code, words })
}

fn rules(asked: &mut Asked) -> Result<Rules> {
    let (mut rows, mut members, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
    for line in 0..asked.next()? {
        let (is_inside, inside, target): (_, _, Option<TypeId>) = asked.next()?;
        let (offset, back, is_array, and_more, member): (_, _, _, _, &str) = asked.next()?;
        let target = target.unwrap_or(CHARACTERS);
        push(&mut members, member.into())?;
        push(&mut rows, RuleRow { inside, target, offset, back, is_inside, is_array, and_more })?;
        for _ in 0..asked.next::<usize>()? {
            let (of_target, offset, size, signed, sign, value) = asked.next()?;
            push(&mut conditions, ConditionRow { offset, size, value, line, of_target, signed, sign })?;
        }
    }
    Rules::new(&rows, &members, &conditions)
}

/// What was traced.
pub struct Traced {
    ground: Ground,
    layouts: Rc<Layouts>,
    rules: Rc<Rules>,
    starts: Vec<Start>,
    named: Named,
    names: Vec<BlockName>,
    steps: Vec<Rc<str>>,
    damaged: BTreeMap<Rc<str>, u64>,
    contradicted: Vec<u64>,
}

impl Traced {
    fn known<'a>(&'a self, memory: &'a Memory<'a>) -> Result<Known<'a>> {
        let Traced { layouts, starts, named, names, steps, .. } = self;
        if named.name.len() > memory.blocks.len() {
            return Err(Failure::BadInput);
        }
        Ok(Known { memory, layouts, named, names, steps, starts })
    }

    /// Looks at what was traced once more, with the rules that it was traced by.
    fn look<R>(
        &self,
        engine: &Engine,
        program: &Program,
        control: &Control,
        look: impl FnOnce(&Known, &mut Objects) -> Result<R>,
    ) -> Result<R> {
        self.with_tracer(engine, program, self.rules.clone(), control, |memory, tracer| {
            look(&self.known(memory)?, &mut tracer.objects)
        })
    }

    fn with_tracer<R>(
        &self,
        engine: &Engine,
        program: &Program,
        rules: Rc<Rules>,
        control: &Control,
        look: impl FnOnce(&Memory, &mut Tracer) -> Result<R>,
    ) -> Result<R> {
        let modules = LoadedModules::new(&engine.image, &program.debug.modules);
        let memory = self.ground.memory(engine, &modules)?;
        look(&memory, &mut Tracer::new(&memory, self.layouts.clone(), &self.ground.modules, rules, control)?)
    }
}

/// Names the live blocks by types. Asked is: what blocks are aligned to, a page's bytes; ranges that are mapped, where
/// blocks begin that malloc mapped by themselves, ranges of modules; variables, each with its type, its place or NONE,
/// its value or NONE, its frame or NONE, its label, its code, its words (see `Start`); lines of rules, each as
/// `RuleRow` has it, NONE for characters, with the member's name, and its conditions as `ConditionRow` has them.
#[no_mangle]
pub unsafe extern "C" fn arenascope_trace(
    engine: &Engine,
    program: &Rc<Program>,
    questions: &Table,
    text: &Table,
    control: &Control,
    to: &mut *mut Traced,
) -> i32 {
    gives(to, || {
        let mut asked = Asked::of(questions, text);
        let ground = Ground::asked(&mut asked, engine.image.word)?;
        let (starts, rules) = (asked.list(start)?, rules(&mut asked)?);
        let ruled: HashSet<Box<str>> = rules.members().map(Box::from).collect();
        let types = Rc::new(TypeTable::new(program.clone(), engine.image.word));
        let layouts = Rc::new(Layouts::new(types, LIBRARIES, ruled));
        let modules = LoadedModules::new(&engine.image, &program.debug.modules);
        let (memory, rules) = (ground.memory(engine, &modules)?, Rc::new(rules));
        let mut tracer = Tracer::new(&memory, layouts.clone(), &ground.modules, rules.clone(), control)?;
        tracer.trace(&starts)?;
        let contradicted = tracer.contradicted()?;
        let Tracer { named, objects, .. } = tracer;
        let Objects { names, damaged, .. } = objects;
        let (names, steps, damaged) = (names.names, names.steps.all, damaged.into_iter().collect());
        Ok(boxed(Traced { ground, layouts, rules, starts, named, names, steps, damaged, contradicted }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_close(traced: *mut Traced) {
    close(traced);
}

/// Of each live block its name (of 32 bits, -1 for none), level (of 8), parent (of 32), step (of 16), number and
/// elements (of 32): see `Named`. They are empty if no block has a name, and stay as long as `traced` does.
#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_tables(traced: &Traced, to: &mut [Table; 6]) -> i32 {
    gives(to, || {
        let Named { name, level, parent, step, number, elements, .. } = &traced.named;
        let (name, level, parent) = (Table::from(name), Table::from(level), Table::from(parent));
        Ok([name, level, parent, Table::from(step), Table::from(number), Table::from(elements)])
    })
}

/// Names, each its text, form, type or NONE, front, whether it leads on, label (see `BlockName`), of how many blocks it
/// is sure; steps; containers that did not prove themselves, by type; how many blocks each line of the rules says
/// something wrong of; enclosing structs' blocks; types that were made up, each with its number, its facts, its key if
/// it has one, and the type of which it is one without all of its last member, or NONE; numbers of types that were met.
#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_names(traced: &Traced, to: &mut [Given; 2]) -> i32 {
    answered(to, |answer| {
        let sure = traced.named.sure(traced.names.len())?;
        answer.list(traced.names.iter().zip(sure), |answer, (name, sure)| {
            answer.add((&name.text, name.form, name.of, name.front, name.words, &name.label, sure))
        })?;
        answer.add(&traced.steps)?;
        answer.list(traced.damaged.iter(), Answer::add)?;
        answer.add((&traced.contradicted, &traced.named.enclosing))?;
        let types = &traced.layouts.types;
        let wholes = types.wholes();
        let met = types.met();
        let made_up: Vec<TypeId> = met.iter().copied().filter(|of| *of < 0).collect();
        answer.list(made_up.into_iter(), |answer, of| {
            answer.add((of, types.facts(of)?, types.key(of).as_slice(), wholes.get(&of)))
        })?;
        answer.add(types.met())
    })
}

/// How well blocks that begin at `starts` (of 64 bits) agree with each of `types` (of 32 bits): two numbers of 32 bits
/// for each, in how many no word contradicts it, and in how many of these some word shows it.
#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_fitting(
    engine: &Engine,
    program: &Rc<Program>,
    traced: &Traced,
    types: &Table,
    starts: &Table,
    to: &mut Given,
) -> i32 {
    let fitting = |_: &Memory, tracer: &mut Tracer| {
        let types: &[TypeId] = types.of();
        let mut found = with_room(2 * types.len())?;
        for of in types {
            let layout = traced.layouts.of(*of)?;
            let (mut agreeing, mut proven) = (0u32, 0u32);
            for start in starts.of::<u64>() {
                let mut claims = Vec::new();
                let bad = tracer.objects.scan(&layout, *start, &At::proving(Proof::Any), 0, &mut claims)?;
                agreeing += u32::from(bad == 0);
                proven += if bad == 0 { claims.len() as u32 } else { 0 };
            }
            found.extend([agreeing, proven]);
        }
        Ok(Given::of(found))
    };
    gives(to, || traced.with_tracer(engine, program, Rc::default(), &Control::default(), fitting))
}

/// By which step a block leads to another, "" where types do not tell: of each two of `pairs`, which are blocks'
/// numbers of 32 bits.
#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_steps(
    engine: &Engine,
    program: &Rc<Program>,
    traced: &Traced,
    pairs: &Table,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        traced.with_tracer(engine, program, Rc::default(), &Control::default(), |_, tracer| {
            for pair in pairs.of::<u32>().chunks_exact(2) {
                let Named { name, elements, .. } = &traced.named;
                let told = name.get(pair[0] as usize).and_then(|name| traced.names.get(*name as usize));
                let elements = elements.get(pair[0] as usize).copied().unwrap_or(0);
                answer.add(tracer.step_between(told, elements, pair[0], pair[1])?)?;
            }
            Ok(())
        })
    })
}

/// Containers by the way to them: each its path, type, form, links, containers, elements (how many, in the largest,
/// buckets or NONE, longest chain or NONE), blocks and bytes held, those that match to which the path leads, where a
/// block of the largest begins, whether it is certain, its elements' struct (see `Row`). `matching`: a byte for each
/// block, 1 for those that match; or none.
#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_rows(
    engine: &Engine,
    program: &Rc<Program>,
    traced: &Traced,
    matching: &Table,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let matching = matching.of();
        let found = traced.look(engine, program, control, |known, objects| {
            if matching.is_empty() {
                return rows(known, &[], &Ways::default(), control);
            }
            let those = (0..known.named.name.len()).zip(matching).filter(|(_, is_match)| **is_match == 1);
            let names = those.map(|(block, _)| known.name(block)).filter(|name| *name != NONE).collect();
            rows(known, matching, &ways_to(known, objects, &names, control)?, control)
        })?;
        answer.list(found.iter(), |answer, row| {
            answer.add((&row.path, &row.of, row.form))?;
            answer.list(row.links.iter(), Answer::add)?;
            let Elements { number, largest, buckets, longest_chain } = row.elements;
            answer.add((row.containers, number, largest, buckets, longest_chain))?;
            answer.add([row.held_blocks, row.held_bytes, row.matching_blocks, row.matching_bytes])?;
            answer.add((row.sample, row.certain, &row.element))
        })
    })
}

told_as_numbers!(NameForm, RowForm, Reason);

/// What of live blocks is not needed, by the way to it: each row its reason, path, type, whether it is certain, how
/// many there are on that path, and of those that are meant: how many, elements, bytes in use, bytes of room, of what
/// is unused what is in memory or NONE, where a block of the largest begins, whether they are texts, and of duplicates
/// the most frequent contents, where each begins, its bytes, how many there are; of what is unlisted the list that
/// lacks it, the member that keeps it apart, its value in what is listed and in the others (see `Waste`). `present`:
/// what is in memory, in order; `is_known`: whether that is known.
#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_waste(
    engine: &Engine,
    program: &Rc<Program>,
    traced: &Traced,
    present: &Table,
    is_known: u32,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let present = Present::new(present.of())?;
        let present = Some(&present).filter(|_| is_known != 0);
        let found = traced.look(engine, program, control, |known, objects| waste(known, objects, present, control))?;
        answer.list(found.iter(), |answer, row| {
            let sum = &row.sum;
            answer.add((row.reason, &row.path, &row.of, row.certain))?;
            answer.add((row.total, sum.number, sum.elements, sum.used, sum.room, row.resident, sum.sample))?;
            answer.add((row.is_text, &row.frequent, row.unlisted.as_slice()))
        })
    })
}

impl Tellable for Same {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add([self.start, self.bytes, self.number])
    }
}

impl Tellable for Unlisted {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add((&self.other, &self.member, self.values))
    }
}

/// As `arenascope_traced_values` has them.
fn uses(asked: &mut Asked) -> Result<Uses> {
    let mut found = Uses::new();
    for _ in 0..asked.next::<usize>()? {
        let (name, is_text, element, offsets) = asked.next()?;
        insert(&mut found, name, Use { offsets, element, is_text })?;
    }
    Ok(found)
}

fn member(asked: &mut Asked) -> Result<Member> {
    let (form, offset, size, splits, first, second): (i64, _, _, _, u64, u64) = asked.next()?;
    let of = || TypeId::try_from(first as i64).map_err(|_| Failure::BadInput);
    let form = match form {
        0 => MemberForm::Unsigned,
        1 => MemberForm::Signed,
        2 => MemberForm::Float,
        3 | 4 if (1..=64).contains(&second) && first < 8 => {
            MemberForm::Bits { first, count: second, signed: form == 4 }
        }
        5 => MemberForm::Characters,
        6 => MemberForm::Array,
        7 => MemberForm::Contents(of()?),
        8 => MemberForm::Variant(of()?),
        9 => MemberForm::Flexible(of()?),
        10 if matches!(second, 1 | 2 | 4) => MemberForm::View { length: first, letter: second },
        _ => return Err(Failure::BadInput),
    };
    Ok(Member { form, offset, size, splits })
}

fn operand(asked: &mut Asked) -> Result<Operand> {
    Ok(match asked.next::<i64>()? {
        0 => Operand::Member(member(asked)?),
        1 => Operand::Value(Value::Null),
        2 => {
            let (high, low): (i64, u64) = asked.next()?;
            Operand::Value(Value::Number(i128::from(high) << 64 | i128::from(low)))
        }
        3 => Operand::Value(Value::Float(f64::from_bits(asked.next()?))),
        4 => Operand::Value(Value::Text(copied(asked.next()?)?)),
        _ => return Err(Failure::BadInput),
    })
}

fn step(asked: &mut Asked) -> Result<Step> {
    Ok(match asked.next::<i64>()? {
        0 => {
            let (left, comparison) = (operand(asked)?, asked.next::<usize>()?);
            let comparison = *Comparison::ALL.get(comparison).ok_or(Failure::BadInput)?;
            Step::Compare(left, comparison, operand(asked)?)
        }
        1 => Step::And,
        2 => Step::Or,
        3 => Step::Not,
        _ => return Err(Failure::BadInput),
    })
}

fn condition(asked: &mut Asked) -> Result<Option<Condition>> {
    let steps = asked.list(step)?;
    if steps.is_empty() {
        return Ok(None);
    }
    Condition::new(steps).map(Some)
}

impl Tellable for Key {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        match self {
            Key::Null => answer.add(1),
            Key::Number(number) => answer.add((2, *number)),
            Key::Float(bits) => answer.add((3, *bits)),
            Key::Text(text, _) => {
                answer.add(4)?;
                answer.bytes(text)
            }
        }
    }
}

impl Tellable for Tally {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add((self.objects, self.unreadable, self.nulls, self.is_text))?;
        match self.measured {
            Measured::Nothing => answer.add(0)?,
            Measured::Numbers { least, greatest, sum } => answer.add((1, least, greatest, sum))?,
            Measured::Floats { least, greatest, sum } => answer.add((2, [least, greatest, sum].map(f64::to_bits)))?,
        }
        answer.add((i128::try_from(self.apart).unwrap_or(0), self.distinct()))?;
        answer.list(self.frequent().iter(), |answer, each| answer.add((&each.key, each.objects, each.guessed)))
    }
}

impl Tellable for Split {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add(self.member)?;
        answer.list(self.parts.iter(), |answer, part| answer.add((&part.key, part.objects, &part.ways)))
    }
}

/// The members of all objects of a type. Asked is: of how many names of blocks, each its number, whether the block is a
/// text, bytes of an array's element, and where objects lie in it; the members, each as `member` reads it; the steps of
/// a condition, if there is one, each as `condition` reads it. Answered is: objects, blocks, those of both that are
/// named by a guess, objects of which the condition cannot be read, the numbers of names of blocks with objects; of
/// each member its `Tally`; paths; members that keep objects apart, each its number, and of each value this, how many
/// objects have it, and the numbers of the paths that lead to them, and to how many (see `Found`).
#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_values(
    engine: &Engine,
    program: &Rc<Program>,
    traced: &Traced,
    questions: &Table,
    text: &Table,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let mut asked = Asked::of(questions, text);
        let uses = uses(&mut asked)?;
        let members = asked.list(member)?;
        let question = Question { uses, members, condition: condition(&mut asked)? };
        let found =
            traced.look(engine, program, control, |known, objects| values(known, objects, &question, control))?;
        answer.add([found.objects, found.blocks, found.guessed_objects, found.guessed_blocks, found.unknown])?;
        answer.add((&found.names, &found.tallies, &found.paths, &found.splits))
    })
}

/// Of each block a byte, whether a condition holds for an object in it (see `matching`). Asked is: conditions, each
/// with the names of blocks and its steps, as `arenascope_traced_values` has them. Answered is of each how many objects
/// there are, for how many it holds, of how many it cannot be read, and how many that match are named by a guess.
#[no_mangle]
pub unsafe extern "C" fn arenascope_traced_matching(
    engine: &Engine,
    program: &Rc<Program>,
    traced: &Traced,
    questions: &Table,
    text: &Table,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    gives(to, || {
        let mut asked = Asked::of(questions, text);
        let every = asked.list(|asked| {
            let uses = uses(asked)?;
            let condition = condition(asked)?.ok_or(Failure::BadInput)?;
            Ok(MatchingAsked { uses, condition })
        })?;
        let (flags, sums) = traced.look(engine, program, control, |known, _| matching(known, &every, control))?;
        let mut numbers = with_room(4 * sums.len())?;
        for sum in sums {
            numbers.extend([sum.objects, sum.matching, sum.unknown, sum.guessed]);
        }
        Ok([Given::of(numbers), Given::of(flags)])
    })
}

/// What reads objects of types that were traced, and its modules.
pub struct OpenReading {
    layouts: Rc<Layouts>,
    // it has the modules, so that it goes first
    memory: Memory<'static>,
    _modules: Rc<LoadedModules<'static>>,
}

/// SAFETY: the caller promises that it stays, and that nobody changes it.
unsafe fn lasting<T: ?Sized>(of: &T) -> &'static T {
    &*(of as *const T)
}

/// What reads objects of the types that were traced. All that is given stays open and as it is until it is closed.
#[no_mangle]
pub unsafe extern "C" fn arenascope_reading_open(
    traced: &Traced,
    engine: &Engine,
    program: &Rc<Program>,
    to: &mut *mut OpenReading,
) -> i32 {
    gives(to, || {
        let (traced, engine, program) = (lasting(traced), lasting(engine), lasting(program));
        let modules = Rc::new(LoadedModules::new(&engine.image, &program.debug.modules));
        let memory = traced.ground.memory(engine, lasting(&*modules))?;
        Ok(boxed(OpenReading { layouts: traced.layouts.clone(), memory, _modules: modules }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn arenascope_reading_close(reading: *mut OpenReading) {
    close(reading);
}

/// Whether a type is a library's container, one of numbers, whether it is flexible: a bit for each (see `Nature`).
#[no_mangle]
pub unsafe extern "C" fn arenascope_reading_nature(open: &OpenReading, of: i32, to: &mut u32) -> i32 {
    gives(to, || {
        let Nature { is_container, is_of_numbers, is_flexible } = nature(&open.layouts, of)?;
        Ok(u32::from(is_container) | u32::from(is_of_numbers) << 1 | u32::from(is_flexible) << 2)
    })
}

/// What an object holds: whether it has elements, how many; whether it has a text, where that begins, its letters,
/// bytes of a letter (see `Contents`).
#[no_mangle]
pub unsafe extern "C" fn arenascope_reading_contents(
    open: &OpenReading,
    of: i32,
    address: u64,
    to: &mut [u64; 6],
) -> i32 {
    gives(to, || {
        let Contents { elements, text } = contents(&open.layouts, &open.memory, of, address)?;
        let Text { start, length, size } = text.unwrap_or(Text { start: 0, length: 0, size: 0 });
        let (has_elements, has_text) = (u64::from(elements.is_some()), u64::from(text.is_some()));
        Ok([has_elements, elements.unwrap_or(0), has_text, start, length, size])
    })
}
