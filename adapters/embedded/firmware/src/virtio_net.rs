//! The network card of virtio over memory-mapped registers (version 2), as a device of `smoltcp`. It is polled.
//!
//! Frames are copied between the buffers that the card uses and two buffers of this driver.

use core::arch::asm;

use smoltcp::phy::{self, Device, DeviceCapabilities};
use smoltcp::time::Instant;

use crate::ethernet::{self, FRAME_BYTES, Received};

/// Bytes before a frame, which say nothing without the features that are not negotiated.
const HEADER_BYTES: usize = 12;
const BUFFER_BYTES: usize = HEADER_BYTES + FRAME_BYTES;
/// Buffers of a queue, a power of two. The one for sending uses the first.
const QUEUE_SIZE: usize = 4;
/// Reads after which the card is taken for broken.
const MAX_WAIT: u32 = 1_000_000;

/// Orders all accesses before it, also those to registers, before all accesses after it. A `fence` of `core` orders memory alone.
fn barrier() {
    // SAFETY: the instruction changes no register and no memory.
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) }
}

/// Registers, by their offsets.
mod register {
    pub(super) const MAGIC: usize = 0x00;
    pub(super) const VERSION: usize = 0x04;
    pub(super) const DEVICE: usize = 0x08;
    pub(super) const FEATURES: usize = 0x20;
    pub(super) const FEATURES_SELECT: usize = 0x24;
    pub(super) const QUEUE_SELECT: usize = 0x30;
    pub(super) const QUEUE_SIZE_MAX: usize = 0x34;
    pub(super) const QUEUE_SIZE: usize = 0x38;
    pub(super) const QUEUE_READY: usize = 0x44;
    pub(super) const QUEUE_NOTIFY: usize = 0x50;
    pub(super) const STATUS: usize = 0x70;
    pub(super) const QUEUE_DESCRIPTORS: usize = 0x80;
    pub(super) const QUEUE_AVAILABLE: usize = 0x90;
    pub(super) const QUEUE_USED: usize = 0xA0;
}

const MAGIC: u32 = 0x7472_6976;
const NETWORK_CARD: u32 = 1;
/// Bit 32 of the features: the registers and queues of version 1 of the specification.
const FEATURE_VERSION_1: u32 = 1;
const STATUS_DRIVER: u32 = 1 | 2;
const STATUS_FEATURES: u32 = 8;
const STATUS_READY: u32 = 4;
/// The card writes the buffer.
const DESCRIPTOR_WRITE: u16 = 2;
/// Numbers of the queues.
const RECEIVE: u32 = 0;
const SEND: u32 = 1;

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    length: u32,
    flags: u16,
    next: u16,
}

#[repr(C)]
struct Available {
    flags: u16,
    index: u16,
    ring: [u16; QUEUE_SIZE],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct UsedElement {
    id: u32,
    length: u32,
}

#[repr(C, align(4))]
struct Used {
    flags: u16,
    index: u16,
    ring: [UsedElement; QUEUE_SIZE],
}

/// A queue, as the card reads and writes it.
#[repr(C, align(16))]
struct Queue {
    descriptors: [Descriptor; QUEUE_SIZE],
    available: Available,
    used: Used,
    buffers: [[u8; BUFFER_BYTES]; QUEUE_SIZE],
}

impl Queue {
    const fn new() -> Self {
        Self {
            descriptors: [Descriptor { address: 0, length: 0, flags: 0, next: 0 }; QUEUE_SIZE],
            available: Available { flags: 0, index: 0, ring: [0; QUEUE_SIZE] },
            used: Used { flags: 0, index: 0, ring: [UsedElement { id: 0, length: 0 }; QUEUE_SIZE] },
            buffers: [[0; BUFFER_BYTES]; QUEUE_SIZE],
        }
    }
}

/// The memory of the driver: what it shares with the card, and a frame of each direction.
pub struct Frames {
    receive: Queue,
    send: Queue,
    received: [u8; FRAME_BYTES],
    unsent: [u8; FRAME_BYTES],
}

impl Frames {
    /// Creates empty buffers.
    pub const fn new() -> Self {
        Self {
            receive: Queue::new(),
            send: Queue::new(),
            received: [0; FRAME_BYTES],
            unsent: [0; FRAME_BYTES],
        }
    }
}

/// The registers of a card, by their address.
#[derive(Clone, Copy)]
struct Registers(usize);

impl Registers {
    fn read(self, register: usize) -> u32 {
        // SAFETY: `VirtioNet::new` was promised that registers are at this address; reading them has no effect on memory.
        unsafe { ((self.0 + register) as *const u32).read_volatile() }
    }

