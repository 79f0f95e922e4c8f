//! Scenarios of the official conformance suite that are written and not released, one file per group. Each test names its
//! scenario; what is not here yet stands in the issue tracker.

mod client_authorization;
mod server_core;
