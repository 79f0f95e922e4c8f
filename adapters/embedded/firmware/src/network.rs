//! The device on the network: HTTP on TCP sockets of `smoltcp`.
//!
//! The console takes `s` with a seed of 144 hexadecimal digits, because the machine has no generator of random numbers: see
//! [`Seed`]. HTTP is served from then on, and not before.

use core::fmt::Write as _;

use mcp_embedded::Turn;
use mcp_embedded::http::{EntropyError, HttpServer, Settings};
use mcp_proto::Limits;
use mcp_proto::sync::Arc;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

use crate::board::{self, CONSOLE, Card, Frames};
use crate::device::Device;
use crate::reset_marks;
use crate::static_cell::StaticCell;

/// TCP sockets: four connections at once, and two that wait.
const SOCKETS: usize = 6;
/// Bytes of each of the two buffers of a socket.
const BUFFER_BYTES: usize = 1 << 10;
/// Address of the guest in the user network of QEMU.
const ADDRESS: IpAddress = IpAddress::v4(10, 0, 2, 15);
const HARDWARE_ADDRESS: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

/// The static memory of the network.
struct Memory {
    frames: Frames,
    buffers: [[[u8; BUFFER_BYTES]; 2]; SOCKETS],
    storage: [SocketStorage<'static>; SOCKETS],
    network: Option<Network>,
}

static MEMORY: StaticCell<Memory> = StaticCell::new(Memory {
    frames: Frames::new(),
    buffers: [[[0; BUFFER_BYTES]; 2]; SOCKETS],
    storage: [SocketStorage::EMPTY; SOCKETS],
    network: None,
});

/// Bytes of a seed: 64 for the session ids, and 8 for the sequence numbers of TCP.
const SEED_BYTES: usize = 72;

/// A seed that the host of the emulator supplies. Each of its bytes is given out once.
///
/// This is for the test alone. A product reads a hardware generator here, or a secret seed that was written at its production
/// and is advanced in flash at each start, before it is used. Anyone who knows the bytes can guess all session ids.
struct Seed {
    bytes: [u8; SEED_BYTES],
    /// Bytes received.
    len: usize,
    /// Bytes given out.
    used: usize,
    /// First digit of the byte that arrives.
    digit: Option<u8>,
}

/// The seed is not there, or used up.
#[derive(Clone, Copy)]
struct NoEntropy;

impl Seed {
    const fn new() -> Self {
        Self { bytes: [0; SEED_BYTES], len: 0, used: 0, digit: None }
    }

    /// Takes a hexadecimal digit. Returns whether more are expected.
    fn push(&mut self, digit: u8) -> bool {
        let Some(value) = char::from(digit).to_digit(16) else { return false };
        match self.digit.take() {
            None => self.digit = Some(value as u8),
            Some(high) => {
                if let Some(place) = self.bytes.get_mut(self.len) {
                    *place = high << 4 | value as u8;
                    self.len += 1;
                }
            }
        }
        self.len < SEED_BYTES
    }

    /// Fills `bytes` with unused bytes of the seed.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        let end = self.used + bytes.len();
        let unused = self.bytes.get_mut(self.used..end).filter(|_| end <= self.len).ok_or(NoEntropy)?;
        bytes.copy_from_slice(unused);
        unused.fill(0);
        self.used = end;
        Ok(())
    }
}

/// The interface and the server on it.
struct Network {
    iface: Interface,
    server: HttpServer<SOCKETS>,
}

/// Begins to serve, if there is entropy. A function of its own, so that its stack is free again while calls are served.
#[inline(never)]
fn begin(
    network: &mut Option<Network>,
    card: &mut Card,
    device: &Device,
    handles: [SocketHandle; SOCKETS],
    seed: &mut Seed,
) -> Result<(), EntropyError<NoEntropy>> {
    let mut config = Config::new(EthernetAddress(HARDWARE_ADDRESS).into());
    let mut number = [0; 8];
    seed.fill(&mut number).map_err(EntropyError::Source)?;
    config.random_seed = u64::from_le_bytes(number);
    let now = smoltcp::time::Instant::from_micros(board::now().as_micros() as i64);
    let mut iface = Interface::new(config, card, now);
    iface.update_ip_addrs(|addresses| _ = addresses.push(IpCidr::new(ADDRESS, 24)));
    let mut limits = Limits::tiny();
    // Each client that follows a resource has an open call.
    limits.max_live_calls = HttpServer::<SOCKETS>::PLACES as u32;
    let config = Arc::new(device.config().limits(limits));
    let server = HttpServer::new(config, Settings::tiny(80, SOCKETS), handles, |bytes| seed.fill(bytes))?;
    *network = Some(Network { iface, server });
    Ok(())
}

/// Serves for ever.
pub fn run() -> ! {
    let Some(memory) = MEMORY.take() else { board::halt() };
    let Some(mut card) = board::card(HARDWARE_ADDRESS, &mut memory.frames) else {
        let _ =
            writeln!(&mut &CONSOLE, "{{\"event\":\"panic\",\"at\":\"the network card does not answer\"}}");
        board::halt()
    };
    let mut sockets = SocketSet::new(memory.storage.as_mut_slice());
    let handles = memory.buffers.each_mut().map(|[receive, send]| {
        let (receive, send) = (receive.as_mut_slice(), send.as_mut_slice());
        sockets.add(Socket::new(SocketBuffer::new(receive), SocketBuffer::new(send)))
    });
    let mut device = Device::new();
    let mut seed: Option<Seed> = None;
    let mut outcome = None;
    let network = &mut memory.network;
    reset_marks();
    print_marks("ready");
    loop {
        let turn = match network {
            Some(Network { iface, server }) => {
                server.poll_network(board::now(), iface, &mut card, &mut sockets, &mut device)
            }
            None => Turn::Idle(None),
        };
        // A turn later, because the sockets listen from the first turn on.
        if let Some(outcome) = outcome.take() {
            print_marks(outcome);
        }
        while let Some(byte) = CONSOLE.pop() {
            if let Some(digits) = &mut seed {
                if !digits.push(byte) {
                    let begun = begin(network, &mut card, &device, handles, digits);
                    outcome = Some(if begun.is_ok() { "serving" } else { "noEntropy" });
                    seed = None;
                }
                continue;
            }
            match byte {
                b's' => seed = Some(Seed::new()),
                b'm' => print_marks("marks"),
                b'r' => reset_marks(),
                _ => {}
            }
        }
        if matches!(turn, Turn::Idle(_)) {
            board::sleep();
        }
    }
}

/// Prints the use of the memory, with that of the network.
fn print_marks(what: &str) {
    let server = size_of::<Network>();
    let buffers = size_of::<Memory>() - server;
    crate::print_marks(what, format_args!(",\"buffers\":{buffers},\"server\":{server}"));
}
