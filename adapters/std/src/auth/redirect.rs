//! The listener that the browser is redirected to (RFC 8252, 7.3).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;
use core::time::Duration;
use std::io;
use std::thread;
use std::time::Instant;

use super::cancellation::{Budget, Cancellation, Ended};
use crate::Clock;
use crate::adapter::poll::{Interest, Ready, Selector};
use crate::io::{Listener, is_resource_exhausted};

mod page;
#[cfg(test)]
mod tests;
mod visitor;

use visitor::Visitor;

/// A listener on `127.0.0.1` for the redirect at the end of an authorization, on Unix.
///
/// It serves `GET /callback` alone, and refuses requests for another host, so that no web page can reach it through a
/// name of its own. A page has no script, is not cached, and sends no referrer. Up to 32 connections are open at once;
/// one more replaces the oldest. Each has one request of at most 32 KiB, and 10 s to send it.
#[derive(Debug)]
pub struct RedirectListener {
    listener: Listener,
    port: u16,
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
    /// The error of the operating system if there is no port at all; `Unsupported` where sockets cannot be polled.
    pub fn bind(preferred: Option<u16>) -> io::Result<Self> {
        let at = |port| Listener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match preferred.map(at) {
            Some(Ok(listener)) => listener,
            Some(Err(_)) | None => at(0)?,
        };
        let port = listener.address()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the redirect URI: `http://127.0.0.1:PORT/callback`.
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{CALLBACK}", self.port)
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
        deadline: Instant,
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
        waiting.run(&Budget::until(deadline, cancellation))
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
    at: Instant,
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
                    let (port, now) = (self.listener.port, self.clock.now());
                    self.visitors.push(Visitor::new(socket, self.last_token, port, now));
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
                *accepted = Some(Accepted { token, at: Instant::now() });
            }
            Some(page)
        };
        let goes_on = visitor.advance(self.clock.now(), ready, &mut page);
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

/// The path that is served.
const CALLBACK: &str = "/callback";
/// Connections that are open at once.
const MAX_VISITORS: usize = 32;
/// The token of the listener.
const LISTENER: u64 = 0;
/// Time for the page of an accepted redirect to arrive.
const GRACE: Duration = Duration::from_secs(2);
/// A wait that is short for a person.
const SHORT: Duration = Duration::from_millis(50);
