//! `mcp-probe`: a command-line tool to inspect, check and serve the Model Context Protocol.
//!
//! An application on top of `mcp-blocking`, `mcp-threads`, `mcp-smol` and `mcp-tokio`. It may use protocol terms that the adapters
//! do not know.
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `tls` | no | `https` URLs, and `--tls-cert` of `serve` and `bridge` |

#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
mod args;
mod authorization;
mod bridge;
mod call;
mod changes;
mod check;
mod client;
mod complete;
mod completions;
mod content;
mod demo;
mod era_cache;
mod escape;
mod failure;
mod inspect;
mod listen;
mod login;
mod logout;
mod ordered;
mod output;
mod paint;
mod ping;
mod progress;
mod prompt;
mod read;
mod request;
mod schema;
mod serve;
mod server;
mod session;
mod skills;
mod stop;
mod tokio_runtime;
mod tool_arguments;
mod trace;
mod whoami;

use std::env;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::CommandFailure;

fn main() -> ExitCode {
    let words = args::with_server(env::args_os());
    let command = match Cli::try_parse_from(&words) {
        Ok(cli) => cli.command,
        Err(mut error) => {
            args::add_server_tips(&mut error, &words);
            if error.use_stderr() && args::wants_json(&words) {
                CommandFailure::from_parse_error(&error).print_json();
            }
            error.exit()
        }
    };
    if !matches!(command, Command::Serve(_) | Command::Bridge(_)) {
        stop::end_servers_on_signal();
    }
    let is_json = command.prints_json_object();
    let outcome = match command {
        Command::Inspect(args) => inspect::run(&args),
        Command::Call(args) => call::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Read(args) => read::run(&args),
        Command::Prompt(args) => prompt::run(&args),
        Command::Complete(args) => complete::run(&args),
        Command::Listen(args) => listen::run(&args),
        Command::Skills(command) => skills::run(&command),
        Command::Ping(args) => ping::run(&args),
        Command::Login(args) => login::run(&args),
        Command::Logout(args) => logout::run(&args),
        Command::Whoami(args) => whoami::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Bridge(args) => bridge::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => completions::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if is_json {
                failure.print_json();
            }
            failure.report()
        }
    }
}
