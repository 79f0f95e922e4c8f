//! A client of HTTP in place of one with many dependencies.

use std::env;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

/// Largest response that is read.
const MAX_RESPONSE: u64 = 1 << 20;

/// A client of HTTP/1.1 without TLS, with a connection for each request.
///
/// The exporter bounds its attempts, but not the time of one. That is the task of its client.
#[derive(Clone, Copy, Debug)]
pub struct StdClient {
    timeout: Duration,
}

impl StdClient {
    /// Creates a client with the timeout in `OTEL_EXPORTER_OTLP_{signal}_TIMEOUT`, in milliseconds; 10 s by default.
    ///
    /// It applies to connecting, and to each read and write.
    ///
    /// # Errors
    ///
    /// Fails if the variable is not a positive number.
    pub fn new(signal: &str) -> Result<Self, Box<dyn Error>> {
        let name = format!("OTEL_EXPORTER_OTLP_{signal}_TIMEOUT");
        let timeout = match env::var(&name) {
            Err(_) => Duration::from_secs(10),
            Ok(value) => match value.parse() {
                Ok(millis @ 1..) => Duration::from_millis(millis),
                _ => return Err(format!("{name} is {value:?}, expected a positive number").into()),
            },
        };
        Ok(Self { timeout })
    }
}

#[async_trait::async_trait]
impl HttpClient for StdClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri();
        let host = uri.host().ok_or("the URL has no host")?;
        let port = uri.port_u16().unwrap_or(80);
        let address = (host, port).to_socket_addrs()?.next().ok_or("the host has no address")?;
        let mut stream = TcpStream::connect_timeout(&address, self.timeout)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let mut head =
            format!("POST {} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n", uri.path());
        for (name, value) in request.headers() {
            head.push_str(&format!("{name}: {}\r\n", value.to_str()?));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", request.body().len()));
        stream.write_all(head.as_bytes())?;
        stream.write_all(request.body())?;
        let mut response = Vec::new();
        stream.take(MAX_RESPONSE).read_to_end(&mut response)?;
        let status = response.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let status: u16 = std::str::from_utf8(status.ok_or("no status line")?)?.parse()?;
        // Without the body, which only tells of spans that the collector left out.
        Ok(Response::builder().status(status).body(Bytes::new())?)
    }
}
