//! How a client is registered at an authorization server.

/// How a client got its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registration {
    /// By its configuration.
    PreRegistered,
    /// It is the URL of a client id metadata document.
    MetadataDocument,
    /// By dynamic client registration.
    #[deprecated(note = "MCP PR #2858; earliest removal: first revision released on or after 2027-07-28")]
    Dynamic,
}

impl Registration {
    /// Returns the name.
    #[must_use]
    #[expect(deprecated, reason = "supported until its removal")]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreRegistered => "pre-registered",
            Self::MetadataDocument => "metadata-document",
            Self::Dynamic => "dynamic",
        }
    }

    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::PreRegistered, Self::MetadataDocument, Self::Dynamic].into_iter().find(|r| r.name() == name)
    }
}
