//! The output of the latest runs.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of runs that are kept.
const MAX_RUNS: usize = 20;
/// Bytes that are kept of each run: the latest.
const MAX_BYTES: usize = 256 * 1024;

/// Identifies a run of this process.
pub type RunId = u64;

#[derive(Default)]
struct Log {
    lines: VecDeque<String>,
    bytes: usize,
    /// Number of lines that had to go.
    dropped: u64,
    /// Whether subscribers do not know of the latest lines.
    is_changed: bool,
}

/// The logs by run. Memory is bounded by the number of runs and the bytes of each.
#[derive(Default)]
pub struct Logs(Mutex<BTreeMap<RunId, Log>>);

impl Logs {
    // No panic leaves a log half changed, so poison says nothing here.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Log>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the log of a new run. The oldest log is dropped if there are too many.
    pub fn begin(&self) -> RunId {
        let mut logs = self.lock();
        let run = logs.last_key_value().map_or(1, |(last, _)| last + 1);
        logs.insert(run, Log::default());
        if logs.len() > MAX_RUNS {
            logs.pop_first();
        }
        run
    }

    /// Adds a line. The oldest lines are dropped if there are too many bytes.
    pub fn add(&self, run: RunId, line: String) {
        let mut logs = self.lock();
        let Some(log) = logs.get_mut(&run) else { return };
        log.bytes += line.len() + 1;
        log.lines.push_back(line);
        log.is_changed = true;
        while log.bytes > MAX_BYTES {
            let Some(first) = log.lines.pop_front() else { break };
            log.bytes -= first.len() + 1;
            log.dropped += 1;
        }
    }

    /// Returns the last lines of a run.
    pub fn tail(&self, run: RunId, lines: usize) -> Vec<String> {
        let logs = self.lock();
        let Some(log) = logs.get(&run) else { return Vec::new() };
        log.lines.range(log.lines.len().saturating_sub(lines)..).cloned().collect()
    }

    /// Returns the kept part of a log, with the number of dropped lines.
    pub fn text(&self, run: RunId) -> Option<String> {
        let logs = self.lock();
        let log = logs.get(&run)?;
        let mut text = match log.dropped {
            0 => String::new(),
            dropped => format!("[{dropped} lines dropped]\n"),
        };
        for line in &log.lines {
            text.push_str(line);
            text.push('\n');
        }
        Some(text)
    }

    pub fn runs(&self) -> Vec<RunId> {
        self.lock().keys().copied().collect()
    }

    /// Returns the runs with new lines since the last time.
    pub fn take_changed(&self) -> Vec<RunId> {
        let mut logs = self.lock();
        let changed = logs.iter_mut().filter_map(|(run, log)| mem::take(&mut log.is_changed).then_some(*run));
        changed.collect()
    }
}
