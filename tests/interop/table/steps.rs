//! The steps, by our client with a server of theirs

use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::client::{Kind, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::tap::Direction;
use mcp_tests::ours::{Client, Runtime, Where};
use serde_json::{Value, json};

use super::person::{Person, connect};
use super::row::noted;
use super::{Cells, Outcome, names, table};
use crate::talk::Wire;

/// Longer than anything takes on a busy machine
const NEWS: Duration = Duration::from_secs(10);
/// In which a call that goes on would have shown
const QUIET: Duration = Duration::from_millis(150);

const PROGRESS: &str = "notifications/progress";

/// What a step came to: done, or why it cannot be
type Step = Result<Option<String>, String>;

/// Where the steps are performed
pub(super) struct Scene<'a> {
    /// Of `table.json`
    pub(super) profile: &'static str,
    pub(super) revision: &'static str,
    pub(super) wire: Wire,
    pub(super) runtime: Runtime,
    /// What stands there as `$DIR`
    pub(super) directory: &'a Path,
    /// Where the server notes what only it can see
    pub(super) log: &'a Path,
}

impl Scene<'_> {
    pub(super) fn perform(&self, server: &Where) -> Cells {
        let text = table()["profiles"][self.profile].to_string();
        let directory = serde_json::to_string(self.directory.to_str().expect("UTF-8")).expect("JSON");
        let profile: Value =
            serde_json::from_str(&text.replace("$DIR", directory.trim_matches('"'))).expect("JSON");
        let person = Person::default();
        person.seen().root = profile["root"].as_str().expect("a URI").to_owned();
        let client = match connect(self.runtime, self.revision, &person, server) {
            Ok(client) => client,
            Err(error) => return vec![Outcome::Fail(error.to_string()); names().len()],
        };
        let mut session = Session { client, person, profile, scene: self };
        let mut cells = Vec::new();
        for name in names() {
            if name != "end" {
                cells.push(outcome(session.step(name)));
            }
        }
        cells.push(outcome(session.end()));
        cells
    }
}

fn outcome(step: Step) -> Outcome {
    match step {
        Ok(None) => Outcome::Pass,
        Ok(Some(why)) => Outcome::Cannot(why),
        Err(why) => Outcome::Fail(why),
    }
}

fn require(condition: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(why()) }
}

#[expect(clippy::needless_pass_by_value, reason = "nothing more comes of it")]
fn said(error: Error) -> String {
    error.to_string()
}

struct Session<'a> {
    client: Box<dyn Client>,
    person: Person,
    profile: Value,
    scene: &'a Scene<'a>,
}

