//! Notes of `serve` and `bridge` about requests that are refused because of their host or origin.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::http::ServingProcess;
use crate::support::PROBE;

/// Sends a POST with these fields and returns the status of the response.
fn post(url: &str, fields: &str) -> String {
    let place = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).expect("a URL");
    let mut stream = TcpStream::connect(place).expect("a connection");
    let head = format!("POST /mcp HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).expect("written");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("UTF-8");
    response.split(' ').nth(1).expect("a status").to_owned()
}

// covers: HTTP-003, HTTP-008
#[test]
fn refused_host_and_origin_are_noted_once_with_the_option_that_allows_them() {
    let serving =
        ["blocking", "threads", "smol", "tokio"].map(|runtime| ServingProcess::new(&["--runtime", runtime]));
    let bridge = ServingProcess::bridge(&["--", PROBE, "serve"]);
    for server in serving.into_iter().chain([bridge]) {
        for _ in 0..2 {
            assert_eq!(post(&server.url, "Host: tools.example.com:8080\r\n"), "403");
            assert_eq!(post(&server.url, "Host: TOOLS.example.com:8080\r\n"), "403");
            assert_eq!(post(&server.url, "Host: localhost\r\nOrigin: https://app.example.com\r\n"), "403");
            assert_eq!(post(&server.url, "Host: localhost\r\nOrigin: https://$(reboot)\r\n"), "403");
        }
        let notes = server.stop();
        let want = [
            "note: a request for the host `tools.example.com:8080` was refused: --allow-host tools.example.com:8080 lets it \
             in, if this server is meant",
            "note: a request of a web page of `https://app.example.com` was refused: --allow-origin https://app.example.com \
             lets it in, if you trust that page",
            "note: a request of a web page of `https://$(reboot)` was refused: --allow-origin lets it in, if you trust that \
             page",
        ];
        assert_eq!(notes.lines().collect::<Vec<_>>(), want);
    }
    // What is allowed is not noted.
    let server = ServingProcess::new(&[
        "--allow-host",
        "tools.example.com",
        "--allow-origin",
        "https://app.example.com",
    ]);
    let fields = "Host: tools.example.com\r\nOrigin: https://app.example.com\r\n";
    assert_ne!(post(&server.url, fields), "403");
    assert_eq!(server.stop(), "");
}
