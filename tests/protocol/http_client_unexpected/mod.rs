//! HTTP client: misbehaving servers, proxies and gateways, and calls that end at the wrong moment.

mod accepted;
mod errors;
mod messages;
mod opening;
mod sessions;
mod streams;
mod tolerated;
mod unsent;
