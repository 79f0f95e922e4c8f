//! What both sides said, against what has to come of each step

use core::time::Duration;

use serde_json::{Value, json};

use super::{Pair, Sdk, Wire, talk};
use crate::run::Done;
use crate::{LEGACY, MODERN};

/// What both sides said of one run
pub(super) struct Told {
    pub(super) pair: Pair,
    /// Of `talk.json`
    pub(super) steps: Vec<&'static Value>,
    pub(super) parts: &'static str,
    pub(super) lines: Vec<Value>,
    pub(super) noted: Vec<Value>,
    pub(super) done: Done,
}

impl Told {
    #[track_caller]
    fn wrong(&self, step: &Value, why: &str, what: &Value) -> ! {
        let (pair, parts, done) = (self.pair, self.parts, &self.done);
        let noted: Vec<String> = self.noted.iter().map(Value::to_string).collect();
        panic!("{pair:?}, {parts}, {}: {why}: {what}\n{done}\n-- noted:\n{}", step["step"], noted.join("\n"));
    }

    pub(super) fn took(&self) -> Duration {
        self.done.took
    }

    /// Compares all steps; how many there were
    pub(super) fn check(&self) -> usize {
        let done = &self.done;
        let steps = &*self.steps;
        let is_cut = self.has("farewell") && self.pair.differs("cut", "farewell").is_some();
        assert_ne!(done.succeeded(), is_cut, "{:?}, {}: {done}", self.pair, self.parts);
        let [negotiated, lines @ ..] = &*self.lines else { panic!("too little: {done}") };
        let revision = if self.pair.is_modern() { MODERN } else { LEGACY };
        assert_eq!(
            (negotiated["step"].as_str(), negotiated["version"].as_str()),
            (Some("negotiate"), Some(revision)),
            "{done}"
        );
        let last = steps.iter().position(|step| is_cut && step.get("ended").is_some());
        let steps = &steps[..last.map_or(steps.len(), |last| last + 1)];
        assert_eq!(lines.len(), steps.len() + usize::from(!is_cut), "{done}");
        for (step, line) in steps.iter().zip(lines) {
            assert_eq!(step["step"], line["step"], "{done}");
            self.check_step(step, line);
        }
        if let Some(end) = lines.get(steps.len()) {
            assert_eq!(end["step"], "end", "{done}");
            assert_ne!(end.get("by-itself"), Some(&json!(false)), "the server had to be ended: {done}");
        }
        self.check_notes();
        steps.len()
    }

    fn check_step(&self, step: &Value, line: &Value) {
        let cannot = self.pair.differs("cannot", step["step"].as_str().expect("a name"));
        match (line["cannot"] == true, cannot) {
            (true, Some(_)) => return,
            (true, None) => self.wrong(step, "the client says that it cannot", line),
            (false, Some(row)) => {
                self.wrong(step, "the client can now, contrary to the table", &json!(row.why))
            }
            (false, None) => {}
        }
        if self.pair.differs("cannot read", step["step"].as_str().expect("a name")).is_some() {
            if line["asked"] != json!([]) || !line["error"].is_object() {
                self.wrong(step, "the client can now read it, contrary to the table", line);
            }
            return;
        }
        self.check_asked(step, line);
        self.check_outcome(step, line);
        self.check_told(step, line);
    }

    /// The questions that reached the client's handlers, with all that they are made of
    fn check_asked(&self, step: &Value, line: &Value) {
        let Some(wanted) = step["asked"].as_array() else { return };
        let asked = line["asked"].as_array().map_or(&[][..], Vec::as_slice);
        if asked.len() != wanted.len() {
            self.wrong(step, "other questions", &line["asked"]);
        }
        for key in wanted {
            let mut question = talk()["questions"][key.as_str().expect("a key")].clone();
            if self.pair.is_modern() || self.pair.server != Sdk::Ours {
                // Gone in this era (ELIC-032), or of the server's making.
                question["params"].as_object_mut().map(|params| params.remove("elicitationId"));
            }
            if question["method"] == "roots/list" {
                question.as_object_mut().expect("an object").remove("params");
            }
            let keeps = self.pair.differs("keeps the id", step["step"].as_str().expect("a name")).is_some();
            if self.pair.is_modern()
                && !keeps
                && asked.iter().any(|asked| asked["params"].get("elicitationId").is_some())
            {
                self.wrong(step, "an id that this era does not have", &line["asked"]);
            }
            if !asked.iter().any(|asked| fits(asked, &question)) {
                self.wrong(step, &format!("not asked as it should be: {question}"), &line["asked"]);
            }
        }
    }

