//! Where a client goes and how it behaves on the way.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::url::{Url, UrlError};
use crate::ascii::AnyCase as _;
use crate::head::{Fields, is_token};
use crate::http::fields;

/// The value of an `Authorization` field: a secret
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    value: Arc<[u8]>,
}

impl Credential {
    /// A bearer token (HTTP-079)
    pub fn bearer(token: &str) -> Result<Self, BadField> {
        let fits = |b: u8| b.is_ascii_graphic();
        if token.is_empty() || !token.bytes().all(fits) {
            return Err(BadField::Value);
        }
        Self::new(&[b"Bearer ", token.as_bytes()].concat())
    }

    /// Any value, as it will stand in the field
    pub fn new(value: &[u8]) -> Result<Self, BadField> {
        if !Fields::new().push(fields::AUTHORIZATION, value) {
            return Err(BadField::Value);
        }
        Ok(Self { value: value.into() })
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}

/// Says that there is one, and not what it is (SEC-019)
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// Why a field cannot be added to requests
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadField {
    /// The name is no token
    #[error("its name is no token")]
    Name,
    /// Control characters in the value, or a token that is none
    #[error("its value has characters that no field may hold")]
    Value,
    /// The client or whoever speaks HTTP sets it
    #[error("it is not the application's to set")]
    Reserved,
}

/// When to connect again after a stream broke
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// The first pause, where the server does not say how long to wait (default 1 s; SSE-026)
    pub first: Duration,
    /// The pause doubles up to this (default 30 s); a stream that stayed open for as long counts as productive
    pub most: Duration,
    /// Tries in a row that bring nothing (default 5; 0 = never connect again)
    pub tries: u32,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), most: Duration::from_secs(30), tries: 5 }
    }
}

/// The configuration of a client over HTTP; immutable and shared
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) endpoint: Arc<Url>,
    pub(super) fields: Fields,
    pub(super) credential: Option<Credential>,
    pub(super) asks: bool,
    pub(super) listen: bool,
    pub(super) listen_wait: Duration,
    pub(super) reconnect: Reconnect,
    pub(super) max_auth: u32,
    pub(super) max_tools: usize,
    pub(super) close_wait: Duration,
}

impl Config {
    /// A client of the server at `endpoint`
    pub fn new(endpoint: &str) -> Result<Self, UrlError> {
        Ok(Self {
            endpoint: Arc::new(Url::parse(endpoint)?),
            fields: Fields::new(),
            credential: None,
            asks: false,
            listen: true,
            listen_wait: Duration::from_secs(2),
            reconnect: Reconnect::default(),
            max_auth: 3,
            max_tools: 4096,
            close_wait: Duration::from_secs(5),
        })
    }

    /// Where the server is
    #[must_use]
    pub fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    /// Adds a field to every request; `Authorization` is kept as the [`credential`](Self::credential)
    pub fn field(mut self, name: &str, value: &[u8]) -> Result<Self, BadField> {
        if !is_token(name.as_bytes()) {
            return Err(BadField::Name);
        }
        if name.eq_any_case(fields::AUTHORIZATION) {
            self.credential = Some(Credential::new(value)?);
            return Ok(self);
        }
        if is_reserved(name) {
            return Err(BadField::Reserved);
        }
        if self.fields.push(name, value) { Ok(self) } else { Err(BadField::Value) }
    }

    /// Sends this with every request until another one is given (HTTP-079)
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = Some(credential);
        self
    }

    /// Whether somebody answers [`Challenge`](super::Challenge)s (default no): otherwise a request that is refused with
    /// 401 or 403 ends at once
    #[must_use]
    pub const fn asks_for_credentials(mut self, asks: bool) -> Self {
        self.asks = asks;
        self
    }

    /// Whether to open the stream on which a legacy server speaks unasked (default yes; HTTP-047)
    #[must_use]
    pub const fn listen(mut self, listen: bool) -> Self {
        self.listen = listen;
        self
    }

    /// How long calls wait at most for that stream to be open, or for a level of logging to be set (default 2 s)
    #[must_use]
    pub const fn listen_wait(mut self, wait: Duration) -> Self {
        self.listen_wait = wait;
        self
    }

    /// Sets when broken streams are opened again
    #[must_use]
    pub const fn reconnect(mut self, reconnect: Reconnect) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// How many credentials are tried for one request (default 3)
    #[must_use]
    pub const fn max_credentials(mut self, tries: u32) -> Self {
        self.max_auth = tries;
        self
    }

    /// How many tools with `x-mcp-header` are remembered (default 4,096); calls of others go without such fields
    #[must_use]
    pub const fn max_tools(mut self, tools: usize) -> Self {
        self.max_tools = tools;
        self
    }
}

/// Fields that are not for the application
fn is_reserved(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        // No answer is unpacked here, and none is wanted in parts.
        "accept-encoding",
        "range",
        fields::ACCEPT,
        fields::CONTENT_TYPE,
        fields::LAST_EVENT_ID,
    ];
    let is = |other: &&str| name.eq_any_case(other);
    NAMES.iter().any(is) || fields::is_own(name)
}

/// Field names and values as text, for messages
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

pub(super) type Why = Box<str>;
