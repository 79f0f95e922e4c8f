//! Progress of a call, for people

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use mcp_proto::Progress;

use crate::escape;
use crate::session;

/// Progress on stderr: one line that changes on a terminal, otherwise a line for each report; where they come faster
/// than anybody reads, the latest ones
pub(crate) struct Ticker {
    live: bool,
    drawn: bool,
    rate: Rate,
    /// The latest report that was not shown
    held: Option<Progress>,
}

/// Lines that may be shown now, which grow again with time
struct Rate {
    left: f64,
    at: Instant,
}

impl Rate {
    fn new(now: Instant) -> Self {
        Self { left: LINES, at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        self.left = (self.left + now.duration_since(self.at).as_secs_f64() * LINES).min(LINES);
        self.at = now;
        let any = self.left >= 1.0;
        if any {
            self.left -= 1.0;
        }
        any
    }
}

impl Ticker {
    /// `alone` if nothing else goes to stderr meanwhile: a line that is drawn over does not go together with other lines
    pub(crate) fn new(alone: bool) -> Self {
        Self {
            live: io::stderr().is_terminal() && alone,
            drawn: false,
            rate: Rate::new(Instant::now()),
            held: None,
        }
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        if self.rate.take(Instant::now()) {
            self.held = None;
            self.draw(progress);
        } else {
            self.held = Some(progress.clone());
        }
    }

    fn draw(&mut self, progress: &Progress) {
        let line = progress_line(progress);
        if self.live {
            let short: String = line.chars().take(WIDTH).collect();
            let _ = write!(io::stderr(), "\r\x1b[2K{short}");
            self.drawn = true;
        } else {
            session::say(&line);
        }
    }

    pub(crate) fn end(&mut self) {
        if let Some(progress) = self.held.take().filter(|_| !self.live) {
            self.draw(&progress);
        }
        if core::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

fn progress_line(progress: &Progress) -> String {
    let Progress { progress: done, total, message, .. } = progress;
    let mut line = format!("progress {done}");
    if let Some(total) = total {
        line += &format!("/{total}");
        if *total > 0.0 {
            line += &format!(" ({:.0} %)", (done / total * 100.0).clamp(0.0, 100.0));
        }
    }
    if let Some(message) = message {
        line += &format!(" {}", escape::line(message));
    }
    line
}

/// Lines of progress in a second, and at once
const LINES: f64 = 10.0;
/// Characters that fit on any terminal
const WIDTH: usize = 78;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn progress_is_shown_at_a_rate() {
        let begun = Instant::now();
        let mut rate = Rate::new(begun);
        // A thousand reports in each of three seconds.
        let shown = (0..3_000).filter(|n| rate.take(begun + Duration::from_millis(*n))).count();
        assert!((38..=40).contains(&shown), "{shown}");
    }

    #[test]
    fn progress_is_put_into_words() {
        let cases = [
            (Progress::new(1.5), "progress 1.5"),
            (Progress::new(1.0).of(3.0), "progress 1/3 (33 %)"),
            (Progress::new(5.0).of(4.0), "progress 5/4 (100 %)"),
            (Progress::new(1.0).of(0.0).saying("x\r\u{202e}"), "progress 1/0 x\\r\\u202e"),
        ];
        for (progress, want) in cases {
            assert_eq!(progress_line(&progress), want);
        }
    }
}
