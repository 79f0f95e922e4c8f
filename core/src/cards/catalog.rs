//! The AI catalog, by which clients find the cards of a host.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{CARD_MEDIA_TYPE, CARD_SUFFIX, CardTransport, ServerCard};
use crate::model::ValidationError;
use crate::model::message::message;
use crate::raw::RawJson;
use crate::url::Url;

message! {
    /// Catalog of the servers of a host, at [`CATALOG_PATH`](super::CATALOG_PATH); it may change, as cards may.
    ///
    /// ```
    /// use mcp_proto::cards::{AiCatalog, ServerCard};
    ///
    /// let card = ServerCard::new("com.example/weather", "1.0.0", "Weather of tomorrow");
    /// let catalog = AiCatalog::default().with_card(&card, "https://example.com/mcp/server-card")?;
    /// assert!(catalog.to_json().as_str().contains(r#""identifier":"urn:air:example.com:mcp:weather""#));
    /// # Ok::<(), mcp_proto::model::ValidationError>(())
    /// ```
    AiCatalog {
        /// Version of the specification of catalogs: `1.0`.
        spec_version: String = "specVersion",
        /// Entries.
        entries: Vec<CatalogEntry> as List = "entries",
    } {}

    /// An entry of a catalog: exactly one of `url` and `data`.
    CatalogEntry {
        /// Identifier: `urn:air:{publisher}:{namespace}:{name}`.
        identifier: String = "identifier",
        /// Media type.
        kind: String = "type",
    } {
        /// URL of the card.
        opt url: String = "url",
        /// The card itself.
        opt data: RawJson as Object = "data",
    }
}

impl Default for AiCatalog {
    fn default() -> Self {
        Self::new("1.0", Vec::new())
    }
}

impl AiCatalog {
    /// Adds a server by the URL of its card.
    ///
    /// # Errors
    ///
    /// As [`ServerCard::check`], or the URL is not one.
    pub fn with_card(mut self, card: &ServerCard, url: impl Into<String>) -> Result<Self, ValidationError> {
        card.check()?;
        let url = url.into();
        Url::parse(&url).map_err(|error| ValidationError::at_member("url", error))?;
        self.entries.push(card.catalog_entry().url(url));
        Ok(self)
    }

    /// Adds a server with its card in the entry, for a card without a URL of its own.
    ///
    /// # Errors
    ///
    /// As [`ServerCard::check`].
    pub fn with_inline_card(mut self, card: &ServerCard) -> Result<Self, ValidationError> {
        let data = card.to_card()?;
        self.entries.push(card.catalog_entry().data(data));
        Ok(self)
    }

    /// Writes the catalog.
    #[must_use]
    pub fn to_json(&self) -> RawJson {
        RawJson::encode(self).unwrap_or_else(|_| RawJson::empty_object())
    }
}

impl ServerCard {
    /// Returns the catalog of a host with this server alone.
    ///
    /// The entry has the URL of the card: that of the first endpoint of Streamable HTTP without placeholders, with
    /// [`CARD_SUFFIX`] appended. Without such an endpoint it holds the card itself.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn to_catalog(&self) -> Result<AiCatalog, ValidationError> {
        let plain = self.remotes.iter().find(|remote| {
            remote.transport == CardTransport::StreamableHttp && !remote.url.contains(['{', '?'])
        });
        match plain {
            Some(remote) => AiCatalog::default()
                .with_card(self, format!("{}{CARD_SUFFIX}", remote.url.trim_end_matches('/'))),
            None => AiCatalog::default().with_inline_card(self),
        }
    }

    /// Returns the entry without its place: `urn:air:{publisher}:mcp:{name}`, where the publisher is the namespace read
    /// backwards.
    fn catalog_entry(&self) -> CatalogEntry {
        let (namespace, name) = self.name.split_once('/').unwrap_or(("", &self.name));
        let publisher = namespace.rsplit('.').collect::<Vec<_>>().join(".");
        CatalogEntry::new(format!("urn:air:{publisher}:mcp:{name}"), CARD_MEDIA_TYPE)
    }
}
