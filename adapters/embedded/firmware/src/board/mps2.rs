//! Machine `mps2-an386` of QEMU: a Cortex-M4 at 25 MHz with UARTs of the CMSDK.

use core::cell::Cell;

use critical_section::Mutex;
use mcp_proto::Instant;

#[cfg(feature = "http")]
use crate::lan9118::Lan9118;
#[cfg(feature = "http")]
use crate::static_cell::StaticCell;
use crate::uart::{Registers, Uart};

/// Clock of the processor and of its timers.
const CLOCK_HZ: u32 = 25_000_000;
/// Interval of the timer interrupt in microseconds.
const TICK_MICROS: u32 = 1_000;

/// The line to the client.
pub static LINE: Uart<CmsdkUart> = Uart::new(CmsdkUart(0x4000_4000));
/// The console, for measurements.
pub static CONSOLE: Uart<CmsdkUart> = Uart::new(CmsdkUart(0x4000_6000));

/// Numbers of the receive interrupts; each transmit interrupt is the next one.
const UART_INTERRUPTS: [i16; 2] = [0, 4];

static CLOCK: Mutex<Cell<Clock>> = Mutex::new(Cell::new(Clock { last: u32::MAX, ticks: 0 }));

/// The counter of a timer, extended to 64 bits.
///
/// Interrupts are not counted: one that waits while the next is due is lost, and the time with it.
#[derive(Clone, Copy)]
struct Clock {
    /// Last value of the counter, which counts down and begins again at `u32::MAX`.
    last: u32,
    ticks: u64,
}

/// A timer of the Cortex-M system design kit, which counts the clock of the processor.
struct CmsdkTimer;

impl CmsdkTimer {
    const BASE: usize = 0x4000_0000;
    const CONTROL: usize = 0;
    const VALUE: usize = 4;
    const RELOAD: usize = 8;

    fn write(register: usize, value: u32) {
        // SAFETY: the addresses are those of a timer on this machine, whose registers have no effect on memory.
        unsafe { ((Self::BASE + register) as *mut u32).write_volatile(value) }
    }

    /// Starts the counter at `u32::MAX`.
    fn start() {
        Self::write(Self::RELOAD, u32::MAX);
        Self::write(Self::CONTROL, 1);
    }

    fn value() -> u32 {
        // SAFETY: as in `write`.
        unsafe { ((Self::BASE + Self::VALUE) as *const u32).read_volatile() }
    }
}

/// A UART of the Cortex-M system design kit, by its address.
pub struct CmsdkUart(usize);

impl CmsdkUart {
    const DATA: usize = 0;
    const STATE: usize = 4;
    const CONTROL: usize = 8;
    const INTERRUPT: usize = 12;
    const DIVIDER: usize = 16;

    fn read(&self, register: usize) -> u32 {
        // SAFETY: the addresses are those of this UART on this machine, and reading has no effect on memory.
        unsafe { ((self.0 + register) as *const u32).read_volatile() }
    }

    fn write(&self, register: usize, value: u32) {
        // SAFETY: as in `read`; the registers control the UART alone.
        unsafe { ((self.0 + register) as *mut u32).write_volatile(value) }
    }

    fn enable(&self) {
        self.write(Self::DIVIDER, CLOCK_HZ / 115_200);
        self.set_interrupts(true, false);
    }
}

impl Registers for CmsdkUart {
    fn receive(&self) -> Option<u8> {
        (self.read(Self::STATE) & 2 != 0).then(|| self.read(Self::DATA) as u8)
    }

    fn send(&self, byte: u8) -> bool {
        let is_idle = self.read(Self::STATE) & 1 == 0;
        if is_idle {
            self.write(Self::DATA, byte.into());
        }
        is_idle
    }

    fn set_interrupts(&self, receive: bool, send: bool) {
        self.write(Self::INTERRUPT, 3);
        self.write(Self::CONTROL, 3 | u32::from(send) << 2 | u32::from(receive) << 3);
    }
}

