//! What is looked up by address or by name: statics, functions and definitions of types, found in one pass over all
//! entries, in several threads.

use std::collections::HashSet;

use gimli::{constants as dw, Attribute, AttributeValue, DwTag, Expression, Operation};

use super::units::{Debug, Die, Unit, R};
use crate::failure::{joined, push, Control, Failure, Result};
use crate::types::facts::Language;

/// An entry that others lie in: a namespace, a type, a function. It is at `at` and ends before `end`.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub at: u32,
    pub end: u32,
    /// The number of the scope around it, or NONE.
    pub parent: u32,
}

pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placed {
    /// As the module was linked; of a thread-local variable the offset in its module's block.
    pub address: u64,
    pub die: Die,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code {
    /// As the module was linked.
    pub low: u64,
    pub high: u64,
    /// The function that has this part.
    pub die: Die,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    /// See `path`.
    pub path: u64,
    pub die: Die,
}

/// Of one module.
#[derive(Default)]
pub(super) struct Index {
    /// Static variables, by address.
    pub statics: Vec<Placed>,
    /// Thread-local variables, by offset.
    pub locals: Vec<Placed>,
    /// Parts of functions, by address.
    pub code: Vec<Code>,
    /// The longest of these.
    pub longest: u64,
    /// Of types that look alike one only; and of typedefs, which may name what has no name.
    pub definitions: Vec<Named>,
    /// Declarations of variables, by the name that the linker knows.
    pub declared: Vec<Named>,
}

/// Of all modules.
pub(super) struct Found {
    pub indexes: Vec<Index>,
    /// Definitions that are not yet in them, as their names are elsewhere, each with a mark that differs where types
    /// do.
    pub odd: Vec<(Die, u64)>,
}

/// What one thread finds.
#[derive(Default)]
struct Part {
    statics: Vec<Placed>,
    locals: Vec<Placed>,
    code: Vec<Code>,
    definitions: Vec<(Named, u64)>,
    /// Definitions whose names are elsewhere.
    odd: Vec<(Die, u64)>,
    declared: Vec<Named>,
    scopes: Vec<Vec<Scope>>,
    met: HashSet<(u64, u64)>,
}

/// In place of the hash of built-in types' names, which compilers write differently.
pub(super) const BASE: u64 = 1;

/// The hash of a name in what `outer` is the hash of: without template arguments, which are spelled in many ways.
pub(super) fn path(outer: u64, name: &[u8]) -> u64 {
    hashed(outer ^ 0x9e37_79b9_7f4a_7c15, head(name))
}

pub(super) fn head(name: &[u8]) -> &[u8] {
    // "<lambda(int)>" and operators begin with it
    let start = usize::from(name.first() == Some(&b'<'));
    let end = name.iter().skip(start).position(|letter| *letter == b'<').map_or(name.len(), |at| at + start);
    let end = name[..end].iter().rposition(|letter| *letter != b' ').map_or(0, |at| at + 1);
    &name[..end]
}

fn hashed(start: u64, bytes: &[u8]) -> u64 {
    let mut hash = start ^ 0xcbf2_9ce4_8422_2325;
    for each in bytes {
        hash = (hash ^ u64::from(*each)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 29)
}

pub(super) fn is_type(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_enumeration_type
            | dw::DW_TAG_interface_type
    )
}

/// Whether a name there has the names around it in front.
pub(super) fn has_prefixes(language: Language) -> bool {
    matches!(language, Language::CPlusPlus | Language::Rust)
}

/// An entry that others lie in, while these are read.
struct Level {
    depth: isize,
    /// Its number among the scopes.
    scope: u32,
    path: u64,
    /// The hash of its name with what is around it, template arguments included.
    whole: u64,
    /// The number of the definition that it is.
    definition: Option<usize>,
    /// Whether another entry tells its name, or of one around it.
    is_odd: bool,
}

/// What an entry says of itself.
#[derive(Default)]
struct Said {
    name: Option<R>,
    linkage_name: Option<R>,
    size: u64,
    line: u64,
    place: u64,
    is_declaration: bool,
    is_external: bool,
    specification: bool,
    location: Option<Expression<R>>,
    low: Option<u64>,
    high: Option<AttributeValue<R>>,
    ranges: Option<AttributeValue<R>>,
}

struct Scan<'a> {
    debug: &'a Debug,
    number: u32,
    unit: &'a Unit,
    part: &'a mut Part,
    scopes: Vec<Scope>,
    levels: Vec<Level>,
    /// The first of this unit's definitions in the part.
    first: usize,
}

