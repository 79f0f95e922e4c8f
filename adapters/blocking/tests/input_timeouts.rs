//! A user who answers later than the call timeout: that time does not count.

use core::time::Duration;
use std::thread;

use crate::support::{ERAS, with_timeout};
use mcp_blocking::{Client, ClientHandler, Cx, Router};
use mcp_proto::client::Config;
use mcp_proto::model::{ElicitParams, ElicitResult, ElicitSchema, Map, Tool};
use mcp_proto::{Capabilities, Capability, Limits, RawJson, RpcError, VersionSet};
use serde_json::{Value, json};

/// Call timeout of the client, for each response of the server. A busy machine makes the server slow.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Answers after the timeout.
struct SlowElicitation;

impl ClientHandler for SlowElicitation {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        thread::sleep(TIMEOUT + Duration::from_millis(200));
        Ok(ElicitResult::accept(Map::new()))
    }
}

// covers: TIME-008
#[test]
fn time_of_user_does_not_count_towards_call_timeout() {
    let both = ERAS.map(|era| {
        thread::spawn(move || {
            let (near, far) = mcp_std::io::memory_pair(1 << 12);
            let server = thread::spawn(move || {
                let mut router = Router::new("harbour", "1.0");
                let tool = Tool::new("book", RawJson::new(r#"{"type":"object"}"#).unwrap());
                router.tool_with(tool, |cx: &mut Cx<'_>, _: Value| -> Result<&str, RpcError> {
                    cx.elicit("sure", "Sure?", ElicitSchema::default())?;
                    cx.elicit("certain", "Certain?", ElicitSchema::default())?;
                    // The time of the server counts, and is shorter than the timeout.
                    cx.sleep(TIMEOUT / 20)?;
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
            let client = Client::options(config).handler(SlowElicitation).connect(far).unwrap();
            let booked =
                client.call_tool("book", &json!({})).unwrap_or_else(|error| panic!("{era:?}: {error}"));
            assert_eq!(booked.content[0].as_text(), Some("booked"), "{era:?}");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        })
    });
    with_timeout(|| both.into_iter().for_each(|one| one.join().unwrap()));
}
