//! Parts that features leave out are refused, and the rest is served.

mod left_out;
#[cfg(feature = "http")]
mod sessions;
