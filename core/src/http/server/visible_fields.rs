//! The header fields that handlers may see.

use alloc::string::String;
use core::fmt;

use super::config::Config;
use crate::ascii::AsciiCaseExt as _;
use crate::head::{FieldLine, Fields, is_token};
use crate::http::fields;

impl Config {
    /// Lets handlers see these header fields of a request ([`HttpRequest::field`](crate::server::HttpRequest::field));
    /// default: none.
    ///
    /// Names are matched in any case. Repeated fields are all seen, in the order in which the HTTP stack returns them, and values
    /// need not be UTF-8. A request shows 8 KiB of them at most, because a call keeps them until its end: a field that does not
    /// fit any more is left out.
    ///
    /// ```
    /// use mcp_proto::http::server::Config;
    /// let config = Config::new().visible_fields(["User-Agent", "X-Request-Id"])?;
    /// assert!(Config::new().visible_fields(["Authorization"]).is_err());
    /// # Ok::<(), mcp_proto::http::server::VisibleFieldError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A name that is no field name, or that suggests a secret: known fields of credentials, cookies, sessions and keys are not shown
    /// (SEC-019). A layer in front of the server can read them, and attach what handlers may know as extensions of the HTTP
    /// request, or over the sockets of an adapter by its function for accepted requests
    /// ([`Server::request_mut`](super::Server::request_mut)).
    pub fn visible_fields<N: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, VisibleFieldError> {
        for name in names {
            let name = name.into();
            if !is_token(name.as_bytes()) {
                return Err(VisibleFieldError::Invalid(name));
            }
            if fields::is_secret(&name) {
                return Err(VisibleFieldError::Secret(name));
            }
            self.visible_fields.push(name);
        }
        Ok(self)
    }

    /// Returns the fields of a request that handlers may see.
    pub(super) fn visible_fields_of(&self, all: &[FieldLine<'_>]) -> Fields {
        let mut visible = Fields::new();
        if self.visible_fields.is_empty() {
            return visible;
        }
        for (name, value) in all {
            let fits = visible.as_lines().len() + name.len() + value.len() <= MAX_VISIBLE;
            if fits && self.visible_fields.iter().any(|known| known.eq_ignore_case(name)) {
                visible.push(name, value);
            }
        }
        visible
    }
}

/// Number of bytes of the fields of a request that handlers may see.
const MAX_VISIBLE: usize = 8 << 10;

/// The reason why a header field cannot be shown to handlers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VisibleFieldError {
    /// The text is not the name of a field.
    Invalid(String),
    /// The name suggests a secret.
    Secret(String),
}

impl fmt::Display for VisibleFieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(name) => write!(f, "`{}` is not the name of a header field", name.escape_debug()),
            Self::Secret(name) => {
                write!(f, "the header field `{name}` is not shown to handlers: its name suggests a secret")
            }
        }
    }
}

impl core::error::Error for VisibleFieldError {}
