//! Being told to end, by `SIGTERM` or by Ctrl-C: servers answer what is in work, and nobody leaves servers behind that were
//! started here

use core::time::Duration;

use mcp_blocking::Handle;
#[cfg(unix)]
use mcp_std::child::end_all;

#[cfg(unix)]
pub(crate) use unix::{Word, ends_servers, hush, shuts_down};

#[cfg(unix)]
mod unix {
    use alloc::sync::Arc;
    use core::cell::Cell;
    use core::sync::atomic::{AtomicBool, Ordering};
    use std::io::{self, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use mcp_std::{Descriptors, Interest, Outlook, on_signal, on_terminate};

    use super::{GRACE, Handle, PATIENCE, end_all};

    /// This process ends, and the servers that it has started are being ended
    static ENDING: AtomicBool = AtomicBool::new(false);

    /// For a client: has the servers that it has started end with it
    pub(crate) fn ends_servers() {
        // Without a thread for it everything else works.
        let _ = on_signal(|signal| {
            ENDING.store(true, Ordering::SeqCst);
            end_all(PATIENCE);
            signal.end()
        });
    }

    /// To be asked by who is about to say something: when the process ends, all there is to say comes of that
    pub(crate) fn hush() {
        while ENDING.load(Ordering::SeqCst) {
            thread::park();
        }
    }

    /// For a server: has it answer what is in work, and end
    pub(crate) fn shuts_down(handle: Handle) {
        let _ = on_terminate(move || handle.shutdown(GRACE));
    }

    /// For a loop that ends by itself when it is told to
    pub(crate) struct Word {
        flags: Arc<Flags>,
        /// Readable when it was told
        told: UnixStream,
        /// The loop has seen it
        seen: Cell<bool>,
    }

    #[derive(Default)]
    struct Flags {
        /// The loop turns; before and after that, the process ends at once
        turns: AtomicBool,
        told: AtomicBool,
    }

    impl Word {
        pub(crate) fn new() -> io::Result<Self> {
            let flags = Arc::<Flags>::default();
            let (told, mut tells) = UnixStream::pair()?;
            let theirs = flags.clone();
            on_signal(move |signal| {
                theirs.told.store(true, Ordering::SeqCst);
                if !theirs.turns.load(Ordering::SeqCst) {
                    ENDING.store(true, Ordering::SeqCst);
                    end_all(PATIENCE);
                    signal.end();
                }
                let _ = tells.write_all(&[0]);
            })?;
            Ok(Self { flags, told, seen: Cell::new(false) })
        }

        /// Whether the loop turns, which [looks](Self::is_told) now and then, and once more when it is over
        pub(crate) fn set_turns(&self, turns: bool) {
            self.flags.turns.store(turns, Ordering::SeqCst);
        }

        pub(crate) fn is_told(&self) -> bool {
            self.seen.set(self.flags.told.load(Ordering::SeqCst));
            self.seen.get()
        }

        /// What ends the loop's wait, until the loop has seen why
        pub(crate) fn outlook(&self) -> Outlook<'_> {
            let read = Some(self.told.as_fd()).filter(|_| !self.seen.get());
            Outlook::new(
                Descriptors { read, ..Descriptors::default() },
                Interest { read: read.is_some(), write: false },
                None,
            )
        }
    }
}

#[cfg(not(unix))]
pub(crate) use other::{Word, ends_servers, hush, shuts_down};

/// Where nobody tells a process to end
#[cfg(not(unix))]
mod other {
    use std::io;

    use mcp_std::Outlook;

    use super::Handle;

    pub(crate) const fn ends_servers() {}

    pub(crate) const fn hush() {}

    pub(crate) fn shuts_down(_: Handle) {}

    pub(crate) struct Word(());

    impl Word {
        #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
        pub(crate) const fn new() -> io::Result<Self> {
            Ok(Self(()))
        }

        pub(crate) const fn set_turns(&self, _: bool) {}

        pub(crate) const fn is_told(&self) -> bool {
            false
        }

        pub(crate) fn outlook(&self) -> Outlook<'_> {
            Outlook::blind(None)
        }
    }
}

/// How long calls in work have: clients that end a server take stronger measures after two seconds
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// How long servers have that were started here, before `SIGKILL`
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);
