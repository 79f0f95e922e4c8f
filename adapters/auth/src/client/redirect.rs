//! The listener that the browser is redirected to (RFC 8252, 7.3).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::Instant as StdInstant;

use mcp_proto::Instant;
use mcp_proto::h1::HttpLimits;
use mcp_proto::h1::server::{Connection, Event};
use mcp_proto::head::{BodySize, Fields, RequestHead, values};
use mcp_proto::http::client::{Origin, Url};

use super::interaction::Cancellation;
use mcp_std::Clock;
use mcp_std::io::{Duplex as _, Listener, Socket, is_resource_exhausted};
use mcp_std::poll::{Interest, Ready, Selector};
use mcp_std::sync::{Budget, Ended};

#[cfg(test)]
mod tests;

/// A listener on `127.0.0.1` for the redirect at the end of an authorization, on Unix.
///
/// It serves `GET` of one path alone, and refuses requests for another host, so that no web page can reach it through a
/// name of its own. A page has no script, is not cached, and sends no referrer. Up to 32 connections are open at once;
/// one more replaces the oldest. Each has one request of at most 32 KiB, and 10 s to send it.
#[derive(Debug)]
pub struct RedirectListener {
    listener: Listener,
    port: u16,
    uri: String,
}

/// The answer to a redirect, which is what the user sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectPage {
    /// The redirect is accepted: the user is authorized.
    Done,
    /// The redirect is accepted and ends the authorization without success. The reason is shown, up to 1000 characters.
    Failed(String),
    /// The redirect belongs to no authorization that is waited for: an error page, and the wait goes on.
    Foreign,
    /// The user copies the address of the page to the program: a page that says so, and the wait goes on.
    CopyAddress,
}

/// The reason why a wait for a redirect has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectEnd {
    /// A redirect was accepted: the last page was [`RedirectPage::Done`] or [`RedirectPage::Failed`].
    Accepted,
    /// The deadline has passed.
    TimedOut,
    /// The [`Cancellation`] ended the wait.
    Cancelled,
}

impl RedirectListener {
    /// Listens on the port `preferred` if that is free, otherwise on a port that the system chooses.
    ///
    /// # Errors
    ///
    /// The error of the operating system if there is no port at all.
    pub fn bind(preferred: Option<u16>) -> io::Result<Self> {
        let at = |port| Listener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match preferred.map(at) {
            Some(Ok(listener)) => listener,
            Some(Err(_)) | None => at(0)?,
        };
        let port = listener.address()?.port();
        Ok(Self { listener, port, uri: format!("http://127.0.0.1:{port}/callback") })
    }

    /// Listens at a redirect URI that was registered: an authorization server may compare it exactly.
    ///
    /// # Errors
    ///
    /// An error if the URI is not `http` at `127.0.0.1`, `[::1]` or `localhost` without a query, or if its port is taken.
    pub fn bind_at(uri: &str) -> io::Result<Self> {
        let failed = |why: &dyn fmt::Display| io::Error::other(format!("the redirect URI {uri}: {why}"));
        let url = Url::parse(uri).map_err(|why| failed(&why))?;
        let Origin { secure, host, port } = url.origin();
        let is_plain = !secure && !uri.contains(['?', '#']);
        let address = match &**host {
            "127.0.0.1" | "localhost" if is_plain => IpAddr::V4(Ipv4Addr::LOCALHOST),
            "::1" if is_plain => IpAddr::V6(Ipv6Addr::LOCALHOST),
            _ => return Err(failed(&NO_LOOPBACK)),
        };
        let listener = Listener::bind((address, *port)).map_err(|error| failed(&error))?;
        Ok(Self { listener, port: *port, uri: uri.into() })
    }

    /// Returns the host with its port and the path of the redirect URI.
    fn host_and_path(&self) -> (&str, &str) {
        let rest = self.uri.get("http://".len()..).unwrap_or_default();
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        (host, if path.is_empty() { "/" } else { path })
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the redirect URI: `http://127.0.0.1:PORT/callback`, unless it was [set](Self::bind_at).
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        self.uri.clone()
    }

    /// Waits for a redirect that `answer` accepts.
    ///
    /// `answer` gets the query of each redirect as it was received, without the `?`, and returns the page. Once it has
    /// accepted one, it is not called again: later redirects get an error page. This method then returns as soon as the
    /// page has arrived, at most 2 s later.
    ///
    /// # Errors
    ///
    /// The error of the operating system, for example if no descriptor is left.
    pub fn wait(
        &self,
        deadline: StdInstant,
        cancellation: &Cancellation,
        answer: &mut dyn FnMut(&str) -> RedirectPage,
    ) -> io::Result<RedirectEnd> {
        let mut waiting = Waiting {
            listener: self,
            selector: Selector::new()?,
            clock: Clock::start(),
            visitors: Vec::new(),
            last_token: LISTENER,
            answer,
            accepted: None,
        };
        waiting.selector.add(&self.listener, LISTENER, Interest::READ)?;
        waiting.run(&cancellation.until(deadline))
    }
}

