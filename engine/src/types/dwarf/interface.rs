//! The C interface of debug information. What is asked and answered is numbers of 64 bits and text: a string is its
//! length among the numbers and its bytes in the text, a list its length and its items, what there is none of NONE.

use std::path::PathBuf;

use super::files::{GivenModule, Places};
use super::program::Program;
use super::units::Debug;
use super::variables::{Symbol, Variable};
use crate::failure::{push, Control, Failure, Result};
use crate::types::facts::{Argument, Facts, Field, TypeId, TypeSource};
use crate::{boxed, close, guarded, Given, Table};

pub(crate) const NONE: i64 = i64::MIN;

pub(crate) struct Asked<'a> {
    numbers: &'a [i64],
    text: &'a [u8],
}

impl<'a> Asked<'a> {
    pub(crate) fn number(&mut self) -> Result<i64> {
        let (first, rest) = self.numbers.split_first().ok_or(Failure::BadInput)?;
        self.numbers = rest;
        Ok(*first)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.count()?;
        if length > self.text.len() {
            return Err(Failure::BadInput);
        }
        let (bytes, rest) = self.text.split_at(length);
        self.text = rest;
        Ok(bytes)
    }

    pub(crate) fn string(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Failure::BadInput)
    }

    fn path(&mut self) -> Result<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        Ok(PathBuf::from(std::ffi::OsStr::from_bytes(self.bytes()?)))
    }

    fn paths(&mut self) -> Result<Vec<PathBuf>> {
        (0..self.count()?).map(|_| self.path()).collect()
    }

    /// Its length, and each as `one` reads it.
    pub(crate) fn list<T>(&mut self, one: impl Fn(&mut Asked<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        for _ in 0..self.count()? {
            push(&mut found, one(self)?)?;
        }
        Ok(found)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(crate) fn count(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| Failure::BadInput)
    }
}

#[derive(Default)]
pub(crate) struct Answer {
    numbers: Vec<i64>,
    text: Vec<u8>,
}

impl Answer {
    pub(crate) fn number(&mut self, number: i64) -> Result<()> {
        push(&mut self.numbers, number)
    }

    pub(crate) fn option(&mut self, number: Option<i64>) -> Result<()> {
        self.number(number.unwrap_or(NONE))
    }

    pub(crate) fn string(&mut self, text: &str) -> Result<()> {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.text.try_reserve(bytes.len())?;
        self.text.extend_from_slice(bytes);
        self.number(bytes.len() as i64)
    }

    pub(crate) fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Answer, &T) -> Result<()>) -> Result<()> {
        self.number(items.len() as i64)?;
        items.iter().try_for_each(|item| each(self, item))
    }

    pub(crate) fn field(&mut self, field: &Field) -> Result<()> {
        self.string(&field.name)?;
        self.number(field.offset as i64)?;
        self.number(i64::from(field.of))?;
        self.number(i64::from(field.is_base))
    }

    pub(crate) fn facts(&mut self, facts: &Facts) -> Result<()> {
        self.string(&facts.name)?;
        self.number(facts.form as i64)?;
        self.number(facts.size as i64)?;
        self.option(facts.target.map(i64::from))?;
        self.option(facts.length.map(|length| length as i64))?;
        self.list(&facts.fields, Answer::field)?;
        self.list(&facts.arguments, |answer, argument| {
            let (of, value) = match argument {
                Argument::Type(of) => (Some(i64::from(*of)), None),
                Argument::Value(value) => (None, Some(*value)),
                Argument::Other => (None, None),
            };
            answer.option(of)?;
            answer.option(value)
        })?;
        self.number(i64::from(facts.polymorphic))?;
        self.number(i64::from(facts.signed))?;
        self.list(&facts.enumerators, |answer, (name, value)| {
            answer.string(name)?;
            answer.number(*value)
        })?;
        self.number(facts.language as i64)?;
        self.list(&facts.bits, |answer, bits| {
            answer.string(&bits.name)?;
            answer.number(bits.offset as i64)?;
            answer.number(bits.size as i64)?;
            answer.number(i64::from(bits.signed))
        })?;
        let tags: Vec<&Field> = facts.tag.iter().collect();
        self.list(&tags, |answer, tag| answer.field(tag))
    }

    fn variable(&mut self, variable: Option<&Variable>) -> Result<()> {
        let Some(variable) = variable else { return self.number(NONE) };
        self.number(i64::from(variable.of))?;
        self.string(&variable.name)?;
        self.string(&variable.function)
    }
}

