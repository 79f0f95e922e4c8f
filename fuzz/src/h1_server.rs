//! Fuzz target for the server end of HTTP/1.1.

use mcp_proto::Instant;
use mcp_proto::h1::server::{Connection, Event};
use mcp_proto::h1::{ConnectionFault, HttpLimits};
use mcp_proto::head::{BodySize, Fields, is_token};

use super::input::{Chunking, FuzzInput};

const NOW: Instant = Instant::from_micros(1);

/// Plan of the answers to requests.
#[derive(Clone, Copy)]
struct AnswerPlan {
    answers_at_head: bool,
    never_answers: bool,
    aborts: bool,
    status: u16,
    size: BodySize,
    serve_half_closed: bool,
    hangs_up: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct H1ServerTrace {
    /// Request lines, bodies, and whether the end was reached.
    requests: Vec<(String, Vec<u8>, bool)>,
    fault: Option<ConnectionFault>,
    is_closed: bool,
    sent: Vec<u8>,
    is_write_closed: bool,
}

/// Feeds arbitrary input to a server connection and checks its invariants.
///
/// - The outcome does not depend on how the input is cut.
/// - Each request is delivered as it was framed.
/// - Buffered bytes stay within the limits.
pub fn h1_server(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let mut limits = HttpLimits::default();
    limits.max_head = 16 + 2 * usize::from(choices.byte());
    limits.max_fields = choices.below(40);
    limits.max_body = u64::from(choices.byte());
    limits.max_extensions = choices.below(16);
    limits.max_buffered = choices.below(300);
    limits.max_drain = choices.below(64) as u64;
    let (kind, how) = (choices.byte(), choices.byte());
    let plan = AnswerPlan {
        answers_at_head: kind & 1 != 0,
        never_answers: kind & 6 == 6,
        aborts: kind & 24 == 24,
        status: [200, 204, 304, 500][choices.below(4)],
        size: match how % 3 {
            0 => BodySize::None,
            1 => BodySize::Exact(u64::from(how / 8)),
            _ => BodySize::Stream,
        },
        serve_half_closed: kind & 32 != 0,
        hangs_up: kind & 64 != 0,
    };
    let cuts = Chunking::all(choices.byte());
    let input = choices.rest();
    let want = read(input, &limits, Chunking::Whole, plan);
    for cut in cuts {
        assert_eq!(read(input, &limits, cut, plan), want, "{cut:?}");
    }
}

fn read(input: &[u8], limits: &HttpLimits, cut: Chunking, plan: AnswerPlan) -> H1ServerTrace {
    let mut server = Connection::new(NOW, limits.clone());
    server.serve_half_closed(plan.serve_half_closed);
    let mut seen = H1ServerTrace::default();
    for piece in cut.pieces(input) {
        if !server.wants_input() {
            // Input in one piece is processed without this check; input in many pieces stops here.
            break;
        }
        server.handle_input(NOW, piece);
        run_turn(&mut server, plan, &mut seen);
        let limit = limits.max_buffered.max(limits.max_head) + piece.len();
        assert!(server.unread_len() <= limit, "{} bytes buffered", server.unread_len());
    }
    if plan.hangs_up {
        server.handle_eof(NOW);
        run_turn(&mut server, plan, &mut seen);
        assert!(plan.never_answers || seen.is_write_closed, "over: {server:?}");
    }
    let answered = seen.requests.iter().all(|(_, body, _)| body.len() as u64 <= limits.max_body);
    assert!(answered, "a body beyond its limit");
    seen
}

fn run_turn(server: &mut Connection, plan: AnswerPlan, seen: &mut H1ServerTrace) {
    loop {
        let event = server.poll_event(NOW, |request, _| {
            assert!(is_token(request.method.as_bytes()));
            assert!(request.target.starts_with('/') || (request.method, request.target) == ("OPTIONS", "*"));
            assert!(request.target.bytes().all(|b| b.is_ascii_graphic()));
            for (name, value) in request.fields {
                assert!(Fields::new().push(name, value), "{name}");
            }
            format!("{} {}", request.method, request.target)
        });
        let Some(event) = event else { break };
        assert!(seen.fault.is_none() && !seen.is_closed, "event after a fault");
        match event {
            Event::Head(head) => {
                assert!(seen.requests.last().is_none_or(|(_, _, ended)| *ended || plan.answers_at_head));
                seen.requests.push((head, Vec::new(), false));
                if plan.answers_at_head {
                    answer(server, plan);
                }
            }
            Event::Body(data) => {
                let (_, body, ended) = seen.requests.last_mut().expect("a head");
                assert!(!*ended && !data.is_empty());
                body.extend_from_slice(&data);
            }
            Event::End => {
                let (_, _, ended) = seen.requests.last_mut().expect("a head");
                assert!(!core::mem::replace(ended, true));
                answer(server, plan);
            }
            Event::ClientGone => seen.is_closed = true,
            Event::Fault(fault) => seen.fault = Some(fault),
        }
    }
    assert_eq!(server.segments().map(<[u8]>::len).sum::<usize>(), server.unsent_len());
    seen.sent.extend(server.segments().flatten());
    server.consume(server.unsent_len());
    seen.is_write_closed = server.wants_write_shutdown();
}

fn answer(server: &mut Connection, plan: AnswerPlan) {
    if plan.never_answers || server.respond(NOW, plan.status, &Fields::new(), plan.size).is_err() {
        return;
    }
    let length = match plan.size {
        BodySize::None => 0,
        BodySize::Exact(n) => n as usize,
        BodySize::Stream => 40,
    };
    server.write_body(&vec![b'x'; length]).expect("body of the announced size");
    if plan.aborts {
        server.abort(NOW);
    } else {
        server.end(NOW).expect("complete body");
    }
}
