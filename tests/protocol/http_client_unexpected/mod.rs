//! HTTP client: misbehaving servers, proxies and gateways, and calls that end at the wrong moment.

mod errors;
mod messages;
mod opening;
mod sessions;
mod streams;
mod tolerated;
mod unsent;
