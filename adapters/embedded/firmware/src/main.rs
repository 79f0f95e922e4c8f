//! An MCP server on a microcontroller: two tools and a resource that changes.
//!
//! It serves the first UART. The third one is a console: `m` prints the marks of heap and stack, `r` resets those of the
//! heap. A byte stream needs no entropy, so the device has none: HTTP, whose session ids need it, is not served.

#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod device;
mod heap;
mod ring;
mod stack;
mod uart;

use core::fmt::Write as _;
use core::panic::PanicInfo;

use mcp_embedded::Turn;
use mcp_embedded::serial::SerialServer;
use mcp_proto::Limits;
use mcp_proto::sync::Arc;

use self::board::{CONSOLE, LINE};
use self::device::Device;
use self::heap::Heap;

/// Bytes of the heap.
const HEAP_BYTES: usize = 24 << 10;

#[global_allocator]
static HEAP: Heap<HEAP_BYTES> = Heap::new();

/// Serves for ever.
fn run() -> ! {
    let mut device = Device::new();
    let config = Arc::new(device.config().limits(Limits::tiny()));
    let mut serial = SerialServer::new(Arc::clone(&config), board::now());
    HEAP.reset_marks();
    print_marks("ready");
    loop {
        let Ok(turn) = serial.poll(board::now(), &mut &LINE, &mut device);
        if turn == Turn::Closed {
            serial = SerialServer::new(Arc::clone(&config), board::now());
        }
        while let Some(byte) = CONSOLE.pop() {
            match byte {
                b'm' => print_marks("marks"),
                b'r' => HEAP.reset_marks(),
                _ => {}
            }
        }
        if matches!(turn, Turn::Idle(_)) {
            board::sleep();
        }
    }
}

/// Prints the use of heap and stack as one line of JSON.
fn print_marks(what: &str) {
    let heap = HEAP.marks();
    let _ = writeln!(
        &mut &CONSOLE,
        "{{\"event\":\"{what}\",\"heap\":{HEAP_BYTES},\"used\":{},\"peak\":{},\"refused\":{},\"largestRefused\":{},\"stack\":{}}}",
        heap.used,
        heap.peak,
        heap.refused,
        heap.largest_refused,
        board::stack_peak(),
    );
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
