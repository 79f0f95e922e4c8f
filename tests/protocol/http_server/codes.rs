//! Codes of the errors at the HTTP door, held against the published table of revisions.

use mcp_tests::revision_table::RevisionTable;

use super::*;

/// A request that the door refuses: method, fields, body, and the status of the refusal.
type RefusedRequest = (&'static str, Vec<(&'static str, &'static str)>, String, u16);

/// Returns the refused requests; `{id}` stands for the session.
fn refused_requests() -> Vec<RefusedRequest> {
    let call = || legacy_request(2, "tools/call", ECHO_PARAMS);
    let session = ("Mcp-Session-Id", "{id}");
    vec![
        ("PUT", vec![session], call(), 405),
        ("POST", vec![session, ("Origin", "https://evil.example")], call(), 403),
        ("POST", vec![session, ("Content-Type", "text/plain")], call(), 415),
        ("POST", vec![session, ("Accept", "text/html")], call(), 406),
        ("GET", vec![session, ("Accept", "text/html")], String::new(), 406),
        ("POST", vec![("Mcp-Session-Id", "other")], call(), 404),
        ("POST", vec![], call(), 400),
        ("POST", vec![session], String::new(), 400),
        ("POST", vec![session], "{".into(), 400),
        ("POST", vec![session], "[]".into(), 400),
        ("POST", vec![session, ("Mcp-Method", "tools/list")], call(), 400),
        ("POST", vec![session, ("Mcp-Name", "other")], call(), 400),
        ("POST", vec![session, ("Mcp-Name", "=?base64?%?=")], call(), 400),
        ("GET", vec![session, ("Last-Event-ID", "nothing")], String::new(), 400),
    ]
}

// covers: ERR-005, HTTP-020, HTTP-028
#[test]
fn errors_at_the_door_have_codes_of_the_revision() {
    let table = RevisionTable::read();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let revision = mcp_proto::Version::from_name(version).expect("a revision");
        for (method, fields, body, status) in refused_requests() {
            let mut web = harness(Config::new());
            let id = open_session(&mut web, version);
            let fields: Vec<(&str, &str)> = fields
                .iter()
                .map(|(name, value)| (*name, if *value == "{id}" { &*id } else { *value }))
                .collect();
            let x = if method == "POST" {
                web.post(&fields, &body)
            } else {
                web.send_request(method, "/mcp", &fields, &body)
            };
            let reply = web.response(x);
            assert_eq!(reply.status, status, "{version} {method} {fields:?} {body}: {reply:?}");
            let code = reply.message()["error"]["code"].as_i64().expect("an error");
            assert_eq!(table.error_code(revision, code), code, "{version} {method} {fields:?} {body}");
            // What is not in the table is a code of JSON-RPC.
            assert!((-32768..=-32600).contains(&code), "{version} {method} {fields:?}: {code}");
        }
    }
}
