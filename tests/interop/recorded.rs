//! What the tap of our client has kept of a connection, held against the schemas.

use mcp_proto::tap::{self, TapRecord};
use mcp_proto::{Version, VersionSet};
use mcp_tests::harness::Watch;
use mcp_tests::schema::Direction;

use crate::run::say;

/// Fails at the first message that is not valid in its revision, and says how many there were
pub(crate) fn are_valid(what: &str, version: Version, records: &[TapRecord]) {
    let mut watch = Watch::new(VersionSet::only(version));
    for record in records {
        let direction = match record.direction {
            tap::Direction::Out => Direction::ClientToServer,
            tap::Direction::In => Direction::ServerToClient,
        };
        watch.emitted(record.at, direction, &record.bytes);
    }
    let checked = if watch.checks() { "valid" } else { "not compared with the schema" };
    say(&format!("interop, {what}, {version}: {} messages, {checked}", records.len()));
}
