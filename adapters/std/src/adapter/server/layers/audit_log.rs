//! Log of calls.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::net::IpAddr;
use core::ops::ControlFlow;
use core::time::Duration;

use mcp_proto::router::{HandlerError, Subject};
use mcp_proto::rpc::code;
use mcp_proto::{Instant, RawJson};

use crate::Clock;
use crate::adapter::server::cx::Cx;
use crate::adapter::server::router::{EntryRequest, EntryResult, HandlerResult, Interceptor};

/// Records each call: its party, its entry, its outcome, its duration and its sizes.
///
/// A record is passed to a function when the call has ended, on the thread of the call: a slow function delays the answer.
/// As the outermost layer it sees the calls that others refuse. Calls that the router answers itself (lists, wrong arguments) are
/// seen by [hooks](mcp_proto::router::Hook) alone. A call that asks has a record for each time that it is delivered.
///
/// ```
/// # use mcp_std::adapter::server::router::{Functions, Router};
/// use mcp_std::adapter::server::layers::AuditLog;
///
/// let mut router = Router::<Functions<()>>::new("harbour", "1.0");
/// router.intercept(AuditLog::new(|record| {
///     println!("{} of {:?}: {:?} in {:?}", record.entry, record.principal, record.outcome, record.duration);
/// }));
/// ```
pub struct AuditLog {
    sink: Sink,
    has_arguments: bool,
    has_result_size: bool,
    clock: Arc<dyn Fn() -> Instant + Send + Sync>,
}

type Sink = Arc<dyn Fn(&AuditRecord) + Send + Sync>;

/// A call that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditRecord {
    /// Method of the request, for example `tools/call`.
    pub method: String,
    /// Registered name of the entry: a name, a URI or a template.
    pub entry: String,
    /// Authenticated principal.
    pub principal: Option<String>,
    /// Address of the peer, over HTTP; for a task, that of the request that created it, unless the server was restarted since.
    pub peer: Option<IpAddr>,
    /// Size of the parameters of the request in bytes.
    pub params_bytes: usize,
    /// Arguments of a tool or a prompt, as the layer saw them, if the log [has](AuditLog::arguments) them.
    pub arguments: Option<RawJson>,
    /// Size of the result as JSON in bytes, if the log [has](AuditLog::result_sizes) it.
    pub result_bytes: Option<usize>,
    /// End of the call, inside the audit log.
    pub outcome: AuditOutcome,
    /// Time that the inside took.
    pub duration: Duration,
}

/// End of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AuditOutcome {
    /// It has a result.
    Completed,
    /// It has a result that reports a tool failure, or a tool failed with an error of its own (TOOL-023).
    ToolFailed,
    /// It has an error, with this code.
    Failed(i64),
    /// It waits for input, and is delivered again.
    InputRequired,
    /// It becomes a task, which is delivered as another call when it runs.
    TaskBegun,
    /// It was cancelled, and its handler has returned.
    Cancelled,
    /// The handler has not returned: it panicked, or its future was dropped, for example because the call was cancelled.
    Dropped,
}

impl AuditLog {
    /// Creates a log whose records go to `sink`.
    #[must_use]
    pub fn new(sink: impl Fn(&AuditRecord) + Send + Sync + 'static) -> Self {
        let clock = Clock::start();
        Self {
            sink: Arc::new(sink),
            has_arguments: false,
            has_result_size: false,
            clock: Arc::new(move || clock.now()),
        }
    }

    /// Adds the arguments of tools and prompts to records. They may contain secrets.
    #[must_use]
    pub fn arguments(mut self) -> Self {
        self.has_arguments = true;
        self
    }

    /// Adds the sizes of results to records. To know them, results are encoded once more.
    #[must_use]
    pub fn result_sizes(mut self) -> Self {
        self.has_result_size = true;
        self
    }

    /// Sets the clock, for example that of a test. By default it is the monotonic clock of the system.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog")
            .field("has_arguments", &self.has_arguments)
            .field("has_result_size", &self.has_result_size)
            .finish_non_exhaustive()
    }
}

/// The record of a running call. It is passed on when it is dropped.
pub struct PendingRecord {
    record: AuditRecord,
    begun: Instant,
    clock: Arc<dyn Fn() -> Instant + Send + Sync>,
    sink: Sink,
}

impl fmt::Debug for PendingRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingRecord").field(&self.record).finish()
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        self.record.duration = (self.clock)().saturating_duration_since(self.begun);
        // A sink that panics during a panic would abort the process.
        let _ = crate::catch(|| (self.sink)(&self.record));
    }
}

impl Interceptor for AuditLog {
    type State = PendingRecord;

    fn before(
        &self,
        _: &mut Cx<'_>,
        request: &mut EntryRequest<'_>,
    ) -> ControlFlow<HandlerResult, PendingRecord> {
        let call = request.call();
        let entry = match request.subject() {
            Subject::Tool(name)
            | Subject::Resource(name)
            | Subject::ResourceTemplate(name)
            | Subject::Prompt(name)
            | Subject::Completion(name) => String::from(name),
            other => format!("{other:?}"),
        };
        let record = AuditRecord {
            method: call.method().into(),
            entry,
            principal: call.authorization().map(|party| party.principal().into()),
            peer: call.caller().peer_ip(),
            params_bytes: call.params().map_or(0, |params| params.as_bytes().len()),
            arguments: if self.has_arguments { request.arguments() } else { None },
            result_bytes: None,
            outcome: AuditOutcome::Dropped,
            duration: Duration::ZERO,
        };
        let (clock, sink) = (self.clock.clone(), self.sink.clone());
        ControlFlow::Continue(PendingRecord { record, begun: clock(), clock, sink })
    }

    fn after(
        &self,
        cx: &mut Cx<'_>,
        request: &EntryRequest<'_>,
        mut pending: PendingRecord,
        result: HandlerResult,
    ) -> HandlerResult {
        let is_tool = matches!(request.subject(), Subject::Tool(_));
        pending.record.outcome = match &result {
            _ if cx.is_cancelled() => AuditOutcome::Cancelled,
            _ if cx.is_awaiting_input() => AuditOutcome::InputRequired,
            _ if cx.is_becoming_task() => AuditOutcome::TaskBegun,
            Ok(EntryResult::Tool(result)) if result.is_failure() => AuditOutcome::ToolFailed,
            Ok(_) => AuditOutcome::Completed,
            Err(HandlerError::Failed(_)) if is_tool => AuditOutcome::ToolFailed,
            Err(HandlerError::Rpc(error)) => AuditOutcome::Failed(error.code),
            Err(_) => AuditOutcome::Failed(code::INTERNAL_ERROR),
        };
        if self.has_result_size {
            pending.record.result_bytes = result.as_ref().ok().and_then(EntryResult::encoded_len);
        }
        result
    }
}
