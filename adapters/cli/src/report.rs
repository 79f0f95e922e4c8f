//! How a failure is shown: as a text on stderr, as JSON on stdout, or as a note.

use alloc::collections::BTreeMap;
use core::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use mcp_proto::RawJson;
use serde::Serialize;

use crate::escape;
use crate::failure::CommandFailure;
use crate::notes::print_note;
use crate::output::print_value;
use crate::paint::Paint;
use crate::stop;
use mcp_proto_trace::masked;

/// A failure on stdout, for `--json`. All members but the last are always there.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorJson<'a> {
    kind: &'a str,
    exit_code: u8,
    message: &'a str,
    hint: Option<&'a str>,
    /// Code and data of the server's error response.
    code: Option<i64>,
    data: Option<RawJson>,
    /// Scopes that the server asks for; empty if it asks for none.
    scopes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    deviations: &'a [String],
}

impl CommandFailure {
    /// Prints the failure on stdout as one JSON object, unless a result is already there.
    pub(crate) fn print_json(&self) {
        if self.has_result {
            return;
        }
        let response = self.response.as_deref();
        let error = ErrorJson {
            kind: self.exit.as_str(),
            exit_code: self.exit as u8,
            message: &self.message(),
            hint: self.hint.as_deref(),
            code: response.map(|response| response.code),
            data: response.and_then(|response| RawJson::new(masked(response.data.as_ref()?.as_str())).ok()),
            scopes: &self.scopes,
            deviations: &self.deviations.iter().map(|deviation| masked(deviation)).collect::<Vec<_>>(),
        };
        // The text on stderr and the exit code are left if stdout fails.
        let _ = print_value(&BTreeMap::from([("error", error)]));
    }

    /// Prints the failure as a note on stderr, after which the command goes on.
    pub(crate) fn print_note(&self, what: &str) {
        print_note(&format!("{what}: {}", self.message()));
    }

    /// Prints the failure on stderr and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        stop::park_if_ending();
        let paint = Paint::for_stderr();
        let mut text = format!("{} {}\n", paint.bad("error:"), escape::indented(&self.message));
        if !self.stderr_tail.is_empty() {
            text.push_str("  the last lines of the server's stderr:\n");
            let skip = self.stderr_tail.lines().count().saturating_sub(MAX_STDERR_LINES);
            for line in self.stderr_tail.lines().skip(skip) {
                let _ = writeln!(text, "    | {}", escape::line(line));
            }
        }
        if !self.deviations.is_empty() {
            text.push_str("  before that, the server deviated from the protocol:\n");
            for deviation in &self.deviations {
                let _ = writeln!(text, "    | {}", escape::line(deviation));
            }
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "  {} {}", paint.note("hint:"), escape::line(hint));
        }
        // A closed stderr cannot be reported anywhere.
        let _ = io::stderr().write_all(masked(&text).as_bytes());
        self.exit.into()
    }
}

/// Maximum number of stderr lines shown.
const MAX_STDERR_LINES: usize = 20;
