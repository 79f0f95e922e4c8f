//! The `gateway` command: shows several servers as one.

mod args;
mod server_file;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use mcp_proto_proxy::host::{Error, Gateway, HEALTH_PATH, Notice, Operator, Server};
use mcp_std::process::terminate_all;
use mcp_std::sync::lock;

use crate::args::{ProtectionArgs, ProxyArgs};
#[cfg(not(unix))]
use crate::endpoint::streams;
use crate::endpoint::{http, protection};
use crate::failure::CommandFailure;
use crate::notes;
use crate::proxy::{self, ProxyNotes};
use crate::stop::{self, StopSignal};
pub(crate) use args::GatewayArgs;
use server_file::ServerFile;

/// Runs the gateway until the client is gone, or a signal ends it.
///
/// # Errors
///
/// Fails if the command line or the file is wrong.
pub(crate) fn run(args: GatewayArgs) -> Result<(), CommandFailure> {
    let GatewayArgs { config, proxy: args, protection, store, allow_http } = args;
    let args = Arc::new(args);
    // A wrong file is reported before anything is awaited.
    let mut file = ServerFile::new(config, Arc::clone(&args), store, allow_http);
    let servers = file.read()?;
    let signal = StopSignal::new().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let operator = GatewayOperator {
        notes: ProxyNotes::new(&signal),
        file: Mutex::new(file),
        is_told_to_read: stop::hangup_flag(),
    };
    let options = proxy::options(&args, operator);
    let mut gateway = Gateway::new(SERVER_NAME, env!("CARGO_PKG_VERSION"), options);
    for server in servers {
        gateway.add(server).map_err(|error| CommandFailure::usage(error.to_string()))?;
    }
    let served = match (&args.http.address, &args.http.listen) {
        (Some(address), _) => serve_http(gateway, &args, &protection, address, &signal)?,
        #[cfg(unix)]
        (None, Some(address)) => {
            let (socket, report) = proxy::listen(&args.http, address)?;
            report()?;
            gateway.serve_socket(socket, &signal.stop)
        }
        #[cfg(not(unix))]
        (None, Some(address)) => return Err(streams::unsupported(address)),
        (None, None) => {
            notes::hint_at_terminal("gateway");
            gateway.serve_stdio(&signal.stop)
        }
    };
    // Of servers that did not end in time, or were about to begin.
    terminate_all(stop::SERVER_END_TIMEOUT);
    served.map_err(|error| proxy::failure("gateway", error))
}

/// Serves clients over HTTP.
fn serve_http(
    gateway: Gateway,
    args: &ProxyArgs,
    protection: &ProtectionArgs,
    address: &str,
    signal: &StopSignal,
) -> Result<Result<(), Error>, CommandFailure> {
    let http = http::config(&args.http);
    let (http, address) = protection::apply(protection, &args.http, http, address, SERVER_NAME)?;
    let protected = http.protected_resource().cloned();
    // A document would hide an endpoint at its path.
    let is_hidden = args.http.path == HEALTH_PATH;
    let http = if is_hidden { http } else { http.document(gateway.health(protected.is_none())) };
    let bound = proxy::bind(&args.http, &address, http)?;
    http::report_address(&args.http, bound.address(), protected.as_ref())?;
    #[cfg(feature = "auth")]
    let bound = match protected {
        Some(protected) => bound.validate_tokens(protection::validator(&protected)),
        None => bound,
    };
    Ok(gateway.serve_http(bound, &signal.stop))
}

/// Prints notices, and reads the file again when it changes or a signal says so.
struct GatewayOperator {
    notes: ProxyNotes,
    file: Mutex<ServerFile>,
    is_told_to_read: Arc<AtomicBool>,
}

impl Operator for GatewayOperator {
    fn notice(&self, notice: &Notice<'_>) {
        self.notes.notice(notice);
    }

    /// One that is wrong changes nothing.
    fn changed_servers(&self) -> Option<Vec<Server>> {
        let mut file = lock(&self.file);
        if !self.is_told_to_read.swap(false, Ordering::Relaxed) && !file.has_changed() {
            return None;
        }
        let read = file.read();
        read.map_err(|failure| failure.print_note("the file has changed, and the servers go on as before"))
            .ok()
    }
}

/// Name of the server that clients see.
const SERVER_NAME: &str = "mcp-probe-gateway";
