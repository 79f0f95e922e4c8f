//! HTTP/1.1 at the server's end: whatever a client sends, however it is cut.

use alloc::string::String;
use alloc::vec::Vec;

use super::dice::{Cut, Dice};
use crate::h1::server::{Connection, Event};
use crate::h1::{Fault, Limits};
use crate::head::{BodySize, Fields, is_token};
use crate::time::Instant;

const NOW: Instant = Instant::from_micros(1);

/// When and how requests are answered
#[derive(Clone, Copy)]
struct Plan {
    at_head: bool,
    never: bool,
    abort: bool,
    status: u16,
    size: BodySize,
    serve_half_closed: bool,
    hang_up: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Heads, and how many bytes of body and whether an end came of each
    requests: Vec<(String, Vec<u8>, bool)>,
    fault: Option<Fault>,
    gone: bool,
    sent: Vec<u8>,
    write_over: bool,
}

/// However the input is cut, the same comes of it; what is delivered is what it says; no more is kept than allowed
pub fn h1_server(data: &[u8]) {
    let mut dice = Dice::new(data);
    let limits = Limits {
        max_head: 16 + 2 * usize::from(dice.byte()),
        max_fields: dice.below(40),
        max_body: u64::from(dice.byte()),
        max_extensions: dice.below(16),
        max_buffered: dice.below(300),
        max_drain: dice.below(64) as u64,
        ..Limits::default()
    };
    let (kind, how) = (dice.byte(), dice.byte());
    let plan = Plan {
        at_head: kind & 1 != 0,
        never: kind & 6 == 6,
        abort: kind & 24 == 24,
        status: [200, 204, 304, 500][dice.below(4)],
        size: match how % 3 {
            0 => BodySize::None,
            1 => BodySize::Exact(u64::from(how / 8)),
            _ => BodySize::Stream,
        },
        serve_half_closed: kind & 32 != 0,
        hang_up: kind & 64 != 0,
    };
    let cuts = Cut::all(dice.byte());
    let input = dice.rest();
    let want = read(input, &limits, Cut::Whole, plan);
    for cut in cuts {
        assert_eq!(read(input, &limits, cut, plan), want, "{cut:?}");
    }
}

fn read(input: &[u8], limits: &Limits, cut: Cut, plan: Plan) -> Seen {
    let mut server = Connection::new(NOW, limits.clone());
    server.serve_half_closed(plan.serve_half_closed);
    let mut seen = Seen::default();
    for piece in cut.pieces(input) {
        if !server.wants_input() {
            // What came in one piece goes on without asking; what comes in many stops here.
            break;
        }
        server.handle_input(NOW, piece);
        turn(&mut server, plan, &mut seen);
        let most = limits.max_buffered.max(limits.max_head) + piece.len();
        assert!(server.unread() <= most, "{} bytes kept", server.unread());
    }
    if plan.hang_up {
        server.handle_eof(NOW);
        turn(&mut server, plan, &mut seen);
        assert!(plan.never || seen.write_over, "over: {server:?}");
    }
    let answered = seen.requests.iter().all(|(_, body, _)| body.len() as u64 <= limits.max_body);
    assert!(answered, "a body beyond its limit");
    seen
}

fn turn(server: &mut Connection, plan: Plan, seen: &mut Seen) {
    loop {
        let event = server.poll_event(NOW, |request, _| {
            assert!(is_token(request.method.as_bytes()));
            assert!(request.target.starts_with('/') || (request.method, request.target) == ("OPTIONS", "*"));
            assert!(request.target.bytes().all(|b| b.is_ascii_graphic()));
            for (name, value) in request.fields {
                assert!(Fields::new().push(name, value), "{name}");
            }
            alloc::format!("{} {}", request.method, request.target)
        });
        let Some(event) = event else { break };
        assert!(seen.fault.is_none() && !seen.gone, "nothing comes after a fault");
        match event {
            Event::Head(head) => {
                assert!(seen.requests.last().is_none_or(|(_, _, ended)| *ended || plan.at_head));
                seen.requests.push((head, Vec::new(), false));
                if plan.at_head {
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
            Event::Gone => seen.gone = true,
            Event::Fault(fault) => seen.fault = Some(fault),
        }
    }
    assert_eq!(server.segments().map(<[u8]>::len).sum::<usize>(), server.unsent());
    seen.sent.extend(server.segments().flatten());
    server.consume(usize::MAX);
    seen.write_over = server.is_write_over();
}

fn answer(server: &mut Connection, plan: Plan) {
    if plan.never || server.respond(NOW, plan.status, &Fields::new(), plan.size).is_err() {
        return;
    }
    let length = match plan.size {
        BodySize::None => 0,
        BodySize::Exact(n) => n as usize,
        BodySize::Stream => 40,
    };
    server.body(&alloc::vec![b'x'; length]).expect("as many as announced");
    if plan.abort {
        server.abort(NOW);
    } else {
        server.end(NOW).expect("all of it was given");
    }
}
