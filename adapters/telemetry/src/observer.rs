//! The observer and its observations.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use mcp_proto::Instant;
use mcp_proto::observe::{
    Direction, Observation, Observer, RequestEnd, RequestOutcome, RequestStart, SessionEnd, TraceContext,
};
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::clock::Began;
use crate::labels::{self, ErrorType, MAX_ID, MAX_MESSAGE, Names};
use crate::metrics::Metrics;
use crate::operation::{Operation, SubjectKind};
use crate::telemetry::{TARGET, Telemetry};
use crate::trace_context;

#[derive(Debug)]
pub(crate) struct TelemetryObserver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Telemetry,
    metrics: Option<Metrics>,
    tools: Names,
    prompts: Names,
}

impl Shared {
    /// Returns whether a subscriber wants spans.
    fn is_traced(&self) -> bool {
        self.settings.has_spans && tracing::enabled!(target: TARGET, tracing::Level::INFO)
    }
}

impl TelemetryObserver {
    pub(crate) fn new(settings: Telemetry, metrics: Option<Metrics>, tools: Names, prompts: Names) -> Self {
        Self { shared: Arc::new(Shared { settings, metrics, tools, prompts }) }
    }
}

impl Observer for TelemetryObserver {
    fn is_enabled(&self) -> bool {
        self.shared.metrics.is_some() || self.shared.is_traced()
    }

    fn request(&self, request: &RequestStart<'_>) -> Option<Arc<dyn Observation>> {
        let shared = &self.shared;
        let is_traced = shared.is_traced();
        let operation = Operation::new(request, &shared.settings, &shared.tools, &shared.prompts);
        let is_received = request.direction == Direction::In;
        let parent = trace_context::parse(&request.parent, is_received);
        let span = if is_traced {
            new_span(&operation, request, shared.settings.transport, parent.as_ref())
        } else {
            Span::none()
        };
        let handed_on = if span.is_disabled() && is_received { parent } else { None };
        let baggage = if is_received { None } else { request.parent.baggage.clone() };
        Some(Arc::new(ObservedRequest {
            shared: Arc::clone(shared),
            began: Began::new(request.at),
            operation,
            span: Mutex::new(span),
            handed_on,
            baggage,
            has_ended: AtomicBool::new(false),
        }))
    }

    fn current_context(&self) -> Option<TraceContext> {
        trace_context::format(&running_context()?, None)
    }

    fn session_ended(&self, session: &SessionEnd) {
        if let Some(metrics) = &self.shared.metrics {
            let duration = session.ended_at.saturating_duration_since(session.began_at);
            let transport = self.shared.settings.transport;
            metrics.record_session(session.direction, session.version, transport, session.is_fault, duration);
        }
    }
}

/// Returns the context of the span that runs on this thread.
fn running_context() -> Option<SpanContext> {
    let of = |context: &Context| Some(context.span().span_context().clone()).filter(SpanContext::is_valid);
    of(&Span::current().context()).or_else(|| Context::map_current(of))
}

fn new_span(
    operation: &Operation,
    request: &RequestStart<'_>,
    transport: Option<&'static str>,
    parent: Option<&SpanContext>,
) -> Span {
    macro_rules! span {
        ($($parent:tt)*) => {
            tracing::info_span!(
                target: TARGET,
                $($parent)*
                "mcp.request",
                otel.name = &*span_name(operation.method, operation.known.as_deref()),
                otel.kind = if operation.direction == Direction::In { "server" } else { "client" },
                otel.status_code = Empty,
                otel.status_description = Empty,
                mcp.method.name = operation.method,
                mcp.protocol.version = operation.version.map(|version| version.as_str()),
                jsonrpc.request.id = &*labels::clean(&request.id.to_string(), MAX_ID),
                gen_ai.operation.name = operation.is_tool_call().then_some("execute_tool"),
                gen_ai.tool.name = operation.subject(SubjectKind::Tool),
                gen_ai.prompt.name = operation.subject(SubjectKind::Prompt),
                mcp.resource.uri = operation.subject(SubjectKind::Resource),
                network.transport = transport,
                "error.type" = Empty,
                rpc.response.status_code = Empty,
                mcp.request.size = Empty,
                mcp.response.size = Empty,
            )
        };
    }
    let Some(parent) = parent else { return span!() };
    let running = if operation.direction == Direction::In { running_context() } else { None };
    // Not a child of the running span, which would stay open until its children are closed.
    let span = span!(parent: None,);
    // It fails without a layer of OpenTelemetry; the span is then for other subscribers.
    let _ = span.set_parent(Context::new().with_remote_span_context(parent.clone()));
    if let Some(running) = running {
        span.add_link(running);
    }
    span
}

