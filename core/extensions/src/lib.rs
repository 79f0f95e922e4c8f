#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]
//! Extensions of the Model Context Protocol, on public interfaces of [`mcp_proto`].
//!
//! | module | content |
//! |---|---|
//! | [`cards`] | server cards and `server.json` (SEP-2127), with the feature `http` |
//! | [`pins`] | digests of definitions, and what has changed since they were pinned |
//! | [`skills`] | skills: entries and their verification (SEP-2640); with `yaml` front matter, by `saphyr-parser`; with `std` folders |
//!
//! It is `no_std` (with `alloc`) without the feature `std`. Programs usually depend on one adapter, which has these modules under
//! the same names, and whose routers and clients use them. An extension elsewhere stands on the same interfaces of the core:
//! [`message!`](mcp_proto::message) declares its messages, [`FolderEntry`](mcp_proto::router::FolderEntry) an entry over resources,
//! [`PublicDocument`](mcp_proto::http::server::PublicDocument) a document beside the endpoint, and
//! [`server::Config::custom_method`](mcp_proto::server::Config::custom_method) a method.
//!
//! # Features
//!
//! | feature | default | what it enables |
//! |---|---|---|
//! | `http` | yes | [`cards`] |
//! | `std` | yes | [`skills::read_skills`], folders on the disk; enables `yaml` |
//! | `yaml` | yes | [`skills::SkillFolder`] and [`skills::read_front_matter`] |

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

#[cfg(feature = "http")]
pub mod cards;
#[cfg(all(test, feature = "std"))]
mod folder_in_tests;
#[cfg(all(test, feature = "yaml"))]
mod fuzz_tests;
pub mod pins;
pub mod skills;
