//! Clients of `mcp-tokio` over HTTP clients of the application, against a server in axum on real sockets.

use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use mcp_proto::model::{ElicitParams, ElicitResult, ElicitSchema, StringSchema, SubscriptionFilter, Tool};
use mcp_proto::{
    CallOptions, Capabilities, Capability, Change, Era, Progress, RawJson, RpcError, VersionSet, client,
};
use mcp_tokio::{AsyncClientHandler, Client, ClientHandler, Error, Options, async_handler};
use mcp_tower::{Cx, McpService, Router};
use mcp_tower_tests::client::{over_function, over_service};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(60);

/// The HTTP client under a client.
#[derive(Clone, Copy, Debug)]
enum Http {
    Service,
    Function,
}

const ALL: [(Http, Era); 4] = [
    (Http::Service, Era::Modern),
    (Http::Service, Era::Legacy),
    (Http::Function, Era::Modern),
    (Http::Function, Era::Legacy),
];

impl Http {
    async fn connect(self, options: Options, url: &str) -> Result<Client, Error> {
        match self {
            Self::Service => over_service(options, url).await,
            Self::Function => over_function(options, url).await,
        }
    }
}

fn options(era: Era) -> Options {
    let config = client::Config::new("test", "1")
        .versions(VersionSet::ALL.era(era))
        .capabilities(Capabilities::new().with(Capability::ElicitationForm));
    Client::options(config)
}

/// Counts the futures of handlers that exist.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Served {
    address: SocketAddr,
    /// Requests that ended sessions.
    deleted: Arc<AtomicUsize>,
    /// Handlers of `never` that exist.
    running: Arc<AtomicUsize>,
}

impl Served {
    async fn start() -> Self {
        let running = Arc::<AtomicUsize>::default();
        let service = McpService::new(router(&running)).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(service.run());
        let deleted = Arc::<AtomicUsize>::default();
        let count = deleted.clone();
        let watch = move |request: axum::extract::Request, next: axum::middleware::Next| {
            let is_end = request.method() == http::Method::DELETE;
            let count = count.clone();
            async move {
                let response = next.run(request).await;
                count.fetch_add((is_end && response.status().is_success()).into(), Ordering::SeqCst);
                response
            }
        };
        let app = axum::Router::new().route_service("/mcp", service);
        let app = app.layer(axum::middleware::from_fn(watch));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, deleted, running }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    async fn wait_for_running(&self, count: usize) {
        while self.running.load(Ordering::SeqCst) != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn router(running: &Arc<AtomicUsize>) -> Router {
    let mut router = Router::new("served", "1");
    let tool = |name| Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap());
    let running = Arc::clone(running);
    router
        .tool_with(tool("echo"), async |_: &mut Cx, arguments: Value| arguments.to_string())
        .tool_with(tool("count"), async |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            for n in 1..=3 {
                cx.progress(Progress::new(n.into()))?;
                cx.sleep(Duration::from_millis(5)).await?;
            }
            Ok("counted")
        })
        .tool_with(tool("ask"), async |cx: &mut Cx, _: Value| -> Result<String, RpcError> {
            let form = ElicitSchema::new([("name", StringSchema::new().into())]);
            let answer = cx.elicit("name", "For whom?", form)?;
            Ok(format!("{:?}", answer.content.unwrap_or_default().get("name")))
        })
        .tool_with(tool("change"), async |cx: &mut Cx, _: Value| {
            cx.publish(&Change::Tools);
            "changed"
        })
        .tool_with(tool("never"), async move |_: &mut Cx, _: Value| -> String {
            running.fetch_add(1, Ordering::SeqCst);
            let _counted = Counted(running.clone());
            pending().await
        });
    router
}

fn text<'a>(result: &'a mcp_proto::model::CallToolResult<'_>) -> &'a str {
    result.content[0].as_text().unwrap()
}

