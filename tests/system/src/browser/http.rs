//! HTTP/1.1 requests, one per connection.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use mcp_proto::http::client::Url;

use super::BrowserError;

/// Limit for each read and write. A busy machine needs far less.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(20);
/// Size of the largest accepted response, in bytes.
const MAX_RESPONSE: u64 = 4 << 20;

/// A request without TLS, over a connection of its own.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method in capital letters.
    pub method: &'a str,
    /// Address, with the scheme `http`.
    pub url: &'a Url,
    /// Fields besides `Host`, `Connection` and `Content-Length`.
    pub fields: &'a [(&'a str, &'a str)],
    /// Body. It is not sent with GET.
    pub body: &'a str,
}

impl Request<'_> {
    /// Sends the request and receives the whole response. Redirects are not followed.
    ///
    /// # Errors
    ///
    /// [`BrowserError`] if the server cannot be reached or its response is not HTTP/1.1.
    pub fn send(&self) -> Result<Response, BrowserError> {
        let origin = self.url.origin();
        if origin.secure {
            return Err(BrowserError::Address(format!("{origin}: the scripted browser has no TLS")));
        }
        let failed = |error: std::io::Error| BrowserError::Unreachable(origin.to_string(), error);
        let mut socket = TcpStream::connect((&*origin.host, origin.port)).map_err(failed)?;
        socket.set_read_timeout(Some(SOCKET_TIMEOUT)).map_err(failed)?;
        socket.set_write_timeout(Some(SOCKET_TIMEOUT)).map_err(failed)?;
        socket.write_all(self.encode().as_bytes()).map_err(failed)?;
        let mut bytes = Vec::new();
        // The server closes the connection after its response. A reset after the response is no failure.
        let ended = socket.take(MAX_RESPONSE).read_to_end(&mut bytes);
        match (parse(&bytes), ended) {
            (Some(response), _) => Ok(response),
            (None, Err(error)) => Err(failed(error)),
            (None, Ok(_)) => Err(BrowserError::Malformed(self.url.target().to_owned())),
        }
    }

    fn encode(&self) -> String {
        let (method, authority) = (self.method, self.url.origin().authority());
        let mut text = format!("{method} {} HTTP/1.1\r\nHost: {authority}\r\n", self.url.target());
        for (name, value) in self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += "Connection: close\r\n";
        if method == "GET" {
            return text + "\r\n";
        }
        text + &format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body)
    }
}

/// A received response.
#[derive(Debug)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    fields: Vec<(String, String)>,
    /// Whole body, decoded.
    pub body: String,
}

impl Response {
    /// Returns the values of a field, in order. `name` is in lower case.
    pub fn fields(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(own, _)| own == name).map(|(_, value)| &**value)
    }
}

fn parse(bytes: &[u8]) -> Option<Response> {
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = core::str::from_utf8(&bytes[..split]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let fields: Vec<_> = lines
        .map(|line| {
            line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect::<Option<_>>()?;
    let field = |name: &str| fields.iter().find(|(own, _)| own == name).map(|(_, value)| &**value);
    let body = &bytes[split + 4..];
    let body = if field("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        decode_chunks(body)?
    } else {
        let length = field("content-length").map_or(Some(body.len()), |length| length.parse().ok())?;
        body.get(..length)?.to_vec()
    };
    Some(Response { status, fields, body: String::from_utf8_lossy(&body).into_owned() })
}

fn decode_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let line = core::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_parsed_with_length_with_chunks_and_to_the_end() {
        let texts = [
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 5\r\n\r\nhello, cut",
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nset-cookie: b=2\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
        ];
        for text in texts {
            let response = parse(text.as_bytes()).expect(text);
            assert_eq!((response.status, &*response.body), (200, "hello"));
            assert_eq!(response.fields("set-cookie").collect::<Vec<_>>(), ["a=1", "b=2"]);
        }
    }

    #[test]
    fn incomplete_response_is_refused() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        ] {
            assert!(parse(text.as_bytes()).is_none(), "{text:?}");
        }
    }
}
