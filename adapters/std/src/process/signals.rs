//! Signals to this process: those that end it, and the one to read a configuration again.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::{process, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Runs `action` on a thread of its own when this process gets `SIGTERM` or `SIGINT`.
///
/// It is meant for servers: the action shuts them down through a handle, and the program ends when they have finished.
/// A second signal of this kind ends the process immediately, whatever the action does. Call it once.
///
/// # Errors
///
/// The error of the operating system.
pub fn on_terminate(action: impl FnOnce() + Send + 'static) -> io::Result<()> {
    on_signal(|_| action())
}

/// The same as [`on_terminate`], for an action that ends the process itself.
///
/// ```no_run
/// use core::time::Duration;
///
/// // Processes started here do not outlive this process, even if they ignore the end of their input.
/// mcp_std::process::on_signal(|signal| {
///     mcp_std::process::terminate_all(Duration::from_secs(1));
///     signal.terminate()
/// })?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
///
/// The same as [`on_terminate`].
pub fn on_signal(action: impl FnOnce(TerminationSignal) + Send + 'static) -> io::Result<()> {
    let signal_number = Arc::new(AtomicUsize::new(0));
    let (mut reader, writer) = UnixStream::pair()?;
    let received = signal_number.clone();
    thread::Builder::new().name("mcp-signals".into()).spawn(move || {
        if reader.read_exact(&mut [0]).is_ok() {
            action(TerminationSignal(received));
        }
    })?;
    let is_second = Arc::new(AtomicBool::new(false));
    for (signal, number) in [(SIGTERM, SIGTERM as usize), (SIGINT, SIGINT as usize)] {
        // The order matters: the first action sets the flag that the second one reads.
        flag::register_conditional_default(signal, is_second.clone())?;
        flag::register(signal, is_second.clone())?;
        flag::register_usize(signal, signal_number.clone(), number)?;
        low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(())
}

/// Returns a flag that each `SIGHUP` sets, by which servers are told to read their configuration again.
///
/// From then on the signal does not end the process. The terminal sends it, too, when it is closed, so a program on a terminal
/// should not ask for the flag.
///
/// # Errors
///
/// The error of the operating system.
pub fn hangup_flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&flag))?;
    Ok(flag)
}

/// The signal that asked this process to end.
#[derive(Debug)]
pub struct TerminationSignal(Arc<AtomicUsize>);

impl TerminationSignal {
    /// Ends the process as the signal would have done without a handler.
    pub fn terminate(self) -> ! {
        let signal = if self.0.load(Ordering::SeqCst) == SIGINT as usize { SIGINT } else { SIGTERM };
        let _ = low_level::emulate_default_handler(signal);
        process::exit(128 + signal)
    }
}
