//! The command `pin`: a lock file of the definitions of a server, and what has changed since.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use mcp_check::sarif;
use mcp_extensions::pins::{Change, DifferenceKind, Finding, Pins};
use mcp_proto::EntryKind;
use serde_json::{Value, json};

use crate::answer::uri_reference;
use crate::args::{TargetArgs, usage};
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, print, print_value};
use crate::paint::Paint;
use crate::session::ClientSession;

/// Writes down the definitions of a server, and tells what has changed.
///
/// Tools, prompts, resources, resource templates and instructions, each with a digest, as JSON. --check compares them
/// with what the server lists later.
#[derive(Debug, Args)]
#[command(after_help = PIN_HELP, after_long_help = PIN_HELP)]
#[command(override_usage = usage!("mcp-probe pin [OPTIONS]"))]
pub(crate) struct PinArgs {
    /// Writes the lock file here instead of to stdout. It must not exist.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replaces a lock file that exists.
    #[arg(long, requires = "out")]
    pub(crate) overwrite: bool,
    /// Tells what has changed since this lock file was written instead.
    ///
    /// Prints a line for each difference, and below it what was pinned (-) and what is listed (+). The exit code is 1 if there is one.
    #[arg(long, value_name = "LOCKFILE", conflicts_with_all = ["out", "overwrite"])]
    pub(crate) check: Option<PathBuf>,
    /// Prints one JSON object instead, with --check.
    ///
    /// Its members: pinned and listed (the digests of everything), findings (kind, name, change, message, and from or
    /// differences: pointer, kind, pinned, listed).
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
    /// Prints a report in SARIF 2.1.0 instead, for the tools of code hosts, with --check.
    #[arg(long, requires = "check", conflicts_with = "json")]
    pub(crate) sarif: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

pub(crate) fn run(args: &PinArgs) -> Result<(), CommandFailure> {
    match &args.check {
        Some(lock) => check(args, lock),
        None => pin(args),
    }
}

fn pin(args: &PinArgs) -> Result<(), CommandFailure> {
    if let Some(path) = args.out.as_ref().filter(|path| !args.overwrite && path.exists()) {
        let lock = escape::shell_word(&path.to_string_lossy());
        return Err(CommandFailure::usage(format!("the lock file {} exists", path.display())).with_hint(
            format!("`mcp-probe pin --check {lock}` tells what has changed; --overwrite replaces the file"),
        ));
    }
    let pins = ClientSession::run(&args.target, read)?;
    let failed =
        |error: &dyn core::fmt::Display| CommandFailure::failed(format!("cannot write the pins: {error}"));
    let text = serde_json::to_string_pretty(&pins).map_err(|error| failed(&error))?;
    let Some(path) = &args.out else {
        // Characters unsafe on a terminal are escaped, which keeps the value the same.
        return print(&format!("{}\n", escape::lines(&text)));
    };
    fs::write(path, text + "\n").map_err(|error| failed(&format!("{}: {error}", path.display())))?;
    print(&format!("{} ({})\n", escape::line(&summary(&pins)), pins.digest()))
}

/// Returns how many entries of each kind there are.
fn read(session: &mut ClientSession) -> Result<Pins, CommandFailure> {
    session.client.read_pins().map_err(|error| session.failure(&error))
}

fn summary(pins: &Pins) -> String {
    let kinds = [EntryKind::Tool, EntryKind::Prompt, EntryKind::Resource, EntryKind::ResourceTemplate];
    let counts = kinds.map(|kind| count(pins.names(kind).count(), &kind.to_string()));
    format!("pinned {}", counts.join(", "))
}

fn check(args: &PinArgs, lock: &Path) -> Result<(), CommandFailure> {
    let pinned = read_lock(lock)?;
    let listed = ClientSession::run(&args.target, read)?;
    let findings = pinned.compare(&listed);
    let locks = [&pinned, &listed].map(|pins| serde_json::to_value(pins).unwrap_or_default());
    if args.sarif {
        print_value(&sarif_report(&findings, lock))?;
    } else if args.json {
        let findings: Vec<Value> = findings.iter().map(|finding| describe(finding, &locks)).collect();
        let digests = (pinned.digest().to_string(), listed.digest().to_string());
        print_value(&json!({ "pinned": digests.0, "listed": digests.1, "findings": findings }))?;
    } else {
        let paint = Paint::for_stdout();
        let mut out = String::new();
        for finding in &findings {
            out.push_str(&format!("{}\n", escape::line(&finding.to_string())));
            let pointers: Vec<_> = match &finding.change {
                Change::Changed(all) if !all.is_empty() => all.iter().map(|one| &*one.pointer).collect(),
                Change::Changed(_) | Change::Added => vec![""],
                _ => Vec::new(),
            };
            for pointer in pointers {
                let [before, after] = values(&locks, finding, pointer);
                out.extend([format_value('-', before), format_value('+', after)]);
            }
        }
        if findings.is_empty() {
            out.push_str(&format!("{}\n", paint.dim("everything is as it was pinned")));
        }
        print(&out)?;
    }
    if findings.is_empty() {
        return Ok(());
    }
    let failure = CommandFailure::failed(format!(
        "{} since the server was pinned",
        count(findings.len(), "difference")
    ));
    Err(failure.after_result())
}

/// Returns the value at a place of an entry, as it is in each of two lock files.
fn values<'v>(locks: &'v [Value; 2], finding: &Finding, pointer: &str) -> [Option<&'v Value>; 2] {
    locks.each_ref().map(|lock| match finding.kind {
        Some(kind) => lock[kind.list_member()].get(&finding.name)?.get("definition")?.pointer(pointer),
        None => lock.get("instructions"),
    })
}

