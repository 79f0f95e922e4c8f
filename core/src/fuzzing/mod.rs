//! Bodies of the fuzz targets; the unit tests also run them over the seeds.
//!
//! A target accepts any bytes and panics if an invariant is violated. The first bytes choose the setup: limits,
//! revisions and how the input is cut. The rest is the input of a peer or a list of operations. An input that finds an
//! error therefore reproduces it.

#[cfg(feature = "auth")]
mod auth;
#[cfg(feature = "auth")]
mod auth_run;
#[cfg(feature = "http")]
mod challenge;
mod client_pipe;
#[cfg(feature = "http")]
mod fields;
mod form;
#[cfg(feature = "http")]
mod h1_client;
#[cfg(feature = "http")]
mod h1_server;
#[cfg(feature = "http")]
mod http_client_ops;
#[cfg(feature = "http")]
mod http_server_ops;
mod input;
#[cfg(feature = "crypto")]
mod input_task_ops;
mod line;
#[cfg(feature = "http")]
mod media_types;
mod model;
mod pair_ops;
mod router;
mod scanner;
#[cfg(feature = "crypto")]
mod seal;
mod server_ops;
mod server_pipe;
mod sse;
#[cfg(feature = "crypto")]
mod task_ops;
mod template;
#[cfg(test)]
mod tests;
#[cfg(feature = "http")]
mod url;
mod wire;

#[cfg(feature = "auth")]
pub use auth::{auth_challenge, auth_document, auth_flow, auth_record, auth_redirect, auth_token};
#[cfg(feature = "http")]
pub use challenge::challenge;
pub use client_pipe::client_pipe;
#[cfg(feature = "http")]
pub use fields::fields;
pub use form::form;
#[cfg(feature = "http")]
pub use h1_client::h1_client;
#[cfg(feature = "http")]
pub use h1_server::h1_server;
#[cfg(feature = "http")]
pub use http_client_ops::http_client_ops;
#[cfg(feature = "http")]
pub use http_server_ops::http_server_ops;
#[cfg(feature = "crypto")]
pub use input_task_ops::input_task_ops;
pub use line::line;
#[cfg(feature = "http")]
pub use media_types::media_types;
pub use model::model;
pub use pair_ops::pair_ops;
pub use router::router;
pub use scanner::scanner;
#[cfg(feature = "crypto")]
pub use seal::seal;
pub use server_ops::server_ops;
pub use server_pipe::server_pipe;
pub use sse::sse;
#[cfg(feature = "crypto")]
pub use task_ops::task_ops;
pub use template::template;
#[cfg(feature = "http")]
pub use url::url;
