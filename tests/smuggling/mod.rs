//! HTTP/1.1 request smuggling: hostile heads and bodies with the expected outcome, at every cut and with a hang-up at
//! every byte; and the same inputs through other parsers.

mod drive;
mod exchanges;
#[path = "../peers/http/h11.rs"]
mod h11;
mod parsers;
mod requests;
mod responses;
mod table;
mod timeouts;
