//! Custom methods of a server, and the extensions that they belong to.

use alloc::format;
use alloc::string::String;

use crate::identity::{Capabilities, declared_extension};
use crate::json::write_str;
use crate::raw::RawJson;
use crate::rpc::{RpcError, code};
use crate::version::{Era, Version};

/// A method that the protocol does not define.
///
/// A method of an extension exists only if the server declared the extension
/// ([`Capabilities::extension`](crate::Capabilities::extension)). Some extensions need the client's declaration too:
///
/// ```
/// use mcp_proto::server::{Config, CustomMethod};
/// use mcp_proto::{Capabilities, RawJson};
///
/// let capabilities = Capabilities::new().extension("com.example/tides", RawJson::new("{}")?)?;
/// let method = CustomMethod::new("tides/next").of_extension("com.example/tides").requires_client();
/// let config = Config::new("harbour", "1.0.0").capabilities(capabilities).custom_method(method);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomMethod {
    name: String,
    extension: Option<String>,
    requires_client: bool,
    is_long_lived: bool,
}

impl CustomMethod {
    /// Creates a method that belongs to no extension.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), extension: None, requires_client: false, is_long_lived: false }
    }

    /// Assigns the method to an extension. It is unknown (-32601) in revisions in which the server does not declare the
    /// extension.
    #[must_use]
    pub fn of_extension(mut self, id: impl Into<String>) -> Self {
        self.extension = Some(id.into());
        self
    }

    /// Refuses calls of clients that did not declare the extension (EXT-004).
    ///
    /// The error is -32021 with the extension in `data.requiredCapabilities`. In legacy revisions, which lack that
    /// code, the method is unknown (-32601). Without an extension this has no effect.
    #[must_use]
    pub const fn requires_client(mut self) -> Self {
        self.requires_client = true;
        self
    }

    /// Leaves calls of this method open until the application answers them, as subscriptions are.
    ///
    /// They end when the input of their client does, as subscriptions do, and not after
    /// [`Limits::eof_grace_period`](crate::Limits::eof_grace_period). They have no age limit, are not among the [live calls](super::Engine::live_calls), and neither wait for others nor make
    /// others wait. A byte stream has at most [`Limits::max_subscriptions`](crate::Limits::max_subscriptions) of them;
    /// further ones are refused with -32603, as a member of a batch is with -32600. Notifications go out by
    /// [`Engine::notify`](super::Engine::notify) on the [channel](super::Call::channel) of the call, over HTTP as events of its
    /// response. What tells which call they belong to is part of their method: the specification has
    /// `io.modelcontextprotocol/subscriptionId` with the [id of the request](super::Engine::request_id) for it.
    #[must_use]
    pub const fn long_lived(mut self) -> Self {
        self.is_long_lived = true;
        self
    }
}

impl<S: Into<String>> From<S> for CustomMethod {
    fn from(name: S) -> Self {
        Self::new(name)
    }
}

impl CustomMethod {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn is_long_lived(&self) -> bool {
        self.is_long_lived
    }

    /// Checks whether the method is accepted in `version` from a server with these capabilities.
    ///
    /// `client` returns the capability object of the client.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn check(
        &self,
        version: Version,
        server: &Capabilities,
        client: impl FnOnce() -> Option<RawJson>,
    ) -> Result<(), RpcError> {
        let Some(id) = self.extension.as_deref() else { return Ok(()) };
        // To its clients, a server without the extension does not have the method (DESIGN-32).
        if !server.declares_extension(id, version) {
            return Err(RpcError::method_not_found(&self.name));
        }
        // Asked last, because it reads the capabilities of the client.
        let is_declared =
            || client().is_some_and(|client| declared_extension(&client, id, version).is_some());
        if !self.requires_client || is_declared() {
            return Ok(());
        }
        Err(match version.era() {
            Era::Legacy => RpcError::method_not_found(&self.name),
            Era::Modern => missing_extension_error(&self.name, id),
        })
    }
}

/// Returns error -32021 for an extension that the client did not declare (EXT-004, ERR-007).
fn missing_extension_error(method: &str, id: &str) -> RpcError {
    // Written by hand, because the typed form links the serializer.
    let mut data = b"{\"requiredCapabilities\":{\"extensions\":{".to_vec();
    write_str(&mut data, id);
    data.extend_from_slice(b":{}}}}");
    let message = format!(
        "`{}` needs the extension `{id}`, which the client did not declare",
        crate::rpc::clip(method)
    );
    RpcError::new(code::MISSING_CLIENT_CAPABILITY, message).with_data(RawJson::trusted(data.into()))
}
