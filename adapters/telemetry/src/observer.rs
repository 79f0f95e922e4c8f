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
use crate::labels::{self, ErrorType, MAX_ID, MAX_MESSAGE};
use crate::metrics::Metrics;
use crate::operation::Operation;
use crate::sampler::Sampler;
use crate::targets::{SubjectKind, Targets};
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
    sampler: Option<Sampler>,
    targets: Targets,
}

impl Shared {
    /// Returns whether a subscriber wants spans.
    fn is_traced(&self) -> bool {
        self.settings.has_spans && tracing::enabled!(target: TARGET, tracing::Level::INFO)
    }

    /// Begins the span of a request, or takes what stands for it.
    fn trace(&self, operation: &Operation, request: &RequestStart<'_>) -> Trace {
        let is_received = operation.direction == Direction::In;
        let context = request.parent.as_ref();
        let baggage = || if is_received { None } else { context?.baggage.clone() };
        let parent = context.and_then(|context| trace_context::parse(context, is_received));
        if self.is_traced() {
            if let Some(context) =
                self.sampler.as_ref().and_then(|it| unsampled(it, parent.as_ref(), request))
            {
                return Trace::Without { context, baggage: baggage() };
            }
            let span = new_span(operation, request, self.settings.transport, parent.as_ref());
            if !span.is_disabled() {
                return Trace::Span { span: Mutex::new(span), baggage: baggage() };
            }
        }
        match parent {
            Some(context) if is_received => Trace::Without { context, baggage: None },
            _ => Trace::None,
        }
    }
}

impl TelemetryObserver {
    pub(crate) fn new(
        settings: Telemetry,
        metrics: Option<Metrics>,
        sampler: Option<Sampler>,
        targets: Targets,
    ) -> Self {
        Self { shared: Arc::new(Shared { settings, metrics, sampler, targets }) }
    }
}

impl Observer for TelemetryObserver {
    fn is_enabled(&self) -> bool {
        self.shared.metrics.is_some() || self.shared.is_traced()
    }

    fn request(&self, request: &RequestStart<'_>) -> Option<Arc<dyn Observation>> {
        let shared = &self.shared;
        let operation = Operation::new(request, &shared.targets);
        let trace = shared.trace(&operation, request);
        Some(Arc::new(ObservedRequest {
            shared: Arc::clone(shared),
            began: Began::new(request.at),
            operation,
            trace,
            has_ended: AtomicBool::new(false),
        }))
    }

    fn current_context(&self) -> Option<TraceContext> {
        trace_context::format(&running_context()?, None)
    }

    fn session_ended(&self, session: &SessionEnd) {
        if let Some(metrics) = &self.shared.metrics {
            let duration = session.ended_at.saturating_duration_since(session.began_at);
            metrics.record_session(session.direction, session.version, session.is_fault, duration);
        }
    }
}

/// Returns the context of the span that runs on this thread.
fn running_context() -> Option<SpanContext> {
    let of = |context: &Context| {
        let span = context.span();
        let context = span.span_context();
        context.is_valid().then(|| context.clone())
    };
    // The layer makes the context of a span current when it is entered, unless it is set up not to. The span that was entered
    // last may be older than a context without a span.
    Context::map_current(of).or_else(|| {
        let running = Span::current();
        if running.is_none() { None } else { of(&running.context()) }
    })
}

/// Returns the context of a request that is not sampled.
fn unsampled(
    sampler: &Sampler,
    parent: Option<&SpanContext>,
    request: &RequestStart<'_>,
) -> Option<SpanContext> {
    let running = if parent.is_none() { running_context() } else { None };
    let parent = parent.or(running.as_ref());
    if sampler.is_sampled(parent) { None } else { Some(sampler.unsampled(parent, request.at)) }
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
                otel.name = &*span_name(operation.target.method, operation.target.name()),
                otel.kind = if operation.direction == Direction::In { "server" } else { "client" },
                otel.status_code = Empty,
                otel.status_description = Empty,
                mcp.method.name = operation.target.method,
                mcp.protocol.version = operation.version.map(|version| version.as_str()),
                jsonrpc.request.id = &*labels::clean(&request.id.to_string(), MAX_ID),
                gen_ai.operation.name = operation.target.is_tool_call().then_some("execute_tool"),
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

/// The part of a request in a trace.
#[derive(Debug)]
enum Trace {
    /// Nothing is known of one.
    None,
    /// The request has a span.
    Span {
        /// Disabled from the end on: an application may keep the observation for longer.
        span: Mutex<Span>,
        /// Baggage of the application.
        baggage: Option<String>,
    },
    /// The request has a context without a span: it is not sampled, or there are no spans.
    Without {
        context: SpanContext,
        /// Baggage of the application.
        baggage: Option<String>,
    },
}

#[derive(Debug)]
struct ObservedRequest {
    shared: Arc<Shared>,
    began: Began,
    operation: Operation,
    trace: Trace,
    has_ended: AtomicBool,
}

impl Observation for ObservedRequest {
    fn in_scope(&self, run: &mut dyn FnMut()) {
        match &self.trace {
            Trace::None => run(),
            Trace::Span { span, .. } => handle(span).in_scope(run),
            Trace::Without { context, .. } => {
                let context = Context::map_current(|cx| cx.with_remote_span_context(context.clone()));
                let _guard = context.attach();
                run();
            }
        }
    }

    fn trace_context(&self) -> Option<TraceContext> {
        match &self.trace {
            Trace::None => None,
            Trace::Span { span, baggage } => {
                let context = handle(span).context();
                trace_context::format(context.span().span_context(), baggage.as_deref())
            }
            Trace::Without { context, baggage } => trace_context::format(context, baggage.as_deref()),
        }
    }

    fn needs_end_time(&self) -> bool {
        Began::IS_OF_ENGINE
    }

    fn end(&self, end: &RequestEnd<'_>) {
        self.finish(Some(end.at), ErrorType::of(end), Some(end));
    }
}

/// Returns a handle of a span. Its lock is free again: the handler ends the request within its span.
fn handle(span: &Mutex<Span>) -> Span {
    span.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl ObservedRequest {
    fn finish(&self, at: Option<Instant>, error: Option<ErrorType>, end: Option<&RequestEnd<'_>>) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let target = self.operation.target_at_end(&self.shared.targets, error);
        if let Trace::Span { span, .. } = &self.trace {
            let span =
                core::mem::replace(&mut *span.lock().unwrap_or_else(PoisonError::into_inner), Span::none());
            if self.operation.target.name().is_none() {
                if let Some(name) = target.name() {
                    let name = span_name(target.method, Some(name));
                    // The layer does not rename a span that has started.
                    span.record("otel.name", &*name);
                    span.context().span().update_name(name);
                }
            }
            self.record_end(&span, error, end);
        }
        if let (Some(metrics), Some(duration)) = (&self.shared.metrics, self.began.elapsed(at)) {
            let Operation { direction, version, .. } = self.operation;
            metrics.record_operation(direction, version, &target, error, duration);
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
        if !*self.has_ended.get_mut() {
            self.finish(None, Some(ErrorType::CANCELLED), None);
        }
    }
}
