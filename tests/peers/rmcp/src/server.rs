//! The server: each tool sends the input requests that `talk.json` lists and returns the answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{NotificationContext, SubscriptionSink};
use rmcp::service::{PeerRequestOptions, RequestContext, RoleServer, ServiceError, SubscriptionContext};
use rmcp::transport::io::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::{PeerArgs, record_event};

/// State shared by all sessions.
struct SharedState {
    args: PeerArgs,
    /// Whether the user visited the page of 2025-11-25, which the tool `gate` requires.
    was_visited: Mutex<bool>,
    /// Number of acknowledged subscriptions. It grows a moment before their sinks are registered.
    acknowledged_count: AtomicUsize,
    sinks: Mutex<Vec<SubscriptionSink>>,
    /// Number of times that all subscriptions were ended.
    end_signals: watch::Sender<u32>,
}

/// One session, or one modern request.
struct ScriptedServer {
    shared: Arc<SharedState>,
    level: Mutex<LoggingLevel>,
    subscribed: Mutex<Vec<String>>,
}

pub(crate) async fn serve(given: PeerArgs) {
    let port = given.option("--http").map(str::to_owned);
    let shared = SharedState {
        args: given,
        was_visited: false.into(),
        acknowledged_count: 0.into(),
        sinks: Mutex::default(),
        end_signals: watch::Sender::new(0),
    };
    let shared = Arc::new(shared);
    match port {
        Some(port) => serve_http(&shared, &port).await,
        None => {
            let served = ScriptedServer::new(&shared).serve(stdio()).await.expect("a client");
            served.waiting().await.expect("no panic");
        }
    }
    record_event(shared.args.option("--log"), &json!({"event": "end", "ok": true}));
}

