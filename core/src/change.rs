//! Changes of a server that clients can subscribe to.

use alloc::string::String;

/// A list or a resource of a server that has changed (SUB-002, RES-014).
///
/// A change says what is different now, and carries no content: request the list or the resource again to get it.
/// Equal changes that wait for delivery are merged into one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and resource templates.
    Resources,
    /// The content of one resource, by its URI.
    Resource(String),
}
