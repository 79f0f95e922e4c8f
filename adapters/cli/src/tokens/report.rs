//! `login --show`: what is stored for a server, which `login` shows at its end as well.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_oauth::TokenRecord;
use serde::Serialize;

use super::args::LogInArgs;
use crate::authorization::{self, ProbeStore};
use crate::failure::{CommandFailure, Exit};
use crate::output::{pad_label, print, print_value, push_row};
use crate::paint::Paint;
use crate::server::RemoteServer;

/// Output of `--json`. It holds no secret.
#[derive(Serialize)]
struct AuthorizationReport<'a> {
    resource: &'a str,
    issuer: &'a str,
    client_id: &'a str,
    registration: &'a str,
    scopes: Vec<&'a str>,
    /// Scopes that the next login asks for, because the server asked for more.
    needed_scopes: Vec<&'a str>,
    /// Unix time in seconds.
    expires_at: Option<u64>,
    refreshable: bool,
    dpop: bool,
}

/// Shows what is stored for a server.
pub(super) fn show_stored(args: &LogInArgs) -> Result<(), CommandFailure> {
    let remote = RemoteServer::from_place(&args.server.place)?;
    let url = authorization::endpoint(&remote)?;
    let store = ProbeStore::open(args.tokens.store.token_store.as_deref());
    match authorization::stored(&store, &url)? {
        Some(record) => show(&record, args.json),
        None => {
            let shown = remote.display_name();
            Err(CommandFailure::new(Exit::Unauthorized, format!("nobody is logged in at {shown}"))
                .with_hint(format!("`mcp-probe login {shown}` logs in")))
        }
    }
}

/// Prints a record without its secrets.
///
/// # Errors
///
/// Fails if stdout cannot be written to.
pub(super) fn show(record: &TokenRecord, json: bool) -> Result<(), CommandFailure> {
    let report = AuthorizationReport {
        resource: record.resource(),
        issuer: record.issuer(),
        client_id: record.client_id(),
        registration: record.registration().name(),
        scopes: record.scopes().iter().collect(),
        needed_scopes: record.needed_scopes().iter().collect(),
        expires_at: record.expires_at(),
        refreshable: record.is_refreshable(),
        dpop: record.is_dpop(),
    };
    if json {
        return print_value(&report);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    print(&format_report(&report, now, Paint::for_stdout()))
}

fn format_report(report: &AuthorizationReport<'_>, now: u64, paint: Paint) -> String {
    let scopes = if report.scopes.is_empty() { "none".to_owned() } else { report.scopes.join(" ") };
    let expires = report.expires_at.map_or_else(|| "unknown".to_owned(), |at| format_expiry(at, now));
    let refreshed = if report.refreshable { ", then refreshed" } else { "" };
    let client = format!("{} ({})", report.client_id, report.registration);
    let bound = if report.dpop { "to a key (DPoP)" } else { "to nothing (bearer)" };
    let mut out = String::new();
    for (label, text) in [
        ("resource", report.resource),
        ("issuer", report.issuer),
        ("client", &client),
        ("scopes", &scopes),
        ("expires", &format!("{expires}{refreshed}")),
        ("bound", bound),
    ] {
        push_row(&mut out, &paint.dim(pad_label(label)), text);
    }
    if !report.needed_scopes.is_empty() {
        let text = format!("{} (the next login asks for them)", report.needed_scopes.join(" "));
        push_row(&mut out, &paint.dim(pad_label("needed")), &text);
    }
    out
}

/// Formats a Unix time as the time that is left.
fn format_expiry(at: u64, now: u64) -> String {
    match at.checked_sub(now) {
        None | Some(0) => "expired".to_owned(),
        Some(left @ ..120) => format!("in {left} s"),
        Some(left @ ..7_200) => format!("in {} min", left / 60),
        Some(left @ ..172_800) => format!("in {} h", left / 3_600),
        Some(left) => format!("in {} days", left / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_formatted_in_rows_with_the_time_left() {
        let mut report = AuthorizationReport {
            resource: "https://h/mcp",
            issuer: "https://as\u{1b}",
            client_id: "c",
            registration: "dynamic",
            scopes: vec!["a", "b"],
            needed_scopes: vec!["c"],
            expires_at: Some(3_700),
            refreshable: true,
            dpop: false,
        };
        let text = format_report(&report, 100, Paint::PLAIN);
        for row in [
            "resource      https://h/mcp\n",
            "issuer        https://as\\u001b\n",
            "client        c (dynamic)\n",
            "scopes        a b\n",
            "needed        c (the next login asks for them)\n",
            "expires       in 60 min, then refreshed\n",
            "bound         to nothing (bearer)\n",
        ] {
            assert!(text.contains(row), "no {row:?}: {text}");
        }
        (report.scopes, report.expires_at, report.refreshable, report.dpop) = (vec![], None, false, true);
        let text = format_report(&report, 100, Paint::PLAIN);
        for row in ["scopes        none\n", "expires       unknown\n", "bound         to a key (DPoP)\n"] {
            assert!(text.contains(row), "no {row:?}: {text}");
        }
    }

    #[test]
    fn expiry_is_the_time_left_in_whole_units() {
        for (left, expected) in
            [(1, "in 1 s"), (119, "in 119 s"), (120, "in 2 min"), (7_200, "in 2 h"), (172_800, "in 2 days")]
        {
            assert_eq!(format_expiry(1_000 + left, 1_000), expected);
        }
        assert_eq!([format_expiry(5, 5), format_expiry(4, 5)], ["expired", "expired"]);
    }
}
