//! Parts of the program that features of the package leave out, and what a command line needs of them.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use crate::args::Runtime;
use crate::failure::{CommandFailure, FULL_HINT};

/// A feature of the package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Auth,
    Check,
    Events,
    Runtimes,
    Sessions,
    Tls,
}

impl Feature {
    const ALL: [Self; 6] = [Self::Auth, Self::Check, Self::Events, Self::Runtimes, Self::Sessions, Self::Tls];

    /// Returns the name, and whether this program was built with the feature.
    const fn about(self) -> (&'static str, bool) {
        match self {
            Self::Auth => ("auth", cfg!(feature = "auth")),
            Self::Check => ("check", cfg!(feature = "check")),
            Self::Events => ("events", cfg!(feature = "events")),
            Self::Runtimes => ("runtimes", cfg!(feature = "runtimes")),
            Self::Sessions => ("sessions", cfg!(feature = "sessions")),
            Self::Tls => ("tls", cfg!(feature = "tls")),
        }
    }

    /// Returns whether this program was built with the feature.
    pub(crate) const fn is_enabled(self) -> bool {
        self.about().1
    }

    /// Creates the failure of a command or an option that needs the feature.
    pub(crate) fn missing(self, what: &str) -> CommandFailure {
        let (name, _) = self.about();
        let failure =
            CommandFailure::usage(format!("{what}: this mcp-probe was built without the feature `{name}`"));
        failure.with_hint(if self == Self::Runtimes { RUNTIMES_HINT } else { FULL_HINT })
    }
}

/// Returns a sentence about the features that are missing, if any, for the end of the help. `full` leaves `runtimes` out.
pub(crate) fn describe_missing() -> Option<String> {
    let missing =
        Feature::ALL.into_iter().filter(|feature| !feature.is_enabled() && *feature != Feature::Runtimes);
    let names: Vec<_> = missing.map(|feature| feature.about().0).collect();
    (!names.is_empty()).then(|| {
        format!("Built without the features {}: what needs one says so.\n{FULL_HINT}.", names.join(", "))
    })
}

/// Checks that this program has all that a command line asks for, by the definition of its command and the options that are given.
///
/// # Errors
///
/// Returns a usage error that names the first command or option whose feature is missing.
pub(crate) fn check(definition: &Command, matches: &ArgMatches) -> Result<(), CommandFailure> {
    let of_command = match definition.get_name() {
        "check" => Some(Feature::Check),
        "events" => Some(Feature::Events),
        "login" => Some(Feature::Auth),
        _ => None,
    };
    if let Some(feature) = of_command.filter(|feature| !feature.is_enabled()) {
        return Err(feature.missing(definition.get_name()));
    }
    for option in definition.get_arguments() {
        let long = option.get_long().unwrap_or_default();
        let feature = match long {
            "tls-cert" | "tls-key" => Feature::Tls,
            "protect" => Feature::Auth,
            "runtime" => Feature::Runtimes,
            _ if option.get_help_heading() == Some("Authorization") => Feature::Auth,
            _ => continue,
        };
        let id = option.get_id().as_str();
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        let is_usual =
            matches!(matches.try_get_one::<Runtime>(id), Ok(Some(Runtime::Blocking))) && long == "runtime";
        if is_given && !is_usual && !feature.is_enabled() {
            return Err(feature.missing(&format!("--{long}")));
        }
    }
    let inner =
        matches.subcommand().and_then(|(name, inner)| Some((definition.find_subcommand(name)?, inner)));
    inner.map_or(Ok(()), |(definition, inner)| check(definition, inner))
}
/// Hint for the feature that `full` leaves out.
const RUNTIMES_HINT: &str =
    "`cargo install mcp-probe --features full,runtimes` installs it with all adapters";
