//! The protocol, rule by rule, on virtual time: see `mcp_tests::harness`.

extern crate alloc;

mod batches;
mod caching;
mod calls_in;
mod calls_out;
mod cancel;
mod classify;
mod common;
mod downgrade;
mod errors;
mod flow;
mod hostile;
mod inputs_client;
mod inputs_server;
mod known_meta;
mod limits;
mod logs_client;
mod logs_server;
mod malformed;
mod matrix;
mod messages;
mod never_sent;
mod news_client;
mod news_server;
mod pairs;
mod parity;
mod probe;
mod progress;
mod rounds;
mod slow_start;
mod tap;
mod timeouts;
mod tolerance;
mod transcripts;
mod verdict;
mod vocabulary;
