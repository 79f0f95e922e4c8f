//! How large both processes are, early and at the end

use std::fs;

use crate::Failed;

/// By how much a process may be larger at the end than after a quarter of the calls, in KiB
///
/// With 64 threads the allocator takes up to 2 MiB more in that time, however many calls there are. Over 200,000 calls this
/// shows what keeps 20 bytes of each.
const SLACK: i64 = 3 * 1024;

/// Resident memory of client and server
#[derive(Debug)]
pub(crate) struct Memory {
    calls: usize,
    early: Option<[i64; 2]>,
    late: [i64; 2],
}

impl Memory {
    pub(crate) const fn new(calls: usize) -> Self {
        Self { calls, early: None, late: [0; 2] }
    }

    /// Whether it is time to look, after `ended` calls
    pub(crate) fn is_due(&self, ended: usize) -> bool {
        self.early.is_none() && ended >= self.calls / 4
    }

    /// Takes note of how large the server says that it is, and of how large this process is
    pub(crate) fn note(&mut self, server: i64) {
        self.late = [resident(), server];
        self.early.get_or_insert(self.late);
    }

    pub(crate) fn check(&self) -> Result<(), Failed> {
        let early = self.early.ok_or("memory was not looked at")?;
        for ((early, late), who) in early.into_iter().zip(self.late).zip(["client", "server"]) {
            if late - early > SLACK {
                return Err(format!("the {who} grew from {early} to {late} KiB").into());
            }
        }
        Ok(())
    }
}

impl core::fmt::Display for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [client, server] = self.early.unwrap_or_default();
        write!(f, "client {client} → {} KiB, server {server} → {} KiB", self.late[0], self.late[1])
    }
}

/// Resident memory of this process in KiB; 0 where there is no `/proc`
pub(crate) fn resident() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_noticed() {
        let mut memory = Memory::new(100);
        assert!(memory.check().is_err(), "nobody looked");
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
