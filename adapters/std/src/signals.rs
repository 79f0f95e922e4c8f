//! Being told to stop by the system

use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::thread;

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
    let (mut ends, told) = UnixStream::pair()?;
    thread::Builder::new().name("mcp-signals".into()).spawn(move || {
        if ends.read_exact(&mut [0]).is_ok() {
            action();
        }
    })?;
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: what the first one sets is there for the second one.
        flag::register_conditional_default(signal, again.clone())?;
        flag::register(signal, again.clone())?;
        low_level::pipe::register(signal, told.try_clone()?)?;
    }
    Ok(())
}
