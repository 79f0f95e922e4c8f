//! Conversations with the process of the server, in both eras.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use std::{env, fs, process};

use mcp_tokio::mcp_proto::client::{Config, StartedTask};
use mcp_tokio::mcp_proto::model::{CallToolResult, ResourceTemplateReference, SubscriptionFilter};
use mcp_tokio::mcp_proto::{CallOptions, Change, Era, VersionSet};
use mcp_tokio::{Client, ClientHandler, Error, Program, Progress, ShutdownTimeouts, Stderr};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-builds");
const DEADLINE: Duration = Duration::from_secs(30);
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A folder of its own, which is removed on drop.
struct Folder(PathBuf);

impl Folder {
    /// Creates the folder, with a configuration.
    fn new(config: &Value) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("mcp-builds-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("builds.json"), config.to_string()).unwrap();
        Self(folder)
    }

    fn config(&self) -> PathBuf {
        self.0.join("builds.json")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct ChangeRecorder(Sender<Change>);

impl ClientHandler for ChangeRecorder {
    fn changed(&self, change: &Change) {
        let _ = self.0.send(change.clone());
    }
}

async fn connect(era: Era, config: &Path) -> (Client, Receiver<Change>) {
    connect_with(Config::new("test", "1").versions(VersionSet::ALL.era(era)), config).await
}

async fn connect_with(client: Config, config: &Path) -> (Client, Receiver<Change>) {
    let (sender, changes) = mpsc::channel();
    let options = Client::options(client)
        .handler(ChangeRecorder(sender))
        .shutdown_timeouts(ShutdownTimeouts::uniform(Duration::from_millis(500)));
    let client = options.spawn(Program::new(PROGRAM).arg(config)).await.unwrap();
    // Progress and changes arrive between calls, too.
    tokio::spawn(client.run());
    (client, changes)
}

fn shell(script: &str) -> Value {
    json!(["sh", "-c", script])
}

/// Calls a tool, and passes the messages of its progress on.
async fn call(
    client: &Client,
    tool: &str,
    messages: Sender<String>,
) -> Result<CallToolResult<'static>, Error> {
    let mut on_progress =
        |progress: &Progress| _ = messages.send(progress.message.clone().unwrap_or_default());
    client.call_tool_with(tool, &json!({}), &CallOptions::new(), &mut on_progress).await
}

fn text<'a>(result: &'a CallToolResult<'_>) -> &'a str {
    result.content[0].as_text().unwrap()
}

/// Waits until a value is there.
async fn eventually<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(value) = poll() {
                return value;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, wait).await.expect("in time")
}

/// Reads the id of the process that a command has written to a file.
async fn written_pid(folder: &Folder) -> Pid {
    let read = || fs::read_to_string(folder.0.join("pid")).ok()?.trim().parse().ok();
    Pid::from_raw(eventually(read).await).unwrap()
}

/// Waits until a process has ended. It may stay a zombie: the first process of a container does not always reap.
async fn assert_ends(process: Pid) {
    let stat = format!("/proc/{}/stat", process.as_raw_nonzero());
    let is_zombie = || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "));
    eventually(|| (test_kill_process(process).is_err() || is_zombie()).then_some(())).await;
}

/// A command that starts another process, and waits for ever.
const STUCK: &str = "echo started; sleep 1000 & echo $! > pid.new; mv pid.new pid; wait";

#[tokio::test]
async fn output_is_progress_and_a_log_that_can_be_subscribed_to() {
    let script = "echo one; sleep 0.3; echo two >&2; sleep 0.3; printf '\\377three'; exit 3";
    let folder = Folder::new(&json!({"commands": {"build": shell(script)}}));
    for era in ERAS {
        let (client, changes) = connect(era, &folder.config()).await;
        assert_eq!(client.peer().version.era(), era);
        let filter = SubscriptionFilter::new().resource_subscriptions(["build://runs/1/log".into()]);
        client.subscribe(&filter).await.unwrap();
        let (sender, messages) = mpsc::channel();
        let result = call(&client, "build", sender).await.unwrap();
        let report: Value = result.parse_structured().unwrap();
        assert_eq!((&report["success"], &report["exit_code"]), (&json!(false), &json!(3)));
        assert_eq!(report["last_lines"], json!(["one", "two", "\u{fffd}three"]));
        let messages: Vec<String> = messages.try_iter().collect();
        assert!(messages.contains(&"two".into()), "{messages:?}");
        let log = client.read_resource(report["log"].as_str().unwrap()).await.unwrap();
        let expected = "one\ntwo\n\u{fffd}three\n[exit status: 3]\n";
        assert_eq!(log.contents[0].as_text(), Some(expected));
        let change = eventually(|| changes.try_recv().ok()).await;
        assert_eq!(change, Change::Resource("build://runs/1/log".into()));
        let reference = ResourceTemplateReference::new("build://runs/{run}/log");
        assert_eq!(client.complete(reference, "run", "").await.unwrap().completion.values, ["1"]);
        let missing = client.read_resource("build://runs/7/log").await.unwrap_err();
        assert!(missing.to_string().contains("not found"), "{missing}");
        assert!(client.close().await.unwrap().unwrap().status.unwrap().success());
    }
}

#[tokio::test]
async fn dropped_call_kills_the_whole_group() {
    let folder = Folder::new(&json!({"commands": {"build": shell(STUCK)}}));
    for era in ERAS {
        let (client, _changes) = connect(era, &folder.config()).await;
        let grandchild = tokio::select! {
            result = call(&client, "build", mpsc::channel().0) => panic!("{result:?}"),
            pid = written_pid(&folder) => pid,
        };
        assert_ends(grandchild).await;
        let log = client.read_resource("build://runs/1/log").await.unwrap();
        let log = log.contents[0].as_text().unwrap();
        assert!(log.ends_with("[cancelled]\n"), "{log}");
        fs::remove_file(folder.0.join("pid")).unwrap();
    }
}

