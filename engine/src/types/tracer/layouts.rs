//! Types flattened: what in an object of a type can lead to blocks, in order of offsets.
//!
//! Members of members and base classes stand at their offsets in the whole. A container that is found stops the
//! descent, as it alone knows which of its words count. Alternatives of a union are kept apart.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::containers::forms::{places, Container, Library, COUNTED_IN_RUST};
use super::containers::{libcxx, libstdcxx};
use super::memory::Memory;
use crate::failure::{insert, kept, push, Result};
use crate::image::Span;
use crate::types::facts::{Facts, Field, Form, Language, TypeId, TypeSource};
use crate::types::spelling::parts_of;

/// So far members of members are looked into.
const DEEPEST: u32 = 32;
/// Of one layout.
const MOST_SLOTS: usize = 4096;
/// Of one layout, members of members too, whether they lead on or not: nested types have 2^n.
pub const MOST_MEMBERS: u32 = 1 << 14;
/// A hash table that is being enlarged has two arrays, and two sizes.
const FEW_POWERS: u64 = 2;
/// An array of so many slots at most is taken apart.
const UNROLLED: u64 = 16;

/// What Rust's library wraps a value in, the members of which no program names.
const WRAPPERS: [&str; 28] = [
    "alloc::boxed::Box",
    "alloc::collections::btree::set::BTreeSet",
    "alloc::rc::Rc",
    "alloc::rc::RcBox",
    "alloc::rc::RcInner",
    "alloc::rc::Weak",
    "alloc::string::String",
    "alloc::sync::Arc",
    "alloc::sync::ArcInner",
    "alloc::sync::Weak",
    "core::cell::Cell",
    "core::cell::RefCell",
    "core::cell::UnsafeCell",
    "core::cell::once::OnceCell",
    "core::mem::manually_drop::ManuallyDrop",
    "core::mem::maybe_dangling::MaybeDangling",
    "core::mem::maybe_uninit::MaybeUninit",
    "core::option::Option",
    "core::pin::Pin",
    "core::ptr::non_null::NonNull",
    "core::ptr::unique::Unique",
    "core::sync::atomic::AtomicPtr",
    "std::sync::lazy_lock::LazyLock",
    "std::sync::mutex::Mutex",
    "std::sync::once_lock::OnceLock",
    "std::sync::poison::mutex::Mutex",
    "std::sync::poison::rwlock::RwLock",
    "std::sync::rwlock::RwLock",
];

/// What a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An object whose type is known.
    Object,
    /// Pointers: T **.
    Pointers,
    Numbers,
    /// Characters.
    Text,
    /// Nothing tells.
    Anything,
}

/// A pointer in an object.
#[derive(Clone, Debug)]
pub struct Slot {
    pub offset: u64,
    pub to: Target,
    /// The type of what it leads to; None: not known.
    pub target: Option<TypeId>,
    /// ".log", "" for a variable that is a pointer itself.
    pub step: Rc<str>,
    /// By the innermost type that has a name: "session.log"; "" for a variable, or an element, that is a pointer.
    pub member: Rc<str>,
    /// A `void *`.
    pub is_void: bool,
    /// Rules of the user's say what it leads to.
    pub is_ruled: bool,
    /// It leads to the kind of struct that it lies in, and this is a member of the object: where that lies.
    pub link: Option<u64>,
    /// Of all slots and containers, so that something can be noted of each.
    pub number: u32,
}

impl Slot {
    /// Whether nothing that it leads to contradicts it.
    pub fn fits_all(&self) -> bool {
        self.to == Target::Text || self.is_void
    }
}

/// A standard library's container in an object.
#[derive(Clone)]
pub struct Embedded {
    pub offset: u64,
    pub container: Rc<Container>,
    pub step: Rc<str>,
    /// Of its type.
    pub name: Rc<str>,
    pub size: u64,
    /// As of slots.
    pub number: u32,
}

/// A union in an object.
pub struct Alternatives {
    pub offset: u64,
    pub layouts: Vec<FlatType>,
    pub step: Rc<str>,
}

/// A counted array in an object.
pub struct Repeat {
    pub offset: u64,
    pub count: u64,
    pub layout: Rc<FlatType>,
    /// It ends in "[]".
    pub step: Rc<str>,
}

