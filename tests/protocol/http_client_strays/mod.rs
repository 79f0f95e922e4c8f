//! Over HTTP: what servers, proxies and gateways do that they should not, and calls that end at the wrong moment.

mod errors;
mod messages;
mod odd;
mod opening;
mod sessions;
mod streams;
mod unsent;
