//! Comparison of the reports of both sides with the expected outcomes.

use core::cell::RefCell;
use core::time::Duration;

use serde_json::{Value, json};

use super::{Implementation, ImplementationPair, InteropTransport, conversation};
use crate::interop::{LEGACY, MODERN};
use crate::run::ProcessOutput;

/// Reports of both sides of one run.
pub(super) struct ConversationReport {
    pub(super) pair: ImplementationPair,
    /// Steps of `talk.json`.
    pub(super) steps: Vec<&'static Value>,
    pub(super) parts: &'static str,
    pub(super) client_lines: Vec<Value>,
    pub(super) server_log: Vec<Value>,
    pub(super) output: ProcessOutput,
    /// Differences from the expected outcomes. All are reported, as a new version of a peer can bring several.
    pub(super) problems: RefCell<Vec<String>>,
}

impl ConversationReport {
    fn record_problem(&self, step: &Value, problem: &str, value: &Value) {
        self.problems.borrow_mut().push(format!("{}: {problem}: {value}", step["step"]));
    }

    /// Returns a value, or the text of all problems.
    fn outcome<T>(&self, value: T) -> Result<T, String> {
        let problems = self.problems.borrow();
        if problems.is_empty() {
            return Ok(value);
        }
        let logged: Vec<String> = self.server_log.iter().map(Value::to_string).collect();
        Err(format!(
            "{:?}, {}:\n{}\n{}\n-- server log:\n{}",
            self.pair,
            self.parts,
            problems.join("\n"),
            self.output,
            logged.join("\n")
        ))
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.output.elapsed
    }

    /// Checks all steps and returns their number.
    ///
    /// # Errors
    ///
    /// All differences from the expected outcomes.
    pub(super) fn check(&self) -> Result<usize, String> {
        let output = &self.output;
        let steps = &*self.steps;
        let is_cut = self.has("farewell") && self.pair.known_difference("cut", "farewell").is_some();
        assert_ne!(output.succeeded(), is_cut, "{:?}, {}: {output}", self.pair, self.parts);
        let [negotiated, lines @ ..] = &*self.client_lines else { panic!("too few lines: {output}") };
        let revision = if self.pair.is_modern() { MODERN } else { LEGACY };
        assert_eq!(
            (negotiated["step"].as_str(), negotiated["version"].as_str()),
            (Some("negotiate"), Some(revision)),
            "{output}"
        );
        let last = steps.iter().position(|step| is_cut && step.get("ended").is_some());
        let steps = &steps[..last.map_or(steps.len(), |last| last + 1)];
        assert_eq!(lines.len(), steps.len() + usize::from(!is_cut), "{output}");
        for (step, line) in steps.iter().zip(lines) {
            assert_eq!(step["step"], line["step"], "{output}");
            self.check_step(step, line);
        }
        if let Some(end) = lines.get(steps.len()) {
            assert_eq!(end["step"], "end", "{output}");
            assert_ne!(
                end.get("by-itself"),
                Some(&json!(false)),
                "the server did not exit by itself: {output}"
            );
        }
        self.check_server_log();
        self.outcome(steps.len())
    }

    fn check_step(&self, step: &Value, line: &Value) {
        let cannot = self.pair.known_difference("cannot", step["step"].as_str().expect("a name"));
        match (line["cannot"] == true, cannot) {
            (true, Some(_)) => return,
            (true, None) => return self.record_problem(step, "the client reports that it cannot", line),
            (false, Some(row)) => self.record_problem(
                step,
                "the client supports it, contrary to the table of differences",
                &json!(row.reason),
            ),
            (false, None) => {}
        }
        self.check_input_requests(step, line);
        self.check_outcome(step, line);
        self.check_notifications(step, line);
    }

    /// Checks the input requests that reached the client's handlers, with all their members.
    fn check_input_requests(&self, step: &Value, line: &Value) {
        let Some(wanted) = step["asked"].as_array() else { return };
        let asked = line["asked"].as_array().map_or(&[][..], Vec::as_slice);
        if asked.len() != wanted.len() {
            return self.record_problem(step, "other input requests than expected", &line["asked"]);
        }
        let knows = |what| self.pair.known_difference(what, step["step"].as_str().expect("a name")).is_some();
        for key in wanted {
            let mut input_request = conversation()["questions"][key.as_str().expect("a key")].clone();
            let id = input_request["params"].get("elicitationId").cloned();
            if self.pair.is_modern() || self.pair.server != Implementation::Own {
                // Absent in this era (ELIC-032), or chosen by the server.
                input_request["params"].as_object_mut().map(|params| params.remove("elicitationId"));
            }
            if input_request["method"] == "roots/list" {
                input_request.as_object_mut().expect("an object").remove("params");
            }
            let Some(found) = asked.iter().find(|asked| matches_expected(asked, &input_request)) else {
                self.record_problem(step, &format!("missing input request: {input_request}"), &line["asked"]);
                continue;
            };
            let id = match id {
                Some(id) if knows("keeps the id") => Some(id),
                Some(_) if knows("empty id") => Some(json!("")),
                _ => None,
            };
            if self.pair.is_modern() && found["params"].get("elicitationId") != id.as_ref() {
                self.record_problem(step, &format!("another elicitation id than {id:?}"), found);
            }
        }
    }

