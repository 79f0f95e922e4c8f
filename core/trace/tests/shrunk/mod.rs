// Written by `UPDATE_SHRUNK=1 cargo test -p mcp-proto-trace`.

#[test]
#[should_panic(expected = "which is not")]
fn recorded_session_is_replayed_without_a_difference() {
    let trace = r#"{"mcpTrace":1,"by":"mcp-probe 0.1.0","unixMillis":1795896732064,"command":["node","talk-server.mjs","talk.json","--sdk","1","--era","legacy"],"masked":true}
{"t":1000,"from":"client","line":"{\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{}},\"jsonrpc\":\"2.0\",\"id\":0}"}
{"t":2000,"from":"client","line":"{\"method\":\"tools/call\",\"jsonrpc\":\"2.0\",\"id\":7}"}
{"t":3000,"from":"server","line":"{\"result\":{},\"id\":\"7\"}"}"#;
    let trace = mcp_proto_trace::Trace::read(trace.as_bytes(), u64::MAX).expect("a trace");
    let outcome = mcp_proto_trace::engine::replay(&trace, mcp_proto_trace::Side::Server);
    assert_eq!(outcome.difference(), None);
}
