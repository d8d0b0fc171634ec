//! Types of a program, numbered: equal ones have one number, whichever file of the program declares them.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use gimli::{constants as dw, AttributeValue, DwTag};

use super::index::{Code, Found, Index, Named, BASE};
use super::members::{constant, Member};
use super::names::{declaration, paths, Names};
use super::units::{Debug, Die};
use super::variables::{with_path, Externals};
use crate::failure::{kept, push, Control, Result};
use crate::types::facts::{Facts, Field, Form, Language, TypeId, TypeSource};

/// A longer chain of typedefs leads back to itself.
const MOST_TYPEDEFS: u32 = 10_000;
/// How deeply types may be nested: members of members, pointers to pointers.
const DEEPEST: u32 = 100;
/// The most entries in types that are read: a constant, and one more for so many bytes. Genuine debug information has
/// no more; what is hostile could keep us reading forever.
const MOST_ENTRIES: u64 = 1 << 24;
const BYTES_PER_ENTRY: u64 = 8;
/// The most functions of a program whose structs are all listed.
const MOST_FUNCTIONS: usize = 1 << 15;

/// Of what has no entry of its own.
pub(super) const NOWHERE: Die = Die { unit: u32::MAX, at: 0 };

/// What else there is of a type that has a number.
#[derive(Clone, Copy)]
enum Body {
    Nothing,
    Target(Option<TypeId>),
    Array(TypeId, Option<u64>),
    Entry(Die),
}

#[derive(Clone)]
struct Known {
    name: Rc<str>,
    form: Form,
    size: u64,
    signed: bool,
    language: Language,
    body: Body,
}

pub struct Program {
    pub debug: Debug,
    pub(super) indexes: Vec<Index>,
    pub(super) names: RefCell<Names>,
    known: RefCell<Vec<Known>>,
    /// By what makes a type.
    numbers: RefCell<HashMap<(u64, u64), TypeId>>,
    by_entry: RefCell<HashMap<Die, TypeId>>,
    by_name: RefCell<HashMap<String, Option<TypeId>>>,
    facts: RefCell<HashMap<TypeId, Rc<Facts>>>,
    pub(super) externals: RefCell<Option<Rc<Externals>>>,
    depth: Cell<u32>,
    pub(super) left: Cell<u64>,
}

/// Two hashes of what makes a type.
struct Key(std::collections::hash_map::DefaultHasher, std::collections::hash_map::DefaultHasher);

impl Key {
    fn new(form: Form) -> Key {
        let mut key = Key(Default::default(), Default::default());
        key.1.write_u8(1);
        key.add(form);
        key
    }

    fn add(&mut self, part: impl Hash) -> &mut Key {
        part.hash(&mut self.0);
        part.hash(&mut self.1);
        self
    }

    fn done(&self) -> (u64, u64) {
        (self.0.finish(), self.1.finish())
    }
}

impl Program {
    pub fn new(mut debug: Debug, control: &Control) -> Result<Program> {
        let Found { indexes, odd } = debug.index(control)?;
        let bytes: u64 = debug.units.iter().map(|unit| u64::from(unit.length())).sum();
        let mut made = Program {
            debug,
            indexes,
            names: RefCell::default(),
            known: RefCell::default(),
            numbers: RefCell::default(),
            by_entry: RefCell::default(),
            by_name: RefCell::default(),
            facts: RefCell::default(),
            externals: RefCell::default(),
            depth: Cell::new(0),
            left: Cell::new(MOST_ENTRIES + bytes / BYTES_PER_ENTRY),
        };
        made.add_odd(odd)?;
        Ok(made)
    }

    /// Definitions whose names are elsewhere.
    fn add_odd(&mut self, odd: Vec<(Die, u64)>) -> Result<()> {
        let mut met = HashSet::new();
        for (die, mark) in odd {
            let name = self.name(die);
            let [path, _] = paths(&name);
            let module = self.debug.module_of(die.unit);
            if !name.is_empty() && met.insert((module, path, mark)) {
                push(&mut self.indexes[module as usize].definitions, Named { path, die })?;
            }
        }
        self.indexes.iter_mut().for_each(|index| index.definitions.sort_unstable());
        Ok(())
    }

