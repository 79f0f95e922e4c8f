//! Authorization of a client: from a challenge of a server to an access token, without I/O and without cryptography.

mod client_metadata;
mod client_request;
mod config;
mod document;
mod error;
mod flow;
mod form;
mod jose;
mod locations;
mod network;
mod record;
mod request;
mod resource_metadata;
mod scope;
mod search;
mod secret;
mod server_metadata;
mod signing;
mod token;

pub use client_metadata::{ClientMetadata, ClientMetadataError};
pub use config::{
    ApplicationType, ClientAuth, ClientCredentials, Config, DpopMode, GrantType, IdentityProvider,
};
pub use error::{Error, ErrorKind, Step};
pub use flow::{AssertionRequest, Event, Flow, RedirectOutcome, Trigger, UserCode, redirect_query};
pub use network::Network;
pub use record::{Registration, TokenRecord};
pub use request::{Fetch, FetchFailure, FetchId, FetchPolicy, FetchResponse};
pub use scope::{ScopeError, Scopes};
pub use secret::Secret;
pub use signing::{Algorithm, DpopKey, SignRequest, Signature, SigningKey};
pub use token::AccessToken;
