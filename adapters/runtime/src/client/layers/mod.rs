//! Layers: code around the requests of a client.

mod call_port;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::time::Duration;

use mcp_proto::client::is_safe_method;
use mcp_proto::observe::Observer;
use mcp_proto::{CallError, HttpError, RawJson, RpcError};

use crate::error::Error;
use call_port::{CallPort, PortCall, PortDriver};

pub use call_port::ClientRequest;
pub(super) use call_port::RequestKind;

/// The layers of a client, from the outermost to the innermost.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Layers {
    /// No layers: requests go to the connection.
    #[default]
    None,
    /// Layers of a client that blocks.
    Blocking(Arc<[BlockingLayer]>),
    /// Layers of an asynchronous client.
    Async(Arc<[AsyncLayer]>),
}

impl Layers {
    /// Adds a layer of a client that blocks, inside those before it. Such a client has no others.
    pub(super) fn push_blocking(&mut self, layer: BlockingLayer) {
        let before = if let Self::Blocking(layers) = self { &**layers } else { &[] };
        *self = Self::Blocking(before.iter().cloned().chain([layer]).collect());
    }

    /// Adds a layer of an asynchronous client, inside those before it. Such a client has no others.
    pub(crate) fn push_async(&mut self, layer: AsyncLayer) {
        let before = if let Self::Async(layers) = self { &**layers } else { &[] };
        *self = Self::Async(before.iter().cloned().chain([layer]).collect());
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Blocking(layers) => write!(f, "Blocking({})", layers.len()),
            Self::Async(layers) => write!(f, "Async({})", layers.len()),
        }
    }
}

// Layers of asynchronous clients.

/// A layer of an asynchronous client.
pub type AsyncLayer = Arc<dyn Fn(ClientRequest, ClientNext) -> LayerFuture + Send + Sync>;

/// Future of the outcome of a layer, or of what is inside it.
pub type LayerFuture = Pin<Box<dyn Future<Output = Result<RawJson, Error>> + Send>>;

/// The inside of a layer of an asynchronous client: the layers after it, and the call.
///
/// A layer runs it once, several times (to try again, also at the same time), or not at all (to refuse, or to answer from a
/// cache). It belongs to one call: after that has ended, it returns
/// [`CallError::Cancelled`](mcp_proto::CallError::Cancelled).
#[derive(Clone)]
pub struct ClientNext {
    layers: Arc<[AsyncLayer]>,
    /// Number of layers outside.
    depth: usize,
    port: CallPort,
}

impl ClientNext {
    /// Runs the layers inside and makes the call. Returns its result, a JSON object.
    ///
    /// The call is made while the future is polled, which may be in another task, and while the caller of the client polls
    /// its own. Dropping the future cancels the call.
    ///
    /// # Errors
    ///
    /// The error of the call, or of a layer.
    #[must_use = "nothing happens unless it is awaited"]
    pub fn run(&self, request: ClientRequest) -> LayerFuture {
        match self.layers.get(self.depth) {
            Some(layer) => layer(request, Self { depth: self.depth + 1, ..self.clone() }),
            None => Box::pin(PortCall::new(self.port.clone(), request)),
        }
    }
}

impl fmt::Debug for ClientNext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientNext")
            .field("layers", &(self.layers.len() - self.depth))
            .finish_non_exhaustive()
    }
}

/// Runs the layers around the calls that `start` makes.
pub(super) async fn run_async<F: Future<Output = Result<RawJson, Error>>>(
    layers: &Arc<[AsyncLayer]>,
    observer: Option<&Arc<dyn Observer>>,
    request: ClientRequest,
    start: impl Fn(ClientRequest) -> F,
) -> Result<RawJson, Error> {
    let port = CallPort::new(observer.cloned());
    // Dropped after the layers: the calls that they still wait for are cancelled then.
    let mut driver = PortDriver::new(port.clone());
    let mut layered = ClientNext { layers: layers.clone(), depth: 0, port }.run(request);
    poll_fn(|cx| driver.poll(cx, &mut |cx| layered.as_mut().poll(cx), &start)).await
}

// Layers of clients that block.

/// A layer of a client that blocks.
pub type BlockingLayer =
    Arc<dyn Fn(ClientRequest, BlockingClientNext<'_>) -> Result<RawJson, Error> + Send + Sync>;

/// The inside of a layer of a client that blocks: the layers after it, and the call.
///
/// A layer runs it once, several times (to try again), or not at all (to refuse, or to answer from a cache).
#[derive(Clone, Copy)]
pub struct BlockingClientNext<'a> {
    layers: &'a [BlockingLayer],
    call: &'a dyn Fn(ClientRequest) -> Result<RawJson, Error>,
}

