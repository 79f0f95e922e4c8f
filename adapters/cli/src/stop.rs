//! Termination by `SIGTERM` or Ctrl-C.
//!
//! Servers answer running calls first. Server processes started by this program are ended with it.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;

use mcp_proto_proxy::host::Stop;
#[cfg(unix)]
use mcp_std::process::terminate_all;

#[cfg(unix)]
pub(crate) use unix::{Interrupts, end, end_servers_on_signal, hangup_flag, park_if_ending, run_on_signal};

#[cfg(unix)]
mod unix {
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    use std::io::{self, IsTerminal as _};
    use std::thread;

    use mcp_std::process::{on_signal, on_terminate};
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    use super::{GRACE_PERIOD, SERVER_END_TIMEOUT, StopSignal, terminate_all};

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

    /// Runs `stop` when a signal arrives.
    pub(crate) fn run_on_signal(stop: impl FnOnce() + Send + 'static) {
        let _ = on_terminate(stop);
    }

    /// Returns a flag that `SIGHUP` sets. On a terminal, which sends the signal when it is closed, the process ends instead.
    pub(crate) fn hangup_flag() -> Arc<AtomicBool> {
        if io::stdin().is_terminal() || io::stderr().is_terminal() {
            return Arc::default();
        }
        mcp_std::process::hangup_flag().unwrap_or_default()
    }

    /// Requests the end of a loop when a signal arrives. Outside of the loop, the signal ends the process immediately.
    pub(super) fn request_on_signal(request: StopSignal) -> io::Result<()> {
        on_signal(move |signal| {
            request.stop.shutdown(GRACE_PERIOD);
            if !request.is_looping.load(Ordering::SeqCst) {
                IS_ENDING.store(true, Ordering::SeqCst);
                terminate_all(SERVER_END_TIMEOUT);
                signal.terminate();
            }
        })
    }
}

/// A termination request for an event loop that ends by itself.
#[derive(Clone)]
pub(crate) struct StopSignal {
    pub(crate) stop: Stop,
    /// Whether the loop is running.
    is_looping: Arc<AtomicBool>,
    /// Whether all server processes of this program are to end with the loop.
    ends_all: bool,
}

impl StopSignal {
    /// Returns the request that a signal makes.
    pub(crate) fn new() -> io::Result<Self> {
        let signal = Self { ends_all: true, ..Self::of_loop()? };
        #[cfg(unix)]
        unix::request_on_signal(signal.clone())?;
        Ok(signal)
    }

    /// Returns the request for one loop of several. It leaves the servers of other loops alone.
    pub(crate) fn of_loop() -> io::Result<Self> {
        Ok(Self { stop: Stop::new()?, is_looping: Arc::default(), ends_all: false })
    }

    /// Returns the request for one connection of a server: it comes when the server shuts down.
    #[cfg(unix)]
    pub(crate) fn of_connection(connection: &mcp_blocking::StreamConnection) -> io::Result<Self> {
        let signal = Self { ends_all: true, ..Self::of_loop()? };
        let stop = signal.stop.clone();
        connection.on_shutdown(move |_| stop.shutdown(GRACE_PERIOD));
        Ok(signal)
    }

    /// Sockets accept no connections here.
    #[cfg(not(unix))]
    pub(crate) fn of_connection<C>(_: &C) -> io::Result<Self> {
        Self::of_loop()
    }

    /// Returns whether the signal was sent, and asks for the end of all server processes.
    pub(crate) fn ends_servers(&self) -> bool {
        self.ends_all && self.is_requested()
    }

    /// Sets whether the loop is running.
    ///
    /// A running loop must check [`is_requested()`](Self::is_requested) regularly, and once more after its end.
    pub(crate) fn set_looping(&self, is_looping: bool) {
        self.is_looping.store(is_looping, Ordering::SeqCst);
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.stop.is_requested()
    }
}

#[cfg(not(unix))]
pub(crate) use other::{Interrupts, end_servers_on_signal, hangup_flag, park_if_ending, run_on_signal};
#[cfg(not(unix))]
pub(crate) use std::process::exit as end;

/// Platforms without signals.
#[cfg(not(unix))]
mod other {
    use alloc::sync::Arc;
    use core::sync::atomic::AtomicBool;

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

    pub(crate) fn run_on_signal(_: impl FnOnce() + Send + 'static) {}

    pub(crate) fn hangup_flag() -> Arc<AtomicBool> {
        Arc::default()
    }
}

/// Grace period of running calls. Clients use stronger means two seconds after asking a server to end.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Time that started server processes have before `SIGKILL`.
pub(crate) const SERVER_END_TIMEOUT: Duration = Duration::from_millis(500);
