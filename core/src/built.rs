//! Parts of the engines that a feature leaves out.
//!
//! A value of such a part holds a marker. Without the feature the marker is a type without values, so an `Option` of the
//! part is always `None`, and the compiler drops every branch that handles the part. The code of the part needs no
//! `cfg` of its own, and what makes a part asks for its marker first.

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

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
    /// Records of messages.
    Tapping = feature = "tap"
}

marker! {
    /// Requests of a server to its client, and rounds of calls that ask for input.
    Conversing = feature = "conversations"
}
marker! {
    /// Calls that are sent again: with input responses, or after a loss.
    Repeating = any(feature = "conversations", feature = "exchanges")
}
marker! {
    /// Calls that wait for input at a server, which revisions with a handshake have.
    Parking = all(feature = "conversations", feature = "legacy")
}
marker! {
    /// Log messages, and the level for them.
    Logging = feature = "logs"
}
marker! {
    /// Batches of 2025-03-26.
    Batching = all(feature = "batches", feature = "legacy")
}

marker! {
    /// Tasks, whose ids need `Entropy`.
    Tasking = feature = "crypto"
}

#[cfg(feature = "http")]
marker! {
    /// Sessions over HTTP, which revisions with a handshake have.
    Sessions = all(feature = "sessions", feature = "legacy")
}
#[cfg(feature = "http")]
marker! {
    /// GET streams of sessions over HTTP, and the resumption of streams.
    Resuming = all(feature = "resumption", feature = "sessions", feature = "legacy")
}

/// A boxed value that exists only if its feature is built.
#[derive(Debug)]
pub(crate) struct Part<M, T: ?Sized> {
    _marker: M,
    value: Box<T>,
}

impl<M, T: ?Sized> Part<M, T> {
    pub(crate) const fn new(marker: M, value: Box<T>) -> Self {
        Self { _marker: marker, value }
    }
}

impl<M, T: ?Sized> Deref for Part<M, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<M, T: ?Sized> DerefMut for Part<M, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
