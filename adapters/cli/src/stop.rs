//! Termination by `SIGTERM` or Ctrl-C.
//!
//! Servers answer running calls first. Server processes started by this program are ended with it.

use core::time::Duration;

use mcp_blocking::Handle;
#[cfg(unix)]
use mcp_std::process::terminate_all;

#[cfg(unix)]
pub(crate) use unix::{
    Interrupts, StopRequest, StopSignal, end, end_servers_on_signal, hangup_flag, park_if_ending,
    run_on_signal, shut_down_on_signal, shut_down_within,
};

#[cfg(unix)]
mod unix {
    use alloc::sync::Arc;
    use core::cell::Cell;
    use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    use core::time::Duration;
    use std::io::{self, IsTerminal as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use mcp_blocking::StreamConnection;
    use mcp_std::io::{Descriptors, Interest};
    use mcp_std::poll::WaitRequest;
    use mcp_std::process::{on_signal, on_terminate};
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    use super::{GRACE_PERIOD, Handle, SERVER_END_TIMEOUT, terminate_all};

    /// Set when this process is ending and its server processes are being ended.
    static IS_ENDING: AtomicBool = AtomicBool::new(false);

    /// Ends the server processes of this program when a signal ends it. For clients.
    pub(crate) fn end_servers_on_signal() {
        // Without the signal thread everything else still works.
        let _ = on_signal(|signal| {
            IS_ENDING.store(true, Ordering::SeqCst);
            terminate_all(SERVER_END_TIMEOUT);
            signal.terminate()
        });
    }

    /// Ends this process with a status, and its server processes with it.
    pub(crate) fn end(status: i32) -> ! {
        IS_ENDING.store(true, Ordering::SeqCst);
        terminate_all(SERVER_END_TIMEOUT);
        std::process::exit(status)
    }

    /// Interrupts (Ctrl-C) of a program that runs one call after another: the first one cancels the running call, a second
    /// one ends the program, as one between calls does.
    #[derive(Clone, Default)]
    pub(crate) struct Interrupts(Arc<AtomicU8>);

    /// States of [`Interrupts`].
    const IDLE: u8 = 0;
    const RUNNING: u8 = 1;
    const INTERRUPTED: u8 = 2;

    impl Interrupts {
        /// Takes the signals of this process. When it ends, so do its server processes, `at_end` runs, and the terminal is as it is now.
        pub(crate) fn new(at_end: fn()) -> Self {
            let interrupts = Self::default();
            let state = Arc::clone(&interrupts.0);
            let terminal = tcgetattr(io::stdin()).ok();
            // Without the signal thread everything else still works.
            let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return interrupts };
            let wait = move || {
                for signal in signals.forever() {
                    let cancelled =
                        state.compare_exchange(RUNNING, INTERRUPTED, Ordering::SeqCst, Ordering::SeqCst);
                    if signal == SIGINT && cancelled.is_ok() {
                        continue;
                    }
                    IS_ENDING.store(true, Ordering::SeqCst);
                    terminate_all(SERVER_END_TIMEOUT);
                    at_end();
                    if let Some(terminal) = &terminal {
                        let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
                    }
                    let _ = emulate_default_handler(signal);
                }
            };
            let _ = thread::Builder::new().name("mcp-signals".into()).spawn(wait);
            interrupts
        }

        /// States that a call begins.
        pub(crate) fn begin(&self) {
            self.0.store(RUNNING, Ordering::SeqCst);
        }

        pub(crate) fn is_requested(&self) -> bool {
            self.0.load(Ordering::SeqCst) == INTERRUPTED
        }

        /// States that the call has ended.
        pub(crate) fn end(&self) {
            self.0.store(IDLE, Ordering::SeqCst);
        }
    }

    /// Parks the current thread if the process is ending. Call this before printing: later failures are only its
    /// effect.
    pub(crate) fn park_if_ending() {
        while IS_ENDING.load(Ordering::SeqCst) {
            thread::park();
        }
    }

    /// Lets a server answer running calls and end when a signal arrives.
    pub(crate) fn shut_down_on_signal(handle: Handle) {
        shut_down_within(handle, GRACE_PERIOD);
    }

    /// The same with another time for the calls.
    pub(crate) fn shut_down_within(handle: Handle, grace: Duration) {
        let _ = on_terminate(move || handle.shutdown(grace));
    }

    /// Runs `stop` when a signal arrives.
    pub(crate) fn run_on_signal(stop: impl FnMut() + Send + 'static) {
        let _ = on_terminate(stop);
    }

    /// Returns a flag that `SIGHUP` sets. On a terminal, which sends the signal when it is closed, the process ends instead.
    pub(crate) fn hangup_flag() -> Arc<AtomicBool> {
        if io::stdin().is_terminal() || io::stderr().is_terminal() {
            return Arc::default();
        }
        mcp_std::process::hangup_flag().unwrap_or_default()
    }

    /// A termination request for an event loop that ends by itself.
    pub(crate) struct StopSignal {
        flags: Arc<StopFlags>,
        /// Readable once a signal has arrived.
        readable: UnixStream,
        /// Whether the loop has seen the request.
        is_seen: Cell<bool>,
        /// Whether all server processes of this program are to end with the loop.
        ends_all: bool,
    }

