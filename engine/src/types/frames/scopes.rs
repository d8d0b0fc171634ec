//! Which functions an address of code is in, inlined ones too, and which variables are declared around it.

use std::collections::HashSet;

use gimli::{constants as dw, Attribute, AttributeValue, DwAt, DwTag, Expression, Operation, Register, UnitOffset};

use crate::failure::{include, push, Result};
use crate::types::dwarf::units::{Debug, Die, R};

/// An entry can take what it says from another, and that one from a third.
const LONGEST_CHAIN: usize = 8;

/// A function, or one that was inlined in it.
pub struct Scope {
    /// Its entry, or that of the place where it was inlined.
    pub die: Die,
    /// Where it was inlined.
    pub call: Option<Line>,
    /// Those of the innermost blocks first.
    pub variables: Vec<Variable>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Line {
    pub unit: u32,
    pub file: u64,
    pub line: u64,
}

pub struct Variable {
    pub die: Die,
    pub is_argument: bool,
}

/// A call in a function.
#[derive(Default)]
pub struct Call {
    /// The function that is called, or an expression of its address.
    pub calls: Option<Die>,
    pub target: Option<Expression<R>>,
    /// What the function is called with, by the registers where it has that.
    pub arguments: Vec<(Register, Expression<R>)>,
}

/// A part of a function while its entries are read.
#[derive(Clone, Copy)]
struct Block {
    depth: isize,
    /// Number of the scope that it is in.
    scope: usize,
    /// How many blocks it is in.
    level: usize,
    /// Whether it has the address, and so have those around it.
    is_here: bool,
}

/// What a block's entry says.
#[derive(Default)]
struct Said {
    low: Option<u64>,
    high: Option<AttributeValue<R>>,
    ranges: Option<AttributeValue<R>>,
    origin: Option<AttributeValue<R>>,
    line: u64,
    file: u64,
    /// Of a call: where it returns to, and what it calls.
    returns: Option<u64>,
    calls: Option<AttributeValue<R>>,
    target: Option<AttributeValue<R>>,
    /// Of an argument of a call: where the callee has it, and its value.
    location: Option<AttributeValue<R>>,
    value: Option<AttributeValue<R>>,
}

fn is_block(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_lexical_block | dw::DW_TAG_try_block | dw::DW_TAG_catch_block)
}

fn is_variable(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_variable | dw::DW_TAG_formal_parameter)
}

impl Debug {
    /// The function, which has this entry, and the ones inlined in it that have this address of their file, the
    /// outermost first.
    pub fn scopes(&self, function: Die, code: u64) -> Result<Vec<Scope>> {
        let mut reading = Reading {
            debug: self,
            scopes: vec![Scope { die: function, call: None, variables: Vec::new() }],
            found: Vec::new(),
            met: HashSet::new(),
        };
        reading.read(function, code)?;
        let Reading { mut scopes, mut found, met, .. } = reading;
        for (number, scope) in scopes.iter().enumerate() {
            // where a class declares a method its parameters have no names
            let origin = |die: &Die| self.referred(*die, dw::DW_AT_abstract_origin).filter(|other| other != die);
            if let Some(origin) = std::iter::successors(Some(scope.die), origin).take(LONGEST_CHAIN).skip(1).last() {
                self.declared(origin, number, &met, &mut found)?;
            }
        }
        // an inner one hides what is declared around it
        found.sort_by_key(|(_, level, _)| std::cmp::Reverse(*level));
        for (scope, _, variable) in found {
            push(&mut scopes[scope].variables, variable)?;
        }
        Ok(scopes)
    }

    /// The entry that this one takes from, or itself.
    pub fn origin(&self, die: Die) -> Die {
        self.chain(die).last().unwrap_or(die)
    }

