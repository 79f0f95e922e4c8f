//! Checks of a message against the header fields that a transport received with it.

use bytes::Bytes;

use crate::rpc::RpcError;
use crate::rpc::envelope::ParamsSpans;
use crate::version::Version;

/// Checks that the engine calls in the order of HTTP-029. Each error is the response to send.
pub(crate) trait HeaderCheck {
    /// Checks the revision in `_meta`; `None` if the message has no modern metadata.
    fn check_version(&self, version: Option<&str>) -> Result<(), RpcError>;

    /// Returns whether the header fields declare a modern message.
    fn indicates_modern(&self) -> bool;

    /// Checks a message without modern metadata at a server without legacy revisions.
    fn require_modern(&self) -> Result<(), RpcError>;

    /// Checks method and name, once the revision is known.
    fn check_request(
        &self,
        version: Version,
        method: &str,
        frame: &Bytes,
        params: &ParamsSpans,
    ) -> Result<(), RpcError>;

    /// Checks the parameters, once the method is known to exist.
    fn check_params(
        &self,
        version: Version,
        method: &str,
        frame: &Bytes,
        params: &ParamsSpans,
    ) -> Result<(), RpcError>;
}
