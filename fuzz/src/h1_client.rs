//! Fuzz target for the client end of HTTP/1.1.

use mcp_proto::Instant;
use mcp_proto::h1::client::{Connection, Event};
use mcp_proto::h1::{ConnectionFault, HttpLimits};
use mcp_proto::head::{BodySize, Fields};

use super::input::{Chunking, FuzzInput};

const NOW: Instant = Instant::from_micros(1);

#[derive(Debug, Default, PartialEq, Eq)]
struct H1ClientTrace {
    /// Status, body, and whether the end was reached.
    responses: Vec<(u16, Vec<u8>, bool)>,
    fault: Option<ConnectionFault>,
    closed: bool,
    over: bool,
    idle: bool,
}

/// Feeds arbitrary input to a client connection and checks its invariants.
///
/// - The outcome does not depend on how the input is cut.
/// - Each response is delivered as it was framed.
/// - Buffered bytes stay within the limits.
pub fn h1_client(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let mut limits = HttpLimits::default();
    limits.max_head = 16 + 2 * usize::from(choices.byte());
    limits.max_fields = choices.below(40);
    limits.max_body = u64::from(choices.byte());
    limits.max_extensions = choices.below(16);
    limits.max_interim = choices.below(4) as u8;
    limits.max_buffered = choices.below(300);
    let method = ["GET", "POST", "HEAD", "DELETE"][choices.below(4)];
    let (requests, ends_request, hangs_up) = (choices.below(4), choices.boolean(), choices.boolean());
    let cuts = Chunking::all(choices.byte());
    let input = choices.rest();
    let run = |cut| read(input, &limits, cut, method, requests, ends_request, hangs_up);
    let want = run(Chunking::Whole);
    for cut in cuts {
        assert_eq!(run(cut), want, "{cut:?}");
    }
}

fn read(
    input: &[u8],
    limits: &HttpLimits,
    cut: Chunking,
    method: &str,
    requests: usize,
    ends_request: bool,
    hangs_up: bool,
) -> H1ClientTrace {
    let mut client = Connection::new(NOW, limits.clone());
    let mut seen = H1ClientTrace::default();
    if requests > 0 {
        client.request(NOW, method, "/", "h", &Fields::new(), BodySize::Stream).expect("the request");
        if ends_request {
            client.end(NOW).expect("its end");
        }
    }
    client.consume(client.unsent_len());
    for piece in cut.pieces(input) {
        if !client.wants_input() {
            break;
        }
        client.handle_input(NOW, piece);
        run_turn(&mut client, &mut seen);
        let limit = limits.max_buffered.max(limits.max_head) + piece.len();
        assert!(client.unread_len() <= limit, "{} bytes buffered", client.unread_len());
    }
    if hangs_up {
        client.handle_eof(NOW);
        run_turn(&mut client, &mut seen);
        assert!(seen.over, "over: {client:?}");
    }
    assert!(seen.responses.len() <= requests.min(1), "more responses than requests");
    assert!(!seen.closed || (input.is_empty() && hangs_up), "closed after input");
    assert!(!(seen.idle && seen.over) && seen.responses.iter().all(|r| r.1.len() as u64 <= limits.max_body));
    seen
}

fn run_turn(client: &mut Connection, seen: &mut H1ClientTrace) {
    loop {
        let event = client.poll_event(NOW, |response| {
            assert!((200..600).contains(&response.status));
            for (name, value) in response.fields {
                assert!(Fields::new().push(name, value), "{name}");
            }
            response.status
        });
        let Some(event) = event else { break };
        assert!(seen.fault.is_none() && !seen.closed, "event after a fault");
        match event {
            Event::Head(status) => seen.responses.push((status, Vec::new(), false)),
            Event::Body(data) => {
                let (_, body, ended) = seen.responses.last_mut().expect("a head");
                assert!(!*ended && !data.is_empty());
                body.extend_from_slice(&data);
            }
            Event::End => {
                let (_, _, ended) = seen.responses.last_mut().expect("a head");
                assert!(!core::mem::replace(ended, true));
            }
            Event::Closed => seen.closed = true,
            Event::Fault(fault) => seen.fault = Some(fault),
        }
    }
    (seen.over, seen.idle) = (client.wants_close(), client.is_idle());
}
