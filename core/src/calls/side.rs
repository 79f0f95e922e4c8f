//! What a link has to know of the things that an engine keeps per channel.

use crate::slab::Key;

/// What an engine adds to a channel
///
/// Channels of a server may be the streams of one session: their messages go out apart, and all else, request ids above
/// all, belongs to the channel that is their *home*. A client has no such thing.
pub(crate) trait Side {
    /// What is kept once for all channels
    type Shared: Default + core::fmt::Debug;

    /// The channel that has the ids, the session and the peer of this one; none when it is its own
    fn home(&self) -> Option<Key> {
        None
    }

    /// Something is to be answered on the channel
    fn begun(&mut self) {}

    /// … and has been answered, or will not be
    fn ended(&mut self, _shared: &mut Self::Shared) {}

    /// An answer was an error
    fn failed(&mut self, _code: i64) {}

    /// A message was appended
    fn sent(&mut self, _shared: &mut Self::Shared) {}
}

impl Side for () {
    type Shared = ();
}