async fn serve_http(shared: &Arc<SharedState>, port: &str) {
    let make = Arc::clone(shared);
    let service = StreamableHttpService::new(
        move || Ok(ScriptedServer::new(&make)),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("a port");
    eprintln!("listening on http://{}/mcp", listener.local_addr().expect("an address"));
    let mut told =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("signals");
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served.expect("to serve"),
        _ = told.recv() => {}
    }
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn internal_error(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// The answers, or the next input requests.
enum InputProgress {
    Complete(Value),
    InputRequired(InputRequiredResult),
}

impl ScriptedServer {
    fn new(shared: &Arc<SharedState>) -> Self {
        Self { shared: Arc::clone(shared), level: LoggingLevel::Debug.into(), subscribed: Mutex::default() }
    }

    fn record(&self, event: Value) {
        record_event(self.shared.args.option("--log"), &event);
    }

    fn input_request(&self, key: &str) -> Value {
        // With an elicitation id in the modern era too, which has none: the types of this SDK require it.
        self.shared.args.script["questions"][key].clone()
    }

    async fn collect_inputs(
        &self,
        rounds: &Value,
        responses: Option<InputResponses>,
        state: Option<String>,
        cx: &RequestContext<RoleServer>,
    ) -> Result<InputProgress, ErrorData> {
        let rounds: Vec<Vec<String>> = parse(rounds.clone());
        if is_modern(cx) {
            return Ok(self.collect_inputs_modern(&rounds, responses, state));
        }
        let said = tokio::select! {
            said = self.collect_inputs_legacy(&rounds, cx) => said?,
            () = cx.ct.cancelled() => {
                self.record(json!({"event": "aborted"}));
                return Err(internal_error("given up"));
            }
        };
        if said["said"]["page"]["action"] == "accept" {
            announce_visit(cx).await?;
        }
        Ok(InputProgress::Complete(said))
    }

    /// Collects the answers by server requests, all requests of a round at once.
    async fn collect_inputs_legacy(
        &self,
        rounds: &[Vec<String>],
        cx: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let patience = self.shared.args.option("--time-out").map_or(60_000, |ms| ms.parse().expect("ms"));
        let mut said = Map::new();
        for round in rounds {
            let mut open = Vec::new();
            for key in round {
                let options = PeerRequestOptions::with_timeout(Duration::from_millis(patience));
                let question = parse(self.input_request(key));
                open.push((
                    key,
                    cx.peer.send_request_with_option(question, options).await.map_err(internal_error)?,
                ));
            }
            for (key, question) in open {
                match question.await_response().await {
                    Ok(answer) => {
                        _ = said.insert(key.clone(), serde_json::to_value(answer).map_err(internal_error)?)
                    }
                    Err(ServiceError::Timeout { .. }) => {
                        self.record(json!({"event": "gave-up"}));
                        return Ok(json!({"timed-out": true}));
                    }
                    Err(ServiceError::McpError(error)) => {
                        self.record(json!({"event": "refused", "code": error.code}));
                        return Ok(json!({"refused": error}));
                    }
                    Err(other) => return Err(internal_error(other)),
                }
            }
        }
        Ok(json!({"said": said, "rounds": rounds.len()}))
    }

    /// Collects the answers by retries: the missing ones are requested.
    fn collect_inputs_modern(
        &self,
        rounds: &[Vec<String>],
        responses: Option<InputResponses>,
        state: Option<String>,
    ) -> InputProgress {
        let kept = state.as_deref().unwrap_or(r#"{"said":{},"rounds":0}"#);
        let mut kept: Value = serde_json::from_str(kept).expect("our own state");
        for (key, answer) in responses.into_iter().flatten() {
            kept["said"][key] = answer;
        }
        for round in rounds {
            if round.iter().all(|key| kept["said"].get(key).is_some()) {
                continue;
            }
            kept["rounds"] = json!(kept["rounds"].as_u64().unwrap_or(0) + 1);
            let needed = round.iter().map(|key| (key.clone(), parse(self.input_request(key)))).collect();
            return InputProgress::InputRequired(InputRequiredResult::new(
                Some(needed),
                Some(kept.to_string()),
            ));
        }
        InputProgress::Complete(kept)
    }

    async fn change(&self, what: &str, cx: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        match what {
            "end" => self.shared.end_signals.send_modify(|ends| *ends += 1),
            "visited" => {
                *self.shared.was_visited.lock().expect("no panic") = true;
                announce_visit(cx).await?;
            }
            _ if is_modern(cx) => {
                let sinks = || self.shared.sinks.lock().expect("no panic").clone();
                while sinks().len() < self.shared.acknowledged_count.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                for sink in sinks() {
                    // Sinks of clients that did not subscribe to it, or that are gone, return an error.
                    let _ = match what {
                        "tools" => sink.notify_tool_list_changed().await,
                        "resources" => sink.notify_resource_list_changed().await,
                        "prompts" => sink.notify_prompt_list_changed().await,
                        uri => sink.notify_resource_updated(uri).await,
                    };
                }
            }
            "tools" => cx.peer.notify_tool_list_changed().await.map_err(internal_error)?,
            "resources" => cx.peer.notify_resource_list_changed().await.map_err(internal_error)?,
            "prompts" => cx.peer.notify_prompt_list_changed().await.map_err(internal_error)?,
            uri => {
                if self.subscribed.lock().expect("no panic").iter().any(|other| other == uri) {
                    let param = ResourceUpdatedNotificationParam::new(uri);
                    cx.peer.notify_resource_updated(param).await.map_err(internal_error)?;
                }
            }
        }
        Ok(())
    }

    /// Counts slowly, with progress.
    async fn count(
        &self,
        arguments: &Value,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let [to, delay] = ["to", "delay_ms"].map(|name| arguments[name].as_u64().unwrap_or_default());
        for step in 1..=to {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(delay)) => {}
                () = cx.ct.cancelled() => {
                    self.record(json!({"event": "aborted", "tool": "count"}));
                    return Err(internal_error("given up"));
                }
            }
            if let Some(token) = cx.meta.get_progress_token() {
                let param = ProgressNotificationParam::new(token, step as f64).with_total(to as f64);
                cx.peer.notify_progress(param).await.map_err(internal_error)?;
            }
        }
        Ok(text(&json!(to)))
    }

    /// Sends the log lines at or above the level: that of the session (legacy), or that of the call (modern). The SDK does
    /// not filter them.
    async fn log(
        &self,
        meta: Option<&RequestMetaObject>,
        cx: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let meta = serde_json::to_value(meta).map_err(internal_error)?;
        let rank = |level: &Value| {
            let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
            levels.iter().position(|name| level == name)
        };
        let least = match is_modern(cx) {
            false => json!(*self.level.lock().expect("no panic")),
            true => meta["io.modelcontextprotocol/logLevel"].clone(),
        };
        for line in self.shared.args.script["logs"].as_array().expect("logs") {
            if rank(&least).is_some_and(|least| rank(&line["level"]) >= Some(least)) {
                cx.peer.notify_logging_message(parse(line.clone())).await.map_err(internal_error)?;
            }
        }
        Ok(())
    }
}

fn is_modern(cx: &RequestContext<RoleServer>) -> bool {
    cx.protocol_version() == Some(ProtocolVersion::V_2026_07_28)
}

/// Sends the notification, for which this SDK has no type.
async fn announce_visit(cx: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    let visited =
        json!({"method": "notifications/elicitation/complete", "params": {"elicitationId": "page-1"}});
    cx.peer
        .send_notification(ServerNotification::CustomNotification(parse(visited)))
        .await
        .map_err(internal_error)
}

fn text(value: &Value) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(value.to_string())])
}