unsafe extern "C" {
    /// Top of the stack, of the linker script of `cortex-m-rt`.
    static _stack_start: u32;
    /// End of the static data; the stack grows down to it.
    static __sheap: u32;
}

/// Returns the region of the stack.
fn stack() -> (usize, usize) {
    (&raw const __sheap as usize, &raw const _stack_start as usize)
}

#[cortex_m_rt::entry]
fn main() -> ! {
    // SAFETY: the region is that of the stack, and no interrupt is enabled yet.
    unsafe { crate::stack::paint(stack().0) };
    CmsdkTimer::start();
    if let Some(mut core) = cortex_m::Peripherals::take() {
        core.SYST.set_clock_source(cortex_m::peripheral::syst::SystClkSource::Core);
        core.SYST.set_reload(CLOCK_HZ / 1_000_000 * TICK_MICROS - 1);
        core.SYST.clear_current();
        core.SYST.enable_interrupt();
        core.SYST.enable_counter();
    }
    for (uart, interrupt) in [&LINE, &CONSOLE].into_iter().zip(UART_INTERRUPTS) {
        uart.registers().enable();
        for number in [interrupt, interrupt + 1] {
            // SAFETY: the handler of these interrupts uses what critical sections protect.
            unsafe { cortex_m::peripheral::NVIC::unmask(Interrupt(number as u16)) };
        }
    }
    crate::run()
}

/// An interrupt of the machine, by its number.
#[derive(Clone, Copy)]
struct Interrupt(u16);

// SAFETY: the number is that of a line of the interrupt controller.
unsafe impl cortex_m::interrupt::InterruptNumber for Interrupt {
    fn number(self) -> u16 {
        self.0
    }
}

#[cortex_m_rt::exception]
fn SysTick() {
    // Ends a sleep, and sees each round of the counter, which takes 171 s.
    now();
}

// SAFETY: the handler uses registers of the UARTs and queues that critical sections protect.
#[cortex_m_rt::exception]
unsafe fn DefaultHandler(interrupt: i16) {
    for (uart, number) in [&LINE, &CONSOLE].into_iter().zip(UART_INTERRUPTS) {
        if interrupt == number || interrupt == number + 1 {
            uart.serve();
        }
    }
}

/// The network card.
#[cfg(feature = "http")]
pub type Card = Lan9118;
#[cfg(feature = "http")]
pub use crate::lan9118::Frames;

/// Enables the network card with these buffers, at most once. Returns `None` if it does not answer.
#[cfg(feature = "http")]
pub fn card(address: [u8; 6], frames: &'static mut Frames) -> Option<Card> {
    static REGISTERS: StaticCell<usize> = StaticCell::new(0x4020_0000);
    let base = REGISTERS.take()?;
    // SAFETY: the card of this machine is at this address, and taking it makes this its only driver.
    unsafe { Lan9118::new(*base, address, frames) }
}

/// Returns the time since the start.
pub fn now() -> Instant {
    let ticks = critical_section::with(|cs| {
        let clock = CLOCK.borrow(cs);
        let Clock { last, ticks } = clock.get();
        let value = CmsdkTimer::value();
        let ticks = ticks + u64::from(last.wrapping_sub(value));
        clock.set(Clock { last: value, ticks });
        ticks
    });
    Instant::from_micros(ticks / u64::from(CLOCK_HZ / 1_000_000))
}

/// Sleeps until an interrupt; the timer causes one in a millisecond.
pub fn sleep() {
    cortex_m::asm::wfi();
}

/// Returns the most bytes of the stack that were in use.
pub fn stack_peak() -> usize {
    let (low, high) = stack();
    // SAFETY: `main` has painted this region.
    unsafe { crate::stack::peak(low, high) }
}

/// Lets the mark of the stack begin at its present use.
pub fn reset_stack_peak() {
    // SAFETY: the region is that of the stack, and no interrupt uses it meanwhile.
    critical_section::with(|_| unsafe { crate::stack::paint(stack().0) });
}

/// Stops after an error that nothing can answer.
pub fn halt() -> ! {
    cortex_m::interrupt::disable();
    loop {
        cortex_m::asm::wfi();
    }
}
