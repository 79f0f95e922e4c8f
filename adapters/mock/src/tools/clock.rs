//! A resource that changes by itself while a client follows it.

use std::time::Instant;

use mcp_proto::model::Resource;

use super::Router;
use crate::clock::ClockResource;

/// Registers the resource, and a callback that reports whether clients follow it.
pub(super) fn register(router: &mut Router) -> ClockResource {
    let begun = Instant::now();
    let resource = Resource::new(ClockResource::URI, "clock")
        .title("Uptime of the server")
        .description("Changes four times a second while it is followed")
        .mime_type("text/plain");
    router.resource(resource, handler!(|_, _| format!("{:.2} s", begun.elapsed().as_secs_f64())));
    let clock = ClockResource::default();
    let followed_clock = clock.clone();
    router.subscriptions(move |uri, wanted| {
        if uri == ClockResource::URI {
            followed_clock.set_followed(wanted);
        }
    });
    clock
}
