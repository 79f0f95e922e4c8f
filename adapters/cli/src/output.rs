//! What goes to stdout

use std::io::{self, ErrorKind, Write};

use mcp_proto::RawJson;

use crate::escape;
use crate::failure::Failure;
use crate::stop;

/// Prints text as it is: what came from a peer has to be escaped already
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    stop::hush();
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever reads has seen enough (`| head`).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::failed(format!("cannot write to stdout: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints one JSON value on a line; it stays the same value with what is risky on a terminal escaped
pub(crate) fn print_json(value: &RawJson) -> Result<(), Failure> {
    print(&format!("{}\n", escape::lines(value.as_str())))
}

/// Adds a line of a label and a text, and further lines under the text
pub(crate) fn row(out: &mut String, label: &impl core::fmt::Display, text: &str) {
    let text = escape::lines(text);
    let mut lines = text.lines();
    out.push_str(&format!("{label} {}\n", lines.next().unwrap_or_default()));
    for line in lines {
        out.push_str(&format!("{:LABEL$} {line}\n", ""));
    }
}

/// A label as wide as all others
pub(crate) fn label(text: &str) -> String {
    format!("{text:LABEL$}")
}

const LABEL: usize = 13;
