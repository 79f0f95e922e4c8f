//! One conversation with the server on each adapter, over stdio and HTTP, in both eras.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use mcp_blocking::mcp_proto::client::Config;
use mcp_blocking::mcp_proto::model::{PromptReference, ResourceTemplateReference, SubscriptionFilter};
use mcp_blocking::mcp_proto::{Change, Era, VersionSet};
use mcp_blocking::{Client, ClientHandler, Error, Program};
use mcp_notes::store::Store;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-notes");
const DEADLINE: Duration = Duration::from_secs(60);

/// A database in a folder of its own, which is removed on drop.
struct Database(PathBuf);

impl Database {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("mcp-notes-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("notes.db")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The server as a process that listens; killed on drop.
struct HttpProcess(Child);

impl HttpProcess {
    /// Returns the process and its URL.
    fn spawn(adapter: &str, database: &Path) -> (Self, String) {
        let mut command = Command::new(PROGRAM);
        command.arg(adapter).arg(database).arg("127.0.0.1:0").stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut url).unwrap();
        (Self(process), url.trim().to_owned())
    }
}

impl Drop for HttpProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct ChangeRecorder(Sender<Change>);

impl ClientHandler for ChangeRecorder {
    fn changed(&self, change: &Change) {
        let _ = self.0.send(change.clone());
    }
}

/// Calls a tool. Returns the text of its result, as an error if the tool failed.
fn call(client: &mut Client, tool: &str, arguments: Value) -> Result<String, String> {
    let result = client.call_tool(tool, &arguments).unwrap();
    let text = result.content.first().and_then(|content| content.as_text()).unwrap_or_default().to_owned();
    if result.is_failure() { Err(text) } else { Ok(text) }
}

fn entries_have_titles_and_annotations(client: &mut Client) {
    let tools = client.list_tools().unwrap();
    let seen: Vec<_> = tools
        .iter()
        .map(|tool| {
            let hints = tool.annotations.as_ref().unwrap();
            (&*tool.name, tool.display_name(), hints.is_read_only(), hints.is_destructive())
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("add", "Add a note", false, false),
            ("search", "Search notes", true, false),
            ("remove", "Remove a note", false, true),
            ("import", "Import notes", false, false),
        ]
    );
    assert_eq!(client.list_resources().unwrap()[0].title.as_deref(), Some("All notes"));
    assert_eq!(client.list_resource_templates().unwrap()[0].uri_template, "note://{id}");
    assert_eq!(client.list_prompts().unwrap()[0].arguments[0].title.as_deref(), Some("Note"));
}

fn tools_share_the_store_and_explain_their_errors(client: &mut Client) {
    let added = client.call_tool("add", &json!({"title": "Tides", "body": "High at six"})).unwrap();
    let note: Value = added.parse_structured().unwrap();
    assert_eq!(note, json!({"id": 1, "title": "Tides", "body": "High at six"}));
    let taken = call(client, "add", json!({"title": "Tides"})).unwrap_err();
    assert_eq!(taken, r#"there is a note titled "Tides" already"#);
    assert_eq!(call(client, "add", json!({"title": " "})).unwrap_err(), "a note must have a title");
    let imported = call(client, "import", json!({"text": "Wind: west\nSky: grey"}));
    assert_eq!(imported.unwrap(), "2 notes added");
    // The whole chain of causes.
    let failed = call(client, "import", json!({"text": "Sea: calm\nTides: again"})).unwrap_err();
    assert_eq!(failed, r#"line 2: there is a note titled "Tides" already"#);
    assert_eq!(call(client, "import", json!({"text": "Sea"})).unwrap_err(), "line 1 has no colon");
    let found = client.call_tool("search", &json!({"text": "es"})).unwrap();
    let found: Value = found.parse_structured().unwrap();
    let titles = [&found["notes"][0]["title"], &found["notes"][1]["title"]];
    assert_eq!(titles, ["Tides", "Wind"]);
    let missing = call(client, "remove", json!({"id": 99})).unwrap_err();
    assert_eq!(missing, "there is no note 99; `search` finds notes");
}

fn resources_prompts_and_completions_read_the_store(client: &mut Client) {
    let index = client.read_resource("notes://index").unwrap();
    assert_eq!(index.contents[0].as_text(), Some("1 Tides\n2 Wind\n3 Sky\n4 Sea\n"));
    let note = client.read_resource("note://1").unwrap();
    assert_eq!(note.contents[0].as_text(), Some("# Tides\n\nHigh at six\n"));
    assert_eq!(note.contents[0].mime_type(), Some("text/markdown"));
    let error = client.read_resource("note://99").unwrap_err();
    assert!(matches!(&error, Error::Call(error) if error.to_string().contains("not found")), "{error}");
    let prompt = client.get_prompt("summarize", &json!({"id": "2", "style": "poem"})).unwrap();
    let text = prompt.messages[0].content.as_text().unwrap().to_owned();
    assert_eq!(text, "Summarize this note as poem:\n\n# Wind\n\nwest");
    let styles = client.complete(PromptReference::new("summarize"), "style", "p").unwrap();
    assert_eq!(styles.completion.values[0], "poem");
    let ids = client.complete(ResourceTemplateReference::new("note://{id}"), "id", "3").unwrap();
    assert_eq!(ids.completion.values, ["3"]);
}

/// Another connection to the database stands for another process.
fn subscriber_learns_of_changes_by_others(client: &mut Client, database: &Path, changes: &Receiver<Change>) {
    let filter =
        SubscriptionFilter::new().resource_subscriptions(["note://2".into(), "notes://index".into()]);
    client.subscribe(&filter).unwrap();
    while changes.try_recv().is_ok() {}
    let other = Store::open(database).unwrap();
    other.remove(3).unwrap();
    other.remove(2).unwrap();
    let end = Instant::now() + DEADLINE;
    let mut seen = Vec::new();
    for wanted in ["notes://index", "note://2"].map(|uri| Change::Resource(uri.into())) {
        while !seen.contains(&wanted) {
            assert!(Instant::now() < end, "no {wanted:?}, but {seen:?}");
            client.poll(Duration::from_millis(100)).unwrap();
            seen.extend(changes.try_iter());
        }
    }
    assert!(!seen.contains(&Change::Resource("note://3".into())), "not subscribed: {seen:?}");
    let index = client.read_resource("notes://index").unwrap();
    assert_eq!(index.contents[0].as_text(), Some("1 Tides\n4 Sea\n"));
}

fn converse(adapter: &str, over_http: bool) {
    for era in [Era::Legacy, Era::Modern] {
        let database = Database::new(&format!("{adapter}-{over_http}-{era:?}"));
        let (report, changes) = mpsc::channel();
        let config = Config::new("test", "1").versions(VersionSet::ALL.era(era));
        let options = Client::options(config).handler(ChangeRecorder(report));
        let (mut client, server) = if over_http {
            let (server, url) = HttpProcess::spawn(adapter, &database.path());
            (options.connect_url(&url).unwrap(), Some(server))
        } else {
            let program = Program::new(PROGRAM).arg(adapter).arg(database.path());
            (options.spawn(program).unwrap(), None)
        };
        assert_eq!(client.peer().version.era(), era);
        entries_have_titles_and_annotations(&mut client);
        tools_share_the_store_and_explain_their_errors(&mut client);
        resources_prompts_and_completions_read_the_store(&mut client);
        subscriber_learns_of_changes_by_others(&mut client, &database.path(), &changes);
        let report = client.close().unwrap();
        assert_eq!(report.is_some(), !over_http, "only a process is reported on");
        assert!(
            report.is_none_or(|report| report.status.is_some_and(|status| status.success())),
            "{adapter} {era:?}"
        );
        drop(server);
    }
}

macro_rules! conversations {
    ($($name:ident: $adapter:literal, $over_http:literal;)*) => {$(
        #[test]
        fn $name() {
            converse($adapter, $over_http);
        }
    )*};
}

conversations! {
    blocking_serves_notes_on_stdio: "blocking", false;
    blocking_serves_notes_over_http: "blocking", true;
    threads_serves_notes_on_stdio: "threads", false;
    threads_serves_notes_over_http: "threads", true;
    smol_serves_notes_on_stdio: "smol", false;
    smol_serves_notes_over_http: "smol", true;
}
