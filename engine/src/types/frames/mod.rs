//! Threads' frames, and the variables in them.

pub mod expression;
mod interface;
pub mod lines;
pub mod locals;
mod names;
pub mod registers;
pub mod scopes;
pub mod unwind;

use std::cell::OnceCell;
use std::ops::Range;

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, RunTimeEndian};
use object::read::{Object, ObjectSection, ObjectSegment};
use object::Architecture;

use crate::failure::{Control, Failure, Result};
use crate::image::Image;
use crate::types::dwarf::elf_file::{Binary, Contents};
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

/// What a door tells of all of them.
#[derive(Default)]
pub struct GivenStacks<'a> {
    pub threads: Vec<GivenThread<'a>>,
    /// The module that the kernel maps into each process, which is no file, and where it begins; empty: none.
    pub kernel: &'a [u8],
    pub kernel_base: u64,
}

/// The variables in every frame of every thread, as far as it can be unwound.
pub fn locals(program: &Program, image: &Image, stacks: &GivenStacks, control: &Control) -> Result<Vec<Local>> {
    let mut found = Vec::new();
    let own = program.debug.modules.iter().find_map(|module| module.own.as_ref());
    let Some(machine) = own.and_then(|own| Machine::of(own.machine)) else { return Ok(found) };
    let memory = StackMemory::new(image)?;
    let sections: Vec<OnceCell<Sections>> = program.debug.modules.iter().map(|_| OnceCell::new()).collect();
    let modules = Mapped::new(program, &sections, stacks)?;
    let mut unwinder = Unwinder::new(machine, &memory, &modules);
    let locals = Locals::new(program, &memory);
    for thread in stacks.threads.iter().take(THREADS) {
        let start = machine.read(thread.general, image.word, |bytes| image.number(bytes));
        if let Some(start) = start {
            let frames = unwinder.frames(start, FRAMES)?;
            locals.of_thread(thread.tid, &frames, machine.stack, control, &mut found)?;
        }
    }
    match modules.failed.get() {
        Some(failure) => Err(*failure),
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
    kernel: Option<Kernel<'a>>,
    failed: OnceCell<Failure>,
}

impl<'a> Mapped<'a> {
    fn new(program: &'a Program, sections: &'a [OnceCell<Sections>], stacks: &GivenStacks<'a>) -> Result<Mapped<'a>> {
        let modules = program.debug.modules.iter().enumerate();
        let mut bases: Vec<(u64, usize)> = modules.map(|(number, module)| (module.base, number)).collect();
        bases.sort_unstable();
        let tables = bases.iter().map(|_| OnceCell::new()).collect();
        let kernel = kernel(stacks)?;
        Ok(Mapped { program, sections, tables, bases, kernel, failed: OnceCell::new() })
    }

    fn load(&self, number: usize) -> Result<Option<Tables<Slice<'a>>>> {
        let Some(file) = &self.program.debug.modules[number].own else { return Ok(None) };
        let read = Sections::of(file)?;
        let sections = self.sections[number].get_or_init(|| read);
        let bytes = |contents: &'a Option<Contents>| contents.as_ref().map_or(&[][..], |each| each.bytes.as_slice());
        let address = sections.mapped.as_ref().map_or(0, |each| each.address);
        let form = (file.little, file.word, file.machine);
        made(address, bytes(&sections.mapped), bytes(&sections.debug), form).map(Some)
    }
}

/// Tables of sections, of which `address` is the first one's.
fn made<'a>(
    address: u64,
    mapped: &'a [u8],
    debug: &'a [u8],
    (little, word, machine): (bool, u64, Architecture),
) -> Result<Tables<Slice<'a>>> {
    let endian = if little { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let (mut mapped, mut debug) = (EhFrame::new(mapped, endian), DebugFrame::new(debug, endian));
    mapped.set_address_size(word as u8);
    debug.set_address_size(word as u8);
    if machine == Architecture::Aarch64 {
        mapped.set_vendor(gimli::Vendor::AArch64);
        debug.set_vendor(gimli::Vendor::AArch64);
    }
    Tables::new(BaseAddresses::default().set_eh_frame(address), mapped, debug)
}

/// The kernel's module.
struct Kernel<'a> {
    range: Range<u64>,
    /// What addresses there are more than in the tables.
    bias: u64,
    tables: Tables<Slice<'a>>,
}

fn kernel<'a>(stacks: &GivenStacks<'a>) -> Result<Option<Kernel<'a>>> {
    let Ok(file) = object::File::parse(stacks.kernel) else { return Ok(None) };
    let Some(section) = file.section_by_name(".eh_frame") else { return Ok(None) };
    let Ok(bytes) = section.data() else { return Ok(None) };
    let form = (file.is_little_endian(), if file.is_64() { 8 } else { 4 }, file.architecture());
    let base = stacks.kernel_base;
    let range = base..base.saturating_add(stacks.kernel.len() as u64);
    let bias = base.wrapping_sub(file.segments().next().map_or(0, |first| first.address()));
    Ok(Some(Kernel { range, bias, tables: made(section.address(), bytes, &[], form)? }))
}

impl<'a> Modules<Slice<'a>> for Mapped<'a> {
    fn tables_at(&self, code: u64) -> Option<(&Tables<Slice<'a>>, u64)> {
        if let Some(kernel) = self.kernel.as_ref().filter(|kernel| kernel.range.contains(&code)) {
            return Some((&kernel.tables, kernel.bias));
        }
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