/// An enum or a boolean in an object, and the bits that its values can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    pub offset: u64,
    pub size: u64,
    pub mask: u64,
}

/// An integer in an object, which may count what a pointer beside it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub offset: u64,
    pub size: u64,
}

/// A type, flattened.
pub struct FlatType {
    pub of: TypeId,
    pub size: u64,
    pub name: Rc<str>,
    pub polymorphic: bool,
    pub slots: Vec<Slot>,
    pub containers: Vec<Embedded>,
    pub unions: Vec<Alternatives>,
    pub repeats: Vec<Repeat>,
    pub numbers: Vec<Number>,
    /// Numbers that may be the binary logarithm of such a count, characters among them.
    pub powers: Vec<Number>,
    pub bits: Vec<Bits>,
    /// Where pointers to functions are.
    pub functions: Vec<u64>,
    /// An array of unknown length at the end (T[]): its element's type, and its offset.
    pub flexible: Option<(TypeId, u64)>,
    pub flexible_label: Rc<str>,
    /// Where what Rust's Rc and Arc point to counts who hold the value, and who know it.
    pub counts: Option<[u64; 2]>,
}

impl FlatType {
    fn new(of: TypeId, facts: &Facts) -> FlatType {
        FlatType {
            of,
            size: facts.size,
            name: facts.name.clone(),
            polymorphic: facts.polymorphic,
            slots: Vec::new(),
            containers: Vec::new(),
            unions: Vec::new(),
            repeats: Vec::new(),
            numbers: Vec::new(),
            powers: Vec::new(),
            bits: Vec::new(),
            functions: Vec::new(),
            flexible: None,
            flexible_label: "".into(),
            counts: None,
        }
    }

    pub fn leads_on(&self) -> bool {
        self.parts() > 0 || self.flexible.is_some()
    }

    /// Whether it leads to its own kind, as a list's members do.
    pub fn is_link(&self) -> bool {
        self.slots.iter().any(|slot| slot.target == Some(self.of))
    }

    /// Whether it has nothing but such pointers, as a list's head in C.
    pub fn is_only_links(&self, word: u64) -> bool {
        let links = self.slots.iter().filter(|slot| slot.target == Some(self.of)).count() as u64;
        links > 0 && links * word == self.size
    }

    pub fn parts(&self) -> usize {
        self.slots.len() + self.containers.len() + self.unions.len() + self.repeats.len()
    }
}

/// A type that is made up, by name, size, and what it is a part of.
type MadeUp = (Rc<str>, u64, Option<TypeId>);

/// Types with their sizes.
type SizedTypes = Rc<[(TypeId, u64)]>;

/// Types by number: a source's, and those that containers make up, which have negative numbers.
pub struct TypeTable {
    source: Rc<dyn TypeSource>,
    word: u64,
    known: RefCell<HashMap<TypeId, Rc<Facts>>>,
    /// Those in the order in which they were met.
    met: RefCell<Vec<TypeId>>,
    made: RefCell<HashMap<MadeUp, TypeId>>,
    shortened: RefCell<HashMap<TypeId, Option<TypeId>>>,
    beginnings: RefCell<HashMap<TypeId, SizedTypes>>,
    keys: RefCell<HashMap<TypeId, Field>>,
}

impl TypeTable {
    /// `word`: bytes of a pointer.
    pub fn new(source: Rc<dyn TypeSource>, word: u64) -> TypeTable {
        TypeTable {
            source,
            word,
            known: RefCell::default(),
            met: RefCell::default(),
            made: RefCell::default(),
            shortened: RefCell::default(),
            beginnings: RefCell::default(),
            keys: RefCell::default(),
        }
    }

    pub fn source(&self) -> &dyn TypeSource {
        &*self.source
    }

    pub fn word(&self) -> u64 {
        self.word
    }

    pub fn facts(&self, of: TypeId) -> Result<Rc<Facts>> {
        if let Some(known) = self.known.borrow().get(&of) {
            return Ok(known.clone());
        }
        let facts = self.source.facts(of)?;
        self.keep(of, facts.clone())?;
        Ok(facts)
    }

    fn keep(&self, of: TypeId, facts: Rc<Facts>) -> Result<()> {
        let mut known = self.known.borrow_mut();
        if insert(&mut known, of, facts)?.is_none() {
            push(&mut self.met.borrow_mut(), of)?;
        }
        Ok(())
    }

