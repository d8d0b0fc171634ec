//! What tracer and containers say to each other.

use std::fmt::Write;

use super::layouts::{TypeTable, MOST_MEMBERS};
use crate::failure::Result;
use crate::types::facts::{Form, TypeId};

/// How strong a claim is, the strongest first. What a claim leads to is never stronger than itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Strength {
    /// A container that proved itself.
    Container,
    /// An object's vtable.
    Vtable,
    /// A pointer to a block of just that size.
    Exact,
    /// An array that its pointers prove.
    Array,
    /// An element of a list that leads from member to member, which was looked at as a whole.
    Listed,
    /// The same by a local variable, which may not be set yet.
    Local,
    /// The same by a rule of the user's.
    Rule,
    /// What the block holds, and how large it is, where the pointer tells no type, or another one.
    Words,
    /// All else that names a type.
    Weak,
    /// What others of the type hold, where nothing that leads to it tells a type.
    Alike,
    /// A member that tells no type.
    Field,
}

/// That a block is of a type, or begins with something before what is of this type (`front`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// Where the block must begin; where `inline`: the object.
    pub address: u64,
    /// Of one element, where it is an array.
    pub of: TypeId,
    pub strength: Strength,
    /// The way to it from the container on: "" or " (buckets)".
    pub step: &'static str,
    /// An array of so many elements in use, the rest of the block is unused; None: one object.
    pub elements: Option<u64>,
    /// So many elements the block is for, from `front` on; it is refused where they do not fit. None: `elements`.
    pub capacity: Option<u64>,
    /// Whether what it holds can lead further; false for characters and numbers.
    pub words: bool,
    /// Of a container that is ordered or counted: which of its elements lies there, the first where there are several.
    /// It is shown after `step`, as [3], or by the element's key.
    pub number: Option<u64>,
    /// So many bytes of the block lie before its (first) element: the count for `delete[]`, unused places of a deque.
    pub front: u64,
    /// What the block is called, where its type says less: "std::string body", "std::unordered_map<...> buckets".
    pub name: &'a str,
    /// No block of its own: it lies within what the container is in, where its declared type does not tell (the buffer
    /// of an optional, a variant, a small function object). It is to be followed as if it were a member.
    pub inline: bool,
}

impl<'a> Claim<'a> {
    /// One object.
    pub fn new(address: u64, of: TypeId, strength: Strength) -> Claim<'a> {
        Claim {
            address,
            of,
            strength,
            step: "",
            elements: None,
            capacity: None,
            words: true,
            number: None,
            front: 0,
            name: "",
            inline: false,
        }
    }

    pub fn inline(address: u64, of: TypeId) -> Claim<'a> {
        Claim { inline: true, ..Claim::new(address, of, Strength::Container) }
    }
}

/// Takes the claims of a container, one after the other.
pub type Take<'a> = dyn FnMut(&Claim) -> Result<()> + 'a;

pub const PAIR: &str = "std::pair<";
/// So far members of members are named.
const DEEPEST: u32 = 16;

/// The member at an offset: "log.first", "rows[3].next". None where none does, or more than one: a union's. Without
/// `in_unions` a union is named by the member that it is, whatever it has.
pub fn member_at(types: &TypeTable, of: TypeId, offset: u64, in_unions: bool) -> Result<Option<String>> {
    let mut left = MOST_MEMBERS;
    let name = within(types, of, offset, DEEPEST, in_unions, &mut left)?;
    let name = name.map(|name| name.strip_prefix('.').map(str::to_owned).unwrap_or(name));
    Ok(name.filter(|name| !name.is_empty()))
}

/// Empty: the type itself, which has no members.
fn within(
    types: &TypeTable,
    of: TypeId,
    offset: u64,
    deep: u32,
    in_unions: bool,
    left: &mut u32,
) -> Result<Option<String>> {
    let facts = types.facts(of)?;
    if let (Form::Array, Some(target), true) = (facts.form, facts.target, deep > 0) {
        let size = types.facts(target)?.size;
        if size == 0 {
            return Ok(None);
        }
        let inner = within(types, target, offset % size, deep - 1, in_unions, left)?;
        return Ok(inner.map(|inner| format!("[{}]{inner}", offset / size)));
    }
    if !matches!(facts.form, Form::Struct | Form::Union) {
        return Ok((offset < facts.size).then(String::new));
    }
    // what a library's container is made of tells nobody anything, but of its nodes and pairs the elements do
    if facts.name.starts_with("std::") && of >= 0 && !facts.name.starts_with(PAIR) {
        return Ok(Some(String::new()));
    }
    let (mut found, mut several) = (None, false);
    for each in facts.fields.iter().take_while(|_| deep > 0) {
        let Some(place) = offset.checked_sub(each.offset) else { continue };
        if *left == 0 || place >= types.facts(each.of)?.size {
            continue;
        }
        *left -= 1;
        let Some(inner) = within(types, each.of, place, deep - 1, in_unions, left)? else { continue };
        several |= found.is_some();
        let mut name = String::new();
        if !each.is_base && !each.name.is_empty() {
            let _ = write!(name, ".{}", each.name);
        }
        found = Some(name + &inner);
    }
    if several {
        return Ok((facts.form == Form::Union && !in_unions).then(String::new));
    }
    Ok(found)
}
