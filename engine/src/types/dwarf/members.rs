//! What lies in a type: members, bases, template arguments, enumerators.

use std::collections::HashSet;
use std::rc::Rc;

use gimli::{constants as dw, AttributeValue, DwTag, Operation, UnitOffset};

use super::index::is_type;
use super::program::{Program, NOWHERE};
use super::units::{Die, R};
use crate::types::facts::{Argument, BitField, Form, TypeId, TypeSource};
use crate::types::spelling::parts_of;

const MOST_ARGUMENTS: usize = 64;

pub(super) struct Member {
    pub name: Rc<str>,
    /// In bits; None: it has no fixed place.
    pub place: Option<u64>,
    /// Its size, if it does not fill whole bytes; otherwise 0.
    pub bits: u64,
    pub of: Option<Die>,
    pub is_base: bool,
    pub is_artificial: bool,
}

pub(super) struct Members {
    pub all: Vec<Member>,
    parameters: Vec<Die>,
    is_enum: bool,
}

impl Members {
    /// Whether it is an enum of Rust's: its variants are all as large as the whole.
    pub fn has_variants(&self, program: &Program, size: u64) -> bool {
        if !self.is_enum {
            return false;
        }
        let mut whole = self.all.iter().filter(|each| each.place == Some(0) && !each.is_base);
        let is_variant =
            |each: &&Member| !each.name.is_empty() && each.of.and_then(|of| program.size_of(of)) == Some(size);
        match whole.clone().filter(is_variant).count() {
            0 => false,
            1 => whole.any(|each| each.is_artificial && each.name.is_empty()),
            _ => true,
        }
    }
}

/// A constant; compilers write what is below zero as such.
pub(super) fn constant(value: &AttributeValue<R>) -> Option<i64> {
    value.udata_value().map(|value| value as i64).or_else(|| value.sdata_value())
}

impl Program {
    /// The entries in one, as far as reading them is allowed.
    pub(super) fn read(&self, die: Die, mut each: impl FnMut(Die, DwTag)) {
        self.debug.children(die, |die, entry| {
            self.left.set(self.left.get().saturating_sub(1));
            each(die, entry.tag());
            self.left.get() > 0
        });
    }

    /// In bytes, of what an entry is without typedefs.
    fn size_of(&self, die: Die) -> Option<u64> {
        self.debug.number(self.plain(die).0?, dw::DW_AT_byte_size)
    }

    pub(super) fn members(&self, die: Die) -> Members {
        let mut found = Members { all: Vec::new(), parameters: Vec::new(), is_enum: false };
        let mut parts = Vec::new();
        self.read(die, |child, tag| match tag {
            dw::DW_TAG_member => found.all.extend(self.member(child)),
            dw::DW_TAG_inheritance => found.all.extend(self.base(child)),
            dw::DW_TAG_template_type_parameter | dw::DW_TAG_template_value_parameter => found.parameters.push(child),
            dw::DW_TAG_GNU_template_parameter_pack => {
                self.read(child, |each, tag| {
                    let is_one =
                        tag == dw::DW_TAG_template_type_parameter || tag == dw::DW_TAG_template_value_parameter;
                    found.parameters.extend(is_one.then_some(each));
                });
            }
            dw::DW_TAG_variant_part => parts.push(child),
            _ => {}
        });
        for part in parts {
            found.is_enum = true;
            let mut variants = Vec::new();
            self.read(part, |child, tag| match tag {
                dw::DW_TAG_member => found.all.extend(self.member(child)),
                dw::DW_TAG_variant => variants.push(child),
                _ => {}
            });
            for variant in variants {
                self.read(variant, |child, tag| {
                    found.all.extend(if tag == dw::DW_TAG_member { self.member(child) } else { None });
                });
            }
        }
        found
    }

