//! Recording and replay on `std` (feature `io`): a proxy that records what passes through it, and traces played against a peer that runs.
//!
//! | function | effect |
//! |---|---|
//! | [`pump`] | passes the bytes of two streams on, and tells what passes |
//! | [`serve_http`] | a proxy over HTTP/1.1 that records each exchange |
//! | [`play`] | plays a [`Playback`](crate::Playback) against a peer on a stream |
//! | [`answer`] | answers a client on a stream by a [`RecordedServer`](crate::RecordedServer) |

mod http;
mod peer;
mod pump;

use std::fs::File;
use std::io;
use std::sync::Mutex;

use mcp_std::Clock;
use mcp_std::sync::lock;

use crate::Recorder;

pub use http::serve_http;
pub use peer::{answer, play};
pub use pump::pump;

/// A recording that several threads write, with their clock.
#[derive(Debug)]
pub struct Recording {
    recorder: Mutex<Recorder<File>>,
    clock: Clock,
    on_end: fn(Option<&io::Error>),
}

impl Recording {
    /// Begins a recording. `on_end` is told, once, that nothing more is recorded: with the error by which the file cannot be written,
    /// without one if it is as long as it may be. What passes goes on.
    #[must_use]
    pub const fn new(recorder: Recorder<File>, clock: Clock, on_end: fn(Option<&io::Error>)) -> Self {
        Self { recorder: Mutex::new(recorder), clock, on_end }
    }

    /// Records by `act`, which gets the time in microseconds.
    pub fn record(&self, act: impl FnOnce(&mut Recorder<File>, u64)) {
        let mut recorder = lock(&self.recorder);
        let was_full = recorder.is_full();
        act(&mut recorder, self.clock.now().as_micros());
        let ended = (!was_full && recorder.is_full()).then(|| recorder.failure());
        // It may record something itself.
        drop(recorder);
        if let Some(failure) = ended {
            (self.on_end)(failure.as_ref());
        }
    }
}