    /// A type's or namespace's name; empty if it has none.
    pub fn name(&self, die: Die) -> Rc<str> {
        self.names.borrow_mut().of(&self.debug, die)
    }

    /// The part of a function that has this address of the process, and its module.
    pub fn code_at(&self, address: u64) -> Option<(usize, Code)> {
        self.codes_at(address).into_iter().next()
    }

    /// Several, where the linker made functions one.
    fn codes_at(&self, address: u64) -> Vec<(usize, Code)> {
        let mut found = Vec::new();
        for (module, index) in self.indexes.iter().enumerate() {
            let address = address.wrapping_sub(self.debug.modules[module].bias);
            let end = index.code.partition_point(|code| code.low <= address);
            for code in index.code[..end].iter().rev().take_while(|code| address - code.low < index.longest) {
                if address < code.high {
                    found.push((module, *code));
                }
                if found.last().is_some_and(|(_, innermost)| innermost.low != code.low) {
                    break;
                }
            }
        }
        found
    }

    /// The number of the type that an entry says it is of.
    pub fn type_of(&self, die: Die) -> TypeId {
        self.number(self.debug.referred(die, dw::DW_AT_type))
    }

    /// The number of a type without its typedefs and `const`. None: void.
    pub fn number(&self, die: Option<Die>) -> TypeId {
        let Some(die) = die else { return self.void() };
        if let Some(number) = self.by_entry.borrow().get(&die) {
            return *number;
        }
        if self.depth.get() > DEEPEST {
            return self.add(Key::new(Form::Other).add(DEEPEST).done(), "".into(), Form::Other, 0, die, Body::Nothing);
        }
        self.depth.set(self.depth.get() + 1);
        let number = self.number_of(die);
        self.depth.set(self.depth.get() - 1);
        self.by_entry.borrow_mut().insert(die, number);
        number
    }

    fn void(&self) -> TypeId {
        self.add(Key::new(Form::Void).done(), "void".into(), Form::Void, 1, NOWHERE, Body::Nothing)
    }

    fn add(&self, key: (u64, u64), name: Rc<str>, form: Form, size: u64, of: Die, body: Body) -> TypeId {
        if let Some(number) = self.numbers.borrow().get(&key) {
            return *number;
        }
        let mut known = self.known.borrow_mut();
        let language = match (body, self.debug.units.get(of.unit as usize)) {
            (_, Some(unit)) => unit.language,
            (Body::Target(Some(target)), None) => known[target as usize].language,
            _ => Language::Unknown,
        };
        let number = known.len() as TypeId;
        known.push(Known { name, form, size, signed: false, language, body });
        self.numbers.borrow_mut().insert(key, number);
        number
    }

    /// An entry without typedefs and qualifiers, and the innermost typedef on the way. None: void.
    pub(super) fn plain(&self, die: Die) -> (Option<Die>, Option<Die>) {
        let (mut at, mut alias) = (die, None);
        for _ in 0..MOST_TYPEDEFS {
            match self.debug.tag(at) {
                Some(dw::DW_TAG_typedef) => alias = Some(at),
                Some(
                    dw::DW_TAG_const_type
                    | dw::DW_TAG_volatile_type
                    | dw::DW_TAG_restrict_type
                    | dw::DW_TAG_atomic_type
                    | dw::DW_TAG_immutable_type,
                ) => {}
                Some(_) => {
                    // a type unit has what is only declared here
                    return match self.debug.referred(at, dw::DW_AT_signature) {
                        Some(whole) if self.debug.tag(whole) == self.debug.tag(at) => (Some(whole), alias),
                        _ => (Some(at), alias),
                    };
                }
                None => return (None, alias),
            }
            match self.debug.referred(at, dw::DW_AT_type) {
                Some(next) => at = next,
                None => return (None, alias),
            }
        }
        (None, None)
    }

