#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
//! TODO

extern crate alloc;

pub mod diagnosis;
#[cfg(feature = "auth")]
mod document;
mod exchange;
pub mod hints;
pub mod junit;
pub mod sarif;
mod target;
mod text;

pub use target::Target;
