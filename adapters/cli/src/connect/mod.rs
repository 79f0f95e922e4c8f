//! The command `connect`, and the background process that it talks to.

mod args;
#[cfg(unix)]
mod control;
#[cfg(unix)]
mod foreground;
#[cfg(unix)]
mod keeper;
#[cfg(unix)]
mod process;

pub(crate) use args::{ConnectArgs, KeepArgs};
#[cfg(unix)]
pub(crate) use foreground::run;
#[cfg(all(unix, feature = "check"))]
pub(crate) use foreground::server_of;
#[cfg(unix)]
pub(crate) use keeper::run as keep;

#[cfg(not(unix))]
mod elsewhere {
    use super::ConnectArgs;
    use crate::failure::CommandFailure;
    #[cfg(feature = "check")]
    use crate::server::Server;

    pub(crate) fn run(_: ConnectArgs) -> Result<(), CommandFailure> {
        Err(needs_unix())
    }

    #[cfg(feature = "check")]
    pub(crate) fn server_of(_: &str) -> Result<Server, CommandFailure> {
        Err(needs_unix())
    }

    pub(crate) fn keep() -> Result<(), CommandFailure> {
        Err(needs_unix())
    }

    fn needs_unix() -> CommandFailure {
        CommandFailure::failed("connections that stay need a Unix system")
    }
}
#[cfg(all(not(unix), feature = "check"))]
pub(crate) use elsewhere::server_of;
#[cfg(not(unix))]
pub(crate) use elsewhere::{keep, run};
