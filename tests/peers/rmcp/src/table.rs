//! The steps of the interop table (`../table.json`), performed by a client.

use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::*;
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RoleClient, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::PeerArgs;

/// Limit above the duration of any step on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a call that continues would report progress.
const QUIET_PERIOD: Duration = Duration::from_millis(150);
/// Time in which a server has to exit by itself: this SDK kills it after three seconds.
const STOP_TIMEOUT: Duration = Duration::from_millis(2_900);

/// Outcome of a step: success, or the reason why it is unsupported.
type StepResult = Result<Option<String>, String>;

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn require(condition: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(why()) }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The handler, with its notes and the answer to give.
#[derive(Clone)]
struct TableClient {
    revision: String,
    root: Value,
    answer: Arc<Mutex<Value>>,
    logs: Arc<Mutex<usize>>,
    updated: Arc<Mutex<Vec<String>>>,
    progress: Arc<Mutex<Vec<f64>>>,
}

impl ClientHandler for TableClient {
    fn get_info(&self) -> ClientConfig {
        let capabilities = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
        let mut config =
            ClientConfig::new(parse(&capabilities), Implementation::new("table-client", "3.11.0"));
        config.protocol_version = parse(&json!(self.revision));
        config
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(parse(&self.answer.lock().expect("no panic")))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let content = json!({"type": "text", "text": "Good day"});
        Ok(parse(&json!({"role": "assistant", "model": "muse", "content": content})))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(parse(&json!({"roots": [{"uri": self.root, "name": "table"}]})))
    }

    async fn on_logging_message(
        &self,
        _: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        *self.logs.lock().expect("no panic") += 1;
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().expect("no panic").push(params.progress);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.updated.lock().expect("no panic").push(params.uri);
    }
}

struct TableSession {
    client: RunningService<RoleClient, TableClient>,
    handler: TableClient,
    profile: Value,
    is_modern: bool,
}

pub(crate) async fn perform(given: PeerArgs) {
    let profile = given.script["profiles"][given.option("--profile").expect("--profile")].clone();
    let revision = given.option("--revision").expect("--revision").to_owned();
    let modern = given.option("--era") == Some("modern");
    let seen = TableClient {
        revision: revision.clone(),
        root: profile["root"].clone(),
        answer: Arc::default(),
        logs: Arc::default(),
        updated: Arc::default(),
        progress: Arc::default(),
    };
    let mode = match modern {
        true => ClientLifecycleMode::Discover { preferred_versions: vec![parse(&json!(revision))] },
        false => ClientLifecycleMode::Initialize,
    };
    let at = given.args.iter().position(|word| word == "--").expect("-- SERVER") + 1;
    let server = &given.args[at..];
    let connected = if server[0].starts_with("http://") {
        let transport = StreamableHttpClientTransport::from_uri(server[0].clone());
        seen.clone().serve_with_lifecycle(transport, mode).await.map_err(error_text)
    } else {
        let mut command = tokio::process::Command::new(&server[0]);
        command.args(&server[1..]);
        let transport = TokioChildProcess::new(command).expect("it starts");
        seen.clone().serve_with_lifecycle(transport, mode).await.map_err(error_text)
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            report("negotiate", Err(error));
            process::exit(1);
        }
    };
    let session = TableSession { client, handler: seen, profile, is_modern: modern };
    process::exit(if session.perform().await { 0 } else { 1 });
}

fn report(step: &str, outcome: StepResult) -> bool {
    let succeeded = outcome.is_ok();
    println!(
        "{}",
        match outcome {
            Ok(None) => json!({"step": step, "ok": true}),
            Ok(Some(why)) => json!({"step": step, "ok": "peer-cannot", "why": why}),
            Err(error) => json!({"step": step, "ok": false, "error": error}),
        }
    );
    succeeded
}

