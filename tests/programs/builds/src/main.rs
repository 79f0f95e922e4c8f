//! `mcp-builds CONFIG`: serves the commands of a configuration as tools, on stdin and stdout.
//!
//! It listens on no port: a server that runs commands is started by those who may run them.

#![forbid(unsafe_code)]
// A program that uses no deprecated feature gets no warning: neither from macros nor from generic code.
#![deny(deprecated)]

mod config;
mod entries;
mod logs;
mod process_group;
mod runner;

use std::env;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use mcp_tokio::{Server, on_terminate};

use config::Config;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Some(path) = env::args_os().nth(1) else { bail!("usage: mcp-builds CONFIG") };
    let (router, runner) = entries::router(Config::read(Path::new(&path))?);
    let server = Server::stdio(router.config()?, router)?;
    tokio::spawn(entries::announce(runner, server.handle()));
    // When the server has ended, the futures of its calls are dropped, and with them the processes.
    let handle = server.handle();
    on_terminate(move || handle.shutdown(Duration::ZERO))?;
    Ok(server.run().await?)
}
