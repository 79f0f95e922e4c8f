//! Machine `virt` of QEMU: a RISC-V processor, used without its atomic instructions, with one UART.
//!
//! The machine has one serial line, so the console shares it: its lines are no messages of the protocol. The UART is polled,
//! and so is the timer.

use mcp_proto::Instant;

use crate::uart::{Registers, Uart};

/// Frequency of the timer.
const TIMER_HZ: u64 = 10_000_000;

/// The line to the client.
pub static LINE: Uart<Ns16550> = Uart::new(Ns16550);
/// The console; see the module.
pub static CONSOLE: Uart<Nothing> = Uart::new(Nothing);

/// The UART of the machine.
pub struct Ns16550;

impl Ns16550 {
    const BASE: usize = 0x1000_0000;
    const DATA: usize = 0;
    const STATE: usize = 5;

    fn read(register: usize) -> u8 {
        // SAFETY: the addresses are those of the UART on this machine, and reading has no effect on memory.
        unsafe { ((Self::BASE + register) as *const u8).read_volatile() }
    }
}

impl Registers for Ns16550 {
    fn receive(&self) -> Option<u8> {
        (Self::read(Self::STATE) & 1 != 0).then(|| Self::read(Self::DATA))
    }

    fn send(&self, byte: u8) -> bool {
        let is_idle = Self::read(Self::STATE) & 0x20 != 0;
        if is_idle {
            // SAFETY: as in `read`; the register sends a byte.
            unsafe { (Self::BASE as *mut u8).write_volatile(byte) };
        }
        is_idle
    }

    fn set_interrupts(&self, _: bool, _: bool) {}
}

/// A UART that is not there.
pub struct Nothing;

impl Registers for Nothing {
    fn receive(&self) -> Option<u8> {
        None
    }

    fn send(&self, _: u8) -> bool {
        true
    }

    fn set_interrupts(&self, _: bool, _: bool) {}
}

core::arch::global_asm!(
    ".section .text.start",
    ".global _start",
    "_start:",
    "la sp, _stack_start",
    "la t0, _bss_start",
    "la t1, _bss_end",
    "1: bgeu t0, t1, 2f",
    "sw zero, 0(t0)",
    "addi t0, t0, 4",
    "j 1b",
    "2: la t0, _data_start",
    "la t1, _data_end",
    "la t2, _data_load",
    "3: bgeu t0, t1, 4f",
    "lw t3, 0(t2)",
    "sw t3, 0(t0)",
    "addi t0, t0, 4",
    "addi t2, t2, 4",
    "j 3b",
    "4: j start_rust",
);

unsafe extern "C" {
    static _stack_start: u32;
    static _stack_end: u32;
}

#[unsafe(no_mangle)]
extern "C" fn start_rust() -> ! {
    // SAFETY: the region is that of the stack, and nothing interrupts.
    unsafe { crate::stack::paint(&raw const _stack_end as usize) };
    crate::run()
}

/// Returns the time since the start.
pub fn now() -> Instant {
    let read = |offset: usize| {
        // SAFETY: the addresses are those of the timer of this machine.
        unsafe { ((0x0200_BFF8 + offset) as *const u32).read_volatile() }
    };
    loop {
        let (high, low) = (read(4), read(0));
        if high == read(4) {
            return Instant::from_micros((u64::from(high) << 32 | u64::from(low)) / (TIMER_HZ / 1_000_000));
        }
    }
}

/// Looks at the UART: nothing interrupts.
pub fn sleep() {
    LINE.serve();
}

/// Returns the most bytes of the stack that were in use.
pub fn stack_peak() -> usize {
    // SAFETY: `start_rust` has painted this region.
    unsafe { crate::stack::peak(&raw const _stack_end as usize, &raw const _stack_start as usize) }
}

/// Lets the mark of the stack begin at its present use.
pub fn reset_stack_peak() {
    // SAFETY: the region is that of the stack, and nothing interrupts.
    unsafe { crate::stack::paint(&raw const _stack_end as usize) };
}

/// Stops after an error that nothing can answer.
pub fn halt() -> ! {
    loop {
        riscv::asm::wfi();
    }
}
