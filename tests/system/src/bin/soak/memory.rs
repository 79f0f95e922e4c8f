//! Memory of both processes, early and at the end.

use std::fs;

use crate::BoxError;

/// Allowed growth of a process between a quarter of the calls and the end, in KiB.
///
/// With 64 threads the allocator takes up to 2 MiB more in that time, for any number of calls. Over 200,000 calls this
/// bound detects a leak of 20 bytes per call.
const SLACK: i64 = 3 * 1024;

/// Resident memory of client and server.
#[derive(Debug)]
pub(crate) struct MemoryTrend {
    calls: usize,
    early: Option<[i64; 2]>,
    late: [i64; 2],
}

impl MemoryTrend {
    pub(crate) const fn new(calls: usize) -> Self {
        Self { calls, early: None, late: [0; 2] }
    }

    /// Returns whether the first measurement is due after `ended` calls.
    pub(crate) fn is_due(&self, ended: usize) -> bool {
        self.early.is_none() && ended >= self.calls / 4
    }

    /// Records the memory of the server and of this process.
    pub(crate) fn note(&mut self, server: i64) {
        self.late = [resident(), server];
        self.early.get_or_insert(self.late);
    }

    pub(crate) fn check(&self) -> Result<(), BoxError> {
        let early = self.early.ok_or("memory was not measured")?;
        for ((early, late), process_name) in early.into_iter().zip(self.late).zip(["client", "server"]) {
            if late - early > SLACK {
                return Err(format!("the {process_name} grew from {early} to {late} KiB").into());
            }
        }
        Ok(())
    }
}

impl core::fmt::Display for MemoryTrend {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [client, server] = self.early.unwrap_or_default();
        write!(f, "client {client} → {} KiB, server {server} → {} KiB", self.late[0], self.late[1])
    }
}

/// Returns the resident memory of this process in KiB; 0 without `/proc`.
pub(crate) fn resident() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_slack_fails() {
        let mut memory = MemoryTrend::new(100);
        assert!(memory.check().is_err(), "memory was not measured");
        assert!(!memory.is_due(24));
        assert!(memory.is_due(25));
        memory.note(2_000);
        assert!(!memory.is_due(26));
        memory.note(2_000 + SLACK);
        assert!(memory.check().is_ok());
        memory.note(2_001 + SLACK);
        assert!(memory.check().is_err());
    }
}
