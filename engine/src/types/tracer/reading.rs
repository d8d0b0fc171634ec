//! What objects of a type hold that their members do not tell: texts, and how many elements a container has.

use super::containers::forms::{Container, Text};
use super::layouts::Layouts;
use super::memory::Memory;
use crate::failure::Result;
use crate::types::facts::TypeId;

/// What there is where an object of a type is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// None: it is no container, or has not proved itself.
    pub elements: Option<u64>,
    /// Where a text's letters lie.
    pub text: Option<Text>,
}

/// What a type is besides its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nature {
    /// A library's container.
    pub is_container: bool,
    /// One whose elements lie beside each other and lead nowhere: letters, bits.
    pub is_of_numbers: bool,
    /// It ends in an array of unknown length.
    pub is_flexible: bool,
}

pub fn nature(layouts: &Layouts, of: TypeId) -> Result<Nature> {
    let container = layouts.container(of)?;
    let is_of_numbers = matches!(container.as_deref(), Some(Container::Body(body)) if !body.words);
    let is_flexible = layouts.of(of)?.flexible.is_some();
    Ok(Nature { is_container: container.is_some(), is_of_numbers, is_flexible })
}

pub fn contents(layouts: &Layouts, memory: &Memory, of: TypeId, address: u64) -> Result<Contents> {
    let Some(container) = layouts.container(of)? else { return rust_string(layouts, memory, of, address) };
    let elements = container.elements(memory, address)?;
    let text = match &*container {
        Container::Body(body) => body.text(memory, address),
        _ => None,
    };
    Ok(Contents { elements, text })
}

/// Its letters are in a vector.
fn rust_string(layouts: &Layouts, memory: &Memory, of: TypeId, address: u64) -> Result<Contents> {
    let layout = layouts.of(of)?;
    let inner = layout.containers.first().filter(|_| &*layout.name == "alloc::string::String");
    let Some((inner, Container::Body(vector))) = inner.map(|inner| (inner, &*inner.container)) else {
        return Ok(Contents::default());
    };
    let body = vector.body(memory, address.wrapping_add(inner.offset));
    Ok(Contents { elements: None, text: body.map(|body| Text { start: body.start, length: body.used, size: 1 }) })
}
