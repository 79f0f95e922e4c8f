//! The challenges that a client without a token gets from a server.

use core::time::Duration;

use mcp_blocking::Error;
use mcp_proto::{AuthChallenge, HttpError};

use crate::args::{RevisionArgs, Runtime, StderrChoice};
use crate::client::{Client, SHUTDOWN_TIMEOUTS, client_config};
use crate::failure::{CommandFailure, FailureContext, is_refusal};
use crate::server::{Server, ServerSpec};

/// Connects without a token, and returns the challenges of the server; `None` if it does not refuse.
///
/// # Errors
///
/// Fails if no connection is established for another reason.
pub(crate) fn learn_challenges(
    server: &Server,
    revisions: &RevisionArgs,
    timeout: Duration,
) -> Result<Option<Vec<AuthChallenge>>, CommandFailure> {
    let versions = revisions.version_set().map_err(CommandFailure::usage)?;
    let spoken = (versions, revisions.drafts.followed());
    let config = client_config(spoken, timeout, timeout, false);
    let mut limits = config.effective_limits().clone();
    // Over HTTP a slow probe must not cause a fallback to the legacy handshake.
    (limits.probe_timeout, limits.init_timeout) = (timeout, timeout);
    let spec =
        ServerSpec { server, stderr: StderrChoice::Null, tap_heads: false, authorizer: None, memory: None };
    let context =
        FailureContext { timeout, connect_timeout: timeout, total_timeout: None, is_stderr_shown: true };
    let opened = Client::open(Runtime::Blocking, &spec, config.limits(limits), (), SHUTDOWN_TIMEOUTS)?;
    let outcome = opened.and_then(|mut client| {
        // Some servers let all clients in, and refuse what comes after the handshake.
        let listed = client.list_tools();
        let _ = client.close();
        listed
    });
    match outcome {
        // A server without tools cannot list them.
        Ok(_) | Err(Error::Use(_)) => Ok(None),
        Err(error) => match error.http() {
            Some(refusal @ HttpError::Response(answer)) if is_refusal(refusal) => {
                Ok(Some(answer.challenges.clone()))
            }
            _ => Err(server.failure(&error, &context)),
        },
    }
}
