//! The functions that serve and test a router of futures, on the runtime that its flavour names.

use alloc::boxed::Box;
#[cfg(feature = "http")]
use std::net::ToSocketAddrs;

use super::server::Server;
use super::testing::test_peer;
use super::{PollStream, Runtime};
use crate::Error;
use crate::adapter::client::{TestPeer, TestRouter};
use crate::adapter::server::router::{FutureFlavor, LocalFutures, Router, SendFutures};

macro_rules! serve_futures {
    ($($flavor:ident)*) => {$(
        impl<R: Runtime> Router<$flavor<R>> {
            /// Serves on stdin and stdout of this process until the input ends or the client disconnects; see the function
            /// `serve_stdio` of the adapter.
            ///
            /// # Errors
            ///
            /// [`Error::Register`] if an entry could not be registered; otherwise as that function.
            pub async fn serve_stdio(self) -> Result<(), Error>
            where
                R: PollStream<<R as Runtime>::Stdio>,
            {
                Server::<R, _, _>::stdio(self.config()?, self)?.run().await
            }

            /// Serves one client on any byte stream; see the function `serve` of the adapter.
            ///
            /// # Errors
            ///
            /// As [`serve_stdio`](Self::serve_stdio).
            pub async fn serve<S>(self, stream: S) -> Result<(), Error>
            where
                R: PollStream<S>,
            {
                Server::<R, _, _>::new(self.config()?, stream, self).run().await
            }

            /// Serves HTTP at `address` until an error occurs; see the function `serve_http` of the adapter.
            ///
            /// # Errors
            ///
            /// As [`serve_stdio`](Self::serve_stdio).
            #[cfg(feature = "http")]
            pub async fn serve_http(
                self,
                address: impl ToSocketAddrs,
                http: mcp_proto::http::server::Config,
            ) -> Result<(), Error> {
                super::http::HttpServer::<R, _>::bind(address, self.config()?, http, self)?.run().await
            }
        }
    )*};
}

serve_futures! { LocalFutures SendFutures }

impl<R: Runtime, F: FutureFlavor<Adapter = R>> TestRouter<F> for R {
    fn test_peer(router: Router<F>) -> Box<dyn TestPeer> {
        test_peer::<R>(router)
    }
}
