//! The protected servers of the official SDKs refuse what they have to refuse.

use mcp_proto::http::client::Url;
use mcp_system_tests::browser::http::{Request, Response};
use serde_json::json as value;
use std::thread;

use core::time::Duration;

use crate::authorization::authorization_server::{AuthorizationServer, json};
use crate::authorization::sdk::Sdk;

const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;

/// Sends `initialize`, with an access token if there is one.
pub(crate) fn send(method: &str, url: &str, token: Option<&str>) -> Response {
    let url = Url::parse(url).expect("a URL");
    let authorization = token.map(|token| format!("Bearer {token}")).unwrap_or_default();
    let mut fields =
        vec![("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")];
    if token.is_some() {
        fields.push(("Authorization", &authorization));
    }
    Request { method, url: &url, fields: &fields, body: BODY }.send().expect("a response")
}

/// Calls a tool without arguments, in the modern era.
pub(crate) fn call(url: &str, token: &str, tool: &str) -> Response {
    call_with(url, &[("Authorization", &format!("Bearer {token}"))], tool)
}

/// Calls a tool without arguments, in the modern era, with further fields.
pub(crate) fn call_with(url: &str, more: &[(&str, &str)], tool: &str) -> Response {
    let meta = value!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
    });
    let params = value!({"name": tool, "arguments": {}, "_meta": meta});
    let body = value!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let url = Url::parse(url).expect("a URL");
    let mut fields = vec![
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", tool),
    ];
    fields.extend_from_slice(more);
    Request { method: "POST", url: &url, fields: &fields, body: &body }.send().expect("a response")
}

/// Returns the challenge of a response; empty if there is none.
pub(crate) fn challenge(response: &Response) -> String {
    response.fields("www-authenticate").next().unwrap_or_default().to_owned()
}

#[test]
fn servers_describe_themselves_and_check_tokens() {
    let Some(issuer) = AuthorizationServer::start(&["--access-ttl", "4"]) else { return };
    let Some(other) = AuthorizationServer::start(&[]) else { return };
    for sdk in Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()) {
        let server = sdk.start_server(&issuer.issuer);
        let metadata_url = server.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");

        let metadata = json(&send("GET", &metadata_url, None));
        assert_eq!(metadata["resource"], server.url, "{sdk:?}");
        assert_eq!(metadata["authorization_servers"], value!([issuer.issuer]), "{sdk:?}");

        let refused = send("POST", &server.url, None);
        assert_eq!(refused.status, 401, "{sdk:?}: {refused:?}");
        assert!(
            challenge(&refused).contains(&format!("resource_metadata=\"{metadata_url}\"")),
            "{refused:?}"
        );

        let token = issuer.machine_token(&server.url, "mcp:read");
        let accepted = send("POST", &server.url, Some(&token));
        assert_eq!(accepted.status, 200, "{sdk:?}: {accepted:?}");

        // A signature whose first character differs.
        let (signed, signature) = token.rsplit_once('.').expect("a signature");
        let changed = if signature.starts_with('A') { "B" } else { "A" };
        let forged = format!("{signed}.{changed}{}", &signature[1..]);
        let elsewhere = issuer.machine_token("http://127.0.0.1:1/mcp", "mcp:read");
        let foreign = other.machine_token(&server.url, "mcp:read");
        for (kind, bad) in
            [("forged", forged), ("of another resource", elsewhere), ("of another issuer", foreign)]
        {
            let refused = send("POST", &server.url, Some(&bad));
            assert_eq!(refused.status, 401, "{sdk:?}, {kind}: {refused:?}");
            assert!(challenge(&refused).contains("invalid_token"), "{sdk:?}, {kind}: {refused:?}");
        }

        let poor = issuer.machine_token(&server.url, "mcp:write");
        let refused = send("POST", &server.url, Some(&poor));
        assert_eq!(refused.status, 403, "{sdk:?}: {refused:?}");
        assert!(challenge(&refused).contains("insufficient_scope"), "{sdk:?}: {refused:?}");

        thread::sleep(Duration::from_secs(5));
        let expired = send("POST", &server.url, Some(&token));
        assert_eq!(expired.status, 401, "{sdk:?}: {expired:?}");
        server.stop();
    }
    issuer.stop();
    other.stop();
}
