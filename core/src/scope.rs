//! Scopes: what an access token is good for (RFC 6749, 3.3).

use alloc::boxed::Box;
use alloc::string::String;

/// Largest number of scopes that are parsed.
const MAX_SCOPES: usize = 256;
/// Length of the longest scope that is parsed, in bytes.
const MAX_SCOPE: usize = 1_024;

/// A set of scopes, in the order in which they were added.
///
/// ```
/// use mcp_proto::Scopes;
/// let scopes = Scopes::parse("files:read files:write files:read")?;
/// assert!(scopes.contains("files:write") && !scopes.contains("files"));
/// assert_eq!(scopes.as_str(), "files:read files:write");
/// # Ok::<(), mcp_proto::ScopeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Box<str>);

/// A text is not a list of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// A scope has a character other than visible ASCII without `"` and `\`.
    #[error("a scope has a character that no scope may have")]
    Character,
    /// There are more than 256 scopes, or one is longer than 1,024 bytes.
    #[error("there are too many scopes, or one is too long")]
    TooMany,
}

impl Scopes {
    /// The scope that asks an authorization server for a refresh token (OpenID Connect Core, 11). It is no scope of a
    /// resource (AUTH-060).
    pub const OFFLINE_ACCESS: &str = "offline_access";

    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses scopes that are separated by spaces. A scope that occurs twice is kept once.
    ///
    /// To leave out what is not a scope, collect the parts of the text instead: `text.split(' ').collect()`.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] if a scope is malformed, or if there are too many.
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        Self::try_collect(text.split(' ').filter(|scope| !scope.is_empty()))
    }

    /// Creates a set from single scopes.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] if a scope is malformed, or if there are too many.
    pub fn try_collect<'s>(scopes: impl IntoIterator<Item = &'s str>) -> Result<Self, ScopeError> {
        let mut text = String::new();
        let mut count = 0;
        for scope in scopes {
            if !Self::is_token(scope) {
                return Err(ScopeError::Character);
            }
            count += 1;
            if count > MAX_SCOPES || scope.len() > MAX_SCOPE {
                return Err(ScopeError::TooMany);
            }
            append(&mut text, scope);
        }
        Ok(Self(text.into()))
    }

    /// Returns whether a text is a scope token: printable ASCII without spaces, quotes and backslashes.
    #[must_use]
    pub fn is_token(text: &str) -> bool {
        !text.is_empty() && text.bytes().all(|b| matches!(b, b'!' | b'#'..=b'[' | b']'..=b'~'))
    }

    /// Returns the scopes, separated by spaces.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the scopes one by one.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').filter(|scope| !scope.is_empty())
    }

    /// Returns whether a scope is among them, letter by letter.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        contains(&self.0, scope)
    }

    /// Returns whether each scope of `other` is among them.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        other.iter().all(|scope| self.contains(scope))
    }

    /// Returns the scopes of both; at most 256, and those of `self` first.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let added = other.iter().filter(|scope| !self.contains(scope));
        self.iter().chain(added).take(MAX_SCOPES).collect()
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Collects scopes. Repeated ones and what is not a scope token are left out.
impl<S: AsRef<str>> FromIterator<S> for Scopes {
    fn from_iter<I: IntoIterator<Item = S>>(scopes: I) -> Self {
        let mut text = String::new();
        for scope in scopes {
            if Self::is_token(scope.as_ref()) {
                append(&mut text, scope.as_ref());
            }
        }
        Self(text.into())
    }
}

/// Appends a scope token to others, unless it is among them.
fn append(text: &mut String, scope: &str) {
    if contains(text, scope) {
        return;
    }
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(scope);
}

fn contains(text: &str, scope: &str) -> bool {
    // A text with a space is several scopes, also if the set is just these.
    !scope.is_empty()
        && !scope.contains(' ')
        && (*text == *scope || text.as_bytes().split(|b| *b == b' ').any(|own| own == scope.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn scopes_are_parsed_strictly_and_kept_once() {
        let scopes = Scopes::parse(" a  b a:c/d ").expect("scopes");
        assert_eq!(scopes.as_str(), "a b a:c/d");
        assert_eq!(Scopes::parse("a a").expect("scopes").as_str(), "a");
        for bad in ["a\"b", "a\\b", "a\tb", "é", "a\nb"] {
            assert_eq!(Scopes::parse(bad), Err(ScopeError::Character), "{bad:?}");
            assert_eq!(Scopes::from_iter([bad, "x"]).as_str(), "x", "{bad:?}");
        }
        let many: String = (0..257).map(|n| format!("s{n} ")).collect();
        assert_eq!(Scopes::parse(&many), Err(ScopeError::TooMany));
        assert_eq!(Scopes::parse(&"s".repeat(1_025)), Err(ScopeError::TooMany));
    }

    #[test]
    fn union_keeps_all_scopes_of_both() {
        let (a, b) = (Scopes::parse("x y").expect("scopes"), Scopes::parse("y z").expect("scopes"));
        assert!(!a.contains_all(&b) && !a.contains("") && !a.contains("x y"));
        let both = a.union(&b);
        assert_eq!(both.as_str(), "x y z");
        assert!(both.contains_all(&a) && both.contains_all(&b));
        let many: Scopes = (0..300).map(|n| format!("s{n}")).collect();
        assert!(Scopes::parse(a.union(&many).as_str()).is_ok_and(|all| all.contains_all(&a)));
    }
}
