//! Server cards and `server.json`: static descriptions of a server, for clients that do not know it yet (SEP-2127).
//!
//! A [`ServerCard`] says who a server is and where it answers. The same value is written in two forms: as the card that
//! an HTTP server offers itself ([`ServerCard::configure`]), and as the
//! `server.json` of the MCP Registry, which can name packages, too. Neither lists tools, resources or prompts.
//!
//! SEP-2127 is Final. The schema of cards (`v1`) is that of an extension, not part of a revision of the protocol, and may
//! change until the extension is Stable (SEP-3392); so **this module may change in a minor release**. `server.json` follows the schema of 2025-12-11.
//!
//! Both documents are public. [`ServerCard::check`] refuses fixed values of secrets, but it cannot know whether a text or a
//! URL tells too much. Clients treat cards as hints: what the server says about itself once connected prevails.
//!
//! ```
//! use mcp_proto::Implementation;
//! use mcp_extensions::cards::{CardHeader, CardRemote, ServerCard};
//!
//! let info = Implementation::new("com.example/tides", "1.2.0").title("Tides").description("Tide tables of all harbours");
//! let header = CardHeader::new("X-Api-Key").description("Key of your account").is_secret(true).is_required(true);
//! let remote = CardRemote::http("https://tides.example.com/mcp").headers([header]);
//! let card = ServerCard::from_info(&info).remotes([remote]);
//!
//! assert!(card.to_card()?.as_str().starts_with(r#"{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/"#));
//! assert!(card.to_server_json()?.as_str().contains(r#""name":"com.example/tides","version":"1.2.0""#));
//! # Ok::<(), mcp_proto::model::ValidationError>(())
//! ```

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::http::Url;
use mcp_proto::http::server::{Config, PublicDocument};
use mcp_proto::model::{Icon, Implementation, Map, ValidationError};
use mcp_proto::{RawJson, message, string_enum};

mod check;
#[cfg(test)]
mod tests;

/// Media type of a card.
pub const CARD_MEDIA_TYPE: &str = "application/mcp-server-card+json";
/// Media type of an [`AiCatalog`].
pub const CATALOG_MEDIA_TYPE: &str = "application/ai-catalog+json";
/// Path of the catalog of a host (RFC 8615).
pub const CATALOG_PATH: &str = "/.well-known/ai-catalog.json";
/// Suffix that makes the URL of an MCP endpoint the URL of its card.
pub const CARD_SUFFIX: &str = "/server-card";
/// Schema of cards (SEP-2127); it may change until the extension is Stable.
pub const CARD_SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";
/// Schema of `server.json`.
pub const SERVER_JSON_SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

string_enum! {
    /// Transport of a remote endpoint or of a package.
    CardTransport {
        /// Streamable HTTP.
        StreamableHttp = "streamable-http",
        /// HTTP+SSE of 2024-11-05: deprecated, for existing clients only.
        Sse = "sse",
        /// The streams of a process; for packages only.
        Stdio = "stdio",
    }

    /// Kind of an argument of a command line.
    CardArgumentKind {
        /// A value alone, by its position.
        Positional = "positional",
        /// A flag with its value: `--port 8000`.
        Named = "named",
    }

    /// Format of an input.
    CardInputFormat {
        /// Text.
        Text = "string",
        /// A number in decimal digits.
        Number = "number",
        /// `true` or `false`.
        Boolean = "boolean",
        /// Path of a file of the user.
        FilePath = "filepath",
    }
}

