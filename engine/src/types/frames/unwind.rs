//! Unwinds stacks by the tables of modules: `.eh_frame`, which every module has, or `.debug_frame`.

use std::cell::RefCell;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, Encoding, Expression, FrameDescriptionEntry, Reader,
    Register, RegisterRule, UnwindContext, UnwindSection,
};

use crate::failure::{filled, push, Result};
use crate::image::Image;
use crate::types::frames::expression::{computed, Ground};
use crate::types::frames::registers::{Machine, Registers};

const PAGE: usize = 4096;

/// The image's memory for many small reads near to each other.
pub struct StackMemory<'a> {
    image: &'a Image,
    /// The page that was read last, and where it begins.
    page: RefCell<(Option<u64>, Vec<u8>)>,
}

impl<'a> StackMemory<'a> {
    pub fn new(image: &'a Image) -> Result<StackMemory<'a>> {
        Ok(StackMemory { image, page: RefCell::new((None, filled(PAGE, 0)?)) })
    }

    /// A number of 1, 2, 4 or 8 bytes.
    pub fn number(&self, address: u64, size: u8) -> Option<u64> {
        let mut bytes = [0; 8];
        let bytes = bytes.get_mut(..size.into()).filter(|_| matches!(size, 1 | 2 | 4 | 8))?;
        self.fill(address, bytes).then(|| self.image.number(bytes))
    }

    pub fn word(&self, address: u64) -> Option<u64> {
        self.number(address, self.image.word as u8)
    }

    /// Fills it from an address on; false where the image lacks any of that.
    pub fn fill(&self, address: u64, to: &mut [u8]) -> bool {
        let (known, bytes) = &mut *self.page.borrow_mut();
        let within = address as usize % PAGE;
        let start = address - within as u64;
        let Some(part) = within.checked_add(to.len()).filter(|end| *end <= PAGE).map(|end| within..end) else {
            return self.image.fill(address, to);
        };
        if *known != Some(start) {
            *known = self.image.fill(start, bytes).then_some(start);
        }
        if known.is_none() {
            // a part of it is missing
            return self.image.fill(address, to);
        }
        to.copy_from_slice(&bytes[part]);
        true
    }

    pub fn image(&self) -> &'a Image {
        self.image
    }
}

/// A module's tables. Addresses are the file's.
pub struct Tables<R: Reader<Offset = usize>> {
    bases: BaseAddresses,
    mapped: EhFrame<R>,
    debug: DebugFrame<R>,
    /// By the addresses where they begin.
    entries: Vec<Entry>,
}

/// The code that one entry of a table is for.
struct Entry {
    start: u64,
    end: u64,
    offset: usize,
    /// In `.eh_frame`.
    is_mapped: bool,
}

impl<R: Reader<Offset = usize>> Tables<R> {
    /// `bases` has the addresses of a module's sections.
    pub fn new(bases: BaseAddresses, mapped: EhFrame<R>, debug: DebugFrame<R>) -> Result<Tables<R>> {
        let mut entries = Vec::new();
        list(&mapped, &bases, true, &mut entries)?;
        list(&debug, &bases, false, &mut entries)?;
        // of two for the same code the first section's counts
        entries.sort_by_key(|entry: &Entry| entry.start);
        entries.dedup_by_key(|entry| entry.start);
        Ok(Tables { bases, mapped, debug, entries })
    }

    /// Where the code of each entry begins.
    pub fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().map(|entry| entry.start)
    }

    fn find(&self, code: u64) -> Option<&Entry> {
        let at = self.entries.partition_point(|entry| entry.start <= code).checked_sub(1)?;
        Some(&self.entries[at]).filter(|entry| code < entry.end)
    }
}

/// Adds a section's entries, as far as it can be read.
fn list<R: Reader<Offset = usize>, S: UnwindSection<R>>(
    section: &S,
    bases: &BaseAddresses,
    is_mapped: bool,
    to: &mut Vec<Entry>,
) -> Result<()> {
    let mut found = section.entries(bases);
    while let Ok(Some(entry)) = found.next() {
        let CieOrFde::Fde(entry) = entry else { continue };
        if let Ok(entry) = entry.parse(S::cie_from_offset) {
            let (start, end) = (entry.initial_address(), entry.end_address());
            if start < end {
                push(to, Entry { start, end, offset: entry.offset(), is_mapped })?;
            }
        }
    }
    Ok(())
}

/// A function's place on a stack.
#[derive(Clone, Debug)]
pub struct Frame {
    pub registers: Registers,
    /// Whether the next instruction is where its counter is: so for the innermost one and where a signal came; others
    /// are behind a call, which may be a function's last instruction.
    pub is_exact: bool,
    /// Where it ends, as its table says: the stack pointer of its caller. None without a table.
    pub end: Option<u64>,
}

impl Frame {
    /// An address within the instruction that the frame is at.
    pub fn code(&self) -> u64 {
        self.registers.counter.wrapping_sub(u64::from(!self.is_exact))
    }
}

/// Finds the tables of the module that has an address, and what addresses in it are more than in its file.
pub trait Modules<R: Reader<Offset = usize>> {
    fn tables_at(&self, code: u64) -> Option<(&Tables<R>, u64)>;
}

pub struct Unwinder<'a, R: Reader<Offset = usize>, M: Modules<R>> {
    pub machine: &'static Machine,
    pub memory: &'a StackMemory<'a>,
    pub modules: &'a M,
    context: UnwindContext<usize>,
    _reader: std::marker::PhantomData<R>,
}

/// What one entry says of a frame.
struct Caller {
    registers: Registers,
    end: u64,
    is_signal: bool,
}

