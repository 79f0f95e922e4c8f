//! Features that the specification deprecates, as in its registry (SEP-2596).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// A feature that the specification deprecates: supported until it is removed.
///
/// [`Diagnostic::DeprecatedFeature`](crate::Diagnostic) reports that a peer uses one. `docs/deprecations.md` of this
/// package lists the items that a program uses it by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DeprecatedFeature {
    /// Directories of a client that a server may work in (ROOT-013).
    Roots,
    /// Messages of the client's language model (SAMP-026).
    Sampling,
    /// Log messages of a server, and their level (LOG-015).
    Logging,
    /// Registration of an OAuth client at an authorization server (RFC 7591; AUTH-018).
    DynamicClientRegistration,
    /// `includeContext` of sampling with another value than `none` (SAMP-010).
    IncludeContext,
    /// The transport HTTP+SSE of 2024-11-05 (HTTPSSE).
    HttpSse,
}

impl DeprecatedFeature {
    /// All features, in the order of the registry.
    pub const ALL: [Self; 6] = [
        Self::Roots,
        Self::Sampling,
        Self::Logging,
        Self::DynamicClientRegistration,
        Self::IncludeContext,
        Self::HttpSse,
    ];

    /// Returns the decision of the specification, for example `SEP-2577`.
    #[must_use]
    pub const fn decided_in(self) -> &'static str {
        match self {
            Self::Roots | Self::Sampling | Self::Logging => "SEP-2577",
            Self::DynamicClientRegistration => "PR #2858",
            Self::IncludeContext | Self::HttpSse => "SEP-2596",
        }
    }

    /// Returns when the feature may be removed, in the words of the registry.
    #[must_use]
    pub const fn earliest_removal(self) -> &'static str {
        match self {
            Self::Roots | Self::Sampling | Self::Logging | Self::DynamicClientRegistration => {
                "first revision released on or after 2027-07-28"
            }
            Self::IncludeContext => "follows sampling (SEP-2577)",
            Self::HttpSse => "three months after SEP-2596 reaches Final",
        }
    }

    /// Returns what to use instead.
    #[must_use]
    pub const fn replacement(self) -> &'static str {
        match self {
            Self::Roots => "tool arguments, resource URIs, or the configuration of the server",
            Self::Sampling => "the interface of a model provider",
            Self::Logging => "standard error on byte streams, OpenTelemetry elsewhere",
            Self::DynamicClientRegistration => "a client id metadata document",
            Self::IncludeContext => "no value, or `none`",
            Self::HttpSse => "Streamable HTTP",
        }
    }
}

/// Writes the name of the feature.
impl fmt::Display for DeprecatedFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Roots => "roots",
            Self::Sampling => "sampling",
            Self::Logging => "logging",
            Self::DynamicClientRegistration => "dynamic client registration",
            Self::IncludeContext => "`includeContext`",
            Self::HttpSse => "HTTP+SSE",
        })
    }
}

/// Features that a peer has used, so that each is reported once.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct UsedFeatures(u8);

impl UsedFeatures {
    /// Adds a feature. Returns whether it is new.
    pub(crate) const fn insert(&mut self, feature: DeprecatedFeature) -> bool {
        let bit = 1 << feature as u8;
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new
    }
}

/// Features that were reported for peers without a session of their own, by their authenticated principal.
///
/// It remembers [`MAX_PRINCIPALS`](Self::MAX_PRINCIPALS) of them. Those without a principal, and those beyond that number,
/// count as one.
#[derive(Clone, Default, Debug)]
pub(crate) struct ReportedFeatures {
    others: UsedFeatures,
    /// Sorted by the principal.
    principals: Vec<(Box<str>, UsedFeatures)>,
}

impl ReportedFeatures {
    /// Maximum number of principals that are remembered.
    pub(crate) const MAX_PRINCIPALS: usize = 1_024;

    /// Adds a feature that a peer uses. Returns whether it is new.
    pub(crate) fn insert(&mut self, principal: Option<&str>, feature: DeprecatedFeature) -> bool {
        let Some(principal) = principal else { return self.others.insert(feature) };
        let at = match self.principals.binary_search_by(|(known, _)| (**known).cmp(principal)) {
            Ok(at) => at,
            // Without room, all further principals share one set: a feature is reported once for them.
            Err(_) if self.principals.len() >= Self::MAX_PRINCIPALS => return self.others.insert(feature),
            Err(at) => {
                self.principals.insert(at, (principal.into(), UsedFeatures::default()));
                at
            }
        };
        self.principals.get_mut(at).is_some_and(|(_, used)| used.insert(feature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_new_once() {
        let mut used = UsedFeatures::default();
        for feature in DeprecatedFeature::ALL {
            assert!(used.insert(feature) && !used.insert(feature));
        }
    }

    // covers: SEC-018
    #[test]
    fn features_of_principals_are_new_once_and_bounded() {
        use DeprecatedFeature::{Logging, Roots};

        let mut reported = ReportedFeatures::default();
        for n in 0..3 * ReportedFeatures::MAX_PRINCIPALS {
            let principal = alloc::format!("user-{n}");
            let is_first_beyond = n == ReportedFeatures::MAX_PRINCIPALS;
            let is_new = n < ReportedFeatures::MAX_PRINCIPALS || is_first_beyond;
            assert_eq!(reported.insert(Some(&principal), Logging), is_new, "{n}");
            assert!(!reported.insert(Some(&principal), Logging));
        }
        assert_eq!(reported.principals.len(), ReportedFeatures::MAX_PRINCIPALS);
        assert!(!reported.insert(None, Logging), "the others count as one");
        assert!(reported.insert(Some("user-0"), Roots) && reported.insert(None, Roots));
    }
}
