//! The revisions of the protocol and the two eras that they fall into.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::json::write_str;

/// A released revision, oldest first
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Version {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26, the only one with batches
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25, the last one with a handshake
    V2025_11_25,
    /// 2026-07-28, the first one without
    V2026_07_28,
}

/// How a connection is opened and where its state lives
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Era {
    /// An `initialize` handshake, then a session (up to 2025-11-25)
    Legacy,
    /// Each request says all that there is to know (from 2026-07-28 on)
    Modern,
}

impl Version {
    /// All of them, oldest first
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The name on the wire
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

    /// The revision with this name; names are compared exactly and nothing is inferred from others (VER-007)
    #[must_use]
    #[inline(never)]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.as_str() == name)
    }

    /// The era that the revision belongs to
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
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

/// A set of revisions that one side speaks
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VersionSet(u8);

impl VersionSet {
    /// Every revision of both eras
    pub const ALL: Self = Self(0b1_1111);
    /// No revision
    pub const NONE: Self = Self(0);
    /// The revisions with a handshake
    pub const LEGACY: Self = Self(0b0_1111);
    /// The revisions without
    pub const MODERN: Self = Self(0b1_0000);

    /// The set of `version` alone
    #[must_use]
    pub const fn only(version: Version) -> Self {
        Self(version.bit())
    }

    /// The set with `version` added
    #[must_use]
    pub const fn with(self, version: Version) -> Self {
        Self(self.0 | version.bit())
    }

    /// Whether `version` is in the set
    #[must_use]
    pub const fn contains(self, version: Version) -> bool {
        self.0 & version.bit() != 0
    }

    /// The part of the set that belongs to `era`
    #[must_use]
    pub const fn era(self, era: Era) -> Self {
        Self(
            self.0
                & match era {
                    Era::Legacy => Self::LEGACY.0,
                    Era::Modern => Self::MODERN.0,
                },
        )
    }

    /// Whether there is none
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The revisions, newest first: the order of preference
    pub fn iter(self) -> impl Iterator<Item = Version> {
        Version::ALL.into_iter().rev().filter(move |v| self.contains(*v))
    }

    /// The newest one
    #[must_use]
    pub fn newest(self) -> Option<Version> {
        self.iter().next()
    }

    /// Appends the names as a JSON array, newest first
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

/// The names, newest first, separated by commas
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

/// The era of a server as it was found out before
///
/// An era is a property of the server: it may be stored with the server's configuration and given to the next
/// connection, which then need not wait for an answer that never comes (VER-022, VER-023). A verdict that proves wrong
/// costs one more round trip and is replaced.
///
/// ```
/// use mcp_proto::client::Verdict;
/// assert_eq!("legacy".parse(), Ok(Verdict::Legacy));
/// assert_eq!(Verdict::Modern.to_string(), "modern");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It answers `server/discover`
    Modern,
    /// It wants `initialize`
    Legacy,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        })
    }
}

impl FromStr for Verdict {
    type Err = UnknownVerdict;

    fn from_str(s: &str) -> Result<Self, UnknownVerdict> {
        match s {
            "modern" => Ok(Self::Modern),
            "legacy" => Ok(Self::Legacy),
            _ => Err(UnknownVerdict),
        }
    }
}

/// A stored verdict cannot be read
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither `modern` nor `legacy`")]
pub struct UnknownVerdict;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    // covers: VER-007
    #[test]
    fn names_are_compared_exactly() {
        for v in Version::ALL {
            assert_eq!(Version::from_name(v.as_str()), Some(v));
        }
        for name in ["", "2025-11-25 ", "2027-01-01", "DRAFT-2026-v1", "2025-11"] {
            assert_eq!(Version::from_name(name), None);
        }
    }

    #[test]
    fn sets_list_the_newest_first() {
        let set = VersionSet::only(Version::V2024_11_05).with(Version::V2026_07_28);
        assert_eq!(set.to_string(), "2026-07-28, 2024-11-05");
        assert_eq!(set.era(Era::Legacy).newest(), Some(Version::V2024_11_05));
        assert!(VersionSet::MODERN.era(Era::Legacy).is_empty());
    }
}
