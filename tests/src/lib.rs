//! What the tests of the whole workspace share: validation against the protocol's JSON Schemas, and the
//! report that says which requirements the tests cover.
//!
//! * [`harness`] runs our client and our server against each other, or one of them alone, on virtual time.
//! * [`ours`] is our client on every runtime, behind one trait.
//! * [`schema`] decides which type of which revision a message must be an instance of, and validates it.
//! * [`requirements`] reads the ids that tests cite, compares them with the tests that really ran, and backs
//!   the `requirements` program.

extern crate alloc;

pub mod harness;
pub mod ours;
pub mod published;
pub mod requirements;
pub mod schema;
