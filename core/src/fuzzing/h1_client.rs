//! HTTP/1.1 at the client's end: whatever a server sends, however it is cut.

use alloc::vec::Vec;

use super::dice::{Cut, Dice};
use crate::h1::client::{Connection, Event};
use crate::h1::{Fault, Limits};
use crate::head::{BodySize, Fields};
use crate::time::Instant;

const NOW: Instant = Instant::from_micros(1);

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Status, body, and whether its end came
    responses: Vec<(u16, Vec<u8>, bool)>,
    fault: Option<Fault>,
    closed: bool,
    over: bool,
    idle: bool,
}

/// However the input is cut, the same comes of it; what is delivered is what it says; no more is kept than allowed
pub fn h1_client(data: &[u8]) {
    let mut dice = Dice::new(data);
    let limits = Limits {
        max_head: 16 + 2 * usize::from(dice.byte()),
        max_fields: dice.below(40),
        max_body: u64::from(dice.byte()),
        max_extensions: dice.below(16),
        max_interim: dice.below(4) as u8,
        max_buffered: dice.below(300),
        ..Limits::default()
    };
    let method = ["GET", "POST", "HEAD", "DELETE"][dice.below(4)];
    let (asks, ends, hangs_up) = (dice.below(4), dice.flag(), dice.flag());
    let cuts = Cut::all(dice.byte());
    let input = dice.rest();
    let run = |cut| read(input, &limits, cut, method, asks, ends, hangs_up);
    let want = run(Cut::Whole);
    for cut in cuts {
        assert_eq!(run(cut), want, "{cut:?}");
    }
}

fn read(
    input: &[u8],
    limits: &Limits,
    cut: Cut,
    method: &str,
    asks: usize,
    ends: bool,
    hangs_up: bool,
) -> Seen {
    let mut client = Connection::new(NOW, limits.clone());
    let mut seen = Seen::default();
    if asks > 0 {
        client.request(NOW, method, "/", "h", &Fields::new(), BodySize::Stream).expect("the request");
        if ends {
            client.end(NOW).expect("its end");
        }
    }
    client.consume(usize::MAX);
    for piece in cut.pieces(input) {
        if !client.wants_input() {
            break;
        }
        client.handle_input(NOW, piece);
        turn(&mut client, &mut seen);
        let most = limits.max_buffered.max(limits.max_head) + piece.len();
        assert!(client.unread() <= most, "{} bytes kept", client.unread());
    }
    if hangs_up {
        client.handle_eof(NOW);
        turn(&mut client, &mut seen);
        assert!(seen.over, "over: {client:?}");
    }
    assert!(seen.responses.len() <= asks.min(1), "an answer to each request");
    assert!(!seen.closed || (input.is_empty() && hangs_up), "something had come");
    assert!(!(seen.idle && seen.over) && seen.responses.iter().all(|r| r.1.len() as u64 <= limits.max_body));
    seen
}

fn turn(client: &mut Connection, seen: &mut Seen) {
    loop {
        let event = client.poll_event(NOW, |response| {
            assert!((200..600).contains(&response.status));
            for (name, value) in response.fields {
                assert!(Fields::new().push(name, value), "{name}");
            }
            response.status
        });
        let Some(event) = event else { break };
        assert!(seen.fault.is_none() && !seen.closed, "nothing comes after a fault");
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
    (seen.over, seen.idle) = (client.is_over(), client.is_idle());
}
