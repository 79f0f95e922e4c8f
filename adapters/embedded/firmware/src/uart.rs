//! The part of a UART driver that is the same on each board: queues that interrupts fill and empty.

use core::cell::RefCell;
use core::convert::Infallible;

use critical_section::Mutex;
use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};

use crate::ring::Ring;

/// Registers of a UART.
pub trait Registers {
    /// Returns the byte that was received, if there is one. The next one may arrive then.
    fn receive(&self) -> Option<u8>;
    /// Sends a byte, if the transmitter takes one. Returns whether it did.
    fn send(&self, byte: u8) -> bool;
    /// Acknowledges the interrupts, and sets whether a received byte and an idle transmitter cause one.
    fn set_interrupts(&self, receive: bool, send: bool);
}

struct Queues {
    received: Ring<512>,
    unsent: Ring<128>,
}

/// A UART whose bytes pass through queues.
///
/// While the queue of received bytes is full, no byte is taken from the receiver. A line with flow control waits then; on
/// one without, bytes are lost.
pub struct Uart<R> {
    registers: R,
    queues: Mutex<RefCell<Queues>>,
}

impl<R: Registers> Uart<R> {
    /// Creates the driver of a UART.
    pub const fn new(registers: R) -> Self {
        let queues = Queues { received: Ring::new(), unsent: Ring::new() };
        Self { registers, queues: Mutex::new(RefCell::new(queues)) }
    }

    /// Returns the registers.
    pub const fn registers(&self) -> &R {
        &self.registers
    }

    /// Moves bytes between the queues and the device: at an interrupt, and after the queues have changed.
    pub fn serve(&self) {
        critical_section::with(|cs| {
            let queues = &mut *self.queues.borrow_ref_mut(cs);
            // Acknowledged first: what happens from here on causes a new interrupt.
            self.registers.set_interrupts(!queues.received.is_full(), !queues.unsent.is_empty());
            while !queues.received.is_full() {
                let Some(byte) = self.registers.receive() else { break };
                queues.received.push(byte);
            }
            while let Some(byte) = queues.unsent.pop() {
                if !self.registers.send(byte) {
                    queues.unsent.restore(byte);
                    break;
                }
            }
            self.registers.set_interrupts(!queues.received.is_full(), !queues.unsent.is_empty());
        });
    }

    /// Returns the next received byte.
    pub fn pop(&self) -> Option<u8> {
        let byte = critical_section::with(|cs| self.queues.borrow_ref_mut(cs).received.pop());
        if byte.is_some() {
            self.serve();
        }
        byte
    }

    /// Returns whether bytes were received.
    pub fn has_input(&self) -> bool {
        critical_section::with(|cs| !self.queues.borrow_ref(cs).received.is_empty())
    }

    fn has_room(&self) -> bool {
        critical_section::with(|cs| !self.queues.borrow_ref(cs).unsent.is_full())
    }

    fn push(&self, byte: u8) -> bool {
        critical_section::with(|cs| self.queues.borrow_ref_mut(cs).unsent.push(byte))
    }
}

impl<R> ErrorType for &Uart<R> {
    type Error = Infallible;
}

impl<R: Registers> Read for &Uart<R> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        let mut n = 0;
        while n == 0 && !bytes.is_empty() {
            critical_section::with(|cs| {
                let received = &mut self.queues.borrow_ref_mut(cs).received;
                for place in &mut *bytes {
                    let Some(byte) = received.pop() else { break };
                    *place = byte;
                    n += 1;
                }
            });
            self.serve();
        }
        Ok(n)
    }
}

impl<R: Registers> ReadReady for &Uart<R> {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.has_input())
    }
}

impl<R: Registers> Write for &Uart<R> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        loop {
            let n = bytes.iter().take_while(|byte| self.push(**byte)).count();
            self.serve();
            if n > 0 || bytes.is_empty() {
                return Ok(n);
            }
        }
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        while critical_section::with(|cs| !self.queues.borrow_ref(cs).unsent.is_empty()) {
            self.serve();
        }
        Ok(())
    }
}

impl<R: Registers> WriteReady for &Uart<R> {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        self.serve();
        Ok(self.has_room())
    }
}

/// Text for a console; waits until the queue has room.
impl<R: Registers> core::fmt::Write for &Uart<R> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.write_all(text.as_bytes()).map_err(|_| core::fmt::Error)
    }
}
