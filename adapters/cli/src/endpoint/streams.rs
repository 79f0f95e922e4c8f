//! Serving the connections of a socket, independent of the adapter and of the server.

use mcp_blocking::Error;
use mcp_std::io::{SerialConfig, SerialPort, Socket, StreamAddress};

use crate::args;
use crate::failure::{CommandFailure, Exit};
use crate::notes;
#[cfg(unix)]
pub(crate) use mcp_blocking::StreamConnection;

/// A connection of a socket; none can be accepted on this platform.
#[cfg(not(unix))]
pub(crate) enum StreamConnection {}

#[cfg(not(unix))]
impl StreamConnection {
    pub(crate) fn shut_down(&self, _: mcp_blocking::Handle) {
        match *self {}
    }
}

/// Runs `serve` on a thread for each connection, until a signal arrives. Its failures are printed.
///
/// # Errors
///
/// Fails if the address cannot be bound, or if the listener fails.
#[cfg(unix)]
pub(crate) fn run(
    args: &args::ServeHttpArgs,
    address: &StreamAddress,
    serve: impl Fn(Socket, &StreamConnection) -> Result<(), CommandFailure> + Send + Sync + 'static,
) -> Result<(), CommandFailure> {
    use mcp_blocking::StreamServer;

    use crate::stop;

    let mut server = StreamServer::bind(address)
        .map_err(|error| CommandFailure::new(Exit::Connection, error.to_string()))?;
    if let Some(connections) = args.max_connections {
        server = server.max_connections(connections);
    }
    let failed =
        |error: std::io::Error| CommandFailure::failed(format!("{address} cannot be served: {error}"));
    let handle = server.handle();
    stop::run_on_signal(move || handle.shutdown(stop::GRACE_PERIOD));
    report_address(server.address(), server.is_reachable_from_outside(), address)?;
    let served = server.run(move |socket, connection| {
        if let Err(failure) = serve(socket, connection) {
            failure.print_note("a connection failed");
        }
        Ok::<(), Error>(())
    });
    served.map_err(failed)
}

/// Prints where a socket listens, and warns if other machines can reach it.
///
/// # Errors
///
/// Fails if the system does not tell.
#[cfg(unix)]
pub(crate) fn report_address(
    at: std::io::Result<StreamAddress>,
    is_reachable_from_outside: std::io::Result<bool>,
    address: &StreamAddress,
) -> Result<(), CommandFailure> {
    let failed =
        |error: std::io::Error| CommandFailure::failed(format!("{address} cannot be served: {error}"));
    notes::print_stderr(&format!("listening at {}", at.map_err(failed)?));
    if is_reachable_from_outside.map_err(failed)? {
        notes::print_note(
            "other machines can reach this address: everyone who does can use the server, and others on the way can read \
             and change messages. There is no TLS, no token and no check of hosts and origins; --http has them",
        );
    }
    Ok(())
}

/// Fails on this platform.
///
/// # Errors
///
/// Always.
#[cfg(not(unix))]
pub(crate) fn run(
    _: &args::ServeHttpArgs,
    address: &StreamAddress,
    _: impl Fn(Socket, &StreamConnection) -> Result<(), CommandFailure> + Send + Sync + 'static,
) -> Result<(), CommandFailure> {
    let _: Option<Error> = None;
    Err(unsupported(address))
}

/// Creates the failure of this platform.
#[cfg(not(unix))]
pub(crate) fn unsupported(address: &StreamAddress) -> CommandFailure {
    CommandFailure::failed(format!("cannot listen at {address}: --listen needs a Unix system"))
}

/// Opens a serial line.
///
/// # Errors
///
/// Fails if it cannot be opened.
pub(crate) fn open_serial(serial: &SerialConfig) -> Result<SerialPort, CommandFailure> {
    SerialPort::open(serial)
        .map_err(|error| CommandFailure::new(Exit::Connection, format!("cannot open {serial}: {error}")))
}
