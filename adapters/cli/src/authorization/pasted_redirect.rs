//! A redirect that the user copies from a browser to stdin.

use core::time::Duration;
use std::io::{self, BufRead as _, Read as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use mcp_proto::auth::redirect_query;
use mcp_proto::http::client::Url;
use mcp_std::auth::{Cancellation, RedirectEnd, RedirectPage, RedirectReceiver};

use super::interaction::address;
use crate::session::{print_note, print_stderr};

/// A receiver at whose redirect URI nothing listens. Each line of stdin is tried until one belongs to the login.
pub(super) struct PastedRedirect {
    redirect_uri: String,
}

impl PastedRedirect {
    /// Uses the redirect URI of an earlier registration, or the one of clients without a listener.
    pub(super) fn new(preferred: Option<&str>) -> Self {
        Self { redirect_uri: preferred.unwrap_or("http://127.0.0.1/callback").to_owned() }
    }
}

impl RedirectReceiver for PastedRedirect {
    fn redirect_uri(&self) -> String {
        self.redirect_uri.clone()
    }

    fn receive(
        &mut self,
        url: &Url,
        deadline: Instant,
        cancellation: &Cancellation,
        answer: &mut dyn FnMut(&str) -> RedirectPage,
    ) -> io::Result<RedirectEnd> {
        print_stderr("open this address in a browser and log in:");
        print_stderr(&format!("  {}", address(url)));
        print_stderr("then enter the address at which the browser ends, or the part of it behind the `?`:");
        let mut line = read_line();
        loop {
            if cancellation.is_cancelled() {
                return Ok(RedirectEnd::Cancelled);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(RedirectEnd::TimedOut);
            }
            let pasted = match line.recv_timeout(left.min(MAX_WAIT)) {
                Ok(pasted) => pasted?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("stdin cannot be read")),
            };
            if pasted.is_empty() {
                return Err(io::Error::other("stdin ended before the redirect was entered"));
            }
            if !pasted.trim().is_empty() {
                if answer(&redirect_query(&pasted)) != RedirectPage::Foreign {
                    return Ok(RedirectEnd::Accepted);
                }
                print_note("this is not the redirect of this login; enter it again");
            }
            line = read_line();
        }
    }
}

/// Reads one line of stdin on a thread of its own, because the wait for it is bounded. Nothing is read ahead: what
/// follows may be for somebody else. The text is empty at the end of stdin.
fn read_line() -> Receiver<io::Result<String>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(MAX_LINE).read_until(b'\n', &mut bytes);
        // The receiver is gone if the wait has ended.
        let _ = sender.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned()));
    });
    receiver
}

/// Longest wait without a look at the cancellation.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Bytes of a line, at most. A longer one is tried in parts.
const MAX_LINE: u64 = 64 << 10;
