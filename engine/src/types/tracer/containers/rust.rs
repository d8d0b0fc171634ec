use std::rc::Rc;

use super::forms::Container;
use crate::failure::Result;
use crate::types::facts::{Facts, TypeId};
use crate::types::tracer::layouts::TypeTable;

pub fn container(_: &Rc<TypeTable>, _: TypeId, _: &Facts) -> Result<Option<Container>> {
    Ok(None)
}