impl TableSession {
    async fn perform(mut self) -> bool {
        let mut good = report("negotiate", self.check_negotiated());
        good &= report("list", self.check_list().await);
        good &= report("progress", self.check_progress().await);
        good &= report("structured", self.check_structured().await);
        good &= report("error", self.check_error().await);
        good &= report("cancel", self.check_cancel().await);
        for (step, action) in [("accept", "accept"), ("decline", "decline"), ("dismiss", "cancel")] {
            good &= report(step, self.check_elicitation(step, action).await);
        }
        good &= report("sampling", self.call_tool("sampling").await.map(|_| None));
        good &= report("roots", self.call_tool("roots").await.map(|_| None));
        good &= report("log", self.check_logging().await);
        good &= report("change", self.check_change().await);
        good &= report("complete", self.check_completion().await);
        good &= report("ping", self.check_ping().await);
        let begun = Instant::now();
        let ended = self.client.cancel().await;
        let in_time = require(begun.elapsed() < STOP_TIMEOUT, || "it had to be killed".to_owned());
        good & report("end", ended.map_err(error_text).and(in_time).map(|()| None))
    }

    fn check_negotiated(&self) -> StepResult {
        // Discovery offers one revision and fails with another.
        if !self.is_modern {
            let version = json!(self.client.peer_info().map(|peer| peer.protocol_version.clone()));
            require(version == *self.handler.revision, || version.to_string())?;
        }
        Ok(None)
    }

    fn params(&self, step: &str) -> CallToolRequestParams {
        let given = &self.profile[step];
        let mut params = CallToolRequestParams::new(given["tool"].as_str().expect("a tool").to_owned());
        params.arguments = given["arguments"].as_object().cloned();
        params
    }

    async fn result(&self, step: &str) -> Result<Value, String> {
        let called = tokio::time::timeout(TIMEOUT, self.client.call_tool(self.params(step)));
        Ok(json!(called.await.map_err(error_text)?.map_err(error_text)?))
    }

    /// Calls the tool of a step and checks the text of its result.
    async fn call_tool(&self, step: &str) -> Result<Value, String> {
        let result = self.result(step).await?;
        let wanted = self.profile[step]["text"].as_str().unwrap_or_default();
        let says = result["content"][0]["text"].as_str().is_some_and(|text| text.contains(wanted));
        require(says && result["isError"] != true, || format!("no {wanted} in {result}"))?;
        Ok(result)
    }

