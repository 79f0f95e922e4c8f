//! `bridge`: a client here, a server there, whatever transport and era each of them speaks
#![cfg_attr(not(test), allow(dead_code, reason = "what moves its bytes comes next"))]

mod ask;
mod logs;
mod news;
mod passage;
mod relay;
mod shape;
#[cfg(test)]
mod tests;