    /// A type as people write it; a struct without a name has none.
    pub fn text(&self, of: Option<TypeId>) -> Result<String> {
        self.text_within(of, DEEPEST)
    }

    fn text_within(&self, of: Option<TypeId>, deep: u32) -> Result<String> {
        let Some(of) = of else { return Ok("void".to_owned()) };
        let facts = self.facts(of)?;
        if deep == 0 {
            return Ok(facts.name.to_string());
        }
        Ok(match facts.form {
            Form::Pointer | Form::Reference => {
                let inner = self.text_within(facts.target, deep - 1)?;
                format!("{inner}{}", if inner.ends_with('*') { "*" } else { " *" })
            }
            Form::Array => {
                let inner = self.text_within(facts.target, deep - 1)?;
                format!("{inner}[{}]", facts.length.map(|length| length.to_string()).unwrap_or_default())
            }
            _ => facts.name.to_string(),
        })
    }

    /// Those that were met until now, in that order.
    pub fn met(&self) -> Vec<TypeId> {
        self.met.borrow().clone()
    }

    pub fn by_name(&self, name: &str) -> Result<Option<TypeId>> {
        self.source.by_name(name)
    }

    pub fn pointer_to(&self, of: TypeId) -> Result<TypeId> {
        if of >= 0 {
            return self.source.pointer_to(of);
        }
        let name = format!("{} *", self.facts(of)?.name);
        self.make(Facts { target: Some(of), ..Facts::new(&name, Form::Pointer, self.word) }, None)
    }

    /// A struct that debug information does not have, or not under a name that can be found: the node of a map. The
    /// same number for the same name and size. `key`: where it has what its container finds it by, if no other element
    /// can have the same.
    pub fn made_up(&self, name: &str, size: u64, fields: Vec<Field>, key: Option<Field>) -> Result<TypeId> {
        let made = self.make(Facts { fields, ..Facts::new(name, Form::Struct, size) }, None)?;
        if let Some(key) = key {
            self.keys.borrow_mut().insert(made, key);
        }
        Ok(made)
    }

    /// Of what a container made up: where it has its element's key.
    pub fn key(&self, of: TypeId) -> Option<Field> {
        self.keys.borrow().get(&of).cloned()
    }

    /// A struct of C whose last member is text, as it is where it was allocated for a shorter one:
    /// `malloc(offsetof(struct entry, name) + length + 1)`. It ends with characters, and has no size of its own beyond
    /// what lies before these.
    pub fn shortened(&self, of: TypeId) -> Result<Option<TypeId>> {
        if let Some(known) = self.shortened.borrow().get(&of) {
            return Ok(*known);
        }
        let facts = self.facts(of)?;
        let mut found = None;
        let last = facts.fields.iter().max_by_key(|field| field.offset);
        if let (Form::Struct, Language::C, Some(last)) = (facts.form, facts.language, last) {
            let is_behind = facts.bits.iter().any(|bits| bits.offset / 8 >= last.offset);
            if let (Some(character), false) = (self.character(last.of)?, is_behind || last.offset == 0) {
                let name = format!("{}[]", self.facts(character)?.name);
                let text = self.make(Facts { target: Some(character), ..Facts::new(&name, Form::Array, 0) }, None)?;
                let mut fields: Vec<_> = facts.fields.iter().filter(|each| *each != last).cloned().collect();
                fields.push(Field { of: text, ..last.clone() });
                let short = Facts { fields, size: last.offset, bits: facts.bits.clone(), ..Facts::clone(&facts) };
                found = Some(self.make(short, Some(of))?);
            }
        }
        self.shortened.borrow_mut().insert(of, found);
        Ok(found)
    }

    /// The smaller structs of C that begin with the same members, two or more, by which pointers lead on; with their
    /// sizes.
    pub fn beginnings(&self, of: TypeId) -> Result<SizedTypes> {
        if let Some(known) = self.beginnings.borrow().get(&of) {
            return Ok(known.clone());
        }
        let facts = self.facts(of)?;
        let mut found = Vec::new();
        if (facts.form, facts.language) == (Form::Struct, Language::C) {
            for (each, size) in self.source.structs(false)? {
                if size < facts.size && size > 0 && self.leads_alike(of, each)? {
                    push(&mut found, (each, size))?;
                }
            }
        }
        let found: SizedTypes = found.into();
        self.beginnings.borrow_mut().insert(of, found.clone());
        Ok(found)
    }

