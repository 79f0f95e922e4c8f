//! Being told to stop by the system

use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::thread;

use signal_hook::consts::SIGTERM;
use signal_hook::{flag, low_level};

/// Has `action` run, on a thread of its own, when this process is told to end (`SIGTERM`)
///
/// For servers: the action has a handle shut them down, and the program ends when they have. A second `SIGTERM` ends the
/// process at once, whatever the action does. To be called once.
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
    // In this order: what the first one sets is there for the second one.
    let again = Arc::new(AtomicBool::new(false));
    flag::register_conditional_default(SIGTERM, again.clone())?;
    flag::register(SIGTERM, again)?;
    low_level::pipe::register(SIGTERM, told)?;
    Ok(())
}