    fn check_outcome(&self, step: &Value, line: &Value) {
        let (modern, result) = (self.pair.is_modern(), &line["result"]);
        if let Some(said) = step.get("said") {
            if !fits(&result["said"], said) {
                self.wrong(step, "the server was told something else", line);
            }
            let rounds = step["rounds"].as_u64().unwrap_or(1);
            if result["rounds"] != rounds {
                self.wrong(step, "other rounds", line);
            }
            if self.pair.server == Sdk::Ours {
                // What was kept before the last round came back with its answers.
                let before = step["asked"].as_array().map_or(0, Vec::len) as u64;
                let before = if rounds > 1 { before - 1 } else { 0 };
                if result["state"] != format!("{before} answered") {
                    self.wrong(step, "another state", line);
                }
            }
        } else if step["refused"] == true {
            // A legacy server is answered; a modern one hears nothing more (MRTR-031), and the caller has the error.
            let error = if modern { &line["error"] } else { &result["refused"] };
            let message = error["message"].as_str().unwrap_or_default();
            if error["code"] != -1 || !message.contains("not today") {
                self.wrong(step, "not refused", line);
            }
        } else if step["given-up"] == true {
            let stays = self.pair.differs("stays asked", step["step"].as_str().expect("a name")).is_some();
            if !line["gave-up"].is_string() || line["aborted"] != u64::from(!stays) {
                self.wrong(step, "not given up, on both sides", line);
            }
        } else if step["timed-out"] == true {
            let told = self.pair.client == Sdk::Ours || line["aborted"] == 1;
            if result["timed-out"] != true || !told {
                self.wrong(step, "the server did not give up, or did not say so", line);
            }
        } else if step.get("lacks").is_some() {
            self.check_lack(step, line);
        } else if step["page-first"] == true {
            let pages = json!({"elicitations": [talk()["questions"]["page"]["params"]]});
            if line["error"]["code"] != -32042 || !fits(&line["error"]["data"], &pages) {
                self.wrong(step, "not sent to the page", line);
            }
        } else if step["unfit"] == true {
            self.check_unfit(step, line);
        } else if step.get("tool").is_some() && *result != json!({}) {
            self.wrong(step, "not done", line);
        }
    }

    /// The client did not declare what is needed, and is not asked
    fn check_lack(&self, step: &Value, line: &Value) {
        let good = if self.pair.server == Sdk::Ours {
            let error = &line["error"];
            // The code is of the modern era (ERR-007).
            let code = if self.pair.is_modern() { -32021 } else { -32600 };
            error["code"] == code && fits(&error["data"]["requiredCapabilities"], &step["lacks"])
        } else if self.pair.differs("asks", step["step"].as_str().expect("a name")).is_some() {
            // Our client sees to it then (SAMP-009, ELIC-031).
            line["not-declared"].is_string()
        } else {
            // Each has its own way to say so, or asks in spite of it and is told that there is no such method (by our
            // client at least); for roots no legacy one of them looks (ERR-021).
            let told = line["result"]["refused"]["code"] == -32601;
            let must_be = step["step"] == "roots" && !self.pair.is_modern();
            told || !must_be && (line["error"].is_object() || line["failed"].is_string())
        };
        if !good {
            self.wrong(step, "not refused as it should be", line);
        }
    }

