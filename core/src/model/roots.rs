//! `roots/list`: directories of the client that a server may work in (ROOT).

use alloc::string::String;
use alloc::vec::Vec;

use super::message::message;
use crate::raw::RawJson;

message! {
    /// Result of `roots/list` (ROOT-002).
    ListRootsResult {
        /// The roots.
        roots: Vec<Root> as List = "roots",
    } {
        /// Metadata (up to and including 2025-11-25).
        opt meta: RawJson as Object = "_meta",
    }

    /// A location where a server may work: information, not access control (ROOT-013).
    Root {
        /// A `file://` URI (ROOT-005).
        uri: String = "uri",
    } {
        /// Name for display.
        opt name: String = "name",
        /// Metadata (since 2025-06-18).
        opt meta: RawJson as Object = "_meta",
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_missing, assert_round_trip};
    use super::*;

    // covers: ROOT-002, ROOT-005
    #[test]
    fn roots_round_trip() {
        let meta = RawJson::new("{}").expect("JSON");
        let root = Root::new("file:///home").name("home").meta(meta.clone());
        assert_round_trip(&root);
        assert_round_trip(&ListRootsResult::new(alloc::vec![root, Root::new("file:///")]).meta(meta));
        assert_missing::<Root>("{}", "uri");
        assert_missing::<ListRootsResult>("{}", "roots");
    }
}
