//! Bodies of the fuzz targets, which the unit tests run over the seeds too.
//!
//! A target takes any bytes and panics when something that must always hold does not. The first bytes set the stage
//! (limits, revisions, how input is cut), the rest is what a peer sends or a list of things to do, so that an input
//! that found something replays it.

mod client_pipe;
mod dice;
#[cfg(feature = "http")]
mod fields;
#[cfg(feature = "http")]
mod h1_client;
#[cfg(feature = "http")]
mod h1_server;
#[cfg(feature = "http")]
mod http_client_ops;
#[cfg(feature = "http")]
mod http_server_ops;
mod line;
mod model;
mod pair_ops;
mod router;
mod scanner;
#[cfg(feature = "crypto")]
mod seal;
mod server_ops;
mod server_pipe;
mod sse;
mod template;
#[cfg(test)]
mod tests;
mod wire;

pub use client_pipe::client_pipe;
#[cfg(feature = "http")]
pub use fields::fields;
#[cfg(feature = "http")]
pub use h1_client::h1_client;
#[cfg(feature = "http")]
pub use h1_server::h1_server;
#[cfg(feature = "http")]
pub use http_client_ops::http_client_ops;
#[cfg(feature = "http")]
pub use http_server_ops::http_server_ops;
pub use line::line;
pub use model::model;
pub use pair_ops::pair_ops;
pub use router::router;
pub use scanner::scanner;
#[cfg(feature = "crypto")]
pub use seal::seal;
pub use server_ops::server_ops;
pub use server_pipe::server_pipe;
pub use sse::sse;
pub use template::template;
