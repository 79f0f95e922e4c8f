//! A resource that changes by itself while somebody follows it

use std::time::Instant;

use mcp_proto::model::Resource;

use super::Router;
use crate::serve::clock::Clock;

/// Registers the resource, and has the router tell of who follows what
pub(super) fn register(router: &mut Router) -> Clock {
    let begun = Instant::now();
    let resource = Resource::new(Clock::URI, "clock")
        .title("How long the server runs")
        .description("Changes four times a second while it is followed")
        .mime_type("text/plain");
    router.resource(resource, handler!(|_, _| format!("{:.2} s", begun.elapsed().as_secs_f64())));
    let clock = Clock::default();
    let told = clock.clone();
    router.subscriptions(move |uri, wanted| {
        if uri == Clock::URI {
            told.follow(wanted);
        }
    });
    clock
}