    /// Whether two structs begin with the same members, and these have pointers.
    fn leads_alike(&self, of: TypeId, other: TypeId) -> Result<bool> {
        let same = self.same_members(of, &[other])?;
        let mut leads = false;
        for field in &same {
            leads |= self.facts(field.of)?.form == Form::Pointer;
        }
        Ok(leads && same.len() > 1)
    }

    /// The members with which all of some structs begin.
    fn same_members(&self, of: TypeId, others: &[TypeId]) -> Result<Vec<Field>> {
        let mut same = self.facts(of)?.fields.clone();
        for other in others {
            let other = self.facts(*other)?;
            let count = same.iter().zip(&other.fields).take_while(|(one, other)| one == other).count();
            same.truncate(count);
        }
        Ok(same)
    }

    /// In place of several structs that begin alike: the members that all of them have.
    pub fn either(&self, of: TypeId, several: &[TypeId]) -> Result<TypeId> {
        let (facts, fields) = (self.facts(of)?, self.same_members(of, several)?);
        let mut size = 0;
        for field in &fields {
            size = size.max(field.offset.saturating_add(self.facts(field.of)?.size));
        }
        self.make(Facts { fields, language: facts.language, ..Facts::new(&facts.name, Form::Struct, size) }, Some(of))
    }

    /// By types that were made so the types that they were made of.
    pub fn wholes(&self) -> HashMap<TypeId, TypeId> {
        self.shortened.borrow().iter().filter_map(|(whole, short)| short.map(|short| (short, *whole))).collect()
    }