    /// None: it is static.
    fn member(&self, die: Die) -> Option<Member> {
        let debug = &self.debug;
        if debug.flag(die, dw::DW_AT_external) || debug.flag(die, dw::DW_AT_declaration) {
            return None;
        }
        let bits = debug.number(die, dw::DW_AT_bit_size).unwrap_or(0);
        let of = debug.referred(die, dw::DW_AT_type);
        let place = match debug.number(die, dw::DW_AT_data_bit_offset) {
            Some(place) => Some(place),
            None => self.place(die).and_then(|place| match debug.number(die, dw::DW_AT_bit_offset) {
                Some(offset) if bits > 0 => self.old_bit_place(die, place, offset, bits),
                _ => Some(place),
            }),
        };
        Some(Member {
            name: debug.name(die).unwrap_or_default().into(),
            place,
            bits,
            of,
            is_base: false,
            is_artificial: debug.flag(die, dw::DW_AT_artificial),
        })
    }

    fn base(&self, die: Die) -> Option<Member> {
        let of = self.debug.referred(die, dw::DW_AT_type);
        let name = of.and_then(|of| self.plain(of).0).map_or_else(|| "".into(), |kind| self.name(kind));
        let is_virtual = matches!(
            self.debug.value(die, dw::DW_AT_virtuality),
            Some(AttributeValue::Virtuality(virtuality)) if virtuality != dw::DW_VIRTUALITY_none
        );
        let place = if is_virtual { None } else { self.place(die) };
        Some(Member { name, place, bits: 0, of, is_base: true, is_artificial: false })
    }

    /// In bits, of its first byte.
    fn place(&self, die: Die) -> Option<u64> {
        let place = match self.debug.value(die, dw::DW_AT_data_member_location) {
            None => 0,
            Some(AttributeValue::Exprloc(expression)) => {
                let mut operations = expression.operations(self.debug.unit(die).inner.encoding());
                match (operations.next(), operations.next()) {
                    (Ok(Some(Operation::PlusConstant { value })), Ok(None)) => value,
                    _ => return None,
                }
            }
            Some(value) => value.udata_value()?,
        };
        place.checked_mul(8)
    }

    /// DWARF 2's way: the offset is from the highest bit of the member's own type.
    fn old_bit_place(&self, die: Die, place: u64, offset: u64, bits: u64) -> Option<u64> {
        let is_big = self.debug.unit(die).is_big;
        if is_big {
            return place.checked_add(offset);
        }
        let own = self.debug.number(die, dw::DW_AT_byte_size);
        let size = own.or_else(|| self.size_of(self.debug.referred(die, dw::DW_AT_type)?))?;
        place.checked_add(size.checked_mul(8)?)?.checked_sub(offset)?.checked_sub(bits)
    }

    pub(super) fn bit_field(&self, member: &Member, of: Die, place: u64) -> Option<BitField> {
        let facts = self.facts(self.number(Some(of))).ok()?;
        let signed = facts.form == Form::Integer && facts.signed;
        let named = !member.name.is_empty();
        named.then(|| BitField { name: member.name.clone(), offset: place, size: member.bits, signed })
    }

    /// A template's arguments. Where the compiler did not list them, those in front of the first that is no type.
    pub(super) fn arguments(&self, members: &Members, name: &str) -> Vec<Argument> {
        if members.parameters.is_empty() {
            let texts = parts_of(name).map_or_else(Vec::new, |(_, texts)| texts).into_iter().take(MOST_ARGUMENTS);
            return texts.map_while(|text| self.spelled_type(text)).map(Argument::Type).collect();
        }
        let parameters = members.parameters.iter().take(MOST_ARGUMENTS);
        parameters
            .map(|each| {
                let of = self.type_of(*each);
                if self.debug.tag(*each) == Some(dw::DW_TAG_template_type_parameter) {
                    return Argument::Type(of);
                }
                self.constant(*each).map_or(Argument::Other, Argument::Value)
            })
            .collect()
    }

