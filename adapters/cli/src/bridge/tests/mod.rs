//! The bridge between a client and a server of ours, in memory, on virtual time: every pair of revisions

mod calls;
mod ends;
mod news;
mod questions;