    fn write(self, register: usize, value: u32) {
        // SAFETY: as in `read`. The card gets only addresses of queues, which the driver reads and writes as volatile or while it owns them.
        unsafe { ((self.0 + register) as *mut u32).write_volatile(value) }
    }

    fn write_address(self, register: usize, address: usize) {
        self.write(register, address as u32);
        self.write(register + 4, 0);
    }
}

/// The driver's side of a queue.
struct Virtqueue {
    registers: Registers,
    number: u32,
    /// The card accesses it at any time, so there are no references to it.
    queue: *mut Queue,
    available: u16,
    used: u16,
}

impl Virtqueue {
    /// Gives a queue to the card. Returns `None` if the card does not take one of this size.
    fn new(registers: Registers, number: u32, queue: &'static mut Queue) -> Option<Self> {
        let queue = core::ptr::from_mut(queue);
        registers.write(register::QUEUE_SELECT, number);
        if (registers.read(register::QUEUE_SIZE_MAX) as usize) < QUEUE_SIZE {
            return None;
        }
        registers.write(register::QUEUE_SIZE, QUEUE_SIZE as u32);
        // SAFETY: the pointer is that of a queue, whose fields are named, and not read.
        let (descriptors, available, used) =
            unsafe { (&raw mut (*queue).descriptors, &raw mut (*queue).available, &raw mut (*queue).used) };
        registers.write_address(register::QUEUE_DESCRIPTORS, descriptors as usize);
        registers.write_address(register::QUEUE_AVAILABLE, available as usize);
        registers.write_address(register::QUEUE_USED, used as usize);
        registers.write(register::QUEUE_READY, 1);
        Some(Self { registers, number, queue, available: 0, used: 0 })
    }

    /// Gives the first `length` bytes of a buffer to the card.
    fn offer(&mut self, id: usize, length: usize, flags: u16) {
        let id = id % QUEUE_SIZE;
        // SAFETY: the ids are within the arrays, and the card does not access what was not offered to it.
        unsafe {
            let address = &raw mut (*self.queue).buffers[id];
            let descriptor =
                Descriptor { address: address as usize as u64, length: length as u32, flags, next: 0 };
            (&raw mut (*self.queue).descriptors[id]).write_volatile(descriptor);
            let place = usize::from(self.available) % QUEUE_SIZE;
            (&raw mut (*self.queue).available.ring[place]).write_volatile(id as u16);
        }
        self.available = self.available.wrapping_add(1);
        // The card reads the entry only after the index says that it is there.
        barrier();
        // SAFETY: as above.
        unsafe { (&raw mut (*self.queue).available.index).write_volatile(self.available) };
        barrier();
        self.registers.write(register::QUEUE_NOTIFY, self.number);
    }

    /// Returns the next buffer that the card gives back, and the bytes that it has written.
    fn take(&mut self) -> Option<(usize, usize)> {
        // SAFETY: the card writes this word, and it is aligned.
        let index = unsafe { (&raw const (*self.queue).used.index).read_volatile() };
        if index == self.used {
            return None;
        }
        barrier();
        let place = usize::from(self.used) % QUEUE_SIZE;
        // SAFETY: the card has written this element before the index.
        let element = unsafe { (&raw const (*self.queue).used.ring[place]).read_volatile() };
        self.used = self.used.wrapping_add(1);
        Some((element.id as usize % QUEUE_SIZE, element.length as usize))
    }

