//! `roots/list`: where a client lets a server work (ROOT).

use alloc::string::String;
use alloc::vec::Vec;

use super::message::message;
use crate::raw::RawJson;

message! {
    /// The result of `roots/list` (ROOT-002)
    ListRootsResult {
        /// The roots
        roots: Vec<Root> as List = "roots",
    } {
        /// Metadata (until 2025-11-25)
        opt meta: RawJson as Object = "_meta",
    }

    /// A place where a server may work: information, not access control (ROOT-013)
    Root {
        /// Where it is: a `file://` URI (ROOT-005)
        uri: String = "uri",
    } {
        /// Name for people
        opt name: String = "name",
        /// Metadata (since 2025-06-18)
        opt meta: RawJson as Object = "_meta",
    }
}

#[cfg(test)]
mod tests {
    use super::super::for_tests::{missing, same};
    use super::*;

    // covers: ROOT-002, ROOT-005
    #[test]
    fn roots() {
        let meta = RawJson::new("{}").expect("JSON");
        let root = Root::new("file:///home").name("home").meta(meta.clone());
        same(&root);
        same(&ListRootsResult::new(alloc::vec![root, Root::new("file:///")]).meta(meta));
        missing::<Root>("{}", "uri");
        missing::<ListRootsResult>("{}", "roots");
    }
}
