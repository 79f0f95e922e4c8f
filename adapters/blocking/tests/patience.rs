//! A client whose user takes longer to answer than a call may: that time is not the server's.

extern crate alloc;

mod support;

use core::time::Duration;
use std::thread;

use mcp_blocking::{Client, ClientHandler, Cx, Router};
use mcp_proto::client::Config;
use mcp_proto::model::{ElicitParams, ElicitResult, ElicitSchema, Map, Tool};
use mcp_proto::{Capabilities, Capability, Limits, RawJson, RpcError, VersionSet};
use serde_json::{Value, json};
use support::{ERAS, in_time};

/// For each answer of the server
const TIMEOUT: Duration = Duration::from_millis(400);

/// Takes far longer
struct Slow;

impl ClientHandler for Slow {
    fn elicit(&mut self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        thread::sleep(TIMEOUT * 2);
        Ok(ElicitResult::accept(Map::new()))
    }
}

// covers: TIME-008
#[test]
fn the_time_of_a_user_is_not_that_of_the_server() {
    for era in ERAS {
        in_time(move || {
            let (near, far) = mcp_std::memory_pair(1 << 12);
            let server = thread::spawn(move || {
                let mut router = Router::new("harbour", "1.0");
                let tool = Tool::new("book", RawJson::new(r#"{"type":"object"}"#).unwrap());
                router.tool_with(tool, |cx: &mut Cx<'_>, _: Value| -> Result<&str, RpcError> {
                    cx.elicit("sure", "Sure?", ElicitSchema::default())?;
                    cx.elicit("certain", "Certain?", ElicitSchema::default())?;
                    // The server takes its time as well, and less than it has.
                    cx.sleep(TIMEOUT / 4)?;
                    Ok("booked")
                });
                router.serve(near)
            });
            let mut limits = Limits::default();
            limits.call_timeout = TIMEOUT;
            let config = Config::new("sailor", "1.0")
                .versions(VersionSet::ALL.era(era))
                .capabilities(Capabilities::new().with(Capability::ElicitationForm))
                .limits(limits);
            let mut client = Client::options(config).handler(Slow).connect(far).unwrap();
            let booked =
                client.call_tool("book", &json!({})).unwrap_or_else(|error| panic!("{era:?}: {error}"));
            assert_eq!(booked.content[0].as_text(), Some("booked"), "{era:?}");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        });
    }
}