#[tokio::test]
async fn time_limit_kills_the_group_and_names_the_last_lines() {
    let folder = Folder::new(&json!({"seconds": 1, "commands": {"build": shell(STUCK)}}));
    for era in ERAS {
        let (client, _changes) = connect(era, &folder.config()).await;
        let result = client.call_tool("build", &json!({})).await.unwrap();
        let expected =
            "stopped after 1 s, the time limit; the output is in build://runs/1/log and ends with:\nstarted";
        assert_eq!((result.is_failure(), text(&result)), (true, expected));
        assert_ends(written_pid(&folder).await).await;
        fs::remove_file(folder.0.join("pid")).unwrap();
    }
}

#[tokio::test]
async fn calls_wait_for_their_turn_and_are_refused_beyond_that() {
    let script = "while [ ! -e go ]; do sleep 0.02; done; echo done";
    let config = json!({"jobs": 1, "waiting": 1, "commands": {"build": shell(script)}});
    for era in ERAS {
        let folder = Folder::new(&config);
        let (client, _changes) = connect(era, &folder.config()).await;
        let start = |sender| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "build", sender).await })
        };
        let first = start(mpsc::channel().0);
        while client.read_resource("build://runs/1/log").await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
        let (sender, messages) = mpsc::channel();
        let second = start(sender);
        assert_eq!(eventually(|| messages.try_recv().ok()).await, "waiting for another build");
        let refused = client.call_tool("build", &json!({})).await.unwrap();
        assert_eq!(text(&refused), "2 builds run or wait already; try again later");
        fs::write(folder.0.join("go"), "").unwrap();
        for call in [first, second] {
            let result = call.await.unwrap().unwrap();
            let report: Value = result.parse_structured().unwrap();
            assert_eq!(report["last_lines"], json!(["done"]));
        }
    }
}

#[tokio::test]
async fn build_runs_as_a_task_until_it_is_cancelled() {
    let folder = Folder::new(&json!({"commands": {"build": shell(STUCK), "quick": ["true"]}}));
    for era in ERAS {
        let config = Config::new("test", "1").versions(VersionSet::ALL.era(era)).tasks();
        let (client, _changes) = connect_with(config, &folder.config()).await;
        let start = async |tool| match client.start_task(tool, &json!({}), None).await.unwrap() {
            StartedTask::Task(task) => task,
            other => panic!("no task: {other:?}"),
        };
        let quick = start("quick").await;
        let report: Value = client.wait_task(&quick).await.unwrap().parse_structured().unwrap();
        assert_eq!(report["success"], true);
        let stuck = start("build").await;
        let grandchild = written_pid(&folder).await;
        // The server may read the output later than this test reads the file.
        let said_started = async {
            while client.get_task(&stuck).await.unwrap().status_message.as_deref() != Some("started") {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(DEADLINE, said_started).await.expect("the last line as the message of the task");
        client.cancel_task(&stuck).await.unwrap();
        assert_ends(grandchild).await;
        fs::remove_file(folder.0.join("pid")).unwrap();
    }
}

#[tokio::test]
async fn log_is_bounded_and_keeps_the_end() {
    let script = "head -c 600000 /dev/zero | tr '\\0' x; echo; seq 100000; echo end";
    let folder = Folder::new(&json!({"commands": {"build": shell(script)}}));
    let (client, _changes) = connect(Era::Modern, &folder.config()).await;
    client.call_tool("build", &json!({})).await.unwrap();
    let log = client.read_resource("build://runs/1/log").await.unwrap();
    let log = log.contents[0].as_text().unwrap();
    assert!(log.starts_with('[') && log.lines().next().unwrap().ends_with(" lines dropped]"));
    assert!(log.ends_with("\n100000\nend\n[exit status: 0]\n") && log.len() < 257 * 1024, "{}", log.len());
}

#[tokio::test]
async fn end_of_the_server_ends_its_builds() {
    let folder = Folder::new(&json!({"commands": {"build": shell(STUCK)}}));
    let (client, _changes) = connect(Era::Modern, &folder.config()).await;
    let call = client.start_tool("build", &json!({}), &CallOptions::new()).unwrap();
    let grandchild = written_pid(&folder).await;
    // The end of its input lets calls finish; then comes `SIGTERM`.
    let report = client.close().await.unwrap().unwrap();
    assert!(report.status.unwrap().success(), "{report:?}");
    assert!(call.await.is_err());
    assert_ends(grandchild).await;
}

#[tokio::test]
async fn unusable_commands_and_configurations_are_named() {
    let folder = Folder::new(&json!({"commands": {"build": ["no-such-program"]}}));
    let (client, _changes) = connect(Era::Modern, &folder.config()).await;
    let result = client.call_tool("build", &json!({})).await.unwrap();
    assert_eq!(text(&result), "cannot start `no-such-program`: No such file or directory (os error 2)");
    for (config, problem) in [
        (json!({"commands": {"build": []}}), "the command `build` is empty"),
        (json!({"commands": {}, "jobs": 0}), "`jobs` must be at least 1"),
        (json!({"commands": {}, "shell": true}), "unknown field `shell`"),
        (json!({"commands": {"no spaces": ["true"]}}), "no spaces"),
    ] {
        let folder = Folder::new(&config);
        let program = Program::new(PROGRAM).arg(folder.config()).stderr(Stderr::Capture);
        let error = Client::spawn(program).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
}
