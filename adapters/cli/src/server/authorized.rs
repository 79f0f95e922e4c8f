//! A server that may require authorization.

use mcp_proto::http::fields::AUTHORIZATION;

use super::{RemoteServer, Server};
use crate::args::{ServerArgs, ServerPlaceArgs};
use crate::failure::CommandFailure;

impl RemoteServer {
    /// Returns the server that a URL or a configuration file names.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if it is a program.
    pub(crate) fn from_place(place: &ServerPlaceArgs) -> Result<Self, CommandFailure> {
        Self::over_http(Server::from_place(place)?)
    }

    /// Returns the server that the options name, with its header fields.
    ///
    /// # Errors
    ///
    /// As [`Server::from_args()`]; also if it is a program.
    pub(crate) fn from_args(args: &ServerArgs) -> Result<Self, CommandFailure> {
        Self::over_http(Server::from_args(args)?)
    }

    fn over_http(server: Server) -> Result<Self, CommandFailure> {
        match server {
            Server::Remote(remote) => Ok(remote),
            Server::Program(_) | Server::Stream(_) => {
                Err(CommandFailure::usage("authorization is for servers over HTTP: give the URL of one"))
            }
        }
    }

    /// Allows a credential to travel to these hosts without TLS.
    pub(crate) fn allow_http(&mut self, hosts: &[String]) {
        self.http_hosts.extend_from_slice(hosts);
    }

    /// Returns whether a header field holds a credential.
    pub(crate) fn has_credential(&self) -> bool {
        self.fields.iter().any(|field| field.name.eq_ignore_ascii_case(AUTHORIZATION))
    }
}
