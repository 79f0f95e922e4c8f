//! Spans at a subscriber of `tracing` that knows nothing of OpenTelemetry.

use alloc::sync::Arc;
use std::io;
use std::sync::{Mutex, PoisonError};

use mcp_proto::{CallOptions, VersionSet};
use mcp_telemetry::Telemetry;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::support::Pair;

/// What a subscriber has written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn subscriber_without_opentelemetry_prints_spans_with_their_durations() {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .with_span_events(FmtSpan::CLOSE)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut pair = Pair::new(VersionSet::MODERN, Telemetry::new(), Telemetry::new());
        pair.call_tool("add", &CallOptions::new());
    });
    let text = String::from_utf8(written.0.lock().expect("no panic").clone()).expect("UTF-8");
    for side in ["client", "server"] {
        let is_span = |line: &&str| {
            line.contains("gen_ai.tool.name=\"add\"") && line.contains(&format!("otel.kind=\"{side}\""))
        };
        let line = text.lines().find(is_span).unwrap_or_else(|| panic!("no span of the {side}: {text}"));
        assert!(line.contains("close time.busy="), "{line}");
    }
}
