//! The parts of an [`http::Request`] that handlers see, besides its fields.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use http::request;
use mcp_proto::Extensions;
use mcp_proto::server::{ConnectionInfo, HttpRequest, Identity};

/// Copies a value from the extensions of a request.
type CopyExtension = fn(&http::Extensions, &mut Extensions);
/// Describes the connection of a request.
type Describe = Arc<dyn Fn(&request::Parts) -> ConnectionInfo + Send + Sync>;

/// The parts of each request that handlers see. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RequestView {
    copies: Arc<Vec<CopyExtension>>,
    describe: Option<Describe>,
}

impl RequestView {
    /// Adds a type whose value is copied from the extensions of a request.
    pub(crate) fn add_extension<T: Clone + Send + Sync + 'static>(&mut self) {
        let copy: CopyExtension = |from, to| {
            if let Some(value) = from.get::<T>() {
                to.insert(value.clone());
            }
        };
        Arc::make_mut(&mut self.copies).push(copy);
    }

    pub(crate) fn set_describe(
        &mut self,
        describe: impl Fn(&request::Parts) -> ConnectionInfo + Send + Sync + 'static,
    ) {
        self.describe = Some(Arc::new(describe));
    }

    /// Returns the parts of a request that its handlers see.
    pub(crate) fn of(&self, head: &request::Parts) -> SeenRequest {
        let mut extensions = Extensions::new();
        for copy in &*self.copies {
            copy(&head.extensions, &mut extensions);
        }
        SeenRequest {
            extensions,
            identity: head.extensions.get::<Identity>().cloned(),
            connection: self.describe.as_ref().map(|describe| Arc::new(describe(head))),
        }
    }
}

impl fmt::Debug for RequestView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestView").field("extensions", &self.copies.len()).finish_non_exhaustive()
    }
}

/// The parts of a request that its handlers see.
#[derive(Debug)]
pub(crate) struct SeenRequest {
    extensions: Extensions,
    identity: Option<Identity>,
    connection: Option<Arc<ConnectionInfo>>,
}

impl SeenRequest {
    /// Returns the principal, if a layer has authenticated one.
    pub(crate) const fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    pub(crate) fn attach(&self, request: &mut HttpRequest) {
        request.extensions_mut().clone_from(&self.extensions);
        if let Some(connection) = &self.connection {
            request.set_connection(connection.clone());
        }
    }
}
