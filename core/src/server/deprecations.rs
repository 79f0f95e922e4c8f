//! Deprecated features that clients use, each reported once per session or byte stream.

use super::engine::Engine;
use crate::deprecation::DeprecatedFeature;
use crate::diagnostic::Diagnostic;
use crate::slab::Key;

/// Reports that the client of a channel uses a deprecated feature, unless it was reported.
#[cold]
pub(crate) fn report_deprecated(engine: &mut Engine, channel: Key, feature: DeprecatedFeature) {
    let channel = engine.endpoint.root_channel(channel);
    let Some(c) = engine.endpoint.channels.get_mut(channel) else { return };
    // An exchange alone ends with its request, so it remembers nothing.
    let reported = if c.role.stream.is_exchange() {
        &mut engine.reported_features
    } else {
        &mut c.role.reported_features
    };
    if reported.insert(feature) {
        engine.diagnose(channel, Diagnostic::DeprecatedFeature { feature });
    }
}
