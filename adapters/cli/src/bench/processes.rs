//! Memory and CPU time of the processes that this one has started, where the system tells.

use serde::Serialize;

/// Memory and CPU time of started servers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerUsage {
    pub(super) processes: usize,
    pub(super) peak_bytes: Memory,
    pub(super) resident_bytes: Memory,
    pub(super) cpu_milliseconds: u64,
}

/// Memory of several processes.
#[derive(Debug, Default, Serialize)]
pub(super) struct Memory {
    pub(super) sum: u64,
    pub(super) largest: u64,
}

#[cfg(target_os = "linux")]
impl Memory {
    fn add(&mut self, bytes: u64) {
        self.sum += bytes;
        self.largest = self.largest.max(bytes);
    }
}

/// Returns what the descendants of this process use; `None` if there are none.
#[cfg(target_os = "linux")]
pub(super) fn usage() -> Option<ServerUsage> {
    use std::fs;

    /// A tick of `/proc/PID/stat` is 10 ms for every program on Linux.
    const TICK_MILLIS: u64 = 10;
    /// Last word of the command that ends servers after this process is gone. It is no server.
    const GUARD: &[u8] = b"mcp-std guard\0";

    let read = |pid: u32, name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let pids = fs::read_dir("/proc").ok()?;
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // The fields behind the name of the program, which is in parentheses and may contain anything.
    let stats: Vec<(u32, Vec<u64>)> = pids
        .filter_map(|pid| {
            let stat = String::from_utf8_lossy(&read(pid, "stat")).into_owned();
            let fields = stat.rsplit(')').next()?.split_whitespace().skip(1);
            Some((pid, fields.map(|field| field.parse().unwrap_or(0)).collect()))
        })
        .collect();
    let mut usage = ServerUsage::default();
    let mut parents = vec![std::process::id()];
    while let Some(parent) = parents.pop() {
        for (pid, fields) in &stats {
            if fields.first() != Some(&u64::from(parent)) || read(*pid, "cmdline").ends_with(GUARD) {
                continue;
            }
            parents.push(*pid);
            let status = String::from_utf8_lossy(&read(*pid, "status")).into_owned();
            let bytes = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
                line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
            };
            // A process that has ended has no memory.
            let (Some(peak), Some(resident)) = (bytes("VmHWM"), bytes("VmRSS")) else { continue };
            usage.processes += 1;
            usage.peak_bytes.add(peak);
            usage.resident_bytes.add(resident);
            let ticks = fields.get(10).zip(fields.get(11)).map_or(0, |(user, system)| user + system);
            usage.cpu_milliseconds += ticks * TICK_MILLIS;
        }
    }
    Some(usage).filter(|usage| usage.processes > 0)
}

/// Returns `None`: not known on this platform.
#[cfg(not(target_os = "linux"))]
pub(super) const fn usage() -> Option<ServerUsage> {
    None
}
