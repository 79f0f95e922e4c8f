//! What a transport says about a message beside it, and the engine holds against it.

use bytes::Bytes;

use crate::rpc::RpcError;
use crate::rpc::envelope::Params;
use crate::version::Version;

/// Called by the engine in the order in which a message is judged (HTTP-029); each error is the answer to give
pub(crate) trait Said {
    /// The message says that it is modern, and of which revision; or nothing about either
    fn modern(&self, version: Option<&str>) -> Result<(), RpcError>;

    /// Whether the transport calls a message modern that does not say so itself
    fn calls_it_modern(&self) -> bool;

    /// A modern message at a server that serves no other ones, or none at all
    fn must_be_modern(&self) -> Result<(), RpcError>;

    /// The revision is known: what else is said must be right
    fn request(&self, version: Version, method: &str, frame: &Bytes, params: &Params)
    -> Result<(), RpcError>;

    /// The method exists: what is said about its parameters must be right
    fn parameters(
        &self,
        version: Version,
        method: &str,
        frame: &Bytes,
        params: &Params,
    ) -> Result<(), RpcError>;
}
