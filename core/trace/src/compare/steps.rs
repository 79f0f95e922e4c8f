//! A trace as one engine lives through it: reads, the end of its input, and what it is expected to say.

use crate::record::{Content, Line, Side};
use crate::trace::Trace;

/// One step of a replay.
#[derive(Debug)]
pub(crate) struct Step {
    /// Time in microseconds.
    pub(crate) at: u64,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    /// One read: parts of lines.
    Read(Vec<Piece>),
    /// The end of the input.
    InputEnds,
    /// A line that was said, by its record.
    Expect { record: usize, text: Vec<u8> },
}

/// A part of a line of the input.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Index of the line in [`Steps::lines`].
    pub(crate) line: usize,
    pub(crate) begin: usize,
    /// `None` is the end of the line, with its newline if it has one.
    pub(crate) end: Option<usize>,
}

/// A line of the input.
#[derive(Debug)]
pub(crate) struct InputLine {
    pub(crate) text: Vec<u8>,
    pub(crate) open: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    pub(crate) lines: Vec<InputLine>,
    /// Lines whose bytes were not recorded.
    pub(crate) missing: Vec<usize>,
}

impl Steps {
    /// Takes a trace apart for the engine of one side.
    pub(crate) fn new(trace: &Trace, engine: Side) -> Self {
        let mut all = Self::default();
        for (index, record) in trace.records.iter().enumerate() {
            match &record.content {
                Content::Line(line) => match line.text.to_bytes() {
                    Some(text) if record.from == engine => {
                        let action = Action::Expect { record: index, text };
                        all.steps.push(Step { at: record.at, action });
                    }
                    Some(text) => all.add_line(record.at, line, text),
                    None => all.missing.push(index),
                },
                // An exchange over HTTP is not the whole connection.
                Content::End(_) if record.from != engine && record.exchange.is_none() => {
                    all.steps.push(Step { at: record.at, action: Action::InputEnds });
                }
                Content::Head(_) | Content::End(_) | Content::Stderr(_) | Content::Lost(_) => {}
            }
        }
        // Lines are recorded when they are complete, so one that took long stands behind what came meanwhile.
        all.steps.sort_by_key(|step| step.at);
        all.join_reads();
        all
    }

    fn add_line(&mut self, at: u64, line: &Line, text: Vec<u8>) {
        let index = self.lines.len();
        let (mut at, mut begin) = (at, 0);
        let mut joined = line.joined;
        let mut add = |at, begin, end, joined| {
            let piece = Piece { line: index, begin, end };
            // A read that is joined with the one before is marked by an empty piece, until the order is known.
            let pieces =
                if joined { vec![Piece { line: index, begin: 0, end: Some(0) }, piece] } else { vec![piece] };
            self.steps.push(Step { at, action: Action::Read(pieces) });
        };
        for cut in &line.cuts {
            // A trace that others have made may have cuts anywhere.
            let end = cut.offset.clamp(begin, text.len());
            add(at, begin, Some(end), joined);
            (at, begin, joined) = (cut.at.max(at), end, false);
        }
        add(at, begin, None, joined);
        self.lines.push(InputLine { text, open: line.open });
    }

    /// Joins the reads of lines that came together.
    fn join_reads(&mut self) {
        let mut joined: Vec<Step> = Vec::with_capacity(self.steps.len());
        for mut step in core::mem::take(&mut self.steps) {
            if let Action::Read(pieces) = &mut step.action {
                if pieces.len() == 2 {
                    pieces.remove(0);
                    let before = joined.iter_mut().rev().take_while(|before| before.at == step.at);
                    let read = before.into_iter().find_map(|before| match &mut before.action {
                        Action::Read(before) => Some(before),
                        _ => None,
                    });
                    if let Some(before) = read {
                        before.append(pieces);
                        continue;
                    }
                }
            }
            joined.push(step);
        }
        self.steps = joined;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::Mask;
    use crate::record::Header;
    use crate::recorder::Recorder;

    /// What was recorded comes in as it came.
    #[test]
    fn reads_are_those_that_were_recorded() {
        let mut recorder =
            Recorder::new(Vec::new(), Header::new("test 1", 0), Mask::none(), u64::MAX).expect("memory");
        let reads: [(u64, &[u8]); 4] = [(1, b"{\"a\":1}\n{}\n{\"b\""), (4, b":"), (5, b"2}\n"), (5, b"last")];
        for (at, read) in reads {
            recorder.bytes(at, Side::Client, read);
            recorder.bytes(at + 1, Side::Server, b"{}\n");
        }
        recorder.end(9, Side::Client, "eof");
        let trace = Trace::read(&*recorder.finish(), u64::MAX).expect("a trace");
        let steps = Steps::new(&trace, Side::Server);
        let mut found = Vec::new();
        for step in &steps.steps {
            let Action::Read(pieces) = &step.action else { continue };
            let mut bytes = Vec::new();
            for piece in pieces {
                let line = &steps.lines[piece.line];
                bytes.extend_from_slice(&line.text[piece.begin..piece.end.unwrap_or(line.text.len())]);
                if piece.end.is_none() && !line.open {
                    bytes.push(b'\n');
                }
            }
            found.push((step.at, bytes));
        }
        assert_eq!(found, reads.map(|(at, read)| (at, read.to_vec())));
        assert!(matches!(steps.steps.last(), Some(Step { at: 9, action: Action::InputEnds })));
    }
}