    fn spelled_type(&self, text: &str) -> Option<TypeId> {
        let text = text.trim_end();
        if let Some(of) = text.strip_suffix("const").or_else(|| text.strip_suffix("volatile")) {
            if of.ends_with([' ', '*', '&']) {
                return self.spelled_type(of);
            }
        }
        if let Some(of) = text.strip_suffix('*') {
            return Some(self.pointer(Form::Pointer, dw::DW_TAG_pointer_type, self.spelled_type(of)?, NOWHERE));
        }
        if let Some(of) = text.strip_suffix("&&") {
            let target = self.spelled_type(of)?;
            return Some(self.pointer(Form::Reference, dw::DW_TAG_rvalue_reference_type, target, NOWHERE));
        }
        if let Some(of) = text.strip_suffix('&') {
            return Some(self.pointer(Form::Reference, dw::DW_TAG_reference_type, self.spelled_type(of)?, NOWHERE));
        }
        if text == "void" {
            return Some(self.number(None));
        }
        self.by_name(text).ok().flatten().or_else(|| self.base_named(text))
    }

    fn constant(&self, die: Die) -> Option<i64> {
        constant(&self.debug.value(die, dw::DW_AT_const_value)?)
    }

    pub(super) fn enumerators(&self, die: Die) -> Vec<(Rc<str>, i64)> {
        let mut found = Vec::new();
        self.read(die, |child, tag| {
            if tag == dw::DW_TAG_enumerator {
                let value = self.constant(child);
                if let (Some(name), Some(value)) = (self.debug.name(child), value) {
                    found.push((name.into(), value));
                }
            }
        });
        found
    }

    /// Whether it, or a base of it, has a pointer to a vtable.
    pub(super) fn is_polymorphic(&self, die: Die) -> bool {
        let (mut left, mut met) = (vec![die], HashSet::new());
        while let Some(die) = left.pop() {
            if !met.insert(die) {
                continue;
            }
            let (mut is_one, mut bases) = (false, Vec::new());
            self.read(die, |child, tag| match tag {
                dw::DW_TAG_member if !is_one => {
                    let name = self.debug.text(child, dw::DW_AT_name).map_or(&b""[..], |name| name.slice());
                    is_one = name.starts_with(b"_vptr.") || name.starts_with(b"_vptr$");
                }
                dw::DW_TAG_inheritance => bases.extend(self.debug.referred(child, dw::DW_AT_type)),
                _ => {}
            });
            if is_one {
                return true;
            }
            left.extend(bases.into_iter().filter_map(|base| self.plain(base).0));
        }
        false
    }

    /// Whether an entry's name is its type's: a typedef's is only if what it stands for has none.
    pub(super) fn is_own_name(&self, die: Die) -> bool {
        if self.debug.tag(die) != Some(dw::DW_TAG_typedef) {
            return true;
        }
        let (Some(kind), Some(alias)) = self.plain(die) else { return false };
        let has_size = self.debug.number(kind, dw::DW_AT_byte_size).is_some_and(|size| size > 0);
        alias == die && has_size && self.debug.tag(kind).is_some_and(is_type) && self.name(kind).is_empty()
    }

    /// The named structs of a unit, outside of functions.
    pub(super) fn structs_of_unit(&self, number: u32, least: u64, most: u64) -> Vec<Die> {
        let mut found = Vec::new();
        let unit = &self.debug.units[number as usize].inner;
        let Ok(mut entries) = unit.entries_at_offset(UnitOffset(unit.header.size_of_header())) else { return found };
        while let Ok(Some((_, entry))) = entries.next_dfs() {
            let tag = entry.tag();
            if !is_type(tag) || matches!(tag, dw::DW_TAG_union_type | dw::DW_TAG_enumeration_type) {
                continue;
            }
            let die = Die { unit: number, at: entry.offset().0 as u32 };
            let size = self.debug.number(die, dw::DW_AT_byte_size).unwrap_or(0);
            let is_local =
                || self.debug.parent(die).is_some_and(|outer| self.debug.tag(outer) == Some(dw::DW_TAG_subprogram));
            if (least..=most).contains(&size) && !self.name(die).is_empty() && !is_local() {
                found.push(die);
            }
        }
        found
    }
}
