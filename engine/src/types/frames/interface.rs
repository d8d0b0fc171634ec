//! The C interface of variables in frames.

use std::rc::Rc;

use super::locals::{Local, Place, VariableFrame};
use super::{locals, GivenStacks, GivenThread};
use crate::failure::{push, Control, Result};
use crate::messages::{answered, Answer, Asked, Tellable, NONE};
use crate::types::dwarf::program::Program;
use crate::{Engine, Given, Table};

/// The variables of threads' frames: each one's type, name, thread, frame, function, then its address or NONE, how many
/// bytes it has in registers or NONE, and these, and the number of the frame that it may lie in or NONE. Behind them
/// are these frames: `VariableFrame`, in its order. Asked is: where the kernel's module begins, its bytes, and of each
/// thread its number and registers (see `GivenStacks`).
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_locals(
    program: &Rc<Program>,
    engine: &Engine,
    numbers: &Table,
    text: &Table,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let mut asked = Asked::of(numbers, text);
        let (kernel_base, kernel) = asked.next()?;
        let mut stacks = GivenStacks { threads: Vec::new(), kernel, kernel_base };
        while !asked.is_empty() {
            push(&mut stacks.threads, GivenThread { tid: asked.next()?, general: asked.next()? })?;
        }
        let found = locals(program, &engine.image, &stacks, control)?;
        let mut frames: Vec<Rc<VariableFrame>> = Vec::new();
        answer.list(found.iter(), |answer, local| {
            // variables of one frame follow each other
            if let Place::Within(frame) = &local.place {
                if frames.last().map_or(true, |last| !Rc::ptr_eq(last, frame)) {
                    push(&mut frames, frame.clone())?;
                }
            }
            one(answer, local, frames.len())
        })?;
        answer.add(frames)
    })
}

impl Tellable for VariableFrame {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add((self.code, self.low, self.high, &self.registers))
    }
}

fn one(answer: &mut Answer, local: &Local, frames: usize) -> Result<()> {
    answer.add((local.of, &local.name, local.tid, local.frame, &local.function))?;
    match &local.place {
        Place::Address(found) => answer.add((*found, NONE, NONE)),
        Place::Data(found) => {
            answer.add(NONE)?;
            answer.bytes(found)?;
            answer.add(NONE)
        }
        Place::Within(_) => answer.add((NONE, NONE, frames - 1)),
        Place::Nowhere => answer.add([NONE; 3]),
    }
}
