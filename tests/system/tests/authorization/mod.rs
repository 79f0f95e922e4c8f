//! Authorization with real peers: an authorization server that nobody here wrote, a scripted browser, and the protected
//! servers and clients of the official SDKs.
//!
//! The peers are in `../peers`. First of all they have to work with each other, so that a later failure is ours.

mod authorization_server;
#[cfg(feature = "every-peer")]
mod browser;
#[cfg(feature = "every-peer")]
mod flow_driver;
#[cfg(feature = "every-peer")]
mod oidc_provider;
#[cfg(feature = "every-peer")]
mod own_client;
#[cfg(feature = "every-peer")]
mod own_flow;
mod own_login;
mod own_server;
#[cfg(feature = "every-peer")]
mod own_validation;
#[cfg(feature = "every-peer")]
mod probe;
#[cfg(feature = "every-peer")]
mod probe_server;
#[cfg(feature = "every-peer")]
mod protected_servers;
#[cfg(feature = "every-peer")]
mod sdk;
#[cfg(feature = "every-peer")]
mod sdk_clients;
#[cfg(feature = "every-peer")]
mod shared_store;
