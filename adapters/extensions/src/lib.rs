//! Extensions of the protocol for programs that use `mcp-proto` on `std`.
//!
//! | module | content |
//! |---|---|
//! | [`skills`] | skills: folders of a server, front matter (SEP-2640), with YAML by `saphyr-parser` |
//!
//! The rules of the extensions are in the core ([`mcp_proto::skills`]); here is what needs files and other packages. Programs
//! usually depend on one adapter, which has this module as `skills`, and whose routers and clients use it.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(test)]
mod folder_in_tests;
#[cfg(test)]
mod fuzz_tests;
pub mod skills;
