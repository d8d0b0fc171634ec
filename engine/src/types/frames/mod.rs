//! Threads' frames, and the variables in them.

pub mod expression;
pub mod lines;
pub mod locals;
mod names;
pub mod registers;
pub mod scopes;
pub mod unwind;

use std::cell::OnceCell;

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, RunTimeEndian};

use crate::failure::{Control, Failure, Result};
use crate::image::Image;
use crate::types::dwarf::binary::{Binary, Contents};
use crate::types::dwarf::program::Program;
use crate::types::frames::locals::{Local, Locals, FRAMES};
use crate::types::frames::registers::Machine;
use crate::types::frames::unwind::{Modules, StackMemory, Tables, Unwinder};

/// At most so many threads are asked for their variables.
pub const THREADS: usize = 200;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// What a door tells of a thread.
pub struct GivenThread<'a> {
    pub tid: u64,
    /// Its registers as an NT_PRSTATUS has them.
    pub general: &'a [u8],
}

/// The variables in every frame of every thread, as far as it can be unwound. `machine`: the number in ELF headers.
pub fn locals(
    program: &Program,
    image: &Image,
    machine: u16,
    threads: &[GivenThread],
    control: &Control,
) -> Result<Vec<Local>> {
    let mut found = Vec::new();
    let Some(machine) = Machine::of(machine) else { return Ok(found) };
    let memory = StackMemory::new(image)?;
    let sections: Vec<OnceCell<Sections>> = program.debug.modules.iter().map(|_| OnceCell::new()).collect();
    let modules = Mapped::new(program, &sections);
    let mut unwinder = Unwinder::new(machine, &memory, &modules);
    let mut locals = Locals::new(program, &memory);
    for thread in threads.iter().take(THREADS) {
        let start = machine.read(thread.general, image.word, |bytes| image.number(bytes));
        if let Some(start) = start {
            let frames = unwinder.frames(start, FRAMES)?;
            locals.of_thread(thread.tid, &frames, machine.stack, control, &mut found)?;
        }
    }
    match modules.failed.get().copied() {
        Some(failure) => Err(failure),
        None => Ok(found),
    }
}

/// What a module's file has to unwind by.
#[derive(Default)]
struct Sections {
    mapped: Option<Contents>,
    debug: Option<Contents>,
}

impl Sections {
    fn of(file: &Binary) -> Result<Sections> {
        Ok(Sections { mapped: file.read(".eh_frame")?, debug: file.read(".debug_frame")? })
    }
}

/// The tables of a program's modules, each read when the first frame is in it.
struct Mapped<'a> {
    program: &'a Program,
    sections: &'a [OnceCell<Sections>],
    tables: Vec<OnceCell<Option<Tables<Slice<'a>>>>>,
    /// First addresses, in order, with the modules' numbers.
    bases: Vec<(u64, usize)>,
    failed: OnceCell<Failure>,
}

impl<'a> Mapped<'a> {
    fn new(program: &'a Program, sections: &'a [OnceCell<Sections>]) -> Mapped<'a> {
        let modules = program.debug.modules.iter().enumerate();
        let mut bases: Vec<(u64, usize)> = modules.map(|(number, module)| (module.base, number)).collect();
        bases.sort_unstable();
        let tables = bases.iter().map(|_| OnceCell::new()).collect();
        Mapped { program, sections, tables, bases, failed: OnceCell::new() }
    }

    fn load(&self, number: usize) -> Result<Option<Tables<Slice<'a>>>> {
        let Some(file) = &self.program.debug.modules[number].own else { return Ok(None) };
        let read = Sections::of(file)?;
        let sections = self.sections[number].get_or_init(|| read);
        let endian = if file.little { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let bytes = |contents: &'a Option<Contents>| contents.as_ref().map_or(&[][..], |each| each.bytes.as_slice());
        let address = sections.mapped.as_ref().map_or(0, |each| each.address);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut mapped = EhFrame::new(bytes(&sections.mapped), endian);
        let mut debug = DebugFrame::new(bytes(&sections.debug), endian);
        mapped.set_address_size(file.word as u8);
        debug.set_address_size(file.word as u8);
        if file.machine == object::Architecture::Aarch64 {
            mapped.set_vendor(gimli::Vendor::AArch64);
            debug.set_vendor(gimli::Vendor::AArch64);
        }
        Tables::new(bases, mapped, debug).map(Some)
    }
}

impl<'a> Modules<Slice<'a>> for Mapped<'a> {
    fn tables_at(&self, code: u64) -> Option<(&Tables<Slice<'a>>, u64)> {
        let at = self.bases.partition_point(|(base, _)| *base <= code).checked_sub(1)?;
        let number = self.bases[at].1;
        let tables = self.tables[number].get_or_init(|| {
            self.load(number).unwrap_or_else(|failure| {
                let _ = self.failed.set(failure);
                None
            })
        });
        tables.as_ref().map(|tables| (tables, self.program.debug.modules[number].bias))
    }
}