/// SAFETY: as of the functions for C.
#[cfg_attr(feature = "broken", track_caller)]
pub(crate) unsafe fn answered(to: &mut [Given; 2], work: impl FnOnce(&mut Answer) -> Result<()>) -> i32 {
    guarded(|| {
        let mut answer = Answer::default();
        work(&mut answer)?;
        *to = [Given::of(answer.numbers), Given::of(answer.text)];
        Ok(())
    })
}

pub(crate) fn number(of: i64) -> Result<TypeId> {
    TypeId::try_from(of).map_err(|_| Failure::BadInput)
}

/// SAFETY: as of the functions for C.
pub(crate) unsafe fn asked<'a>(numbers: &Table, text: &Table) -> Asked<'a> {
    Asked { numbers: numbers.of(), text: text.of() }
}

/// What is known of no module yet.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_open(to: *mut *mut Program) -> i32 {
    guarded(|| {
        *to = boxed(Program::new(Debug::default(), &Control::default())?);
        Ok(())
    })
}

/// Opens the files of modules and reads what is in them. Asked is: whether files that files name are opened, folders of
/// debug information, debuginfod's folder, and of each module its first address, whether it is the
/// program, whether it is the C library, its build-id, and its files (see `GivenModule`).
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_read(
    program: &mut Program,
    numbers: &Table,
    text: &Table,
    control: &Control,
) -> i32 {
    guarded(|| {
        let mut asked = asked(numbers, text);
        let places = Places { follows: asked.number()? != 0, folders: asked.paths()?, cache: asked.path()? };
        let mut debug = Debug::default();
        for _ in 0..asked.count()? {
            control.advance(1)?;
            let base = asked.number()? as u64;
            let (is_program, is_libc) = (asked.number()? != 0, asked.number()? != 0);
            let build_id = asked.bytes()?.to_owned();
            let given = GivenModule { files: asked.paths()?, build_id, base, is_program, is_libc };
            debug.add_module(&given, &places)?;
        }
        *program = Program::new(debug, control)?;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn arenascope_types_close(program: *mut Program) {
    close(program);
}

/// `Facts`, in their order.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_facts(program: &Program, of: i64, to: &mut [Given; 2]) -> i32 {
    answered(to, |answer| answer.facts(&*program.facts(number(of)?)?))
}

/// The numbers of the types of this name; `beside`: a type, or NONE.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_named(
    program: &Program,
    name: &Table,
    beside: i64,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let name = std::str::from_utf8(name.of()).map_err(|_| Failure::BadInput)?;
        let beside = if beside == NONE { None } else { Some(number(beside)?) };
        program.named(name, beside).iter().try_for_each(|of| answer.number(i64::from(*of)))
    })
}

/// Numbers of types, each with its size.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_structs(program: &Program, of_program: u64, to: &mut [Given; 2]) -> i32 {
    answered(to, |answer| {
        program.structs(of_program != 0)?.iter().try_for_each(|(of, size)| {
            answer.number(i64::from(*of))?;
            answer.number(*size as i64)
        })
    })
}

/// Of each symbol the variable that begins there: its type, or NONE, its name, its function. A symbol is the first address
/// of its module if it is thread-local, otherwise NONE; its value, size and name.
#[no_mangle]
pub unsafe extern "C" fn arenascope_types_variables(
    program: &Program,
    numbers: &Table,
    text: &Table,
    to: &mut [Given; 2],
) -> i32 {
    answered(to, |answer| {
        let mut asked = asked(numbers, text);
        while !asked.is_empty() {
            let base = asked.number()?;
            let (value, size) = (asked.number()? as u64, asked.number()? as u64);
            let symbol = Symbol { value, size, name: asked.string()? };
            let found = match base {
                NONE => program.variable(&symbol),
                base => program.thread_local(base as u64, &symbol),
            };
            answer.variable(found.as_ref())?;
        }
        Ok(())
    })
}
