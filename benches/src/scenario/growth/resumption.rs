//! Streams that all break and are resumed at once, as after an outage of the network.

use mcp_proto::Progress;
use mcp_proto::http::server::ExchangeId;

use super::super::Scenario;
use super::http_server::{HttpServer, SESSION};

/// A stream of a session.
struct ResumableStream {
    session: String,
    exchange: ExchangeId,
    last_event: Vec<u8>,
}

/// `n` clients whose streams break, and who resume them; one run is all of them.
pub(super) struct ResumeAll {
    http: HttpServer,
    streams: Vec<ResumableStream>,
}

impl ResumeAll {
    /// Each client has a GET stream, or the stream of a call.
    pub(super) fn new(calls: bool, n: usize) -> Self {
        let mut http = HttpServer::new(n);
        let streams = (0..n).map(|_| {
            let session = http.open_session();
            let exchange =
                if calls { open_call(&mut http, &session) } else { http.open_stream(&session, None) };
            let output = http.take_output(exchange);
            let at = memchr::memmem::find(&output, b"id: ").expect("an event id") + 4;
            let last_event = output[at..].iter().copied().take_while(|b| *b != b'\n').collect();
            ResumableStream { session, exchange, last_event }
        });
        let streams = streams.collect();
        Self { http, streams }
    }
}

/// Starts a call whose response is an event stream, and returns its exchange.
fn open_call(http: &mut HttpServer, session: &str) -> ExchangeId {
    const CALL: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{"progressToken":1}}}"#;
    let exchange = http.request("POST", &[(SESSION, session.as_bytes())], CALL);
    let call = http.next_call().expect("a call");
    http.server.engine().progress(http.now, call.id(), Progress::new(1.0)).expect("an open call");
    exchange
}

impl Scenario for ResumeAll {
    fn run_once(&mut self) {
        for stream in &self.streams {
            self.http.server.handle_gone(self.http.now, stream.exchange);
        }
        for stream in &mut self.streams {
            stream.exchange = self.http.open_stream(&stream.session, Some(&stream.last_event));
            let output = self.http.take_output(stream.exchange);
            let mut ids = output.split(|b| *b == b'\n').filter_map(|line| line.strip_prefix(b"id: "));
            if let Some(id) = ids.next_back() {
                stream.last_event.clear();
                stream.last_event.extend_from_slice(id);
            }
        }
        self.http.turn();
    }
}