    fn check_outcome(&self, step: &Value, line: &Value) {
        let (modern, result) = (self.pair.is_modern(), &line["result"]);
        if let Some(expected_result) = step.get("said") {
            if !matches_expected(&result["said"], expected_result) {
                self.record_problem(step, "the server got another answer", line);
            }
            let rounds = step["rounds"].as_u64().unwrap_or(1);
            if result["rounds"] != rounds {
                self.record_problem(step, "other rounds", line);
            }
            if self.pair.server == Implementation::Own {
                // The state before the last round came back with the answers of the rounds before.
                let before = step["asked"].as_array().map_or(0, Vec::len) as u64;
                let before = if rounds > 1 { before - 1 } else { 0 };
                if result["state"] != format!("{before} answered") {
                    self.record_problem(step, "another state", line);
                }
            }
        } else if step["refused"] == true {
            // A legacy server gets an answer. A modern one gets none (MRTR-031), and the caller has the error.
            let error = if modern { &line["error"] } else { &result["refused"] };
            let message = error["message"].as_str().unwrap_or_default();
            if error["code"] != -1 || !message.contains("not today") {
                self.record_problem(step, "not refused", line);
            }
        } else if step["given-up"] == true {
            let stays =
                self.pair.known_difference("stays asked", step["step"].as_str().expect("a name")).is_some();
            if !line["gave-up"].is_string() || line["aborted"] != u64::from(!stays) {
                self.record_problem(step, "not cancelled on both sides", line);
            }
        } else if step["timed-out"] == true {
            let is_reported = self.pair.client == Implementation::Own || line["aborted"] == 1;
            if result["timed-out"] != true || !is_reported {
                self.record_problem(step, "the server did not time out, or did not report it", line);
            }
        } else if step.get("lacks").is_some() {
            self.check_undeclared(step, line);
        } else if step["page-first"] == true {
            let pages = json!({"elicitations": [conversation()["questions"]["page"]["params"]]});
            if line["error"]["code"] != -32042 || !matches_expected(&line["error"]["data"], &pages) {
                self.record_problem(step, "no URL elicitation required", line);
            }
        } else if step["unfit"] == true {
            self.check_unsupported(step, line);
        } else if step.get("tool").is_some() && *result != json!({}) {
            self.record_problem(step, "not done", line);
        }
    }

    /// Checks that the client gets no input request for a capability that it did not declare.
    fn check_undeclared(&self, step: &Value, line: &Value) {
        let is_expected = if self.pair.server == Implementation::Own {
            let error = &line["error"];
            // The error code exists in the modern era only (ERR-007).
            let code = if self.pair.is_modern() { -32021 } else { -32600 };
            error["code"] == code && matches_expected(&error["data"]["requiredCapabilities"], &step["lacks"])
        } else if self.pair.known_difference("asks", step["step"].as_str().expect("a name")).is_some() {
            // Then our client refuses it (SAMP-009, ELIC-031).
            line["not-declared"].is_string()
        } else {
            // SDK servers report this in different ways, or send the request anyway and get "method not found" (from
            // our client at least). For roots, no legacy SDK checks the capability (ERR-021).
            let is_unknown_method = line["result"]["refused"]["code"] == -32601;
            let must_be = step["step"] == "roots" && !self.pair.is_modern();
            is_unknown_method || !must_be && (line["error"].is_object() || line["failed"].is_string())
        };
        if !is_expected {
            self.record_problem(step, "not refused as expected", line);
        }
    }

    /// Checks a step in which the client answers a form wrongly, and correctly when asked again.
    fn check_unsupported(&self, step: &Value, line: &Value) {
        let asked = line["asked"].as_array().map_or(0, Vec::len);
        let is_expected = if self.pair.client == Implementation::Own {
            // Our client checks the answer against the form (ELIC-020).
            let error = if self.pair.is_modern() { &line["error"] } else { &line["result"]["refused"] };
            asked == 1 && error["message"].as_str().is_some_and(|message| message.contains("does not fit"))
        } else {
            // The others do not, and our server asks again (MRTR-027).
            asked == 2
                && line["result"]["rounds"] == 2
                && line["result"]["said"]["who"]["content"]["name"] == "Xe"
        };
        if !is_expected {
            self.record_problem(step, "the wrong answer was accepted, or no corrected one followed", line);
        }
    }