    /// Ends one loop of several.
    pub(crate) struct StopRequest {
        flags: Arc<StopFlags>,
        sender: UnixStream,
    }

    impl StopRequest {
        pub(crate) fn send(&self) {
            self.flags.is_requested.store(true, Ordering::SeqCst);
            // The loop is gone if it fails.
            let _ = (&self.sender).write_all(&[0]);
        }
    }

    #[derive(Default)]
    struct StopFlags {
        /// Whether the loop is running. Outside of it, a signal ends the process immediately.
        is_looping: AtomicBool,
        is_requested: AtomicBool,
    }

    impl StopSignal {
        pub(crate) fn new() -> io::Result<Self> {
            let flags = Arc::<StopFlags>::default();
            let (receiver, mut sender) = UnixStream::pair()?;
            let handler_flags = flags.clone();
            on_signal(move |signal| {
                handler_flags.is_requested.store(true, Ordering::SeqCst);
                if !handler_flags.is_looping.load(Ordering::SeqCst) {
                    IS_ENDING.store(true, Ordering::SeqCst);
                    terminate_all(SERVER_END_TIMEOUT);
                    signal.terminate();
                }
                let _ = sender.write_all(&[0]);
            })?;
            Ok(Self { flags, readable: receiver, is_seen: Cell::new(false), ends_all: true })
        }

        /// Returns the signal of one loop of several, and what sends it. It leaves the servers of other loops alone.
        pub(crate) fn of_loop() -> io::Result<(StopRequest, Self)> {
            let flags = Arc::<StopFlags>::default();
            let (readable, sender) = UnixStream::pair()?;
            let request = StopRequest { flags: flags.clone(), sender };
            Ok((request, Self { flags, readable, is_seen: Cell::new(false), ends_all: false }))
        }

        /// Returns the request of one connection of a server: it comes when the server shuts down.
        pub(crate) fn of_connection(connection: &StreamConnection) -> io::Result<Self> {
            let (request, signal) = Self::of_loop()?;
            connection.on_shutdown(move |_| request.send());
            Ok(Self { ends_all: true, ..signal })
        }

        /// Returns whether the signal was sent, and asks for the end of all server processes.
        pub(crate) fn ends_servers(&self) -> bool {
            self.ends_all && self.is_requested()
        }

        /// Sets whether the loop is running.
        ///
        /// A running loop must check [`is_requested()`](Self::is_requested) regularly, and once more after its end.
        pub(crate) fn set_looping(&self, is_looping: bool) {
            self.flags.is_looping.store(is_looping, Ordering::SeqCst);
        }

        pub(crate) fn is_requested(&self) -> bool {
            self.is_seen.set(self.flags.is_requested.load(Ordering::SeqCst));
            self.is_seen.get()
        }

        /// Returns the wait request that ends the loop's wait until the loop has seen the signal.
        pub(crate) fn wait_request(&self) -> WaitRequest<'_> {
            let read = Some(self.readable.as_fd()).filter(|_| !self.is_seen.get());
            WaitRequest::new(
                Descriptors { read, ..Descriptors::default() },
                Interest { read: read.is_some(), write: false },
                None,
            )
        }
    }
}

#[cfg(not(unix))]
pub(crate) use other::{
    Interrupts, StopSignal, end_servers_on_signal, hangup_flag, park_if_ending, shut_down_on_signal,
    shut_down_within,
};
#[cfg(not(unix))]
pub(crate) use std::process::exit as end;

/// Platforms without signals.
#[cfg(not(unix))]
mod other {
    use alloc::sync::Arc;
    use core::sync::atomic::AtomicBool;
    use core::time::Duration;
    use std::io;

    use mcp_std::poll::WaitRequest;

    use super::Handle;

    pub(crate) const fn end_servers_on_signal() {}

    #[derive(Clone, Default)]
    pub(crate) struct Interrupts(());

    impl Interrupts {
        pub(crate) const fn new(_: fn()) -> Self {
            Self(())
        }

        pub(crate) const fn begin(&self) {}

        pub(crate) const fn is_requested(&self) -> bool {
            false
        }

        pub(crate) const fn end(&self) {}
    }

    pub(crate) const fn park_if_ending() {}

    pub(crate) fn shut_down_on_signal(_: Handle) {}

    pub(crate) fn shut_down_within(_: Handle, _: Duration) {}

    pub(crate) fn hangup_flag() -> Arc<AtomicBool> {
        Arc::default()
    }

    pub(crate) struct StopSignal(());

    impl StopSignal {
        /// Sockets accept no connections here.
        pub(crate) const fn of_connection<C>(_: &C) -> io::Result<Self> {
            Self::new()
        }

        #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
        pub(crate) const fn new() -> io::Result<Self> {
            Ok(Self(()))
        }

        pub(crate) const fn set_looping(&self, _: bool) {}

        pub(crate) const fn is_requested(&self) -> bool {
            false
        }

        pub(crate) const fn ends_servers(&self) -> bool {
            false
        }

        pub(crate) fn wait_request(&self) -> WaitRequest<'_> {
            WaitRequest::unpollable(None)
        }
    }
}

/// Grace period of running calls. Clients use stronger means two seconds after asking a server to end.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Time that started server processes have before `SIGKILL`.
pub(crate) const SERVER_END_TIMEOUT: Duration = Duration::from_millis(500);
