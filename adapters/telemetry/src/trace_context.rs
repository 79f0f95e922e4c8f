//! W3C Trace Context: `traceparent` and `tracestate` as text and as a [`SpanContext`].

use core::fmt::Write as _;

use mcp_proto::observe::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Largest accepted `tracestate` in bytes. W3C asks for 512 at least.
const MAX_TRACESTATE: usize = 1024;

/// Length of a `traceparent` of version 00.
const TRACEPARENT_LENGTH: usize = 55;

/// Reads a trace context, or returns `None` if its `traceparent` is missing or malformed.
///
/// A `tracestate` that is malformed or too long is left out. `is_remote` says whether another process wrote it.
pub(crate) fn parse(context: &TraceContext, is_remote: bool) -> Option<SpanContext> {
    let text = context.traceparent.as_deref()?.as_bytes();
    let (fields, rest) = text.split_at_checked(TRACEPARENT_LENGTH)?;
    let mut parts = fields.split(|&b| b == b'-');
    let version = hex(parts.next()?, 2)?;
    let (trace, span, flags) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?, hex(parts.next()?, 2)?);
    // A later version may have more members.
    let is_known_form = match version {
        0 => rest.is_empty(),
        0xff => false,
        _ => rest.first().is_none_or(|&b| b == b'-'),
    };
    if !is_known_form || parts.next().is_some() {
        return None;
    }
    let span = u64::try_from(span).ok()?;
    let flags = TraceFlags::new(u8::try_from(flags).ok()?) & TraceFlags::SAMPLED;
    let state = context.tracestate.as_deref().and_then(parse_state).unwrap_or_default();
    let context = SpanContext::new(TraceId::from(trace), SpanId::from(span), flags, is_remote, state);
    context.is_valid().then_some(context)
}

fn parse_state(text: &str) -> Option<TraceState> {
    let is_allowed = |b: &u8| matches!(b, b'\t' | b' '..=b'~');
    if text.len() > MAX_TRACESTATE || !text.as_bytes().iter().all(is_allowed) {
        return None;
    }
    text.parse().ok()
}

/// Reads lower-case hexadecimal digits of a fixed number.
fn hex(digits: &[u8], length: usize) -> Option<u128> {
    if digits.len() != length {
        return None;
    }
    digits.iter().try_fold(0, |value: u128, &digit| {
        let nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(nibble))
    })
}

/// Writes a span context, or returns `None` if it is not valid: nothing records spans.
pub(crate) fn format(context: &SpanContext, baggage: Option<&str>) -> Option<TraceContext> {
    if !context.is_valid() {
        return None;
    }
    let mut traceparent = String::with_capacity(TRACEPARENT_LENGTH);
    let flags = context.trace_flags() & TraceFlags::SAMPLED;
    let (trace, span) = (context.trace_id(), context.span_id());
    write!(traceparent, "00-{trace}-{span}-{:02x}", flags.to_u8()).ok()?;
    let mut written = TraceContext::new().traceparent(traceparent);
    let state = context.trace_state().header();
    if !state.is_empty() {
        written = written.tracestate(state);
    }
    Some(match baggage {
        Some(baggage) => written.baggage(baggage),
        None => written,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parent(text: &str) -> Option<SpanContext> {
        parse(&TraceContext::new().traceparent(text), true)
    }

    // covers: META-021, META-022
    #[test]
    fn valid_context_is_read_and_written_unchanged() {
        let context = TraceContext::new().traceparent(VALID).tracestate("rojo=00f067aa0ba902b7,congo=t61");
        let read = parse(&context, true).expect("valid");
        assert!(read.is_remote() && read.is_sampled());
        assert_eq!(read.trace_state().get("congo"), Some("t61"));
        assert_eq!(format(&read, None), Some(context.clone()));
        assert_eq!(format(&read, Some("a=b")), Some(context.baggage("a=b")));
        assert!(!parse(&TraceContext::new().traceparent(VALID), false).expect("valid").is_remote());
        assert_eq!(format(&SpanContext::empty_context(), Some("a=b")), None);
    }

    #[test]
    fn malformed_traceparent_is_ignored() {
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "0-04bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parent(wrong), None, "{wrong:?}");
        }
        assert_eq!(parse(&TraceContext::new().tracestate("a=b"), true), None);
    }

    #[test]
    fn later_versions_and_unknown_flags_are_read_as_the_known_part() {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff";
        for text in [later.to_owned(), format!("{later}-more")] {
            let read = parent(&text).expect("the known part");
            let written = format(&read, None).and_then(|context| context.traceparent);
            assert_eq!(written.as_deref(), Some(VALID));
        }
        assert!(!parent(&VALID.replace("-01", "-02")).expect("valid").is_sampled());
    }

    #[test]
    fn tracestate_is_bounded_and_checked_by_itself() {
        let state = |text: &str| {
            let context = TraceContext::new().traceparent(VALID).tracestate(text);
            parse(&context, true).expect("the traceparent is valid").trace_state().header()
        };
        assert_eq!(state("a=1, b=2"), "a=1,b=2");
        let many: Vec<String> = (0..40).map(|i| format!("k{i}=v")).collect();
        assert_eq!(state(&many.join(",")).split(',').count(), 32);
        for wrong in ["a", "A=1", "a=\u{7}", "a=\n", "a=é", &format!("a={}", "x".repeat(MAX_TRACESTATE))] {
            assert_eq!(state(wrong), "", "{wrong:?}");
        }
    }
}
