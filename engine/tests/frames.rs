//! This test's own stack, unwound as libgcc unwinds it, and tables that somebody made up.
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::ffi::c_void;

use arenascope::image::{Image, Piece};
use arenascope::types::frames::registers::Machine;
use arenascope::types::frames::unwind::{Modules, StackMemory, Tables, Unwinder};
use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, LittleEndian};
use object::{Architecture, Object, ObjectSection};

type Slice = EndianSlice<'static, LittleEndian>;

const KEPT: [u16; 6] = [3, 6, 12, 13, 14, 15];

#[link(name = "gcc_s")]
extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> i32, argument: *mut c_void) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetGR(context: *mut c_void, number: i32) -> usize;
}

extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn raise(number: i32) -> i32;
}

const USER_SIGNAL: i32 = 10;

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    counter: u64,
    stack: u64,
    kept: Vec<Option<u64>>,
}

extern "C" fn see(context: *mut c_void, to: *mut c_void) -> i32 {
    // SAFETY: libgcc hands on what it was given.
    let (to, counter, stack) =
        unsafe { (&mut *to.cast::<Vec<Seen>>(), _Unwind_GetIP(context), _Unwind_GetCFA(context)) };
    let kept = KEPT.iter().map(|number| Some(unsafe { _Unwind_GetGR(context, i32::from(*number)) } as u64)).collect();
    to.push(Seen { counter: counter as u64, stack: stack as u64, kept });
    0
}

/// The files that are mapped into this process.
struct Mapped(Vec<(u64, u64, u64, Tables<Slice>)>);

impl Modules<Slice> for Mapped {
    fn tables_at(&self, code: u64) -> Option<(&Tables<Slice>, u64)> {
        self.0.iter().find(|each| (each.0..each.1).contains(&code)).map(|each| (&each.3, each.2))
    }
}

fn mapped() -> Mapped {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mut found: Vec<(String, u64, u64)> = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" /")) {
        let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("a number"));
        let path = &line[line.find(" /").expect("a path") + 1..];
        match found.last_mut() {
            // the linker may leave a page out between two segments
            Some(last) if last.0 == path => last.2 = end,
            _ => found.push((path.into(), start, end)),
        }
    }
    let read = |(path, start, end): (String, u64, u64)| Some((start, end, start, tables(&std::fs::read(path).ok()?)?));
    Mapped(found.into_iter().filter_map(read).collect())
}

/// The tables of a file whose first byte has the address 0.
fn tables(file: &[u8]) -> Option<Tables<Slice>> {
    let (at, bytes) = section(file)?;
    let bases = BaseAddresses::default().set_eh_frame(at);
    let frames = EhFrame::new(Vec::leak(bytes.to_vec()), LittleEndian);
    Tables::new(bases, frames, DebugFrame::new(&[], LittleEndian)).ok()
}

/// A file's `.eh_frame` and its address.
fn section(file: &[u8]) -> Option<(u64, &[u8])> {
    let parsed = object::File::parse(file).ok()?;
    let found = parsed.section_by_name(".eh_frame")?;
    Some((found.address(), found.data().ok()?))
}

/// The registers of an NT_PRSTATUS, as they are in the function that has this.
macro_rules! registers {
    () => {{
        let mut registers = [0u64; 27];
        // SAFETY: it reads registers alone.
        unsafe {
            asm!(
                "mov [{to}], r15", "mov [{to} + 8], r14", "mov [{to} + 16], r13", "mov [{to} + 24], r12",
                "mov [{to} + 32], rbp", "mov [{to} + 40], rbx", "mov [{to} + 152], rsp",
                "lea {other}, [rip]", "mov [{to} + 128], {other}",
                to = in(reg) registers.as_mut_ptr(), other = out(reg) _,
            );
        }
        registers
    }};
}

