//! The `login` command: learns what a server asks for, and gets tokens.

use mcp_blocking::Error;
use mcp_proto::http::client::Url;
use mcp_proto::{AuthChallenge, HttpError, RawJson};
use mcp_std::auth::Cancellation;

use crate::args::{self, Runtime, StderrChoice};
use crate::authorization;
use crate::client::Client;
use crate::failure::{CommandFailure, Exit, FailureContext};
use crate::output::{print, print_json};
use crate::paint::Paint;
use crate::server::{RemoteServer, Server, ServerSpec};
use crate::session::{self, SHUTDOWN_TIMEOUTS};
use crate::whoami;

pub(crate) fn run(args: &args::LogInArgs) -> Result<(), CommandFailure> {
    let mut remote = RemoteServer::from_args(&args.server)?;
    let authorizer = authorization::for_login(args, &mut remote)?;
    let (url, shown) = (authorization::endpoint(&remote)?, remote.display_name());
    let Some(challenges) = learn_challenges(args, &Server::Remote(remote))? else {
        if args.json {
            return print_json(
                &RawJson::encode(&()).map_err(|error| CommandFailure::failed(error.to_string()))?,
            );
        }
        return print(&format!("{shown} asks for no authorization\n"));
    };
    let failed = |error| CommandFailure::from_authorization(&error, &url);
    authorizer.log_in(&url, challenges, &Cancellation::new()).map_err(failed)?;
    // What is stored, not what was received: it is what later commands find.
    match authorizer.stored(&url).map_err(failed)? {
        Some(record) if args.json => whoami::show(&record, true),
        Some(record) => {
            print(&format!("{} {shown}\n", Paint::for_stdout().good("logged in to")))?;
            whoami::show(&record, false)
        }
        None => Err(lost(&url)),
    }
}

/// Creates the failure for tokens that another process has removed at once.
fn lost(url: &Url) -> CommandFailure {
    let shown = authorization::url_text(url);
    CommandFailure::new(Exit::Unauthorized, format!("the tokens for {shown} are no longer in the store"))
}

/// Connects without a token, and returns the challenges of the server; `None` if it does not refuse.
fn learn_challenges(
    args: &args::LogInArgs,
    server: &Server,
) -> Result<Option<Vec<AuthChallenge>>, CommandFailure> {
    let versions = args.revisions.version_set().map_err(CommandFailure::usage)?;
    let timeout = args.connect_timeout;
    let config = session::client_config(versions, timeout, timeout, false);
    let mut limits = config.effective_limits().clone();
    // Over HTTP a slow probe must not cause a fallback to the legacy handshake.
    (limits.probe_timeout, limits.init_timeout) = (timeout, timeout);
    let spec = ServerSpec { server, stderr: StderrChoice::Null, tap_heads: false, authorizer: None };
    let context =
        FailureContext { timeout, connect_timeout: timeout, total_timeout: None, is_stderr_shown: true };
    let opened = Client::open(Runtime::Blocking, &spec, config.limits(limits), (), SHUTDOWN_TIMEOUTS)?;
    let outcome = opened.and_then(|mut client| {
        // Some servers let everybody in, and refuse what comes after the handshake.
        let listed = client.list_tools();
        let _ = client.close();
        listed
    });
    match outcome {
        // A server without tools cannot list them.
        Ok(_) | Err(Error::Use(_)) => Ok(None),
        Err(error) => match authorization::http_error(&error) {
            Some(refusal @ HttpError::Response(answer)) if authorization::is_refusal(refusal) => {
                Ok(Some(answer.challenges.clone()))
            }
            _ => Err(server.failure(&error, &context)),
        },
    }
}
