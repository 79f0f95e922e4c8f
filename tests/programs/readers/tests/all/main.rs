//! What `mcp-proto` accepts, read by parsers that others wrote: two readers of one text never disagree.
//!
//! What we refuse is not compared. `differences.tsv` lists where another reader refuses a text, or gives it another value, and why
//! that is accepted. A difference that is not listed fails the test, and so does a listed one that does not occur.

#![allow(missing_docs, reason = "a test program")]

mod challenges;
mod compare;
mod events;
mod forms;
#[path = "../../../../peers/http/h11.rs"]
mod h11;
mod heads;
mod json;
mod media_types;
mod process;
mod urls;
