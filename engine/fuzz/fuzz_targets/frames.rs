//! Unwind tables, stacks and registers that somebody made up.
#![no_main]

use arbitrary::{Result, Unstructured};
use arenascope::image::{Image, Piece};
use arenascope::types::frames::registers::Machine;
use arenascope::types::frames::unwind::{Modules, StackMemory, Tables, Unwinder};
use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, RunTimeEndian};
use libfuzzer_sys::fuzz_target;
use object::Architecture;

const MACHINES: [Architecture; 5] =
    [Architecture::X86_64, Architecture::I386, Architecture::Aarch64, Architecture::Arm, Architecture::Riscv64];
const STACK: u64 = 0x7000;
const MOST: usize = 64;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

struct One<'a>(Tables<Slice<'a>>);

impl<'a> Modules<Slice<'a>> for One<'a> {
    fn tables_at(&self, _: u64) -> Option<(&Tables<Slice<'a>>, u64)> {
        Some((&self.0, 0))
    }
}

fn unwind(data: &mut Unstructured) -> Result<()> {
    let (machine, short, big) = (*data.choose(&MACHINES)?, data.arbitrary()?, data.arbitrary()?);
    let (word, endian) = (if short { 4 } else { 8 }, if big { RunTimeEndian::Big } else { RunTimeEndian::Little });
    let machine = Machine::of(machine).expect("one of these");
    let (general, stack): ([u8; 272], Vec<u8>) = (data.arbitrary()?, data.arbitrary()?);
    let mapped: Vec<u8> = data.arbitrary()?;
    let debug: Vec<u8> = data.arbitrary()?;
    let mut image = Image::new(word, big);
    image.set(&[Piece::of(STACK, &stack)]).expect("a piece");
    let memory = StackMemory::new(&image).expect("memory");
    let bases = BaseAddresses::default().set_eh_frame(STACK);
    let tables = Tables::new(bases, EhFrame::new(&mapped, endian), DebugFrame::new(&debug, endian)).expect("memory");
    let starts: Vec<u64> = tables.starts().collect();
    let modules = One(tables);
    let Some(registers) = machine.read(&general, word, |bytes| image.number(bytes)) else { return Ok(()) };
    for start in starts.into_iter().take(MOST) {
        let mut registers = registers.clone();
        registers.counter = start;
        registers.set(machine.stack, Some(STACK));
        let frames = Unwinder::new(machine, &memory, &modules).frames(registers, MOST).expect("memory");
        assert!((1..=MOST).contains(&frames.len()));
    }
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let _ = unwind(&mut Unstructured::new(data));
});
