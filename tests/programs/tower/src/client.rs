//! Clients of `mcp-tokio` over HTTP clients that this library does not know.

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::{Client as Hyper, Error as HyperError};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_proto::http::client::Config as HttpConfig;
use mcp_tokio::{Client, Error, Options};
use tokio::net::TcpStream;

/// Connects over the pooling client of hyper, which is a service.
pub async fn over_service(options: Options, url: &str) -> Result<Client, Error> {
    let http = Hyper::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let config = HttpConfig::new(url).map_err(|why| Error::url(url, &why))?;
    mcp_tower::connect_with(options, config, http, HyperError::is_connect).await
}

/// Connects over a function from a request to a response, here with a connection for each.
pub async fn over_function(options: Options, url: &str) -> Result<Client, Error> {
    let service = tower::service_fn(|request: http::Request<Full<Bytes>>| async move {
        let authority = request.uri().authority().ok_or("no host")?.clone();
        let stream = TokioIo::new(TcpStream::connect(authority.as_str()).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        tokio::spawn(connection);
        let (mut head, body) = request.into_parts();
        head.headers.insert("host", authority.as_str().parse()?);
        head.uri = head.uri.path().parse()?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
            sender.send_request(http::Request::from_parts(head, body)).await?,
        )
    });
    mcp_tower::connect(options, url, service).await
}
