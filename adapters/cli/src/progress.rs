//! Readable progress of a call.

use alloc::sync::Arc;
use core::time::Duration;
use std::env;
use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use mcp_proto::Progress;
use mcp_std::sync::lock;

use crate::args::StderrChoice;
use crate::escape;
use crate::screen;

/// Shows progress on stderr: a bar or a spinner on a terminal, one line per report otherwise.
///
/// Of lines, above [`LINES_PER_SECOND`] only the latest report is kept.
pub(crate) struct ProgressDisplay {
    kind: DisplayKind,
    rate: LineRate,
    /// Latest report that was not shown.
    unshown: Option<Progress>,
}

enum DisplayKind {
    Lines,
    /// The bar, once there is a report.
    Bar(Option<ProgressBar>),
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
    /// Creates a display. A server that has the terminal for its own stderr would write into a bar, so it gets lines.
    pub(crate) fn new(stderr: StderrChoice) -> Self {
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let has_bar = io::stderr().is_terminal() && !is_dumb && !matches!(stderr, StderrChoice::Inherit);
        Self {
            kind: if has_bar { DisplayKind::Bar(None) } else { DisplayKind::Lines },
            rate: LineRate::new(Instant::now()),
            unshown: None,
        }
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        match &mut self.kind {
            DisplayKind::Bar(bar) => draw(bar, progress),
            DisplayKind::Lines if self.rate.try_take(Instant::now()) => {
                self.unshown = None;
                screen::print_line(&progress_line(progress));
            }
            DisplayKind::Lines => self.unshown = Some(progress.clone()),
        }
    }

    pub(crate) fn end(&mut self) {
        match &mut self.kind {
            DisplayKind::Bar(bar) => {
                if bar.take().is_some() {
                    screen::clear_bar();
                }
            }
            DisplayKind::Lines => {
                if let Some(progress) = self.unshown.take() {
                    screen::print_line(&progress_line(&progress));
                }
            }
        }
    }
}

/// Draws a report on the bar, which is made at the first one.
fn draw(bar: &mut Option<ProgressBar>, progress: &Progress) {
    // A dialogue removes the bar.
    let known = bar.take().filter(|bar| !bar.is_finished());
    let is_new = known.is_none();
    let known = known.unwrap_or_else(|| ProgressBar::new(BAR_STEPS));
    if is_new && !screen::show_bar(&known) {
        return;
    }
    let share = progress.total.filter(|total| *total > 0.0).map(|total| progress.progress / total);
    let template = if share.is_some() { BAR } else { SPINNER };
    if let Ok(style) = ProgressStyle::with_template(template) {
        known.set_style(style.progress_chars("=> "));
    }
    if let Some(share) = share {
        known.set_position((share.clamp(0.0, 1.0) * BAR_STEPS as f64) as u64);
    }
    known.set_message(progress_text(progress));
    if is_new {
        // The time goes on, and the spinner turns, between reports.
        known.enable_steady_tick(TICK_INTERVAL);
    }
    *bar = Some(known);
}

/// Progress of calls, shared between the client, which reports it, and the command that shows it.
#[derive(Clone, Default)]
pub(crate) struct SharedProgress(Arc<Mutex<Option<ProgressDisplay>>>);

impl SharedProgress {
    /// Shows reports from now on.
    pub(crate) fn begin(&self, display: ProgressDisplay) {
        *lock(&self.0) = Some(display);
    }

    /// Shows a report, unless none is awaited.
    pub(crate) fn show(&self, progress: &Progress) {
        if let Some(display) = &mut *lock(&self.0) {
            display.show(progress);
        }
    }

    pub(crate) fn end(&self) {
        let display = lock(&self.0).take();
        if let Some(mut display) = display {
            display.end();
        }
    }
}

fn progress_line(progress: &Progress) -> String {
    format!("progress {}", progress_text(progress))
}

fn progress_text(progress: &Progress) -> String {
    let Progress { progress: done, total, message, .. } = progress;
    let mut line = done.to_string();
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
/// Steps of a bar, far more than it has columns.
const BAR_STEPS: u64 = 1_000;
/// Progress of which the total is known. The text is cut at the width of the terminal.
const BAR: &str = "{elapsed:>4} [{bar:24}] {wide_msg}";
const SPINNER: &str = "{elapsed:>4} {spinner} {wide_msg}";
const TICK_INTERVAL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
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
    fn templates_of_bars_are_valid() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
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
