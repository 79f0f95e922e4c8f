//! The steps, performed by our client with an SDK server.

use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::EntryKind;
use mcp_proto::client::SubscriptionKey;
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::tap::Direction;
use mcp_system_tests::adapters::{AdapterClient, AdapterKind, ServerLocation};
use serde_json::{Value, json};

use super::row::read_log;
use super::user::{TestUser, connect};
use super::{CellOutcome, Cells, names, table};
use crate::interop::conversation::InteropTransport;

/// Limit above the duration of any step on a busy machine.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a call that continues would report progress.
const QUIET_PERIOD: Duration = Duration::from_millis(150);

const PROGRESS: &str = "notifications/progress";

/// Outcome of a step: success, or the reason why it is unsupported; `Err` for a failure.
type StepResult = Result<Option<String>, String>;

/// Environment of the steps.
pub(super) struct TableRun<'a> {
    /// Profile of `table.json`.
    pub(super) profile: &'static str,
    pub(super) revision: &'static str,
    pub(super) transport: InteropTransport,
    pub(super) runtime: AdapterKind,
    /// Replacement of `$DIR` in the profile.
    pub(super) directory: &'a Path,
    /// Log file of the server.
    pub(super) log: &'a Path,
}

impl TableRun<'_> {
    pub(super) fn perform(&self, server: &ServerLocation) -> Cells {
        let text = table()["profiles"][self.profile].to_string();
        let directory = serde_json::to_string(self.directory.to_str().expect("UTF-8")).expect("JSON");
        let profile: Value =
            serde_json::from_str(&text.replace("$DIR", directory.trim_matches('"'))).expect("JSON");
        let user = TestUser::default();
        user.lock().root = profile["root"].as_str().expect("a URI").to_owned();
        let client = match connect(self.runtime, self.revision, &user, server) {
            Ok(client) => client,
            Err(error) => return vec![CellOutcome::Fail(error.to_string()); names().len()],
        };
        let mut session = TableSession { client, user, profile, table_run: self };
        let mut cells = Vec::new();
        for name in names() {
            if name != "end" {
                cells.push(to_outcome(session.step(name)));
            }
        }
        cells.push(to_outcome(session.end()));
        cells
    }
}

fn to_outcome(step: StepResult) -> CellOutcome {
    match step {
        Ok(None) => CellOutcome::Pass,
        Ok(Some(why)) => CellOutcome::Unsupported(why),
        Err(why) => CellOutcome::Fail(why),
    }
}

fn require(condition: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(why()) }
}

#[expect(clippy::needless_pass_by_value, reason = "the error is used up")]
fn error_text(error: Error) -> String {
    error.to_string()
}

struct TableSession<'a> {
    client: Box<dyn AdapterClient>,
    user: TestUser,
    profile: Value,
    table_run: &'a TableRun<'a>,
}

