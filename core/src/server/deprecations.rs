//! Deprecated features that clients use, each reported once per peer.

use alloc::boxed::Box;

use super::channel::principal;
use super::engine::Engine;
use crate::deprecation::DeprecatedFeature;
use crate::diagnostic::Diagnostic;
use crate::slab::Key;

/// Reports that the client of a channel uses a deprecated feature, unless it was reported.
///
/// A peer is a session, a byte stream, or the principal of exchanges without a session.
#[cold]
pub(crate) fn report_deprecated(engine: &mut Engine, channel: Key, feature: DeprecatedFeature) {
    let channel = engine.endpoint.root_channel(channel);
    let principal: Option<Box<str>> = principal(&engine.endpoint, channel).map(Box::from);
    let Some(c) = engine.endpoint.channels.get_mut(channel) else { return };
    // An exchange alone ends with its request, so it remembers nothing.
    let is_new = if c.role.stream.is_exchange() {
        engine.reported_features.insert(principal.as_deref(), feature)
    } else {
        c.role.reported_features.insert(feature)
    };
    if is_new {
        engine.diagnose(channel, Diagnostic::DeprecatedFeature { feature });
    }
}
