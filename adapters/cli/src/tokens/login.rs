//! The `login` command: learns what a server asks for, and gets tokens.

use mcp_auth::client::Cancellation;
use mcp_oauth::{Error, ErrorKind, FetchFailure, Step};
use mcp_proto::http::client::Url;

use super::args::LogInArgs;
use super::report;
use crate::authorization;
use crate::challenges;
use crate::failure::{self, CommandFailure, Exit};
use crate::notes::print_note;
use crate::output::{print, print_value};
use crate::paint::Paint;
use crate::server::{RemoteServer, Server};

pub(super) fn log_in(args: &LogInArgs) -> Result<(), CommandFailure> {
    let mut remote = RemoteServer::from_args(&args.server)?;
    let authorizer = authorization::for_login(&args.tokens, &args.revisions, &mut remote)?;
    let (url, shown) = (authorization::endpoint(&remote)?, remote.display_name());
    let server = Server::Remote(remote);
    let challenges = challenges::learn_challenges(&server, &args.revisions, args.connect_timeout)?;
    let failed = |error| CommandFailure::from_authorization(&error, &url);
    let outcome = match challenges {
        Some(challenges) => authorizer.log_in(&url, challenges, &Cancellation::new()),
        None => {
            // A server may refuse calls alone, and say in its metadata what it asks for. An open one has none, and is no
            // authorization server of 2025-03-26 either.
            let config = authorizer.config().clone().legacy_fallback(false);
            match authorizer.clone().with_config(config).log_in(&url, Vec::new(), &Cancellation::new()) {
                Err(error) if is_open(&error) => {
                    // A document that breaks a rule is worth a word; one that is not there is not.
                    if !(error.rule().is_empty() && matches!(error.kind(), ErrorKind::Invalid(_))) {
                        print_note(&error.to_string());
                    }
                    return show_open(&shown, args.json);
                }
                outcome => outcome,
            }
        }
    };
    if outcome.map_err(failed)?.is_some_and(|token| token.is_server_its_issuer) {
        print_note(
            "the server has no metadata of its own, so it is taken for its authorization server; see --no-legacy-auth",
        );
    }
    // What is stored, not what was received: it is what later commands find.
    match authorizer.stored(&url).map_err(failed)? {
        Some(record) if args.json => report::show(&record, true),
        Some(record) => {
            print(&format!("{} {shown}\n", Paint::for_stdout().good("logged in to")))?;
            report::show(&record, false)
        }
        None => Err(lost(&url)),
    }
}

/// Returns whether a server without challenges has no valid metadata either.
fn is_open(error: &Error) -> bool {
    let is_answer = !matches!(error.kind(), ErrorKind::Fetch(failure) if *failure != FetchFailure::TooLarge);
    error.step() == Step::ResourceMetadata && is_answer
}

fn show_open(shown: &str, json: bool) -> Result<(), CommandFailure> {
    if json {
        return print_value(&());
    }
    print(&format!("{shown} asks for no authorization\n"))
}

/// Creates the failure for tokens that another process has removed at once.
fn lost(url: &Url) -> CommandFailure {
    let shown = failure::url_text(url);
    CommandFailure::new(Exit::Unauthorized, format!("the tokens for {shown} are no longer in the store"))
}
