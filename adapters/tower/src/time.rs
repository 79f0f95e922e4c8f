//! The time of a service: a clock, and timers if the host has some.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

/// Ready when the time has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The time of a service.
///
/// [`TokioTimer`] and [`AsyncIoTimer`] are ready-made, behind features. Implement it for another runtime or host:
///
/// ```
/// use std::time::Duration;
///
/// use mcp_tower::{Sleep, StdClock, Timer};
///
/// struct Threads(StdClock);
///
/// impl Timer for Threads {
///     fn now(&self) -> Duration {
///         self.0.now()
///     }
///
///     fn unix_seconds(&self) -> u64 {
///         self.0.unix_seconds()
///     }
///
///     fn sleep(&self, duration: Duration) -> Option<Sleep> {
///         let mut end = None;
///         Some(Box::pin(std::future::poll_fn(move |cx| {
///             let end = *end.get_or_insert_with(|| std::time::Instant::now() + duration);
///             let left = end.saturating_duration_since(std::time::Instant::now());
///             if left.is_zero() {
///                 return std::task::Poll::Ready(());
///             }
///             let waker = cx.waker().clone();
///             std::thread::spawn(move || {
///                 std::thread::sleep(left);
///                 waker.wake();
///             });
///             std::task::Poll::Pending
///         })))
///     }
/// }
/// ```
pub trait Timer: Send + Sync + 'static {
    /// Returns the time since a fixed moment. It never goes back.
    fn now(&self) -> Duration;

    /// Returns the seconds since 1970.
    fn unix_seconds(&self) -> u64;

    /// Returns a future that is ready after `duration`, or `None` if the host has no timers.
    ///
    /// Without timers, deadlines are met when a request or a body is polled. One future per shard exists at a time. It is
    /// created by whichever task polls the service, and polled once: its waker must be woken when the time has come and not
    /// before, as another future is created for the next deadline then.
    fn sleep(&self, duration: Duration) -> Option<Sleep>;
}

/// The clock of the system, without timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdClock;

impl Timer for StdClock {
    fn now(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    fn sleep(&self, _: Duration) -> Option<Sleep> {
        None
    }
}

/// Timers of the tokio runtime in which the service is polled. In a task of another runtime there are none.
///
/// The time driver must be enabled (`enable_all`, as in `#[tokio::main]`). If the service is polled once where it is not, it
/// does without timers from then on.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

#[cfg(feature = "tokio")]
impl Timer for TokioTimer {
    fn now(&self) -> Duration {
        StdClock.now()
    }

    fn unix_seconds(&self) -> u64 {
        StdClock.unix_seconds()
    }

    fn sleep(&self, duration: Duration) -> Option<Sleep> {
        tokio::runtime::Handle::try_current().ok()?;
        Some(Box::pin(tokio::time::sleep(duration)))
    }
}

/// Timers of `async-io`, which work in every task.
#[cfg(feature = "async-io")]
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncIoTimer;

#[cfg(feature = "async-io")]
impl Timer for AsyncIoTimer {
    fn now(&self) -> Duration {
        StdClock.now()
    }

    fn unix_seconds(&self) -> u64 {
        StdClock.unix_seconds()
    }

    fn sleep(&self, duration: Duration) -> Option<Sleep> {
        let timer = async_io::Timer::after(duration);
        Some(Box::pin(async move { _ = timer.await }))
    }
}
