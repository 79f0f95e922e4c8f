//! An MCP server on a microcontroller: two tools and a resource that changes.
//!
//! It serves the first UART, or HTTP on the network card (feature `http`). The third UART is a console: `m` prints the marks
//! of heap and stack, `r` resets them. A byte stream needs no entropy; HTTP does, for its session ids.

#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod device;
#[cfg(feature = "http")]
mod ethernet;
mod heap;
#[cfg(all(feature = "http", target_arch = "arm"))]
mod lan9118;
#[cfg(feature = "http")]
mod network;
mod ring;
mod stack;
#[cfg(feature = "http")]
mod static_cell;
mod uart;
#[cfg(not(feature = "http"))]
mod uart_server;
#[cfg(all(feature = "http", target_arch = "riscv32"))]
mod virtio_net;

use core::fmt::{Arguments, Write as _};
use core::panic::PanicInfo;

use self::board::CONSOLE;
use self::heap::Heap;
#[cfg(feature = "http")]
use self::network::run;
#[cfg(not(feature = "http"))]
use self::uart_server::run;

/// Bytes of the heap.
const HEAP_BYTES: usize = match () {
    () if cfg!(all(feature = "small-heap", feature = "http")) => 16 << 10,
    () if cfg!(feature = "small-heap") => 10 << 10,
    () if cfg!(feature = "http") => 40 << 10,
    () => 24 << 10,
};

#[global_allocator]
static HEAP: Heap<HEAP_BYTES> = Heap::new();

/// Prints the use of heap and stack as one line of JSON.
fn print_marks(what: &str, more: Arguments<'_>) {
    let heap = HEAP.marks();
    let _ = writeln!(
        &mut &CONSOLE,
        "{{\"event\":\"{what}\",\"heap\":{HEAP_BYTES},\"used\":{},\"peak\":{},\"refused\":{},\"largestRefused\":{},\"stack\":{}{more}}}",
        heap.used,
        heap.peak,
        heap.refused,
        heap.largest_refused,
        board::stack_peak(),
    );
}

/// Lets the marks of heap and stack begin at their present use.
fn reset_marks() {
    HEAP.reset_marks();
    board::reset_stack_peak();
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(
        &mut &CONSOLE,
        "{{\"event\":\"panic\",\"at\":\"{}\"}}",
        info.location().map_or(0, |l| l.line())
    );
    let _ = embedded_io::Write::flush(&mut &CONSOLE);
    board::halt()
}
