//! The commands `connect`, `connections` and `disconnect`, and the background process that they talk to.

mod args;
#[cfg(unix)]
mod control;
#[cfg(unix)]
mod foreground;
#[cfg(unix)]
mod keeper;
#[cfg(unix)]
mod process;

pub(crate) use args::{ConnectArgs, ConnectionsArgs, DisconnectArgs, KeepArgs};
#[cfg(unix)]
pub(crate) use foreground::{connect, disconnect, list};
#[cfg(unix)]
pub(crate) use keeper::run as keep;

#[cfg(not(unix))]
mod elsewhere {
    use super::{ConnectArgs, ConnectionsArgs, DisconnectArgs};
    use crate::failure::CommandFailure;

    pub(crate) fn connect(_: ConnectArgs) -> Result<(), CommandFailure> {
        Err(needs_unix())
    }

    pub(crate) fn list(_: &ConnectionsArgs) -> Result<(), CommandFailure> {
        Err(needs_unix())
    }

    pub(crate) fn disconnect(_: DisconnectArgs) -> Result<(), CommandFailure> {
        Err(needs_unix())
    }

    pub(crate) fn keep() -> Result<(), CommandFailure> {
        Err(needs_unix())
    }

    fn needs_unix() -> CommandFailure {
        CommandFailure::failed("connections that stay need a Unix system")
    }
}
#[cfg(not(unix))]
pub(crate) use elsewhere::{connect, disconnect, keep, list};