    fn number_of(&self, die: Die) -> TypeId {
        let (Some(kind), alias) = self.plain(die) else { return self.void() };
        let Some(tag) = self.debug.tag(kind) else { return self.void() };
        let size = self.debug.number(kind, dw::DW_AT_byte_size).unwrap_or(0);
        match tag {
            dw::DW_TAG_base_type => self.base_type(kind, size),
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                let form = if tag == dw::DW_TAG_pointer_type { Form::Pointer } else { Form::Reference };
                let target = self.type_of(kind);
                self.pointer(form, tag, target, kind)
            }
            dw::DW_TAG_array_type => self.array(kind),
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_interface_type => {
                self.compound(kind, alias, Form::Struct, size)
            }
            dw::DW_TAG_union_type => self.compound(kind, alias, Form::Union, size),
            dw::DW_TAG_enumeration_type => self.enumeration(kind, alias, size),
            dw::DW_TAG_subroutine_type | dw::DW_TAG_subprogram => {
                let mut key = Key::new(Form::Function);
                key.add(self.type_of(kind));
                let mut parameters = Vec::new();
                self.read(kind, |die, tag| parameters.extend((tag == dw::DW_TAG_formal_parameter).then_some(die)));
                parameters.iter().for_each(|each| {
                    key.add(self.type_of(*each));
                });
                self.add(key.done(), "".into(), Form::Function, 1, kind, Body::Nothing)
            }
            dw::DW_TAG_unspecified_type => {
                let name = self.name(kind);
                self.add(Key::new(Form::Void).add(&name).done(), name, Form::Void, 0, kind, Body::Nothing)
            }
            dw::DW_TAG_subrange_type => self.type_of(kind),
            _ => {
                let target = self.type_of(kind);
                let word = u64::from(self.debug.unit(kind).inner.header.address_size());
                let is_method = self.known.borrow()[target as usize].form == Form::Function;
                let size = match (tag, size) {
                    (dw::DW_TAG_ptr_to_member_type, 0) => word * if is_method { 2 } else { 1 },
                    _ => size,
                };
                let owner = self.debug.referred(kind, dw::DW_AT_containing_type).map(|owner| self.name(owner));
                let key = Key::new(Form::Other).add((tag.0, target, owner, size)).done();
                self.add(key, self.name(kind), Form::Other, size, kind, Body::Nothing)
            }
        }
    }

    fn base_type(&self, kind: Die, size: u64) -> TypeId {
        let encoding = match self.debug.value(kind, dw::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => encoding,
            _ => dw::DW_ATE_unsigned,
        };
        let name = self.name(kind);
        let (mut form, signed) = match encoding {
            dw::DW_ATE_boolean => (Form::Boolean, false),
            dw::DW_ATE_float | dw::DW_ATE_decimal_float => (Form::Float, false),
            dw::DW_ATE_signed | dw::DW_ATE_signed_char => (Form::Integer, true),
            dw::DW_ATE_unsigned | dw::DW_ATE_unsigned_char => (Form::Integer, false),
            dw::DW_ATE_UTF | dw::DW_ATE_ASCII | dw::DW_ATE_UCS => (Form::Character, false),
            _ => (Form::Other, false),
        };
        if form == Form::Integer && size == 1 && name.ends_with("char") {
            form = Form::Character;
        }
        let key = Key::new(form).add((&name, size)).done();
        let number = self.add(key, name, form, size, kind, Body::Nothing);
        self.known.borrow_mut()[number as usize].signed |= signed;
        number
    }

    pub(super) fn pointer(&self, form: Form, tag: DwTag, target: TypeId, of: Die) -> TypeId {
        let is_void = self.known.borrow()[target as usize].form == Form::Void;
        let target_told = if is_void { None } else { Some(target) };
        let unit = self.debug.units.get(of.unit as usize).or(self.debug.units.first());
        let word = unit.map_or(8, |unit| unit.inner.header.address_size());
        let key = Key::new(form).add((tag.0, target)).done();
        self.add(key, "".into(), form, u64::from(word), of, Body::Target(target_told))
    }

    fn array(&self, kind: Die) -> TypeId {
        let mut lengths = Vec::new();
        self.read(kind, |die, tag| {
            if matches!(tag, dw::DW_TAG_subrange_type | dw::DW_TAG_enumeration_type) {
                lengths.push(self.length(die));
            }
        });
        let mut number = self.type_of(kind);
        if lengths.is_empty() {
            lengths.push(None);
        }
        for length in lengths.into_iter().rev() {
            number = self.array_of(number, length, kind);
        }
        number
    }

    fn length(&self, range: Die) -> Option<u64> {
        let constant = |name| match self.debug.value(range, name)? {
            AttributeValue::Exprloc(_) | AttributeValue::UnitRef(_) => None,
            value => constant(&value).map(|value| value as u64),
        };
        if let Some(count) = constant(dw::DW_AT_count) {
            return Some(count);
        }
        let low = constant(dw::DW_AT_lower_bound).unwrap_or(0);
        Some(constant(dw::DW_AT_upper_bound)?.wrapping_sub(low).wrapping_add(1))
    }

    /// An array of so many; None or 0: it is flexible.
    pub fn array_of(&self, of: TypeId, length: Option<u64>, entry: Die) -> TypeId {
        let each = self.known.borrow()[of as usize].size;
        let length = match length {
            _ if each == 0 => Some(0),
            Some(0) => None,
            length => length,
        };
        let size = length.unwrap_or(0).saturating_mul(each);
        let key = Key::new(Form::Array).add((of, length)).done();
        self.add(key, "".into(), Form::Array, size, entry, Body::Array(of, length))
    }

    /// A struct or union.
    fn compound(&self, kind: Die, alias: Option<Die>, form: Form, size: u64) -> TypeId {
        let mut name = self.name(kind);
        let is_declared = self.debug.flag(kind, dw::DW_AT_declaration);
        if is_declared || size == 0 && !name.is_empty() {
            if let Ok(Some(whole)) = self.by_name(&name) {
                return whole;
            }
        }
        if is_declared {
            return self.add(Key::new(form).add(&name).done(), name, form, 0, kind, Body::Nothing);
        }
        if let (true, Some(alias)) = (name.is_empty(), alias) {
            name = self.name(alias);
        }
        let members = self.members(kind);
        let form = if members.has_variants(self, size) { Form::Union } else { form };
        let mut key = Key::new(form);
        key.add((&name, size));
        for each in &members.all {
            self.add_member(&mut key, each);
        }
        // templates of several lambdas in a function have the same name
        if name.contains("<lambda(") {
            key.add(self.arguments(&members, &name));
        }
        self.add(key.done(), name, form, size, kind, Body::Entry(kind))
    }

    /// A member's part of what makes a type. A pointer's target counts by name alone: it may lead back to this type.
    fn add_member(&self, key: &mut Key, member: &Member) {
        key.add((&member.name, member.place, member.bits));
        let Some(mut of) = member.of else { return };
        for _ in 0..DEEPEST {
            let (Some(kind), _) = self.plain(of) else { return };
            let tag = self.debug.tag(kind).unwrap_or(dw::DW_TAG_null);
            match tag {
                dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                    let target = self.debug.referred(kind, dw::DW_AT_type).map(|target| self.plain(target));
                    let (target, alias) = target.unwrap_or_default();
                    let name = |die: Option<Die>| die.map_or_else(|| "".into(), |die| self.name(die));
                    let named = if name(target).is_empty() { name(alias) } else { name(target) };
                    let of = target.and_then(|target| self.debug.tag(target)).map(same_tag);
                    key.add((tag.0, of, named));
                    return;
                }
                dw::DW_TAG_array_type => {
                    let mut lengths = Vec::new();
                    self.read(kind, |die, tag| {
                        lengths.extend((tag == dw::DW_TAG_subrange_type).then(|| self.length(die)));
                    });
                    key.add(lengths);
                    match self.debug.referred(kind, dw::DW_AT_type) {
                        Some(each) => of = each,
                        None => return,
                    }
                }
                _ => {
                    key.add(self.number(Some(of)));
                    return;
                }
            }
        }
    }

    fn enumeration(&self, kind: Die, alias: Option<Die>, size: u64) -> TypeId {
        let mut name = self.name(kind);
        if self.debug.flag(kind, dw::DW_AT_declaration) {
            if let Ok(Some(whole)) = self.by_name(&name) {
                return whole;
            }
        }
        if let (true, Some(alias)) = (name.is_empty(), alias) {
            name = self.name(alias);
        }
        let key = Key::new(Form::Enum).add((&name, size, self.enumerators(kind))).done();
        self.add(key, name, Form::Enum, size, kind, Body::Entry(kind))
    }

    /// The entries of types and typedefs that have this name.
    fn definitions(&self, name: &str, mut each: impl FnMut(Die)) {
        for index in &self.indexes {
            for path in paths(name) {
                with_path(&index.definitions, path).filter(|die| *self.name(*die) == *name).for_each(&mut each);
            }
        }
    }

    /// The types of this name. Several: each of them is another file's own.
    fn all_named(&self, name: &str) -> Vec<TypeId> {
        let mut found = Vec::new();
        self.definitions(name, |die| found.extend(self.is_own_name(die).then(|| self.number(Some(die)))));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The types of this name; where there are several, those that the source file with the type `beside` has.
    pub fn named(&self, name: &str, beside: Option<TypeId>) -> Vec<TypeId> {
        let found = self.all_named(name);
        let body = beside.and_then(|of| Some(self.known.borrow().get(usize::try_from(of).ok()?)?.body));
        let (Some(Body::Entry(die)), true) = (body, found.len() > 1) else { return found };
        let unit = self.structs_of_unit(die.unit, 1, u64::MAX);
        let own: Vec<TypeId> = unit.into_iter().map(|die| self.number(Some(die))).collect();
        found.into_iter().filter(|of| own.contains(of)).collect()
    }

    /// The built-in type of this name.
    pub(super) fn base_named(&self, name: &str) -> Option<TypeId> {
        let mut all = self.indexes.iter().flat_map(|index| with_path(&index.definitions, BASE));
        all.find(|die| *self.name(*die) == *name).map(|die| self.number(Some(die)))
    }

    fn describe(&self, of: TypeId) -> Option<Facts> {
        let known = self.known.borrow().get(usize::try_from(of).ok()?)?.clone();
        let mut facts = Facts::new(&known.name, known.form, known.size);
        (facts.signed, facts.language) = (known.signed, known.language);
        match known.body {
            Body::Nothing => {}
            Body::Target(target) => facts.target = target,
            Body::Array(each, length) => (facts.target, facts.length) = (Some(each), length),
            Body::Entry(die) if known.form == Form::Enum => {
                facts.enumerators = self.enumerators(die);
                facts.signed = facts.enumerators.iter().any(|(_, value)| *value < 0);
            }
            Body::Entry(die) => {
                let members = self.members(die);
                facts.polymorphic = self.is_polymorphic(die);
                facts.arguments = self.arguments(&members, &known.name);
                for each in &members.all {
                    let (Some(place), Some(of)) = (each.place, each.of) else { continue };
                    let is_tag = each.is_artificial && each.name.is_empty() && known.language == Language::Rust;
                    if each.bits > 0 {
                        facts.bits.extend(self.bit_field(each, of, place));
                    } else if place % 8 == 0 {
                        let field = Field {
                            name: written(&each.name, known.language),
                            offset: place / 8,
                            of: self.number(Some(of)),
                            is_base: each.is_base,
                        };
                        if !is_tag {
                            facts.fields.push(field);
                        } else if known.form == Form::Union && facts.tag.is_none() {
                            facts.tag = Some(field);
                        }
                    }
                }
            }
        }
        Some(facts)
    }
}

