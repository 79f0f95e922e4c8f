//! Parts of the engines that a feature leaves out.
//!
//! Each has a marker. Without the feature the marker is a type without values, so nothing can make a [`Part`] of it, and the
//! compiler drops every branch that handles the part, the code that drops it, and the field. The code of the part needs no
//! `cfg` of its own.

use alloc::boxed::Box;
use core::convert::Infallible;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// Declares the marker of a feature, or of a condition on features.
macro_rules! marker {
    ($(#[$doc:meta])* $name:ident = $($built:tt)+) => {
        $(#[$doc])*
        #[cfg($($built)+)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) struct $name;

        #[cfg($($built)+)]
        impl Feature for $name {
            type Stored<T> = Box<T>;

            const MARKER: Option<Self> = Some(Self);

            #[inline(always)]
            fn store<T>(self, value: T) -> Box<T> {
                Box::new(value)
            }
        }

        $(#[$doc])*
        #[cfg(not($($built)+))]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) enum $name {}

        #[cfg(not($($built)+))]
        impl Feature for $name {
            type Stored<T> = Absent<T>;

            const MARKER: Option<Self> = None;

            #[inline(always)]
            fn store<T>(self, _: T) -> Absent<T> {
                match self {}
            }
        }

        impl $name {
            /// Whether the feature is built.
            #[allow(dead_code, reason = "not every part is asked both ways")]
            pub(crate) const IS_BUILT: bool = cfg!($($built)+);

            /// Returns the marker if the feature is built.
            #[allow(dead_code, reason = "not every part is asked both ways")]
            pub(crate) const fn get() -> Option<Self> {
                Self::MARKER
            }
        }
    };
}

marker! {
    /// The revisions with a handshake.
    Legacy = feature = "legacy"
}
marker! {
    /// The revisions without a handshake.
    Modern = feature = "modern"
}
marker! {
    /// Change notifications of a server.
    Subscribing = feature = "subscriptions"
}
marker! {
    /// Observers, and records of messages and heads.
    Observability = feature = "observe"
}
marker! {
    /// Tasks.
    Tasking = feature = "tasks"
}

#[cfg(feature = "http")]
marker! {
    /// Access tokens of a server over HTTP, and principals.
    Authorizing = feature = "auth"
}
#[cfg(feature = "http")]
marker! {
    /// Sessions over HTTP, which revisions with a handshake have, their GET streams, and the resumption of streams.
    Sessions = all(feature = "sessions", feature = "legacy")
}

/// A part of the engines that a feature builds.
pub(crate) trait Feature: Sized {
    /// What a [`Part`] has of its value: a type without values if the feature is not built, so that no code drops one.
    type Stored<T>: DerefMut<Target = T>;

    /// The marker, if the feature is built.
    const MARKER: Option<Self>;

    fn store<T>(self, value: T) -> Self::Stored<T>;
}

/// The value of a part whose feature is not built: there is none.
#[allow(dead_code, reason = "all may be built")]
pub(crate) struct Absent<T>(Infallible, PhantomData<fn() -> T>);

impl<T> Deref for Absent<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match self.0 {}
    }
}

impl<T> DerefMut for Absent<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}

/// A part that is made when it is needed. It is never there if its feature is not built, and the compiler knows it.
pub(crate) struct Part<F: Feature, T> {
    value: Option<F::Stored<T>>,
}

impl<F: Feature, T> Default for Part<F, T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<F: Feature, T: fmt::Debug> fmt::Debug for Part<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Part").field(&self.as_ref()).finish()
    }
}

// Inlined everywhere, because the branches that handle a part which is not built would stay otherwise.
impl<F: Feature, T> Part<F, T> {
    pub(crate) const NONE: Self = Self { value: None };

    /// Creates a part that is there.
    pub(crate) fn new(feature: F, value: T) -> Self {
        Self { value: Some(feature.store(value)) }
    }

    /// Returns the part, and makes it if it is not there.
    pub(crate) fn get_or_insert_default(&mut self, feature: F) -> &mut T
    where
        T: Default,
    {
        self.value.get_or_insert_with(|| feature.store(T::default()))
    }

    /// Makes the part if it is set, and its feature is built.
    #[inline(always)]
    pub(crate) fn from_setting<S>(setting: Option<S>, make: impl FnOnce(S) -> T) -> Self {
        let mut part = Self::NONE;
        if let Some(setting) = setting {
            part.get_or_make(|| make(setting));
        }
        part
    }

    #[inline(always)]
    pub(crate) fn as_ref(&self) -> Option<&T> {
        self.value.as_deref()
    }

    #[inline(always)]
    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.value.as_deref_mut()
    }

    /// Returns the part, and makes it if it is not there. Returns `None` if its feature is not built.
    #[inline(always)]
    pub(crate) fn get_or_make(&mut self, make: impl FnOnce() -> T) -> Option<&mut T> {
        let feature = F::MARKER?;
        Some(self.value.get_or_insert_with(|| feature.store(make())))
    }

    #[inline(always)]
    pub(crate) const fn take(&mut self) -> Option<F::Stored<T>> {
        self.value.take()
    }

    #[inline(always)]
    pub(crate) const fn is_some(&self) -> bool {
        self.value.is_some()
    }

    #[inline(always)]
    pub(crate) const fn is_none(&self) -> bool {
        !self.is_some()
    }
}
