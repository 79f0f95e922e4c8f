//! Tests of `mcp-redis-store` against `redis-server`, and against servers that answer anything.

extern crate alloc;

mod bad_answers;
mod bad_servers;
mod speed;
mod stores;
mod support;
