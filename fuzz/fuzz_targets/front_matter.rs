#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_std::skills::fuzzing::front_matter(data));
