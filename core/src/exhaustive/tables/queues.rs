//! All short histories of the outbox, and of budgets.

use super::{MIN_SEGMENT_LEN, Outbox};
use crate::budget::Budget;
use crate::testing::{exhaustive, for_each_sequence};
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;

/// What the bytes of an outbox should be, and where a message begins.
#[derive(Default)]
struct Stream {
    pending: Vec<u8>,
    consumed: u64,
    /// Whether the first byte is that of a message; otherwise no message can be taken.
    is_at_start: bool,
}

impl Stream {
    fn take(&mut self, n: usize) -> Vec<u8> {
        self.consumed += n as u64;
        self.pending.drain(..n).collect()
    }
}

fn check(outbox: &Outbox, stream: &Stream) {
    assert_eq!((outbox.len(), outbox.is_empty()), (stream.pending.len(), stream.pending.is_empty()));
    assert_eq!(outbox.consumed(), stream.consumed);
    assert!(outbox.segments().flatten().eq(stream.pending.iter()));
    assert!(stream.pending.starts_with(outbox.transmit()));
    assert_eq!(outbox.transmit().is_empty(), stream.pending.is_empty());
}

#[test]
fn exhaustive_outbox_is_a_queue_of_bytes_however_it_is_filled_and_emptied() {
    let property = "An outbox gives back the bytes that were appended, once and in order, however they are written and read.";
    let large = Bytes::from([&vec![b'x'; MIN_SEGMENT_LEN - 1], &b"\n"[..]].concat());
    exhaustive(property, "steps of 10 kinds, up to", [3, 4, 6], |most| {
        for_each_sequence(10, most, |steps| {
            let (mut outbox, mut stream) =
                (Outbox::default(), Stream { is_at_start: true, ..Stream::default() });
            for step in steps {
                match step {
                    0 | 1 => {
                        let text: &[u8] = if *step == 0 { b"a\n" } else { b"bc" };
                        let mark = outbox.mark();
                        outbox.tail().extend_from_slice(text);
                        outbox.commit(mark);
                        stream.pending.extend_from_slice(text);
                    }
                    2 => {
                        outbox.push_bytes(&large);
                        stream.pending.extend_from_slice(&large);
                    }
                    3 => {
                        let mut text = b"own\n".to_vec();
                        assert!(outbox.push_text(&mut text));
                        stream.pending.extend_from_slice(b"own\n");
                    }
                    4 => {
                        let mark = outbox.mark();
                        outbox.tail().extend_from_slice(b"nothing of this");
                        outbox.rollback(mark);
                    }
                    5 | 6 => {
                        let n = if *step == 5 { 1.min(outbox.len()) } else { outbox.transmit().len() };
                        outbox.consume(n);
                        let taken = stream.take(n);
                        stream.is_at_start = taken.last().map_or(stream.is_at_start, |last| *last == b'\n');
                    }
                    7 if stream.is_at_start => {
                        let end = stream.pending.iter().position(|byte| *byte == b'\n');
                        let message = end.map(|end| stream.take(end + 1));
                        let message = message.as_deref().and_then(|message| message.strip_suffix(b"\n"));
                        assert_eq!(outbox.pop_message().as_deref(), message, "{steps:?}");
                    }
                    8 => assert!(outbox.reserve(40) && outbox.has_room(40)),
                    9 => {
                        outbox.clear();
                        stream.take(stream.pending.len());
                        stream.is_at_start = true;
                    }
                    _ => {}
                }
            }
            check(&outbox, &stream);
            outbox.trim(8);
            check(&outbox, &stream);
        })
    });
}

#[cfg(feature = "http")]
#[test]
fn exhaustive_messages_move_between_outboxes_whole_and_in_order() {
    let property = "Moving messages between outboxes loses no byte and appends complete messages only.";
    let large = Bytes::from(vec![b'y'; MIN_SEGMENT_LEN]);
    exhaustive(
        property,
        "parts of messages of 4 kinds, in either outbox's buffers, up to",
        [4, 6, 7],
        |most| {
            for_each_sequence(5, most, |parts| {
                let (mut from, mut to) = (Outbox::default(), Outbox::default());
                let mut text = Vec::new();
                for part in parts {
                    let start = text.len();
                    match part {
                        0 => text.push(b'\n'),
                        1 => text.extend_from_slice(b"ab"),
                        2 => text.extend_from_slice(b"c\n"),
                        3 => text.extend_from_slice(&large),
                        _ => assert!(from.seal()),
                    }
                    if *part == 3 {
                        from.push_bytes(&large);
                    } else {
                        from.push(&text[start..]);
                    }
                }
                let mut moved = Vec::new();
                let mut rest = &text[..];
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    assert_eq!(from.has_single_message(), end + 1 == rest.len());
                    assert!(from.move_message(&mut to));
                    moved.extend_from_slice(&rest[..end]);
                    rest = &rest[end + 1..];
                    assert_eq!((from.len(), to.len()), (rest.len(), moved.len()));
                }
                assert!(!from.move_message(&mut to) && !from.has_single_message());
                assert!(
                    from.segments().flatten().eq(rest) && to.segments().flatten().eq(&moved),
                    "{parts:?}"
                );
            })
        },
    );
}

#[test]
fn exhaustive_budget_is_a_sum_that_never_passes_its_limit_by_a_charge() {
    let property = "A budget is the saturating sum of its charges, none of which takes it beyond the limit.";
    let sizes = [0, 1, 5, usize::MAX];
    exhaustive(
        property,
        "charges, overdrafts and releases of 4 sizes, with 4 limits, up to",
        [3, 4, 5],
        |most| {
            sizes
                .map(|limit| {
                    for_each_sequence(3 * sizes.len(), most, |steps| {
                        let (mut budget, mut used) = (Budget::new(limit), 0_u128);
                        for step in steps {
                            let bytes = sizes[step % sizes.len()];
                            let wide = bytes as u128;
                            match step / sizes.len() {
                                0 => {
                                    let fits = used + wide <= limit as u128;
                                    assert_eq!(budget.charge(bytes), fits, "{steps:?}");
                                    used += if fits { wide } else { 0 };
                                }
                                1 => {
                                    budget.overdraw(bytes);
                                    used = (used + wide).min(usize::MAX as u128);
                                }
                                _ => {
                                    budget.release(bytes);
                                    used = used.saturating_sub(wide);
                                }
                            }
                            assert_eq!(budget.is_spent(), used >= limit as u128, "{steps:?}");
                        }
                    })
                })
                .into_iter()
                .sum()
        },
    );
}
