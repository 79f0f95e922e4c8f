//! Routers of this package in front of the client for tests, on virtual time

use core::time::Duration;

use mcp_blocking::Client;
use mcp_blocking::testing::{self, Server};
use mcp_proto::client::Config;
use mcp_proto::model::{CallToolResult, Tool};
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, Era, RawJson, RpcError, VersionSet};
use mcp_threads::{Call, Cx, Error, Router};
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3600);
const NAP: Duration = Duration::from_secs(3000);

// covers: TIME-001, CANC-002
#[test]
fn a_nap_is_over_at_once_and_time_outs_come_within_it() {
    for era in [Era::Legacy, Era::Modern] {
        let mut router = Router::new("harbour", "1.0");
        let tool = Tool::new("sleep", RawJson::new(r#"{"type":"object"}"#).unwrap());
        router.tool_with(tool, |cx: &mut Cx<'_>, _: Value| {
            cx.sleep(NAP)?;
            Ok::<_, RpcError>("rested")
        });
        let options = Client::options(Config::new("test", "1").versions(VersionSet::ALL.era(era)));
        let mut client = testing::pair_with(options, router).unwrap();
        let before = client.now();
        let patient = CallOptions::new().timeout(HOUR).total(HOUR);
        let result = client.call_tool_with("sleep", &json!({}), &patient, &mut |_| {}).unwrap();
        assert_eq!(result.content[0].as_text(), Some("rested"));
        let took = client.now().saturating_duration_since(before);
        assert!(took >= NAP && took < NAP + Duration::from_secs(1), "{took:?}");
        let error = client.call_tool("sleep", &json!({})).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
    }
}

#[test]
fn any_handler_on_any_revision() {
    for version in VersionSet::ALL.iter() {
        let config = mcp_proto::server::Config::new("any", "1")
            .capabilities(Capabilities::new().with(Capability::Tools));
        let handler = |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool()?.name));
        let client = Client::options(Config::new("test", "1").versions(VersionSet::only(version)));
        let mut client = client.connect(Server::of(config, mcp_threads::testing::actor(handler))).unwrap();
        assert_eq!(client.peer().version, version);
        let result = client.call_tool("x", &json!({})).unwrap();
        assert_eq!(result.content[0].as_text(), Some("x"));
    }
}
