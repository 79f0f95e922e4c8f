//! The device on the first UART.

use mcp_embedded::Turn;
use mcp_embedded::serial::SerialServer;
use mcp_proto::Limits;
use mcp_proto::sync::Arc;

use crate::board::{self, CONSOLE, LINE};
use crate::device::Device;
use crate::{print_marks, reset_marks};

/// Serves for ever.
pub fn run() -> ! {
    let mut device = Device::new();
    let config = Arc::new(device.config().limits(Limits::tiny()));
    let mut serial = SerialServer::new(Arc::clone(&config), board::now());
    reset_marks();
    print_marks("ready", format_args!(""));
    loop {
        let Ok(turn) = serial.poll(board::now(), &mut &LINE, &mut device);
        if turn == Turn::Closed {
            serial = SerialServer::new(Arc::clone(&config), board::now());
        }
        while let Some(byte) = CONSOLE.pop() {
            match byte {
                b'm' => print_marks("marks", format_args!("")),
                b'r' => reset_marks(),
                _ => {}
            }
        }
        if matches!(turn, Turn::Idle(_)) {
            board::sleep();
        }
    }
}
