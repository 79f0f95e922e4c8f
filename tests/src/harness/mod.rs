//! Harnesses of the protocol tests: client and server in one thread, in memory, on virtual time.
//!
//! [`Pair`] connects a client and a server. [`PipeHarness`], [`HttpClientHarness`] and [`HttpServerHarness`] run one
//! side alone, with the test as its peer.
//!
//! Nothing here sleeps, and equal seeds give equal runs. [`MessageObserver`] checks each message that the tested side
//! emits.

use core::panic::AssertUnwindSafe;
use std::panic;

mod app;
pub mod authorization;
pub mod build;
mod client;
mod describe;
#[path = "../../../core/src/testing/extent.rs"]
mod extent;
mod http_client;
mod http_server;
mod observer;
mod pair;
mod pipe;
mod server;

pub use app::App;
pub use describe::{client_event as describe_client_event, server_event as describe_server_event};
pub use extent::{exhaustive, rounds};
pub use http_client::{ENDPOINT, HttpClientHarness, SentRequest};
pub use http_server::{HttpServerHarness, ParsedSseEvent, RecordedResponse};
pub use mcp_proto::testing::{Rng, for_each_cut, for_each_sequence, for_each_text};
pub use mcp_sim::stream::{ByteStream, ChunkSizes, Chunker};
pub use observer::{MessageObserver, ObservedMessage};
pub use pair::{Applications, LinkConfig, Pair};
pub use pipe::{ClientHarness, PipeHarness, ServerHarness, Transcript};

/// Runs `test` with each [`Chunker`] and returns its value, which must be equal each time.
///
/// # Panics
///
/// If two values differ, or if `test` panics. The chunker of a panic is printed.
pub fn for_each_chunker<T: PartialEq + core::fmt::Debug>(test: impl Fn(Chunker) -> T) -> T {
    let first = test(Chunker::Whole);
    for chunker in &Chunker::EACH[1..] {
        let chunker = *chunker;
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| test(chunker)));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => {
                eprintln!("failed with the input cut as {chunker:?}");
                panic::resume_unwind(failure)
            }
        };
        assert_eq!(first, outcome, "{:?} and {chunker:?} differ", Chunker::Whole);
    }
    first
}
