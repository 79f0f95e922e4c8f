//! Conversations in both directions: who asks, who answers, who is told what, with all that can come of it
//!
//! `peers/talk.json` has what is asked, the steps, and what is to come of each; every client reports what it saw of a
//! step, every server notes what only it can see, and here both are compared. Ours are `src/bin/talker`, made of
//! `mcp_blocking` as its users have it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use serde_json::{Value, json};

use crate::peers::{node, node_ready, package, python, python_program, python_ready};
use crate::run::{DEADLINE, Done, run, say};
use crate::{LEGACY, MODERN};

/// How long our server waits for answers in the part `time-out`; their servers as well.
const TIME_OUT_MS: &str = "300";

/// Who talks
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sdk {
    Ours,
    /// `@modelcontextprotocol/sdk` 1.32.2
    Typescript1,
    /// `@modelcontextprotocol/client` and `server` 2.4.0
    Typescript2,
    /// `mcp` 2.3.0
    Python,
}

impl Sdk {
    fn ready(self) -> bool {
        match self {
            Self::Ours => true,
            Self::Typescript1 | Self::Typescript2 => node_ready(),
            Self::Python => python_ready(),
        }
    }

    fn program(self, role: &str) -> Vec<OsString> {
        match self {
            Self::Ours => {
                let role = if role == "server" { "serve" } else { role };
                vec![env!("CARGO_BIN_EXE_talker").into(), role.into(), talk_file().into()]
            }
            Self::Typescript1 | Self::Typescript2 => {
                let generation = if self == Self::Typescript1 { "1" } else { "2" };
                let script = node().join(format!("talk-{role}.mjs"));
                vec!["node".into(), script.into(), talk_file().into(), "--sdk".into(), generation.into()]
            }
            Self::Python => {
                let script = python().join(format!("talk_{role}.py"));
                vec![python_program().into(), script.into(), talk_file().into()]
            }
        }
    }
}

fn talk_file() -> PathBuf {
    package().join("peers").join("talk.json")
}

fn talk() -> &'static Value {
    static TALK: OnceLock<Value> = OnceLock::new();
    TALK.get_or_init(|| {
        serde_json::from_slice(&fs::read(talk_file()).expect("a file of ours")).expect("JSON")
    })
}

/// A pair of programs in an era
#[derive(Clone, Copy, Debug)]
struct Pair {
    client: Sdk,
    server: Sdk,
    era: &'static str,
}

/// What both sides said of one run
struct Told {
    pair: Pair,
    part: &'static str,
    lines: Vec<Value>,
    noted: Vec<Value>,
    done: Done,
}

impl Pair {
    fn run(self, part: &'static str) -> Told {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let log = env::temp_dir().join(format!("mcp-interop-talk-{}-{number}.log", std::process::id()));
        let mut words = self.client.program("client").into_iter();
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["--era", self.era, "--part", part]);
        if self.client == Sdk::Ours {
            command.arg("--log").arg(&log);
        }
        command.arg("--").args(self.server.program("server"));
        if self.server != Sdk::Python {
            command.args(["--era", self.era]);
        }
        command.arg("--log").arg(&log);
        if part == "time-out" {
            command.args(["--time-out", TIME_OUT_MS]);
        }
        let done = run(command, DEADLINE).expect("the client starts");
        let parsed = |text: &str| -> Vec<Value> {
            let line = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}: {done}"));
            text.lines().map(line).collect()
        };
        let noted = parsed(&fs::read_to_string(&log).unwrap_or_default());
        let _ = fs::remove_file(&log);
        Told { pair: self, part, lines: parsed(&done.stdout), noted, done }
    }

    const fn is_modern(self) -> bool {
        matches!(self.era.as_bytes(), b"modern")
    }

    /// All parts of the conversation
    fn talks(self) {
        if !self.client.ready() || !self.server.ready() {
            return;
        }
        let mut counts = Vec::new();
        for part in ["answers", "time-out", "logs", "news"] {
            // A modern server holds nothing open while it waits (MRTR-025), so nothing of it can time out.
            if part == "time-out" && self.is_modern() {
                continue;
            }
            let told = self.run(part);
            counts.push(format!("{part} {}", told.check()));
        }
        self.run("vanish").check_vanished();
        let Self { client, server, era } = self;
        say(&format!("interop, {client:?} asked by {server:?}, {era}: {}, vanish", counts.join(", ")));
    }
}

