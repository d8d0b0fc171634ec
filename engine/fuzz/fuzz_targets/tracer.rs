//! Types and memory that somebody made up, followed as a program's are.
#![no_main]

use std::rc::Rc;

use arbitrary::{Result, Unstructured};
use arenascope::blocks::Blocks;
use arenascope::failure::{Control, Failure};
use arenascope::image::{Image, Piece, Span};
use arenascope::types::facts::{Argument, BitField, Facts, Field, Form, Language, TypeId, TypeSource};
use arenascope::types::tracer::containers::LIBRARIES;
use arenascope::types::tracer::layouts::{Layouts, TypeTable};
use arenascope::types::tracer::memory::{Malloc, Memory, Modules, VtableClass};
use arenascope::types::tracer::rows::Known;
use arenascope::types::tracer::rules::{ConditionRow, RuleRow, Rules, CHARACTERS};
use arenascope::types::tracer::trace::{Start, Tracer};
use arenascope::types::tracer::waste::waste;
use libfuzzer_sys::fuzz_target;

const BASE: u64 = 0x5555_0000_0000;
const MODULE: u64 = 0x7f00_0000_0000;
const FORMS: [Form; 13] = [
    Form::Struct,
    Form::Union,
    Form::Array,
    Form::Pointer,
    Form::Reference,
    Form::Integer,
    Form::Character,
    Form::Boolean,
    Form::Float,
    Form::Enum,
    Form::Function,
    Form::Void,
    Form::Other,
];
const NAMES: [&str; 24] = [
    "",
    "a",
    "b",
    "u8",
    "a.b",
    "next",
    "std::vector<a, std::allocator<a>>",
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>",
    "std::map<a, b, std::less<a>, std::allocator<std::pair<a const, b>>>",
    "std::unordered_map<a, b>",
    "std::shared_ptr<a>",
    "std::unique_ptr<a, std::default_delete<a>>",
    "std::function<void ()>",
    "std::deque<a, std::allocator<a>>",
    "std::__1::vector<a, std::__1::allocator<a>>",
    "std::__1::map<a, b>",
    "std::variant<a, b>",
    "std::optional<a>",
    "alloc::vec::Vec<a, alloc::alloc::Global>",
    "std::collections::hash::map::HashMap<a, b, c>",
    "alloc::boxed::Box<dyn a, alloc::alloc::Global>",
    "_M_impl",
    "_M_start",
    "__begin_",
];

fuzz_target!(|data: &[u8]| {
    let _ = look(data);
});

struct Declared(Vec<Rc<Facts>>);

impl TypeSource for Declared {
    fn facts(&self, of: TypeId) -> arenascope::failure::Result<Rc<Facts>> {
        self.0.get(of as usize).cloned().ok_or(Failure::BadInput)
    }

    fn by_name(&self, name: &str) -> arenascope::failure::Result<Option<TypeId>> {
        Ok(self.0.iter().position(|facts| &*facts.name == name).map(|of| of as TypeId))
    }

    fn classes_at(&self, code: u64) -> arenascope::failure::Result<Vec<TypeId>> {
        Ok(vec![(code % self.0.len() as u64) as TypeId])
    }

    fn pointer_to(&self, of: TypeId) -> arenascope::failure::Result<TypeId> {
        Ok(self.0.iter().position(|facts| facts.target == Some(of)).unwrap_or(0) as TypeId)
    }

    fn structs(&self, _: bool) -> arenascope::failure::Result<Vec<(TypeId, u64)>> {
        Ok((0..).zip(&self.0).map(|(of, facts)| (of, facts.size)).collect())
    }

    fn structs_of_source_file(&self, _: u64, _: u64, _: u64) -> arenascope::failure::Result<Vec<TypeId>> {
        Ok((0..self.0.len() as TypeId).collect())
    }
}

struct Odd;

impl Modules for Odd {
    fn symbol(&self, address: u64) -> Option<Rc<str>> {
        Some(NAMES[address as usize % NAMES.len()].into())
    }

    fn has_symbol(&self, address: u64) -> bool {
        address % 3 == 0
    }

    fn vtable(&self, table: u64) -> Option<VtableClass> {
        Some(VtableClass { name: NAMES[table as usize % NAMES.len()].into(), top: -((table % 32) as i64) })
    }
}

fn size(input: &mut Unstructured) -> Result<u64> {
    Ok(if input.ratio(7, 8)? { input.int_in_range(0..=128)? } else { input.arbitrary()? })
}

fn field(input: &mut Unstructured, types: TypeId) -> Result<Field> {
    let name = input.choose(&NAMES)?;
    let (offset, of) = (size(input)?, input.int_in_range(0..=types - 1)?);
    Ok(Field { name: (*name).into(), offset, of, is_base: input.ratio(1, 8)? })
}

