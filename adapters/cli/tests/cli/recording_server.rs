//! An HTTP server that records the heads of requests and answers all of them with one status.

use alloc::sync::Arc;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A server that runs until the process ends.
pub(crate) struct RecordingServer {
    pub(crate) url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl RecordingServer {
    /// Starts a server that answers with `status`.
    pub(crate) fn new(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut bytes = Vec::new();
                let mut chunk = [0; 8192];
                while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                    match stream.read(&mut chunk) {
                        Ok(n @ 1..) => bytes.extend_from_slice(&chunk[..n]),
                        _ => break,
                    }
                }
                if !bytes.is_empty() {
                    let head = String::from_utf8_lossy(&bytes).into_owned();
                    recorded.lock().unwrap_or_else(PoisonError::into_inner).push(head);
                }
                let _ =
                    write!(stream, "HTTP/1.1 {status} \r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        Self { url, heads }
    }

    /// Takes the heads of the requests so far.
    pub(crate) fn take_heads(&self) -> Vec<String> {
        core::mem::take(&mut *self.heads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
