//! A resource that changes by itself while somebody follows it

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use mcp_blocking::Router;
use mcp_proto::model::Resource;

use super::lock;

/// Tells when the clock has to be told of
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<Mutex<Option<Instant>>>);

impl Clock {
    pub(crate) const URI: &'static str = "clock://running";

    /// How long nothing has to be told; none while nobody follows
    pub(crate) fn left(&self) -> Option<Duration> {
        lock(&self.0).map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Whether it is time to tell; then it is the next time a tick later
    pub(crate) fn ticks(&self) -> bool {
        let now = Instant::now();
        let mut next = lock(&self.0);
        let due = next.is_some_and(|next| next <= now);
        if due {
            *next = Some(now + TICK);
        }
        due
    }

    fn follow(&self, wanted: bool) {
        *lock(&self.0) = wanted.then(|| Instant::now() + TICK);
    }

    /// Registers the resource, and has the router tell of who follows what
    pub(super) fn register(router: &mut Router) -> Self {
        let begun = Instant::now();
        let resource = Resource::new(Self::URI, "clock")
            .title("How long the server runs")
            .description("Changes four times a second while it is followed")
            .mime_type("text/plain");
        router.resource(resource, move |_, _| format!("{:.2} s", begun.elapsed().as_secs_f64()));
        let clock = Self::default();
        let told = clock.clone();
        router.subscriptions(move |uri, wanted| {
            if uri == Self::URI {
                told.follow(wanted);
            }
        });
        clock
    }
}

const TICK: Duration = Duration::from_millis(250);
