//! The tour on `mcp-smol`.

extern crate alloc;

#[path = "../authorization.rs"]
mod authorization;
#[path = "../faults.rs"]
mod faults;
#[path = "../run.rs"]
mod run;
#[path = "."]
mod support {
    #[path = "../../../../../adapters/smol/tests/support/adapter.rs"]
    pub(crate) mod adapter;
}
#[path = "../tour.rs"]
mod tour;

use support::adapter;

/// Returns the client that the suites use.
fn wrap(client: mcp_smol::Client) -> adapter::Client {
    adapter::Client(client)
}

fn main() -> std::process::ExitCode {
    run::main()
}
