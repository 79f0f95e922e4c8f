//! Harnesses of the protocol tests: client and server in one thread, in memory, on virtual time.
//!
//! [`Pair`] connects a client and a server. [`PipeHarness`], [`HttpClientHarness`] and [`HttpServerHarness`] run one
//! side alone, with the test as its peer.
//!
//! Nothing here sleeps, and equal seeds give equal runs. [`MessageObserver`] checks each message that the tested side
//! emits.

mod app;
pub mod authorization;
pub mod build;
mod client;
mod describe;
mod http_client;
mod http_server;
mod observer;
mod pair;
mod pipe;
mod server;
mod stream;
mod strict;

pub use app::App;
pub use describe::{client_event as describe_client_event, server_event as describe_server_event};
pub use http_client::{ENDPOINT, HttpClientHarness, SentRequest};
pub use http_server::{HttpServerHarness, ParsedSseEvent, RecordedResponse};
pub use mcp_proto::testing::Rng;
pub use observer::{MessageObserver, ObservedMessage};
pub use pair::{Applications, LinkConfig, Pair};
pub use pipe::{ClientHarness, PipeHarness, ServerHarness, Transcript};
pub use stream::{ByteStream, ChunkSizes, Chunker, for_each_chunker};

/// Returns a tenth of a random test's rounds, or all of them with the variable `MCP_TEST_FULL`, as `.ci/run` sets it.
#[must_use]
pub fn rounds(all: u64) -> u64 {
    if std::env::var_os("MCP_TEST_FULL").is_some() { all } else { all.div_ceil(10) }
}
