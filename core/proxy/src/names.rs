//! Names of upstreams, and the names of their tools and prompts behind a gateway.

use core::fmt;

use super::gateway::MAX_UPSTREAMS;

/// Returns the name of an upstream for a name of a configuration: characters that names cannot have become `-`.
///
/// Two names of a configuration may become the same one, which [`Gateway::add`](crate::Gateway::add) refuses.
///
/// ```
/// assert_eq!(mcp_proto_proxy::upstream_name("my_files (old)"), "my-files--old-");
/// ```
#[must_use]
pub fn upstream_name(text: &str) -> String {
    let replaced = text.chars().map(|c| if is_allowed(c) { c } else { '-' });
    replaced.take(MAX_NAME).collect()
}

/// An underscore ends the name of the upstream, so the name has none.
const fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// Returns whether an upstream can have this name.
pub(crate) fn is_valid(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_allowed)
}

/// Returns the name by which clients know a tool or prompt with this name behind a gateway, if that is too long for them: a part of it,
/// with a digest of all.
pub(crate) fn shortened(full: &str) -> Option<String> {
    // FNV-1a. An upstream that has two names of one digest confuses only its own.
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let digest = full.bytes().fold(0x811c_9dc5, step);
    let kept = full.char_indices().nth(MAX_SHOWN - 9).and_then(|(at, _)| full.get(..at))?;
    (full.chars().count() > MAX_SHOWN).then(|| format!("{kept}_{digest:08x}"))
}

/// Splits a name that a client uses into those of the upstream and of its tool or prompt.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once('_').filter(|(_, rest)| !rest.is_empty())
}

/// The reason why an upstream cannot be added to a gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AddError {
    /// The name is empty, too long, or has other characters than letters, digits and `-`.
    InvalidName(String),
    /// There is an upstream of this name.
    NameTaken(String),
    /// The gateway has had [`MAX_UPSTREAMS`](crate::MAX_UPSTREAMS) upstreams, with those that were removed.
    Full,
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName(name) => {
                write!(f, "`{name}` cannot name a server: 1 to {MAX_NAME} letters, digits and `-` can")
            }
            Self::NameTaken(name) => write!(f, "there are two servers of the name `{name}`"),
            Self::Full => write!(f, "the gateway has had {MAX_UPSTREAMS} servers: it takes no more"),
        }
    }
}

impl core::error::Error for AddError {}

/// Longest name of a tool or prompt in characters. Clients and models refuse longer ones.
const MAX_SHOWN: usize = 64;
/// Longest name of an upstream in bytes.
const MAX_NAME: usize = 32;