/// A member's name as programs have it: of a tuple in Rust its number, which debug information calls "__0".
fn written(name: &Rc<str>, language: Language) -> Rc<str> {
    let number = name.strip_prefix("__").filter(|_| language == Language::Rust);
    match number.filter(|number| !number.is_empty() && number.bytes().all(|each| each.is_ascii_digit())) {
        Some(number) => number.into(),
        None => name.clone(),
    }
}

/// Structs and classes are the same.
fn same_tag(tag: DwTag) -> u16 {
    match tag {
        dw::DW_TAG_class_type | dw::DW_TAG_interface_type => dw::DW_TAG_structure_type.0,
        _ => tag.0,
    }
}

impl TypeSource for Program {
    fn facts(&self, of: TypeId) -> Result<Rc<Facts>> {
        kept(&self.facts, of, || Ok(Rc::new(self.describe(of).unwrap_or_else(|| Facts::new("", Form::Other, 0)))))
    }

    fn by_name(&self, name: &str) -> Result<Option<TypeId>> {
        if let Some(known) = self.by_name.borrow().get(name) {
            return Ok(*known);
        }
        // what is asked for its own sake while it is looked for has no answer yet
        self.by_name.borrow_mut().insert(name.to_owned(), None);
        let found = self.all_named(name);
        let number = found.first().copied().filter(|_| found.len() == 1);
        self.by_name.borrow_mut().insert(name.to_owned(), number);
        Ok(number)
    }