impl Told {
    #[track_caller]
    fn wrong(&self, step: &Value, why: &str, what: &Value) -> ! {
        let (pair, part, done) = (self.pair, self.part, &self.done);
        let noted: Vec<String> = self.noted.iter().map(Value::to_string).collect();
        panic!("{pair:?}, {part}, {}: {why}: {what}\n{done}\n-- noted:\n{}", step["step"], noted.join("\n"));
    }

    /// Compares all steps; how many there were
    fn check(&self) -> usize {
        let done = &self.done;
        assert!(done.succeeded(), "{:?}, {}: {done}", self.pair, self.part);
        let steps = talk()["steps"][self.part].as_array().expect("a part");
        let [negotiated, lines @ .., end] = &*self.lines else { panic!("too little: {done}") };
        let revision = if self.pair.is_modern() { MODERN } else { LEGACY };
        assert_eq!(
            (negotiated["step"].as_str(), negotiated["version"].as_str()),
            (Some("negotiate"), Some(revision)),
            "{done}"
        );
        assert_eq!(lines.len(), steps.len(), "{done}");
        for (step, line) in steps.iter().zip(lines) {
            assert_eq!(step["step"], line["step"], "{done}");
            self.check_step(step, line);
        }
        assert_eq!(end["step"], "end", "{done}");
        assert_ne!(end.get("by-itself"), Some(&json!(false)), "the server had to be ended: {done}");
        self.check_notes();
        steps.len()
    }

    fn check_step(&self, step: &Value, line: &Value) {
        let pair = self.pair;
        if line["cannot"] == true {
            let known = CANNOT.iter().any(|(sdk, era, name, _)| {
                *sdk == pair.client && era.is_none_or(|era| era == pair.era) && step["step"] == *name
            });
            return if known { () } else { self.wrong(step, "the client says that it cannot", line) };
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
            if !line["gave-up"].is_string() || line["aborted"] != 1 {
                self.wrong(step, "not given up, on both sides", line);
            }
        } else if step["timed-out"] == true {
            if result["timed-out"] != true {
                self.wrong(step, "the server did not give up", line);
            }
        } else if step.get("tool").is_some() && *result != json!({}) {
            self.wrong(step, "not done", line);
        }
    }

