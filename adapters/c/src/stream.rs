//! Functions that a client and a server share: events, input, output and timers of a byte stream.
//!
//! An exported function of each role calls one of these. All have the same requirement as those: the rules of this library.

use mcp_proto::Instant;
use mcp_proto::pipe::Pipe;

use crate::event::{mcp_event, mcp_event_kind};
use crate::handle::{State, enter, read};
use crate::slice::{check_output, input_bytes, mcp_slice, output};
use crate::status::Failure;
use crate::status::mcp_status::{self, MCP_DONE, MCP_ERROR_CLOSED, MCP_ERROR_WRONG_ORDER, MCP_OK};

/// The state behind a handle with a byte stream.
pub(crate) trait StreamState: State {
    type Pipe: Pipe;

    fn pipe(&mut self) -> &mut Self::Pipe;

    /// Frees the memory that the slices of the last event point to.
    fn release_event(&mut self);

    /// Returns an event as C sees it, or `None` for one that C has no use for.
    fn translate(&mut self, event: <Self::Pipe as Pipe>::Event) -> Option<mcp_event>;

    /// Returns whether the last event was reported.
    fn is_closed(&self) -> bool;

    /// True after the end of the input.
    fn has_ended(&mut self) -> &mut bool;
}

pub(crate) const fn at(now: u64) -> Instant {
    Instant::from_micros(now)
}

pub(crate) unsafe fn handle_input<S: StreamState>(
    handle: *const S::Opaque,
    now: u64,
    data: *const u8,
    len: usize,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        enter::<S>(handle, |state| {
            let bytes = input_bytes(data, len)?;
            if state.is_closed() {
                return Err(Failure::new(MCP_ERROR_CLOSED, "the connection has ended"));
            }
            if *state.has_ended() {
                return Err(Failure::new(MCP_ERROR_WRONG_ORDER, "input after the end of the input"));
            }
            state.pipe().handle_input(at(now), bytes);
            Ok(MCP_OK)
        })
    }
}

pub(crate) unsafe fn handle_eof<S: StreamState>(handle: *const S::Opaque, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        act::<S>(handle, |state| {
            *state.has_ended() = true;
            state.pipe().handle_eof(at(now));
        })
    }
}

pub(crate) unsafe fn handle_timeout<S: StreamState>(handle: *const S::Opaque, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { act::<S>(handle, |state| state.pipe().handle_timeout(at(now))) }
}

pub(crate) unsafe fn hold_keep_alive<S: StreamState>(handle: *const S::Opaque, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { act::<S>(handle, |state| state.pipe().hold_keep_alive(at(now))) }
}

pub(crate) unsafe fn poll_event<S: StreamState>(
    handle: *const S::Opaque,
    now: u64,
    event: *mut mcp_event,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        enter::<S>(handle, |state| {
            check_output(event)?;
            state.release_event();
            let found = loop {
                let Some(next) = state.pipe().poll_event(at(now)) else { break None };
                if let Some(known) = state.translate(next) {
                    break Some(known);
                }
            };
            output(event, found.unwrap_or(mcp_event::new(mcp_event_kind::MCP_EVENT_NONE)))?;
            Ok(if found.is_some() { MCP_OK } else { MCP_DONE })
        })
    }
}

pub(crate) unsafe fn poll_timeout<S: StreamState>(
    handle: *const S::Opaque,
    deadline: *mut u64,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        enter::<S>(handle, |state| {
            check_output(deadline)?;
            let found = state.pipe().poll_timeout();
            output(deadline, found.map_or(u64::MAX, Instant::as_micros))?;
            Ok(if found.is_some() { MCP_OK } else { MCP_DONE })
        })
    }
}

pub(crate) unsafe fn transmit<S: StreamState>(handle: *const S::Opaque, bytes: *mut mcp_slice) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        enter::<S>(handle, |state| {
            let out = mcp_slice::of(state.pipe().transmit());
            output(bytes, out)?;
            Ok(if out.len == 0 { MCP_DONE } else { MCP_OK })
        })
    }
}

pub(crate) unsafe fn consume<S: StreamState>(handle: *const S::Opaque, count: usize) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        enter::<S>(handle, |state| {
            if count > state.pipe().transmit().len() {
                let message = "more bytes were consumed than there were to write";
                return Err(Failure::new(MCP_ERROR_WRONG_ORDER, message));
            }
            state.pipe().consume(count);
            Ok(MCP_OK)
        })
    }
}

pub(crate) unsafe fn wants_input<S: StreamState>(handle: *const S::Opaque) -> bool {
    // SAFETY: the rules of this library.
    unsafe { read::<S, _>(handle, false, |state| state.pipe().wants_input()) }
}

pub(crate) unsafe fn is_drained<S: StreamState>(handle: *const S::Opaque) -> bool {
    // SAFETY: the rules of this library.
    unsafe { read::<S, _>(handle, true, |state| state.pipe().is_drained()) }
}

/// Ends the connection by a command of its engine, after which input is refused.
pub(crate) unsafe fn end<S: StreamState>(
    handle: *const S::Opaque,
    end: impl FnOnce(&mut S::Pipe),
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        act::<S>(handle, |state| {
            *state.has_ended() = true;
            end(state.pipe());
        })
    }
}

/// Runs a function that cannot fail on the state of a handle.
unsafe fn act<S: StreamState>(handle: *const S::Opaque, act: impl FnOnce(&mut S)) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        enter::<S>(handle, |state| {
            act(state);
            Ok(MCP_OK)
        })
    }
}