#[inline(never)]
fn compare() {
    let registers = registers!();
    let mut truth: Vec<Seen> = Vec::new();
    // SAFETY: the function takes what it is given here.
    unsafe { _Unwind_Backtrace(see, (&mut truth as *mut Vec<Seen>).cast()) };

    let general: Vec<u8> = registers.iter().flat_map(|each| each.to_le_bytes()).collect();
    let mut image = Image::new(8, false);
    // the stack of a thread of tests is some megabytes long; this one has few frames
    let stack = registers[19];
    let bytes = truth.last().expect("frames").stack - stack;
    let piece = Piece { address: stack, bytes, data: stack as *const u8, fd: -1, offset: 0 };
    image.set(&[piece]).expect("a piece");
    let machine = Machine::of(Architecture::X86_64).expect("x86-64");
    let memory = StackMemory::new(&image).expect("memory");
    let modules = mapped();
    let start = machine.read(&general, 8, |bytes| image.number(bytes)).expect("registers");
    let frames = Unwinder::new(machine, &memory, &modules).frames(start, 200).expect("frames");

    let found: Vec<Seen> = frames
        .iter()
        .map(|frame| {
            let get = |number| frame.registers.get(number);
            let kept = KEPT.iter().map(|number| get(*number)).collect();
            Seen { counter: frame.registers.counter, stack: get(7).expect("a stack pointer"), kept }
        })
        .collect();
    assert!(truth.len() > 8, "{truth:x?}");
    // the innermost one went on meanwhile; where a thread begins libgcc has a frame without an address
    assert_eq!(truth[0].stack, found[0].stack);
    let end = truth.iter().position(|each| each.counter == 0).unwrap_or(truth.len());
    assert_eq!(truth[1..end], found[1..]);
    let ends: Vec<Option<u64>> = frames.iter().map(|frame| frame.end).collect();
    let stacks: Vec<Option<u64>> = found[1..].iter().map(|each| Some(each.stack)).collect();
    assert_eq!(ends[..stacks.len()], stacks);
}

#[inline(never)]
fn deeper(left: u32, values: &[u64]) -> u64 {
    let sum = values.iter().fold(0u64, |sum, each| sum.rotate_left(3) ^ each);
    if left == 0 {
        compare();
        return sum;
    }
    deeper(left - 1, &values[1..]).wrapping_mul(sum).wrapping_add(values[0])
}

#[test]
fn frames_and_registers_are_those_that_libgcc_restores() {
    assert_ne!(deeper(6, &[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0);
}

extern "C" fn handle(_: i32) {
    compare();
}

#[test]
fn what_a_signal_interrupted_is_a_frame_with_all_its_registers() {
    // SAFETY: the handler is there as long as this process, and nothing else here handles that signal.
    unsafe {
        signal(USER_SIGNAL, handle);
        assert_eq!(raise(USER_SIGNAL), 0);
    }
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

struct One(Tables<Slice>);

impl Modules<Slice> for One {
    fn tables_at(&self, _: u64) -> Option<(&Tables<Slice>, u64)> {
        Some((&self.0, 0))
    }
}

#[test]
fn damaged_tables_end_a_stack() {
    let file = std::fs::read("/proc/self/exe").expect("this program");
    let (at, sound) = section(&file).expect("a section");
    let mut random = Random(7);
    let mut unwound = 0;
    for round in 0..400 {
        let mut bytes = sound[..sound.len().min(6000)].to_vec();
        for _ in 0..random.below(60) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        let bytes: &'static [u8] = Vec::leak(bytes);
        let frames = EhFrame::new(bytes, LittleEndian);
        let debug = DebugFrame::new(if round % 2 == 0 { bytes } else { &[] }, LittleEndian);
        let tables = Tables::new(BaseAddresses::default().set_eh_frame(at), frames, debug).expect("memory");
        let codes: Vec<u64> = tables.starts().chain([at]).collect();
        let modules = One(tables);
        let stack: Vec<u64> =
            (0..4096).map(|at| [codes[at % codes.len()] + 1, 0x10000 + 8 * at as u64][at % 2]).collect();
        let stack: Vec<u8> = stack.into_iter().flat_map(u64::to_le_bytes).collect();
        let mut image = Image::new(8, false);
        image.set(&[Piece::of(0x10000, &stack)]).expect("a piece");
        let memory = StackMemory::new(&image).expect("memory");
        let machine = Machine::of(Architecture::X86_64).expect("x86-64");
        for code in codes {
            let mut general = vec![0u8; 160];
            for at in 0..20 {
                let value = [random.below(u64::MAX), 0x10000 + random.below(20000)][at % 2];
                general[8 * at..][..8].copy_from_slice(&value.to_le_bytes());
            }
            general[128..136].copy_from_slice(&(code + random.below(20)).to_le_bytes());
            let start = machine.read(&general, 8, |bytes| image.number(bytes)).expect("registers");
            let frames = Unwinder::new(machine, &memory, &modules).frames(start, 64).expect("memory");
            assert!((1..=64).contains(&frames.len()));
            unwound += frames.len() - 1;
        }
    }
    assert!(unwound > 1000, "{unwound}");
}
