//! Authorization of a client: the flow in a world of servers, a store and a browser, on virtual time.

mod authorization_code;
mod crashes;
mod device;
mod discovery;
mod dpop;
mod grants;
mod interleavings;
mod log_out;
mod model;
mod refresh;
mod registration;
mod scopes;
mod time_and_size;

use mcp_oauth::{Config, Trigger};
use mcp_tests::harness::authorization::{Outcome, World};

/// Returns the configuration of most tests: a native application that registers itself.
fn config() -> Config {
    Config::new("Harbor")
}

/// Runs a login of a user.
fn log_in(world: &mut World, config: &Config) -> Outcome {
    world.run(config, Trigger::LogIn { challenges: Vec::new() })
}

/// Runs a flow in a new world that `change` prepared.
fn run(config: &Config, change: impl FnOnce(&mut World)) -> (World, Outcome) {
    let mut world = World::new();
    change(&mut world);
    let outcome = world.unauthorized(config);
    (world, outcome)
}

/// Runs a flow that has to fail, and returns the rule and the text of its error.
fn refused(config: &Config, change: impl FnOnce(&mut World)) -> (&'static str, String) {
    let (_, outcome) = run(config, change);
    let error = outcome.error();
    (error.rule(), error.to_string())
}
