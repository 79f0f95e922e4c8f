//! `Mcp-Param-*` in legacy sessions: optional, and compared with the body if present.

use mcp_proto::http::server::Config;
use mcp_proto::server::Event;
use mcp_proto::{RawJson, VersionSet};

use super::{answer_call, harness, legacy_request, open_session};

const PARAMS: &str = "\"name\":\"echo\",\"arguments\":{\"region\":\"north\",\"n\":42}";

// covers: XHDR-021, XHDR-022, XHDR-024, XHDR-026, XHDR-027
#[test]
fn legacy_param_fields_are_optional_and_must_match() {
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"no":{"type":"string","x-mcp-header":"No"}}}"#;
    for version in VersionSet::LEGACY.iter().map(|v| v.as_str()).filter(|v| *v != "2024-11-05") {
        let mut web = harness(Config::new());
        web.server.set_tool_schema("echo", &RawJson::new(schema).expect("JSON")).expect("valid annotations");
        let id = open_session(&mut web, version);
        let region = ("Mcp-Param-Region", "north");
        let cases: [(&[(&str, &str)], bool); 9] = [
            (&[], true),
            (&[region], true),
            (&[("mcp-param-region", "=?base64?bm9ydGg=?="), ("Mcp-Param-N", "42.0")], true),
            (&[("Mcp-Param-Other", "x")], true),
            (&[("Mcp-Param-Region", "south")], false),
            (&[region, ("Mcp-Param-N", "43")], false),
            (&[("Mcp-Param-No", "x")], false),
            (&[("Mcp-Param-Region", "=?base64?!?=")], false),
            (&[region, region], false),
        ];
        for (n, (fields, served)) in (2..).zip(cases) {
            let mut all = vec![("Mcp-Session-Id", &*id)];
            all.extend_from_slice(fields);
            let x = web.post(&all, &legacy_request(n, "tools/call", PARAMS));
            match web.poll_event() {
                Some(Event::Call(call)) if served => answer_call(&mut web, &call),
                None if !served => {}
                other => panic!("{version} {fields:?}: {other:?}"),
            }
            let (reply, status) = (web.response(x), if served { 200 } else { 400 });
            assert_eq!(reply.status, status, "{version} {fields:?}");
            // The error of an earlier revision names the request.
            assert_eq!(reply.message()["id"], n, "{version} {fields:?}");
            if !served {
                assert_eq!(reply.message()["error"]["code"], -32020, "{version} {fields:?}");
            }
        }
    }
}
