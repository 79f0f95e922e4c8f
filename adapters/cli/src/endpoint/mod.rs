//! Where a command that serves listens, whom it lets in, and what it says of those that it refuses.

pub(crate) mod http;
pub(crate) mod protection;
pub(crate) mod refusals;
pub(crate) mod streams;
