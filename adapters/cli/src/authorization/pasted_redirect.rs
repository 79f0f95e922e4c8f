//! A redirect that the user copies from a browser to stdin.

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, BufRead as _, Read as _};

use mcp_auth::client::PasteLogin;
use mcp_proto::http::client::Url;

use super::interaction::address;
use crate::notes::{print_note, print_stderr};

/// Creates a login whose redirect is a line of stdin.
pub(super) fn pasted_redirect() -> PasteLogin {
    let is_asked = AtomicBool::new(false);
    PasteLogin::new(move |url| {
        match is_asked.swap(true, Ordering::Relaxed) {
            false => ask(url),
            true => print_note("this is not the redirect of this login; enter it again"),
        }
        read_line()
    })
}

fn ask(url: &Url) {
    print_stderr("open this address in a browser and log in:");
    print_stderr(&format!("  {}", address(url)));
    print_stderr("then enter the address at which the browser ends, or the part of it behind the `?`:");
}

/// Reads one line of stdin that is not empty. Nothing is read ahead: what follows may be for another reader.
fn read_line() -> io::Result<String> {
    loop {
        let mut bytes = Vec::new();
        if io::stdin().lock().take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
            return Err(io::Error::other("stdin ended before the redirect was entered"));
        }
        if !bytes.trim_ascii().is_empty() {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// Bytes of a line, at most. A longer one is tried in parts.
const MAX_LINE: u64 = 64 << 10;