fn facts(input: &mut Unstructured, types: TypeId) -> Result<Facts> {
    let mut made = Facts::new(input.choose(&NAMES)?, *input.choose(&FORMS)?, size(input)?);
    made.target = if input.ratio(3, 4)? { Some(input.int_in_range(0..=types - 1)?) } else { None };
    made.length = if input.ratio(3, 4)? { Some(size(input)?) } else { None };
    for _ in 0..input.int_in_range(0..=5)? {
        made.fields.push(field(input, types)?);
    }
    for _ in 0..input.int_in_range(0..=3)? {
        made.arguments.push(Argument::Type(input.int_in_range(0..=types - 1)?));
    }
    made.polymorphic = input.ratio(1, 4)?;
    made.enumerators = vec![("A".into(), input.arbitrary()?)];
    made.language = *input.choose(&[Language::C, Language::CPlusPlus, Language::Rust])?;
    made.bits = vec![BitField { name: "bit".into(), offset: size(input)?, size: size(input)?, signed: false }];
    made.tag = if input.ratio(1, 4)? { Some(field(input, types)?) } else { None };
    Ok(made)
}

fn look(data: &[u8]) -> Result<()> {
    let mut input = Unstructured::new(data);
    let types = input.int_in_range(1..=24)?;
    let mut all = Vec::new();
    for _ in 0..types {
        all.push(Rc::new(facts(&mut input, types)?));
    }
    let mut sizes = Vec::new();
    for _ in 0..input.int_in_range(1..=24)? {
        sizes.push(32 + 16 * input.int_in_range(0..=12u64)?);
    }
    let starts: Vec<u64> = sizes.iter().scan(BASE + 16, |at, size| Some(std::mem::replace(at, *at + size))).collect();
    let ends: Vec<u64> = starts.iter().zip(&sizes).map(|(start, size)| start + size - 8).collect();
    let (mut rows, mut members, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
    for line in 0..input.int_in_range(0..=3)? {
        let target = if input.ratio(1, 4)? { CHARACTERS } else { input.int_in_range(0..=types - 1)? };
        rows.push(RuleRow {
            inside: input.int_in_range(0..=types - 1)?,
            target: if target == CHARACTERS && line == 0 { 0 } else { target },
            offset: size(&mut input)?,
            back: size(&mut input)?,
            is_inside: u32::from(line == 0),
            is_array: input.int_in_range(0..=1)?,
            and_more: input.int_in_range(0..=1)?,
        });
        members.push(Rc::from(*input.choose(&NAMES)?));
        let (offset, size, value) = (size(&mut input)?, size(&mut input)?, input.arbitrary()?);
        conditions.push(ConditionRow { offset, size, value, line, of_target: line % 2, signed: 1, sign: line });
    }
    let Ok(rules) = Rules::new(&rows, &members, &conditions) else { return Ok(()) };
    let mut variables = Vec::new();
    for number in 0..input.int_in_range(1..=6)? {
        let start = Start::new("v", input.int_in_range(0..=types - 1)?);
        let place = Some(BASE + 8 * input.int_in_range(0..=200u64)?).filter(|_| number % 3 != 2);
        let (value, frame) = (Some(*input.choose(&starts)?), Some(number).filter(|_| number % 2 > 0));
        let words = if place.is_none() { vec![*input.choose(&starts)?] } else { Vec::new() };
        variables.push(Start { place, value, frame, code: 1, words, ..start });
    }
    // what is not said leads to blocks
    let mut memory = input.take_rest().to_vec();
    for (number, word) in memory.chunks_exact_mut(8).enumerate() {
        match word[0] % 4 {
            0 => word.fill(0),
            1 => (),
            2 => word.copy_from_slice(&(MODULE + u64::from(word[1])).to_le_bytes()),
            _ => word.copy_from_slice(&starts[(number + usize::from(word[1])) % starts.len()].to_le_bytes()),
        }
    }
    let mut image = Image::new(8, false);
    let Ok(blocks) = Blocks::new(&starts, &ends, &sizes) else { return Ok(()) };
    if image.set(&[Piece::of(BASE, &memory)]).is_err() {
        return Ok(());
    }
    let control = Control::default();
    let mapped = [Span { start: BASE, end: BASE + 1_000_000 }];
    let modules = [Span { start: MODULE, end: MODULE + 4096 }];
    let malloc = Malloc::new(8, 16, 4096);
    let memory = Memory::new(&image, &blocks, malloc, &Odd, &mapped, &starts[..1]).expect("room");
    let ruled = rules.members().map(Box::from).collect();
    let layouts = Rc::new(Layouts::new(Rc::new(TypeTable::new(Rc::new(Declared(all)), 8)), LIBRARIES, ruled));
    let mut tracer = Tracer::new(&memory, layouts, &modules, Rc::new(rules), &control).expect("room");
    if tracer.trace(&variables).is_ok() {
        let _ = tracer.contradicted();
        let (layouts, names) = (tracer.objects.layouts.clone(), tracer.objects.names.names.clone());
        let (steps, named) = (tracer.objects.names.steps.all.clone(), std::mem::take(&mut tracer.named));
        let (layouts, named, names, steps) = (&layouts, &named, &names, &steps);
        let known = Known { memory: &memory, layouts, named, names, steps, starts: &variables };
        let _ = waste(&known, &mut tracer.objects, None, &control);
    }
    Ok(())
}
