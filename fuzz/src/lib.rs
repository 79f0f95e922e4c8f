//! Bodies of the fuzz targets. `tests/fuzz_bodies.rs` has this file as a module, and runs them over the seeds.
//!
//! A target accepts any bytes and panics if an invariant is violated. The first bytes choose the setup: limits,
//! revisions and how the input is cut. The rest is the input of a peer or a list of operations. An input that finds an
//! error therefore reproduces it.

#[allow(unused_extern_crates, reason = "the tests that have this file as a module name it in their root")]
extern crate alloc;

mod auth;
mod auth_run;
mod challenge;
mod client_pipe;
mod fields;
mod form;
mod h1_client;
mod h1_server;
mod http_client_ops;
mod http_server_ops;
mod input;
mod input_task_ops;
mod line;
mod media_types;
mod model;
mod pair_ops;
mod reader;
mod router;
mod scanner;
mod seal;
mod server_ops;
mod server_pipe;
mod snapshot;
mod sse;
mod task_ops;
mod template;
mod url;
mod wire;

pub use auth::{auth_challenge, auth_document, auth_flow, auth_record, auth_redirect, auth_token};
pub use challenge::challenge;
pub use client_pipe::client_pipe;
pub use fields::fields;
pub use form::form;
pub use h1_client::h1_client;
pub use h1_server::h1_server;
pub use http_client_ops::http_client_ops;
pub use http_server_ops::http_server_ops;
pub use input_task_ops::input_task_ops;
pub use line::line;
pub use media_types::media_types;
pub use model::model;
pub use pair_ops::pair_ops;
pub use reader::reader;
pub use router::router;
pub use scanner::scanner;
pub use seal::seal;
pub use server_ops::server_ops;
pub use server_pipe::server_pipe;
pub use snapshot::snapshot;
pub use sse::sse;
pub use task_ops::task_ops;
pub use template::template;
pub use url::url;
