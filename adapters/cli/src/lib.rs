//! `mcp-probe`: a command-line tool to inspect, check and serve the Model Context Protocol.
//!
//! An application on top of `mcp-blocking`, `mcp-threads`, `mcp-smol` and `mcp-tokio`. It may use protocol terms that the adapters
//! do not know.
//!
//! This library is no API: it is the program, for packages that build it as one of their own.
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `full` | no | all of these |
//! | `auth` | no | `login`, `logout`, `whoami`, the tokens of other commands, and `serve --protect` |
//! | `check` | no | `check`; other commands compare arguments and results with the schemas of tools; includes `auth` |
//! | `events` | no | `events`, and the events of `serve --everything`; includes TLS for webhooks |
//! | `runtimes` | no | `--runtime threads`, `smol` and `tokio` |
//! | `sessions` | no | `serve --session-store` |
//! | `tls` | no | `https` URLs, and `--tls-cert` of `serve` and `bridge` |

#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
mod args;
#[cfg_attr(not(feature = "auth"), path = "without_authorization.rs")]
mod authorization;
mod bridge;
mod call;
mod changes;
#[cfg(feature = "check")]
mod check;
mod client;
mod complete;
mod completions;
mod content;
mod demo;
mod deviations;
mod era_cache;
mod escape;
#[cfg(feature = "events")]
mod events;
mod failure;
mod features;
mod gateway;
mod inspect;
mod listen;
#[cfg(feature = "auth")]
mod login;
#[cfg(feature = "auth")]
mod logout;
mod ordered;
mod output;
mod paint;
mod ping;
mod pins;
mod progress;
mod prompt;
mod proxy;
mod read;
mod request;
mod sarif;
mod schema;
mod serve;
mod server;
mod session;
mod skills;
mod stop;
#[cfg(feature = "runtimes")]
mod tokio_runtime;
mod tool_arguments;
mod trace;
#[cfg(feature = "auth")]
mod whoami;

use std::env;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::CommandFailure;

/// Runs the program with the arguments of this process.
#[doc(hidden)]
pub fn main() -> ExitCode {
    let words = args::with_server(env::args_os());
    let command = match Cli::try_parse_from(&words) {
        Ok(cli) => cli.command,
        Err(mut error) => {
            args::add_server_tips(&mut error, &words);
            args::add_name_tip(&mut error, &words);
            if error.use_stderr() && args::wants_json(&words) {
                CommandFailure::from_parse_error(&error).print_json();
            }
            error.exit()
        }
    };
    let is_json = command.prints_json_object();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if is_json {
                failure.print_json();
            }
            failure.report()
        }
    }
}

fn run(command: Command) -> Result<(), CommandFailure> {
    features::check(&command)?;
    if !command.ends_by_itself() {
        stop::end_servers_on_signal();
    }
    match command {
        Command::Inspect(args) => inspect::run(&args),
        Command::Call(args) => call::run(&args),
        #[cfg(feature = "check")]
        Command::Check(args) => check::run(&args),
        Command::Read(args) => read::run(&args),
        Command::Prompt(args) => prompt::run(&args),
        Command::Complete(args) => complete::run(&args),
        Command::Listen(args) => listen::run(&args),
        #[cfg(feature = "events")]
        Command::Events(command) => events::run(&command),
        Command::Skills(command) => skills::run(&command),
        Command::Pin(args) => pins::pin(&args),
        Command::Verify(args) => pins::verify(&args),
        Command::Ping(args) => ping::run(&args),
        #[cfg(feature = "auth")]
        Command::Login(args) => login::run(&args),
        #[cfg(feature = "auth")]
        Command::Logout(args) => logout::run(&args),
        #[cfg(feature = "auth")]
        Command::Whoami(args) => whoami::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Bridge(args) => bridge::run(args),
        Command::Gateway(args) => gateway::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => completions::run(&args),
        // It fails: the command needs a feature that is missing. Without `auth` there is no `check` either.
        #[cfg(not(all(feature = "check", feature = "events")))]
        other => features::check(&other),
    }
}
