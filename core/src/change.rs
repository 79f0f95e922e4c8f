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
    /// A list of an extension (since 2026-07-28).
    Custom(CustomList),
}

/// A list of an extension, whose changes a modern subscription can cover as those of the lists that the protocol has.
///
/// It is named by the member of the filter of `subscriptions/listen` that asks for it, a boolean, and by the notification
/// of its changes, which has no parameters beside `_meta`. Both sides register it: a server honours a list that is
/// registered by [`server::Config::custom_list`](crate::server::Config::custom_list) and announces its changes by
/// [`Engine::publish`](crate::server::Engine::publish). A client registers it by
/// [`client::Config::custom_list`](crate::client::Config::custom_list) and asks for it by
/// [`SubscriptionFilter::custom_list`](crate::model::SubscriptionFilter::custom_list). Legacy revisions have no filter, so
/// nothing is sent there.
///
/// ```
/// use mcp_proto::model::SubscriptionFilter;
/// use mcp_proto::{Change, CustomList, client, server};
///
/// const BERTHS: CustomList = CustomList::new("berthsListChanged", "notifications/berths/list_changed");
/// let server = server::Config::new("harbour", "1.0.0").custom_list(BERTHS)?;
/// let client = client::Config::new("app", "1.0.0").custom_list(BERTHS)?;
/// // The client subscribes by this filter, the server publishes this change.
/// let filter = SubscriptionFilter::new().custom_list(BERTHS);
/// let change = Change::Custom(BERTHS);
/// # assert!(filter.has_custom_list(BERTHS) && server.custom_list(BERTHS).is_ok() && client.custom_list(BERTHS).is_ok());
/// # let _ = change;
/// # Ok::<(), mcp_proto::CustomListError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomList {
    member: &'static str,
    notification: &'static str,
}

impl CustomList {
    /// Creates a list from the names of its member and of its notification.
    #[must_use]
    pub const fn new(member: &'static str, notification: &'static str) -> Self {
        Self { member, notification }
    }

    /// Returns the name of the member of the filter, for example `eventsListChanged`.
    #[must_use]
    pub const fn member(&self) -> &'static str {
        self.member
    }

    /// Returns the method of the notification, for example `notifications/events/list_changed`.
    #[must_use]
    pub const fn notification(&self) -> &'static str {
        self.notification
    }
}

/// The reason why a custom list cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CustomListError {
    /// The protocol or another registered list has the name of its member or of its notification.
    #[error(
        "the list `{}` with `{}` cannot be registered: one of the names is taken",
        _0.member,
        _0.notification
    )]
    Taken(CustomList),
    /// Five other lists are registered.
    #[error("the list `{}` cannot be registered: there are 5 others", _0.member)]
    Full(CustomList),
}
