//! What protocol tests run on: our client against our server ([`Pair`]), or one of them alone ([`Lone`]), in one
//! thread, in memory and on virtual time.
//!
//! Nothing here sleeps, and equal seeds give equal runs. Every message that our side emits is checked: see
//! [`Watch`].

mod app;
pub mod build;
mod client;
mod http_client;
mod lone;
mod pair;
mod rng;
mod say;
mod server;
mod strict;
mod watch;
mod web;
mod wire;

pub use app::App;
pub use http_client::{Asked, ENDPOINT, LoneHttp};
pub use lone::{Lone, LoneClient, LoneServer, Transcript};
pub use pair::{Applications, Line, Pair};
pub use rng::Rng;
pub use say::{client as say_client, server as say_server};
pub use watch::{Message, Watch};
pub use web::{Reply, Sse, Web};
pub use wire::{Chunker, Cutter, Wire, each_cut};
