#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_extensions::skills::fuzzing::front_matter(data));
