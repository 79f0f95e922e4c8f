//! The layers around the calls of the demonstration server: the audit log and the limit of their rate.

use alloc::sync::Arc;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_runtime::server::layers::{AuditLog, AuditOutcome, AuditRecord, RateLimit};
use mcp_runtime::server::router::RegisterFunctions;
use serde::Serialize;

use crate::failure::CommandFailure;
use crate::notes::LimitedNotes;
use crate::serve::args::LayerArgs;
use mcp_std::sync::lock;

/// Adds the layers that the options name. The log is the outermost, so that it sees the calls that the limit refuses.
pub(super) fn add(
    router: &mut impl RegisterFunctions,
    args: &LayerArgs,
    audit_file: Option<&Arc<AuditFile>>,
) {
    if let Some(file) = audit_file {
        let file = Arc::clone(file);
        router.as_router().layer(AuditLog::new(move |record| file.write(record)));
    }
    if let Some(limit) = args.rate_limit {
        router.as_router().layer(RateLimit::new(limit.calls, limit.period));
    }
}

/// The file of the audit log, to which each call appends a line.
pub(super) struct AuditFile {
    file: Mutex<File>,
    failure_notes: Mutex<LimitedNotes>,
}

/// A line of the file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditLine<'a> {
    /// Seconds since 1970.
    time: f64,
    method: &'a str,
    entry: &'a str,
    principal: Option<&'a str>,
    peer: Option<String>,
    params_bytes: usize,
    outcome: &'a str,
    /// Code of the error, if there is one.
    code: Option<i64>,
    milliseconds: f64,
}

impl AuditFile {
    /// Opens a file, or creates it. Lines are appended.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub(super) fn open(path: &Path) -> Result<Self, CommandFailure> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened
            .map_err(|error| CommandFailure::usage(format!("--audit-log {}: {error}", path.display())))?;
        Ok(Self { file: Mutex::new(file), failure_notes: Mutex::new(LimitedNotes(3)) })
    }

    fn write(&self, record: &AuditRecord) {
        let (outcome, code) = match record.outcome {
            AuditOutcome::Completed => ("completed", None),
            AuditOutcome::ToolFailed => ("toolFailed", None),
            AuditOutcome::Failed(code) => ("failed", Some(code)),
            AuditOutcome::InputRequired => ("inputRequired", None),
            AuditOutcome::TaskBegun => ("taskBegun", None),
            AuditOutcome::Cancelled => ("cancelled", None),
            AuditOutcome::Dropped => ("dropped", None),
            _ => ("other", None),
        };
        let line = AuditLine {
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()),
            method: &record.method,
            entry: &record.entry,
            principal: record.principal.as_deref(),
            peer: record.peer.map(|peer| peer.to_string()),
            params_bytes: record.params_bytes,
            outcome,
            code,
            milliseconds: record.duration.as_secs_f64() * 1_000.0,
        };
        let line = serde_json::to_string(&line).map_err(|error| error.to_string());
        // One write for each line, so that those of several processes do not mix.
        let written = line.and_then(|line| {
            lock(&self.file).write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())
        });
        if let Err(error) = written {
            lock(&self.failure_notes).note(&format!("the audit log cannot be written: {error}"));
        }
    }
}