impl Session<'_> {
    fn step(&mut self, name: &str) -> Step {
        let given = self.profile[name].clone();
        if let Some(why) = given["cannot"].as_str() {
            self.cannot(name, &given)?;
            return Ok(Some(why.to_owned()));
        }
        let revision = self.scene.revision;
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
            "negotiate" => self.negotiated(),
            "list" => self.list(&given).and_then(|pages| require(pages > 1, || "one page".to_owned())),
            "progress" => {
                let reports = self.called(&given)?.1;
                let grows = reports.is_sorted_by(|a, b| a < b);
                require(grows && !reports.is_empty(), || format!("progress was {reports:?}"))
            }
            "structured" => self.structured(&given),
            "error" => self.error(&given),
            "cancel" => self.cancel(&given),
            "accept" | "decline" => self.elicited(&given, name),
            "dismiss" => self.elicited(&given, "cancel"),
            "sampling" => self.called(&given).map(drop),
            "roots" => self.roots(&given),
            "log" => self.logged(&given),
            "change" => self.changed(&given),
            "complete" => self.completed(&given),
            "ping" => self.client.ping().map_err(said),
            other => Err(format!("no step {other}")),
        }?;
        Ok(None)
    }

    /// What the table says that cannot be, cannot: the day that it can the table is wrong.
    fn cannot(&mut self, name: &str, given: &Value) -> Result<(), String> {
        let contrary = |what: &str| format!("contrary to table.json: {what}");
        match given["check"].as_str().expect("how to see it") {
            "one page" => {
                let pages = self.list(given)?;
                require(pages == 1, || contrary(&format!("{pages} pages")))
            }
            "no progress" => {
                let reports = self.called(given)?.1;
                require(reports.is_empty(), || contrary(&format!("progress {reports:?}")))
            }
            "at once" => {
                let begun = Instant::now();
                self.called(given)?;
                require(begun.elapsed() < NEWS, || contrary("it takes its time"))
            }
            "goes on" => {
                self.give_up(given)?;
                if self.scene.wire == Wire::Http {
                    // What it goes on with is on a stream that nobody reads any more.
                    return Ok(());
                }
                let before = self.person.reports();
                self.until(|person| person.reports() > before, "contrary to table.json: it stops")?;
                let last = given["last"].as_u64().expect("a number");
                self.until(|person| person.reached(last), "contrary to table.json: it stops")?;
                self.person.seen().odd.retain(|odd| odd != "UnknownProgress");
                Ok(())
            }
            "never asks" => {
                let seen = self.person.seen();
                let asked = if name == "sampling" { seen.samplings } else { seen.forms };
                require(asked == 0, || contrary("it asks"))
            }
            check => {
                let lacks = check.strip_prefix("lacks ").expect("a check that there is");
                let capabilities = self.client.peer().capabilities.clone();
                let declared: Value = serde_json::from_str(capabilities.as_str()).expect("JSON");
                require(declared.get(lacks).is_none(), || contrary(&format!("it has {declared}")))
            }
        }
    }

    fn negotiated(&self) -> Result<(), String> {
        let version = self.client.peer().version.as_str();
        require(version == self.scene.revision, || version.to_owned())
    }

    fn request(&mut self, given: &Value) -> Result<(Value, Vec<f64>), String> {
        let params = json!({"name": given["tool"], "arguments": given["arguments"]});
        let mut reports = Vec::new();
        let result = self.client.request("tools/call", &params, &mut |report| reports.push(report));
        let result = result.map_err(said)?;
        Ok((result, reports))
    }

    /// Calls what a step says, which has to succeed and to say what it says; the result, and its progress
    fn called(&mut self, given: &Value) -> Result<(Value, Vec<f64>), String> {
        let (result, reports) = self.request(given)?;
        let wanted = given["text"].as_str().unwrap_or_default();
        let blocks = result["content"].as_array().into_iter().flatten();
        let said: Vec<_> = blocks.filter_map(|block| block["text"].as_str()).collect();
        let good = result["isError"] != true && said.join("\n").contains(wanted);
        require(good, || format!("no {wanted} in {result}"))?;
        Ok((result, reports))
    }

    fn until(&mut self, done: impl Fn(&Person) -> bool, why: &str) -> Result<(), String> {
        let begun = Instant::now();
        while !done(&self.person) {
            require(begun.elapsed() < NEWS, || why.to_owned())?;
            self.client.pause(Duration::from_millis(10)).map_err(said)?;
        }
        Ok(())
    }

    /// How many pages the list has, of which all have to come
    fn list(&mut self, given: &Value) -> Result<usize, String> {
        let (kind, method, key) = match given["of"].as_str() {
            Some("tools") => (Kind::Tool, "tools/list", "name"),
            _ => (Kind::Resource, "resources/list", "uri"),
        };
        let before = self.person.count(Direction::Out, method);
        let entries = self.client.list(kind).map_err(said)?;
        let mut keys: Vec<_> = entries.iter().filter_map(|entry| entry[key].as_str()).collect();
        let has = given["has"].as_str().expect("a name");
        require(keys.contains(&has), || format!("no {has} in {keys:?}"))?;
        keys.sort_unstable();
        keys.dedup();
        require(keys.len() == entries.len(), || format!("some stand twice: {entries:?}"))?;
        if self.person.count(Direction::Out, method) < before + 2 {
            // What passed may be told on another thread, a moment later.
            self.client.pause(QUIET).map_err(said)?;
        }
        Ok(self.person.count(Direction::Out, method) - before)
    }

    fn structured(&mut self, given: &Value) -> Result<(), String> {
        let result = self.called(given)?.0;
        let mut wanted = given["has"].as_object().expect("an object").iter();
        let fits = wanted.all(|(name, value)| result["structuredContent"][name] == *value);
        require(fits, || result.to_string())
    }

    fn error(&mut self, given: &Value) -> Result<(), String> {
        let result = self.request(given)?.0;
        let wanted = given["text"].as_str().expect("a text");
        let says = result["content"][0]["text"].as_str().is_some_and(|text| text.contains(wanted));
        require(says && result["isError"] == true, || result.to_string())
    }

    /// Gives a call up, after which the connection is as good as before.
    fn give_up(&mut self, given: &Value) -> Result<(), String> {
        // What is told late belongs to calls before.
        self.client.pause(QUIET).map_err(said)?;
        let before = self.person.reports();
        let (tool, person) = (given["tool"].as_str().expect("a tool"), self.person.clone());
        let reports = move || person.reports() > before;
        let result = self.client.give_up(tool, &given["arguments"], &reports).map_err(said)?;
        require(result.is_none(), || format!("done without progress: {result:?}"))?;
        self.called(&self.profile["echo"].clone()).map(drop)
    }

    fn cancel(&mut self, given: &Value) -> Result<(), String> {
        self.give_up(given)?;
        self.client.pause(QUIET).map_err(said)?;
        // Some was on its way when the call was given up.
        self.person.seen().odd.retain(|odd| odd != "UnknownProgress");
        let count = self.person.reports();
        self.client.pause(QUIET).map_err(said)?;
        require(self.person.reports() == count, || "it goes on".to_owned())?;
        if given["noted"] == true {
            let log = self.scene.log;
            self.until(|_| noted(log).contains("aborted"), "the server did not see the call given up")?;
        }
        Ok(())
    }

    fn elicited(&mut self, given: &Value, action: &str) -> Result<(), String> {
        let mut answer = json!({"action": action});
        if let Some(content) = given.get("content") {
            answer["content"] = content.clone();
        }
        self.person.seen().answer = answer;
        self.called(given).map(drop)
    }

    fn roots(&mut self, given: &Value) -> Result<(), String> {
        if given["asked"] == true {
            // By itself, as soon as it can.
            self.until(|person| person.seen().roots > 0, "not asked for roots")?;
        }
        self.called(given)?;
        require(self.person.seen().roots > 0, || "not asked for roots".to_owned())
    }

    fn logged(&mut self, given: &Value) -> Result<(), String> {
        let level: LoggingLevel = serde_json::from_value(given["level"].clone()).expect("a level");
        self.client.set_log_level(level.clone()).map_err(said)?;
        self.person.seen().logs.clear();
        if let Some(uri) = given["subscribe"].as_str() {
            let filter = SubscriptionFilter::new().resource_subscriptions([uri.to_owned()]);
            let key = self.subscribe(&filter)?;
            self.until(|person| !person.seen().logs.is_empty(), "no logs")?;
            self.client.unsubscribe(key).map_err(said)?;
        } else {
            self.called(given)?;
        }
        let count = usize::try_from(given["count"].as_u64().expect("a number")).expect("a small one");
        self.until(|person| person.seen().logs.len() >= count, "too few logs")?;
        let rank = |level: &LoggingLevel| {
            let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
            levels.iter().position(|name| *name == level.as_str())
        };
        let logs = self.person.seen().logs.clone();
        require(logs.iter().all(|log| rank(log) >= rank(&level)), || format!("logs: {logs:?}"))
    }

    fn subscribe(&mut self, filter: &SubscriptionFilter) -> Result<SubscriptionKey, String> {
        let (key, honoured) = self.client.subscribe(filter).map_err(said)?;
        require(honoured == *filter, || format!("only {honoured:?} is honoured"))?;
        Ok(key)
    }

    fn changed(&mut self, given: &Value) -> Result<(), String> {
        let uri = given["uri"].as_str().expect("a URI");
        let filter = SubscriptionFilter::new().resource_subscriptions([uri.to_owned()]);
        let key = self.subscribe(&filter)?;
        let told = |person: &Person| person.seen().changed.iter().any(|changed| changed == uri);
        let changed = self.called(given).and_then(|_| self.until(told, "not told of the change"));
        if given["toggles"] == true {
            self.called(given)?;
        }
        self.client.unsubscribe(key).map_err(said).and(changed)
    }

    fn completed(&mut self, given: &Value) -> Result<(), String> {
        let params = json!({
            "ref": {"type": "ref/prompt", "name": given["prompt"]},
            "argument": {"name": given["argument"], "value": given["value"]},
        });
        let result = self.client.request("completion/complete", &params, &mut |_| {});
        let result = result.map_err(said)?;
        require(result["completion"]["values"] == given["values"], || result.to_string())
    }

    fn end(self) -> Step {
        let by_itself = self.client.close().map_err(said)?;
        require(by_itself, || "it had to be ended".to_owned())?;
        let odd = self.person.seen().odd.clone();
        require(odd.is_empty(), || format!("odd: {odd:?}"))?;
        Ok(None)
    }
}

impl Person {
    /// How often progress was reported
    pub(super) fn reports(&self) -> usize {
        self.count(Direction::In, PROGRESS)
    }

    /// Whether the latest report was of this much
    fn reached(&self, progress: u64) -> bool {
        let seen = self.seen();
        let last = seen.received.iter().rfind(|message| message["method"] == PROGRESS);
        last.is_some_and(|report| report["params"]["progress"].as_f64() == Some(progress as f64))
    }
}
