//! Parts of the engines that a feature leaves out.
//!
//! Each has a marker. Without the feature the marker is a type without values, so nothing can make a [`Part`] of it, and the
//! compiler drops every branch that handles the part, and the code that drops it. The field stays. The code of the part
//! needs no `cfg` of its own.

use alloc::boxed::Box;
use core::convert::Infallible;
use core::fmt;

/// Declares the marker of a feature, or of a condition on features.
macro_rules! marker {
    ($(#[$doc:meta])* $name:ident = $($built:tt)+) => {
        $(#[$doc])*
        #[cfg($($built)+)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) struct $name;

        $(#[$doc])*
        #[cfg(not($($built)+))]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) enum $name {}

        impl Feature for $name {
            const IS_BUILT: bool = Self::IS_BUILT;
            #[cfg($($built)+)]
            type Stored<T> = Kept<T>;
            #[cfg(not($($built)+))]
            type Stored<T> = Infallible;

            #[inline(always)]
            fn get() -> Option<Self> {
                Self::get()
            }

            #[inline(always)]
            #[cfg_attr(not($($built)+), allow(unused_variables, reason = "there is no marker"))]
            fn store<T>(self, value: T) -> Self::Stored<T> {
                #[cfg($($built)+)]
                {
                    Kept(value)
                }
                #[cfg(not($($built)+))]
                {
                    match self {}
                }
            }
        }

        impl $name {
            /// Whether the feature is built.
            #[allow(dead_code, reason = "not every part is asked both ways")]
            pub(crate) const IS_BUILT: bool = cfg!($($built)+);

            /// Returns the marker if the feature is built.
            #[allow(dead_code, reason = "not every part is asked both ways")]
            pub(crate) const fn get() -> Option<Self> {
                #[cfg($($built)+)]
                {
                    Some(Self)
                }
                #[cfg(not($($built)+))]
                {
                    None
                }
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
    const IS_BUILT: bool;

    /// What a [`Part`] has of its value: a type without values if the feature is not built, so that no code drops one.
    type Stored<T>: Stored<T>;

    /// Returns the marker if the feature is built.
    fn get() -> Option<Self>;

    fn store<T>(self, value: T) -> Self::Stored<T>;
}

pub(crate) trait Stored<T> {
    fn value(&self) -> &T;

    fn value_mut(&mut self) -> &mut T;

    fn into_value(self) -> T;
}

/// The value of a part whose feature is built.
pub(crate) struct Kept<T>(T);

impl<T> Stored<T> for Kept<T> {
    #[inline(always)]
    fn value(&self) -> &T {
        &self.0
    }

    #[inline(always)]
    fn value_mut(&mut self) -> &mut T {
        &mut self.0
    }

    #[inline(always)]
    fn into_value(self) -> T {
        self.0
    }
}

impl<T> Stored<T> for Infallible {
    #[inline(always)]
    fn value(&self) -> &T {
        match *self {}
    }

    #[inline(always)]
    fn value_mut(&mut self) -> &mut T {
        match *self {}
    }

    #[inline(always)]
    fn into_value(self) -> T {
        match self {}
    }
}

/// A part that is made when it is needed. It is never there if its feature is not built, and the compiler knows it.
pub(crate) struct Part<F: Feature, T> {
    value: Option<Box<F::Stored<T>>>,
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
        Self { value: Some(Box::new(feature.store(value))) }
    }

    /// Returns the part, and makes it if it is not there.
    pub(crate) fn get_or_insert_default(&mut self, feature: F) -> &mut T
    where
        T: Default,
    {
        self.value.get_or_insert_with(|| Box::new(feature.store(T::default()))).value_mut()
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
        self.value.as_deref().map(Stored::value)
    }

    #[inline(always)]
    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.value.as_deref_mut().map(Stored::value_mut)
    }

    /// Returns the part, and makes it if it is not there. Returns `None` if its feature is not built.
    #[inline(always)]
    pub(crate) fn get_or_make(&mut self, make: impl FnOnce() -> T) -> Option<&mut T> {
        let feature = F::get()?;
        Some(self.value.get_or_insert_with(|| Box::new(feature.store(make()))).value_mut())
    }

    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<T> {
        self.value.take().map(|part| (*part).into_value())
    }

    #[inline(always)]
    pub(crate) const fn is_some(&self) -> bool {
        F::IS_BUILT && self.value.is_some()
    }

    #[inline(always)]
    pub(crate) const fn is_none(&self) -> bool {
        !self.is_some()
    }
}
