//! Durations of requests.

use core::time::Duration;

use mcp_proto::Instant;

/// The beginning of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    at: std::time::Instant,
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    at: Instant,
}

impl Began {
    /// Whether the clock is that of the engine.
    pub(crate) const IS_OF_ENGINE: bool = cfg!(all(target_family = "wasm", target_os = "unknown"));

    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub(crate) fn new(_: Instant) -> Self {
        Self { at: std::time::Instant::now() }
    }

    /// Returns the time since, or `None` if the end is unknown.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub(crate) fn elapsed(self, _: Option<Instant>) -> Option<Duration> {
        Some(self.at.elapsed())
    }

    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    pub(crate) const fn new(at: Instant) -> Self {
        Self { at }
    }

    /// Returns the time since, or `None` if the end is unknown.
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    pub(crate) fn elapsed(self, end: Option<Instant>) -> Option<Duration> {
        Some(end?.saturating_duration_since(self.at))
    }
}