    /// The type of the characters that a member has: an array of them, or a union with one.
    fn character(&self, of: TypeId) -> Result<Option<TypeId>> {
        let facts = self.facts(of)?;
        match (facts.form, facts.target) {
            (Form::Array, Some(element)) if facts.length.is_some() => {
                let element_facts = self.facts(element)?;
                Ok((element_facts.form == Form::Character && element_facts.size == 1).then_some(element))
            }
            (Form::Union, _) => {
                for each in &facts.fields {
                    if self.facts(each.of)?.form == Form::Array {
                        return self.character(each.of);
                    }
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn make(&self, facts: Facts, part_of: Option<TypeId>) -> Result<TypeId> {
        let key = (facts.name.clone(), facts.size, part_of);
        let mut made = self.made.borrow_mut();
        if let Some(known) = made.get(&key) {
            return Ok(*known);
        }
        let of = -1 - made.len() as TypeId;
        insert(&mut made, key, of)?;
        self.keep(of, Rc::new(facts))?;
        Ok(of)
    }

    /// The types met until now that begin with an object of this one, and are larger, but of `size` at most.
    pub fn enclosing(&self, of: TypeId, size: u64) -> Result<Vec<TypeId>> {
        let least = self.facts(of)?.size;
        let known = self.known.borrow();
        let mut found = Vec::new();
        for each in self.met.borrow().iter() {
            let facts = &known[each];
            let fits = facts.form == Form::Struct && least < facts.size && facts.size <= size;
            if fits && begins_with(&known, *each, of) {
                push(&mut found, *each)?;
            }
        }
        Ok(found)
    }

    /// Whether an object of the type begins with one of the other, as what inherits in C does: with a member of it, or
    /// with the same members. Types that were not met count for nothing.
    pub fn begins_with(&self, of: TypeId, first: TypeId) -> bool {
        begins_with(&self.known.borrow(), of, first)
    }
}

fn begins_with(known: &HashMap<TypeId, Rc<Facts>>, mut of: TypeId, first: TypeId) -> bool {
    let fields = |of: &TypeId| known.get(of).map(|facts| &facts.fields[..]).unwrap_or_default();
    let head = fields(&first);
    for _ in 0..DEEPEST {
        let own = fields(&of);
        // as macros in C make it: `HEAD; int more;`; one member alone says nothing
        if of == first || (1 < head.len() && head.len() < own.len() && own.starts_with(head)) {
            return true;
        }
        let mut starts = own.iter().filter(|each| each.offset == 0).map(|each| each.of);
        let Some(next) = starts.next() else { return false };
        of = starts.find(|each| *each == first).unwrap_or(next);
    }
    false
}

/// Where a member lies in the whole, and by which steps it is reached.
#[derive(Clone)]
struct Place {
    offset: u64,
    step: Rc<str>,
    depth: u32,
    /// What Slot.member begins with.
    label: Rc<str>,
    /// The innermost member that is a struct, and where it lies.
    inside: Option<(TypeId, u64)>,
}

impl Place {
    fn member(&self, field: &Field, facts: &Facts) -> Place {
        let is_named = !field.is_base && !field.name.is_empty();
        let add = |to: &Rc<str>| if is_named { format!("{to}.{}", field.name).into() } else { to.clone() };
        let begins = facts.form == Form::Struct && !facts.name.is_empty() && !field.is_base;
        let label = if begins { facts.name.clone() } else { add(&self.label) };
        let offset = self.offset.saturating_add(field.offset);
        let inside = if facts.form == Form::Struct { Some((field.of, offset)) } else { self.inside };
        Place { offset, step: add(&self.step), depth: self.depth + 1, label, inside }
    }

    /// The same of a member of `whole`, which may have no step of its own.
    fn member_of(&self, whole: &Facts, field: &Field, facts: &Facts) -> Place {
        let place = self.member(field, facts);
        let template = whole.name.split('<').next().unwrap_or_default();
        match whole.language == Language::Rust && WRAPPERS.contains(&template) {
            true => Place { step: self.step.clone(), ..place },
            false => place,
        }
    }
}

/// The layouts of one program's types, each made when it is asked for.
pub struct Layouts {
    pub types: Rc<TypeTable>,
    libraries: &'static [Library],
    /// The members, as Slot has them, that rules of the user's are about.
    ruled: HashSet<Box<str>>,
    /// None: it is being made.
    known: RefCell<HashMap<TypeId, Option<Rc<FlatType>>>>,
    containers: RefCell<HashMap<TypeId, Option<Rc<Container>>>>,
    /// Of the layout that is being made.
    members_left: Cell<u32>,
    numbers: Cell<u32>,
}

impl Layouts {
    pub fn new(types: Rc<TypeTable>, libraries: &'static [Library], ruled: HashSet<Box<str>>) -> Layouts {
        let (known, containers) = (RefCell::default(), RefCell::default());
        Layouts { types, libraries, ruled, known, containers, members_left: Cell::new(0), numbers: Cell::new(0) }
    }

    /// Of a slot or a container that is made.
    pub fn next_number(&self) -> u32 {
        self.numbers.replace(self.numbers.get() + 1)
    }

    pub fn of(&self, of: TypeId) -> Result<Rc<FlatType>> {
        match self.made(of, 0)? {
            Some(made) => Ok(made),
            None => Ok(Rc::new(FlatType::new(of, &*self.types.facts(of)?))),
        }
    }

    /// None while it is being made: a type that contains itself.
    fn made(&self, of: TypeId, depth: u32) -> Result<Option<Rc<FlatType>>> {
        if let Some(known) = self.known.borrow().get(&of) {
            return Ok(known.clone());
        }
        insert(&mut self.known.borrow_mut(), of, None)?;
        let mut layout = FlatType::new(of, &*self.types.facts(of)?);
        let left = self.members_left.replace(MOST_MEMBERS);
        let at = Place { offset: 0, step: "".into(), depth, label: layout.name.clone(), inside: None };
        self.put(&mut layout, of, &at)?;
        let template = layout.name.split('<').next().unwrap_or_default();
        if COUNTED_IN_RUST.contains(&template) {
            layout.counts = places(&self.types, of, "", "strong weak")?;
        }
        self.members_left.set(left);
        let made = Some(Rc::new(layout));
        self.known.borrow_mut().insert(of, made.clone());
        Ok(made)
    }

    pub fn container(&self, of: TypeId) -> Result<Option<Rc<Container>>> {
        kept(&self.containers, of, || {
            let facts = self.types.facts(of)?;
            let asked = self.libraries.iter().map(|library| library(&self.types, of, &facts));
            Ok(asked.filter_map(Result::transpose).next().transpose()?.map(Rc::new))
        })
    }

    /// Adds what a member can lead to.
    fn put(&self, layout: &mut FlatType, of: TypeId, at: &Place) -> Result<()> {
        let facts = self.types.facts(of)?;
        let left = self.members_left.get();
        self.members_left.set(left.saturating_sub(1));
        if at.depth > DEEPEST || layout.parts() >= MOST_SLOTS || left == 0 {
            return Ok(());
        }
        match facts.form {
            Form::Pointer | Form::Reference => match self.slot(&facts, at)? {
                Some(slot) => layout.slots.push(slot),
                None => layout.functions.push(at.offset),
            },
            Form::Integer | Form::Character => {
                let number = Number { offset: at.offset, size: facts.size };
                layout.powers.push(number);
                if facts.form == Form::Integer {
                    layout.numbers.push(number);
                }
            }
            Form::Boolean => layout.bits.push(Bits { offset: at.offset, size: facts.size, mask: 1 }),
            Form::Enum if facts.enumerators.iter().all(|(_, value)| *value >= 0) => {
                let mask = facts.enumerators.iter().fold(0, |mask, (_, value)| mask | *value as u64);
                if !facts.enumerators.is_empty() {
                    layout.bits.push(Bits { offset: at.offset, size: facts.size, mask });
                }
            }
            Form::Array => self.put_array(layout, &facts, at)?,
            Form::Struct | Form::Union => {
                if let Some(container) = self.container(of)? {
                    let (step, name, size) = (at.step.clone(), facts.name.clone(), facts.size);
                    let number = self.next_number();
                    layout.containers.push(Embedded { offset: at.offset, container, step, name, size, number });
                } else if facts.form == Form::Union {
                    self.put_union(layout, &facts, at)?;
                } else {
                    for field in facts.fields.iter().take_while(|_| self.members_left.get() > 0) {
                        let inner = self.types.facts(field.of)?;
                        // what would lie outside contradicts itself
                        if facts.size.checked_sub(inner.size).is_some_and(|most| field.offset <= most) {
                            self.put(layout, field.of, &at.member_of(&facts, field, &inner))?;
                        }
                    }
                }
            }
            _ => (),
        }
        Ok(())
    }

    fn put_array(&self, layout: &mut FlatType, facts: &Facts, at: &Place) -> Result<()> {
        let Some(target) = facts.target else { return Ok(()) };
        let inner = self.types.facts(target)?;
        let length = facts.length.unwrap_or(0);
        if length == 0 {
            layout.flexible = Some((target, at.offset));
            layout.flexible_label = if inner.name.is_empty() { at.label.clone() } else { inner.name.clone() };
            return Ok(());
        }
        if matches!(inner.form, Form::Integer | Form::Character) && length <= FEW_POWERS {
            let offset = |number: u64| at.offset.saturating_add(number.saturating_mul(inner.size));
            layout.powers.extend((0..length).map(|number| Number { offset: offset(number), size: inner.size }));
        }
        if is_number(inner.form) || matches!(inner.form, Form::Character | Form::Void | Form::Other) {
            return Ok(());
        }
        let Some(element) = self.made(target, at.depth + 1)? else { return Ok(()) };
        if element.size == 0 || !element.leads_on() {
            return Ok(());
        }
        if length.saturating_mul(element.parts() as u64) > UNROLLED || element.flexible.is_some() {
            let step = format!("{}[]", at.step).into();
            layout.repeats.push(Repeat { offset: at.offset, count: length, layout: element, step });
            return Ok(());
        }
        let label = if element.name.is_empty() { at.label.clone() } else { element.name.clone() };
        for number in 0..length {
            let offset = at.offset.saturating_add(number.saturating_mul(element.size));
            let step = format!("{}[{number}]", at.step).into();
            let inside = if inner.form == Form::Struct { Some((target, offset)) } else { at.inside };
            self.put(layout, target, &Place { offset, step, depth: at.depth + 1, label: label.clone(), inside })?;
        }
        Ok(())
    }

    fn put_union(&self, layout: &mut FlatType, facts: &Facts, at: &Place) -> Result<()> {
        let mut layouts = Vec::new();
        let within = Place { offset: 0, ..at.clone() };
        for field in facts.fields.iter().take_while(|_| self.members_left.get() > 0) {
            let mut inner = FlatType::new(field.of, facts);
            self.put(&mut inner, field.of, &within.member(field, &*self.types.facts(field.of)?))?;
            if inner.leads_on() {
                layouts.push(inner);
            }
        }
        if !layouts.is_empty() {
            layout.unions.push(Alternatives { offset: at.offset, layouts, step: at.step.clone() });
        }
        Ok(())
    }

    /// None for a pointer to a function.
    fn slot(&self, facts: &Facts, at: &Place) -> Result<Option<Slot>> {
        let mut to = Target::Anything;
        if let Some(target) = facts.target {
            let pointed = self.types.facts(target)?;
            to = match pointed.form {
                Form::Function => return Ok(None),
                Form::Pointer | Form::Reference => Target::Pointers,
                // Rust's containers point to it, whatever they have
                _ if &*pointed.name == "u8" => Target::Anything,
                // an iterator's: the container tells what is in its nodes
                _ if libstdcxx::is_node(&pointed.name) || libcxx::is_node(&pointed.name) => Target::Anything,
                Form::Character => Target::Text,
                Form::Integer if pointed.size == 1 => Target::Text,
                form if pointed.size > 0 && is_number(form) => Target::Numbers,
                Form::Struct | Form::Union | Form::Array if pointed.size > 0 => Target::Object,
                _ => Target::Anything,
            };
        }
        Ok(Some(Slot {
            offset: at.offset,
            to,
            target: facts.target,
            step: at.step.clone(),
            member: at.label.clone(),
            is_void: facts.target.is_none(),
            is_ruled: self.ruled.contains(&*at.label),
            link: at.inside.filter(|(of, _)| Some(*of) == facts.target).map(|(_, offset)| offset),
            number: self.next_number(),
        }))
    }
}

fn is_number(form: Form) -> bool {
    matches!(form, Form::Integer | Form::Float | Form::Enum | Form::Boolean)
}

/// What a vtable tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicClass {
    /// From the part that begins with the vtable's address to the whole object.
    pub top: i64,
    pub of: TypeId,
    pub size: u64,
    /// Debug information has the object in it as bytes: a control block of make_shared. Its container tells more.
    pub hides_object: bool,
}

/// The classes of one image, by the words with which their objects begin.
pub struct Vtables {
    types: Rc<TypeTable>,
    modules: Vec<Span>,
    known: RefCell<HashMap<u64, Option<DynamicClass>>>,
}

impl Vtables {
    /// `modules`: where vtables may lie, in order.
    pub fn new(types: Rc<TypeTable>, modules: Vec<Span>) -> Vtables {
        Vtables { types, modules, known: RefCell::default() }
    }

    /// The class of an object by its vtable, and the block that it is in from its start on.
    pub fn dynamic(&self, memory: &Memory, value: u64, fixed: &FlatType) -> Result<Option<(DynamicClass, u32)>> {
        let Some(table) = memory.word(value) else { return Ok(None) };
        let Some(class) = self.class_of(memory, table, Some(fixed))? else { return Ok(None) };
        Ok(memory.holds(value.wrapping_add(class.top as u64), class.size).map(|block| (class, block)))
    }

    /// `fixed`: what a pointer to the object says, where the class may have no name that can be found.
    pub fn class_of(&self, memory: &Memory, table: u64, fixed: Option<&FlatType>) -> Result<Option<DynamicClass>> {
        let at = self.modules.partition_point(|each| each.end <= table);
        if self.modules.get(at).map_or(true, |each| table < each.start) {
            return Ok(None);
        }
        let known = self.known.borrow().get(&table).copied();
        match known {
            Some(Some(known)) => return Ok(Some(known)),
            Some(None) if fixed.is_none() => return Ok(None),
            _ => (),
        }
        let found = self.find(memory, table, fixed)?;
        insert(&mut self.known.borrow_mut(), table, found)?;
        Ok(found)
    }

    fn find(&self, memory: &Memory, table: u64, fixed: Option<&FlatType>) -> Result<Option<DynamicClass>> {
        let Some(told) = memory.vtable(table) else { return Ok(None) };
        let named = self.types.by_name(&told.name)?;
        let Some(of) = named.or(fixed.filter(|fixed| fixed.name == told.name).map(|fixed| fixed.of)) else {
            return Ok(None);
        };
        let size = self.types.facts(of)?.size;
        let hides_object = parts_of(&told.name).is_some_and(|(template, _)| {
            template == libstdcxx::INPLACE || libcxx::template_of(template) == Some(libcxx::INPLACE)
        });
        Ok((size > 0).then_some(DynamicClass { top: told.top, of, size, hides_object }))
    }
}