message! {
    /// Description of a server.
    ServerCard {
        /// Name in reverse-DNS form with one slash, 3 to 200 characters: `com.example/weather`.
        ///
        /// It should be the name that the server gives once connected.
        name: String = "name",
        /// Version, at most 255 bytes; not a range such as `^1.2.3` or `1.x`.
        version: String = "version",
        /// Description of the tasks of the server, 1 to 100 characters.
        description: String = "description",
    } {
        /// Name for display, 1 to 100 characters.
        opt title: String = "title",
        /// Web page with more information.
        opt website_url: String = "websiteUrl",
        /// Source code.
        opt repository: CardRepository = "repository",
        /// Icons.
        list icons: Vec<Icon> = "icons",
        /// Endpoints over HTTP.
        list remotes: Vec<CardRemote> = "remotes",
        /// Packages to install; part of `server.json`, not of a card.
        list packages: Vec<CardPackage> = "packages",
        /// Metadata of vendors, by reverse-DNS names.
        opt meta: RawJson as Object = "_meta",
    }

    /// Repository of the source code.
    CardRepository {
        /// URL for browsing and cloning.
        url: String = "url",
        /// Hosting service: `github`, for example.
        source: String = "source",
    } {
        /// Path of the server in the repository: relative, without `..`.
        opt subfolder: String = "subfolder",
        /// Identifier that the hosting service gives to the repository.
        opt id: String = "id",
    }

    /// An endpoint over HTTP.
    CardRemote {
        /// Transport: [`StreamableHttp`](CardTransport::StreamableHttp) or the deprecated [`Sse`](CardTransport::Sse).
        transport: CardTransport = "type",
        /// URL: absolute, `https` except on this machine, with `{placeholders}` that `variables` describes.
        url: String = "url",
    } {
        /// Header fields that a client has to send.
        list headers: Vec<CardHeader> = "headers",
        /// Variables of the URL.
        opt variables: Map<CardInput> = "variables",
        /// Revisions of the protocol that the endpoint speaks.
        list supported_protocol_versions: Vec<String> = "supportedProtocolVersions",
    }

    /// A value that a user supplies.
    CardInput {} {
        /// Description for users.
        opt description: String = "description",
        /// True if a client has to supply it; absent means false.
        opt is_required: bool = "isRequired",
        /// True if it is confidential; absent means false. Then it has neither `value` nor `default`.
        opt is_secret: bool = "isSecret",
        /// Its format; absent means text.
        opt format: CardInputFormat = "format",
        /// Value if the user gives none.
        opt default: String = "default",
        /// Example that is shown while the user enters the value.
        opt placeholder: String = "placeholder",
        /// Fixed value, which users cannot change.
        opt value: String = "value",
        /// Allowed values.
        list choices: Vec<String> = "choices",
    }

    /// A header field or an environment variable, with its value.
    CardHeader {
        /// Name of the field or variable.
        name: String = "name",
    } {
        /// Description for users.
        opt description: String = "description",
        /// True if a client has to supply it; absent means false.
        opt is_required: bool = "isRequired",
        /// True if it is confidential; absent means false.
        ///
        /// Then it has no `default`, and its `value` has a placeholder for the confidential part, without a value of its own:
        /// `Bearer {token}`.
        opt is_secret: bool = "isSecret",
        /// Its format; absent means text.
        opt format: CardInputFormat = "format",
        /// Value if the user gives none.
        opt default: String = "default",
        /// Example that is shown while the user enters the value.
        opt placeholder: String = "placeholder",
        /// Fixed value, with `{placeholders}` that `variables` describes. Braces around other text than a name are literal.
        opt value: String = "value",
        /// Allowed values.
        list choices: Vec<String> = "choices",
        /// Variables of the value.
        opt variables: Map<CardInput> = "variables",
    }

    /// An argument of the command line of a package, with its value.
    ///
    /// [`positional`](Self::positional) and [`named`](Self::named) make one.
    CardArgument {
        /// Kind: by position or by name.
        kind: CardArgumentKind = "type",
    } {
        /// Flag with its dashes: `--port`; required for a named argument.
        opt name: String = "name",
        /// Name of the value, for users and for placeholders; a positional argument has it or `value`.
        opt value_hint: String = "valueHint",
        /// True if the argument can occur more than once; absent means false.
        opt is_repeated: bool = "isRepeated",
        /// Description for users.
        opt description: String = "description",
        /// True if a client has to supply it; absent means false.
        opt is_required: bool = "isRequired",
        /// True if it is confidential; absent means false. Then it has no `default` and no fixed `value`.
        opt is_secret: bool = "isSecret",
        /// Its format; absent means text.
        opt format: CardInputFormat = "format",
        /// Value if the user gives none.
        opt default: String = "default",
        /// Example that is shown while the user enters the value.
        opt placeholder: String = "placeholder",
        /// Fixed value, with `{placeholders}` that `variables` describes. Braces around other text than a name are literal.
        opt value: String = "value",
        /// Allowed values.
        list choices: Vec<String> = "choices",
        /// Variables of the value.
        opt variables: Map<CardInput> = "variables",
    }

    /// A package of the server in a registry of packages, for `server.json`.
    CardPackage {
        /// Registry: `npm`, `pypi`, `oci`, `nuget`, `maven`, `cargo` or `mcpb`, for example.
        registry_type: String = "registryType",
        /// Name of the package, or the URL of a file.
        identifier: String = "identifier",
        /// How a client talks to the installed program.
        transport: CardPackageTransport = "transport",
    } {
        /// Version: neither a range nor `latest`.
        opt version: String = "version",
        /// Base URL of the registry, if it is not the usual one.
        opt registry_base_url: String = "registryBaseUrl",
        /// SHA-256 of the file, 64 lower-case hexadecimal digits; required for `mcpb`.
        opt file_sha256: String = "fileSha256",
        /// Program that runs the package: `npx`, `uvx`, `docker` or `dnx`, for example.
        opt runtime_hint: String = "runtimeHint",
        /// Arguments of the program that runs the package.
        list runtime_arguments: Vec<CardArgument> = "runtimeArguments",
        /// Arguments of the server.
        list package_arguments: Vec<CardArgument> = "packageArguments",
        /// Environment variables.
        list environment_variables: Vec<CardHeader> = "environmentVariables",
    }

    /// Transport of an installed package.
    CardPackageTransport {
        /// Transport.
        transport: CardTransport = "type",
    } {
        /// URL, for the HTTP transports; placeholders are names or value hints of arguments, or environment variables.
        opt url: String = "url",
        /// Header fields that a client has to send, for the HTTP transports.
        list headers: Vec<CardHeader> = "headers",
    }
}

