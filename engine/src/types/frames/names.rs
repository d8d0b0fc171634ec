//! Names of functions, with their parameters where their language has them in names.

use std::rc::Rc;

use gimli::constants as dw;

use crate::types::dwarf::program::Program;
use crate::types::dwarf::units::Die;
use crate::types::facts::Language;
use crate::types::mangled::demangled;

/// Parameters of parameters that are functions.
const DEEPEST: u32 = 8;
const LONGEST: usize = 16 << 10;

/// A function's name as programmers write it: "main()", "cache::Table::find(char const*) const".
pub fn function_name(program: &Program, die: Die) -> Rc<str> {
    let debug = &program.debug;
    let origin = debug.origin(die);
    if debug.unit(origin).language != Language::CPlusPlus {
        return format!("{}()", program.name(die)).into();
    }
    let outer = std::iter::successors(debug.parent(origin), |at| debug.parent(*at));
    if outer.take(DEEPEST as usize).any(|at| debug.tag(at) == Some(dw::DW_TAG_subprogram)) {
        // a method of a class in a function, such as a lambda's
        let linked = debug.said(die, dw::DW_AT_linkage_name).and_then(|(die, value)| debug.text_of(die.unit, value));
        if let Some(name) = linked {
            return demangled(&name.to_string_lossy()).into();
        }
    }
    let end = if is_const_method(program, origin) { " const" } else { "" };
    format!("{}({}){end}", program.name(die), parameters(program, origin, 0)).into()
}

fn parameters(program: &Program, function: Die, depth: u32) -> String {
    let debug = &program.debug;
    let mut all = Vec::new();
    debug.children(function, |die, entry| {
        match entry.tag() {
            dw::DW_TAG_formal_parameter if !debug.flag(die, dw::DW_AT_artificial) => {
                all.push(spelled(program, debug.referred(die, dw::DW_AT_type), depth + 1));
            }
            dw::DW_TAG_unspecified_parameters => all.push("...".into()),
            _ => {}
        }
        all.len() < LONGEST
    });
    all.join(", ")
}

/// Whether `this` leads to a constant object.
fn is_const_method(program: &Program, function: Die) -> bool {
    let debug = &program.debug;
    let mut this = None;
    debug.children(function, |die, entry| {
        this = (entry.tag() == dw::DW_TAG_formal_parameter && debug.flag(die, dw::DW_AT_artificial)).then_some(die);
        false
    });
    let pointer = this.and_then(|this| debug.referred(this, dw::DW_AT_type));
    // the pointer may be constant itself
    let plain = pointer.map(|pointer| match debug.tag(pointer) {
        Some(dw::DW_TAG_const_type) => debug.referred(pointer, dw::DW_AT_type).unwrap_or(pointer),
        _ => pointer,
    });
    let target = plain.and_then(|pointer| debug.referred(pointer, dw::DW_AT_type));
    target.and_then(|target| debug.tag(target)) == Some(dw::DW_TAG_const_type)
}

/// A type as symbols spell it: "char const*".
fn spelled(program: &Program, of: Option<Die>, depth: u32) -> String {
    let debug = &program.debug;
    let (mut at, mut ends) = (of, Vec::new());
    for _ in 0..LONGEST {
        let end = match at.and_then(|die| debug.tag(die)) {
            Some(dw::DW_TAG_pointer_type) => "*",
            Some(dw::DW_TAG_reference_type) => "&",
            Some(dw::DW_TAG_rvalue_reference_type) => "&&",
            Some(dw::DW_TAG_const_type) => " const",
            Some(dw::DW_TAG_volatile_type) => " volatile",
            Some(dw::DW_TAG_typedef) => "",
            _ => break,
        };
        ends.push(end);
        at = at.and_then(|die| debug.referred(die, dw::DW_AT_type));
    }
    let ends: String = ends.iter().rev().copied().collect();
    match at {
        None => format!("void{ends}"),
        Some(die) if debug.tag(die) == Some(dw::DW_TAG_subroutine_type) && depth < DEEPEST => {
            let result = spelled(program, debug.referred(die, dw::DW_AT_type), depth + 1);
            format!("{result} ({ends})({})", parameters(program, die, depth + 1))
        }
        Some(die) => format!("{}{ends}", program.name(die)),
    }
}