    /// Returns the buffer, which the card must not have now.
    fn buffer(&mut self, id: usize) -> &mut [u8; BUFFER_BYTES] {
        // SAFETY: the caller says that the card does not access it, and the reference ends before it is offered again.
        unsafe { &mut (*self.queue).buffers[id % QUEUE_SIZE] }
    }
}

/// A network card of virtio.
pub struct VirtioNet {
    receive: Virtqueue,
    send: Virtqueue,
    /// True while the card keeps the buffer of a frame that is sent.
    is_sending: bool,
    received: &'static mut [u8; FRAME_BYTES],
    unsent: &'static mut [u8; FRAME_BYTES],
}

impl VirtioNet {
    /// Enables the card whose registers are at an address. Returns `None` if there is no network card.
    ///
    /// # Safety
    ///
    /// Registers of virtio are at `base`, and nothing else uses them.
    pub unsafe fn new(base: usize, frames: &'static mut Frames) -> Option<Self> {
        let registers = Registers(base);
        let is_card = registers.read(register::MAGIC) == MAGIC
            && registers.read(register::VERSION) == 2
            && registers.read(register::DEVICE) == NETWORK_CARD;
        if !is_card {
            return None;
        }
        registers.write(register::STATUS, 0);
        registers.write(register::STATUS, STATUS_DRIVER);
        for (word, features) in [(0, 0), (1, FEATURE_VERSION_1)] {
            registers.write(register::FEATURES_SELECT, word);
            registers.write(register::FEATURES, features);
        }
        registers.write(register::STATUS, STATUS_DRIVER | STATUS_FEATURES);
        if registers.read(register::STATUS) & STATUS_FEATURES == 0 {
            return None;
        }
        let Frames { receive, send, received, unsent } = frames;
        let mut receive = Virtqueue::new(registers, RECEIVE, receive)?;
        let send = Virtqueue::new(registers, SEND, send)?;
        registers.write(register::STATUS, STATUS_DRIVER | STATUS_FEATURES | STATUS_READY);
        for id in 0..QUEUE_SIZE {
            receive.offer(id, BUFFER_BYTES, DESCRIPTOR_WRITE);
        }
        Some(Self { receive, send, is_sending: false, received, unsent })
    }

    /// Returns whether the card has given back the buffer of the last frame that was sent.
    fn can_send(&mut self) -> bool {
        self.is_sending = self.is_sending && self.send.take().is_none();
        !self.is_sending
    }
}

impl Device for VirtioNet {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Unsent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Unsent<'_>)> {
        if !self.can_send() {
            return None;
        }
        let (id, length) = self.receive.take()?;
        let frame = self.receive.buffer(id).get(HEADER_BYTES..length).unwrap_or_default();
        let length = frame.len();
        self.received[..length].copy_from_slice(frame);
        self.receive.offer(id, BUFFER_BYTES, DESCRIPTOR_WRITE);
        let received = Received(&self.received[..length]);
        let Self { send, is_sending, unsent, .. } = self;
        Some((received, Unsent { send, is_sending, buffer: unsent }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Unsent<'_>> {
        let can_send = self.can_send();
        let Self { send, is_sending, unsent, .. } = self;
        can_send.then_some(Unsent { send, is_sending, buffer: unsent })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        ethernet::capabilities()
    }
}

/// Room for a frame to send.
pub struct Unsent<'a> {
    send: &'a mut Virtqueue,
    is_sending: &'a mut bool,
    buffer: &'a mut [u8; FRAME_BYTES],
}

impl phy::TxToken for Unsent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        // The stack asks for no more than `max_transmission_unit`.
        let frame = &mut self.buffer[..length.min(FRAME_BYTES)];
        let result = f(frame);
        let buffer = self.send.buffer(0);
        let length = HEADER_BYTES + frame.len();
        buffer[..HEADER_BYTES].fill(0);
        buffer[HEADER_BYTES..length].copy_from_slice(frame);
        self.send.offer(0, length, 0);
        // One frame at a time: while the card keeps it, there are no tokens.
        *self.is_sending = !(0..MAX_WAIT).any(|_| self.send.take().is_some());
        result
    }
}
