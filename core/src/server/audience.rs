//! The callers who get to know of a change.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use super::authorization::Caller;
use crate::change::Change;
use crate::sync::{Arc, share};

type Condition = Arc<dyn Fn(&Caller) -> bool + Send + Sync>;

/// The callers who get to know of a change: everyone, or those for whom one of some conditions holds.
///
/// At most 32 conditions are kept; an audience that would need more is everyone.
///
/// ```
/// use mcp_proto::server::{Audience, Authorization, Caller, Identity};
/// let mut audience = Audience::matching(|caller| caller.principal() == Some("alice"));
/// let bob = Caller::from(Authorization::new(Identity::new("bob")));
/// assert!(!audience.includes(&bob));
/// audience.merge(&Audience::matching(|caller| caller.principal() == Some("bob")));
/// assert!(audience.includes(&bob) && !audience.is_everyone());
/// ```
#[derive(Clone)]
pub struct Audience(Option<Vec<Condition>>);

/// Maximum number of conditions of an audience.
const MAX_CONDITIONS: usize = 32;

impl Audience {
    /// All callers.
    pub const EVERYONE: Self = Self(None);

    /// No caller.
    pub const NOBODY: Self = Self(Some(Vec::new()));

    /// Creates the audience of the callers for whom a condition holds.
    #[must_use]
    pub fn matching(condition: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        Self(Some([share!(condition, dyn Fn(&Caller) -> bool + Send + Sync)].into()))
    }

    /// Adds the callers of another audience.
    pub fn merge(&mut self, other: &Self) {
        let Some(conditions) = &mut self.0 else { return };
        let Some(more) = &other.0 else { return *self = Self::EVERYONE };
        for condition in more {
            // Conditions are code and cannot be compared. Entries that share one have the same pointer.
            if !conditions.iter().any(|known| Arc::ptr_eq(known, condition)) {
                conditions.push(Arc::clone(condition));
            }
        }
        if conditions.len() > MAX_CONDITIONS {
            *self = Self::EVERYONE;
        }
    }

    /// Returns whether a caller belongs to it.
    #[must_use]
    pub fn includes(&self, caller: &Caller) -> bool {
        self.0.as_ref().is_none_or(|conditions| conditions.iter().any(|condition| condition(caller)))
    }

    /// Returns whether all callers belong to it, without a condition.
    #[must_use]
    pub const fn is_everyone(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether no caller belongs to it, because there is no condition.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Audiences with the same conditions in the same order are equal; two conditions with equal code are not the same.
impl PartialEq for Audience {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b)),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Audience {}

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Everyone"),
            Some(conditions) => f.debug_tuple("Matching").field(&conditions.len()).finish(),
        }
    }
}

/// A change, and the callers who get to know of it ([`Engine::publish`](super::Engine::publish)).
///
/// A [`Change`] alone is for everyone.
///
/// ```
/// use mcp_proto::Change;
/// use mcp_proto::server::{Announcement, Audience};
/// let to_admins = Announcement::new(Change::Tools).to(Audience::matching(|caller| caller.has_scope("admin")));
/// assert_eq!(to_admins, Change::Tools);
/// assert!(!to_admins.audience().is_everyone() && Announcement::from(&Change::Tools).audience().is_everyone());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement<'a> {
    change: Cow<'a, Change>,
    audience: Audience,
}

impl<'a> Announcement<'a> {
    /// Creates the announcement of a change to everyone.
    #[must_use]
    pub const fn new(change: Change) -> Self {
        Self { change: Cow::Owned(change), audience: Audience::EVERYONE }
    }

    /// Sets who gets to know of the change.
    #[must_use]
    pub fn to(self, audience: Audience) -> Self {
        Self { audience, ..self }
    }

    /// Returns the change.
    #[must_use]
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// Returns who gets to know of the change.
    #[must_use]
    pub const fn audience(&self) -> &Audience {
        &self.audience
    }

    /// Returns the change and its audience.
    #[must_use]
    pub fn into_parts(self) -> (Cow<'a, Change>, Audience) {
        (self.change, self.audience)
    }
}

impl<'a> From<&'a Change> for Announcement<'a> {
    fn from(change: &'a Change) -> Self {
        Self { change: Cow::Borrowed(change), audience: Audience::EVERYONE }
    }
}

impl<'a> From<&'a Announcement<'_>> for Announcement<'a> {
    fn from(other: &'a Announcement<'_>) -> Self {
        Self { change: Cow::Borrowed(&*other.change), audience: other.audience.clone() }
    }
}

/// Compares the change alone.
impl PartialEq<Change> for Announcement<'_> {
    fn eq(&self, other: &Change) -> bool {
        *self.change == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Authorization, Identity};

    #[test]
    fn audience_of_too_many_conditions_is_everyone_and_same_conditions_count_once() {
        let alice = Audience::matching(|caller| caller.principal() == Some("alice"));
        let caller = Caller::from(Authorization::new(Identity::new("bob")));
        let mut all = Audience::NOBODY;
        assert!(all.is_nobody() && !all.includes(&caller) && !alice.is_nobody());
        for _ in 0..100 {
            all.merge(&alice);
        }
        assert_eq!(all, alice);
        for known in 1..=MAX_CONDITIONS {
            assert!(!all.is_everyone() && !all.includes(&caller), "{known} conditions");
            all.merge(&Audience::matching(|_| false));
        }
        assert!(all.is_everyone() && all.includes(&caller));
        all.merge(&alice);
        assert_eq!(all, Audience::EVERYONE);
        let mut some = alice.clone();
        some.merge(&Audience::EVERYONE);
        assert!(some.is_everyone());
        assert_ne!(Audience::matching(|_| true), Audience::matching(|_| true));
    }

    #[test]
    fn audiences_are_told_apart_and_announcements_compared_by_their_change() {
        let all = [Audience::EVERYONE, Audience::NOBODY, Audience::matching(|_| true)];
        for (at, audience) in all.iter().enumerate() {
            assert!(
                all.iter().enumerate().all(|(other, b)| (audience == b) == (at == other)),
                "{audience:?}"
            );
        }
        assert_eq!(
            all.map(|audience| alloc::format!("{audience:?}")),
            ["Everyone", "Matching(0)", "Matching(1)"]
        );
        let announcement = Announcement::new(Change::Tools).to(Audience::NOBODY);
        assert_eq!(announcement, Change::Tools);
        assert_ne!(announcement, Change::Prompts);
    }
}
