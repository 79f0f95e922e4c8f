//! Fuzz target for newline framing, compared with a plain split at newlines.

use bytes::Bytes;
use mcp_proto::frame::line::{Line, LineDecoder};

use super::input::{Chunking, FuzzInput};

#[derive(Debug, PartialEq, Eq)]
enum LineTrace {
    Frame(Vec<u8>),
    /// The text has what was recovered of the message.
    TooLong {
        length: u64,
        shown: String,
    },
    Partial(usize),
}

/// Decodes arbitrary input as lines and checks the invariants of the decoder.
///
/// - The lines do not depend on how the input is cut.
/// - At most one line is buffered.
/// - Each line is the text between two newlines.
pub fn line(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let max = choices.below(96);
    let cuts = Chunking::all(choices.byte());
    let input = choices.rest();
    let want = read(input, max, Chunking::Whole, false);
    compare_with_split(input, max, &want);
    for cut in cuts {
        for owned in [false, true] {
            assert_eq!(read(input, max, cut, owned), want, "{cut:?}, owned {owned}");
        }
    }
}

fn read(input: &[u8], max: usize, cut: Chunking, owned: bool) -> Vec<LineTrace> {
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
                Line::Frame(frame) => LineTrace::Frame(frame.to_vec()),
                Line::TooLong(oversize) => {
                    LineTrace::TooLong { length: oversize.length, shown: format!("{oversize:?}") }
                }
            });
        }
        // A line of maximum length may be followed by a carriage return whose newline has not arrived.
        assert!(decoder.buffered() <= max + 1, "{} bytes buffered of lines of {max}", decoder.buffered());
        decoder.trim();
    }
    seen.push(LineTrace::Partial(decoder.partial()));
    seen
}

/// Compares the lines and their lengths with a plain split.
fn compare_with_split(input: &[u8], max: usize, seen: &[LineTrace]) {
    let mut lines: Vec<&[u8]> = input.split(|b| *b == b'\n').collect();
    let rest = lines.pop().unwrap_or_default();
    assert_eq!(seen.len(), lines.len() + 1);
    for (line, seen) in lines.iter().zip(seen) {
        let content = line.strip_suffix(b"\r").unwrap_or(line);
        match seen {
            LineTrace::Frame(frame) => assert_eq!((&frame[..], content.len() <= max), (content, true)),
            LineTrace::TooLong { length, .. } => {
                assert_eq!((*length, content.len() > max), (line.len() as u64, true))
            }
            LineTrace::Partial(_) => panic!("partial line before the end"),
        }
    }
    assert_eq!(seen.last(), Some(&LineTrace::Partial(rest.len())));
}