    /// The client was given an answer that does not fit the form, and a better one if it was asked again
    fn check_unfit(&self, step: &Value, line: &Value) {
        let asked = line["asked"].as_array().map_or(0, Vec::len);
        let good = if self.pair.client == Sdk::Ours {
            // It holds answers against the form itself (ELIC-020).
            let error = if self.pair.is_modern() { &line["error"] } else { &line["result"]["refused"] };
            asked == 1 && error["message"].as_str().is_some_and(|message| message.contains("does not fit"))
        } else {
            // The others do not, and our server asks again (MRTR-027).
            asked == 2
                && line["result"]["rounds"] == 2
                && line["result"]["said"]["who"]["content"]["name"] == "Xe"
        };
        if !good {
            self.wrong(step, "the answer was taken, or nothing better", line);
        }
    }

    /// Logs, news and the like
    fn check_told(&self, step: &Value, line: &Value) {
        let count = step["logs"].as_u64().or_else(|| step["logs"][self.pair.era].as_u64());
        if let Some(count) = count {
            let all = talk()["logs"].as_array().expect("logs");
            let wanted = &all[all.len() - usize::try_from(count).expect("few")..];
            if line["logs"] != json!(wanted) {
                self.wrong(step, "other logs", line);
            }
        }
        if let Some(news) = step.get("news") {
            // A legacy server tells everybody of its lists.
            let news = news.get(self.pair.era).unwrap_or(news);
            if line["news"] != *news {
                self.wrong(step, &format!("not the news {news}"), line);
            }
        }
        if step.get("tool").is_some() {
            let none = json!([]);
            let completed =
                if self.pair.is_modern() { &none } else { step.get("completed").unwrap_or(&none) };
            if line["completed"] != *completed {
                self.wrong(step, "told of other pages", line);
            }
        }
        if step.get("ended").is_some_and(|ended| line["ended"] != *ended) {
            self.wrong(step, "the subscription did not end as it should", line);
        }
        if let (Some(honoured), Some(wanted)) = (line.get("honoured"), step.get("subscribe")) {
            if honoured != wanted {
                self.wrong(step, "not all is honoured", line);
            }
        }
        if self.pair.client == Sdk::Ours {
            // Before it reads that a question is taken back, this client has answered it.
            let odd = line["odd"].as_array().map_or(&[][..], Vec::as_slice);
            let late = |odd: &Value| odd.as_str().is_some_and(|odd| odd.starts_with("UnknownCancel("));
            let timed_out = step["timed-out"] == true;
            // Over HTTP that may come on another stream, and after the result.
            let unheard = timed_out && odd.is_empty() && self.pair.wire == Wire::Stdio;
            if unheard || (!timed_out && !odd.is_empty()) || !odd.iter().all(late) {
                self.wrong(step, "odd", line);
            }
        }
    }

    /// What the server saw
    fn check_notes(&self) {
        let end = json!({"event": "end", "ok": true});
        if self.noted.last() != Some(&end) {
            self.wrong(&json!({}), "the server did not end well", &json!(self.noted));
        }
        let roots = json!({"event": "notification", "method": "notifications/roots/list_changed"});
        let told = self.noted.iter().filter(|noted| **noted == roots).count();
        if told != usize::from(self.has("news") && !self.pair.is_modern()) {
            self.wrong(&json!({}), "other news of roots", &json!(self.noted));
        }
        if self.pair.server == Sdk::Ours {
            self.check_our_notes();
        }
    }

    fn has(&self, part: &str) -> bool {
        self.parts.split(',').any(|other| other == part)
    }

    fn of(&self, event: &str) -> impl Iterator<Item = &Value> {
        self.noted.iter().filter(move |noted| noted["event"] == event)
    }

