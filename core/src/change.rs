//! What can change at a server while a client is connected: the news of subscriptions.

use alloc::string::String;

/// Something of a server's that has changed (SUB-002, RES-014)
///
/// News says that something is another than before, not how: who wants to know asks again. So equal news that has not
/// been read yet is one piece of news.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools
    Tools,
    /// The list of prompts
    Prompts,
    /// The lists of resources and of their templates
    Resources,
    /// What a resource holds, by its URI
    Resource(String),
}
