//! The `mcp` command: this tool as a server for agents.
//!
//! Each call runs a command of this program as a process of its own: it has the output that the schemas describe, it ends with the call,
//! and a fault in it ends nothing else.

mod allowed;
mod definitions;
mod inner;
mod tools;

use alloc::sync::Arc;
use core::sync::atomic::AtomicUsize;
use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use mcp_extensions::skills::SkillFolder;
use mcp_proto::model::Implementation;
use mcp_proto::server::Config;
use mcp_runtime::Error;
use mcp_std::process::terminate_all;

use crate::args::{DraftArgs, duration};
use crate::failure::CommandFailure;
use crate::notes;
use crate::stop;
use allowed::Allowed;
use inner::Bounds;
use tools::Context;

// Several calls run at a time where there are threads.
#[cfg(not(feature = "runtimes"))]
use mcp_blocking as adapter;
#[cfg(feature = "runtimes")]
use mcp_threads as adapter;

/// Serves this tool to an agent over MCP, for the servers that you name.
///
/// The tools inspect, call, read, prompt, check and doctor take the name of a server, never a command: an agent reaches what is allowed
/// here, and starts nothing else. Each call runs this program with --json as a process of its own, and its result is what the program
/// prints (`mcp-probe schema`). Texts of the servers are untrusted, and the results say so.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
pub(crate) struct McpArgs {
    /// Allows a server by a name (may be repeated).
    ///
    /// NAME=SERVER with a URL, tcp://HOST:PORT, unix:PATH, @NAME of `connect`, or a command: words between spaces, or a JSON array of
    /// words. A URL without a query can be its own name. With /* at its end it allows all URLs of the same origin that begin so; they
    /// have no query. A redirect to what is not allowed is not followed, nor is a URL for messages of HTTP+SSE: such a server has two
    /// paths, and needs a URL with /* above both.
    #[arg(long, value_name = "[NAME=]SERVER")]
    pub(crate) allow: Vec<String>,
    /// Allows the servers of a client's configuration file, or one of them (may be repeated).
    ///
    /// Entries, and the variables and files that they name, are read at the start: later changes have no effect.
    #[arg(long, value_name = "FILE[#NAME]")]
    pub(crate) allow_config: Vec<String>,
    /// Allows the traces of this folder for the tool `trace_show`. Links in it are not followed.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) allow_traces: Option<PathBuf>,
    /// Leaves the tool `call` out, the one that may have effects.
    #[arg(long)]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) drafts: DraftArgs,
    /// Limits the time of one call: 2s, 500ms or 0.5.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Limits the size of one result.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(crate) max_output: u64,
}

/// Serves the tools on stdin and stdout until the input ends or a signal arrives.
///
/// # Errors
///
/// Fails if an option is wrong, or if the server stops with an error.
pub(crate) fn run(args: &McpArgs) -> Result<(), CommandFailure> {
    let allowed = Allowed::from_args(args)?;
    if allowed.is_empty() && !allowed.has_traces() {
        return Err(CommandFailure::usage("nothing is allowed: name a server by --allow or --allow-config"));
    }
    notes::hint_at_terminal("mcp");
    let output = usize::try_from(args.max_output).unwrap_or(usize::MAX);
    let context = Arc::new(Context {
        allowed,
        bounds: Bounds { time: args.timeout, output },
        running: AtomicUsize::new(0),
    });
    let mut router = adapter::Router::new("mcp-probe", env!("CARGO_PKG_VERSION"));
    let info = Implementation::new("mcp-probe", env!("CARGO_PKG_VERSION")).title("mcp-probe");
    router.core().info(info).instructions(definitions::INSTRUCTIONS);
    tools::register(&mut router, &context, args.read_only);
    router.skill(SkillFolder::new("skill://mcp-probe").file("SKILL.md", SKILL));
    let config = router.config().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let served = serve(config, router);
    // Of calls that were running.
    terminate_all(inner::END_TIMEOUT);
    served.map_err(|error| CommandFailure::from_serve_error(&error))
}

fn serve(config: Config, router: adapter::Router) -> Result<(), Error> {
    let mut server = adapter::Server::stdio(config, router)?;
    #[cfg(feature = "runtimes")]
    {
        // One more, for what starts no process.
        server = server.workers(tools::MAX_RUNNING + 1);
    }
    let handle = server.handle()?;
    stop::run_on_signal(move || handle.shutdown(stop::GRACE_PERIOD));
    server.run()
}

/// When an agent uses this program, and how.
const SKILL: &str = include_str!("../../skills/mcp-probe/SKILL.md");

const HELP: &str = "\
A call of a tool runs with the rights of this process: its environment, its
files and the tokens of `mcp-probe login`. What is allowed is fixed at the
start, and is read from the command line alone. Values of an entry that a
server repeats are hidden.

Not bounded: `check` and `doctor` fetch the documents about authorization that
a server names, from any origin; a server of a configuration file may redirect
within its origin; a server that becomes a daemon outlives its call. A tool or
prompt whose name begins with - cannot be named. Seven calls run at a time.

Examples:
  mcp-probe mcp --allow demo='mcp-probe serve'
  mcp-probe mcp --allow-config .mcp.json --read-only
  mcp-probe mcp --allow 'https://mcp.example.com/*' \\
      --allow 'files=[\"npx\", \"-y\", \"my-server\", \"/my files\"]'
  mcp-probe mcp --allow-config .vscode/mcp.json#files --allow-traces traces

Entry of a client's configuration file:
  {\"mcpServers\": {\"probe\": {\"command\": \"mcp-probe\",
      \"args\": [\"mcp\", \"--allow-config\", \"/home/ada/project/.mcp.json\"]}}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_has_the_form_of_agent_skills() {
        let (front, body) =
            SKILL.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).expect("front matter");
        let member = |name: &str| {
            let value = front.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.unwrap_or_else(|| panic!("no {name}"))
        };
        // The name of its folder.
        assert_eq!(member("name"), "mcp-probe");
        assert!((1..=1024).contains(&member("description").chars().count()));
        assert!((1..=150).contains(&body.lines().count()));
        let mut router = adapter::Router::new("mcp-probe", "1");
        router.skill(SkillFolder::new("skill://mcp-probe").file("SKILL.md", SKILL));
        assert!(router.check().is_ok());
    }
}
