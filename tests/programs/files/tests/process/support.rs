//! A folder to serve, and clients.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::{env, fs, process};

use mcp_threads::mcp_proto::client::Config;
use mcp_threads::mcp_proto::model::{CallToolResult, ListRootsResult, Root};
use mcp_threads::mcp_proto::{CallKey, Change, Era, VersionSet};
use mcp_threads::{Client, ClientHandler, Program, Progress, RpcError, Stderr};
use serde_json::{Value, json};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-files");

/// A canonical folder of its own, which is removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("mcp-files-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(folder.join("open/sub")).unwrap();
        fs::create_dir(folder.join("secret")).unwrap();
        fs::write(folder.join("open/a.txt"), "first\nsecond ü line\n").unwrap();
        fs::write(folder.join("open/sub/b c%.txt"), "line of b").unwrap();
        fs::write(folder.join("open/data"), b"\xff\x00line").unwrap();
        fs::write(folder.join("secret/key"), "secret line").unwrap();
        Self(folder.canonicalize().unwrap())
    }

    /// Returns the path of something in the folder that is served.
    pub fn open(&self, name: &str) -> String {
        self.0.join("open").join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Answers with roots, and records changes.
pub struct Handler {
    pub roots: Arc<Mutex<Vec<String>>>,
    pub changes: Mutex<mpsc::Sender<Change>>,
}

impl ClientHandler for Handler {
    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult::new(self.roots.lock().unwrap().iter().map(Root::new).collect()))
    }

    fn changed(&self, change: &Change) {
        let _ = self.changes.lock().unwrap().send(change.clone());
    }
}

pub fn connect(era: Era, folder: &Path) -> Client {
    connect_with(era, folder, Stderr::Capture)
}

pub fn connect_with(era: Era, folder: &Path, stderr: Stderr) -> Client {
    let config = Config::new("test", "1").versions(VersionSet::ALL.era(era));
    let program = Program::new(PROGRAM).arg("--write").arg(folder.join("open")).stderr(stderr);
    let client = Client::options(config).spawn(program).unwrap();
    assert_eq!(client.peer().version.era(), era);
    client
}

/// Calls a tool. Returns the text of its result, as an error if the tool failed.
pub fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, String> {
    let result: CallToolResult<'_> = client.call_tool(tool, &arguments).unwrap();
    let text = result.content[0].as_text().unwrap();
    if result.is_failure() {
        Err(text.to_owned())
    } else {
        Ok(serde_json::from_str(text).unwrap_or(json!(text)))
    }
}

pub fn uri(path: &str) -> String {
    format!("file://{}", path.replace('%', "%25").replace(' ', "%20"))
}

pub struct ProgressRecorder(pub Mutex<mpsc::Sender<()>>);

impl ClientHandler for ProgressRecorder {
    fn progress(&self, _: CallKey, _: &Progress) {
        let _ = self.0.lock().unwrap().send(());
    }
}
