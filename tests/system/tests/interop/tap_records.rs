//! Validation of tap records against the schemas.

use mcp_proto::tap::{self, TapRecord};
use mcp_proto::{Version, VersionSet};
use mcp_tests::harness::MessageObserver;
use mcp_tests::schema::MessageDirection;

use crate::run::print_line;

/// Checks that each recorded message is valid in its revision, and prints their number.
pub(crate) fn assert_records_valid(subject: &str, version: Version, records: &[TapRecord]) {
    let mut observer = MessageObserver::new(VersionSet::only(version));
    for record in records {
        let direction = match record.direction {
            tap::Direction::Out => MessageDirection::ClientToServer,
            tap::Direction::In => MessageDirection::ServerToClient,
        };
        observer.record_emitted(record.at, direction, &record.bytes);
    }
    let checked = if observer.has_schemas() { "valid" } else { "not validated" };
    print_line(&format!("interop, {subject}, {version}: {} messages, {checked}", records.len()));
}
