//! Parts of the program that features of the package leave out, and what a command line needs of them.

use crate::args::{AuthorizationArgs, ProtectionArgs, Runtime, ServeHttpArgs, TargetArgs};
use crate::failure::CommandFailure;

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

    const fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Check => "check",
            Self::Events => "events",
            Self::Runtimes => "runtimes",
            Self::Sessions => "sessions",
            Self::Tls => "tls",
        }
    }

    /// Returns whether this program was built with the feature.
    pub(crate) const fn is_enabled(self) -> bool {
        match self {
            Self::Auth => cfg!(feature = "auth"),
            Self::Check => cfg!(feature = "check"),
            Self::Events => cfg!(feature = "events"),
            Self::Runtimes => cfg!(feature = "runtimes"),
            Self::Sessions => cfg!(feature = "sessions"),
            Self::Tls => cfg!(feature = "tls"),
        }
    }

    /// Creates the failure of a command or an option that needs the feature.
    pub(crate) fn missing(self, what: &str) -> CommandFailure {
        let name = self.name();
        CommandFailure::usage(format!("{what}: this mcp-probe was built without the feature `{name}`"))
            .with_hint(FULL_HINT)
    }
}

/// Returns a sentence about the features that are missing, if any, for the end of the help.
pub(crate) fn describe_missing() -> Option<String> {
    let missing = Feature::ALL.into_iter().filter(|feature| !feature.is_enabled());
    let names: Vec<_> = missing.map(Feature::name).collect();
    (!names.is_empty()).then(|| {
        format!("Built without the features {}: what needs one says so.\n{FULL_HINT}.", names.join(", "))
    })
}

/// The features that a command line needs, each with the command or option that needs it.
#[derive(Default)]
pub(crate) struct Needs(Vec<(Feature, &'static str)>);

impl Needs {
    /// Adds a feature, and the command or option that needs it.
    pub(crate) fn add(&mut self, feature: Feature, what: &'static str) {
        self.0.push((feature, what));
    }

    /// Adds what the options of a connection to a server need. Those below do the same for other groups of options.
    pub(crate) fn target(&mut self, args: &TargetArgs) {
        self.runtime(args.runtime);
        self.authorization(&args.authorization);
    }

    pub(crate) fn protection(&mut self, args: &ProtectionArgs) {
        if args.issuer.is_some() {
            self.add(Feature::Auth, "--protect");
        }
    }

    pub(crate) fn runtime(&mut self, runtime: Runtime) {
        if runtime != Runtime::Blocking {
            self.add(Feature::Runtimes, "--runtime");
        }
    }

    pub(crate) fn http(&mut self, args: &ServeHttpArgs) {
        let given = [(args.tls_cert.is_some(), "--tls-cert"), (args.tls_key.is_some(), "--tls-key")];
        for (_, option) in given.into_iter().filter(|(is_given, _)| *is_given) {
            self.add(Feature::Tls, option);
        }
    }

    pub(crate) fn authorization(&mut self, args: &AuthorizationArgs) {
        if let Some(option) = args.given() {
            self.add(Feature::Auth, option);
        }
    }

    /// Checks that this program has all features.
    ///
    /// # Errors
    ///
    /// Returns a usage error that names the first missing one.
    pub(crate) fn check(self) -> Result<(), CommandFailure> {
        let missing = self.0.into_iter().find(|(feature, _)| !feature.is_enabled());
        missing.map_or(Ok(()), |(feature, what)| Err(feature.missing(what)))
    }
}

/// Hint for whatever needs a feature that is missing.
pub(crate) const FULL_HINT: &str = "`cargo install mcp-probe --features full` installs it with all features";
