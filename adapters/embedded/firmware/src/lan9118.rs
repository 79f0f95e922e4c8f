//! The network card LAN9118, as a device of `smoltcp`. It is polled, and moves frames by the processor.
//!
//! A frame is copied between the FIFOs of the card and two buffers of this driver.

use smoltcp::phy::{self, Device, DeviceCapabilities};
use smoltcp::time::Instant;

use crate::ethernet::{self, FRAME_BYTES, Received};

/// Bytes of a buffer: a whole frame with its checksum, in words.
const BUFFER_BYTES: usize = (FRAME_BYTES + 4).next_multiple_of(4);
/// Reads of a register after which the card is taken for broken.
const MAX_WAIT: u32 = 1_000_000;
/// Entries of a queue of the card. A card that shows more is broken.
const FIFO_ENTRIES: usize = 128;

/// Registers of the bus, by their offsets.
mod register {
    pub(super) const RX_DATA: usize = 0x00;
    pub(super) const TX_DATA: usize = 0x20;
    pub(super) const RX_STATUS: usize = 0x40;
    pub(super) const TX_STATUS: usize = 0x48;
    pub(super) const IRQ_CFG: usize = 0x54;
    pub(super) const INT_STS: usize = 0x58;
    pub(super) const INT_EN: usize = 0x5C;
    pub(super) const BYTE_TEST: usize = 0x64;
    pub(super) const RX_CFG: usize = 0x6C;
    pub(super) const TX_CFG: usize = 0x70;
    pub(super) const HW_CFG: usize = 0x74;
    pub(super) const RX_FIFO_INF: usize = 0x7C;
    pub(super) const TX_FIFO_INF: usize = 0x80;
    pub(super) const MAC_CSR_CMD: usize = 0xA4;
    pub(super) const MAC_CSR_DATA: usize = 0xA8;
}

/// Registers of the MAC, which are reached by `MAC_CSR_CMD`.
mod mac {
    pub(super) const CR: u32 = 1;
    pub(super) const ADDRH: u32 = 2;
    pub(super) const ADDRL: u32 = 3;
    pub(super) const MII_ACC: u32 = 6;
    pub(super) const MII_DATA: u32 = 7;
}

/// Constant value of `BYTE_TEST`: the bus has the byte order that the driver expects.
const BYTE_ORDER: u32 = 0x8765_4321;
/// `HW_CFG`: resets the card.
const SOFT_RESET: u32 = 1;
/// `HW_CFG`: a frame is sent once all of it is in the FIFO, of 5 KiB.
const STORE_AND_FORWARD: u32 = 1 << 20 | 5 << 16;
/// `TX_CFG`: the transmitter is on.
const TX_ON: u32 = 1 << 1;
/// `MAC_CR`: receiver and transmitter are on, in full duplex.
const MAC_ENABLE: u32 = 1 << 2 | 1 << 3 | 1 << 20;
/// `MAC_CSR_CMD`: the command is under way, and it is a read.
const CSR_BUSY: u32 = 1 << 31;
const CSR_READ: u32 = 1 << 30;
/// `MII_ACC`: the PHY inside of the card, a write, and the access is under way.
const MII_PHY: u32 = 1 << 11;
const MII_WRITE: u32 = 1 << 1;
const MII_BUSY: u32 = 1;
/// Control register of the PHY: negotiates speed and duplex anew.
const PHY_CONTROL: u32 = 0;
const PHY_NEGOTIATE: u32 = 0x1200;
/// Status of a received frame: any error.
const RX_ERROR: u32 = 1 << 15;
/// First command word of a frame to send: its only segment.
const TX_WHOLE_FRAME: u32 = 1 << 13 | 1 << 12;

/// The registers of a card, by their address.
struct Registers(usize);

impl Registers {
    fn read(&self, register: usize) -> u32 {
        // SAFETY: `Lan9118::new` was promised that a card is at this address; its registers have no effect on memory.
        unsafe { ((self.0 + register) as *const u32).read_volatile() }
    }

    fn write(&self, register: usize, value: u32) {
        // SAFETY: as in `read`.
        unsafe { ((self.0 + register) as *mut u32).write_volatile(value) }
    }

    /// Reads until the value is as expected, for a bounded time.
    fn wait(&self, register: usize, is_done: impl Fn(u32) -> bool) -> Option<()> {
        (0..MAX_WAIT).any(|_| is_done(self.read(register))).then_some(())
    }

    fn command(&self, command: u32) -> Option<()> {
        self.write(register::MAC_CSR_CMD, CSR_BUSY | command);
        self.wait(register::MAC_CSR_CMD, |value| value & CSR_BUSY == 0)
    }

    fn write_mac(&self, address: u32, value: u32) -> Option<()> {
        self.write(register::MAC_CSR_DATA, value);
        self.command(address)
    }

    fn read_mac(&self, address: u32) -> Option<u32> {
        self.command(CSR_READ | address)?;
        Some(self.read(register::MAC_CSR_DATA))
    }

