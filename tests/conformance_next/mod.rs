//! Scenarios of the official conformance suite that are written and not released, one file per group. `scenarios.tsv` has a row for
//! each of them: the tests that hold it, here or elsewhere, or the reason why there is none.

mod client_authorization;
mod client_core;
mod extensions;
mod server_authorization;
mod server_core;
mod server_streams;
mod server_values;
