//! The C interface of variables in frames.

use std::rc::Rc;

use super::locals::{Local, Place, VariableFrame};
use super::{locals, GivenStacks, GivenThread};
use crate::failure::{push, Control, Result};
use crate::types::dwarf::interface::{answered, asked, Answer};
use crate::types::dwarf::program::Program;
use crate::{Engine, Given, Table};

/// The variables of threads' frames: each one's type, name, thread, frame, function, then its address or NONE, how many
/// bytes it has in registers or NONE, and these, and the number of the frame that it may lie in or NONE. Behind them
/// are these frames: `VariableFrame`, in its order. Asked is: where the kernel's module begins, its bytes, and of each
/// thread its number and registers (see `GivenStacks`).
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_locals(
    program: &Program,
    engine: &Engine,
    numbers: &Table,
    text: &Table,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let mut asked = asked(numbers, text);
        let (kernel_base, kernel) = (asked.number()? as u64, asked.bytes()?);
        let mut stacks = GivenStacks { threads: Vec::new(), kernel, kernel_base };
        while !asked.is_empty() {
            push(&mut stacks.threads, GivenThread { tid: asked.number()? as u64, general: asked.bytes()? })?;
        }
        let found = locals(program, &engine.image, &stacks, control)?;
        let mut frames: Vec<Rc<VariableFrame>> = Vec::new();
        answer.list(&found, |answer, local| {
            // variables of one frame follow each other
            if let Place::Within(frame) = &local.place {
                if frames.last().map_or(true, |last| !Rc::ptr_eq(last, frame)) {
                    push(&mut frames, frame.clone())?;
                }
            }
            one(answer, local, frames.len())
        })?;
        answer.list(&frames, |answer, frame| {
            [frame.code, frame.low, frame.high].iter().try_for_each(|each| answer.number(*each as i64))?;
            answer.list(&frame.registers, |answer, register| answer.number(*register as i64))
        })
    })
}

fn one(answer: &mut Answer, local: &Local, frames: usize) -> Result<()> {
    answer.number(i64::from(local.of))?;
    answer.string(&local.name)?;
    answer.number(local.tid as i64)?;
    answer.number(i64::from(local.frame))?;
    answer.string(&local.function)?;
    let (mut address, mut data, mut within) = (None, None, None);
    match &local.place {
        Place::Address(found) => address = Some(*found as i64),
        Place::Data(found) => data = Some(found),
        Place::Within(_) => within = Some(frames as i64 - 1),
        Place::Nowhere => {}
    }
    answer.option(address)?;
    match data {
        Some(data) => answer.bytes(data)?,
        None => answer.option(None)?,
    }
    answer.option(within)
}