impl<'a> BlockingClientNext<'a> {
    pub(super) fn new(
        layers: &'a [BlockingLayer],
        call: &'a dyn Fn(ClientRequest) -> Result<RawJson, Error>,
    ) -> Self {
        Self { layers, call }
    }

    /// Runs the layers inside and makes the call. Returns its result, a JSON object.
    ///
    /// # Errors
    ///
    /// The error of the call, or of a layer.
    pub fn run(&self, request: ClientRequest) -> Result<RawJson, Error> {
        match self.layers.split_first() {
            Some((layer, layers)) => layer(request, BlockingClientNext { layers, call: self.call }),
            None => (self.call)(request),
        }
    }
}

impl fmt::Debug for BlockingClientNext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingClientNext").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

// Layer that repeats requests which failed for a reason that may pass.

/// Repeats a request that failed because the server was not reached, did not answer, or had too much to do.
///
/// Repeated are requests that only read ([`is_safe_method`]), those whose options say that they may be executed twice
/// ([`CallOptions::idempotent`](mcp_proto::CallOptions)), and tools that [`tools`](Self::tools) names: annotations of a tool
/// are words of the server, so they do not count. There are three attempts at most by default. The first pause is
/// 200 ms, and each further one is twice as long, up to 10 s. A server that says when to try again is obeyed; if that is later
/// than the longest pause, its error is the outcome.
///
/// Reasons are [`HttpError::Unreachable`] and [`Lost`](HttpError::Lost); the HTTP statuses 429, 502, 503 and 504; the error code
/// 429, with which routers refuse calls beyond a [limit](crate::server::layers); and
/// [`CallError::Transport`]. A call that took too long is not repeated, because its time has passed, and neither is one whose
/// connection has ended. Over HTTP, [`ReconnectPolicy`](mcp_proto::http::client::ReconnectPolicy) repeats some lost requests by
/// itself before.
///
#[cfg_attr(feature = "http", doc = "```no_run")]
#[cfg_attr(not(feature = "http"), doc = "```ignore")]
/// use mcp_runtime::Retry;
/// use mcp_runtime::client::{Options, ReadyConnection};
///
/// // An application uses the `Client` of its adapter instead of `ReadyConnection`.
/// let retry = Retry::new().attempts(5).tools(|name| name == "search");
/// let client = Options::<ReadyConnection>::default().retry(retry).connect_url("http://127.0.0.1:8080/mcp")?;
/// # Ok::<(), mcp_runtime::Error>(())
/// ```
pub struct Retry {
    attempts: u32,
    pause: Duration,
    max_pause: Duration,
    tools: Option<ToolPredicate>,
}

/// Tells by its name whether a tool may be called twice.
type ToolPredicate = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

impl Retry {
    /// Creates the layer with three attempts.
    #[must_use]
    pub fn new() -> Self {
        Self {
            attempts: 3,
            pause: Duration::from_millis(200),
            max_pause: Duration::from_secs(10),
            tools: None,
        }
    }

    /// Sets the maximum number of attempts, the first one included; 0 counts as 1.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the first pause, and the longest one.
    #[must_use]
    pub const fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.pause = first;
        self.max_pause = longest;
        self
    }

    /// Repeats calls of the tools for which `is_repeatable` returns true, because running them twice does no harm.
    #[must_use]
    pub fn tools(mut self, is_repeatable: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.tools = Some(Box::new(is_repeatable));
        self
    }

    /// Returns whether a request may be made twice.
    pub(crate) fn may_repeat(&self, request: &ClientRequest) -> bool {
        let is_listed_tool = || {
            let name = request.name();
            let (Some(tools), Some(name)) = (&self.tools, name) else { return false };
            request.is_tool(&name) && tools(&name)
        };
        is_safe_method(request.method()) || request.options().idempotent || is_listed_tool()
    }

    /// Returns the pause before the next attempt, after `attempts` so far; `None` if `error` is the outcome.
    pub(crate) fn pause_after(&self, attempts: u32, error: &Error) -> Option<Duration> {
        let retry_after = retry_after(error)?;
        if attempts >= self.attempts {
            return None;
        }
        // After 32 attempts the factor has no bit left, and `max_pause` bounds the pause anyway.
        let factor = 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
        let pause = self.pause.saturating_mul(factor).min(self.max_pause).max(retry_after);
        // A server that wants a longer pause than the application allows is not asked again.
        (pause <= self.max_pause).then_some(pause)
    }
}

