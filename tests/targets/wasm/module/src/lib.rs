//! A server or a client as a WebAssembly module that imports nothing: its host passes bytes, time and entropy in.
//!
//! One instance is one connection. The host calls, in this order and then in any order:
//!
//! 1. `buffer(len)` for room, writes 32 bytes of entropy there, and `open(now, unix_seconds, len, era)`;
//! 2. `buffer(len)`, writes what was read there, and `handle_input(now, len)`, while `wants_input()`;
//! 3. `transmit()` and `transmit_len()` for the bytes to write, and `consume(n)` after they were written;
//! 4. `handle_timeout(now)` at `poll_timeout()`; `handle_eof(now)` at the end of the input; it ends at `is_drained()`.
//!
//! A client has commands and events besides (module `client`). Times are milliseconds of a clock of the host, seconds for
//! `unix_seconds`. Results below zero are a [`Status`]; the call has then changed nothing. No function takes a pointer, so a
//! host cannot pass a wrong one, and this crate needs no `unsafe` block: `unsafe(no_mangle)` is for the names alone.

#![no_std]
#![cfg(all(target_family = "wasm", target_os = "unknown"))]

#[cfg(not(any(feature = "server", feature = "client")))]
compile_error!("select a role: the feature `server`, `ask` or `client`");
#[cfg(all(feature = "server", feature = "client"))]
compile_error!("a module has one role: build it twice");

extern crate alloc;

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod server;

use alloc::vec::Vec;
use core::hint::black_box;
use core::panic::PanicInfo;

use mcp_proto::{Instant, VersionSet};
use spin::Mutex;

#[cfg(feature = "client")]
use client::{Role, open as open_role};
#[cfg(feature = "server")]
use server::{Role, open as open_role};

#[global_allocator]
static HEAP: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Ends the instance by a trap, without a message: formatting costs more than the rest of this file.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// The reason why a call was refused. It has changed nothing.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Status {
    Done = 0,
    /// `open` was not called.
    NotOpen = -1,
    /// `open` was called before. An instance serves one connection.
    AlreadyOpen = -2,
    /// The entropy is not 32 bytes, or all of them are equal: a buffer that was not filled.
    NoEntropy = -3,
    /// A time is negative, infinite or no number.
    BadTime = -4,
    /// More bytes than `buffer` gave room for.
    BadLength = -5,
    /// The memory cannot grow by what the call may need.
    NoMemory = -6,
    /// An earlier call has trapped, or this one came from within another. The instance is of no use any more.
    Broken = -7,
    /// A text is not UTF-8 or not JSON, or a number means nothing.
    BadArgument = -8,
    /// The engine has refused a command, or the number of the call is stale.
    #[cfg_attr(feature = "server", expect(dead_code, reason = "a server has no commands"))]
    Refused = -9,
    /// The module is not ready for input: see `wants_input`.
    Full = -10,
    /// The input has ended.
    Closed = -11,
}

pub(crate) struct Module {
    /// Bytes of the host, or for it.
    pub(crate) buffer: Vec<u8>,
    role: Option<Role>,
    has_ended: bool,
}

/// Longest input of one call. Longer input comes in pieces.
const MAX_PIECE: usize = 16 << 10;

/// Memory that one call may need within `Limits::small`, in one block.
///
/// Where there is no room for it, calls are refused before they change anything: running out of memory in the midst of
/// one ends the instance.
const HEADROOM: usize = 128 << 10;

/// The lock is never contended. It stays locked after a trap, because nothing unwinds: the instance is then broken.
static MODULE: Mutex<Module> = Mutex::new(Module { buffer: Vec::new(), role: None, has_ended: false });

pub(crate) fn with_module<T>(run: impl FnOnce(&mut Module) -> Result<T, Status>) -> Result<T, Status> {
    let mut module = MODULE.try_lock().ok_or(Status::Broken)?;
    run(&mut module)
}

pub(crate) fn with_role<T>(
    run: impl FnOnce(&mut Role, &mut Vec<u8>) -> Result<T, Status>,
) -> Result<T, Status> {
    with_module(|module| run(module.role.as_mut().ok_or(Status::NotOpen)?, &mut module.buffer))
}

pub(crate) fn status(outcome: Result<(), Status>) -> i32 {
    outcome.err().unwrap_or(Status::Done) as i32
}

pub(crate) fn instant(ms: f64) -> Result<Instant, Status> {
    match ms.is_finite() && ms >= 0.0 {
        // Saturates.
        true => Ok(Instant::from_micros((ms * 1000.0) as u64)),
        false => Err(Status::BadTime),
    }
}

pub(crate) fn check_headroom() -> Result<(), Status> {
    let mut room = Vec::<u8>::new();
    let has_room = room.try_reserve_exact(HEADROOM).is_ok();
    // Otherwise the compiler leaves out an allocation that nothing uses.
    black_box(&mut room);
    if has_room { Ok(()) } else { Err(Status::NoMemory) }
}

