//! Tests without processes and sockets: the protocol on virtual time, schemas, and the rules of this repository.

extern crate alloc;

mod conformance_next;
mod guide;
mod input_requests;
mod layering;
mod model_round_trip;
mod protocol;
mod schema_examples;
mod security_manual;
mod simulation;
mod smuggling;
mod transcripts_model;
mod troubleshooting;
