//! Authorization with real peers: an authorization server that nobody here wrote, a scripted browser, and the protected
//! servers and clients of the official SDKs.
//!
//! The peers are in `../peers`. First of all they have to work with each other, so that a later failure is ours.

mod authorization_server;
mod browser;
mod flow_driver;
mod oidc_provider;
mod own_client;
mod own_flow;
mod own_login;
mod own_server;
mod own_validation;
mod probe;
mod probe_server;
mod protected_servers;
mod sdk;
mod sdk_clients;
mod shared_store;