impl ServerCard {
    /// Creates the card of a server from what it says about itself: name, version, title, description, web page, icons.
    ///
    /// That of a router is [`Router::implementation`](mcp_proto::router::Router::implementation). [`check`](Self::check) refuses
    /// it if the name is not in reverse-DNS form or there is no description; set
    /// [`name`](#structfield.name) and [`description`](#structfield.description) then.
    #[must_use]
    pub fn from_info(info: &Implementation) -> Self {
        let description = info.description.clone().unwrap_or_default();
        let mut card = Self::new(info.name.clone(), info.version.clone(), description);
        card.title.clone_from(&info.title);
        card.website_url.clone_from(&info.website_url);
        card.icons = info.icons.iter().filter(|icon| icon.is_allowed()).cloned().collect();
        card
    }

    /// Writes the card, without packages.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and if members that the application gave nest too deep.
    pub fn to_card(&self) -> Result<RawJson, ValidationError> {
        self.check()?;
        let mut card = self.clone();
        card.packages.clear();
        with_schema(CARD_SCHEMA, &card)
    }

    /// Writes the `server.json` for the MCP Registry.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check). Registries allow less than clients do: icons are `https` URLs of at most 255 bytes, PNG,
    /// JPEG, SVG or WebP, with sizes such as `48x48` or `any`, and URLs of endpoints do not begin with a placeholder.
    pub fn to_server_json(&self) -> Result<RawJson, ValidationError> {
        self.check()?;
        self.check_server_json()?;
        let mut described = self.clone();
        for remote in &mut described.remotes {
            // Not a member of this schema.
            remote.supported_protocol_versions.clear();
        }
        with_schema(SERVER_JSON_SCHEMA, &described)
    }