    /// What our server saw: how often each call was delivered, and nothing odd
    fn check_our_notes(&self) {
        let modern = self.pair.is_modern();
        let mut wanted = Vec::new();
        for step in &self.steps {
            let Some(name) = ["tool", "prompt", "read"].iter().find_map(|kind| step.get(kind)) else {
                continue;
            };
            let unread = self.pair.differs("cannot read", step["step"].as_str().expect("a name")).is_some();
            let again = match step["rounds"].as_u64() {
                _ if unread => 0,
                Some(rounds) => rounds,
                None if self.pair.differs("cannot", step["step"].as_str().expect("a name")).is_some() => {
                    continue;
                }
                None if step["unfit"] == true && self.pair.client != Sdk::Ours => 2,
                // Nobody wants the answer any more.
                None if step["given-up"] == true => 0,
                // A modern client does not come again (MRTR-031).
                None if modern && (step["refused"] == true || step["unfit"] == true) => 0,
                None if step.get("answers").is_some() => 1,
                None => 0,
            };
            wanted.extend((0..=again).map(|attempt| (name.clone(), json!(attempt))));
        }
        let calls: Vec<_> =
            self.of("call").map(|call| (call["of"].clone(), call["attempt"].clone())).collect();
        if calls != wanted {
            self.wrong(&json!({}), "other deliveries", &json!(self.noted));
        }
        if self.has("news") {
            self.check_interest();
        }
        // Said by our client before it reads that the question was taken back, or by one that is not told.
        let late = self.parts == "time-out" && self.pair.client == Sdk::Ours
            || self.has("answers") && self.pair.differs("stays asked", "given up by the client").is_some();
        let is =
            |noted: &Value, what: &str| noted["what"].as_str().is_some_and(|said| said.starts_with(what));
        let is_twice = |noted: &&Value| is(noted, "UnknownCancel(\"listen:");
        let twice = self.has("news") && self.pair.differs("cancels twice", "unsubscribe").is_some();
        if self.of("diagnostic").filter(is_twice).count() != usize::from(twice) {
            self.wrong(&json!({}), "not cancelled twice, contrary to the table", &json!(self.noted));
        }
        let fails = if self.parts == "poor" { wanted.len() } else { 0 };
        if self.of("failed").count() != fails
            || !self.of("diagnostic").all(|noted| late && is(noted, "LateResponse(") || is_twice(&noted))
        {
            self.wrong(&json!({}), "our server noted something odd", &json!(self.noted));
        }
    }

    /// Our application heard that somebody follows a resource, and that nobody does any more
    fn check_interest(&self) {
        let told = |wanted: bool| json!({"event": "interest", "uri": "note://one", "wanted": wanted});
        let one = |noted: &&Value| noted["uri"] == "note://one";
        if !self.of("interest").filter(one).eq([&told(true), &told(false)]) {
            self.wrong(&json!({}), "other interest", &json!(self.noted));
        }
    }

    /// The client died while it was asked: the server has seen it, gave the call up, and ended in good order
    pub(super) fn check_vanished(&self) {
        let step = &talk()["steps"]["vanish"][1];
        if self.done.succeeded() || self.lines.len() != 2 {
            self.wrong(step, "the client did not vanish", &json!(self.lines));
        }
        let Some(end) = self.noted.last() else { self.wrong(step, "nothing noted", &Value::Null) };
        // A question of ours whose time is up has its call come once more.
        let again = self.of("gave-up").count() > 0 && self.pair.server == Sdk::Ours;
        if self.of("call").count() != 1 + usize::from(again) || end["event"] != "end" {
            self.wrong(step, "the call went on", &json!(self.noted));
        }
        if self.pair.wire != Wire::Stdio {
            // Nobody's end: the server was told to.
            return;
        }
        if self.pair.server == Sdk::Ours {
            self.check_interest();
        }
        let ends_badly = self.pair.differs("ends badly", "vanish").is_some();
        if end["ok"] == ends_badly {
            self.wrong(step, "not the end that was expected", &json!(self.noted));
        }
        // A modern server waits for nothing, and ours is not in the handler then.
        let waits = !self.pair.is_modern() && self.pair.server != Sdk::Ours;
        let notices = waits && self.pair.differs("outlives", "vanish").is_none();
        if notices != (self.of("aborted").count() > 0) {
            self.wrong(step, "not noticed as was expected", &json!(self.noted));
        }
    }
}

/// Whether a value has all that is wanted of it: objects may have more members
fn fits(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| fits(value, wanted)))
        }
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len() && value.iter().zip(wanted).all(|(v, w)| fits(v, w))
        }
        // 1 and 1.0 are one number (BASE), and not every language tells them apart.
        (Value::Number(value), Value::Number(wanted)) => value.as_f64() == wanted.as_f64(),
        _ => value == wanted,
    }
}
