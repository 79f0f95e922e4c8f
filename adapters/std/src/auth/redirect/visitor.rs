//! One connection of a browser.

use alloc::format;
use alloc::string::String;
use core::time::Duration;
use std::io::{self, ErrorKind};

use mcp_proto::Instant;
use mcp_proto::h1::HttpLimits;
use mcp_proto::h1::server::{Connection, Event};
use mcp_proto::head::{BodySize, Fields, RequestHead, values};

use super::page::Page;
use super::{CALLBACK, RedirectPage};
use crate::adapter::poll::{Interest, Ready, Selector};
use crate::io::{Duplex as _, Socket};

/// A connection with one request.
pub(super) struct Visitor {
    socket: Socket,
    token: u64,
    interest: Interest,
    http: Connection,
    port: u16,
    request: Option<Request>,
    is_write_shut: bool,
}

/// The resource that a request names.
enum Request {
    /// The redirect, with its query.
    Redirect(String),
    UnknownPath,
    OtherMethod,
    ForeignHost,
}

impl Visitor {
    pub(super) fn new(socket: Socket, token: u64, port: u16, now: Instant) -> Self {
        let http = Connection::new(now, limits());
        let interest = Interest::READ;
        Self { socket, token, interest, http, port, request: None, is_write_shut: false }
    }

    pub(super) const fn token(&self) -> u64 {
        self.token
    }

    pub(super) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Reads, answers and writes as far as possible; returns whether the connection goes on.
    ///
    /// `page` returns the page for a redirect, or `None` if another one was accepted before.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        ready: Ready,
        page: &mut dyn FnMut(&str) -> Option<RedirectPage>,
    ) -> bool {
        self.http.handle_timeout(now);
        if ready.readable && self.http.wants_input() && self.read(now).is_err() {
            return false;
        }
        let port = self.port;
        while let Some(event) = self.http.poll_event(now, |head, _| classify(&head, port)) {
            match event {
                Event::Head(request) => self.request = Some(request),
                Event::End => self.respond(now, page),
                // No body is allowed, and the others are reported by `wants_close`.
                Event::Body(_) | Event::ClientGone | Event::Fault(_) => {}
            }
        }
        self.write().is_ok() && !self.http.wants_close()
    }

    /// Waits for what the connection needs next.
    pub(super) fn watch(&mut self, selector: &mut Selector) -> io::Result<()> {
        let wanted = Interest { read: self.http.wants_input(), write: !self.http.transmit().is_empty() };
        if wanted != self.interest {
            selector.modify(&self.socket, self.token, wanted)?;
            self.interest = wanted;
        }
        Ok(())
    }

    fn read(&mut self, now: Instant) -> io::Result<()> {
        let mut buffer = [0; 8 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.http.handle_eof(now),
            Ok(n) => self.http.handle_input(now, buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.http.transmit().is_empty() {
            match self.socket.write(self.http.transmit()) {
                Ok(n) => self.http.consume(n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if self.http.wants_write_shutdown() && !core::mem::replace(&mut self.is_write_shut, true) {
            self.socket.shutdown_write()?;
        }
        Ok(())
    }

    fn respond(&mut self, now: Instant, page: &mut dyn FnMut(&str) -> Option<RedirectPage>) {
        let page = match self.request.take() {
            Some(Request::Redirect(query)) => page(&query).map_or(Page::Late, Page::Redirect),
            Some(Request::OtherMethod) => Page::OtherMethod,
            Some(Request::ForeignHost) => Page::ForeignHost,
            Some(Request::UnknownPath) | None => Page::UnknownPath,
        };
        let (html, mut fields) = (page.html(), Fields::new());
        for (name, value) in page.fields() {
            fields.push(name, value.as_bytes());
        }
        // A browser opens a new connection for its next request.
        self.http.close(now);
        // Refused only if the browser is gone.
        let _ = self
            .http
            .respond(now, page.status(), &fields, BodySize::Exact(html.len() as u64))
            .and_then(|()| self.http.write_body(html.as_bytes()))
            .and_then(|()| self.http.end(now));
    }
}

fn classify(head: &RequestHead<'_>, port: u16) -> Request {
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let mut values = values(head.fields, "host");
    // A name that an attacker's name server resolves to this machine is not ours.
    if !values.any(|host| hosts.iter().any(|own| host.eq_ignore_ascii_case(own.as_bytes()))) {
        return Request::ForeignHost;
    }
    let (path, query) = head.target.split_once('?').unwrap_or((head.target, ""));
    match head.method {
        _ if path != CALLBACK => Request::UnknownPath,
        "GET" => Request::Redirect(query.into()),
        _ => Request::OtherMethod,
    }
}

/// Returns the limits of a connection.
fn limits() -> HttpLimits {
    let mut limits = HttpLimits::default();
    // An authorization code has no limit of its own; those of large providers have some kilobytes.
    (limits.max_head, limits.max_buffered, limits.max_body) = (32 << 10, 32 << 10, 0);
    (limits.max_drain, limits.max_linger) = (0, 64 << 10);
    limits.head_timeout = Duration::from_secs(10);
    limits.drain_timeout = Duration::from_millis(500);
    limits
}
