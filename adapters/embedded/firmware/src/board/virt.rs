//! Machine `virt` of QEMU: a RISC-V processor, used without its atomic instructions, with one UART.
//!
//! The UART is the line to the client, and there is no console then; or it is the console, if the network is served. It is
//! polled, and so are the timer and the network card.

use mcp_proto::Instant;

#[cfg(feature = "http")]
use crate::static_cell::StaticCell;
use crate::uart::{Registers, Uart};
#[cfg(feature = "http")]
use crate::virtio_net::VirtioNet;

/// Frequency of the timer.
const TIMER_HZ: u64 = 10_000_000;

/// The line to the client.
#[cfg(not(feature = "http"))]
pub static LINE: Uart<Ns16550> = Uart::new(Ns16550);
/// The console; see the module.
#[cfg(not(feature = "http"))]
pub static CONSOLE: Uart<Nothing> = Uart::new(Nothing);
/// The console, for measurements and the seed.
#[cfg(feature = "http")]
pub static CONSOLE: Uart<Ns16550> = Uart::new(Ns16550);

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
#[cfg(not(feature = "http"))]
pub struct Nothing;

#[cfg(not(feature = "http"))]
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
    #[cfg(not(feature = "http"))]
    LINE.serve();
    #[cfg(feature = "http")]
    CONSOLE.serve();
}

/// The network card.
#[cfg(feature = "http")]
pub type Card = VirtioNet;
#[cfg(feature = "http")]
pub use crate::virtio_net::Frames;

/// Enables the network card with these buffers, at most once. Returns `None` if it does not answer.
///
/// It is in the last of the places for devices of virtio, as QEMU fills them, and has an address of its own choice: the stack
/// says in each frame which one it uses.
#[cfg(feature = "http")]
pub fn card(_: [u8; 6], frames: &'static mut Frames) -> Option<Card> {
    static REGISTERS: StaticCell<usize> = StaticCell::new(0x1000_8000);
    let base = REGISTERS.take()?;
    // SAFETY: the machine has registers of virtio at this address, and taking them makes this their only driver.
    unsafe { VirtioNet::new(*base, frames) }
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