    /// Returns whether an endpoint uses a transport that the protocol deprecates (HTTP+SSE).
    #[must_use]
    pub fn has_deprecated_remote(&self) -> bool {
        self.remotes.iter().any(|remote| remote.transport == CardTransport::Sse)
    }
}

impl CardArgument {
    /// Creates an argument that is identified by its position, from the name of its value.
    #[must_use]
    pub fn positional(value_hint: impl Into<String>) -> Self {
        Self::new(CardArgumentKind::Positional).value_hint(value_hint)
    }

    /// Creates an argument with a flag, such as `--port`.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self::new(CardArgumentKind::Named).name(name)
    }
}

impl CardRemote {
    /// Creates an endpoint of Streamable HTTP.
    #[must_use]
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(CardTransport::StreamableHttp, url)
    }
}

/// Writes a description with the member `$schema` in front.
///
/// # Errors
///
/// If the description is no JSON of at most the depth that is read: members that the application gave may nest too deep.
fn with_schema(schema: &str, card: &ServerCard) -> Result<RawJson, ValidationError> {
    let mut card = card.clone();
    card.extra.remove(SCHEMA);
    let members = RawJson::encode(&card).map_err(ValidationError::new)?;
    // `name` is always there, so a comma follows.
    let rest = members.as_str().strip_prefix('{').unwrap_or("}");
    RawJson::new(format!("{{\"{SCHEMA}\":\"{schema}\",{rest}"))
        .map_err(|error| ValidationError::new(format_args!("the description nests too deep: {error}")))
}

const SCHEMA: &str = "$schema";

// The AI catalog, by which clients find the cards of a host.

message! {
    /// Catalog of the servers of a host, at [`CATALOG_PATH`]; it may change, as cards may.
    ///
    /// ```
    /// use mcp_extensions::cards::{AiCatalog, ServerCard};
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

    /// Adds the card and the catalog of its host to the public documents of a server (SEP-2127, experimental; DESIGN-47).
    ///
    /// The card is at the path of the endpoint with [`CARD_SUFFIX`] appended, the catalog at [`CATALOG_PATH`]. A card that was
    /// added before is replaced. The endpoint is the first remote of the card; its path need not be that of the
    /// configuration, as a proxy may map it.
    ///
    /// ```
    /// use mcp_extensions::cards::{CardRemote, ServerCard};
    /// use mcp_proto::http::server::Config;
    ///
    /// let remote = CardRemote::http("https://tides.example.com/mcp");
    /// let card = ServerCard::new("com.example/tides", "1.0.0", "Tide tables").remotes([remote]);
    /// let config = card.configure(Config::new().allow_host("tides.example.com"))?;
    /// # Ok::<(), mcp_proto::model::ValidationError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn configure(&self, config: Config) -> Result<Config, ValidationError> {
        let catalog = self.to_catalog()?.to_json();
        let card = PublicDocument::beside_endpoint(CARD_SUFFIX, CARD_MEDIA_TYPE, self.to_card()?);
        Ok(config.document(card).document(PublicDocument::at_path(CATALOG_PATH, CATALOG_MEDIA_TYPE, catalog)))
    }

    /// Returns the entry without its place: `urn:air:{publisher}:mcp:{name}`, where the publisher is the namespace read
    /// backwards.
    fn catalog_entry(&self) -> CatalogEntry {
        let (namespace, name) = self.name.split_once('/').unwrap_or(("", &self.name));
        let publisher = namespace.rsplit('.').collect::<Vec<_>>().join(".");
        CatalogEntry::new(format!("urn:air:{publisher}:mcp:{name}"), CARD_MEDIA_TYPE)
    }
}