impl Scan<'_> {
    fn run(&mut self) -> Result<()> {
        // as far as they can be read
        self.entries().unwrap_or(Ok(()))?;
        let end = self.unit.length();
        while let Some(level) = self.levels.pop() {
            self.scopes[level.scope as usize].end = end;
        }
        // types that look alike are found once
        let Part { definitions, met, .. } = &mut *self.part;
        met.try_reserve(definitions.len() - self.first)?;
        let mut kept = self.first;
        for at in self.first..definitions.len() {
            let (named, mark) = definitions[at];
            if met.insert((named.path, mark)) {
                definitions[kept] = (named, mark);
                kept += 1;
            }
        }
        definitions.truncate(kept);
        push(&mut self.part.scopes, std::mem::take(&mut self.scopes))
    }

    fn entries(&mut self) -> gimli::Result<Result<()>> {
        let mut raw = self.unit.inner.entries_raw(None)?;
        while !raw.is_empty() {
            let (at, depth) = (raw.next_offset().0 as u32, raw.next_depth());
            while self.levels.last().is_some_and(|level| level.depth >= depth) {
                let Some(level) = self.levels.pop() else { break };
                self.scopes[level.scope as usize].end = at;
            }
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            let tag = abbreviation.tag();
            if !matters(tag) {
                raw.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut said = Said::default();
            for each in abbreviation.attributes() {
                self.listen(&mut said, &raw.read_attribute(*each)?);
            }
            let taken = self.take(tag, at, depth, &said, abbreviation.has_children());
            if taken.is_err() {
                return Ok(taken);
            }
        }
        Ok(Ok(()))
    }

    fn listen(&self, said: &mut Said, attribute: &Attribute<R>) {
        let (dwarf, unit) = (self.debug.dwarf(self.number), &self.unit.inner);
        let value = attribute.value();
        match attribute.name() {
            dw::DW_AT_name => said.name = dwarf.attr_string(unit, value).ok(),
            dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                said.linkage_name = dwarf.attr_string(unit, value).ok()
            }
            dw::DW_AT_byte_size => said.size = value.udata_value().unwrap_or(0),
            dw::DW_AT_decl_line => said.line = value.udata_value().unwrap_or(0),
            dw::DW_AT_data_member_location | dw::DW_AT_data_bit_offset => {
                said.place = value.udata_value().unwrap_or(u64::MAX);
            }
            dw::DW_AT_declaration => said.is_declaration = value == AttributeValue::Flag(true),
            dw::DW_AT_external => said.is_external = value == AttributeValue::Flag(true),
            dw::DW_AT_specification | dw::DW_AT_abstract_origin => said.specification = true,
            dw::DW_AT_location => said.location = value.exprloc_value(),
            dw::DW_AT_low_pc => said.low = self.debug.address_of(self.number, value),
            dw::DW_AT_high_pc => said.high = Some(value),
            dw::DW_AT_ranges => said.ranges = Some(value),
            _ => {}
        }
    }

    fn take(&mut self, tag: DwTag, at: u32, depth: isize, said: &Said, has_children: bool) -> Result<()> {
        let die = Die { unit: self.number, at };
        let outer: u64 =
            if has_prefixes(self.unit.language) { self.levels.last().map_or(0, |level| level.path) } else { 0 };
        let (mut inner, mut definition) = (outer, None);
        let name = said.name.map_or(&b""[..], |name| name.slice());
        // of a template's instances only the whole names differ
        let whole = hashed(self.levels.last().map_or(0, |level| level.whole), name);
        match tag {
            dw::DW_TAG_namespace => inner = path(outer, said.name.map_or(NAMELESS, |name| name.slice())),
            dw::DW_TAG_variable => self.variable(die, said)?,
            dw::DW_TAG_subprogram => self.function(die, said)?,
            dw::DW_TAG_member => {
                let level = self.levels.last().filter(|level| level.depth + 1 == depth);
                if let Some(definition) = level.and_then(|level| level.definition) {
                    let mark = &mut self.part.definitions[definition].1;
                    *mark = hashed(mark.wrapping_add(said.place), name);
                }
            }
            _ => {
                inner = said.name.map_or(0, |name| path(outer, name.slice()));
                let is_alias = tag == dw::DW_TAG_typedef;
                let is_odd = said.specification || self.levels.last().is_some_and(|level| level.is_odd);
                let mark = whole ^ said.line ^ said.size.rotate_left(32);
                if said.is_declaration || !(is_alias || said.size > 0) {
                } else if is_odd {
                    push(&mut self.part.odd, (die, mark))?;
                } else if said.name.is_some() {
                    definition = Some(self.part.definitions.len());
                    let path = if tag == dw::DW_TAG_base_type { BASE } else { inner };
                    push(&mut self.part.definitions, (Named { path, die }, mark))?;
                }
            }
        }
        if has_children && (is_type(tag) || matches!(tag, dw::DW_TAG_namespace | dw::DW_TAG_subprogram)) {
            let parent = self.levels.last().map_or(NONE, |level| level.scope);
            let scope = self.scopes.len() as u32;
            push(&mut self.scopes, Scope { at, end: u32::MAX, parent })?;
            let is_odd = said.specification || self.levels.last().is_some_and(|level| level.is_odd);
            push(&mut self.levels, Level { depth, scope, path: inner, whole, definition, is_odd })?;
        }
        Ok(())
    }

    fn variable(&mut self, die: Die, said: &Said) -> Result<()> {
        match said.location.and_then(|place| self.place(place)) {
            Some(Place::Address(address)) if is_linked(address) => {
                push(&mut self.part.statics, Placed { address, die })
            }
            Some(Place::OfThread(address)) => push(&mut self.part.locals, Placed { address, die }),
            _ if said.is_declaration && said.is_external => match said.linkage_name.or(said.name) {
                Some(name) => push(&mut self.part.declared, Named { path: path(0, name.slice()), die }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Where a variable is that stays where it is.
    fn place(&self, expression: Expression<R>) -> Option<Place> {
        let mut operations = expression.operations(self.unit.inner.encoding());
        let indexed = |index| self.debug.address(self.number, index);
        let (value, is_address) = match operations.next().ok()?? {
            Operation::Address { address } => (address, true),
            Operation::AddressIndex { index } => (indexed(index)?, true),
            Operation::UnsignedConstant { value } => (value, false),
            Operation::ConstantIndex { index } => (indexed(index)?, false),
            _ => return None,
        };
        match operations.next().ok()? {
            Some(Operation::TLS) => Some(Place::OfThread(value)),
            None | Some(Operation::Piece { .. }) if is_address => Some(Place::Address(value)),
            Some(Operation::PlusConstant { value: more }) if is_address => {
                Some(Place::Address(value.wrapping_add(more)))
            }
            _ => None,
        }
    }

    fn function(&mut self, die: Die, said: &Said) -> Result<()> {
        if let Some(ranges) = said.ranges {
            let (dwarf, unit) = (self.debug.dwarf(self.number), &self.unit.inner);
            let Ok(Some(mut ranges)) = dwarf.attr_ranges(unit, ranges) else { return Ok(()) };
            // each takes two bytes of a section at least
            while let Ok(Some(range)) = ranges.next() {
                self.code(die, range.begin, range.end)?;
            }
            return Ok(());
        }
        let Some(low) = said.low else { return Ok(()) };
        let high = match said.high {
            Some(high) => self.debug.end_of_code(self.number, low, high),
            None => low.checked_add(1),
        };
        self.code(die, low, high.unwrap_or(low))
    }

    fn code(&mut self, die: Die, low: u64, high: u64) -> Result<()> {
        if is_linked(low) && low < high {
            push(&mut self.part.code, Code { low, high, die })?;
        }
        Ok(())
    }
}

const NAMELESS: &[u8] = b"(anonymous namespace)";

enum Place {
    Address(u64),
    OfThread(u64),
}

/// Linkers put such numbers in place of addresses of what they have left out.
fn is_linked(address: u64) -> bool {
    address > 1 && address < u64::MAX - 1 && address != u64::from(u32::MAX) && address != u64::from(u32::MAX) - 1
}

fn matters(tag: DwTag) -> bool {
    let other = matches!(
        tag,
        dw::DW_TAG_namespace
            | dw::DW_TAG_variable
            | dw::DW_TAG_subprogram
            | dw::DW_TAG_member
            | dw::DW_TAG_typedef
            | dw::DW_TAG_base_type
    );
    other || is_type(tag)
}

impl Debug {
    /// Reads all units. Of `control` a step is a byte of them.
    pub(super) fn index(&mut self, control: &Control) -> Result<Found> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let lengths: Vec<u64> = self.units.iter().map(|unit| u64::from(unit.length())).collect();
        let share = lengths.iter().sum::<u64>() / threads as u64 + 1;
        let mut runs: Vec<(usize, usize)> = vec![(0, 0)];
        let mut size = 0;
        for (number, length) in lengths.iter().enumerate() {
            size += length;
            let last = runs.len() - 1;
            runs[last].1 = number + 1;
            if size >= share {
                size = 0;
                runs.push((number + 1, number + 1));
            }
        }
        let debug = &*self;
        let parts: Vec<Result<Part>> = std::thread::scope(|scope| {
            let work: Vec<_> =
                runs.iter().map(|(first, end)| scope.spawn(move || debug.part(*first, *end, control))).collect();
            work.into_iter().map(|each| each.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        self.gather(parts.into_iter().collect::<Result<Vec<Part>>>()?)
    }

    fn part(&self, first: usize, end: usize, control: &Control) -> Result<Part> {
        let mut part = Part::default();
        for number in first..end {
            let unit = &self.units[number];
            control.advance(u64::from(unit.length()))?;
            let first = part.definitions.len();
            let (scopes, levels) = (Vec::new(), Vec::new());
            Scan { debug: self, number: number as u32, unit, part: &mut part, scopes, levels, first }.run()?;
        }
        Ok(part)
    }

    fn gather(&mut self, parts: Vec<Part>) -> Result<Found> {
        let mut found: Vec<Index> = self.modules.iter().map(|_| Index::default()).collect();
        let of =
            |debug: &Debug, die: Die| debug.sources[debug.units[die.unit as usize].source as usize].module as usize;
        let (mut scopes, mut odd) = (Vec::new(), Vec::new());
        let mut met = HashSet::new();
        for part in parts {
            push(&mut scopes, part.scopes)?;
            for each in part.statics {
                push(&mut found[of(self, each.die)].statics, each)?;
            }
            for mut each in part.locals {
                let module = of(self, each.die);
                let (start, size) = self.modules[module].own.as_ref().map_or((0, 0), |own| own.thread_block);
                // GCC has the place in the file instead, where debug information is split
                if each.address >= size && each.address.wrapping_sub(start) < size {
                    each.address -= start;
                }
                push(&mut found[module].locals, each)?;
            }
            for each in part.code {
                let index = &mut found[of(self, each.die)];
                index.longest = index.longest.max(each.high - each.low);
                push(&mut index.code, each)?;
            }
            for each in part.declared {
                push(&mut found[of(self, each.die)].declared, each)?;
            }
            push(&mut odd, part.odd)?;
            met.try_reserve(part.definitions.len())?;
            for (each, mark) in part.definitions {
                let module = of(self, each.die);
                if met.insert((module, each.path, mark)) {
                    push(&mut found[module].definitions, each)?;
                }
            }
        }
        let scopes = joined(scopes)?;
        if scopes.len() != self.units.len() {
            return Err(Failure::BadInput);
        }
        for (unit, scopes) in self.units.iter_mut().zip(scopes) {
            unit.scopes = scopes;
        }
        for index in &mut found {
            index.statics.sort_unstable();
            index.locals.sort_unstable();
            index.code.sort_unstable();
            index.definitions.sort_unstable();
            index.declared.sort_unstable();
        }
        Ok(Found { indexes: found, odd: joined(odd)? })
    }
}
