//! Readable progress of a call.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use mcp_proto::Progress;

use crate::escape;
use crate::session;

/// Shows progress on stderr: one line that is redrawn on a terminal, one line per report otherwise.
///
/// Above [`LINES_PER_SECOND`] only the latest report is kept.
pub(crate) struct ProgressDisplay {
    redraws: bool,
    is_line_drawn: bool,
    rate: LineRate,
    /// Latest report that was not shown.
    unshown: Option<Progress>,
}

/// Token bucket that limits how often a line is shown.
struct LineRate {
    available: f64,
    updated_at: Instant,
}

impl LineRate {
    fn new(now: Instant) -> Self {
        Self { available: LINES_PER_SECOND, updated_at: now }
    }

    fn try_take(&mut self, now: Instant) -> bool {
        self.available = (self.available
            + now.duration_since(self.updated_at).as_secs_f64() * LINES_PER_SECOND)
            .min(LINES_PER_SECOND);
        self.updated_at = now;
        let any = self.available >= 1.0;
        if any {
            self.available -= 1.0;
        }
        any
    }
}

impl ProgressDisplay {
    /// Creates a display. `alone` states that nothing else goes to stderr meanwhile, so a line may be redrawn.
    pub(crate) fn new(alone: bool) -> Self {
        Self {
            redraws: io::stderr().is_terminal() && alone,
            is_line_drawn: false,
            rate: LineRate::new(Instant::now()),
            unshown: None,
        }
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        if self.rate.try_take(Instant::now()) {
            self.unshown = None;
            self.draw(progress);
        } else {
            self.unshown = Some(progress.clone());
        }
    }

    fn draw(&mut self, progress: &Progress) {
        let line = progress_line(progress);
        if self.redraws {
            let short: String = line.chars().take(MAX_WIDTH).collect();
            let _ = write!(io::stderr(), "\r\x1b[2K{short}");
            self.is_line_drawn = true;
        } else {
            session::print_stderr(&line);
        }
    }

    pub(crate) fn end(&mut self) {
        if let Some(progress) = self.unshown.take().filter(|_| !self.redraws) {
            self.draw(&progress);
        }
        if core::mem::take(&mut self.is_line_drawn) {
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

/// Lines per second, and size of a burst.
const LINES_PER_SECOND: f64 = 10.0;
/// Maximum width of the redrawn line, so that it fits on any terminal.
const MAX_WIDTH: usize = 78;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn progress_lines_are_rate_limited() {
        let begun = Instant::now();
        let mut rate = LineRate::new(begun);
        // A thousand reports in each of three seconds.
        let shown = (0..3_000).filter(|n| rate.try_take(begun + Duration::from_millis(*n))).count();
        assert!((38..=40).contains(&shown), "{shown}");
    }

    #[test]
    fn progress_line_shows_total_and_message() {
        let cases = [
            (Progress::new(1.5), "progress 1.5"),
            (Progress::new(1.0).with_total(3.0), "progress 1/3 (33 %)"),
            (Progress::new(5.0).with_total(4.0), "progress 5/4 (100 %)"),
            (Progress::new(1.0).with_total(0.0).with_message("x\r\u{202e}"), "progress 1/0 x\\r\\u202e"),
        ];
        for (progress, want) in cases {
            assert_eq!(progress_line(&progress), want);
        }
    }
}
