//! The `doctor` command: finds the first step on the way to a server that fails, and why.

mod args;
#[cfg(feature = "auth")]
mod authorization;
mod clock;
mod http;
mod network;
mod output;
mod program;
mod report;
mod session;
mod status;

use crate::failure::CommandFailure;
use crate::server::Server;
pub(crate) use args::DoctorArgs;
use report::Diagnosis;

pub(crate) fn run(mut args: DoctorArgs) -> Result<(), CommandFailure> {
    let server = Server::from_args(&args.server)?;
    args.authorization.asks_nobody = true;
    let mut diagnosis = Diagnosis::new(args.json);
    let outcome = diagnose(&mut diagnosis, args, &server);
    // A command line that is wrong ends before the first step, and is reported as by other commands.
    if matches!(&outcome, Err(failure) if !failure.has_result()) {
        return outcome;
    }
    diagnosis.print_json().and(outcome)
}

/// Goes through the steps of the server.
fn diagnose(diagnosis: &mut Diagnosis, args: DoctorArgs, server: &Server) -> Result<(), CommandFailure> {
    match server {
        Server::Program(program) => program::diagnose(diagnosis, program, args.connect_timeout)?,
        Server::Stream(address) => program::diagnose_stream(diagnosis, address, args.connect_timeout)?,
        Server::Remote(remote) => http::diagnose(diagnosis, &args, remote)?,
    }
    session::diagnose(diagnosis, &args.into_target())
}
