//! The commands `login`, `logout` and `whoami`: get, forget and show the tokens for a server.

mod args;
mod login;
mod logout;
mod report;

pub(crate) use args::{LogInArgs, LogOutArgs, WhoamiArgs};
pub(crate) use login::log_in;
pub(crate) use logout::log_out;
pub(crate) use report::whoami;