    async fn wait_until(&self, done: impl Fn() -> bool, why: &str) -> Result<(), String> {
        let begun = Instant::now();
        while !done() {
            require(begun.elapsed() < CHANGE_TIMEOUT, || why.to_owned())?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn check_list(&self) -> StepResult {
        let mut uris: Vec<String> = Vec::new();
        let mut cursor = None;
        let mut pages = 0;
        while pages == 0 || cursor.is_some() && pages < 100 {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.client.list_resources(Some(params)).await.map_err(error_text)?;
            uris.extend(page.resources.iter().map(|resource| resource.uri.clone()));
            cursor = page.next_cursor.clone();
            pages += 1;
        }
        require(pages > 1, || "one page".to_owned())?;
        let has = self.profile["list"]["has"].as_str().expect("a URI");
        require(uris.iter().any(|uri| uri == has), || format!("no {has} in {uris:?}"))?;
        let count = uris.len();
        uris.sort_unstable();
        uris.dedup();
        require(uris.len() == count, || format!("some stand twice: {uris:?}"))?;
        Ok(None)
    }

    async fn check_progress(&self) -> StepResult {
        let seen = || self.handler.progress.lock().expect("no panic").clone();
        self.call_tool("progress").await?;
        self.wait_until(|| !seen().is_empty(), "no progress").await?;
        let seen = seen();
        require(seen.is_sorted_by(|a, b| a < b), || format!("progress does not increase: {seen:?}"))?;
        Ok(None)
    }

    async fn check_structured(&self) -> StepResult {
        let result = self.call_tool("structured").await?;
        if *self.handler.revision < *"2025-06-18" {
            return Ok(Some(format!("{} has no structured results", self.handler.revision)));
        }
        let wanted = self.profile["structured"]["has"].as_object().expect("an object");
        let fits = wanted.iter().all(|(name, value)| result["structuredContent"][name] == *value);
        require(fits, || result.to_string())?;
        Ok(None)
    }

    async fn check_error(&self) -> StepResult {
        let result = self.result("error").await?;
        let wanted = self.profile["error"]["text"].as_str().expect("a text");
        let says = result["content"][0]["text"].as_str().is_some_and(|text| text.contains(wanted));
        require(says && result["isError"] == true, || result.to_string())?;
        Ok(None)
    }

    async fn check_cancel(&self) -> StepResult {
        let count = || self.handler.progress.lock().expect("no panic").len();
        let before = count();
        let request = ClientRequest::CallToolRequest(Request::new(self.params("cancel")));
        let options = PeerRequestOptions::no_options();
        let call = self.client.send_cancellable_request(request, options).await.map_err(error_text)?;
        self.wait_until(|| count() > before, "no progress").await?;
        call.cancel(Some("no longer needed".to_owned())).await.map_err(error_text)?;
        self.call_tool("echo").await?;
        tokio::time::sleep(QUIET_PERIOD).await;
        let then = count();
        tokio::time::sleep(QUIET_PERIOD).await;
        require(count() == then, || "it goes on".to_owned())?;
        Ok(None)
    }

    async fn check_elicitation(&self, step: &str, action: &str) -> StepResult {
        if *self.handler.revision < *"2025-06-18" {
            return Ok(Some(format!("{} has no elicitation", self.handler.revision)));
        }
        let mut answer = json!({"action": action});
        if let Some(content) = self.profile[step].get("content") {
            answer["content"] = content.clone();
        }
        *self.handler.answer.lock().expect("no panic") = answer;
        self.call_tool(step).await.map(|_| None)
    }

    async fn check_logging(&self) -> StepResult {
        let level = &self.profile["log"]["level"];
        let mut params = self.params("log");
        match self.is_modern {
            true => params.meta = Some(parse(&json!({"io.modelcontextprotocol/logLevel": level}))),
            false => {
                self.client.set_level(SetLevelRequestParams::new(parse(level))).await.map_err(error_text)?;
            }
        }
        let count = || *self.handler.logs.lock().expect("no panic") as u64;
        *self.handler.logs.lock().expect("no panic") = 0;
        self.client.call_tool(params).await.map_err(error_text)?;
        let wanted = self.profile["log"]["count"].as_u64().expect("a number");
        self.wait_until(|| count() >= wanted, "no logs").await?;
        require(count() == wanted, || format!("{} logs", count()))?;
        Ok(None)
    }

    async fn check_change(&self) -> StepResult {
        let uri = self.profile["change"]["uri"].as_str().expect("a URI");
        if self.is_modern {
            let filter = parse(&json!({"resourceSubscriptions": [uri]}));
            let mut subscription = self.client.listen(filter).await.map_err(error_text)?;
            self.call_tool("change").await?;
            let news = tokio::time::timeout(CHANGE_TIMEOUT, subscription.next()).await.map_err(error_text)?;
            let news = json!(news.map_err(error_text)?);
            require(news["params"]["uri"] == uri, || news.to_string())?;
            subscription.cancel().await.map_err(error_text)?;
        } else {
            self.client.subscribe(SubscribeRequestParams::new(uri)).await.map_err(error_text)?;
            self.call_tool("change").await?;
            let told = || self.handler.updated.lock().expect("no panic").iter().any(|told| told == uri);
            self.wait_until(told, "not told of the change").await?;
            self.client.unsubscribe(UnsubscribeRequestParams::new(uri)).await.map_err(error_text)?;
        }
        Ok(None)
    }

    async fn check_completion(&self) -> StepResult {
        let given = &self.profile["complete"];
        let [prompt, argument, value] =
            ["prompt", "argument", "value"].map(|name| given[name].as_str().expect("a text"));
        let values = self.client.complete_prompt_simple(prompt, argument, value).await.map_err(error_text)?;
        require(json!(values) == given["values"], || format!("{values:?}"))?;
        Ok(None)
    }

    async fn check_ping(&mut self) -> StepResult {
        if self.is_modern {
            // Not by `discover`, which returns a stored result.
            let discover = ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}));
            self.client.send_request(discover).await.map_err(error_text)?;
        } else {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            self.client.send_request(ping).await.map_err(error_text)?;
        }
        Ok(None)
    }
}
