//! Parts of the engines that a feature leaves out.
//!
//! Each has a marker. Without the feature the marker is a type without values, so nothing can make a [`Part`] of it, and the
//! compiler drops every branch that handles the part. The field, and the code that drops it, stay. The code of the part
//! needs no `cfg` of its own.

use alloc::boxed::Box;
use core::marker::PhantomData;

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
pub(crate) trait Feature {
    const IS_BUILT: bool;
}

/// A part that is made when it is needed. It is never there if its feature is not built, and the compiler knows it.
#[derive(Debug)]
pub(crate) struct Part<F, T> {
    value: Option<Box<T>>,
    feature: PhantomData<F>,
}

impl<F, T> Default for Part<F, T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<F, T> Part<F, T> {
    pub(crate) const NONE: Self = Self { value: None, feature: PhantomData };

    /// Creates a part that is there.
    pub(crate) fn new(_: F, value: T) -> Self {
        Self { value: Some(Box::new(value)), feature: PhantomData }
    }

    /// Returns the part, and makes it if it is not there.
    pub(crate) fn get_or_insert_default(&mut self, _: F) -> &mut T
    where
        T: Default,
    {
        self.value.get_or_insert_default()
    }
}

// Inlined everywhere, because the branches that handle a part which is not built would stay otherwise.
impl<F: Feature, T> Part<F, T> {
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
        if F::IS_BUILT { self.value.as_deref() } else { None }
    }

    #[inline(always)]
    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        if F::IS_BUILT { self.value.as_deref_mut() } else { None }
    }

    /// Returns the part, and makes it if it is not there. Returns `None` if its feature is not built.
    #[inline(always)]
    pub(crate) fn get_or_make(&mut self, make: impl FnOnce() -> T) -> Option<&mut T> {
        if F::IS_BUILT { Some(self.value.get_or_insert_with(|| Box::new(make()))) } else { None }
    }

    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<T> {
        if F::IS_BUILT { self.value.take().map(|part| *part) } else { None }
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
