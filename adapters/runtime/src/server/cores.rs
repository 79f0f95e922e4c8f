//! The processor cores of the machine, and threads pinned to them.

use alloc::sync::Arc;

/// The cores that this process may use.
///
/// Empty where they are unknown, for example on systems other than Linux. Pinning has no effect there.
#[derive(Clone, Debug, Default)]
pub struct Cores(Arc<[u32]>);

impl Cores {
    /// Returns the cores that the calling thread may use.
    #[must_use]
    pub fn available() -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(set) = rustix::thread::sched_getaffinity(None) {
            let max_cores = u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u32::MAX);
            return Self((0..max_cores).filter(|core| set.is_set(*core as usize)).collect());
        }
        Self::default()
    }

    /// Returns the index of the core that receives the packets of a connection, or `None` if it is unknown.
    #[cfg(feature = "http")]
    pub(crate) fn incoming_index(&self, socket: &mcp_std::io::Socket) -> Option<usize> {
        #[cfg(target_os = "linux")]
        if !self.0.is_empty() {
            let core = rustix::net::sockopt::socket_incoming_cpu(socket).ok()?;
            return self.0.iter().position(|other| *other == core);
        }
        let _ = socket;
        None
    }

    /// Pins the calling thread, and threads that it starts later, to the core with this index.
    ///
    /// Has no effect if there is no such core or the system refuses.
    pub fn pin_thread(&self, index: usize) {
        if let Some(core) = self.0.get(index) {
            set_affinity(&[*core]);
        }
    }

    /// Lets the calling thread use all cores again.
    pub fn unpin_thread(&self) {
        if !self.0.is_empty() {
            set_affinity(&self.0);
        }
    }
}

fn set_affinity(cores: &[u32]) {
    #[cfg(target_os = "linux")]
    {
        let mut set = rustix::thread::CpuSet::new();
        cores.iter().for_each(|core| set.set(*core as usize));
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
    let _ = cores;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn pinned_thread_stays_until_unpinned() {
        let all = Cores::available();
        assert!(!all.0.is_empty());
        let last = all.0.len() - 1;
        std::thread::spawn(move || {
            all.pin_thread(last);
            assert_eq!(Cores::available().0[..], all.0[last..]);
            // There is no core of this index.
            all.pin_thread(last + 1);
            assert_eq!(Cores::available().0[..], all.0[last..]);
            let inherited = std::thread::spawn(Cores::available).join().unwrap();
            assert_eq!(inherited.0.len(), 1);
            all.unpin_thread();
            assert_eq!(Cores::available().0, all.0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn pinning_without_known_cores_has_no_effect() {
        let (none, all) = (Cores::default(), Cores::available());
        none.pin_thread(0);
        none.unpin_thread();
        assert_eq!(Cores::available().0, all.0);
    }
}
