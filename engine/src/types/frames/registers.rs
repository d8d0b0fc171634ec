//! A thread's registers by DWARF's numbers.

use object::Architecture;

/// Numbers below this are kept: general registers, of x86 the program counter too.
const COUNT: usize = 40;
/// Stands in `Machine::order` for what has no number below `COUNT`.
const NONE: u8 = u8::MAX;

/// A machine's general registers.
pub struct Machine {
    of: &'static [Architecture],
    /// Of what an NT_PRSTATUS has, in its order.
    order: &'static [u8],
    /// Where the program counter stands there.
    counter: usize,
    pub stack: u16,
    /// What functions leave as it was, from the first to the last of each pair.
    kept: &'static [(u16, u16)],
    /// Bits of an address that no signature uses.
    pub address_bits: u32,
    /// Where the kernel puts registers for a handler's return, unless unwind tables tell all of it.
    pub signal: Option<&'static SignalFrame>,
}

/// The frame to which a signal's handler returns.
pub struct SignalFrame {
    /// The instructions there.
    pub code: [u8; 8],
    /// From its stack pointer to the register with number 0, which the others follow.
    pub registers: u64,
    pub counter: u64,
    pub count: u16,
}

/// mov x8, 139; svc 0. Siginfo (128 bytes) and ucontext: flags, link and stack (40), the mask (128), the fault's
/// address at the next multiple of 16, then x0 to x30, sp and pc.
const AARCH64_SIGNAL: SignalFrame =
    SignalFrame { code: [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4], registers: 312, counter: 568, count: 32 };

const MACHINES: [Machine; 5] = [
    Machine {
        of: &[Architecture::X86_64, Architecture::X86_64_X32],
        order: &[15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, NONE, 16, NONE, NONE, 7],
        counter: 16,
        stack: 7,
        kept: &[(3, 3), (6, 6), (12, 15)],
        address_bits: 64,
        signal: None,
    },
    Machine {
        of: &[Architecture::I386],
        order: &[3, 1, 2, 6, 7, 5, 0, NONE, NONE, NONE, NONE, NONE, 8, NONE, NONE, 4],
        counter: 12,
        stack: 4,
        kept: &[(3, 3), (5, 7)],
        address_bits: 32,
        signal: None,
    },
    Machine {
        of: &[Architecture::Aarch64],
        order: &[
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
            29, 30, 31, NONE,
        ],
        counter: 32,
        stack: 31,
        kept: &[(19, 29)],
        address_bits: 48,
        signal: Some(&AARCH64_SIGNAL),
    },
    Machine {
        of: &[Architecture::Arm],
        order: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, NONE],
        counter: 15,
        stack: 13,
        kept: &[(4, 11)],
        address_bits: 32,
        signal: None,
    },
    Machine {
        of: &[Architecture::Riscv64, Architecture::Riscv32],
        order: &[
            NONE, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
            28, 29, 30, 31,
        ],
        counter: 0,
        stack: 2,
        kept: &[(3, 4), (8, 9), (18, 27)],
        address_bits: 64,
        signal: None,
    },
];

impl Machine {
    pub fn of(machine: Architecture) -> Option<&'static Machine> {
        MACHINES.iter().find(|each| each.of.contains(&machine))
    }

    /// Whether functions leave this register as it was.
    pub fn keeps(&self, number: u16) -> bool {
        self.kept.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// The registers of an NT_PRSTATUS, whose numbers `number` reads; None if it lacks the most important ones.
    pub fn read(&self, general: &[u8], word: u64, number: impl Fn(&[u8]) -> u64) -> Option<Registers> {
        // a process with short pointers has long registers, too
        let size = if self.of.contains(&Architecture::X86_64) { 8 } else { word as usize };
        let mut registers = Registers { values: [None; COUNT], counter: 0 };
        let mut counter = None;
        for (at, bytes) in general.chunks_exact(size).enumerate().take(self.order.len()) {
            let value = number(bytes);
            counter = if at == self.counter { Some(value) } else { counter };
            registers.set(u16::from(self.order[at]), Some(value));
        }
        registers.counter = counter?;
        registers.get(self.stack)?;
        Some(registers)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    values: [Option<u64>; COUNT],
    /// Where the thread goes on.
    pub counter: u64,
}

impl Registers {
    pub fn get(&self, number: u16) -> Option<u64> {
        self.values.get(usize::from(number)).copied().flatten()
    }

    pub fn set(&mut self, number: u16, value: Option<u64>) {
        if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = value;
        }
    }

    /// Those that are known, by their numbers.
    pub fn known(&self) -> impl Iterator<Item = u64> + '_ {
        self.values.iter().flatten().copied()
    }

    pub fn numbers() -> impl Iterator<Item = u16> {
        0..COUNT as u16
    }
}
