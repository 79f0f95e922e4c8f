//! Options of the commands `pin` and `verify`.

use std::path::PathBuf;

use clap::Args;

use super::TargetArgs;

#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// Writes the lock file here instead of to stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The lock file that `pin` has written.
    #[arg(value_name = "LOCKFILE")]
    pub(crate) lock: PathBuf,
    /// Prints one JSON object instead.
    ///
    /// Its members: pinned and listed (the digests of everything), findings (kind, name, change, message, and from or
    /// differences).
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints a report in SARIF 2.1.0 instead, for the tools of code hosts.
    #[arg(long, conflicts_with = "json")]
    pub(crate) sarif: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}
