//! The memory of the machine, which decides how much a server holds for its peers.

use std::sync::OnceLock;

use mcp_proto::Limits;

/// Returns the bytes of [`Limits::max_memory`] on this machine: a quarter of its memory, or of what its control group may use.
///
/// On Linux both are read, once. Elsewhere, and if they cannot be read, it is [`Limits::DEFAULT_MAX_MEMORY`].
#[must_use]
pub fn max_memory() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| quarter(&|path| std::fs::read_to_string(path).ok(), usize::MAX))
}

/// Smallest limit of a control group that counts, in bytes.
const LEAST_LIMIT: u64 = 1 << 20;

/// Returns a quarter of the smallest limit; `addressable` bytes are those that a process can have, of 32 bits for example.
fn quarter(read: &dyn Fn(&str) -> Option<String>, addressable: usize) -> usize {
    let limits = group_limits(read).into_iter().chain(machine_bytes(read));
    let Some(limit) = limits.min() else { return Limits::DEFAULT_MAX_MEMORY.min(addressable / 4) };
    usize::try_from(limit).unwrap_or(usize::MAX).min(addressable) / 4
}

/// Returns the memory of the machine, of `/proc/meminfo`.
fn machine_bytes(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let kibibytes = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kibibytes.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// Returns the limits of the control group of this process and of those above it.
fn group_limits(read: &dyn Fn(&str) -> Option<String>) -> Vec<u64> {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let mut limits = Vec::new();
    for group in groups.lines() {
        let mut parts = group.splitn(3, ':').skip(1);
        let (Some(controllers), Some(mut path)) = (parts.next(), parts.next()) else { continue };
        let (root, files): (_, &[_]) = match controllers {
            // Beyond `memory.high` a group is slowed down.
            "" => ("/sys/fs/cgroup", &["memory.max", "memory.high"]),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes"])
            }
            _ => continue,
        };
        // In a container the path may be that of the host, and the group of the container is the root.
        loop {
            path = path.trim_end_matches('/');
            let texts = files.iter().filter_map(|file| read(&format!("{root}{path}/{file}")));
            // "max" is no number. Less than this process needs itself is no limit, but a moment of reclaim.
            let numbers = texts.filter_map(|text| text.trim().parse::<u64>().ok());
            limits.extend(numbers.filter(|bytes| *bytes >= LEAST_LIMIT));
            let Some(at) = path.rfind('/') else { break };
            path = &path[..at];
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarter_of(files: &[(&str, &str)]) -> usize {
        quarter_within(usize::MAX, files)
    }

    fn quarter_within(addressable: usize, files: &[(&str, &str)]) -> usize {
        let read =
            |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
        quarter(&read, addressable)
    }

    #[test]
    fn default_is_a_quarter_of_the_smallest_limit() {
        let machine = ("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
        assert_eq!(quarter_of(&[]), Limits::DEFAULT_MAX_MEMORY);
        assert_eq!(quarter_of(&[machine]), 2 << 30);
        let group = ("/proc/self/cgroup", "0::/a.slice/b.service\n");
        let own = ("/sys/fs/cgroup/a.slice/b.service/memory.max", "max\n");
        assert_eq!(quarter_of(&[machine, group, own]), 2 << 30);
        let above = ("/sys/fs/cgroup/a.slice/memory.max", "1073741824\n");
        assert_eq!(quarter_of(&[machine, group, own, above]), 256 << 20);
        let slowed = ("/sys/fs/cgroup/a.slice/memory.high", "268435456\n");
        assert_eq!(quarter_of(&[machine, group, own, above, slowed]), 64 << 20);
        // A container that sees the path of the host, and its own group as the root.
        let root = ("/sys/fs/cgroup/memory.max", "536870912\n");
        assert_eq!(quarter_of(&[machine, group, root]), 128 << 20);
        let first = ("/proc/self/cgroup", "12:cpu:/x\n4:memory,hugetlb:/docker/1\n");
        let first_limit = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
        assert_eq!(quarter_of(&[machine, first, first_limit]), 512 << 20);
        let reclaim = ("/sys/fs/cgroup/a.slice/memory.high", "0\n");
        assert_eq!(quarter_of(&[machine, group, own, reclaim]), 2 << 30);
        // No limit of the first version is a large number.
        let none = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(quarter_of(&[machine, first, none]), 2 << 30);
        // A process of 32 bits on a machine with more memory than it can have.
        let large = ("/proc/meminfo", "MemTotal:        33554432 kB\n");
        assert_eq!(quarter_within(u32::MAX as usize, &[large]), (1 << 30) - 1);
    }
}
