//! Authorization of a client: from a challenge of a server to an access token, without I/O and without cryptography.

mod client_metadata;
mod client_request;
mod config;
mod document;
mod flow;
mod form;
mod jose;
mod locations;
mod network;
mod record;
mod request;
mod resource_metadata;
mod search;
mod secret;
mod server_metadata;
mod signing;
mod token;

pub use crate::error::authorization::{Error, ErrorKind, FetchFailure, Step};
pub use crate::scope::{ScopeError, Scopes};
pub use client_metadata::{ClientMetadata, ClientMetadataError};
pub(crate) use client_request::is_nonce;
pub use config::{
    ApplicationType, ClientAuth, ClientCredentials, Config, DpopMode, GrantType, IdentityProvider,
};
pub use flow::{AssertionRequest, Event, Flow, RedirectOutcome, Trigger, UserCode, redirect_query};
pub(crate) use jose::{ProofClaims, base64url, join};
pub(crate) use locations::without_query as proof_url;
pub use network::Network;
pub use record::{Registration, TokenRecord};
pub use request::{Fetch, FetchId, FetchPolicy, FetchResponse};
pub use secret::Secret;
pub use signing::{Algorithm, DpopKey, SignRequest, Signature, SigningKey};
pub use token::AccessToken;