/// A wait for a redirect.
struct Waiting<'a> {
    listener: &'a RedirectListener,
    selector: Selector,
    clock: Clock,
    /// The open connections, oldest first.
    visitors: Vec<Visitor>,
    last_token: u64,
    answer: &'a mut dyn FnMut(&str) -> RedirectPage,
    accepted: Option<Accepted>,
}

/// The connection whose redirect was accepted.
struct Accepted {
    token: u64,
    at: StdInstant,
}

impl Waiting<'_> {
    fn run(&mut self, budget: &Budget<'_>) -> io::Result<RedirectEnd> {
        let mut found = Vec::new();
        loop {
            let wait = match (budget.next_wait(), &self.accepted) {
                // The page is still on its way. What was accepted counts, whatever happens to the page.
                (_, Some(accepted)) if self.has(accepted.token) && accepted.at.elapsed() < GRACE => SHORT,
                (_, Some(_)) => return Ok(RedirectEnd::Accepted),
                (Ok(wait), None) => wait,
                (Err(Ended::TimedOut), None) => return Ok(RedirectEnd::TimedOut),
                (Err(Ended::Cancelled), None) => return Ok(RedirectEnd::Cancelled),
            };
            self.selector.wait(Some(wait), &mut found)?;
            for (token, ready) in &found {
                match *token {
                    LISTENER => self.accept()?,
                    token => self.serve(token, *ready),
                }
            }
            // Their deadlines may have passed.
            let tokens: Vec<u64> = self.visitors.iter().map(Visitor::token).collect();
            tokens.into_iter().for_each(|token| self.serve(token, Ready::default()));
        }
    }

    fn has(&self, token: u64) -> bool {
        self.visitors.iter().any(|visitor| visitor.token() == token)
    }

    /// Accepts the connections that wait.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            let socket = match self.listener.listener.accept() {
                Ok(Some((socket, _))) => socket,
                Ok(None) => return Ok(()),
                Err(error) if is_resource_exhausted(&error) => {
                    self.remove_oldest();
                    // Without a free descriptor the listener stays ready.
                    thread::sleep(SHORT);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            if self.visitors.len() >= MAX_VISITORS {
                self.remove_oldest();
            }
            self.last_token += 1;
            match self.selector.add(&socket, self.last_token, Interest::READ) {
                Ok(()) => {
                    self.visitors.push(Visitor::new(socket, self.last_token, self.clock.now()));
                }
                // Where a selector duplicates descriptors, there may be none left for the duplicate.
                Err(_) => self.remove_oldest(),
            }
        }
    }

    /// Removes the oldest connection that was not accepted.
    fn remove_oldest(&mut self) {
        let kept = self.accepted.as_ref().map(|accepted| accepted.token);
        let oldest = self.visitors.iter().map(Visitor::token).find(|token| Some(*token) != kept);
        if let Some(token) = oldest {
            self.remove(token);
        }
    }

    fn remove(&mut self, token: u64) {
        if let Some(index) = self.visitors.iter().position(|visitor| visitor.token() == token) {
            let visitor = self.visitors.remove(index);
            // It was registered, and closing it ends the registration in any case.
            let _ = self.selector.remove(visitor.socket(), token);
        }
    }

    /// Advances a connection, and removes it once it is over.
    fn serve(&mut self, token: u64, ready: Ready) {
        let Some(visitor) = self.visitors.iter_mut().find(|visitor| visitor.token() == token) else { return };
        let (answer, accepted) = (&mut *self.answer, &mut self.accepted);
        let mut page = |query: &str| {
            if accepted.is_some() {
                return None;
            }
            let page = answer(query);
            if !matches!(page, RedirectPage::Foreign | RedirectPage::CopyAddress) {
                *accepted = Some(Accepted { token, at: StdInstant::now() });
            }
            Some(page)
        };
        let goes_on = visitor.advance(self.clock.now(), ready, self.listener, &mut page);
        if !goes_on || visitor.watch(&mut self.selector).is_err() {
            self.remove(token);
        }
    }
}

impl fmt::Display for RedirectEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "a redirect was accepted",
            Self::TimedOut => "no redirect came in time",
            Self::Cancelled => "the wait for the redirect was cancelled",
        })
    }
}

const NO_LOOPBACK: &str = "it has to be http at 127.0.0.1, [::1] or localhost, without a query";
/// Connections that are open at once.
const MAX_VISITORS: usize = 32;
/// The token of the listener.
const LISTENER: u64 = 0;
/// Time for the page of an accepted redirect to arrive.
const GRACE: Duration = Duration::from_secs(2);
/// A wait that is short for a person.
const SHORT: Duration = Duration::from_millis(50);

// The pages that a browser gets.

/// A response.
enum Page {
    /// To a redirect.
    Redirect(RedirectPage),
    /// To a redirect after another one was accepted.
    Late,
    UnknownPath,
    OtherMethod,
    ForeignHost,
}

impl Page {
    const fn status(&self) -> u16 {
        match self {
            Self::Redirect(RedirectPage::Done | RedirectPage::CopyAddress) => 200,
            Self::Redirect(RedirectPage::Failed(_) | RedirectPage::Foreign) => 400,
            Self::Late => 409,
            Self::UnknownPath => 404,
            Self::OtherMethod => 405,
            Self::ForeignHost => 403,
        }
    }

