//! The C interface of debug information.

use std::rc::Rc;

use super::files::{GivenModule, Places};
use super::program::Program;
use super::units::Debug;
use super::variables::{Symbol, Variable};
use crate::failure::{Control, Failure, Result};
use crate::messages::{answered, told_as_numbers, Answer, Asked, Tellable, NONE};
use crate::types::facts::{Argument, BitField, Facts, Field, Form, Language, TypeId, TypeSource};
use crate::{boxed, close, gives, guarded, Given, Table};

told_as_numbers!(Form, Language);

impl Tellable for Field {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add((&self.name, self.offset, self.of, self.is_base))
    }
}

impl Tellable for BitField {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add((&self.name, self.offset, self.size, self.signed))
    }
}

impl Tellable for Argument {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        match self {
            Argument::Type(of) => answer.add((*of, NONE)),
            Argument::Value(value) => answer.add((NONE, *value)),
            Argument::Other => answer.add((NONE, NONE)),
        }
    }
}

/// In the order of their members.
impl Tellable for Facts {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add((&self.name, self.form, self.size, self.target, self.length, &self.fields, &self.arguments))?;
        answer.add((self.polymorphic, self.signed, &self.enumerators, self.language, &self.bits, self.tag.as_slice()))
    }
}

impl Tellable for Variable {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add((self.of, &self.name, &self.function))
    }
}

fn number(of: i64) -> Result<TypeId> {
    TypeId::try_from(of).map_err(|_| Failure::BadInput)
}

/// What is known of no module yet.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_open(to: &mut *mut Rc<Program>) -> i32 {
    gives(to, || Program::new(Debug::default(), &Control::default()).map(Rc::new).map(boxed))
}

/// Opens the files of modules and reads what is in them. Asked is: whether files that files name are opened, folders of
/// debug information, debuginfod's folder, and of each module its first address, whether it is the
/// program, whether it is the C library, its build-id, and its files (see `GivenModule`).
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_read(
    program: &mut Rc<Program>,
    numbers: &Table,
    text: &Table,
    control: &Control,
) -> i32 {
    guarded(|| {
        let mut asked = Asked::of(numbers, text);
        let places = Places { follows: asked.next()?, folders: asked.next()?, cache: asked.next()? };
        let mut debug = Debug::default();
        for _ in 0..asked.next::<usize>()? {
            control.advance(1)?;
            let (base, is_program, is_libc) = asked.next()?;
            let build_id = asked.next::<&[u8]>()?.to_owned();
            let given = GivenModule { files: asked.next()?, build_id, base, is_program, is_libc };
            debug.add_module(&given, &places)?;
        }
        *program = Rc::new(Program::new(debug, control)?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn arenascope_types_close(program: *mut Rc<Program>) {
    close(program);
}

/// `Facts`, in their order.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_facts(program: &Rc<Program>, of: i64, to: &mut [Given; 2]) -> i32 {
    answered(to, |answer| answer.add(program.facts(number(of)?)?))
}

/// The numbers of the types of this name; `beside`: a type, or NONE.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_named(
    program: &Rc<Program>,
    name: &Table,
    beside: i64,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let name = std::str::from_utf8(name.of()).map_err(|_| Failure::BadInput)?;
        let beside = if beside == NONE { None } else { Some(number(beside)?) };
        program.named(name, beside).into_iter().try_for_each(|of| answer.add(of))
    })
}

/// Numbers of types, each with its size.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_structs(program: &Rc<Program>, of_program: u64, to: &mut [Given; 2]) -> i32 {
    answered(to, |answer| program.structs(of_program != 0)?.into_iter().try_for_each(|sized| answer.add(sized)))
}

/// Of each symbol the variable that begins there: its type, or NONE, its name, its function. A symbol is the first
/// address of its module if it is thread-local, otherwise NONE; its value, size and name.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_variables(
    program: &Rc<Program>,
    numbers: &Table,
    text: &Table,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let mut asked = Asked::of(numbers, text);
        while !asked.is_empty() {
            let (base, value, size, name): (Option<u64>, _, _, _) = asked.next()?;
            let symbol = Symbol { value, size, name };
            answer.add(match base {
                Some(base) => program.thread_local(base, &symbol),
                None => program.variable(&symbol),
            })?;
        }
        Ok(())
    })
}
