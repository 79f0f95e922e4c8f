//! The adapter: one loop for both roles, on `poll(2)`.

use alloc::sync::Arc;
use core::error::Error;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::{Call, Event};
use mcp_proto::{CallOptions, Fault, Instant, RpcError, client, server};
use mcp_std::Clock;
use mcp_std::io::is_peer_gone;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = core::result::Result<T, E>;

/// Drives a state machine over a socket until the connection has ended.
fn drive<P: Pipe>(
    pipe: &mut P,
    mut socket: TcpStream,
    clock: &Clock,
    mut handle: impl FnMut(&mut P, Instant, P::Event),
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (mut buffer, mut is_readable, mut is_writable) = (vec![0; 16 << 10], true, true);
    while !pipe.is_drained() {
        let now = clock.now();
        pipe.handle_timeout(now);
        if is_readable && pipe.wants_input() {
            match socket.read(&mut buffer) {
                Ok(count @ 1..) => pipe.handle_input(now, &buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if !is_peer_gone(&error) => return Err(error),
                _ => {
                    is_readable = false;
                    pipe.handle_eof(now);
                }
            }
        }
        while let Some(event) = pipe.poll_event(now) {
            handle(pipe, now, event);
        }
        let output = pipe.transmit();
        let written = match socket.write(output) {
            // Nobody will ever read it.
            _ if !is_writable => output.len(),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) if !is_peer_gone(&error) => return Err(error),
            Err(_) => {
                is_writable = false;
                output.len()
            }
        };
        pipe.consume(written);
        // Room for output may let more input be decoded, and the last event leaves nothing to wait for.
        if written > 0 || pipe.is_drained() {
            continue;
        }
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, is_readable && pipe.wants_input());
        interest.set(PollFlags::OUT, !pipe.transmit().is_empty());
        // Rounded up, in nanoseconds.
        let timeout = pipe.poll_timeout().and_then(|at| Timespec::try_from(clock.until(at)).ok());
        let mut watched = [PollFd::new(&socket, interest)];
        // A socket that hung up ends each wait at once, also one for nothing.
        let watched = if interest.is_empty() { &mut [][..] } else { &mut watched[..] };
        match poll(watched, timeout.as_ref()) {
            Err(error) if error != rustix::io::Errno::INTR => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Serves one client. `answer` returns the result of a call, or none for a call that goes on.
pub(crate) fn serve(
    config: server::Config,
    socket: TcpStream,
    answer: impl Fn(&Call) -> Result<Option<CallToolResult<'static>>, RpcError>,
) -> Result<()> {
    let clock = Clock::start();
    let mut server = Server::new(Arc::new(config), clock.now());
    let mut end = Fault::Eof;
    drive(&mut server, socket, &clock, |server, now, event| match event {
        Event::Call(call) => {
            // Fails if the call has ended meanwhile.
            let _ = match answer(&call) {
                Ok(Some(result)) => server.engine().complete(now, call.id(), &result).map(drop),
                Ok(None) => Ok(()),
                Err(error) => server.engine().fail(now, call.id(), &error).map(drop),
            };
        }
        Event::Closed { fault, .. } => end = fault,
        _ => {}
    })?;
    match end {
        Fault::Eof | Fault::Truncated { .. } | Fault::Closed => Ok(()),
        fault => Err(fault.into()),
    }
}

/// Calls a tool once with each of the arguments. Returns the outcomes in the same order.
pub(crate) fn call_all<T: serde::Serialize>(
    config: client::Config,
    socket: TcpStream,
    tool: &str,
    arguments: &[T],
) -> Result<Vec<Result<CallToolResult<'static>>>> {
    let clock = Clock::start();
    let mut client = Client::new(Arc::new(config), clock.now());
    let mut calls = Vec::new();
    for arguments in arguments {
        let call = client.engine().call_tool(clock.now(), tool, arguments, &CallOptions::new())?;
        calls.push((call, None));
    }
    drive(&mut client, socket, &clock, |client, now, event| {
        let client::Event::Done { call, outcome, .. } = event else { return };
        if let Some((_, place)) = calls.iter_mut().find(|(key, _)| *key == call) {
            *place = Some(outcome);
        }
        if calls.iter().all(|(_, outcome)| outcome.is_some()) {
            client.engine().close(now);
        }
    })?;
    let parse = |outcome: Option<Result<mcp_proto::RawJson, _>>| {
        let result = outcome.ok_or("the connection has ended")??;
        Ok(result.parse::<CallToolResult<'_>>()?.into_owned())
    };
    Ok(calls.into_iter().map(|(_, outcome)| parse(outcome)).collect())
}