    /// An entry, and those that it takes from.
    pub fn chain(&self, die: Die) -> impl Iterator<Item = Die> + '_ {
        let from = |die: &Die| {
            self.referred(*die, dw::DW_AT_abstract_origin)
                .or_else(|| self.referred(*die, dw::DW_AT_specification))
                .filter(|other| other != die)
        };
        std::iter::successors(Some(die), from).take(LONGEST_CHAIN)
    }

    /// What an entry says, or one that it takes from, with that entry.
    pub fn said(&self, die: Die, name: DwAt) -> Option<(Die, AttributeValue<R>)> {
        self.chain(die).find_map(|each| Some((each, self.value(each, name)?)))
    }

    /// Variables of an inlined function that the compiler has left out where it was inlined: those that were not `met`
    /// there.
    fn declared(
        &self,
        function: Die,
        scope: usize,
        met: &HashSet<(usize, Die)>,
        to: &mut Vec<(usize, usize, Variable)>,
    ) -> Result<()> {
        let mut skipped: Option<isize> = None;
        self.each_below(function, |debug, tag, die, depth, _| {
            if skipped.is_some_and(|outer| depth > outer) {
                return Ok(());
            }
            skipped = None;
            let is_met = met.contains(&(scope, die));
            if is_variable(tag) && !is_met && !debug.is_declaration(die) {
                push(to, (scope, depth as usize, Variable { die, is_argument: tag == dw::DW_TAG_formal_parameter }))?;
            }
            if is_met || !is_block(tag) {
                skipped = Some(depth);
            }
            Ok(())
        })
    }

    fn is_declaration(&self, die: Die) -> bool {
        self.flag(die, dw::DW_AT_declaration) || self.flag(die, dw::DW_AT_external)
    }

    /// Every entry below this one with its tag and depth, and what it says.
    fn each_below(
        &self,
        function: Die,
        mut each: impl FnMut(&Debug, DwTag, Die, isize, Said) -> Result<()>,
    ) -> Result<()> {
        let unit = &self.unit(function).inner;
        let Ok(mut raw) = unit.entries_raw(Some(UnitOffset(function.at as usize))) else { return Ok(()) };
        let mut is_first = true;
        while !raw.is_empty() {
            let (at, depth) = (raw.next_offset().0 as u32, raw.next_depth());
            if depth <= 0 && !is_first {
                break;
            }
            let abbreviation = match raw.read_abbreviation() {
                Ok(Some(abbreviation)) => abbreviation,
                Ok(None) => continue,
                Err(_) => break,
            };
            let mut said = Said::default();
            for attribute in abbreviation.attributes() {
                let Ok(attribute) = raw.read_attribute(*attribute) else { return Ok(()) };
                self.listen(function.unit, &mut said, &attribute);
            }
            if !std::mem::take(&mut is_first) {
                each(self, abbreviation.tag(), Die { unit: function.unit, at }, depth, said)?;
            }
        }
        Ok(())
    }

    fn listen(&self, unit: u32, said: &mut Said, attribute: &Attribute<R>) {
        let value = attribute.value();
        match attribute.name() {
            dw::DW_AT_low_pc => said.low = self.address_of(unit, value),
            dw::DW_AT_high_pc => said.high = Some(value),
            dw::DW_AT_ranges => said.ranges = Some(value),
            dw::DW_AT_abstract_origin => said.origin = Some(value),
            dw::DW_AT_call_return_pc => said.returns = self.address_of(unit, value),
            dw::DW_AT_call_origin => said.calls = Some(value),
            dw::DW_AT_call_target | dw::DW_AT_GNU_call_site_target => said.target = Some(value),
            dw::DW_AT_location => said.location = Some(value),
            dw::DW_AT_call_value | dw::DW_AT_GNU_call_site_value => said.value = Some(value),
            dw::DW_AT_call_line => said.line = value.udata_value().unwrap_or(0),
            dw::DW_AT_call_file => {
                said.file = match value {
                    AttributeValue::FileIndex(file) => file,
                    other => other.udata_value().unwrap_or(0),
                }
            }
            _ => {}
        }
    }

    /// The function's call that returns to an address of the file.
    pub fn call(&self, function: Die, returns: u64) -> Result<Call> {
        let mut found = Call::default();
        // how deep its arguments are
        let mut below = None;
        let unit = function.unit;
        let encoding = self.units[unit as usize].inner.encoding();
        self.each_below(function, |debug, tag, _, depth, said| {
            if matches!(tag, dw::DW_TAG_call_site | dw::DW_TAG_GNU_call_site) {
                below = (said.returns.or(said.low) == Some(returns)).then_some(depth + 1);
                if below.is_some() {
                    found.calls = said.calls.or(said.origin).and_then(|value| debug.reference(unit, value));
                    found.target = said.target.and_then(|value| value.exprloc_value());
                }
            } else if matches!(tag, dw::DW_TAG_call_site_parameter | dw::DW_TAG_GNU_call_site_parameter) {
                let place = said.location.and_then(|value| value.exprloc_value());
                let place = place.and_then(|place| place.operations(encoding).next().ok().flatten());
                let value = said.value.and_then(|value| value.exprloc_value());
                if let (Some(Operation::Register { register }), Some(value)) = (place, value) {
                    if below == Some(depth) {
                        push(&mut found.arguments, (register, value))?;
                    }
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Where a function's code begins.
    pub fn start_of(&self, function: Die) -> Option<u64> {
        let (dwarf, inner) = (self.dwarf(function.unit), &self.unit(function).inner);
        if let Some(low) = self.value(function, dw::DW_AT_low_pc) {
            return self.address_of(function.unit, low);
        }
        let mut ranges = dwarf.attr_ranges(inner, self.value(function, dw::DW_AT_ranges)?).ok().flatten()?;
        ranges.next().ok().flatten().map(|range| range.begin)
    }

    /// Whether a call's function is this one: by its entry, or by its name in a declaration.
    pub fn is_same_function(&self, called: Die, function: Die) -> bool {
        let (called, function) = (self.origin(called), self.origin(function));
        let named = |die: Die| {
            let name = self.text(die, dw::DW_AT_linkage_name).or_else(|| self.text(die, dw::DW_AT_name));
            name.filter(|_| self.flag(die, dw::DW_AT_external))
        };
        called == function || named(called).is_some_and(|name| named(function) == Some(name))
    }

    /// None: it has no code.
    fn has_code(&self, unit: u32, said: &Said, code: u64) -> Option<bool> {
        let (dwarf, inner) = (self.dwarf(unit), &self.units[unit as usize].inner);
        if let Some(ranges) = said.ranges {
            let mut ranges = dwarf.attr_ranges(inner, ranges).ok().flatten()?;
            while let Ok(Some(range)) = ranges.next() {
                if (range.begin..range.end).contains(&code) {
                    return Some(true);
                }
            }
            return Some(false);
        }
        let low = said.low?;
        Some((low..self.end_of_code(unit, low, said.high?)?).contains(&code))
    }
}

struct Reading<'a> {
    debug: &'a Debug,
    scopes: Vec<Scope>,
    /// With the numbers of their scopes, and in how many blocks they are.
    found: Vec<(usize, usize, Variable)>,
    /// What entries below a scope take from, but for that of blocks that have the address.
    met: HashSet<(usize, Die)>,
}

impl Reading<'_> {
    fn read(&mut self, function: Die, code: u64) -> Result<()> {
        let mut blocks = vec![Block { depth: 0, scope: 0, level: 0, is_here: true }];
        let debug = self.debug;
        // below that depth nothing belongs to the function
        let mut foreign: Option<isize> = None;
        debug.each_below(function, |debug, tag, die, depth, said| {
            if foreign.is_some_and(|outer| depth > outer) {
                return Ok(());
            }
            foreign = None;
            while blocks.len() > 1 && blocks.last().is_some_and(|block| block.depth >= depth) {
                blocks.pop();
            }
            let Some(Block { scope, level, is_here, .. }) = blocks.last().copied() else { return Ok(()) };
            let origin = said.origin.and_then(|value| debug.reference(die.unit, value)).map(|die| debug.origin(die));
            let is_inlined = tag == dw::DW_TAG_inlined_subroutine;
            if is_variable(tag) {
                self.meet(scope, origin)?;
                if is_here && !debug.is_declaration(die) {
                    let is_argument = tag == dw::DW_TAG_formal_parameter;
                    push(&mut self.found, (scope, level, Variable { die, is_argument }))?;
                }
            } else if is_block(tag) || is_inlined {
                // a block without code of its own is all around
                let contains = debug.has_code(die.unit, &said, code).unwrap_or(!is_inlined);
                let mut block = Block { depth, scope, level: level + 1, is_here: is_here && contains };
                if is_inlined && !block.is_here {
                    foreign = Some(depth);
                    return Ok(());
                }
                if is_inlined {
                    block.scope = self.scopes.len();
                    let call = Line { unit: die.unit, file: said.file, line: said.line };
                    push(&mut self.scopes, Scope { die, call: Some(call), variables: Vec::new() })?;
                } else if !block.is_here {
                    self.meet(scope, origin)?;
                }
                push(&mut blocks, block)?;
            } else {
                foreign = Some(depth);
            }
            Ok(())
        })
    }

    fn meet(&mut self, scope: usize, origin: Option<Die>) -> Result<()> {
        if let Some(origin) = origin {
            include(&mut self.met, (scope, origin))?;
        }
        Ok(())
    }
}
