//! The command `login`: gets, shows and forgets the tokens for a server.

mod args;
mod forget;
mod login;
mod report;

use crate::args::authorization::TokenArgs;
use crate::failure::CommandFailure;
pub(crate) use args::LogInArgs;

pub(crate) fn run(args: &LogInArgs) -> Result<(), CommandFailure> {
    if !(args.show || args.forget) {
        return login::log_in(args);
    }
    let TokenArgs { login, grant, client, store: _ } = &args.tokens;
    let of_client = client.given().filter(|_| args.show);
    if let Some(option) = login.given().or_else(|| grant.given()).or(of_client) {
        let what = if args.show { "--show asks nobody" } else { "--forget gets no tokens" };
        return Err(CommandFailure::usage(format!("{what}, so {option} means nothing there")));
    }
    if args.show { report::show_stored(args) } else { forget::forget(args) }
}
