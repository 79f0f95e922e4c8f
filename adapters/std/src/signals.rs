//! Being told to stop by the system

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::{process, thread};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Has `action` run, on a thread of its own, when this process is told to end (`SIGTERM`, or `SIGINT` as from a terminal)
///
/// For servers: the action has a handle shut them down, and the program ends when they have. A second one of these signals
/// ends the process at once, whatever the action does. To be called once.
///
/// # Errors
///
/// What the operating system says.
pub fn on_terminate(action: impl FnOnce() + Send + 'static) -> io::Result<()> {
    on_signal(|_| action())
}

/// As [`on_terminate`], for an action that ends the process itself
///
/// ```no_run
/// use core::time::Duration;
///
/// // What was started here does not outlive this process, even if it does not care about the end of its input.
/// mcp_std::on_signal(|signal| {
///     mcp_std::child::end_all(Duration::from_secs(1));
///     signal.end()
/// })?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
///
/// As [`on_terminate`].
pub fn on_signal(action: impl FnOnce(Ending) + Send + 'static) -> io::Result<()> {
    let which = Arc::new(AtomicUsize::new(0));
    let (mut ends, told) = UnixStream::pair()?;
    let came = which.clone();
    thread::Builder::new().name("mcp-signals".into()).spawn(move || {
        if ends.read_exact(&mut [0]).is_ok() {
            action(Ending(came));
        }
    })?;
    let again = Arc::new(AtomicBool::new(false));
    for (signal, number) in [(SIGTERM, SIGTERM as usize), (SIGINT, SIGINT as usize)] {
        // In this order: what the first one sets is there for the second one.
        flag::register_conditional_default(signal, again.clone())?;
        flag::register(signal, again.clone())?;
        flag::register_usize(signal, which.clone(), number)?;
        low_level::pipe::register(signal, told.try_clone()?)?;
    }
    Ok(())
}

/// The signal that told this process to end
#[derive(Debug)]
pub struct Ending(Arc<AtomicUsize>);

impl Ending {
    /// Ends the process as the signal would have if nobody had waited for it
    pub fn end(self) -> ! {
        let signal = if self.0.load(Ordering::SeqCst) == SIGINT as usize { SIGINT } else { SIGTERM };
        let _ = low_level::emulate_default_handler(signal);
        process::exit(128 + signal)
    }
}
