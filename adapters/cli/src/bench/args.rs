//! Options of `bench`.

use core::time::Duration;

use clap::{Args, ValueEnum};

use crate::args::values::{JsonSource, NamedArgument, duration_or_zero, json_source, named_argument};
use crate::args::{TargetArgs, duration, usage};

/// Measures how fast a server answers, and what it fails at.
///
/// Each connection is one of a client of its own; a command is started once for each. Without --rate a connection has --in-flight
/// calls open at any time, and a slow server gets fewer calls (a closed loop). With --rate calls are due at fixed instants whatever
/// the answers do (an open loop).
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe bench [OPTIONS] <TOOL> [NAME=VALUE]..."))]
pub(crate) struct BenchArgs {
    /// Name of the tool to call, as `inspect` shows it.
    #[arg(required_unless_present = "method")]
    pub(super) tool: Option<String>,
    /// Argument of the tool: `NAME=VALUE`, or `NAME:=JSON` for a value of any type.
    #[arg(value_name = "NAME=VALUE", value_parser = named_argument)]
    pub(super) arguments: Vec<NamedArgument>,
    /// Sets the arguments of the tool: a JSON object, @FILE or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_source)]
    pub(super) args: JsonSource,
    /// Sends this request instead of calling a tool.
    #[arg(long, value_enum, conflicts_with_all = ["tool", "args"])]
    pub(super) method: Option<Method>,
    /// Sets the number of connections.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) connections: u32,
    /// Sets the number of calls that each connection has open at any time.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "rate")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) in_flight: u32,
    /// Starts this many calls in a second, on all connections together, whatever the answers do.
    #[arg(long, value_name = "R", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Sets how long to measure.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(super) time: Duration,
    /// Measures this many calls instead of a time.
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) calls: Option<u64>,
    /// Sets how long calls are made before any is measured.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration_or_zero)]
    pub(super) warm_up: Duration,
    /// Sets how many calls may fail without the exit code 1.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) allow_errors: u64,
    /// Prints one JSON object instead.
    ///
    /// Its members: request, connections, inFlight (null in an open loop), rate (null in a closed one), seconds, interrupted,
    /// calls (succeeded + failed + unanswered), succeeded, failed, unanswered (when it was interrupted), callsPerSecond (of those
    /// that succeeded), milliseconds (of those that succeeded: min, mean, p50, p90, p99, p999, max; null if there are none),
    /// histogram (of the same calls: from and to, in milliseconds, and calls), errors (kind: timeout, connection, toolError,
    /// malformed, other, or error with a code; calls, example), and server (of a command that was started, on Linux; otherwise
    /// null: processes, peakBytes and residentBytes with sum and largest, cpuMilliseconds).
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// A request that every server answers, or nearly so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// Only servers of the legacy era have it.
    #[value(name = "ping")]
    Ping,
    /// The first page of the list.
    #[value(name = "tools/list")]
    ListTools,
}

impl Method {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::ListTools => "tools/list",
        }
    }
}

/// Parses a number of calls in a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e6).contains(rate));
    rate.ok_or_else(|| "must be a number of calls in a second up to 1000000: write 100, or 0.5".into())
}

const HELP: &str = "\
In an open loop the latency of a call counts from the instant at which it was
due, not from when it was sent. A server that stops for a second then costs all
calls that were due in that second, as it would cost its users. A closed loop
sends nothing in that second and sees one slow call (coordinated omission): use
it to find the highest throughput, and --rate to find the latency under a load.

A connection has at most 1,000 calls without an answer; further ones wait for
their turn, and their waiting counts. Answers that are due when the time is over
are still waited for, up to --timeout. Latencies are those of calls that
succeed. One connection has one thread. Ctrl-C ends the measurement early and
prints what there is. A connection that ends early, and a measurement without
any call, have the exit code 1, whatever --allow-errors says.

Memory and CPU time are those of the commands that were started, with what they
started, until the end of the measurement (Linux: VmHWM and VmRSS of
/proc/PID/status). The CPU time includes the start.

Examples:
  mcp-probe bench echo text=hi -- mcp-probe serve
  mcp-probe bench add a=1 b=2 --connections 8 --in-flight 4 --for 30s \\
      http://127.0.0.1:8080/mcp
  mcp-probe bench echo text=hi --rate 500 --connections 16 -- my-server
  mcp-probe bench --method tools/list --calls 1000 --json -- my-server";
