//! A resource that changes by itself while somebody follows it

use alloc::rc::Rc;
use core::cell::Cell;
use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Router;
use mcp_proto::model::Resource;

/// Tells when the clock has to be told of
#[derive(Clone, Default)]
pub(crate) struct Clock(Rc<Cell<Option<Instant>>>);

impl Clock {
    pub(crate) const URI: &'static str = "clock://running";

    /// How long nothing has to be told; none while nobody follows
    pub(crate) fn left(&self) -> Option<Duration> {
        self.0.get().map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Whether it is time to tell; then it is the next time a tick later
    pub(crate) fn ticks(&self) -> bool {
        let now = Instant::now();
        let due = self.0.get().is_some_and(|next| next <= now);
        if due {
            self.0.set(Some(now + TICK));
        }
        due
    }

    fn follow(&self, wanted: bool) {
        self.0.set(wanted.then(|| Instant::now() + TICK));
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
