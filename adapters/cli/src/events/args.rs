//! Options of the command `events`.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mcp_proto::RawJson;

use crate::args::values::{self, NamedArgument, json_object, named_argument};
use crate::args::{TargetArgs, duration, usage};

/// Lists, polls, follows and receives the events of a server (SEP-3415).
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    List(EventsListArgs),
    Poll(EventsPollArgs),
    Follow(EventsFollowArgs),
    Subscribe(EventsSubscribeArgs),
    Receive(EventsReceiveArgs),
    Verify(EventsVerifyArgs),
    Send(EventsSendArgs),
}

/// Lists the event types of a server.
///
/// Each with its modes of delivery, its description, and the arguments that it takes.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP, after_long_help = LIST_HELP)]
#[command(override_usage = usage!("mcp-probe events list [OPTIONS]"))]
pub(crate) struct EventsListArgs {
    /// Prints one JSON object instead.
    ///
    /// Its member events has the types.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// An event type, its arguments, and the position to begin at.
#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// Name of the event type, as `events list` shows it.
    pub(crate) name: String,
    /// Argument of the type: `NAME=VALUE`, or `NAME:=JSON` for a value of any type.
    ///
    /// The schema of the type tells whether VALUE is a string, a number, true or false, or JSON.
    #[arg(value_name = "NAME=VALUE", value_parser = named_argument)]
    pub(crate) arguments: Vec<NamedArgument>,
    /// Sets the position to begin at, as an earlier command has printed it.
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub(crate) cursor: Option<String>,
}

/// Polls an event type once.
///
/// Prints one line for each event, and the cursor for the next poll. Without --cursor there are no events, and a cursor
/// for what happens from now on.
#[derive(Debug, Args)]
#[command(after_help = POLL_HELP, after_long_help = POLL_HELP)]
#[command(override_usage = usage!("mcp-probe events poll [OPTIONS] <NAME> [NAME=VALUE]..."))]
pub(crate) struct EventsPollArgs {
    #[command(flatten)]
    pub(crate) event: EventArgs,
    /// Prints the result as one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// When a command that follows events ends.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct EndArgs {
    /// Ends after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<Duration>,
    /// Ends after this number of events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

/// Follows an event type by a stream, or by polls.
///
/// Prints one line for each event. Gaps and errors go to stderr. A lost stream is opened again from the last position.
/// Ends on Ctrl-C, at the limit that --for or --count sets, or when the server ends the subscription.
#[derive(Debug, Args)]
#[command(after_help = FOLLOW_HELP, after_long_help = FOLLOW_HELP)]
#[command(override_usage = usage!("mcp-probe events follow [OPTIONS] <NAME> [NAME=VALUE]..."))]
pub(crate) struct EventsFollowArgs {
    #[command(flatten)]
    pub(crate) event: EventArgs,
    /// Prints each event as one line of JSON instead.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) end: EndArgs,
    /// Polls, even if there are streams.
    #[arg(long)]
    pub(crate) poll: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The secret of a webhook: `whsec_` and Base64.
#[derive(Debug, Args)]
pub(crate) struct WebhookSecretArgs {
    /// Reads the secret from this environment variable.
    ///
    /// It is whsec_ and 24 to 64 bytes in Base64.
    #[arg(long, value_name = "NAME", group = "secret")]
    pub(crate) secret_env: Option<String>,
    /// Reads the secret from this file.
    #[arg(long, value_name = "FILE", group = "secret")]
    pub(crate) secret_file: Option<PathBuf>,
}

/// Subscribes a webhook, and receives its deliveries with --listen.
///
/// With --listen the secret is new and known to this program alone: it answers the challenge, verifies and prints
/// deliveries, refreshes the subscription, and unsubscribes at its end: on Ctrl-C, or at the limit that --for or --count
/// sets. Without it, the receiver is elsewhere and has the secret of --secret-env or --secret-file: the webhook is
/// subscribed once, until the time that is printed.
#[derive(Debug, Args)]
#[command(after_help = SUBSCRIBE_HELP, after_long_help = SUBSCRIBE_HELP)]
#[command(override_usage = usage!("mcp-probe events subscribe [OPTIONS] --url <URL> <NAME> [NAME=VALUE]..."))]
pub(crate) struct EventsSubscribeArgs {
    #[command(flatten)]
    pub(crate) event: EventArgs,
    /// Sets the URL of the receiver, as the server reaches it: https.
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// Receives deliveries at this address: 127.0.0.1:8080.
    ///
    /// Requests come over HTTP, to the path of --url: the proxy with the certificate of that URL passes them on. With port 0
    /// the system chooses a port, which is printed on stderr.
    #[arg(long, value_name = "ADDR:PORT", required_unless_present = "secret", conflicts_with = "secret")]
    pub(crate) listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) secret: WebhookSecretArgs,
    /// Prints each event as one line of JSON instead.
    #[arg(long, requires = "listen")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) end: EndArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Receives deliveries to a webhook, without a server.
///
/// Answers challenges, verifies deliveries, and prints one line for each event. It speaks HTTP: callback URLs are https,
/// so a proxy with the certificate passes requests on. Ends on Ctrl-C, or at the limit that --for or --count sets.
#[derive(Debug, Args)]
#[command(after_help = RECEIVE_HELP, after_long_help = RECEIVE_HELP)]
pub(crate) struct EventsReceiveArgs {
    /// Listens at this address: 127.0.0.1:8080.
    ///
    /// With port 0 the system chooses a port, which is printed on stderr.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// Sets the path of the callback URL.
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = values::path)]
    pub(crate) path: String,
    /// Sets the id of the subscription, as `events subscribe` shows it.
    ///
    /// Without it, it is learned from the first challenge.
    #[arg(long, value_name = "ID")]
    pub(crate) subscription: Option<String>,
    #[command(flatten)]
    pub(crate) secret: WebhookSecretArgs,
    /// Prints each event as one line of JSON instead.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) end: EndArgs,
}

