//! Conversations in both directions: who asks, who answers, who is told what, with all that can come of it
//!
//! `peers/talk.json` has what is asked, the steps, and what is to come of each; every client reports what it saw of a
//! step, every server notes what only it can see, and here both are compared. Ours are `src/bin/talker`, made of
//! `mcp_blocking` as its users have it.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use mcp_proto::{Instant, VersionSet};
use mcp_tests::harness::Watch;
use mcp_tests::schema::Direction;
use serde_json::{Value, json};

use crate::peers::{node, node_ready, package, python, python_program, python_ready};
use crate::run::{DEADLINE, Done, run, say};
use crate::{LEGACY, MODERN};

/// How long our server waits for answers in the part `time-out`; their servers as well.
const TIME_OUT_MS: &str = "1000";

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
    /// Of `talk.json`
    steps: Vec<&'static Value>,
    parts: &'static str,
    lines: Vec<Value>,
    noted: Vec<Value>,
    done: Done,
}

impl Pair {
    /// Runs some parts of the conversation
    fn run(self, parts: &'static str) -> Told {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let log = env::temp_dir().join(format!("mcp-interop-talk-{}-{number}.log", std::process::id()));
        let mut words = self.client.program("client").into_iter();
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["--era", self.era, "--part", parts]);
        if self.client == Sdk::Ours {
            command.arg("--log").arg(&log);
        }
        command.arg("--").args(self.server.program("server"));
        if self.server != Sdk::Python {
            command.args(["--era", self.era]);
        }
        command.arg("--log").arg(&log);
        if parts == "time-out" || self.differs("outlives", "vanish").is_some() {
            command.args(["--time-out", TIME_OUT_MS]);
        }
        let done = run(command, DEADLINE).expect("the client starts");
        let parsed = |text: &str| -> Vec<Value> {
            let line =
                |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}: {done}"));
            text.lines().map(line).collect()
        };
        let noted = parsed(&fs::read_to_string(&log).unwrap_or_default());
        let _ = fs::remove_file(&log);
        for (sdk, role, direction) in [
            (self.client, "client", Direction::ClientToServer),
            (self.server, "server", Direction::ServerToClient),
        ] {
            if sdk == Sdk::Ours {
                self.check_wire(&log.with_extension(role), direction);
            }
        }
        let steps =
            parts.split(',').flat_map(|part| talk()["steps"][part].as_array().expect("a part")).collect();
        Told { pair: self, steps, parts, lines: parsed(&done.stdout), noted, done }
    }

    /// What our side wrote has to be right in itself, and valid in its revision
    fn check_wire(self, path: &Path, direction: Direction) {
        let wire = fs::read(path).expect("a file of our talker");
        let _ = fs::remove_file(path);
        let mut watch = Watch::new(if self.is_modern() { VersionSet::MODERN } else { VersionSet::LEGACY });
        for line in wire.split(|b| *b == b'\n') {
            match line {
                [b'>', line @ ..] => _ = watch.emitted(Instant::ZERO, direction, line),
                [b'<', line @ ..] => watch.fed(Instant::ZERO, direction.reverse(), line),
                _ => assert_eq!(line, b"", "a line of our talker's"),
            }
        }
        assert!(watch.messages.len() > 3, "{self:?}: nothing was looked at");
    }

    const fn is_modern(self) -> bool {
        matches!(self.era.as_bytes(), b"modern")
    }

    /// All parts of the conversation
    fn talks(self) {
        if !self.client.ready() || !self.server.ready() {
            return;
        }
        // As few processes as can be: what needs none of its own is one conversation. A legacy server does not end what
        // it was asked to tell; a modern one holds nothing open while it waits (MRTR-025), so nothing can time out.
        let runs = match self.is_modern() {
            true => ["answers,logs,news,farewell", "poor"],
            false => ["answers,gate,logs,news", "time-out"],
        };
        let mut counts: Vec<_> =
            runs.iter().map(|parts| format!("{parts} {}", self.run(parts).check())).collect();
        if !self.is_modern() {
            counts.push(format!("poor {}", self.run("poor").check()));
        }
        self.run("vanish").check_vanished();
        let Self { client, server, era } = self;
        say(&format!("interop, {client:?} asked by {server:?}, {era}: {}, vanish", counts.join(", ")));
    }
}

