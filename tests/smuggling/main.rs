//! HTTP/1.1 as it must not be read: hostile heads and bodies with the answer that each gets, at every cut and with a
//! hang-up at every byte, and the same through the parsers of others.

extern crate alloc;

mod drive;
mod exchanges;
mod parsers;
mod requests;
mod responses;
mod stalls;
mod table;
