//! The client: performs the steps of `talk.json`, answers input requests as they say, and reports what it saw.

use std::process;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{
    NotificationContext, RequestContext, RoleClient, RunningService, ServiceError, SubscriptionEnd,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::PeerArgs;

/// Limit above the duration of any step on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The handler, with the current step and its notes.
#[derive(Clone)]
struct ScriptedClient {
    has_no_capabilities: bool,
    revision: Option<String>,
    step: Arc<Mutex<Value>>,
    notes: Arc<Mutex<Value>>,
}

fn report(line: &Value) {
    println!("{line}");
}

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

impl ScriptedClient {
    fn begin(&self, step: &Value) {
        *self.step.lock().expect("no panic") = step.clone();
        *self.notes.lock().expect("no panic") =
            json!({"asked": [], "aborted": 0, "logs": [], "news": [], "completed": []});
    }

    fn push(&self, what: &str, value: Value) {
        let mut notes = self.notes.lock().expect("no panic");
        notes[what].as_array_mut().expect("a list").push(value);
    }

    fn record_notification(&self, notification: &ServerNotification) {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => self.push("news", json!("tools")),
            ServerNotification::ResourceListChangedNotification(_) => self.push("news", json!("resources")),
            ServerNotification::PromptListChangedNotification(_) => self.push("news", json!("prompts")),
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.push("news", json!(updated.params.uri));
            }
            _ => {}
        }
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        name: &str,
        method: &str,
        params: Option<Value>,
        cx: &RequestContext<RoleClient>,
    ) -> Result<T, ErrorData> {
        let mut asked = json!({"name": name, "method": method});
        if let Some(params) = params {
            asked["params"] = params;
        }
        self.push("asked", asked);
        let number = self.notes.lock().expect("no panic")["asked"].as_array().map_or(0, Vec::len);
        let given = self.step.lock().expect("no panic")["answers"][name].clone();
        let answer = if given.is_array() { given[number - 1].clone() } else { given };
        match answer.as_str() {
            Some("error") => return Err(ErrorData::new(ErrorCode(-1), "not today", None)),
            Some("vanish") => process::abort(),
            Some(_) => {
                cx.ct.cancelled().await;
                let mut notes = self.notes.lock().expect("no panic");
                notes["aborted"] = json!(notes["aborted"].as_u64().unwrap_or(0) + 1);
                return Err(ErrorData::new(ErrorCode(-1), "too late", None));
            }
            None if answer.is_null() => {
                return Err(ErrorData::internal_error(format!("not expected: {name}"), None));
            }
            None => {}
        }
        Ok(parse(&answer))
    }
}

impl ClientHandler for ScriptedClient {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.has_no_capabilities {
            true => json!({}),
            false => json!({
                "elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": true},
            }),
        };
        let mut config =
            ClientConfig::new(parse(&capabilities), Implementation::new("talk-client", "3.11.0"));
        if let Some(revision) = &self.revision {
            config.protocol_version = parse(&json!(revision));
        }
        config
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        cx: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = json!(request);
        let name = params["message"].as_str().unwrap_or_default().to_owned();
        self.answer(&name, "elicitation/create", Some(params), &cx).await
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        cx: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let params = json!(params);
        let name = params["systemPrompt"].as_str().unwrap_or_default().to_owned();
        self.answer(&name, "sampling/createMessage", Some(params), &cx).await
    }

    async fn list_roots(&self, cx: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.answer("roots", "roots/list", None, &cx).await
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let mut line = json!(params);
        line.as_object_mut().expect("an object").remove("_meta");
        self.push("logs", line);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.push("news", json!(params.uri));
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.push("news", json!("resources"));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.push("news", json!("tools"));
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.push("news", json!("prompts"));
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
        let notification = json!(notification);
        if notification["method"] == "notifications/elicitation/complete" {
            self.push("completed", notification["params"]["elicitationId"].clone());
        }
    }
}

struct ScriptRun {
    client: RunningService<RoleClient, ScriptedClient>,
    is_modern: bool,
    handler: ScriptedClient,
    /// Task that follows a subscription until it ends.
    follower: Option<JoinHandle<()>>,
}

pub(crate) async fn run(given: PeerArgs) {
    let modern = given.option("--era") == Some("modern");
    let url = given.option("--").expect("URL").to_owned();
    let seen = ScriptedClient {
        has_no_capabilities: given.option("--part") == Some("poor"),
        revision: given.option("--revision").map(str::to_owned),
        step: Arc::default(),
        notes: Arc::default(),
    };
    let mode = match modern {
        true => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        false => ClientLifecycleMode::Initialize,
    };
    let transport = StreamableHttpClientTransport::from_uri(url);
    let client = seen.clone().serve_with_lifecycle(transport, mode).await.expect("a connection");
    let version = match modern {
        true => json!(ProtocolVersion::V_2026_07_28),
        false => json!(client.peer_info().expect("a server").protocol_version),
    };
    report(
        &json!({"step": "negotiate", "era": if modern { "modern" } else { "legacy" }, "version": version}),
    );
    let mut session = ScriptRun { client, is_modern: modern, handler: seen, follower: None };
    for step in given.steps() {
        let mut came = session.perform(&step).await;
        came["step"] = step["step"].clone();
        report(&came);
    }
    let _ = session.client.cancel().await;
    report(&json!({"step": "end"}));
}

