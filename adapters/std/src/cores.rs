//! The cores of the machine, and threads that stay on one

use alloc::sync::Arc;

/// The cores that this process may use
///
/// On Linux. Elsewhere, and where the system does not say, there are none, and threads are wherever they are put.
#[derive(Clone, Debug, Default)]
pub struct Cores(Arc<[u32]>);

impl Cores {
    /// Those that the calling thread may be on
    #[must_use]
    pub fn all() -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(set) = rustix::thread::sched_getaffinity(None) {
            let known = u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u32::MAX);
            return Self((0..known).filter(|core| set.is_set(*core as usize)).collect());
        }
        Self::default()
    }

    /// Which of them, counted from 0, packets of this connection come in on; none if it is none of them
    #[cfg(feature = "http")]
    pub(crate) fn of(&self, socket: &crate::Socket) -> Option<usize> {
        #[cfg(target_os = "linux")]
        if !self.0.is_empty() {
            let core = rustix::net::sockopt::socket_incoming_cpu(socket).ok()?;
            return self.0.iter().position(|other| *other == core);
        }
        let _ = socket;
        None
    }

    /// Keeps the calling thread on the core of this number, and those that it starts from now on
    ///
    /// One that the system has taken away since, or that there is not, is nothing to wait for: then it goes on as before.
    pub fn stay(&self, number: usize) {
        if let Some(core) = self.0.get(number) {
            set(&[*core]);
        }
    }

    /// Lets the calling thread be on all of them again
    pub fn roam(&self) {
        if !self.0.is_empty() {
            set(&self.0);
        }
    }
}

fn set(cores: &[u32]) {
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
    fn a_thread_stays_and_roams() {
        let all = Cores::all();
        assert!(!all.0.is_empty());
        let last = all.0.len() - 1;
        std::thread::spawn(move || {
            all.stay(last);
            assert_eq!(Cores::all().0[..], all.0[last..]);
            // There is no such core: nothing changes.
            all.stay(last + 1);
            assert_eq!(Cores::all().0[..], all.0[last..]);
            let inherited = std::thread::spawn(Cores::all).join().unwrap();
            assert_eq!(inherited.0.len(), 1);
            all.roam();
            assert_eq!(Cores::all().0, all.0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn where_none_are_known_nothing_happens() {
        let (none, all) = (Cores::default(), Cores::all());
        none.stay(0);
        none.roam();
        assert_eq!(Cores::all().0, all.0);
    }
}
