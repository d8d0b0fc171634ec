use std::rc::Rc;

use super::forms::Container;
use crate::failure::Result;
use crate::types::facts::{Facts, TypeId};
use crate::types::tracer::layouts::TypeTable;

pub fn container(_: &Rc<TypeTable>, _: TypeId, _: &Facts) -> Result<Option<Container>> {
    Ok(None)
}

/// The template of a control block with the object inside.
pub const INPLACE: &str = "__shared_ptr_emplace";
const NAMESPACES: [&str; 4] = ["__1", "__2", "__ndk1", "__Cr"];

/// "map" of std::__1::map<int, int>; None for a name outside such a namespace.
pub fn template_of(name: &str) -> Option<&str> {
    let whole = name.split('<').next().unwrap_or(name);
    let (namespace, template) = whole.strip_prefix("std::")?.split_once("::")?;
    NAMESPACES.contains(&namespace).then_some(template)
}
