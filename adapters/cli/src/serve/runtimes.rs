//! The demonstration server on an adapter other than `mcp-blocking`.

mod smol;
mod threads;
mod tokio;

use alloc::sync::Arc;

use crate::args::{self, Runtime};
use crate::failure::CommandFailure;

pub(super) fn run(args: &Arc<args::ServeArgs>) -> Result<(), CommandFailure> {
    match args.runtime {
        Runtime::Blocking => super::blocking::run(args),
        Runtime::Threads => threads::run(args),
        Runtime::Smol => smol::run(args),
        Runtime::Tokio => tokio::run(args),
    }
}
