//! Names of types with their namespaces and classes, as symbols and RTTI spell them.

use std::collections::HashMap;
use std::rc::Rc;

use gimli::constants as dw;

use super::index::{has_prefixes, is_type, path};
use super::units::{Debug, Die};
use crate::types::spelling::{spelled, within};

const DEEPEST: u32 = 100;
/// A template's name doubles with each level of arguments.
const LONGEST: usize = 64 << 10;
pub(super) const NAMELESS: &str = "(anonymous namespace)";

#[derive(Default)]
pub(super) struct Names {
    known: HashMap<Die, Rc<str>>,
    /// By what debug information has.
    spelled: HashMap<String, Rc<str>>,
}

impl Names {
    /// Empty if it has none.
    pub fn of(&mut self, debug: &Debug, die: Die) -> Rc<str> {
        if let Some(name) = self.known.get(&die) {
            return name.clone();
        }
        let name = self.spell(whole(debug, die, 0).unwrap_or_default());
        self.known.insert(die, name.clone());
        name
    }

    pub fn spell(&mut self, name: String) -> Rc<str> {
        if let Some(known) = self.spelled.get(&name) {
            return known.clone();
        }
        let made: Rc<str> = spelled(&name).into();
        self.spelled.insert(name, made.clone());
        made
    }
}

/// The entry that has a type's or function's name and lies where it was declared.
pub(super) fn declaration(debug: &Debug, die: Die) -> Die {
    let mut found = die;
    for _ in 0..DEEPEST {
        let next = debug.referred(found, dw::DW_AT_specification);
        match next.or_else(|| debug.referred(found, dw::DW_AT_abstract_origin)) {
            Some(next) => found = next,
            None => break,
        }
    }
    found
}

fn whole(debug: &Debug, die: Die, depth: u32) -> Option<String> {
    let declared = declaration(debug, die);
    let own = debug.name(die).or_else(|| debug.name(declared))?;
    let name = match prefix(debug, declared, depth) {
        Some(prefix) => format!("{prefix}::{own}"),
        None => own,
    };
    (name.len() <= LONGEST).then_some(name)
}

/// The namespaces and classes around an entry. A function is none: a type in it has its own name alone.
pub(super) fn prefix(debug: &Debug, die: Die, depth: u32) -> Option<String> {
    if depth > DEEPEST || !has_prefixes(debug.unit(die).language) {
        return None;
    }
    let parent = debug.parent(die)?;
    match debug.tag(parent)? {
        dw::DW_TAG_namespace => {
            let own = debug.name(declaration(debug, parent)).unwrap_or_else(|| NAMELESS.to_owned());
            Some(match prefix(debug, parent, depth + 1) {
                Some(outer) => format!("{outer}::{own}"),
                None => own,
            })
        }
        dw::DW_TAG_subprogram => prefix(debug, declaration(debug, parent), depth + 1),
        tag if is_type(tag) => whole(debug, parent, depth + 1),
        _ => None,
    }
}

/// What a name's hash in the index may be.
pub(super) fn paths(name: &str) -> [u64; 2] {
    let mut steps = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (outer, own) = within(rest);
        steps.push(own);
        rest = outer;
    }
    let whole = steps.iter().rev().fold(0, |outer, step| path(outer, step.as_bytes()));
    [whole, path(0, name.as_bytes())]
}