impl ScriptRun {
    async fn perform(&mut self, step: &Value) -> Value {
        self.handler.begin(step);
        if let Some(wanted) = step.get("subscribe") {
            return self.subscribe(wanted).await;
        }
        if step.get("unsubscribe").is_some() {
            match self.follower.take() {
                Some(follower) => follower.abort(),
                None => {
                    let uri = UnsubscribeRequestParams::new("note://one");
                    self.client.unsubscribe(uri).await.expect("unsubscribed");
                }
            }
            return json!({});
        }
        if step.get("roots-changed").is_some() {
            if self.is_modern {
                return json!({"cannot": true});
            }
            self.client.notify_roots_list_changed().await.expect("sent");
            return json!({});
        }
        let mut came = self.outcome(step).await;
        let era = if self.is_modern { "modern" } else { "legacy" };
        let wanted = |name: &str| match step[name].get(era).unwrap_or(&step[name]) {
            Value::Array(all) => all.len() as u64,
            count => count.as_u64().unwrap_or(0),
        };
        let completed = if self.is_modern { 0 } else { wanted("completed") };
        let missing = || {
            let notes = self.handler.notes.lock().expect("no panic");
            let few = |name: &str, count: u64| (notes[name].as_array().map_or(0, Vec::len) as u64) < count;
            few("logs", wanted("logs"))
                || few("news", wanted("news"))
                || few("completed", completed)
                || notes["aborted"].as_u64() < step["aborted"].as_u64()
                || (step.get("ended").is_some() && notes.get("ended").is_none())
        };
        let begun = tokio::time::Instant::now();
        while missing() && begun.elapsed() < CHANGE_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let notes = self.handler.notes.lock().expect("no panic").clone();
        came.as_object_mut().expect("an object").extend(notes.as_object().expect("an object").clone());
        came
    }

    async fn subscribe(&mut self, wanted: &Value) -> Value {
        if !self.is_modern {
            for uri in wanted["resourceSubscriptions"].as_array().expect("resources") {
                let uri = SubscribeRequestParams::new(uri.as_str().expect("a URI"));
                self.client.subscribe(uri).await.expect("subscribed");
            }
            return json!({});
        }
        let mut subscription = self.client.listen(parse(wanted)).await.expect("a subscription");
        let honoured = json!(subscription.acknowledged());
        let seen = self.handler.clone();
        self.follower = Some(tokio::spawn(async move {
            while let Ok(Some(news)) = subscription.next().await {
                seen.record_notification(&news);
            }
            let graceful = matches!(subscription.end(), Some(SubscriptionEnd::Graceful(_)));
            seen.notes.lock().expect("no panic")["ended"] =
                json!(if graceful { "graceful" } else { "remote" });
        }));
        json!({"honoured": honoured})
    }

    async fn outcome(&mut self, step: &Value) -> Value {
        let mut meta = None;
        if let Some(level) = step.get("level") {
            match self.is_modern {
                true => meta = Some(parse(&json!({"io.modelcontextprotocol/logLevel": level}))),
                false => {
                    let level = SetLevelRequestParams::new(parse(level));
                    self.client.set_level(level).await.expect("a level");
                }
            }
        }
        let patience = step["timeout"].as_u64().map_or(TIMEOUT, Duration::from_millis);
        let Ok(result) = tokio::time::timeout(patience, self.ask(step, meta)).await else {
            return json!({"gave-up": "time is up"});
        };
        match result {
            Ok(result) => {
                let text = result["content"][0]["text"]
                    .as_str()
                    .or(result["messages"][0]["content"]["text"].as_str())
                    .or(result["contents"][0]["text"].as_str())
                    .expect("a text");
                match result["isError"] == true {
                    true => json!({"failed": text}),
                    false => json!({"result": serde_json::from_str::<Value>(text).expect("JSON")}),
                }
            }
            Err(ServiceError::McpError(error)) => json!({"error": error}),
            Err(other) => json!({"error": {"code": null, "message": other.to_string()}}),
        }
    }

    async fn ask(&self, step: &Value, meta: Option<RequestMetaObject>) -> Result<Value, ServiceError> {
        Ok(if let Some(name) = step["prompt"].as_str() {
            json!(self.client.get_prompt(GetPromptRequestParams::new(name)).await?)
        } else if let Some(uri) = step["read"].as_str() {
            json!(self.client.read_resource(ReadResourceRequestParams::new(uri)).await?)
        } else {
            let mut params = CallToolRequestParams::new(step["tool"].as_str().expect("a tool").to_owned());
            params.arguments = step["arguments"].as_object().cloned();
            params.meta = meta;
            json!(self.client.call_tool(params).await?)
        })
    }
}
