//! Our server and our client as programs that hold the conversations of `tests/peers/talk.json`, for the interop tests

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

A server with --http (0 for any port that is free) says on stderr where it listens, with --sse where the transport of
2024-11-05 is, and ends when its input does; what one instance has sealed, another one of the same --secret can open. A
client finds out by itself which transport is at a URL.

TALK is tests/peers/talk.json. A server appends what only it can see to FILE, one JSON line each; a client reads there
what its server saw. A client writes what came of its steps to stdout, one JSON line each. Messages are written to files
beside FILE that end in .server and .client, with > before those that were sent and < before those that came.
";

/// What was said on the command line
struct Given {
    /// `talk.json`
    talk: Value,
    versions: VersionSet,
    log: Option<PathBuf>,
    time_out: Option<u64>,
    http: Option<Http>,
    part: String,
    server: Vec<String>,
}

/// Where a server is reached that does not serve its stdin
struct Http {
    port: u16,
    /// The transport of 2024-11-05
    sse: bool,
    secret: Option<[u8; 32]>,
}

impl Given {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let talk = words.next().ok_or("no TALK")?;
        let talk = fs::read(&talk).map_err(|error| format!("{talk}: {error}"))?;
        let talk = serde_json::from_slice(&talk).map_err(|error| error.to_string())?;
        let (versions, part) = (VersionSet::ALL, String::new());
        let (mut http, mut sse, mut secret) = (None, false, None);
        let mut given =
            Self { talk, versions, log: None, time_out: None, http: None, part, server: Vec::new() };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match &*word {
                "--era" => {
                    given.versions = match &*value()? {
                        "modern" => VersionSet::MODERN,
                        "legacy" => VersionSet::LEGACY,
                        other => return Err(format!("no era {other}")),
                    }
                }
                "--revision" => {
                    let revision = value()?;
                    let version = Version::from_name(&revision).ok_or("no such revision")?;
                    given.versions = VersionSet::only(version);
                }
                "--http" => http = Some(value()?.parse().map_err(|_| "not a port")?),
                "--sse" => sse = true,
                "--secret" => secret = Some(key(&value()?)?),
                "--log" => given.log = Some(value()?.into()),
                "--time-out" => given.time_out = Some(value()?.parse().map_err(|_| "not a number")?),
                "--part" => given.part = value()?,
                "--" => given.server = words.by_ref().collect(),
                other => return Err(format!("what is {other}?")),
            }
        }
        given.http = http.map(|port| Http { port, sse, secret });
        Ok(given)
    }
}

/// 32 bytes in hexadecimal digits
fn key(hex: &str) -> Result<[u8; 32], String> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| {
        let pair = core::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| "not 32 bytes in hexadecimal digits".into())
}

/// Limits under which everything that passes is shown
fn watched() -> Limits {
    let mut limits = Limits::default();
    limits.tap_records = 10_000;
    limits.tap_bytes = 64 << 20;
    limits
}

/// A file that lines are appended to; none for nowhere
struct Lines(Option<File>);

impl Lines {
    fn open(path: Option<&Path>) -> Result<Self, String> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path));
        Ok(Self(file.transpose().map_err(|error| error.to_string())?))
    }

    /// What passes this side, `role`, stands beside the log
    fn wire(log: Option<&Path>, role: &str) -> Result<Self, String> {
        Self::open(log.map(|log| log.with_extension(role)).as_deref())
    }

    /// At once: a line that is held back would look like something that did not happen
    fn add(&self, line: &[u8]) {
        if let Some(mut file) = self.0.as_ref() {
            file.write_all(&[line, b"\n"].concat()).expect("room for a line");
        }
    }

    /// A message, with `>` before what this side wrote
    fn passed(&self, record: &TapRecord) {
        let mark = match record.direction {
            tap::Direction::Out => b">",
            tap::Direction::In => b"<",
        };
        self.add(&[mark, &*record.bytes].concat());
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let role = words.next();
    let outcome = Given::read(words).and_then(|given| match role.as_deref() {
        Some("serve") => server::serve(given),
        Some("client") => client::talk(&given),
        _ => Err(USAGE.into()),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Nobody is left to be told when this fails.
            let _ = writeln!(io::stderr(), "talker: {why}");
            ExitCode::FAILURE
        }
    }
}
