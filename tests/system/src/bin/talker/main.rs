//! Server and client for the conversations of `tests/peers/talk.json`, used by the interop tests.

extern crate alloc;

mod client;
mod server;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mcp_proto::tap::{self, TapRecord};
use mcp_proto::{Limits, Version, VersionSet};
use serde_json::Value;

const USAGE: &str = "\
usage:
  talker serve TALK [--era modern|legacy] [--log FILE] [--time-out MS] [--http PORT [--sse] [--secret HEX]]
  talker client TALK --part NAME[,NAME...] --era modern|legacy [--revision R] [--log FILE] -- SERVER [ARGS...]
  talker client ... -- URL

With --http (0 for a free port) a server prints its URL to stderr, and with --sse the URL of HTTP+SSE of 2024-11-05. It
exits at the end of its input. Instances with the same --secret can open the sealed state of each other. A client finds
the transport of a URL by itself.

TALK is tests/peers/talk.json. A server appends events that only it can see to FILE, one JSON line each; a client reads
them there. A client writes the outcomes of its steps to stdout, one JSON line each. Messages are written to files beside
FILE that end in .server and .client, after > if they were sent and after < if they were received.
";

/// Command-line arguments.
struct TalkerArgs {
    /// Content of `talk.json`.
    script: Value,
    versions: VersionSet,
    log: Option<PathBuf>,
    timeout: Option<u64>,
    http: Option<HttpArgs>,
    part: String,
    server: Vec<String>,
}

/// Arguments of an HTTP server.
struct HttpArgs {
    port: u16,
    /// Whether to serve HTTP+SSE of 2024-11-05.
    sse: bool,
    secret: Option<[u8; 32]>,
}

impl TalkerArgs {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let talk = words.next().ok_or("no TALK")?;
        let talk = fs::read(&talk).map_err(|error| format!("{talk}: {error}"))?;
        let talk = serde_json::from_slice(&talk).map_err(|error| error.to_string())?;
        let (versions, part) = (VersionSet::ALL, String::new());
        let (mut http, mut sse, mut secret) = (None, false, None);
        let mut args =
            Self { script: talk, versions, log: None, timeout: None, http: None, part, server: Vec::new() };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match &*word {
                "--era" => {
                    args.versions = match &*value()? {
                        "modern" => VersionSet::MODERN,
                        "legacy" => VersionSet::LEGACY,
                        other => return Err(format!("no era {other}")),
                    }
                }
                "--revision" => {
                    let revision = value()?;
                    let version = Version::from_name(&revision).ok_or("unknown revision")?;
                    args.versions = VersionSet::only(version);
                }
                "--http" => http = Some(value()?.parse().map_err(|_| "not a port")?),
                "--sse" => sse = true,
                "--secret" => secret = Some(key(&value()?)?),
                "--log" => args.log = Some(value()?.into()),
                "--time-out" => args.timeout = Some(value()?.parse().map_err(|_| "not a number")?),
                "--part" => args.part = value()?,
                "--" => args.server = words.by_ref().collect(),
                other => return Err(format!("unknown option {other}")),
            }
        }
        args.http = http.map(|port| HttpArgs { port, sse, secret });
        Ok(args)
    }
}

/// Parses 32 bytes in hexadecimal digits.
fn key(hex: &str) -> Result<[u8; 32], String> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| {
        let pair = core::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| "not 32 bytes in hexadecimal digits".into())
}

/// Returns limits under which the tap shows every message.
fn tap_limits() -> Limits {
    let mut limits = Limits::default();
    limits.tap_records = 10_000;
    limits.tap_bytes = 64 << 20;
    limits
}

/// A file to which lines are appended; `None` discards them.
struct LineLog(Option<File>);

impl LineLog {
    fn open(path: Option<&Path>) -> Result<Self, String> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path));
        Ok(Self(file.transpose().map_err(|error| error.to_string())?))
    }

    /// Opens the file of the messages of this side, `role`, beside the log.
    fn open_wire_log(log: Option<&Path>, role: &str) -> Result<Self, String> {
        Self::open(log.map(|log| log.with_extension(role)).as_deref())
    }

    /// Writes a line immediately. A delayed line would look like a missing event.
    fn write_line(&self, line: &[u8]) {
        if let Some(mut file) = self.0.as_ref() {
            file.write_all(&[line, b"\n"].concat()).expect("room for a line");
        }
    }

    /// Writes a message, after `>` if this side sent it and `<` otherwise.
    fn record(&self, record: &TapRecord) {
        let mark = match record.direction {
            tap::Direction::Out => b">",
            tap::Direction::In => b"<",
        };
        self.write_line(&[mark, &*record.bytes].concat());
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let role = words.next();
    let outcome = TalkerArgs::parse(words).and_then(|args| match role.as_deref() {
        Some("serve") => server::serve(args),
        Some("client") => client::run(&args),
        _ => Err(USAGE.into()),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The exit status reports the failure even if stderr is closed.
            let _ = writeln!(io::stderr(), "talker: {error}");
            ExitCode::FAILURE
        }
    }
}
