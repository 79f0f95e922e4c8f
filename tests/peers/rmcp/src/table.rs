//! The steps of the interop table, as ../table.json has them, by a client

use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::*;
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RoleClient, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Given;

/// Longer than anything takes on a busy machine
const PATIENCE: Duration = Duration::from_secs(20);
const NEWS: Duration = Duration::from_secs(10);
/// In which a call that goes on would have shown
const QUIET: Duration = Duration::from_millis(150);
/// In which a server has to end by itself: this SDK kills it after three seconds
const END: Duration = Duration::from_millis(2_900);

/// What a step came to: done, or why it cannot be
type Outcome = Result<Option<String>, String>;

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn require(condition: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(why()) }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What was seen, and what to answer
#[derive(Clone)]
struct Seen {
    revision: String,
    root: Value,
    answer: Arc<Mutex<Value>>,
    logs: Arc<Mutex<usize>>,
    updated: Arc<Mutex<Vec<String>>>,
    progress: Arc<Mutex<Vec<f64>>>,
}

impl ClientHandler for Seen {
    fn get_info(&self) -> ClientConfig {
        let capabilities = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
        let mut config =
            ClientConfig::new(parse(&capabilities), Implementation::new("table-client", "3.8.0"));
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

struct Session {
    client: RunningService<RoleClient, Seen>,
    seen: Seen,
    profile: Value,
    modern: bool,
}

pub(crate) async fn perform(given: Given) {
    let profile = given.talk["profiles"][given.option("--profile").expect("--profile")].clone();
    let revision = given.option("--revision").expect("--revision").to_owned();
    let modern = given.option("--era") == Some("modern");
    let seen = Seen {
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
    let at = given.words.iter().position(|word| word == "--").expect("-- SERVER") + 1;
    let server = &given.words[at..];
    let connected = if server[0].starts_with("http://") {
        let transport = StreamableHttpClientTransport::from_uri(server[0].clone());
        seen.clone().serve_with_lifecycle(transport, mode).await.map_err(said)
    } else {
        let mut command = tokio::process::Command::new(&server[0]);
        command.args(&server[1..]);
        let transport = TokioChildProcess::new(command).expect("it starts");
        seen.clone().serve_with_lifecycle(transport, mode).await.map_err(said)
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            report("negotiate", Err(error));
            process::exit(1);
        }
    };
    let session = Session { client, seen, profile, modern };
    process::exit(if session.perform().await { 0 } else { 1 });
}

fn report(step: &str, outcome: Outcome) -> bool {
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

impl Session {
    async fn perform(mut self) -> bool {
        let mut good = report("negotiate", self.negotiated());
        good &= report("list", self.list().await);
        good &= report("progress", self.progress().await);
        good &= report("structured", self.structured().await);
        good &= report("error", self.error().await);
        good &= report("cancel", self.cancel().await);
        for (step, action) in [("accept", "accept"), ("decline", "decline"), ("dismiss", "cancel")] {
            good &= report(step, self.elicited(step, action).await);
        }
        good &= report("sampling", self.called("sampling").await.map(|_| None));
        good &= report("roots", self.called("roots").await.map(|_| None));
        good &= report("log", self.logged().await);
        good &= report("change", self.changed().await);
        good &= report("complete", self.completed().await);
        good &= report("ping", self.pinged().await);
        let begun = Instant::now();
        let ended = self.client.cancel().await;
        let in_time = require(begun.elapsed() < END, || "it had to be killed".to_owned());
        good & report("end", ended.map_err(said).and(in_time).map(|()| None))
    }

    fn negotiated(&self) -> Outcome {
        // Discovery offers one revision, and fails with another.
        if !self.modern {
            let version = json!(self.client.peer_info().map(|peer| peer.protocol_version.clone()));
            require(version == *self.seen.revision, || version.to_string())?;
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
        let called = tokio::time::timeout(PATIENCE, self.client.call_tool(self.params(step)));
        Ok(json!(called.await.map_err(said)?.map_err(said)?))
    }

    /// Calls what a step says, which has to succeed and to say what it says
    async fn called(&self, step: &str) -> Result<Value, String> {
        let result = self.result(step).await?;
        let wanted = self.profile[step]["text"].as_str().unwrap_or_default();
        let says = result["content"][0]["text"].as_str().is_some_and(|text| text.contains(wanted));
        require(says && result["isError"] != true, || format!("no {wanted} in {result}"))?;
        Ok(result)
    }

    async fn until(&self, done: impl Fn() -> bool, why: &str) -> Result<(), String> {
        let begun = Instant::now();
        while !done() {
            require(begun.elapsed() < NEWS, || why.to_owned())?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn list(&self) -> Outcome {
        let mut uris: Vec<String> = Vec::new();
        let mut cursor = None;
        let mut pages = 0;
        while pages == 0 || cursor.is_some() && pages < 100 {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.client.list_resources(Some(params)).await.map_err(said)?;
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

    async fn progress(&self) -> Outcome {
        let seen = || self.seen.progress.lock().expect("no panic").clone();
        self.called("progress").await?;
        self.until(|| !seen().is_empty(), "no progress").await?;
        let seen = seen();
        require(seen.is_sorted_by(|a, b| a < b), || format!("progress does not increase: {seen:?}"))?;
        Ok(None)
    }

    async fn structured(&self) -> Outcome {
        let result = self.called("structured").await?;
        if *self.seen.revision < *"2025-06-18" {
            return Ok(Some(format!("{} has no structured results", self.seen.revision)));
        }
        let wanted = self.profile["structured"]["has"].as_object().expect("an object");
        let fits = wanted.iter().all(|(name, value)| result["structuredContent"][name] == *value);
        require(fits, || result.to_string())?;
        Ok(None)
    }

    async fn error(&self) -> Outcome {
        let result = self.result("error").await?;
        let wanted = self.profile["error"]["text"].as_str().expect("a text");
        let says = result["content"][0]["text"].as_str().is_some_and(|text| text.contains(wanted));
        require(says && result["isError"] == true, || result.to_string())?;
        Ok(None)
    }

    async fn cancel(&self) -> Outcome {
        let count = || self.seen.progress.lock().expect("no panic").len();
        let before = count();
        let request = ClientRequest::CallToolRequest(Request::new(self.params("cancel")));
        let options = PeerRequestOptions::no_options();
        let call = self.client.send_cancellable_request(request, options).await.map_err(said)?;
        self.until(|| count() > before, "no progress").await?;
        call.cancel(Some("no longer needed".to_owned())).await.map_err(said)?;
        self.called("echo").await?;
        tokio::time::sleep(QUIET).await;
        let then = count();
        tokio::time::sleep(QUIET).await;
        require(count() == then, || "it goes on".to_owned())?;
        Ok(None)
    }

    async fn elicited(&self, step: &str, action: &str) -> Outcome {
        if *self.seen.revision < *"2025-06-18" {
            return Ok(Some(format!("{} has no elicitation", self.seen.revision)));
        }
        let mut answer = json!({"action": action});
        if let Some(content) = self.profile[step].get("content") {
            answer["content"] = content.clone();
        }
        *self.seen.answer.lock().expect("no panic") = answer;
        self.called(step).await.map(|_| None)
    }

    async fn logged(&self) -> Outcome {
        let level = &self.profile["log"]["level"];
        let mut params = self.params("log");
        match self.modern {
            true => params.meta = Some(parse(&json!({"io.modelcontextprotocol/logLevel": level}))),
            false => {
                self.client.set_level(SetLevelRequestParams::new(parse(level))).await.map_err(said)?;
            }
        }
        let count = || *self.seen.logs.lock().expect("no panic") as u64;
        *self.seen.logs.lock().expect("no panic") = 0;
        self.client.call_tool(params).await.map_err(said)?;
        let wanted = self.profile["log"]["count"].as_u64().expect("a number");
        self.until(|| count() >= wanted, "no logs").await?;
        require(count() == wanted, || format!("{} logs", count()))?;
        Ok(None)
    }

    async fn changed(&self) -> Outcome {
        let uri = self.profile["change"]["uri"].as_str().expect("a URI");
        if self.modern {
            let filter = parse(&json!({"resourceSubscriptions": [uri]}));
            let mut subscription = self.client.listen(filter).await.map_err(said)?;
            self.called("change").await?;
            let news = tokio::time::timeout(NEWS, subscription.next()).await.map_err(said)?;
            let news = json!(news.map_err(said)?);
            require(news["params"]["uri"] == uri, || news.to_string())?;
            subscription.cancel().await.map_err(said)?;
        } else {
            self.client.subscribe(SubscribeRequestParams::new(uri)).await.map_err(said)?;
            self.called("change").await?;
            let told = || self.seen.updated.lock().expect("no panic").iter().any(|told| told == uri);
            self.until(told, "not told of the change").await?;
            self.client.unsubscribe(UnsubscribeRequestParams::new(uri)).await.map_err(said)?;
        }
        Ok(None)
    }

    async fn completed(&self) -> Outcome {
        let given = &self.profile["complete"];
        let [prompt, argument, value] =
            ["prompt", "argument", "value"].map(|name| given[name].as_str().expect("a text"));
        let values = self.client.complete_prompt_simple(prompt, argument, value).await.map_err(said)?;
        require(json!(values) == given["values"], || format!("{values:?}"))?;
        Ok(None)
    }

    async fn pinged(&mut self) -> Outcome {
        if self.modern {
            // Not by `discover`, which has the answer at hand.
            let discover = ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}));
            self.client.send_request(discover).await.map_err(said)?;
        } else {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            self.client.send_request(ping).await.map_err(said)?;
        }
        Ok(None)
    }
}