    /// Logs, news and the like
    fn check_told(&self, step: &Value, line: &Value) {
        if let Some(count) = step["logs"].as_u64() {
            let all = talk()["logs"].as_array().expect("logs");
            let wanted = &all[all.len() - usize::try_from(count).expect("few")..];
            if line["logs"] != json!(wanted) {
                self.wrong(step, "other logs", line);
            }
        }
        if let Some(news) = step.get("news") {
            let news = self.news(step, news);
            if line["news"] != news {
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
        if let (Some(honoured), Some(wanted)) = (line.get("honoured"), step.get("subscribe")) {
            if honoured != wanted {
                self.wrong(step, "not all is honoured", line);
            }
        }
        if self.pair.client == Sdk::Ours {
            // Before it reads that a question is taken back, this client has answered it.
            let odd = line["odd"].as_array().map_or(&[][..], Vec::as_slice);
            let late = |odd: &Value| odd.as_str().is_some_and(|odd| odd.starts_with("UnknownCancel("));
            if odd.is_empty() == (step["timed-out"] == true) || !odd.iter().all(late) {
                self.wrong(step, "odd", line);
            }
        }
    }

    /// What a client is told in a step
    ///
    /// A legacy server tells everybody of its lists.
    fn news(&self, step: &Value, news: &Value) -> Value {
        let what = &step["arguments"]["what"];
        let is_list = what.as_str().is_some_and(|what| !what.contains(':'));
        if is_list && !self.pair.is_modern() {
            return json!([what]);
        }
        news.clone()
    }

    /// What the server saw
    fn check_notes(&self) {
        let end = json!({"event": "end", "ok": true});
        if self.noted.last() != Some(&end) {
            self.wrong(&json!({}), "the server did not end well", &json!(self.noted));
        }
        let is_odd = |noted: &&Value| match noted["event"].as_str() {
            Some("failed") => true,
            // Said by our client before it reads that the question was taken back.
            Some("diagnostic") => {
                let what = noted["what"].as_str().unwrap_or_default();
                !(self.part == "time-out" && self.pair.client == Sdk::Ours && what.starts_with("LateResponse"))
            }
            _ => false,
        };
        if self.pair.server == Sdk::Ours && self.noted.iter().any(|noted| is_odd(&noted)) {
            self.wrong(&json!({}), "our server noted something odd", &json!(self.noted));
        }
        if self.pair.server == Sdk::Ours && self.part == "news" {
            let interest: Vec<_> = self.noted.iter().filter(|noted| noted["event"] == "interest").collect();
            let told = |wanted: bool| json!({"event": "interest", "uri": "note://one", "wanted": wanted});
            if interest != [&told(true), &told(false)] {
                self.wrong(&json!({}), "other interest", &json!(self.noted));
            }
        }
        let roots = json!({"event": "notification", "method": "notifications/roots/list_changed"});
        let told = self.noted.iter().filter(|noted| **noted == roots).count();
        if told != usize::from(self.part == "news" && !self.pair.is_modern()) {
            self.wrong(&json!({}), "news of roots", &json!(self.noted));
        }
    }

    /// The client died while it was asked: the server has seen it, gave the call up, and ended in good order
    fn check_vanished(&self) {
        let step = &talk()["steps"]["vanish"][0];
        if self.done.succeeded() || self.lines.len() != 1 {
            self.wrong(step, "the client did not vanish", &json!(self.lines));
        }
        let calls = self.noted.iter().filter(|noted| noted["event"] == "call").count();
        if calls != 1 {
            self.wrong(step, "the call was delivered again", &json!(self.noted));
        }
        self.check_notes();
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

/// What a client cannot do, in an era or both, at which step, and why
const CANNOT: &[(Sdk, Option<&str>, &str, &str)] = &[
    (Sdk::Ours, None, "given up by the client", "its handlers answer before anything else happens (TIME-008)"),
    (Sdk::Typescript2, Some("modern"), "roots", "the revision has no news of roots (ROOT-004)"),
    (Sdk::Python, Some("modern"), "roots", "the revision has no news of roots (ROOT-004)"),
];

#[test]
fn our_server_asks_typescript_1() {
    Pair { client: Sdk::Typescript1, server: Sdk::Ours, era: "legacy" }.talks();
}

#[test]
fn our_server_asks_typescript_2_legacy() {
    Pair { client: Sdk::Typescript2, server: Sdk::Ours, era: "legacy" }.talks();
}

#[test]
fn our_server_asks_typescript_2_modern() {
    Pair { client: Sdk::Typescript2, server: Sdk::Ours, era: "modern" }.talks();
}

#[test]
fn our_server_asks_python_legacy() {
    Pair { client: Sdk::Python, server: Sdk::Ours, era: "legacy" }.talks();
}

#[test]
fn our_server_asks_python_modern() {
    Pair { client: Sdk::Python, server: Sdk::Ours, era: "modern" }.talks();
}

#[test]
fn our_client_answers_typescript_1() {
    Pair { client: Sdk::Ours, server: Sdk::Typescript1, era: "legacy" }.talks();
}

#[test]
fn our_client_answers_typescript_2_legacy() {
    Pair { client: Sdk::Ours, server: Sdk::Typescript2, era: "legacy" }.talks();
}

#[test]
fn our_client_answers_typescript_2_modern() {
    Pair { client: Sdk::Ours, server: Sdk::Typescript2, era: "modern" }.talks();
}

#[test]
fn our_client_answers_python_legacy() {
    Pair { client: Sdk::Ours, server: Sdk::Python, era: "legacy" }.talks();
}

#[test]
fn our_client_answers_python_modern() {
    Pair { client: Sdk::Ours, server: Sdk::Python, era: "modern" }.talks();
}

#[test]
fn our_client_answers_our_server() {
    for era in ["legacy", "modern"] {
        Pair { client: Sdk::Ours, server: Sdk::Ours, era }.talks();
    }
}