    fn classes_at(&self, code: u64) -> Result<Vec<TypeId>> {
        let mut found = Vec::new();
        for (module, each) in self.codes_at(code) {
            if each.low != code.wrapping_sub(self.debug.modules[module].bias) {
                continue;
            }
            let class = self.debug.parent(declaration(&self.debug, each.die));
            let is_class = class.and_then(|class| self.debug.tag(class)).is_some_and(super::index::is_type);
            found.extend(class.filter(|_| is_class).map(|class| self.number(Some(class))));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn pointer_to(&self, of: TypeId) -> Result<TypeId> {
        if usize::try_from(of).map_or(true, |of| of >= self.known.borrow().len()) {
            return Ok(self.void());
        }
        Ok(self.pointer(Form::Pointer, dw::DW_TAG_pointer_type, of, NOWHERE))
    }

    fn structs(&self, of_program: bool) -> Result<Vec<(TypeId, u64)>> {
        let (mut found, mut met) = (Vec::new(), HashSet::new());
        for (module, index) in self.debug.modules.iter().zip(&self.indexes) {
            let is_asked = if of_program { module.is_program } else { !module.is_libc };
            if !is_asked || of_program && index.code.len() > MOST_FUNCTIONS {
                continue;
            }
            let mut dies: Vec<Die> = index.definitions.iter().map(|each| each.die).collect();
            dies.sort_unstable();
            for die in dies.into_iter().filter(|die| self.is_own_name(*die)) {
                let number = self.number(Some(die));
                let Known { form, size, .. } = self.known.borrow()[number as usize];
                if matches!(form, Form::Struct | Form::Union) && size > 0 && met.insert(number) {
                    push(&mut found, (number, size))?;
                }
            }
        }
        Ok(found)
    }

    fn structs_of_source_file(&self, code: u64, least: u64, most: u64) -> Result<Vec<TypeId>> {
        let Some((_, code)) = self.code_at(code) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for die in self.structs_of_unit(code.die.unit, least, most) {
            let number = self.number(Some(die));
            if self.known.borrow()[number as usize].form == Form::Struct && !found.contains(&number) {
                push(&mut found, number)?;
            }
        }
        Ok(found)
    }
}
