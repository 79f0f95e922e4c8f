//! Tests without processes and sockets: the protocol on virtual time, schemas.

extern crate alloc;

mod conformance_next;
mod fuzz_bodies;
mod input_requests;
mod model_round_trip;
mod protocol;
mod schema_examples;
mod simulation;
mod smuggling;
mod transcripts_model;
