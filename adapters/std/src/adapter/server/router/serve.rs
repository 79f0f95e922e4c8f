//! The functions that serve a router of functions, by the adapter that its flavour names.

use mcp_proto::server::Config;
#[cfg(feature = "http")]
use std::net::ToSocketAddrs;

use super::{Flavor, Functions, Router, SharedFunctions};
use crate::Error;
use crate::io::Duplex;

/// An adapter that serves routers of functions.
pub trait ServeFunctions<F: Flavor>: 'static {
    /// Serves on stdin and stdout of this process.
    ///
    /// # Errors
    ///
    /// Those of the adapter.
    fn serve_stdio(config: Config, router: Router<F>) -> Result<(), Error>;

    /// Serves one client on a byte stream.
    ///
    /// # Errors
    ///
    /// Those of the adapter.
    fn serve<D: Duplex>(config: Config, stream: D, router: Router<F>) -> Result<(), Error>;
}

/// An adapter that serves routers of functions over HTTP.
///
/// It is a trait of its own, because an adapter may lack the feature `http` in a program in which another one has it.
#[cfg(feature = "http")]
pub trait ServeFunctionsHttp<F: Flavor>: ServeFunctions<F> {
    /// Serves HTTP at an address.
    ///
    /// # Errors
    ///
    /// Those of the adapter.
    fn serve_http(
        address: impl ToSocketAddrs,
        config: Config,
        http: mcp_proto::http::server::Config,
        router: Router<F>,
    ) -> Result<(), Error>;
}

macro_rules! serve_functions {
    ($($flavor:ident)*) => {$(
        impl<R: ServeFunctions<$flavor<R>>> Router<$flavor<R>> {
            /// Serves on stdin and stdout of this process until the input ends or the client disconnects; see the function
            /// `serve_stdio` of the adapter.
            ///
            /// # Errors
            ///
            /// [`Error::Register`] if an entry could not be registered; otherwise as that function.
            pub fn serve_stdio(self) -> Result<(), Error> {
                R::serve_stdio(self.config()?, self)
            }

            /// Serves one client on any byte stream; see the function `serve` of the adapter.
            ///
            /// # Errors
            ///
            /// As [`serve_stdio`](Self::serve_stdio).
            pub fn serve<D: Duplex>(self, stream: D) -> Result<(), Error> {
                R::serve(self.config()?, stream, self)
            }

            /// Serves HTTP at `address` until an error occurs; see the function `serve_http` of the adapter.
            ///
            /// # Errors
            ///
            /// As [`serve_stdio`](Self::serve_stdio).
            #[cfg(feature = "http")]
            pub fn serve_http(
                self,
                address: impl ToSocketAddrs,
                http: mcp_proto::http::server::Config,
            ) -> Result<(), Error>
            where
                R: ServeFunctionsHttp<$flavor<R>>,
            {
                R::serve_http(address, self.config()?, http, self)
            }
        }
    )*};
}

serve_functions! { Functions SharedFunctions }
