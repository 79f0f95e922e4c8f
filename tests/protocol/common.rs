//! What several files here need.

use core::time::Duration;

use mcp_proto::{Capabilities, Capability, Limits, VersionSet, client, server};

/// So many milliseconds
pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// So many seconds
pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A client that speaks `versions`
pub(crate) fn client(versions: VersionSet) -> client::Config {
    client::Config::new("harbor-client", "0.3.0").versions(versions)
}

/// A server with tools that speaks `versions`
pub(crate) fn server(versions: VersionSet) -> server::Config {
    server::Config::new("tide-server", "2.1.0")
        .versions(versions)
        .capabilities(Capabilities::new().with(Capability::Tools))
        .custom_method("harbor/tide")
}

/// The default limits with a change
pub(crate) fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}
