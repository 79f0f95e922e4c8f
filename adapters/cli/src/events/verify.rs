//! `events verify`: says which check of a recorded delivery fails.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use mcp_events::webhook::{
    MEDIA_TYPE, SUBSCRIPTION_ID, SignedHead, TOLERANCE, Verifier, VerifyError, WEBHOOK_ID, WEBHOOK_SIGNATURE,
    WEBHOOK_TIMESTAMP,
};
use mcp_events::wire::Envelope;
use mcp_proto::RawJson;
use serde::Serialize;

use super::args::EventsVerifyArgs;
use super::required_secret;
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, print, print_value};

pub(super) fn run(args: &EventsVerifyArgs) -> Result<(), CommandFailure> {
    let verifier = Verifier::new(required_secret(&args.secret)?);
    let head = fs::read_to_string(&args.head).map_err(|error| unreadable(&args.head, &error))?;
    let body = fs::read(&args.body).map_err(|error| unreadable(&args.body, &error))?;
    let now = args.at.unwrap_or_else(unix_secs);
    let mut report = Report { ok: true, checks: Vec::new() };
    let fields = Fields::read(&head, &mut report);
    let signed = fields.signed(&mut report);
    if let Some(head) = signed {
        check_signature(&verifier, &head, &body, now, &mut report);
    }
    check_body(&body, &mut report);
    if args.json {
        print_value(&report)?;
    } else {
        print(&report.checks.iter().map(CheckReport::line).collect::<String>())?;
    }
    match report.checks.iter().filter(|check| !check.ok).count() {
        0 => Ok(()),
        n => Err(CommandFailure::failed(format!("{} failed", count(n, "check"))).after_result()),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::usage(format!("the file {}: {error}", path.display()))
}

fn unix_secs() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The checks so far, and whether none has failed: the output of `--json`.
#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Vec<CheckReport>,
}

#[derive(Serialize)]
struct CheckReport {
    check: &'static str,
    ok: bool,
    detail: String,
}

impl CheckReport {
    fn line(&self) -> String {
        let word = if self.ok { "ok    " } else { "failed" };
        format!("{word}  {:9}  {}\n", self.check, escape::line(&self.detail))
    }
}

impl Report {
    fn good(&mut self, check: &'static str, text: &str) {
        self.add(check, true, text);
    }

    fn bad(&mut self, check: &'static str, text: &str) {
        self.add(check, false, text);
    }

    fn add(&mut self, check: &'static str, ok: bool, text: &str) {
        self.ok &= ok;
        self.checks.push(CheckReport { check, ok, detail: text.to_owned() });
    }
}

/// Header fields as they were recorded.
struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    fn read(head: &'a str, report: &mut Report) -> Self {
        let mut fields = Vec::new();
        for (at, line) in head.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match line.split_once(':') {
                Some((name, value)) if !name.contains(' ') => fields.push((name, value.trim())),
                _ if at == 0 && line.contains(" HTTP/") => {}
                _ => report.bad("field", &format!("line {} is not `Name: value`", at + 1)),
            }
        }
        Self(fields)
    }

    /// Returns the value of a field that has to be there once.
    fn one(&self, name: &str, report: &mut Report) -> Option<&'a str> {
        let mut found = self.0.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let (value, text) = match (found.next(), found.count()) {
            (Some((_, value)), 0) => (Some(*value), name.to_owned()),
            (Some(_), more) => (None, format!("{name} is there {} times", more + 1)),
            (None, _) => (None, format!("{name} is missing")),
        };
        report.add("field", value.is_some(), &text);
        value
    }

    /// Checks the fields of a delivery, and returns those that are signed (EVT-090).
    fn signed(&self, report: &mut Report) -> Option<SignedHead<'a>> {
        if let Some(media_type) = self.one("Content-Type", report) {
            let essence = media_type.split(';').next().unwrap_or_default().trim();
            if !essence.eq_ignore_ascii_case(MEDIA_TYPE) {
                report.bad("field", &format!("Content-Type is not {MEDIA_TYPE}: {media_type}"));
            }
        }
        self.one(SUBSCRIPTION_ID, report);
        let values = [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE].map(|name| self.one(name, report));
        let [Some(id), Some(timestamp), Some(signature)] = values else { return None };
        Some(SignedHead { id, timestamp, signature })
    }
}

/// Checks the signature, and the time apart from it (EVT-120, EVT-121).
fn check_signature(verifier: &Verifier, head: &SignedHead<'_>, body: &[u8], now: u64, report: &mut Report) {
    let outcome = verifier.verify(head, body, now);
    match outcome {
        Ok(()) | Err(VerifyError::Stale { .. } | VerifyError::Future { .. }) => {
            report.good("signature", "it fits id, time and body");
        }
        Err(VerifyError::Mismatch) => match verifier.explain(head, body) {
            Some(mistake) => report.bad("signature", &mistake.to_string()),
            None => report.bad("signature", &VerifyError::Mismatch.to_string()),
        },
        Err(VerifyError::Timestamp) => return report.bad("time", &VerifyError::Timestamp.to_string()),
        Err(error) => report.bad("signature", &error.to_string()),
    }
    let Ok(sent) = head.timestamp.parse::<u64>() else { return };
    let (skew, direction) = if now >= sent { (now - sent, "old") } else { (sent - now, "in the future") };
    let allowed = TOLERANCE.as_secs();
    match skew > allowed {
        false => report.good("time", &format!("{skew} s {direction}")),
        true => report.bad("time", &format!("{skew} s {direction}, and {allowed} s are allowed")),
    }
}

/// Checks that the body is a message, and says which one (EVT-034, EVT-103).
fn check_body(body: &[u8], report: &mut Report) {
    let read = RawJson::new(body.to_vec()).map_err(|error| error.to_string());
    let read = read.and_then(|body| Envelope::read(&body).map_err(|error| error.to_string()));
    match read {
        Ok(Envelope::Event(event)) => {
            report.good("body", &format!("the event {} of `{}`", event.event_id, event.name));
        }
        Ok(Envelope::Gap(_)) => report.good("body", "a gap"),
        Ok(Envelope::Terminated(_)) => report.good("body", "the end of the subscription"),
        Ok(Envelope::Verification(_)) => report.good("body", "a challenge"),
        Ok(_) => report.good("body", "a control envelope of an unknown type, to be acknowledged"),
        Err(error) => report.bad("body", &error),
    }
}