#[tokio::test]
async fn calls_work_in_both_eras() {
    let served = Served::start().await;
    for (http, era) in ALL {
        let client = http.connect(options(era), &served.url()).await.unwrap();
        assert_eq!(client.peer().era(), era, "{http:?}");
        assert_eq!(client.list_tools().await.unwrap().len(), 5);
        for long in ["short", &"long".repeat(500_000)] {
            let answer = client.call_tool("echo", &json!({ "text": long })).await.unwrap();
            assert_eq!(text(&answer), json!({ "text": long }).to_string());
        }
        let mut seen = Vec::new();
        let told = &mut |progress: &Progress| seen.push(progress.progress);
        client.call_tool_with("count", &json!({}), &CallOptions::new(), told).await.unwrap();
        // A report that waits is replaced by a later one.
        let is_sorted = seen.is_sorted_by(|one, next| one < next);
        assert!(is_sorted && seen.last() == Some(&3.0), "{http:?} {era:?}: {seen:?}");
        // The calls of all handles share what drives them.
        let calls = (0..20).map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("echo", &json!({ "n": n })).await.unwrap() })
        });
        for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(text(&call.await.unwrap()), json!({ "n": n }).to_string());
        }
        client.close().await.unwrap();
    }
}

/// Answers questions and reports changes.
struct User(mpsc::UnboundedSender<Change>);

impl AsyncClientHandler for User {
    async fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = json!({ "action": "accept", "content": { "name": "Ada" } });
        Ok(serde_json::from_value(content).unwrap())
    }

    fn notifications(&self) -> &dyn ClientHandler {
        self
    }
}

impl ClientHandler for User {
    fn changed(&self, change: &Change) {
        self.0.send(change.clone()).unwrap();
    }
}

#[tokio::test]
async fn questions_and_changes_arrive_in_both_eras() {
    let served = Served::start().await;
    for (http, era) in ALL {
        let (tell, mut changes) = mpsc::unbounded_channel();
        let options = options(era).handler(async_handler(User(tell)));
        let client = http.connect(options, &served.url()).await.unwrap();
        let driver = tokio::spawn(client.run());
        let answer = client.call_tool("ask", &json!({})).await.unwrap();
        assert!(text(&answer).contains("Ada"), "{http:?} {era:?}: {}", text(&answer));
        client.subscribe(&SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        client.call_tool("change", &json!({})).await.unwrap();
        let change = timeout(DEADLINE, changes.recv()).await.expect("a change");
        assert_eq!(change, Some(Change::Tools), "{http:?} {era:?}");
        client.close().await.unwrap();
        timeout(DEADLINE, driver).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn dropped_call_aborts_its_exchange() {
    let served = Served::start().await;
    for http in [Http::Service, Http::Function] {
        let client = http.connect(options(Era::Modern), &served.url()).await.unwrap();
        {
            let none = json!({});
            let mut call = pin!(client.call_tool("never", &none));
            tokio::select! {
                outcome = &mut call => panic!("{outcome:?}"),
                () = served.wait_for_running(1) => {}
            }
        }
        // The next call of any handle sends what the dropped future left.
        client.call_tool("echo", &json!({})).await.unwrap();
        timeout(DEADLINE, served.wait_for_running(0)).await.unwrap();
        client.close().await.unwrap();
    }
}

#[tokio::test]
async fn close_ends_the_session() {
    let served = Served::start().await;
    for (ended, http) in [Http::Service, Http::Function].into_iter().enumerate() {
        let client = http.connect(options(Era::Legacy), &served.url()).await.unwrap();
        assert_eq!(served.deleted.load(Ordering::SeqCst), ended);
        client.close().await.unwrap();
        assert_eq!(served.deleted.load(Ordering::SeqCst), ended + 1, "{http:?}");
    }
}

#[tokio::test]
async fn client_dropped_without_close_leaves_nothing_that_waits() {
    let served = Served::start().await;
    for (http, era) in ALL {
        let client = http.connect(options(era), &served.url()).await.unwrap();
        let none = json!({});
        let mut call = Box::pin(client.call_tool("never", &none));
        assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
        drop(call);
        drop(client);
    }
    let client = Http::Service.connect(options(Era::Modern), &served.url()).await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn server_that_is_not_there_is_an_error_that_says_why() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    for (http, era) in ALL {
        let error = http.connect(options(era), &url).await.unwrap_err();
        assert!(error.is_closed() && error.to_string().contains("refused"), "{http:?} {era:?}: {error}");
    }
    let error = Http::Service.connect(options(Era::Modern), "ftp://nowhere").await.unwrap_err();
    assert!(matches!(error, Error::Url { .. }), "{error}");
}