/// Returns the place of `len` bytes, at most 16 KiB. It is valid until the next call; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn buffer(len: usize) -> *mut u8 {
    let place = with_module(|module| {
        if len > MAX_PIECE {
            return Err(Status::BadLength);
        }
        module.buffer.clear();
        module.buffer.try_reserve(len).map_err(|_| Status::NoMemory)?;
        module.buffer.resize(len, 0);
        Ok(module.buffer.as_mut_ptr())
    });
    place.unwrap_or(core::ptr::null_mut())
}

/// Opens the connection with `len` bytes of entropy in the buffer. `era` is 0 for both, 1 for legacy, 2 for modern.
#[unsafe(no_mangle)]
pub extern "C" fn open(now: f64, unix_seconds: f64, len: usize, era: u32) -> i32 {
    status(with_module(|module| {
        if module.role.is_some() {
            return Err(Status::AlreadyOpen);
        }
        let (now, unix) = (instant(now)?, instant(unix_seconds)?);
        let versions = match era {
            0 => VersionSet::ALL,
            #[cfg(feature = "legacy")]
            1 => VersionSet::LEGACY,
            2 => VersionSet::MODERN,
            _ => return Err(Status::BadArgument),
        };
        let entropy: [u8; 32] = module
            .buffer
            .get(..len)
            .and_then(|bytes| bytes.try_into().ok())
            .filter(|bytes: &[u8; 32]| bytes.iter().any(|byte| *byte != bytes[0]))
            .ok_or(Status::NoEntropy)?;
        check_headroom()?;
        module.buffer.fill(0);
        module.buffer.clear();
        module.role = Some(open_role(now, versions, entropy, unix.as_micros() / 1000));
        Ok(())
    }))
}

/// Takes the first `len` bytes of the buffer as input.
#[unsafe(no_mangle)]
pub extern "C" fn handle_input(now: f64, len: usize) -> i32 {
    status(with_module(|module| {
        let role = module.role.as_mut().ok_or(Status::NotOpen)?;
        let (now, bytes) = (instant(now)?, module.buffer.get(..len).ok_or(Status::BadLength)?);
        if module.has_ended {
            return Err(Status::Closed);
        }
        if !role.wants_input() {
            return Err(Status::Full);
        }
        check_headroom()?;
        role.handle_input(now, bytes);
        Ok(())
    }))
}

/// Reports the end of the input.
#[unsafe(no_mangle)]
pub extern "C" fn handle_eof(now: f64) -> i32 {
    status(with_module(|module| {
        let role = module.role.as_mut().ok_or(Status::NotOpen)?;
        let now = instant(now)?;
        check_headroom()?;
        module.has_ended = true;
        role.handle_eof(now);
        Ok(())
    }))
}

/// Processes the deadlines that have passed.
#[unsafe(no_mangle)]
pub extern "C" fn handle_timeout(now: f64) -> i32 {
    status(with_role(|role, _| {
        let now = instant(now)?;
        check_headroom()?;
        role.handle_timeout(now);
        Ok(())
    }))
}

/// Returns the place of the bytes to write next. It is valid until the next call of another function than `transmit_len`.
#[unsafe(no_mangle)]
pub extern "C" fn transmit() -> *const u8 {
    with_role(|role, _| Ok(role.transmit().as_ptr())).unwrap_or(core::ptr::null())
}

/// Returns the number of those bytes.
#[unsafe(no_mangle)]
pub extern "C" fn transmit_len() -> i32 {
    with_role(|role, _| Ok(i32::try_from(role.transmit().len()).unwrap_or(i32::MAX)))
        .unwrap_or_else(|status| status as i32)
}

/// Removes `n` bytes that were written.
#[unsafe(no_mangle)]
pub extern "C" fn consume(n: usize) -> i32 {
    status(with_role(|role, _| {
        if n > role.transmit().len() {
            return Err(Status::BadLength);
        }
        role.consume(n);
        // Written bytes must go in any case; they would be written twice. The rest waits for memory or the next call.
        if check_headroom().is_ok() {
            role.resume();
        }
        Ok(())
    }))
}

/// Returns 1 if the host should pass in input.
#[unsafe(no_mangle)]
pub extern "C" fn wants_input() -> i32 {
    with_role(|role, _| Ok(role.wants_input().into())).unwrap_or_else(|status| status as i32)
}

/// Returns when to call `handle_timeout`; infinity for never.
#[unsafe(no_mangle)]
pub extern "C" fn poll_timeout() -> f64 {
    let next = with_role(|role, _| Ok(role.poll_timeout()));
    // Rounded up: a timer that fires a moment early would fire again at once.
    next.ok().flatten().map_or(f64::INFINITY, |at| at.as_micros().div_ceil(1000) as f64)
}

/// Returns 1 if the connection is finished.
#[unsafe(no_mangle)]
pub extern "C" fn is_drained() -> i32 {
    with_role(|role, _| Ok(role.is_drained().into())).unwrap_or_else(|status| status as i32)
}
