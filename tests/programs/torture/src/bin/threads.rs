//! The tour on `mcp-threads`.

extern crate alloc;

#[path = "../authorization.rs"]
mod authorization;
#[path = "../faults.rs"]
mod faults;
#[path = "../run.rs"]
mod run;
#[path = "."]
mod support {
    #[path = "../../../../../adapters/threads/tests/support/adapter.rs"]
    pub(crate) mod adapter;
}
#[path = "../tour.rs"]
mod tour;

use support::adapter;

/// Returns the client that the suites use.
fn wrap(client: mcp_threads::Client) -> adapter::Client {
    client
}

fn main() -> std::process::ExitCode {
    run::main()
}