    /// Checks logs, change notifications and subscriptions.
    fn check_notifications(&self, step: &Value, line: &Value) {
        let count = step["logs"].as_u64().or_else(|| step["logs"][self.pair.era].as_u64());
        if let Some(count) = count {
            let all = conversation()["logs"].as_array().expect("logs");
            let wanted = &all[all.len() - usize::try_from(count).expect("few")..];
            if line["logs"] != json!(wanted) {
                self.record_problem(step, "other logs", line);
            }
        }
        if let Some(changes) = step.get("news") {
            // A legacy server notifies every client of list changes.
            let changes = changes.get(self.pair.era).unwrap_or(changes);
            if line["news"] != *changes {
                self.record_problem(step, &format!("expected the changes {changes}"), line);
            }
        }
        if step.get("tool").is_some() {
            let none = json!([]);
            let completed =
                if self.pair.is_modern() { &none } else { step.get("completed").unwrap_or(&none) };
            if line["completed"] != *completed {
                self.record_problem(step, "other URL elicitations than expected", line);
            }
        }
        if step.get("ended").is_some_and(|ended| line["ended"] != *ended) {
            self.record_problem(step, "the subscription did not end as expected", line);
        }
        if let (Some(honoured), Some(wanted)) = (line.get("honoured"), step.get("subscribe")) {
            if honoured != wanted {
                self.record_problem(step, "the filter is not fully honoured", line);
            }
        }
        if self.pair.client == Implementation::Own {
            // Our client answers the input request before it reads the cancellation.
            // A change that was published before the end of a subscription may arrive after it.
            let overtaken = |d: &&Value| {
                d.as_str().is_some_and(|text| {
                    text.starts_with("UnsolicitedNotification(\"notifications/resources/")
                }) && self.pair.transport != InteropTransport::Stdio
            };
            let diagnostics = line["odd"].as_array().map_or(&[][..], Vec::as_slice);
            let diagnostics: Vec<_> = diagnostics.iter().filter(|d| !overtaken(d)).collect();
            let late = |d: &Value| d.as_str().is_some_and(|text| text.starts_with("UnknownCancellation("));
            let timed_out = step["timed-out"] == true;
            // Over HTTP the cancellation may arrive on another stream, after the result.
            let is_missing =
                timed_out && diagnostics.is_empty() && self.pair.transport == InteropTransport::Stdio;
            if is_missing || (!timed_out && !diagnostics.is_empty()) || !diagnostics.iter().all(|d| late(d)) {
                self.record_problem(step, "unexpected diagnostics", line);
            }
        }
    }

    /// Checks the log of the server.
    fn check_server_log(&self) {
        let end = json!({"event": "end", "ok": true});
        if self.server_log.last() != Some(&end) {
            self.record_problem(&json!({}), "the server did not exit with success", &json!(self.server_log));
        }
        let roots = json!({"event": "notification", "method": "notifications/roots/list_changed"});
        let count = self.server_log.iter().filter(|logged| **logged == roots).count();
        if count != usize::from(self.has("news") && !self.pair.is_modern()) {
            self.record_problem(
                &json!({}),
                "other change notifications for roots than expected",
                &json!(self.server_log),
            );
        }
        if self.pair.server == Implementation::Own {
            self.check_own_server_log();
        }
    }

    fn has(&self, part: &str) -> bool {
        self.parts.split(',').any(|other| other == part)
    }

    fn logged_events(&self, event: &str) -> impl Iterator<Item = &Value> {
        self.server_log.iter().filter(move |logged| logged["event"] == event)
    }

