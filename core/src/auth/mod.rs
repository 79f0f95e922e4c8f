//! Authorization of a client: from a challenge of a server to an access token, without I/O and without cryptography.

mod network;
mod request;
mod secret;
mod signing;

pub use network::Network;
pub use request::{Fetch, FetchFailure, FetchId, FetchPolicy, FetchResponse};
pub use secret::Secret;
pub use signing::{Algorithm, DpopKey, SignRequest, Signature, SigningKey};
