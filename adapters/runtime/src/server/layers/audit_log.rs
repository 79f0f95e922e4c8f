//! Log of calls, and removal of secrets from results.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::net::IpAddr;
use core::ops::ControlFlow;
use core::time::Duration;

use mcp_proto::model::{Content, Map, ResourceContents};
use mcp_proto::router::{HandlerError, Subject};
use mcp_proto::rpc::code;
use mcp_proto::{Instant, RawJson};
use mcp_std::Clock;

use crate::server::cx::Cx;
use crate::server::router::{EntryRequest, EntryResult, HandlerResult, Interceptor};

/// Records each call: its party, its entry, its outcome, its duration and its sizes.
///
/// A record is passed to a function when the call has ended, on the thread of the call: a slow function delays the answer.
/// As the outermost layer it sees the calls that others refuse. Calls that the router answers itself (lists, wrong arguments) are
/// seen by [hooks](mcp_proto::router::Hook) alone. A call that asks has a record for each time that it is delivered.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use mcp_runtime::server::layers::AuditLog;
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.layer(AuditLog::new(|record| {
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
        let _ = mcp_std::catch(|| (self.sink)(&self.record));
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
            // It stays if the handler never returns: then the drop of the record passes it on.
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
            // The context comes first: the result of a cancelled call is there and is not sent.
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

// Removal of secrets from results.

/// Removes secrets from results, by the names of members and by functions over texts.
///
/// - [`member`](Self::member): the value of a member with this name becomes `"[redacted]"`, in objects of any depth: in
///   structured results, and in texts that are JSON objects or arrays as a whole.
/// - [`texts`](Self::texts): a function rewrites all texts: those of content blocks, resources and prompts, suggestions, the
///   strings of structured results, and the messages of errors.
///
/// It does not reach: images, audio and other binary content; names and URIs of links and resources; the names of
/// members; `_meta` and annotations; the `data` of errors; texts that contain JSON beside other text; progress, log messages and
/// questions, which are sent while the handler runs. Numbers and the order of members are kept as they are. A structured result
/// whose schema does not admit the replacement is an error (TOOL-015).
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use std::borrow::Cow;
/// use mcp_runtime::server::layers::Redaction;
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.layer(Redaction::new().member("password").member("apiKey").texts(|text| {
///     if text.contains("sk-live-") { Cow::Owned(text.replace("sk-live-", "[redacted]-")) } else { Cow::Borrowed(text) }
/// }));
/// ```
#[derive(Default)]
pub struct Redaction {
    members: BTreeSet<Box<str>>,
    rewrite: Option<Rewrite>,
}

type Rewrite = Box<dyn for<'t> Fn(&'t str) -> Cow<'t, str> + Send + Sync>;

/// Value of a redacted member.
const REDACTED: &str = "\"[redacted]\"";

impl Redaction {
    /// Creates a layer that removes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the values of members with this name.
    #[must_use]
    pub fn member(mut self, name: impl Into<Box<str>>) -> Self {
        self.members.insert(name.into());
        self
    }

    /// Rewrites all texts with this function; it replaces an earlier one.
    #[must_use]
    pub fn texts(
        mut self,
        rewrite: impl for<'t> Fn(&'t str) -> Cow<'t, str> + Send + Sync + 'static,
    ) -> Self {
        self.rewrite = Some(Box::new(rewrite));
        self
    }

    fn rewrite<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.rewrite.as_ref().map_or(Cow::Borrowed(text), |rewrite| rewrite(text))
    }

    /// Returns the text without secrets, or `None` if it has none.
    fn redact_text(&self, text: &str) -> Option<String> {
        // The text of a structured result holds its strings as JSON escapes them.
        let is_json = text.trim_start().starts_with(['{', '[', '"']);
        let json = if is_json { RawJson::new(text.to_owned()).ok() } else { None };
        match json.and_then(|json| self.redact_json(&json)) {
            Some(json) => Some(json.as_str().to_owned()),
            // Also JSON: its numbers and the names of its members are no strings.
            None => Some(self.rewrite(text)).filter(|new| new != text).map(Cow::into_owned),
        }
    }

    fn redact_cow(&self, text: &mut Cow<'static, str>) {
        if let Some(changed) = self.redact_text(text) {
            *text = Cow::Owned(changed);
        }
    }

    /// Returns the value without secrets, or `None` if it has none.
    fn redact_json(&self, value: &RawJson) -> Option<RawJson> {
        let mut out = String::with_capacity(value.as_str().len());
        if !self.write_json(value, &mut out) {
            return None;
        }
        // Only secrets differ, so it is JSON again.
        RawJson::new(out).or_else(|_| RawJson::new(REDACTED)).ok()
    }

    /// Appends the value without secrets; returns whether it had some. JSON is nested at most 128 deep.
    fn write_json(&self, value: &RawJson, out: &mut String) -> bool {
        if value.is_object() {
            // One that cannot be read (with a member twice) may hold anything.
            let Ok(members) = value.parse::<Map<RawJson>>() else {
                out.push_str(REDACTED);
                return true;
            };
            let mut has_changed = false;
            out.push('{');
            for (i, (name, value)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_string(name, out);
                out.push(':');
                if self.members.contains(name) {
                    out.push_str(REDACTED);
                    has_changed = true;
                } else {
                    has_changed |= self.write_json(value, out);
                }
            }
            out.push('}');
            has_changed
        } else if let Some(elements) = value.elements() {
            let mut has_changed = false;
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                has_changed |= self.write_json(element, out);
            }
            out.push(']');
            has_changed
        } else {
            let text = value.string();
            let changed =
                text.as_deref().map(|text| self.rewrite(text)).filter(|new| Some(&**new) != text.as_deref());
            match &changed {
                Some(changed) => push_string(changed, out),
                None => out.push_str(value.as_str()),
            }
            changed.is_some()
        }
    }

    fn redact_content(&self, content: &mut Content<'static>) {
        match content {
            Content::Text(text) => self.redact_cow(&mut text.text),
            Content::Resource(embedded) => self.redact_resource(&mut embedded.resource),
            Content::ResourceLink(link) => {
                link.title.iter_mut().chain(&mut link.description).for_each(|text| self.redact_cow(text));
            }
            _ => {}
        }
    }

    fn redact_resource(&self, resource: &mut ResourceContents<'static>) {
        if let ResourceContents::Text(text) = resource {
            self.redact_cow(&mut text.text);
        }
    }

    fn redact_result(&self, result: &mut EntryResult) {
        match result {
            EntryResult::Tool(result) => {
                result.content.iter_mut().for_each(|content| self.redact_content(content));
                let structured = result.structured_content.as_ref();
                if let Some(changed) = structured.and_then(|value| self.redact_json(value)) {
                    result.structured_content = Some(changed);
                }
            }
            EntryResult::Resource(result) => {
                result.contents.iter_mut().for_each(|contents| self.redact_resource(contents));
            }
            EntryResult::Prompt(result) => {
                result.description.iter_mut().for_each(|text| self.redact_cow(text));
                result.messages.iter_mut().for_each(|message| self.redact_content(&mut message.content));
            }
            EntryResult::Completion(result) => {
                for value in &mut result.completion.values {
                    if let Some(changed) = self.redact_text(value) {
                        *value = changed;
                    }
                }
            }
        }
    }

    fn redact_error(&self, error: HandlerError) -> HandlerError {
        match error {
            HandlerError::Rpc(mut error) => {
                self.redact_cow(&mut error.message);
                HandlerError::Rpc(error)
            }
            HandlerError::Failed(failure) => match self.redact_text(failure.message()) {
                Some(message) => failure.with_message(message).into(),
                None => failure.into(),
            },
            other => other,
        }
    }
}

fn push_string(text: &str, out: &mut String) {
    // Text can always be encoded.
    out.push_str(RawJson::encode(text).as_ref().map_or(REDACTED, |json| json.as_str()));
}

impl Interceptor for Redaction {
    type State = ();

    fn before(&self, _: &mut Cx<'_>, _: &mut EntryRequest<'_>) -> ControlFlow<HandlerResult> {
        ControlFlow::Continue(())
    }

    fn after(&self, _: &mut Cx<'_>, _: &EntryRequest<'_>, (): (), result: HandlerResult) -> HandlerResult {
        match result {
            Ok(mut result) => {
                self.redact_result(&mut result);
                Ok(result)
            }
            Err(error) => Err(self.redact_error(error)),
        }
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redaction").field("members", &self.members).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::RpcError;
    use mcp_proto::model::{
        CallToolResult, CompleteResult, GetPromptResult, PromptMessage, ReadResourceResult,
    };

    use super::*;

    fn redaction() -> Redaction {
        Redaction::new().member("password").texts(|text| match text.contains("4711") {
            true => Cow::Owned(text.replace("4711", "****")),
            false => Cow::Borrowed(text),
        })
    }

    fn raw(text: &'static str) -> RawJson {
        RawJson::new(text).expect("JSON")
    }

    #[test]
    fn members_and_texts_are_redacted_and_all_else_is_kept() {
        let value = raw(
            r#"{"z":1e400,"a":[{"password":{"deep":1}},"pin 4711",18446744073709551616,null],"\u0070assword":2,"4711":true}"#,
        );
        let mut result = EntryResult::Tool(CallToolResult::structured(value));
        redaction().redact_result(&mut result);
        let EntryResult::Tool(result) = result else { panic!("a tool") };
        let expected = r#"{"z":1e400,"a":[{"password":"[redacted]"},"pin ****",18446744073709551616,null],"password":"[redacted]","4711":true}"#;
        assert_eq!(result.structured_content.as_ref().map(RawJson::as_str), Some(expected));
        assert_eq!(result.content[0].as_text(), Some(expected), "the text that repeats it");
    }

    #[test]
    fn texts_of_all_kinds_of_results_and_errors_are_redacted() {
        let embedded = mcp_proto::model::EmbeddedResource::new(ResourceContents::text("a:4711", "4711"));
        let results = [
            EntryResult::Tool(CallToolResult::content(
                [Content::text("{4711"), Content::from(embedded)].into(),
            )),
            EntryResult::Resource(ReadResourceResult::new([ResourceContents::text("a:4711", "4711")])),
            EntryResult::Prompt(GetPromptResult::new([PromptMessage::user("4711")]).description("4711")),
            EntryResult::Completion(CompleteResult::from_suggestions(["4711".to_owned()].into())),
        ];
        for mut result in results {
            redaction().redact_result(&mut result);
            let text = result.encode().expect("JSON");
            assert!(text.as_str().contains("****"), "{text:?}");
            assert!(!text.as_str().replace("a:4711", "").contains("4711"), "{text:?}");
        }
        let rpc = redaction().redact_error(RpcError::internal("no 4711").into());
        assert_eq!(rpc, RpcError::internal("no ****").into());
        let failure: Box<dyn core::error::Error> = "it is 4711".into();
        let failed = redaction().redact_error(mcp_proto::router::Failure::new(&*failure).into());
        assert_eq!(failed.into_rpc_error().message, "it is ****");
    }

    #[test]
    fn result_without_secrets_is_unchanged() {
        assert_eq!(redaction().redact_text(" { \"a\" : 1.0 } "), None);
        assert_eq!(redaction().redact_text("nothing"), None);
        assert_eq!(Redaction::new().redact_text("4711"), None);
    }

    #[test]
    fn object_that_cannot_be_read_is_removed() {
        let text = r#"[{"password":1,"password":2}]"#;
        let redacted = redaction().redact_text(text).expect("a secret");
        assert!(!redacted.contains(['1', '2']), "{redacted}");
    }
}
