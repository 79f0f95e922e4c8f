//! Input, output and timers of the byte stream, for both roles.

use mcp_proto::Instant;
use mcp_proto::pipe::Pipe;

use crate::status::Failure;
use crate::status::mcp_status::{self, MCP_ERROR_CLOSED, MCP_ERROR_WRONG_ORDER, MCP_OK};

/// The state behind a handle with a byte stream.
pub(crate) trait StreamState {
    type Pipe: Pipe;

    fn pipe(&mut self) -> &mut Self::Pipe;

    /// Returns whether the last event was reported.
    fn is_closed(&self) -> bool;

    /// True after the end of the input.
    fn has_ended(&mut self) -> &mut bool;
}

pub(crate) fn handle_input<S: StreamState>(
    state: &mut S,
    now: Instant,
    bytes: &[u8],
) -> Result<mcp_status, Failure> {
    if state.is_closed() {
        return Err(Failure::new(MCP_ERROR_CLOSED, "the connection has ended"));
    }
    if *state.has_ended() {
        return Err(Failure::new(MCP_ERROR_WRONG_ORDER, "input after the end of the input"));
    }
    state.pipe().handle_input(now, bytes);
    Ok(MCP_OK)
}

pub(crate) fn handle_eof<S: StreamState>(state: &mut S, now: Instant) -> Result<mcp_status, Failure> {
    *state.has_ended() = true;
    state.pipe().handle_eof(now);
    Ok(MCP_OK)
}

pub(crate) fn handle_timeout<S: StreamState>(state: &mut S, now: Instant) -> Result<mcp_status, Failure> {
    state.pipe().handle_timeout(now);
    Ok(MCP_OK)
}

pub(crate) fn hold_keep_alive<S: StreamState>(state: &mut S, now: Instant) -> Result<mcp_status, Failure> {
    state.pipe().hold_keep_alive(now);
    Ok(MCP_OK)
}

pub(crate) fn consume<S: StreamState>(state: &mut S, count: usize) -> Result<mcp_status, Failure> {
    if count > state.pipe().transmit().len() {
        return Err(Failure::new(MCP_ERROR_WRONG_ORDER, "more bytes were consumed than there were to write"));
    }
    state.pipe().consume(count);
    Ok(MCP_OK)
}
