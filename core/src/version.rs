//! Revisions of the protocol, sets of them, and the two eras.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::built::{Legacy, Modern};
use crate::json::write_str;

/// A released revision of the protocol. The order is that of the dates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Version {
    /// 2024-11-05.
    V2024_11_05,
    /// 2025-03-26, the only revision with batches.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25, the last revision with a handshake.
    V2025_11_25,
    /// 2026-07-28, the first revision without a handshake.
    V2026_07_28,
}

/// A family of revisions, by how a connection opens and where its state lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Era {
    /// An `initialize` handshake opens a session (up to 2025-11-25).
    Legacy,
    /// Each request carries version and capabilities (from 2026-07-28 on).
    Modern,
}

impl Version {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the revision with this name.
    ///
    /// Names are compared exactly, and nothing is inferred from unknown ones (VER-007).
    #[must_use]
    #[inline(never)]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.as_str() == name)
    }

    /// Returns the era of the revision.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// Returns whether the revision is one with a handshake. False for all if those are not built.
    pub(crate) const fn is_legacy(self) -> bool {
        Legacy::IS_BUILT && (!Modern::IS_BUILT || !matches!(self, Self::V2026_07_28))
    }

    /// Returns whether the revision is one without a handshake. False for all if those are not built.
    pub(crate) const fn is_modern(self) -> bool {
        !self.is_legacy()
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

/// A set of revisions that one side speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VersionSet(u8);

impl VersionSet {
    /// All revisions that are built: those of both eras, unless the features `legacy` or `modern` are off.
    pub const ALL: Self = Self(Self::OF_LEGACY | Self::OF_MODERN);
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The revisions with a handshake. Not there without the feature `legacy`.
    #[cfg(feature = "legacy")]
    pub const LEGACY: Self = Self(Self::OF_LEGACY);
    /// The revisions without a handshake. Not there without the feature `modern`.
    #[cfg(feature = "modern")]
    pub const MODERN: Self = Self(Self::OF_MODERN);

    const OF_LEGACY: u8 = if Legacy::IS_BUILT { 0b0_1111 } else { 0 };
    const OF_MODERN: u8 = if Modern::IS_BUILT { 0b1_0000 } else { 0 };

    /// Creates a set of one revision. It is empty if the era of the revision is not built.
    #[must_use]
    pub const fn only(version: Version) -> Self {
        Self(version.bit() & Self::ALL.0)
    }

    /// Returns the set with `version` added, if its era is built.
    #[must_use]
    pub const fn with(self, version: Version) -> Self {
        Self(self.0 | Self::only(version).0)
    }

    /// Returns whether `version` is in the set.
    #[must_use]
    pub const fn contains(self, version: Version) -> bool {
        self.0 & version.bit() != 0
    }

    /// Returns the revisions of the set that belong to `era`.
    #[must_use]
    pub const fn era(self, era: Era) -> Self {
        Self(
            self.0
                & match era {
                    Era::Legacy => Self::OF_LEGACY,
                    Era::Modern => Self::OF_MODERN,
                },
        )
    }

    /// Returns whether the set has revisions of both eras.
    #[must_use]
    pub const fn is_dual_era(self) -> bool {
        !self.era(Era::Modern).is_empty() && !self.era(Era::Legacy).is_empty()
    }

    /// Returns whether the set has no revisions.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the revisions in order of preference, newest first.
    pub fn iter(self) -> impl Iterator<Item = Version> {
        Version::ALL.into_iter().rev().filter(move |v| self.contains(*v))
    }

    /// Returns the newest revision.
    #[must_use]
    pub fn newest(self) -> Option<Version> {
        self.iter().next()
    }

    /// Appends the names as a JSON array, newest first.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (i, v) in self.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            write_str(out, v.as_str());
        }
        out.push(b']');
    }
}

/// Writes the names, newest first, separated by commas.
impl fmt::Display for VersionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, v) in self.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            f.write_str(v.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for VersionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// The era of a server as an earlier connection found it.
///
/// The era is a property of the server. It may be stored with the server's configuration and passed to the next
/// connection, which then skips the probe (VER-022, VER-023). A wrong value costs one more round trip and is replaced.
///
/// One case costs the connection. If a server told as [`Legacy`](Self::Legacy) answers `initialize` with a revision that
/// this client does not speak, the client disconnects (VER-006), although a modern revision may be common to both.
/// [`Engine::known_era`](crate::client::Engine::known_era) is then `None`, and the next connection probes.
///
/// ```
/// use mcp_proto::client::KnownEra;
/// assert_eq!("legacy".parse(), Ok(KnownEra::Legacy));
/// assert_eq!(KnownEra::Modern.to_string(), "modern");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum KnownEra {
    /// The server answers `server/discover`.
    Modern,
    /// The server requires `initialize`.
    Legacy,
}

impl KnownEra {
    /// Returns whether a client that is told this era saves a request: the probe that such a server refuses (VER-042).
    #[must_use]
    pub const fn saves_probe(self) -> bool {
        matches!(self, Self::Legacy)
    }
}

impl fmt::Display for KnownEra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        })
    }
}

impl FromStr for KnownEra {
    type Err = ParseKnownEraError;

    fn from_str(s: &str) -> Result<Self, ParseKnownEraError> {
        match s {
            "modern" => Ok(Self::Modern),
            "legacy" => Ok(Self::Legacy),
            _ => Err(ParseKnownEraError),
        }
    }
}

/// The error of parsing a [`KnownEra`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither `modern` nor `legacy`")]
pub struct ParseKnownEraError;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    // covers: VER-007
    #[test]
    fn version_names_are_compared_exactly() {
        for v in Version::ALL {
            assert_eq!(Version::from_name(v.as_str()), Some(v));
        }
        for name in ["", "2025-11-25 ", "2027-01-01", "DRAFT-2026-v1", "2025-11"] {
            assert_eq!(Version::from_name(name), None);
        }
    }

    #[test]
    fn version_set_lists_the_newest_first() {
        let set = VersionSet::only(Version::V2024_11_05).with(Version::V2026_07_28);
        assert_eq!(set.to_string(), "2026-07-28, 2024-11-05");
        assert_eq!(set.era(Era::Legacy).newest(), Some(Version::V2024_11_05));
        assert!(VersionSet::MODERN.era(Era::Legacy).is_empty());
    }

    #[test]
    fn sets_are_shown_newest_first() {
        let set = VersionSet::only(Version::V2024_11_05).with(Version::V2025_06_18);
        assert_eq!(
            alloc::format!("{set} {set:?} {}", VersionSet::NONE),
            "2025-06-18, 2024-11-05 {2025-06-18, 2024-11-05} "
        );
        let mut out = Vec::new();
        set.write(&mut out);
        assert_eq!(out, br#"["2025-06-18","2024-11-05"]"#);
    }

    // covers: VER-022
    #[test]
    fn known_era_is_stored_as_a_word() {
        for (era, word) in [(KnownEra::Modern, "modern"), (KnownEra::Legacy, "legacy")] {
            assert_eq!(
                (era.to_string(), word.parse(), era.saves_probe()),
                (word.into(), Ok(era), word == "legacy")
            );
        }
        let error = "Modern".parse::<KnownEra>().expect_err("another case");
        assert_eq!(error.to_string(), "neither `modern` nor `legacy`");
    }
}