/// Returns the time after which the server wants to be asked again, zero if it does not say; `None` if a repetition would
/// fail as well.
fn retry_after(error: &Error) -> Option<Duration> {
    let Error::Call(error) = error else { return None };
    match error {
        CallError::Rpc(error) => (error.code == TOO_MANY_REQUESTS).then(|| retry_after_data(error)),
        CallError::Transport { .. } => Some(Duration::ZERO),
        CallError::Http(error) => match &**error {
            HttpError::Unreachable { .. } | HttpError::Lost { .. } => Some(Duration::ZERO),
            HttpError::Response(response) => {
                let is_passing = matches!(response.status, 429 | 502..=504);
                is_passing.then(|| response.retry_after.unwrap_or_default())
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the time in the data of an error of a [limit](crate::server::layers).
fn retry_after_data(error: &RpcError) -> Duration {
    let millis = error.data.as_ref().and_then(|data| data.member("retryAfterMs")?.parse().ok());
    millis.map_or(Duration::ZERO, Duration::from_millis)
}

/// Error code of a call beyond a limit: the HTTP status of the same meaning.
const TOO_MANY_REQUESTS: i64 = crate::server::layers::TOO_MANY_REQUESTS;

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("pause", &self.pause)
            .field("max_pause", &self.max_pause)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::client::TaskRequest;
    use mcp_proto::model::{CallToolParams, ReadResourceParams, RequestParams};
    use mcp_proto::{CallOptions, RawJson};

    use super::call_port::RequestKind;
    use super::*;

    fn refused(data: &str) -> Error {
        let data = RawJson::new(data.as_bytes().to_vec()).unwrap();
        Error::Call(CallError::Rpc(RpcError::new(TOO_MANY_REQUESTS, "later").with_data(data)))
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_obey_the_server() {
        let (millis, retry) = (Duration::from_millis, Retry::new().attempts(5));
        let retry = retry.pauses(millis(100), millis(300));
        let lost = Error::Call(CallError::Transport { reason: "cut".into() });
        let pauses = |error: &Error| [1, 2, 3, 4, 5].map(|attempts| retry.pause_after(attempts, error));
        let doubled = [Some(millis(100)), Some(millis(200)), Some(millis(300)), Some(millis(300)), None];
        assert_eq!(pauses(&lost), doubled);
        assert_eq!(pauses(&refused("{}")), doubled);
        assert_eq!(retry.pause_after(1, &refused(r#"{"retryAfterMs":250}"#)), Some(millis(250)));
        assert_eq!(retry.pause_after(1, &refused(r#"{"retryAfterMs":301}"#)), None);
        assert_eq!(retry.pause_after(1, &refused(r#"{"retryAfterMs":"soon"}"#)), Some(millis(100)));
        let http = |error| Error::Call(CallError::from(error));
        let unreachable = HttpError::Unreachable { reason: "refused".into() };
        assert_eq!(retry.pause_after(1, &http(unreachable)), Some(millis(100)));
        for lasting in [
            Error::Call(CallError::TimedOut),
            Error::Call(CallError::Rpc(RpcError::invalid_params("wrong"))),
            http(HttpError::SessionLost),
            Error::closed(mcp_proto::Fault::Eof),
            Error::Busy,
        ] {
            assert_eq!(retry.pause_after(1, &lasting), None, "{lasting:?}");
        }
        // Large numbers of attempts neither panic nor wait for ever.
        let patient = Retry::new().attempts(u32::MAX);
        assert_eq!(patient.pause_after(u32::MAX - 1, &lost), Some(Duration::from_secs(10)));
        assert_eq!(Retry::new().attempts(0).pause_after(1, &lost), None);
    }

    #[test]
    fn only_requests_that_do_no_harm_twice_are_repeated() {
        let retry = Retry::new().tools(|name| name == "search");
        let request = |method, params: &str, options| {
            let params = RawJson::new(params.as_bytes().to_vec()).unwrap();
            ClientRequest::new(method, params, options, RequestKind::Tool(None::<TaskRequest>))
        };
        let call = |name: &str, options| {
            let params = alloc::format!(r#"{{"name":"{name}"}}"#);
            request(CallToolParams::METHOD, &params, options)
        };
        assert!(retry.may_repeat(&request(ReadResourceParams::METHOD, "{}", CallOptions::new())));
        assert!(retry.may_repeat(&call("search", CallOptions::new())));
        assert!(retry.may_repeat(&call("pay", CallOptions::new().idempotent())));
        assert!(!retry.may_repeat(&call("pay", CallOptions::new())));
        assert!(!Retry::new().may_repeat(&call("search", CallOptions::new())));
        assert!(!retry.may_repeat(&request("x/custom", r#"{"name":"search"}"#, CallOptions::new())));
    }
}