impl TableSession<'_> {
    fn step(&mut self, name: &str) -> StepResult {
        let config = self.profile[name].clone();
        if let Some(why) = config["cannot"].as_str() {
            self.expect_unsupported(name, &config)?;
            return Ok(Some(why.to_owned()));
        }
        let revision = self.table_run.revision;
        if revision < "2025-06-18" {
            match name {
                "structured" => return Ok(Some(format!("{revision} has no structured results"))),
                "accept" | "decline" | "dismiss" => {
                    return Ok(Some(format!("{revision} has no elicitation")));
                }
                _ => {}
            }
        }
        match name {
            "negotiate" => self.check_negotiated(),
            "list" => self.list(&config).and_then(|pages| require(pages > 1, || "only one page".to_owned())),
            "progress" => {
                let reports = self.call_tool(&config)?.1;
                let grows = reports.is_sorted_by(|a, b| a < b);
                require(grows && !reports.is_empty(), || format!("progress was {reports:?}"))
            }
            "structured" => self.check_structured(&config),
            "error" => self.check_error(&config),
            "cancel" => self.cancel(&config),
            "accept" | "decline" => self.check_elicitation(&config, name),
            "dismiss" => self.check_elicitation(&config, "cancel"),
            "sampling" => self.call_tool(&config).map(drop),
            "roots" => self.check_roots(&config),
            "log" => self.check_logging(&config),
            "change" => self.check_change(&config),
            "complete" => self.check_completion(&config),
            "ping" => self.client.ping().map_err(error_text),
            other => Err(format!("no step {other}")),
        }?;
        Ok(None)
    }

    /// Checks that a step listed as unsupported fails. Otherwise the table is wrong.
    fn expect_unsupported(&mut self, name: &str, config: &Value) -> Result<(), String> {
        let contrary = |what: &str| format!("contrary to table.json: {what}");
        match config["check"].as_str().expect("a check") {
            "one page" => {
                let pages = self.list(config)?;
                require(pages == 1, || contrary(&format!("{pages} pages")))
            }
            "no progress" => {
                let reports = self.call_tool(config)?.1;
                require(reports.is_empty(), || contrary(&format!("progress {reports:?}")))
            }
            "at once" => {
                let start = Instant::now();
                self.call_tool(config)?;
                require(start.elapsed() < CHANGE_TIMEOUT, || contrary("it takes time"))
            }
            "goes on" => {
                self.abandon_call(config)?;
                if self.table_run.transport == InteropTransport::Http {
                    // Its further messages are on a stream that is no longer read.
                    return Ok(());
                }
                let previous_count = self.user.progress_count();
                self.wait_until(
                    |user| user.progress_count() > previous_count,
                    "contrary to table.json: it stops",
                )?;
                let last = config["last"].as_u64().expect("a number");
                self.wait_until(|user| user.has_reached(last), "contrary to table.json: it stops")?;
                self.user.lock().diagnostics.retain(|diagnostic| diagnostic != "UnknownProgress");
                Ok(())
            }
            "never asks" => {
                let seen = self.user.lock();
                let asked = if name == "sampling" { seen.sampling_count } else { seen.form_count };
                require(asked == 0, || contrary("it sends the input request"))
            }
            check => {
                let lacks = check.strip_prefix("lacks ").expect("a known check");
                let capabilities = self.client.peer().capabilities.clone();
                let declared: Value = serde_json::from_str(capabilities.as_str()).expect("JSON");
                require(declared.get(lacks).is_none(), || contrary(&format!("it has {declared}")))
            }
        }
    }

    fn check_negotiated(&self) -> Result<(), String> {
        let version = self.client.peer().version.as_str();
        require(version == self.table_run.revision, || version.to_owned())
    }

    fn request(&mut self, config: &Value) -> Result<(Value, Vec<f64>), String> {
        let params = json!({"name": config["tool"], "arguments": config["arguments"]});
        let mut reports = Vec::new();
        let result = self.client.request("tools/call", &params, &mut |report| reports.push(report));
        let result = result.map_err(error_text)?;
        Ok((result, reports))
    }

    /// Calls the tool of a step and checks the text of its result; returns the result and the progress.
    fn call_tool(&mut self, config: &Value) -> Result<(Value, Vec<f64>), String> {
        let (result, reports) = self.request(config)?;
        let wanted = config["text"].as_str().unwrap_or_default();
        let blocks = result["content"].as_array().into_iter().flatten();
        let texts: Vec<_> = blocks.filter_map(|block| block["text"].as_str()).collect();
        let is_expected = result["isError"] != true && texts.join("\n").contains(wanted);
        require(is_expected, || format!("no {wanted} in {result}"))?;
        Ok((result, reports))
    }

    fn wait_until(&mut self, done: impl Fn(&TestUser) -> bool, why: &str) -> Result<(), String> {
        let start = Instant::now();
        while !done(&self.user) {
            require(start.elapsed() < CHANGE_TIMEOUT, || why.to_owned())?;
            self.client.pause(Duration::from_millis(10)).map_err(error_text)?;
        }
        Ok(())
    }

    /// Lists all entries and returns the number of pages.
    fn list(&mut self, config: &Value) -> Result<usize, String> {
        let (kind, method, key) = match config["of"].as_str() {
            Some("tools") => (EntryKind::Tool, "tools/list", "name"),
            _ => (EntryKind::Resource, "resources/list", "uri"),
        };
        let previous_count = self.user.count(Direction::Out, method);
        let entries = self.client.list(kind).map_err(error_text)?;
        let mut keys: Vec<_> = entries.iter().filter_map(|entry| entry[key].as_str()).collect();
        let has = config["has"].as_str().expect("a name");
        require(keys.contains(&has), || format!("no {has} in {keys:?}"))?;
        keys.sort_unstable();
        keys.dedup();
        require(keys.len() == entries.len(), || format!("repeated entries: {entries:?}"))?;
        if self.user.count(Direction::Out, method) < previous_count + 2 {
            // Another thread may report the messages a moment later.
            self.client.pause(QUIET_PERIOD).map_err(error_text)?;
        }
        Ok(self.user.count(Direction::Out, method) - previous_count)
    }

    fn check_structured(&mut self, config: &Value) -> Result<(), String> {
        let result = self.call_tool(config)?.0;
        let mut wanted = config["has"].as_object().expect("an object").iter();
        let fits = wanted.all(|(name, value)| result["structuredContent"][name] == *value);
        require(fits, || result.to_string())
    }

    fn check_error(&mut self, config: &Value) -> Result<(), String> {
        let result = self.request(config)?.0;
        let wanted = config["text"].as_str().expect("a text");
        let says = result["content"][0]["text"].as_str().is_some_and(|text| text.contains(wanted));
        require(says && result["isError"] == true, || result.to_string())
    }

    /// Cancels a call and checks that the connection still works.
    fn abandon_call(&mut self, config: &Value) -> Result<(), String> {
        // Late reports belong to earlier calls.
        self.client.pause(QUIET_PERIOD).map_err(error_text)?;
        let previous_count = self.user.progress_count();
        let (tool, user) = (config["tool"].as_str().expect("a tool"), self.user.clone());
        let reports = move || user.progress_count() > previous_count;
        let result = self.client.cancel_call(tool, &config["arguments"], &reports).map_err(error_text)?;
        require(result.is_none(), || format!("done without progress: {result:?}"))?;
        self.call_tool(&self.profile["echo"].clone()).map(drop)
    }

    fn cancel(&mut self, config: &Value) -> Result<(), String> {
        self.abandon_call(config)?;
        self.client.pause(QUIET_PERIOD).map_err(error_text)?;
        // Some progress was on its way when the call was cancelled.
        self.user.lock().diagnostics.retain(|diagnostic| diagnostic != "UnknownProgress");
        let count = self.user.progress_count();
        self.client.pause(QUIET_PERIOD).map_err(error_text)?;
        require(self.user.progress_count() == count, || {
            "the call continues after its cancellation".to_owned()
        })?;
        if config["noted"] == true {
            let log = self.table_run.log;
            self.wait_until(
                |_| read_log(log).contains("aborted"),
                "the server did not see the cancellation",
            )?;
        }
        Ok(())
    }

    fn check_elicitation(&mut self, config: &Value, action: &str) -> Result<(), String> {
        let mut answer = json!({"action": action});
        if let Some(content) = config.get("content") {
            answer["content"] = content.clone();
        }
        self.user.lock().answer = answer;
        self.call_tool(config).map(drop)
    }

    fn check_roots(&mut self, config: &Value) -> Result<(), String> {
        if config["asked"] == true {
            // The server requests the roots by itself, as soon as it can.
            self.wait_until(|user| user.lock().roots_count > 0, "the server did not request the roots")?;
        }
        self.call_tool(config)?;
        require(self.user.lock().roots_count > 0, || "the server did not request the roots".to_owned())
    }

    fn check_logging(&mut self, config: &Value) -> Result<(), String> {
        let level: LoggingLevel = serde_json::from_value(config["level"].clone()).expect("a level");
        self.client.set_log_level(level.clone()).map_err(error_text)?;
        self.user.lock().logs.clear();
        if let Some(uri) = config["subscribe"].as_str() {
            let filter = SubscriptionFilter::new().resource_subscriptions([uri.to_owned()]);
            let key = self.subscribe(&filter)?;
            self.wait_until(|user| !user.lock().logs.is_empty(), "no logs")?;
            self.client.unsubscribe(key).map_err(error_text)?;
        } else {
            self.call_tool(config)?;
        }
        let count = usize::try_from(config["count"].as_u64().expect("a number")).expect("a small one");
        self.wait_until(|user| user.lock().logs.len() >= count, "too few logs")?;
        let rank = |level: &LoggingLevel| {
            let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
            levels.iter().position(|name| *name == level.as_str())
        };
        let logs = self.user.lock().logs.clone();
        require(logs.iter().all(|log| rank(log) >= rank(&level)), || format!("logs: {logs:?}"))
    }

    fn subscribe(&mut self, filter: &SubscriptionFilter) -> Result<SubscriptionKey, String> {
        let (key, honoured) = self.client.subscribe(filter).map_err(error_text)?;
        require(honoured == *filter, || format!("only {honoured:?} is honoured"))?;
        Ok(key)
    }

    fn check_change(&mut self, config: &Value) -> Result<(), String> {
        let uri = config["uri"].as_str().expect("a URI");
        let filter = SubscriptionFilter::new().resource_subscriptions([uri.to_owned()]);
        let key = self.subscribe(&filter)?;
        let is_notified = |user: &TestUser| user.lock().changed.iter().any(|changed| changed == uri);
        let changed = self
            .call_tool(config)
            .and_then(|_| self.wait_until(is_notified, "no notification of the change"));
        if config["toggles"] == true {
            self.call_tool(config)?;
        }
        self.client.unsubscribe(key).map_err(error_text).and(changed)
    }

    fn check_completion(&mut self, config: &Value) -> Result<(), String> {
        let params = json!({
            "ref": {"type": "ref/prompt", "name": config["prompt"]},
            "argument": {"name": config["argument"], "value": config["value"]},
        });
        let result = self.client.request("completion/complete", &params, &mut |_| {});
        let result = result.map_err(error_text)?;
        require(result["completion"]["values"] == config["values"], || result.to_string())
    }

    fn end(self) -> StepResult {
        let by_itself = self.client.close().map_err(error_text)?;
        require(by_itself, || "the server did not exit by itself".to_owned())?;
        let diagnostics = self.user.lock().diagnostics.clone();
        require(diagnostics.is_empty(), || format!("unexpected diagnostics: {diagnostics:?}"))?;
        Ok(None)
    }
}

impl TestUser {
    /// Returns the number of progress reports.
    pub(super) fn progress_count(&self) -> usize {
        self.count(Direction::In, PROGRESS)
    }

    /// Returns whether the latest report has this progress.
    fn has_reached(&self, progress: u64) -> bool {
        let seen = self.lock();
        let last = seen.received.iter().rfind(|message| message["method"] == PROGRESS);
        last.is_some_and(|report| report["params"]["progress"].as_f64() == Some(progress as f64))
    }
}