    /// Checks the log of our server: how often each call was delivered, and no diagnostics.
    fn check_own_server_log(&self) {
        let modern = self.pair.is_modern();
        let mut wanted = Vec::new();
        for step in &self.steps {
            let Some(name) = ["tool", "prompt", "read"].iter().find_map(|kind| step.get(kind)) else {
                continue;
            };
            let retries = match step["rounds"].as_u64() {
                Some(rounds) => rounds,
                None if self
                    .pair
                    .known_difference("cannot", step["step"].as_str().expect("a name"))
                    .is_some() =>
                {
                    continue;
                }
                None if step["unfit"] == true && self.pair.client != Implementation::Own => 2,
                // The call has been cancelled, so it is not delivered again.
                None if step["given-up"] == true => 0,
                // A modern client does not retry the call (MRTR-031).
                None if modern && (step["refused"] == true || step["unfit"] == true) => 0,
                None if step.get("answers").is_some() => 1,
                None => 0,
            };
            wanted.extend((0..=retries).map(|attempt| (name.clone(), json!(attempt))));
        }
        let calls: Vec<_> =
            self.logged_events("call").map(|call| (call["of"].clone(), call["attempt"].clone())).collect();
        if calls != wanted {
            self.record_problem(&json!({}), "other deliveries", &json!(self.server_log));
        }
        if self.has("news") {
            self.check_interest();
        }
        // Sent by our client before it reads the cancellation, or by a client that is not notified of it.
        let late = self.parts == "time-out" && self.pair.client == Implementation::Own
            || self.has("answers")
                && self.pair.known_difference("stays asked", "given up by the client").is_some();
        let is = |logged: &Value, prefix: &str| {
            logged["what"].as_str().is_some_and(|text| text.starts_with(prefix))
        };
        let is_twice = |logged: &&Value| is(logged, "UnknownCancellation(\"listen:");
        let twice = self.has("news") && self.pair.known_difference("cancels twice", "unsubscribe").is_some();
        if self.logged_events("diagnostic").filter(is_twice).count() != usize::from(twice) {
            self.record_problem(
                &json!({}),
                "not cancelled twice, contrary to the table of differences",
                &json!(self.server_log),
            );
        }
        let fails = if self.parts == "poor" { wanted.len() } else { 0 };
        if self.logged_events("failed").count() != fails
            || !self
                .logged_events("diagnostic")
                .all(|logged| late && is(logged, "LateResponse(") || is_twice(&logged))
        {
            self.record_problem(
                &json!({}),
                "our server logged unexpected diagnostics",
                &json!(self.server_log),
            );
        }
    }

    /// Checks that our application learned when the first client followed a resource and when the last one stopped.
    fn check_interest(&self) {
        let interest = |wanted: bool| json!({"event": "interest", "uri": "note://one", "wanted": wanted});
        let one = |logged: &&Value| logged["uri"] == "note://one";
        if !self.logged_events("interest").filter(one).eq([&interest(true), &interest(false)]) {
            self.record_problem(&json!({}), "other interest", &json!(self.server_log));
        }
    }

    /// Checks that the server noticed the death of its client, ended the call, and exited in order.
    ///
    /// # Errors
    ///
    /// All differences from that.
    pub(super) fn check_vanished(&self) -> Result<(), String> {
        self.check_end_after_vanishing();
        self.outcome(())
    }

    fn check_end_after_vanishing(&self) {
        let step = &conversation()["steps"]["vanish"][1];
        if self.output.succeeded() || self.client_lines.len() != 2 {
            self.record_problem(step, "the client did not vanish", &json!(self.client_lines));
        }
        let Some(end) = self.server_log.last() else {
            return self.record_problem(step, "empty server log", &Value::Null);
        };
        // What a client of ours has started is ended two seconds after it, if it has not ended by itself.
        let is_ended = self.pair.client == Implementation::Own
            && self.pair.transport == InteropTransport::Stdio
            && self.pair.known_difference("outlives", "vanish").is_some();
        if is_ended && end["event"] != "end" && self.logged_events("call").count() == 1 {
            return;
        }
        // After the timeout of its input request, our server delivers the call again.
        let retries = self.logged_events("gave-up").count() > 0 && self.pair.server == Implementation::Own;
        if self.logged_events("call").count() != 1 + usize::from(retries) || end["event"] != "end" {
            self.record_problem(step, "the call continued", &json!(self.server_log));
        }
        if self.pair.transport != InteropTransport::Stdio {
            // Not caused by the client: the test stopped the server.
            return;
        }
        if self.pair.server == Implementation::Own {
            self.check_interest();
        }
        let ends_badly = self.pair.known_difference("ends badly", "vanish").is_some();
        if end["ok"] == ends_badly {
            self.record_problem(step, "unexpected end of the server", &json!(self.server_log));
        }
        // A modern server does not wait, and our handler is not running at that time.
        let waits = !self.pair.is_modern() && self.pair.server != Implementation::Own;
        let notices = waits && self.pair.known_difference("outlives", "vanish").is_none();
        if notices != (self.logged_events("aborted").count() > 0) {
            self.record_problem(
                step,
                "the death of the client was not noticed as expected",
                &json!(self.server_log),
            );
        }
    }
}

/// Returns whether a value has all wanted members; objects may have more.
fn matches_expected(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| value.get(name).is_some_and(|value| matches_expected(value, wanted))),
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len() && value.iter().zip(wanted).all(|(v, w)| matches_expected(v, w))
        }
        // 1 and 1.0 are the same number, and some languages do not distinguish them.
        (Value::Number(value), Value::Number(wanted)) => value.as_f64() == wanted.as_f64(),
        _ => value == wanted,
    }
}