impl Told {
    #[track_caller]
    fn wrong(&self, step: &Value, why: &str, what: &Value) -> ! {
        let (pair, parts, done) = (self.pair, self.parts, &self.done);
        let noted: Vec<String> = self.noted.iter().map(Value::to_string).collect();
        panic!("{pair:?}, {parts}, {}: {why}: {what}\n{done}\n-- noted:\n{}", step["step"], noted.join("\n"));
    }

    /// Compares all steps; how many there were
    fn check(&self) -> usize {
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
            if self.pair.is_modern()
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
            if !line["gave-up"].is_string() || line["aborted"] != 1 {
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
            // Each has its own way to say so, or asks in spite of it and is told that there is no such method.
            let refused = &line["result"]["refused"];
            line["error"].is_object() || line["failed"].is_string() || refused["code"] == -32601
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
            if odd.is_empty() == (step["timed-out"] == true) || !odd.iter().all(late) {
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
            let again = match step["rounds"].as_u64() {
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
        // Said by our client before it reads that the question was taken back.
        let late = self.parts == "time-out" && self.pair.client == Sdk::Ours;
        let is_late =
            |noted: &Value| noted["what"].as_str().is_some_and(|what| what.starts_with("LateResponse("));
        let fails = if self.parts == "poor" { wanted.len() } else { 0 };
        if self.of("failed").count() != fails || !self.of("diagnostic").all(|noted| late && is_late(noted)) {
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
    fn check_vanished(&self) {
        let step = &talk()["steps"]["vanish"][1];
        if self.done.succeeded() || self.lines.len() != 2 {
            self.wrong(step, "the client did not vanish", &json!(self.lines));
        }
        let Some(end) = self.noted.last() else { self.wrong(step, "nothing noted", &Value::Null) };
        if self.of("call").count() != 1 || end["event"] != "end" {
            self.wrong(step, "the call went on", &json!(self.noted));
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

/// What differs from the file, at a step or a part of it
struct Row {
    sdk: Sdk,
    /// Which side it is on
    role: &'static str,
    era: Option<&'static str>,
    at: &'static str,
    /// `cannot`: the client reports that it has no way to do this; `ends badly`: the server fails; `outlives`: the
    /// server does not notice that its client is gone before its own time-out passes; `cut`: the server ends
    /// subscriptions in good order only together with the connection; `asks`:
    /// the server asks for what its client did not declare
    what: &'static str,
    why: &'static str,
}

/// All that differs; a row that is wrong, also because a later version can do more, fails the test.
const DIFFERENCES: &[Row] = &[
    Row {
        sdk: Sdk::Ours,
        role: "client",
        era: None,
        at: "given up by the client",
        what: "cannot",
        why: "mcp-blocking: handlers answer before anything else happens, and no time passes meanwhile (TIME-008)",
    },
    Row {
        sdk: Sdk::Typescript2,
        role: "client",
        era: Some("modern"),
        at: "roots changed",
        what: "cannot",
        why: "2.4.0: the revision has no news of roots (ROOT-004)",
    },
    Row {
        sdk: Sdk::Python,
        role: "client",
        era: Some("modern"),
        at: "roots changed",
        what: "cannot",
        why: "2.3.0: the revision has no news of roots (ROOT-004)",
    },
    Row {
        sdk: Sdk::Typescript1,
        role: "server",
        era: None,
        at: "vanish",
        what: "outlives",
        why: "1.32.2: its transport does not look for the end of stdin, and a question that is open keeps it alive",
    },
    Row {
        sdk: Sdk::Typescript1,
        role: "server",
        era: None,
        at: "vanish",
        what: "ends badly",
        why: "1.32.2: it takes its question back on a pipe that nobody reads any more, and fails with that",
    },
    Row {
        sdk: Sdk::Typescript2,
        role: "server",
        era: Some("modern"),
        at: "farewell",
        what: "cut",
        why: "2.4.0: `close()` of what `serveStdio` returns is the only way",
    },
    Row { at: "form", ..PYTHON_ASKS },
    Row { at: "page", ..PYTHON_ASKS },
    Row { at: "sampling", ..PYTHON_ASKS },
    Row { at: "sampling with tools", ..PYTHON_ASKS },
    Row { at: "roots", ..PYTHON_ASKS },
    Row {
        sdk: Sdk::Python,
        role: "server",
        era: None,
        at: "vanish",
        what: "ends badly",
        why: "2.3.0: it takes back its question, or ends a subscription, on a pipe that nobody reads any more",
    },
];

const PYTHON_ASKS: Row = Row {
    sdk: Sdk::Python,
    role: "server",
    era: Some("modern"),
    at: "",
    what: "asks",
    why: "2.3.0: the low-level server does not hold what it needs against what its client declared (MRTR-009)",
};

impl Pair {
    fn differs(self, what: &str, at: &str) -> Option<&'static Row> {
        DIFFERENCES.iter().find(|row| {
            let sdk = if row.role == "client" { self.client } else { self.server };
            row.what == what && row.at == at && row.sdk == sdk && row.era.is_none_or(|era| era == self.era)
        })
    }
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn our_server_asks_typescript_1() {
    Pair { client: Sdk::Typescript1, server: Sdk::Ours, era: "legacy" }.talks();
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn our_server_asks_typescript_2_legacy() {
    Pair { client: Sdk::Typescript2, server: Sdk::Ours, era: "legacy" }.talks();
}

// covers: MRTR-001, MRTR-002, MRTR-004, MRTR-006, MRTR-009, MRTR-010, MRTR-025, MRTR-026, ELIC-007, ELIC-020
// covers: ELIC-032, SAMP-003, ROOT-003, ERR-007, LOG-007, LOG-008, SUB-003, SUB-004, SUB-006, SUB-013, RES-012
// covers: RES-014, PROMPT-009, STDIO-021
#[test]
fn our_server_asks_typescript_2_modern() {
    Pair { client: Sdk::Typescript2, server: Sdk::Ours, era: "modern" }.talks();
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn our_server_asks_python_legacy() {
    Pair { client: Sdk::Python, server: Sdk::Ours, era: "legacy" }.talks();
}

// covers: MRTR-001, MRTR-002, MRTR-004, MRTR-006, MRTR-009, MRTR-010, MRTR-025, MRTR-026, ELIC-007, ELIC-020
// covers: ELIC-032, SAMP-003, ROOT-003, ERR-007, LOG-007, LOG-008, SUB-003, SUB-004, SUB-006, SUB-013, RES-012
// covers: RES-014, PROMPT-009, STDIO-021
#[test]
fn our_server_asks_python_modern() {
    Pair { client: Sdk::Python, server: Sdk::Ours, era: "modern" }.talks();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, LOG-004, RES-010, CANC-013
// covers: CANC-014
#[test]
fn our_client_answers_typescript_1() {
    Pair { client: Sdk::Ours, server: Sdk::Typescript1, era: "legacy" }.talks();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, LOG-004, RES-010, CANC-013
// covers: CANC-014
#[test]
fn our_client_answers_typescript_2_legacy() {
    Pair { client: Sdk::Ours, server: Sdk::Typescript2, era: "legacy" }.talks();
}

// covers: ELIC-002, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-027, ROOT-001, ROOT-007, MRTR-011, MRTR-012
// covers: MRTR-014, MRTR-018, MRTR-031, META-012, SUB-001, SUB-007, SUB-012, RES-013
#[test]
fn our_client_answers_typescript_2_modern() {
    Pair { client: Sdk::Ours, server: Sdk::Typescript2, era: "modern" }.talks();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, LOG-004, RES-010, CANC-013
// covers: CANC-014
#[test]
fn our_client_answers_python_legacy() {
    Pair { client: Sdk::Ours, server: Sdk::Python, era: "legacy" }.talks();
}

// covers: ELIC-002, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-027, SAMP-009, ROOT-001, ROOT-007, MRTR-011
// covers: MRTR-012, MRTR-014, MRTR-018, MRTR-031, META-012, SUB-001, SUB-007, SUB-012, RES-013
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
