//! The demonstration server on an adapter other than `mcp-blocking`.

mod smol;
mod threads;
mod tokio;

use alloc::sync::Arc;

use crate::args::Runtime;
use crate::failure::CommandFailure;
use crate::serve::ServeArgs;

pub(super) fn run(args: &Arc<ServeArgs>) -> Result<(), CommandFailure> {
    match args.runtime {
        Runtime::Blocking => super::blocking::run(args),
        Runtime::Threads => threads::run(args),
        Runtime::Smol => smol::run(args),
        Runtime::Tokio => tokio::run(args),
    }
}
