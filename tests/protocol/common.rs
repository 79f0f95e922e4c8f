//! Helpers that several test modules share.

use core::time::Duration;

use mcp_proto::{Capabilities, Capability, Limits, VersionSet, client, server};

/// Returns a duration of `n` milliseconds.
pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns a duration of `n` seconds.
pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Configures a client that speaks `versions`.
pub(crate) fn client(versions: VersionSet) -> client::Config {
    client::Config::new("harbor-client", "0.3.0").versions(versions)
}

/// Configures a server with tools that speaks `versions`.
pub(crate) fn server(versions: VersionSet) -> server::Config {
    server::Config::new("tide-server", "2.1.0")
        .versions(versions)
        .capabilities(Capabilities::new().with(Capability::Tools))
        .custom_method("harbor/tide")
}

/// Returns the default limits with `change` applied.
pub(crate) fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}
