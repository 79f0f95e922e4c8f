//! Authorization with real peers: an authorization server that nobody here wrote, a scripted browser, and the protected
//! servers and clients of the official SDKs.
//!
//! The peers are in `../peers`. First of all they have to work with each other, so that a later failure is ours.

extern crate alloc;

mod authorization_server;
mod browser;
mod flow_driver;
#[path = "../interop/hosted_server.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod hosted_server;
#[path = "../conformance/node.rs"]
mod node;
mod oidc_provider;
mod own_client;
mod own_flow;
mod own_login;
mod own_server;
mod own_validation;
#[path = "../interop/peers.rs"]
mod peers;
mod probe;
mod probe_server;
mod protected_servers;
#[path = "../interop/run.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod run;
mod sdk;
mod sdk_clients;
mod shared_store;
