#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_proto::fuzzing::http_server_ops(data));
