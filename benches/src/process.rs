//! Figures of a process from `/proc`: Linux only, zero elsewhere.

use std::fs;

/// Returns the CPU time of all threads in ns; it is exact while they sleep.
#[must_use]
pub fn cpu_time(pid: u32) -> u64 {
    read_thread_files(pid, "schedstat").iter().filter_map(|s| s.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// Returns the number of context switches of all threads, voluntary or not.
#[must_use]
pub fn context_switches(pid: u32) -> u64 {
    let threads = read_thread_files(pid, "status");
    let lines = threads.iter().flat_map(|s| s.lines()).filter(|l| l.contains("ctxt_switches"));
    lines.filter_map(|l| l.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

/// Returns a figure of the status in kB: `VmRSS:` or `VmHWM:`.
#[must_use]
pub fn memory(pid: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with(key));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Returns the quantile `share` of sorted times in ns, in µs; 0 if there are no times.
#[must_use]
pub fn quantile(times: &[u32], share: f64) -> f64 {
    let index = (times.len() as f64 * share) as usize;
    times.get(index.min(times.len().saturating_sub(1))).map_or(0.0, |nanos| f64::from(*nanos) / 1e3)
}

/// Returns the processes that the main thread of this process started.
#[must_use]
pub fn children() -> Vec<u32> {
    let pid = std::process::id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn read_thread_files(pid: u32, file: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let paths = tasks.into_iter().flatten().flatten().map(|task| task.path().join(file));
    paths.filter_map(|path| fs::read_to_string(path).ok()).collect()
}