impl ServerHandler for ScriptedServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {}, "completions": {},
            "resources": {"listChanged": true, "subscribe": true},
        });
        ServerConfig::new(parse(capabilities)).with_server_info(Implementation::new("talk-server", "3.11.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let asking = self.shared.args.script["tools"].as_object().expect("tools").keys().map(String::as_str);
        let mut tools: Vec<_> = asking
            .chain(["gate", "log", "change", "count", "fail"])
            .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
            .collect();
        let sum = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
        tools.push(json!({"name": "add", "inputSchema": {"type": "object"}, "outputSchema": sum}));
        Ok(parse(json!({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let talk = &self.shared.args.script;
        let notes = talk["notes"].as_array().expect("notes").iter().filter_map(Value::as_str);
        let all: Vec<_> = notes
            .chain(talk["resources"].as_object().expect("resources").keys().map(String::as_str))
            .map(|uri| json!({"uri": uri, "name": uri}))
            .collect();
        // A page of two entries, so that there are several pages.
        let from = request.and_then(|params| params.cursor).map_or(0, |cursor| cursor.parse().expect("ours"));
        let page: Vec<_> = all.iter().skip(from).take(2).collect();
        let mut list =
            json!({"resources": page, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
        if from + 2 < all.len() {
            list["nextCursor"] = (from + 2).to_string().into();
        }
        Ok(parse(list))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let colours = ["green", "grey", "red"].into_iter();
        let values: Vec<_> = colours.filter(|colour| colour.starts_with(&request.argument.value)).collect();
        Ok(CompleteResult::new(parse(json!({"values": values, "total": values.len(), "hasMore": false}))))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.record(json!({"event": "call", "tool": request.name}));
        let talk = &self.shared.args.script;
        match &*request.name {
            "add" => {
                let arguments = Value::Object(request.arguments.unwrap_or_default());
                let [a, b] = ["a", "b"].map(|name| arguments[name].as_f64().unwrap_or_default());
                return Ok(CallToolResult::structured(json!({"sum": a + b})).into());
            }
            "fail" => {
                return Ok(CallToolResult::error(vec![ContentBlock::text("this tool always fails")]).into());
            }
            "count" => {
                let arguments = Value::Object(request.arguments.unwrap_or_default());
                return self.count(&arguments, &cx).await.map(Into::into);
            }
            "log" => self.log(request.meta.as_ref().or(Some(&cx.meta)), &cx).await?,
            "change" => {
                let arguments = Value::Object(request.arguments.unwrap_or_default());
                self.change(arguments["what"].as_str().unwrap_or_default(), &cx).await?;
            }
            "gate" => {
                if !*self.shared.was_visited.lock().expect("no panic") {
                    let pages = json!({"elicitations": [talk["questions"]["page"]["params"]]});
                    return Err(ErrorData::new(ErrorCode(-32042), "URL elicitation required", Some(pages)));
                }
            }
            name => {
                let asked = self.collect_inputs(
                    &talk["tools"][name],
                    request.input_responses,
                    request.request_state,
                    &cx,
                );
                return Ok(match asked.await? {
                    InputProgress::Complete(said) => text(&said).into(),
                    InputProgress::InputRequired(needed) => needed.into(),
                });
            }
        }
        Ok(text(&json!({})).into())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let rounds = &self.shared.args.script["prompts"][&request.name];
        Ok(match self.collect_inputs(rounds, request.input_responses, request.request_state, &cx).await? {
            InputProgress::Complete(said) => {
                let content = json!({"type": "text", "text": said.to_string()});
                parse::<GetPromptResult>(
                    json!({"resultType": "complete", "messages": [{"role": "user", "content": content}]}),
                )
                .into()
            }
            InputProgress::InputRequired(needed) => needed.into(),
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let rounds = &self.shared.args.script["resources"][&request.uri];
        Ok(match self.collect_inputs(rounds, request.input_responses, request.request_state, &cx).await? {
            InputProgress::Complete(said) => {
                let content = json!({"uri": request.uri, "text": said.to_string()});
                let result = json!({"contents": [content], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
                parse::<ReadResourceResult>(result).into()
            }
            InputProgress::InputRequired(needed) => needed.into(),
        })
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level.lock().expect("no panic") = request.level;
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().expect("no panic").push(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().expect("no panic").retain(|uri| *uri != request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.shared.acknowledged_count.fetch_add(1, Ordering::Relaxed);
        Some(requested.clone())
    }

    async fn listen(&self, cx: SubscriptionContext) -> Result<(), ErrorData> {
        let mut ends = self.shared.end_signals.subscribe();
        self.shared.sinks.lock().expect("no panic").push(cx.sink().clone());
        tokio::select! {
            () = cx.cancelled() => {}
            _ = ends.changed() => {}
        }
        Ok(())
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.record(json!({"event": "notification", "method": "notifications/roots/list_changed"}));
    }
}