    fn write_phy(&self, address: u32, value: u32) -> Option<()> {
        self.write_mac(mac::MII_DATA, value)?;
        self.write_mac(mac::MII_ACC, MII_PHY | address << 6 | MII_WRITE | MII_BUSY)?;
        (0..MAX_WAIT)
            .any(|_| self.read_mac(mac::MII_ACC).is_some_and(|value| value & MII_BUSY == 0))
            .then_some(())
    }
}

/// The buffers of the driver, for a frame of each direction.
pub struct Frames {
    received: [u8; BUFFER_BYTES],
    unsent: [u8; BUFFER_BYTES],
}

impl Frames {
    /// Creates empty buffers.
    pub const fn new() -> Self {
        Self { received: [0; BUFFER_BYTES], unsent: [0; BUFFER_BYTES] }
    }
}

/// A LAN9118.
pub struct Lan9118 {
    registers: Registers,
    frames: &'static mut Frames,
}

impl Lan9118 {
    /// Resets the card at an address and enables it. Returns `None` if it does not answer.
    ///
    /// # Safety
    ///
    /// A LAN9118 is at `base`, and nothing else uses it.
    pub unsafe fn new(base: usize, address: [u8; 6], frames: &'static mut Frames) -> Option<Self> {
        let registers = Registers(base);
        registers.wait(register::BYTE_TEST, |value| value == BYTE_ORDER)?;
        registers.write(register::HW_CFG, SOFT_RESET);
        registers.wait(register::HW_CFG, |value| value & SOFT_RESET == 0)?;
        registers.wait(register::BYTE_TEST, |value| value == BYTE_ORDER)?;
        registers.write(register::HW_CFG, STORE_AND_FORWARD);
        registers.write(register::IRQ_CFG, 0);
        registers.write(register::INT_EN, 0);
        registers.write(register::INT_STS, u32::MAX);
        registers.write(register::RX_CFG, 0);
        registers.write_phy(PHY_CONTROL, PHY_NEGOTIATE)?;
        let [a, b, c, d, e, f] = address;
        registers.write_mac(mac::ADDRL, u32::from_le_bytes([a, b, c, d]))?;
        registers.write_mac(mac::ADDRH, u32::from_le_bytes([e, f, 0, 0]))?;
        registers.write(register::TX_CFG, TX_ON);
        registers.write_mac(mac::CR, MAC_ENABLE)?;
        Some(Self { registers, frames })
    }

    /// Takes the next frame without an error from the card into the buffer. Returns its length without the checksum.
    fn take_frame(&mut self) -> Option<usize> {
        for _ in 0..FIFO_ENTRIES {
            if self.registers.read(register::RX_FIFO_INF) >> 16 & 0xFF == 0 {
                break;
            }
            let status = self.registers.read(register::RX_STATUS);
            let length = (status >> 16 & 0x3FFF) as usize;
            let is_sound = status & RX_ERROR == 0 && (4..=BUFFER_BYTES).contains(&length);
            let (words, _) = self.frames.received.as_chunks_mut::<4>();
            // All words have to be taken, also those of a frame that is dropped.
            for at in 0..length.div_ceil(4) {
                let word = self.registers.read(register::RX_DATA);
                if let Some(place) = words.get_mut(at).filter(|_| is_sound) {
                    *place = word.to_le_bytes();
                }
            }
            if is_sound {
                return Some(length - 4);
            }
        }
        None
    }

    /// Returns whether the card has room for a frame of any length.
    fn has_room(&self) -> bool {
        // The status of frames that were sent is discarded: TCP repeats a frame that was lost.
        for _ in 0..FIFO_ENTRIES {
            if self.registers.read(register::TX_FIFO_INF) >> 16 & 0xFF == 0 {
                break;
            }
            self.registers.read(register::TX_STATUS);
        }
        self.registers.read(register::TX_FIFO_INF) & 0xFFFF >= (BUFFER_BYTES + 8) as u32
    }
}

impl Device for Lan9118 {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Unsent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Unsent<'_>)> {
        // A frame that cannot be answered waits in the card.
        let length = if self.has_room() { self.take_frame()? } else { return None };
        let Self { registers, frames: Frames { received, unsent } } = self;
        Some((Received(received.get(..length)?), Unsent { registers, buffer: unsent }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Unsent<'_>> {
        let has_room = self.has_room();
        has_room.then_some(Unsent { registers: &self.registers, buffer: &mut self.frames.unsent })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        ethernet::capabilities()
    }
}

/// Room for a frame to send.
pub struct Unsent<'a> {
    registers: &'a Registers,
    buffer: &'a mut [u8; BUFFER_BYTES],
}

impl phy::TxToken for Unsent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        // The stack asks for no more than `max_transmission_unit`.
        let length = length.min(FRAME_BYTES);
        let result = f(&mut self.buffer[..length]);
        let bytes = length as u32;
        self.registers.write(register::TX_DATA, TX_WHOLE_FRAME | bytes);
        self.registers.write(register::TX_DATA, bytes);
        let (words, _) = self.buffer.as_chunks::<4>();
        for word in words.iter().take(length.div_ceil(4)) {
            self.registers.write(register::TX_DATA, u32::from_le_bytes(*word));
        }
        result
    }
}
