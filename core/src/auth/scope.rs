//! Scopes: what an access token is good for (RFC 6749, 3.3).

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

/// Largest number of scopes in a set.
const MAX_SCOPES: usize = 256;
/// Length of the longest scope, in bytes.
const MAX_SCOPE: usize = 1_024;

/// The scope that asks for a refresh token (OpenID Connect Core, 11).
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

/// A set of scopes, in the order in which they were added.
///
/// At most 256 scopes of at most 1,024 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

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
    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Parses scopes that are separated by spaces. A scope that occurs twice is kept once.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] if a scope is malformed or there are too many.
    #[inline(never)]
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        let mut scopes = Self::new();
        for scope in text.split(' ').filter(|scope| !scope.is_empty()) {
            scopes.add(scope)?;
        }
        Ok(scopes)
    }

    /// Adds one scope, unless it is in the set.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] if it is malformed or the set is full.
    #[inline(never)]
    pub fn add(&mut self, scope: &str) -> Result<(), ScopeError> {
        let fits = |b: u8| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        if scope.is_empty() || !scope.bytes().all(fits) {
            return Err(ScopeError::Character);
        }
        if self.contains(scope) {
            return Ok(());
        }
        if self.0.len() >= MAX_SCOPES || scope.len() > MAX_SCOPE {
            return Err(ScopeError::TooMany);
        }
        self.0.push(scope.to_owned());
        Ok(())
    }

    /// Adds the scopes of another set, as far as there is room.
    #[inline(never)]
    pub fn unite(&mut self, other: &Self) {
        for scope in other.iter() {
            // Scopes of a set are well-formed; only room may be missing.
            let _ = self.add(scope);
        }
    }

    /// Returns whether the set has this scope.
    #[must_use]
    #[inline(never)]
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|other| other == scope)
    }

    /// Returns whether the set has each scope of `other`.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        other.iter().all(|scope| self.contains(scope))
    }

    /// Returns whether the set has no scope.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the scopes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|scope| &**scope)
    }

    /// Returns the scopes, separated by spaces.
    #[must_use]
    #[inline(never)]
    pub fn to_text(&self) -> String {
        self.0.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn scopes_are_parsed_strictly_and_kept_once() {
        let scopes = Scopes::parse(" a  b a:c/d ").expect("scopes");
        assert_eq!(scopes.to_text(), "a b a:c/d");
        assert_eq!(Scopes::parse("a a").expect("scopes").to_text(), "a");
        for bad in ["a\"b", "a\\b", "a\tb", "é", "a\nb"] {
            assert_eq!(Scopes::parse(bad), Err(ScopeError::Character), "{bad:?}");
        }
        let many: String = (0..257).map(|n| format!("s{n} ")).collect();
        assert_eq!(Scopes::parse(&many), Err(ScopeError::TooMany));
        assert_eq!(Scopes::parse(&"s".repeat(1_025)), Err(ScopeError::TooMany));
    }

    #[test]
    fn union_keeps_all_scopes_of_both() {
        let (mut a, b) = (Scopes::parse("x y").expect("scopes"), Scopes::parse("y z").expect("scopes"));
        assert!(!a.contains_all(&b));
        a.unite(&b);
        assert_eq!(a.to_text(), "x y z");
        assert!(a.contains_all(&b));
    }
}
