#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
//! Conformance checks of servers of the Model Context Protocol by rule id, and the diagnosis of a server that does not work.
//!
//! - [`Check`] checks a server against the specification: with valid and invalid requests, in each era that it speaks. Its [`Report`] has
//!   [findings](Finding) by [rule](Rule), and is also JSON, SARIF and JUnit's XML. Tools are never called. Feature `checks`.
//! - [`diagnosis::Diagnosis`] goes from a program or a URL to the first answer, and says of the first step that fails what, why, and what to
//!   do.
//!
//! Both take a [`Target`], block, and print nothing. A server is a peer that may do anything: what is kept of it is bounded (lines of
//! 16 MiB, 256 MiB in all), each wait has a limit, and texts that quote it are cut and without secrets, but not escaped for a terminal.
//!
//! ```no_run
//! use core::ops::ControlFlow;
//!
//! use mcp_check::Target;
//! use mcp_check::diagnosis::{Diagnosis, Steps};
//! use mcp_std::process::{Program, Stderr};
//!
//! let server = Target::from(Program::new("my-server").stderr(Stderr::Capture));
//! let mut steps = Steps::new(|step| {
//!     println!("{}: {:?}", step.name, step.outcome);
//!     ControlFlow::Continue(())
//! });
//! Diagnosis::new(&server).run(&mut steps)?;
//! # Ok::<(), mcp_check::diagnosis::Ended>(())
//! ```
//!
//! # Adding a rule
//!
//! A rule, its text and the code that checks it stand in one module below `check/`: a row of `rules_of!`, and the place that adds a
//! finding of it.
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `auth` | the diagnosis follows a server that asks for a token to its authorization server, and tries [`diagnosis::Tokens`] |
//! | `checks` | [`Check`] with its rules and reports; enables `auth` |
//! | `tls` | `https` URLs, by `rustls` and `ring`; the build needs a C compiler |

#[cfg(feature = "checks")]
extern crate alloc;

#[cfg(feature = "checks")]
mod check;
pub mod diagnosis;
#[cfg(feature = "auth")]
mod document;
mod exchange;
pub mod hints;
pub mod junit;
pub mod sarif;
mod stream;
mod target;
mod text;

#[cfg(feature = "checks")]
pub use check::{Category, Check, CheckError, Counts, Finding, Profile, Report, Rule, Severity, rules};
pub use target::Target;