impl<'a, R: Reader<Offset = usize>, M: Modules<R>> Unwinder<'a, R, M> {
    pub fn new(machine: &'static Machine, memory: &'a StackMemory<'a>, modules: &'a M) -> Self {
        Unwinder { machine, memory, modules, context: UnwindContext::new(), _reader: std::marker::PhantomData }
    }

    /// At most so many frames, the innermost first.
    pub fn frames(&mut self, registers: Registers, most: usize) -> Result<Vec<Frame>> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut next = Some(Frame { registers, is_exact: true, end: None });
        while let Some(mut frame) = next.take().filter(|_| frames.len() < most) {
            let caller = self.caller(&frame);
            frame.end = caller.as_ref().map(|caller| caller.end);
            next = caller.filter(|caller| self.is_above(&frame, caller)).map(|caller| Frame {
                registers: caller.registers,
                is_exact: caller.is_signal,
                end: None,
            });
            push(&mut frames, frame)?;
        }
        Ok(frames)
    }

    /// Whether this is a caller's frame. A signal's handler can have another stack than what it interrupted.
    fn is_above(&self, frame: &Frame, caller: &Caller) -> bool {
        let stack = self.machine.stack;
        let (Some(from), Some(to)) = (frame.registers.get(stack), caller.registers.get(stack)) else { return false };
        caller.registers.counter != 0 && (caller.is_signal || to > from || (to == from && frame.is_exact))
    }

    fn caller(&mut self, frame: &Frame) -> Option<Caller> {
        if let Some(interrupted) = self.interrupted(frame) {
            return Some(interrupted);
        }
        let code = frame.code();
        let (tables, bias) = self.modules.tables_at(code)?;
        let entry = tables.find(code.wrapping_sub(bias))?;
        if entry.is_mapped {
            self.by_entry(frame, &tables.mapped, tables, bias, entry.offset)
        } else {
            self.by_entry(frame, &tables.debug, tables, bias, entry.offset)
        }
    }

    fn by_entry<S: UnwindSection<R>>(
        &mut self,
        frame: &Frame,
        section: &S,
        tables: &Tables<R>,
        bias: u64,
        offset: usize,
    ) -> Option<Caller> {
        let entry: FrameDescriptionEntry<R> =
            section.fde_from_offset(&tables.bases, offset.into(), S::cie_from_offset).ok()?;
        let code = frame.code().wrapping_sub(bias);
        let row = entry.unwind_info_for_address(section, &tables.bases, &mut self.context, code).ok()?;
        let cie = entry.cie();
        let (here, machine, memory) = (&frame.registers, self.machine, self.memory);
        let ground = Unwound { memory, registers: here };
        let encoding = cie.encoding();
        let compute = |of: gimli::UnwindExpression<usize>, first| -> Option<u64> {
            let expression: Expression<R> = of.get(section).ok()?;
            computed(expression, encoding, first, &ground)
        };
        let mask = mask_of(encoding);
        let end = match *row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => here.get(register.0)?.wrapping_add_signed(offset),
            CfaRule::Expression(of) => compute(of, None)?,
        } & mask;
        let mut before = here.clone();
        let returns = cie.return_address_register();
        let at = |offset: i64| end.wrapping_add_signed(offset) & mask;
        let mut back = None;
        for number in Registers::numbers().chain([returns.0]) {
            let same = here.get(number);
            let value = match row.register(Register(number)) {
                RegisterRule::Undefined if number == machine.stack => Some(end),
                // a link register has its own return address until the function calls another
                RegisterRule::Undefined if number == returns.0 => same.filter(|_| frame.is_exact),
                RegisterRule::Undefined => same.filter(|_| machine.keeps(number)),
                RegisterRule::SameValue => same,
                RegisterRule::Offset(offset) => memory.word(at(offset)),
                RegisterRule::ValOffset(offset) => Some(at(offset)),
                RegisterRule::Register(other) => here.get(other.0),
                RegisterRule::Expression(of) => compute(of, Some(end)).and_then(|address| memory.word(address)),
                RegisterRule::ValExpression(of) => compute(of, Some(end)),
                RegisterRule::Constant(value) => Some(value),
                _ => None,
            };
            if number == returns.0 {
                back = value;
            }
            before.set(number, value.map(|value| value & mask));
        }
        before.counter = back? & mask & u64::MAX.wrapping_shr(64 - machine.address_bits);
        Some(Caller { registers: before, end, is_signal: entry.is_signal_trampoline() })
    }

    /// What a signal interrupted, if the frame is the one to which its handler returns, and its table does not tell it.
    fn interrupted(&self, frame: &Frame) -> Option<Caller> {
        let layout = self.machine.signal?;
        let mut code = [0; 8];
        let stack = frame.registers.get(self.machine.stack)?;
        if !self.memory.fill(frame.registers.counter, &mut code) || code != layout.code {
            return None;
        }
        let mut registers = frame.registers.clone();
        let word = self.memory.image().word;
        for number in 0..layout.count {
            let at = stack.checked_add(layout.registers + u64::from(number) * word)?;
            registers.set(number, Some(self.memory.word(at)?));
        }
        registers.counter = self.memory.word(stack.checked_add(layout.counter)?)?;
        let end = registers.get(self.machine.stack)?;
        Some(Caller { registers, end, is_signal: true })
    }
}

fn mask_of(encoding: Encoding) -> u64 {
    if encoding.address_size == 4 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    }
}

/// For the expressions of unwind tables.
struct Unwound<'a> {
    memory: &'a StackMemory<'a>,
    registers: &'a Registers,
}

impl<R: Reader<Offset = usize>> Ground<R> for Unwound<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        self.registers.get(number)
    }

    fn memory(&self, address: u64, size: u8) -> Option<u64> {
        self.memory.number(address, size)
    }
}