/// Verifies a recorded delivery, and says which check fails.
///
/// Prints one line for each check: header fields, signature, time and body. The exit code is 1 if one fails.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP, after_long_help = VERIFY_HELP)]
pub(crate) struct EventsVerifyArgs {
    /// Prints one JSON object instead.
    ///
    /// Its members: ok and checks (check, ok, detail).
    #[arg(long)]
    pub(crate) json: bool,
    /// Reads the header fields from this file, one `Name: value` per line.
    ///
    /// It may begin with the request line.
    #[arg(long, value_name = "FILE")]
    pub(crate) head: PathBuf,
    /// Reads the body from this file, byte by byte as it arrived.
    #[arg(long, value_name = "FILE")]
    pub(crate) body: PathBuf,
    /// Sets the Unix time at which it arrived; by default it is now.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) secret: WebhookSecretArgs,
}

/// Sends a signed test delivery or a challenge to a receiver.
///
/// Prints the status of the answer. The exit code is 1 unless the delivery is acknowledged, or the challenge echoed.
#[derive(Debug, Args)]
#[command(after_help = SEND_HELP, after_long_help = SEND_HELP)]
pub(crate) struct EventsSendArgs {
    /// Prints one JSON object instead.
    ///
    /// Its members: id (of the delivery), status, acknowledged.
    #[arg(long)]
    pub(crate) json: bool,
    /// URL of the receiver: https, or http on this machine.
    pub(crate) url: String,
    /// Sends a challenge instead of an event.
    #[arg(long, conflicts_with_all = ["body", "name", "data"])]
    pub(crate) challenge: bool,
    /// Sends the bytes of this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "data"])]
    pub(crate) body: Option<PathBuf>,
    /// Sets the name of the event type.
    #[arg(long, value_name = "NAME", default_value = "probe.test")]
    pub(crate) name: String,
    /// Sets what happened: a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_object)]
    pub(crate) data: RawJson,
    /// Sets `webhook-id`; by default it is the id of the event, or a random one.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Sets the id of the subscription.
    #[arg(long, value_name = "ID", default_value = "sub_probe")]
    pub(crate) subscription: String,
    #[command(flatten)]
    pub(crate) secret: WebhookSecretArgs,
    /// Limits the time to wait for the answer.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

const LIST_HELP: &str = "\
Examples:
  mcp-probe events list -- mcp-probe serve --everything
  mcp-probe events list --json http://127.0.0.1:8080/mcp | jq -r .events[].name";

const POLL_HELP: &str = "\
Examples:
  mcp-probe events poll tide.changed http://127.0.0.1:8080/mcp
  mcp-probe events poll tide.changed harbour=Cobh --cursor C \\
      http://127.0.0.1:8080/mcp";

const FOLLOW_HELP: &str = "\
Streams need a server of 2026-07-28; others are polled. With --json a line has
the members of the event, and the cursor if one stands behind it: by polls it
does behind the last event of each. The exit code is 1 when the server ends the
subscription, 3 when the connection is lost.

Examples:
  mcp-probe events follow tide.changed harbour=Cobh --count 3 -- \\
      mcp-probe serve --everything
  mcp-probe events follow ship.arrived --json --for 60s -- \\
      mcp-probe serve --everything | jq -r .data.ship";

const SUBSCRIBE_HELP: &str = "\
Examples:
  mcp-probe events subscribe build.finished branch=main \\
      --url https://hooks.example.com/mcp --listen 127.0.0.1:8080 \\
      https://example.com/mcp
  mcp-probe events subscribe build.finished --secret-env HOOK_SECRET \\
      --url https://hooks.example.com/mcp https://example.com/mcp";

const RECEIVE_HELP: &str = "\
Examples:
  mcp-probe events receive --listen 127.0.0.1:8080 --secret-env HOOK_SECRET
  mcp-probe events receive --listen 127.0.0.1:0 --path /hooks \\
      --secret-file hook.secret --json";

const VERIFY_HELP: &str = "\
A signature that does not fit is tried with known mistakes: the text of the
secret as the key, white space at the end of the body, the body alone, and time
before id.

Examples:
  mcp-probe events verify --head head.txt --body body.json \\
      --secret-file hook.secret
  mcp-probe events verify --head head.txt --body body.json --at 1795600800 \\
      --secret-env HOOK_SECRET";

const SEND_HELP: &str = "\
Examples:
  mcp-probe events send http://127.0.0.1:8080/ --challenge \\
      --secret-env HOOK_SECRET
  mcp-probe events send http://127.0.0.1:8080/ --secret-env HOOK_SECRET \\
      --name build.finished --data '{\"build\": 7}'";