    /// Returns the header fields. None permits another origin to read the page.
    fn fields(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let allow = matches!(self, Self::OtherMethod).then_some(("Allow", "GET"));
        COMMON_FIELDS.iter().copied().chain(allow)
    }

    fn html(&self) -> String {
        let (title, text): (_, Cow<'_, str>) = match self {
            Self::Redirect(RedirectPage::Done) => {
                ("You are authorized", "You can close this window.".into())
            }
            Self::Redirect(RedirectPage::Failed(reason)) => ("The authorization failed", escape(reason).into()),
            Self::Redirect(RedirectPage::Foreign) => (
                "This page was not expected",
                "It does not belong to the authorization that is under way. Return to the program and open the \
                 address that it shows."
                    .into(),
            ),
            Self::Redirect(RedirectPage::CopyAddress) => (
                "Copy the address of this page",
                "Enter it in the program that waits for it. You can close this window then.".into(),
            ),
            Self::Late => {
                ("The authorization has ended", "An earlier page has ended it. You can close this window.".into())
            }
            Self::UnknownPath => ("Not found", "There is no such page.".into()),
            Self::OtherMethod => ("Method not allowed", "This page can only be opened.".into()),
            Self::ForeignHost => ("Forbidden", "This page has another address.".into()),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
             <body><h1>{title}</h1><p>{text}</p></body>\n</html>\n"
        )
    }
}

/// Returns a text as HTML: without markup, control characters and what is beyond the bound.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars().take(MAX_REASON) {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c if c.is_control() => html.push(' '),
            c => html.push(c),
        }
    }
    html
}

/// The fields of every page. The address of a redirect holds an authorization code, which must neither be stored nor
/// sent elsewhere.
const COMMON_FIELDS: &[(&str, &str)] = &[
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    (
        "Content-Security-Policy",
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];

/// Characters of a reason that are shown.
const MAX_REASON: usize = 1000;

// One connection of a browser.

/// A connection with one request.
struct Visitor {
    socket: Socket,
    token: u64,
    interest: Interest,
    http: Connection,
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
    fn new(socket: Socket, token: u64, now: Instant) -> Self {
        let http = Connection::new(now, limits());
        let interest = Interest::READ;
        Self { socket, token, interest, http, request: None, is_write_shut: false }
    }

    const fn token(&self) -> u64 {
        self.token
    }

    const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Reads, answers and writes as far as possible; returns whether the connection goes on.
    ///
    /// `page` returns the page for a redirect, or `None` if another one was accepted before.
    fn advance(
        &mut self,
        now: Instant,
        ready: Ready,
        listener: &RedirectListener,
        page: &mut dyn FnMut(&str) -> Option<RedirectPage>,
    ) -> bool {
        self.http.handle_timeout(now);
        if ready.readable && self.http.wants_input() && self.read(now).is_err() {
            return false;
        }
        while let Some(event) = self.http.poll_event(now, |head, _| classify(&head, listener)) {
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
    fn watch(&mut self, selector: &mut Selector) -> io::Result<()> {
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

fn classify(head: &RequestHead<'_>, listener: &RedirectListener) -> Request {
    let (port, (host, own)) = (listener.port, listener.host_and_path());
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), host.into()];
    let mut values = values(head.fields, "host");
    // A name that an attacker's name server resolves to this machine is not ours.
    if !values.any(|host| hosts.iter().any(|own| host.eq_ignore_ascii_case(own.as_bytes()))) {
        return Request::ForeignHost;
    }
    let (path, query) = head.target.split_once('?').unwrap_or((head.target, ""));
    match head.method {
        _ if path != own => Request::UnknownPath,
        "GET" => Request::Redirect(query.into()),
        _ => Request::OtherMethod,
    }
}

/// Returns the limits of a connection.
fn limits() -> HttpLimits {
    let mut limits = HttpLimits::default();
    // An authorization code has no limit of its own; those of large providers have some kilobytes.
    (limits.max_head, limits.max_body) = (32 << 10, 0);
    limits.max_buffered = limits.max_head;
    (limits.max_drain, limits.max_linger) = (0, 64 << 10);
    limits.head_timeout = Duration::from_secs(10);
    limits.drain_timeout = Duration::from_millis(500);
    limits
}

#[cfg(test)]
mod page_tests {
    use super::*;

    #[test]
    fn reason_is_shown_without_markup_and_bounded() {
        let html = Page::Redirect(RedirectPage::Failed("<script>\"'&\n\u{7}\u{e4}".into())).html();
        assert!(html.contains("&lt;script&gt;&quot;&#39;&amp;  \u{e4}</p>"), "{html}");
        assert!(!html.contains("<script"));
        let html = Page::Redirect(RedirectPage::Failed("\u{e4}".repeat(5000))).html();
        assert_eq!(html.chars().filter(|c| *c == '\u{e4}').count(), MAX_REASON);
    }
}
