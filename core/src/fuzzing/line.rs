//! Newline framing against the plainest possible reading of the same bytes.

use alloc::vec::Vec;

use bytes::Bytes;

use super::dice::{Cut, Dice};
use crate::frame::line::{Line, LineDecoder};

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Frame(Vec<u8>),
    TooLong { length: u64, id: Option<Vec<u8>>, asks: bool, answers: bool },
    Partial(usize),
}

/// However the input is cut, the same lines come out, no more than one line is kept, and each is what stands between
/// two newlines
pub fn line(data: &[u8]) {
    let mut dice = Dice::new(data);
    let max = dice.below(96);
    let cuts = Cut::all(dice.byte());
    let input = dice.rest();
    let want = read(input, max, Cut::Whole, false);
    compare(input, max, &want);
    for cut in cuts {
        for owned in [false, true] {
            assert_eq!(read(input, max, cut, owned), want, "{cut:?}, owned {owned}");
        }
    }
}

fn read(input: &[u8], max: usize, cut: Cut, owned: bool) -> Vec<Seen> {
    let mut decoder = LineDecoder::new(max);
    let mut seen = Vec::new();
    for piece in cut.pieces(input) {
        if owned {
            decoder.push_owned(Bytes::copy_from_slice(piece));
        } else {
            decoder.push(piece);
        }
        while let Some(line) = decoder.next_line() {
            seen.push(match line {
                Line::Frame(frame) => Seen::Frame(frame.to_vec()),
                Line::TooLong(oversize) => {
                    let found = oversize.found;
                    Seen::TooLong {
                        length: oversize.length,
                        id: found.id,
                        asks: found.asks,
                        answers: found.answers,
                    }
                }
            });
        }
        // The carriage return of a longest line may have come without its newline.
        assert!(decoder.buffered() <= max + 1, "{} bytes kept of lines of {max}", decoder.buffered());
        decoder.trim();
    }
    seen.push(Seen::Partial(decoder.partial()));
    seen
}

/// Lines and their lengths, found by looking for newlines
fn compare(input: &[u8], max: usize, seen: &[Seen]) {
    let mut lines: Vec<&[u8]> = input.split(|b| *b == b'\n').collect();
    let rest = lines.pop().unwrap_or_default();
    assert_eq!(seen.len(), lines.len() + 1);
    for (line, seen) in lines.iter().zip(seen) {
        let content = line.strip_suffix(b"\r").unwrap_or(line);
        match seen {
            Seen::Frame(frame) => assert_eq!((&frame[..], content.len() <= max), (content, true)),
            Seen::TooLong { length, .. } => {
                assert_eq!((*length, content.len() > max), (line.len() as u64, true))
            }
            Seen::Partial(_) => panic!("the end comes last"),
        }
    }
    assert_eq!(seen.last(), Some(&Seen::Partial(rest.len())));
}