fn span_name(method: &'static str, target: Option<&str>) -> Cow<'static, str> {
    match target {
        Some(target) => Cow::Owned(format!("{method} {target}")),
        None => Cow::Borrowed(method),
    }
}

/// Returns a size as a number of OpenTelemetry, which is signed.
fn number(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

#[derive(Debug)]
struct ObservedRequest {
    shared: Arc<Shared>,
    began: Began,
    operation: Operation,
    /// Disabled if nothing records it, and from the end on. An application may keep the observation for longer.
    span: Mutex<Span>,
    /// Context of the peer for the requests of the handler, if there is no span.
    handed_on: Option<SpanContext>,
    /// Baggage of the application.
    baggage: Option<String>,
    has_ended: AtomicBool,
}

impl Observation for ObservedRequest {
    fn in_scope(&self, run: &mut dyn FnMut()) {
        let _guard = self
            .handed_on
            .as_ref()
            .map(|context| Context::current().with_remote_span_context(context.clone()).attach());
        self.span().in_scope(run);
    }

    fn trace_context(&self) -> Option<TraceContext> {
        let context = self.span().context();
        trace_context::format(context.span().span_context(), self.baggage.as_deref())
    }

    fn end(&self, end: &RequestEnd<'_>) {
        self.finish(Some(end.at), ErrorType::of(end), Some(end));
    }
}

impl ObservedRequest {
    fn span(&self) -> Span {
        self.span.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn finish(&self, at: Option<Instant>, error: Option<ErrorType>, end: Option<&RequestEnd<'_>>) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let added = self.add_name(error);
        let span =
            core::mem::replace(&mut *self.span.lock().unwrap_or_else(PoisonError::into_inner), Span::none());
        if !span.is_disabled() {
            if let Some(name) = &added {
                let name = span_name(self.operation.method, Some(name));
                // The layer does not rename a span that has started.
                span.record("otel.name", &*name);
                span.context().span().update_name(name);
            }
            self.record_end(&span, error, end);
        }
        drop(span);
        let (Some(metrics), Some(duration)) = (&self.shared.metrics, self.began.elapsed(at)) else { return };
        let label = self.operation.label(added);
        metrics.record_operation(&self.operation, label, self.shared.settings.transport, error, duration);
    }

    /// Makes the name of the tool or prompt known, because this request has shown that it exists.
    fn add_name(&self, error: Option<ErrorType>) -> Option<Arc<str>> {
        if error.is_some_and(|error| error.leaves_name_unknown(self.operation.direction)) {
            return None;
        }
        let name = self.operation.subject.as_deref()?;
        match self.operation.kind? {
            SubjectKind::Tool => self.shared.tools.add(name),
            SubjectKind::Prompt => self.shared.prompts.add(name),
            SubjectKind::Resource => None,
        }
    }

    fn record_end(&self, span: &Span, error: Option<ErrorType>, end: Option<&RequestEnd<'_>>) {
        if let Some(error) = error {
            let text = error.text();
            span.record("error.type", &*text);
            if matches!(error, ErrorType::Code(_)) {
                span.record("rpc.response.status_code", &*text);
            }
            span.record("otel.status_code", "error");
        }
        let Some(end) = end else { return };
        span.record("mcp.request.size", number(end.request_bytes));
        if end.response_bytes > 0 {
            span.record("mcp.response.size", number(end.response_bytes));
        }
        if let (RequestOutcome::Failed(error), true) = (end.outcome, self.shared.settings.has_error_messages)
        {
            span.record("otel.status_description", &*labels::clean(&error.to_string(), MAX_MESSAGE));
        }
        // The layer ends a span that was entered when it was left last, and the answer may come later.
        span.in_scope(|| {});
    }
}

impl Drop for ObservedRequest {
    fn drop(&mut self) {
        self.finish(None, Some(ErrorType::CANCELLED), None);
    }
}
