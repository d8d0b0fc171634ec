//! Which structs have a struct as a member, and where: for pointers that lead to members (container_of).

use std::collections::HashMap;

use super::layouts::TypeTable;
use super::memory::Memory;
use crate::failure::{push, Result};
use crate::types::facts::{Form, TypeId};

const DEEPEST: u32 = 8;
const MOST_MEMBERS: u32 = 1 << 20;

pub struct Enclosing {
    /// By the type of a member that is a struct, and where it lies.
    by_member: HashMap<(TypeId, u64), Vec<TypeId>>,
    left: u32,
}

impl Enclosing {
    /// Asks for all structs of a program.
    pub fn new(types: &TypeTable) -> Result<Enclosing> {
        let mut made = Enclosing { by_member: HashMap::new(), left: MOST_MEMBERS };
        for (each, _) in types.source().structs(false)? {
            made.add(types, each, each, 0, 0)?;
            if made.left == 0 {
                // what is not seen might fit as well
                made.by_member.clear();
                break;
            }
        }
        Ok(made)
    }

    fn add(&mut self, types: &TypeTable, whole: TypeId, of: TypeId, offset: u64, depth: u32) -> Result<()> {
        if depth >= DEEPEST {
            return Ok(());
        }
        for field in &types.facts(of)?.fields {
            if self.left > 0 && types.facts(field.of)?.form == Form::Struct {
                self.left -= 1;
                let place = offset.saturating_add(field.offset);
                self.by_member.try_reserve(1)?;
                let known = self.by_member.entry((field.of, place)).or_default();
                if known.last() != Some(&whole) {
                    push(known, whole)?;
                }
                self.add(types, whole, field.of, place, depth + 1)?;
            }
        }
        Ok(())
    }

    /// The one type that has such a member there, and for which malloc gives such a block.
    pub fn only(
        &self,
        types: &TypeTable,
        member: TypeId,
        offset: u64,
        block: u32,
        memory: &Memory,
    ) -> Result<Option<TypeId>> {
        let mut found = None;
        for each in self.by_member.get(&(member, offset)).into_iter().flatten() {
            if memory.fits(block, types.facts(*each)?.size) && found.replace(*each).is_some() {
                return Ok(None);
            }
        }
        Ok(found)
    }
}
