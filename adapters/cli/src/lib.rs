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
//! | `full` | no | all of these but `runtimes` |
//! | `auth` | no | `login`, the tokens of other commands, and `serve --protect` |
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
mod authorizer;
mod bench;
mod bridge;
#[cfg(feature = "auth")]
mod challenges;
mod changes;
// Of a command that is left out, the definition alone remains.
#[cfg_attr(not(feature = "check"), path = "check/args.rs")]
mod check;
mod client;
mod command;
mod completion_request;
mod completions;
mod connect;
mod connections;
mod content;
mod demo;
mod deviations;
mod doctor;
mod endpoint;
mod entries;
mod era_cache;
mod escape;
#[cfg_attr(not(feature = "events"), path = "events/args.rs")]
mod events;
mod failure;
mod features;
mod gateway;
mod generate;
mod handed_over;
mod inspect;
mod listen;
mod mcp;
mod notes;
mod ordered;
mod output;
mod output_schemas;
mod paint;
mod ping;
mod pins;
mod progress;
mod proxy;
mod replay;
mod report;
mod request;
mod results;
mod schema;
mod schemas;
mod screen;
mod serve;
mod server;
mod session;
mod shell;
mod skills;
mod stop;
mod suite;
mod tap;
#[cfg_attr(not(feature = "auth"), path = "tokens/args.rs")]
mod tokens;
#[cfg(feature = "runtimes")]
mod tokio_runtime;
mod tool_arguments;
mod tour;
mod trace;
mod trace_views;
mod verb;
mod words;

use std::env;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use command::{Cli, definition};
use failure::{CommandFailure, Exit};

/// Returns the definition of the command line, for the manual.
#[doc(hidden)]
#[must_use]
pub fn command() -> clap::Command {
    definition()
}

/// Runs the program with the arguments of this process.
#[doc(hidden)]
pub fn main() -> ExitCode {
    let words = words::with_server(env::args_os());
    if let Some(new) = words::changed(&words) {
        let failure = CommandFailure::new(Exit::Usage, new);
        if words.iter().any(|word| word == "--json") {
            failure.print_json();
        }
        return failure.report();
    }
    let mut definition = definition();
    let matches = definition.try_get_matches_from_mut(&words);
    let parsed = matches.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))?;
        Ok((cli.command, words::asks_for_json(&matches), features::check(&definition, &matches)))
    });
    let (command, is_json, checked) = match parsed {
        Ok(parsed) => parsed,
        Err(mut error) => {
            words::add_server_tips(&mut error, &words);
            words::add_name_tip(&mut error, &words);
            if error.use_stderr() && words::wants_json(&words) {
                CommandFailure::from_parse_error(&error).print_json();
            }
            error.exit()
        }
    };
    match checked.and_then(|()| command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if is_json {
                failure.print_json();
            }
            failure.report()
        }
    }
}