/// Formats a value of a finding in short, as it was pinned (-) or as it is listed (+).
fn format_value(sign: char, value: Option<&Value>) -> String {
    let Some(text) = value.map(Value::to_string) else { return String::new() };
    format!("  {sign} {}\n", escape::line(&escape::shortened(&text, MAX_VALUE_CHARS)))
}

/// Maximum number of characters shown of a value.
const MAX_VALUE_CHARS: usize = 2_000;

fn read_lock(path: &Path) -> Result<Pins, CommandFailure> {
    let wrong = |error: &dyn core::fmt::Display| {
        CommandFailure::usage(format!("the lock file {} cannot be read: {error}", path.display()))
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    serde_json::from_str(&text).map_err(|error| wrong(&error))
}

/// Returns the name of what has happened to an entry, in JSON and as a rule in SARIF.
const fn change_name(change: &Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Renamed { .. } => "renamed",
        Change::Changed(_) => "changed",
        _ => "unreadable",
    }
}

fn describe(finding: &Finding, locks: &[Value; 2]) -> Value {
    let kind = finding.kind.map_or_else(|| "instructions".into(), |kind| kind.to_string());
    let mut described = json!({
        "kind": kind, "name": finding.name, "change": change_name(&finding.change), "message": finding.to_string(),
    });
    match &finding.change {
        Change::Renamed { from } => described["from"] = json!(from),
        Change::Changed(differences) => {
            let differences = differences.iter().map(|difference| {
                let kind = match difference.kind {
                    DifferenceKind::Added => "added",
                    DifferenceKind::Removed => "removed",
                    DifferenceKind::Flipped => "flipped",
                    DifferenceKind::Wider => "wider",
                    DifferenceKind::Narrower => "narrower",
                    _ => "changed",
                };
                let [pinned, listed] = values(locks, finding, &difference.pointer);
                json!({ "pointer": difference.pointer, "kind": kind, "pinned": pinned, "listed": listed })
            });
            described["differences"] = differences.collect();
        }
        _ => {}
    }
    described
}

/// Returns a report in SARIF 2.1.0, whose findings are located in the lock file.
fn sarif_report(findings: &[Finding], lock: &Path) -> Value {
    // SARIF 3.4.3: a reference of RFC 3986. A path that cannot be written as one is left out: then it is just not shown.
    let artifact = uri_reference(lock);
    let rules = [
        ("added", "An entry is listed that is not pinned"),
        ("removed", "A pinned entry is not listed any more"),
        ("renamed", "A pinned entry is listed under another name"),
        ("changed", "A definition is not as it was pinned"),
        ("unreadable", "A definition cannot be compared"),
    ];
    let rules = rules.map(|(id, text)| json!({ "id": id, "shortDescription": { "text": text } }));
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            // What is not there any more cannot mislead a model.
            let level = if finding.change == Change::Removed { "warning" } else { "error" };
            json!({
                "ruleId": change_name(&finding.change),
                "level": level,
                "message": { "text": finding.to_string() },
                "locations": [sarif::location(artifact.as_deref(), &finding.name)],
            })
        })
        .collect();
    sarif::report(&rules, &results)
}

const PIN_HELP: &str = "\
A server can change what its tools say after you have approved them. Look at
them (mcp-probe inspect), pin them, and let --check tell what has changed.

Examples:
  mcp-probe pin --out mail.lock.json https://example.com/mcp
  mcp-probe pin --check mail.lock.json https://example.com/mcp
  mcp-probe pin --check mail.lock.json --sarif -- my-server > findings.sarif";
