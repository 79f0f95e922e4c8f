//! Clients over an HTTP client of the application.

use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::error::Error as StdError;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{HeaderValue, Request, Response};
use http_body::Body;
use mcp_proto::head::ResponseHead;
use mcp_proto::http::client::{Config as HttpClientConfig, ExchangeFailure, OutgoingRequest, Url};
use mcp_proto::http::fields::is_secret;
use mcp_runtime::Error;
use mcp_runtime::client::{Exchange, ExchangeConnector, Options, ResponseSink};
use tower_service::Service;

/// Connects a client of an adapter to the server at `url`, over an HTTP client of the application.
///
/// The HTTP client is a [`Service`] from [`http::Request`], with a body made of [`Bytes`], to [`http::Response`]: that of hyper
/// is one, and a function around `reqwest` is another (`tower::service_fn`). It is cloned for each exchange. It decides about
/// TLS, proxies, connections and time limits of its own; do not limit the time of whole responses, because event streams
/// last. It must not follow redirects, which the client does within the origin.
///
/// The client is the one whose `options` these are, with all of its calls, in any runtime of that adapter:
///
/// ```no_run
/// # async fn example<S, B>(http: S) -> Result<(), mcp_smol::Error>
/// # where
/// #     S: tower_service::Service<http::Request<http_body_util::Full<bytes::Bytes>>, Response = http::Response<B>>,
/// #     S: Clone + Send + 'static,
/// #     S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
/// #     S::Future: Send,
/// #     B: http_body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
/// # {
/// use mcp_smol::mcp_proto::client::Config;
/// use mcp_smol::Client;
///
/// let options = Client::options(Config::new("my-app", "1.0"));
/// let client = mcp_tower::connect(options, "https://tools.example.com/mcp", http).await?;
/// println!("{} tools", client.list_tools().await?.len());
/// client.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// A failure of the service counts as one after which the server may have received the request, so that no call is executed
/// twice. If the service can tell, use [`connect_with`].
///
/// Call `close` at the end: exchanges that run when the last handle is dropped are aborted, also the one that ends a session.
///
/// # Errors
///
/// [`Error::Url`] if the URL is invalid; otherwise as [`Options::connect_exchanges`].
pub fn connect<C, S, Q, B>(options: Options<C>, url: &str, service: S) -> C::Connecting<'static>
where
    C: ExchangeConnector,
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    S::Future: Send,
    Q: From<Bytes> + Send + 'static,
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
    match HttpClientConfig::new(url) {
        Ok(config) => connect_with(options, config, service, |_| false),
        Err(why) => C::refuse(Error::url(url, &why)),
    }
}

/// As [`connect`], with more settings than a URL, for example a token.
///
/// `is_unsent` tells whether an error of the service means that the server received nothing of the request, because there was
/// no connection. Such requests may be sent again.
///
/// # Errors
///
/// As [`Options::connect_exchanges`].
pub fn connect_with<C, S, Q, B>(
    options: Options<C>,
    config: HttpClientConfig,
    service: S,
    is_unsent: fn(&S::Error) -> bool,
) -> C::Connecting<'static>
where
    C: ExchangeConnector,
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    S::Future: Send,
    Q: From<Bytes> + Send + 'static,
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
    let start = move |request: OutgoingRequest| -> Pin<Box<dyn Exchange>> {
        let state = match http_request(&request) {
            Ok(request) => State::Waiting(service.clone(), Some(request)),
            Err(error) => State::Invalid(ExchangeFailure::unsent(error.to_string())),
        };
        Box::pin(ServiceExchange { state, is_unsent })
    };
    options.connect_exchanges(config, Box::new(start))
}

/// Returns the request in the form of the service.
fn http_request<Q: From<Bytes>>(request: &OutgoingRequest) -> Result<Request<Q>, http::Error> {
    let uri = alloc::format!("{}{}", request.url.origin(), request.url.target());
    let fields = request.fields.iter();
    fields
        .fold(Request::builder().method(request.method).uri(uri), |builder, (name, value)| {
            match HeaderValue::try_from(value) {
                Ok(mut value) => {
                    // Layers that print requests leave it out (SEC-019).
                    value.set_sensitive(is_secret(name));
                    builder.header(name, value)
                }
                // The builder reports it.
                Err(_) => builder.header(name, value),
            }
        })
        .body(request.body.clone().into())
}

/// An exchange of a service.
struct ServiceExchange<S: Service<Request<Q>>, Q, B> {
    state: State<S, S::Future, Q, B>,
    is_unsent: fn(&S::Error) -> bool,
}

enum State<S, F, Q, B> {
    /// The request cannot be sent.
    Invalid(ExchangeFailure),
    /// The service is not ready yet.
    Waiting(S, Option<Request<Q>>),
    Sent(Pin<Box<F>>),
    Answered(Pin<Box<B>>),
}

// The future and the body are pinned in boxes; nothing else is pinned.
impl<S: Service<Request<Q>>, Q, B> Unpin for ServiceExchange<S, Q, B> {}

impl<S, Q, B> Exchange for ServiceExchange<S, Q, B>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    S::Future: Send,
    Q: Send,
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + Send,
{
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Poll<Result<(), ExchangeFailure>> {
        let this = &mut *self;
        for _ in 0..MAX_STEPS {
            match &mut this.state {
                State::Invalid(failure) => return Poll::Ready(Err(failure.clone())),
                State::Waiting(service, request) => {
                    if let Err(error) = ready!(service.poll_ready(cx)) {
                        return Poll::Ready(Err(ExchangeFailure::unsent(describe(error))));
                    }
                    let Some(request) = request.take() else { return Poll::Pending };
                    this.state = State::Sent(Box::pin(service.call(request)));
                }
                State::Sent(future) => {
                    let response = match ready!(future.as_mut().poll(cx)) {
                        Ok(response) => response,
                        Err(error) if (this.is_unsent)(&error) => {
                            return Poll::Ready(Err(ExchangeFailure::unsent(describe(error))));
                        }
                        Err(error) => {
                            return Poll::Ready(Err(ExchangeFailure::interrupted(describe(error))));
                        }
                    };
                    let (head, body) = response.into_parts();
                    let fields: Vec<_> =
                        head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
                    sink.head(&ResponseHead { status: head.status.as_u16(), fields: &fields });
                    this.state = State::Answered(Box::pin(body));
                }
                State::Answered(body) => {
                    if !sink.wants_body() {
                        return Poll::Pending;
                    }
                    match ready!(body.as_mut().poll_frame(cx)) {
                        None => return Poll::Ready(Ok(())),
                        Some(Err(error)) => {
                            return Poll::Ready(Err(ExchangeFailure::interrupted(describe(error))));
                        }
                        Some(Ok(frame)) => {
                            let Ok(mut data) = frame.into_data() else { continue };
                            while data.has_remaining() {
                                let part = data.chunk();
                                let length = part.len();
                                sink.body(part);
                                data.advance(length);
                            }
                        }
                    }
                }
            }
        }
        // Other exchanges come first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Describes an error with its causes: that of an HTTP client alone says little.
fn describe(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Box<str> {
    let error = error.into();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = alloc::format!("{text}: {next}");
        cause = next.source();
    }
    // An HTTP client quotes the URL of a request in its errors, and the query may be a secret (SEC-019).
    Url::redacted_in(&text).into()
}

/// Steps of an exchange before other exchanges run.
const MAX_STEPS: usize = 16;
