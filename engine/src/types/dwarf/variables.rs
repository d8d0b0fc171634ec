//! Variables with one place: which begins at an address, which are threads' own.

use std::rc::Rc;

use gimli::constants as dw;

use super::elf_file::GlobalSymbol;
use super::index::{path, Named, Placed};
use super::names::declaration;
use super::program::Program;
use super::units::{Die, Module};
use crate::types::facts::{Form, TypeId, TypeSource};

/// A symbol of a module, as its table has it.
pub struct Symbol<'a> {
    /// Its address in the process; of a thread-local variable the offset in its module's block.
    pub value: u64,
    /// 0: not known.
    pub size: u64,
    /// Mangled.
    pub name: &'a str,
}

pub struct Variable {
    pub of: TypeId,
    /// As it was declared, alone.
    pub name: String,
    /// The function that it is a static variable of, as the linker knows it; empty if there is none.
    pub function: String,
}

/// Variables that other modules can use, by hashes of what the linker calls them.
pub(super) struct Externals {
    defined: Vec<Named>,
    /// Of each module.
    symbols: Vec<Vec<GlobalSymbol>>,
}

impl Program {
    /// The variable that begins where this symbol does, and is no larger.
    pub fn variable(&self, symbol: &Symbol<'_>) -> Option<Variable> {
        let mut placed = Vec::new();
        for (module, index) in self.debug.modules.iter().zip(&self.indexes) {
            placed.extend(at(&index.statics, symbol.value.wrapping_sub(module.bias)));
        }
        let own = self.likely_first(placed, symbol.name).into_iter().find_map(|die| self.fitting(die, symbol));
        own.or_else(|| self.variable_elsewhere(symbol))
    }

    /// The linker may have copied a library's variable into the program, or a library may have no debug information. A
    /// declaration knows less than a definition.
    fn variable_elsewhere(&self, symbol: &Symbol<'_>) -> Option<Variable> {
        let (externals, hash) = (self.externals(), path(0, symbol.name.as_bytes()));
        let place = |module: &Module| (symbol.value.wrapping_sub(module.bias), hash);
        let mut of = self.debug.modules.iter().zip(&externals.symbols).zip(0..);
        let (number, exported) = of.find_map(|((module, symbols), number)| {
            let at = symbols.binary_search_by_key(&place(module), |each| (each.address, each.name)).ok()?;
            Some((number, symbols[at].is_exported))
        })?;
        let declared = self.indexes.iter().flat_map(|index| with_path(&index.declared, hash));
        let candidates = with_path(&externals.defined, hash).chain(declared);
        // what is not exported is nobody else's
        let mut candidates = candidates.filter(|die| exported || self.debug.module_of(die.unit) == number);
        candidates.find_map(|die| self.fitting(die, symbol))
    }

    /// The thread-local variable of a module that begins where its symbol does, and is no larger.
    pub fn thread_local(&self, base: u64, symbol: &Symbol<'_>) -> Option<Variable> {
        let mut found = Vec::new();
        for (module, index) in self.debug.modules.iter().zip(&self.indexes) {
            if module.base == base {
                found.extend(at(&index.locals, symbol.value));
            }
        }
        self.likely_first(found, symbol.name).into_iter().find_map(|die| self.fitting(die, symbol))
    }

    fn externals(&self) -> Rc<Externals> {
        let mut known = self.externals.borrow_mut();
        let made = known.get_or_insert_with(|| {
            let mut defined = Vec::new();
            for each in self.indexes.iter().flat_map(|index| &index.statics) {
                let declared = declaration(&self.debug, each.die);
                let is_external = [each.die, declared].iter().any(|die| self.debug.flag(*die, dw::DW_AT_external));
                if let (true, Some(name)) = (is_external, self.linked_name(each.die)) {
                    defined.push(Named { path: path(0, name.as_bytes()), die: each.die });
                }
            }
            defined.sort_unstable();
            let hash = |name: &[u8]| path(0, name);
            let symbols = |module: &Module| module.own.as_ref().map_or_else(Vec::new, |own| own.global_symbols(hash));
            Rc::new(Externals { defined, symbols: self.debug.modules.iter().map(symbols).collect() })
        });
        made.clone()
    }

    /// What the linker calls a variable or function.
    pub fn linked_name(&self, die: Die) -> Option<String> {
        let declared = declaration(&self.debug, die);
        let text = |die, name| self.debug.text(die, name).map(|name| name.to_string_lossy().into_owned());
        let names = [dw::DW_AT_linkage_name, dw::DW_AT_MIPS_linkage_name, dw::DW_AT_name];
        names.into_iter().find_map(|name| text(die, name).or_else(|| text(declared, name)))
    }

    fn likely_first(&self, placed: Vec<Die>, name: &str) -> Vec<Die> {
        let is_called = |die: &Die| self.linked_name(*die).as_deref() == Some(name);
        let (first, others): (Vec<Die>, Vec<Die>) = placed.into_iter().partition(is_called);
        first.into_iter().chain(others).collect()
    }

    /// None: it has no type, or one that is larger than the symbol. A smaller one may end in an array that the
    /// initialiser makes longer.
    fn fitting(&self, die: Die, symbol: &Symbol<'_>) -> Option<Variable> {
        let declared = declaration(&self.debug, die);
        let of = [die, declared].into_iter().find_map(|die| self.debug.referred(die, dw::DW_AT_type))?;
        let mut number = self.number(Some(of));
        let facts = self.facts(number).ok()?;
        if facts.form == Form::Array && facts.size == 0 && symbol.size > 0 {
            // declared without a length
            let each = facts.target.and_then(|each| Some((each, self.facts(each).ok()?.size)));
            if let Some((each, size)) = each.filter(|(_, size)| (1..=symbol.size).contains(size)) {
                number = self.array_of(each, Some(symbol.size / size), die);
            }
        }
        if symbol.size > 0 && symbol.size < self.facts(number).ok()?.size {
            return None;
        }
        let name = self.debug.name(die).or_else(|| self.debug.name(declared)).unwrap_or_default();
        let parent = self.debug.parent(die).filter(|parent| self.debug.tag(*parent) == Some(dw::DW_TAG_subprogram));
        let function = parent.and_then(|parent| self.linked_name(parent)).unwrap_or_default();
        Some(Variable { of: number, name, function })
    }
}

fn at(placed: &[Placed], address: u64) -> impl Iterator<Item = Die> + '_ {
    let first = placed.partition_point(|each| each.address < address);
    placed[first..].iter().take_while(move |each| each.address == address).map(|each| each.die)
}

pub(super) fn with_path(named: &[Named], path: u64) -> impl Iterator<Item = Die> + '_ {
    let first = named.partition_point(|each| each.path < path);
    named[first..].iter().take_while(move |each| each.path == path).map(|each| each.die)
}
