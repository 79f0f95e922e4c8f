//! The `login` command: learns what a server asks for, and gets tokens.

use mcp_proto::RawJson;
use mcp_proto::http::client::Url;
use mcp_std::auth::Cancellation;

use crate::args;
use crate::authorization;
use crate::failure::{CommandFailure, Exit};
use crate::output::{print, print_json};
use crate::paint::Paint;
use crate::server::{RemoteServer, Server};
use crate::whoami;

pub(crate) fn run(args: &args::LogInArgs) -> Result<(), CommandFailure> {
    let mut remote = RemoteServer::from_args(&args.server)?;
    let authorizer = authorization::for_login(args, &mut remote)?;
    let (url, shown) = (authorization::endpoint(&remote)?, remote.display_name());
    let server = Server::Remote(remote);
    let Some(challenges) = authorization::learn_challenges(&server, &args.revisions, args.connect_timeout)?
    else {
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
