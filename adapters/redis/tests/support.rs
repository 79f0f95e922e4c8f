//! A `redis-server` for a test, and one that answers what the test wants.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Instant;
use std::{env, fs, io, thread};

use mcp_redis_store::session_store::{SessionName, SessionStore, Swap, Watch, Watched};
use mcp_redis_store::{RedisStore, Settings};

pub(crate) const LONG: Duration = Duration::from_secs(600);
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
pub(crate) const A: SessionName = SessionName([0xa1; 32]);

/// A server in a folder of its own, on a Unix socket.
pub(crate) struct Redis {
    folder: PathBuf,
    arguments: Vec<String>,
    child: Child,
}

impl Redis {
    /// Starts a server; `None` if none is installed.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("mcp-redis-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        match spawn(&folder, &arguments) {
            Ok(child) => {
                let server = Self { folder, arguments, child };
                server.wait_until_ready();
                Some(server)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_dir_all(&folder);
                let line = "NOT CHECKED: redis-server is not installed";
                // Not `eprintln!`: the test harness would capture the line and drop it.
                let _ = writeln!(io::stderr(), "{line}");
                assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
                None
            }
            Err(error) => panic!("redis-server: {error}"),
        }
    }

    fn wait_until_ready(&self) {
        let client = redis::Client::open(self.url("")).unwrap();
        let begun = Instant::now();
        loop {
            let answer = client.get_connection().and_then(|mut c| redis::cmd("PING").query::<String>(&mut c));
            match answer {
                Err(error) if error.is_io_error() || error.code() == Some("LOADING") => {
                    assert!(begun.elapsed() < DEADLINE, "redis-server does not answer: {error}");
                    thread::sleep(Duration::from_millis(5));
                }
                // Also without the password.
                _ => return,
            }
        }
    }

    pub(crate) fn url(&self, query: &str) -> String {
        format!("unix://{}/socket?{query}", self.folder.display())
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings::new(&self.url("")).unwrap()
    }

    pub(crate) fn store(&self) -> RedisStore {
        RedisStore::new(self.settings())
    }

    /// Runs a command on a connection of its own.
    pub(crate) fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = redis::Client::open(self.url("")).unwrap().get_connection().unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).query(&mut connection).unwrap()
    }

    /// Ends the server at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the server again.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.folder, &self.arguments).unwrap();
        self.wait_until_ready();
    }

    /// Stops the process, or lets it go on.
    pub(crate) fn signal(&self, signal: &str) {
        // In a Turkish locale, `kill` of procps refuses `-CONT`.
        let mut kill = Command::new("kill");
        kill.args([signal, &self.child.id().to_string()]).env("LC_ALL", "C");
        assert!(kill.status().unwrap().success());
    }
}

fn spawn(folder: &PathBuf, arguments: &Vec<String>) -> io::Result<Child> {
    Command::new("redis-server")
        .args(["--port", "0", "--unixsocket"])
        .arg(folder.join("socket"))
        .args(["--dir"])
        .arg(folder)
        .args(["--save", "", "--daemonize", "no"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A server that sends bytes after each request, to any number of connections, and closes a connection after its last answer.
pub(crate) struct Fake {
    pub(crate) url: String,
    /// What it received, in any order of connections.
    pub(crate) received: Arc<Mutex<Vec<u8>>>,
}

impl Fake {
    /// Starts a server that answers each connection like this. An answer of pieces is sent with pauses.
    pub(crate) fn start(answers: Vec<Vec<&'static [u8]>>, pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (keep, answers) = (received.clone(), Arc::new(answers));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (keep, answers) = (keep.clone(), answers.clone());
                thread::spawn(move || answer(stream, &answers, pause, &keep));
            }
        });
        Self { url, received }
    }

    pub(crate) fn store(&self) -> RedisStore {
        self.store_with(DEADLINE / 2)
    }

    /// Opens a store that waits for no answer for long.
    pub(crate) fn hasty_store(&self) -> RedisStore {
        self.store_with(Duration::from_millis(300))
    }

    fn store_with(&self, answer_timeout: Duration) -> RedisStore {
        RedisStore::new(Settings::new(&self.url).unwrap().answer_timeout(answer_timeout))
    }
}

fn answer(mut stream: TcpStream, answers: &[Vec<&[u8]>], pause: Duration, keep: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 1 << 20];
    for answer in answers {
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => keep.lock().unwrap().extend(&buffer[..read]),
            _ => return,
        }
        for (i, piece) in answer.iter().enumerate() {
            if i > 0 {
                thread::sleep(pause);
            }
            if stream.write_all(piece).is_err() {
                return;
            }
        }
        if answer.is_empty() {
            // Silence, until the client leaves.
            let _ = stream.read(&mut buffer);
        }
    }
}

/// Stores a record of the session [`A`], whatever is there.
pub(crate) fn set(store: &RedisStore, record: &[u8]) -> Result<u64, String> {
    let stored = store.load(&A).map_err(|error| error.to_string())?;
    let expected = stored.map(|stored| stored.version);
    match store.compare_and_set(&A, expected, record, LONG).map_err(|error| error.to_string())? {
        Swap::Stored(version) => Ok(version),
        Swap::Conflict(_) => Err("a conflict".into()),
    }
}

pub(crate) fn record(store: &RedisStore) -> Option<Vec<u8>> {
    store.load(&A).unwrap().map(|stored| stored.record)
}

/// Watches a store; a gap is `None`.
pub(crate) fn watch(store: &RedisStore) -> (Watch, mpsc::Receiver<Option<Vec<u8>>>) {
    let (sender, received) = mpsc::channel();
    let receiver = move |watched: Watched<'_>| {
        let _ = sender.send(match watched {
            Watched::Message(message) => Some(message.to_vec()),
            Watched::Gap => None,
        });
    };
    (store.watch(Arc::new(receiver)).unwrap(), received)
}
