//! Test clients and routers of `mcp-blocking` in one thread, on virtual time.

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use crate::suites::testing::{NAP, options_with_timeout, router, tool};
use mcp_blocking::testing;
use mcp_blocking::{Cx, Error, Router};
use mcp_proto::RpcError;
use serde_json::{Value, json};

#[test]
fn handler_may_own_test_client_but_other_threads_may_not_use_it() {
    let patient = options_with_timeout(NAP + Duration::from_secs(600));
    let inner = testing::pair(router(mpsc::channel().0), Default::default()).unwrap();
    let mut outer = Router::new("front", "1.0");
    outer.tool_with(tool("sleep"), move |_: &mut Cx<'_>, arguments: Value| -> Result<String, RpcError> {
        let result = inner.call_tool_with("sleep", &arguments, &patient, &mut |_| {});
        let result = result.map_err(|error| RpcError::internal(error.to_string()))?;
        Ok(result.content[0].as_text().unwrap_or_default().into())
    });
    let client = testing::pair(outer, Default::default()).unwrap();
    assert_eq!(client.call_tool("sleep", &json!({})).unwrap().content[0].as_text(), Some("rested"));
    let error = thread::spawn(move || client.call_tool("sleep", &json!({})).unwrap_err()).join().unwrap();
    assert!(
        matches!(&error, Error::Io(_)) && error.to_string().contains("thread that created it"),
        "{error}"
    );
}

#[test]
fn test_client_reports_registration_mistake() {
    let mut twice = Router::new("twice", "1.0");
    for _ in 0..2 {
        twice.tool_with(tool("x"), |_: &mut Cx<'_>, _: Value| "x");
    }
    assert!(matches!(testing::pair(twice, Default::default()), Err(Error::Register(_))));
}
