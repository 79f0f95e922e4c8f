//! nginx in front of servers: `peers/nginx.conf`, as the user who runs the tests, on a port that is free

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;
use std::{env, fs, thread};

use crate::peers::{package, ready};
use crate::run::{DEADLINE, command, run};

/// How long it may take to listen.
const START: Duration = Duration::from_secs(20);

/// An nginx that runs until this is dropped.
pub(crate) struct Proxy {
    child: Child,
    dir: PathBuf,
    /// Where clients go, with the path that its servers have.
    pub(crate) url: String,
}

fn program() -> Option<&'static str> {
    // Not everybody has the second of these on their path.
    ["nginx", "/usr/sbin/nginx"]
        .into_iter()
        .find(|nginx| run(command([*nginx, "-v"]), DEADLINE).is_ok_and(|done| done.succeeded()))
}

/// Whether there is an nginx; if not, says so loudly, and in CI fails.
pub(crate) fn nginx_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let found = READY.get_or_init(|| program().map(drop).ok_or_else(|| "there is no nginx".to_owned()));
    ready(found, "HTTP through nginx")
}

impl Proxy {
    /// In front of servers that have the same path, which take turns.
    pub(crate) fn start(urls: &[&str]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = env::temp_dir().join(format!("mcp-interop-nginx-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("room for a folder");
        let template =
            fs::read_to_string(package().join("peers").join("nginx.conf")).expect("a file of ours");
        let mut path = "";
        let mut servers = String::new();
        for url in urls {
            let rest = url.strip_prefix("http://").expect("http");
            let at = rest.find('/').unwrap_or(rest.len());
            path = &rest[at..];
            servers.push_str(&format!("        server {};\n", &rest[..at]));
        }
        // Free a moment ago; who takes it meanwhile makes the start fail, and loudly.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let filled = template
            .replace("@DIR@", dir.to_str().expect("a path in UTF-8"))
            .replace("@PORT@", &port.to_string())
            .replace("@SERVERS@", servers.trim_end());
        let config = dir.join("nginx.conf");
        fs::write(&config, filled).expect("room for a file");
        let mut nginx = Command::new(program().expect("looked for before"));
        nginx.arg("-p").arg(&dir).arg("-c").arg(&config).arg("-e").arg(dir.join("error.log"));
        let child = nginx.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("nginx starts");
        let mut proxy = Self { child, dir, url: format!("http://127.0.0.1:{port}{path}") };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = proxy.child.try_wait().expect("a child");
            let errors = fs::read_to_string(proxy.dir.join("error.log")).unwrap_or_default();
            assert!(ended.is_none() && begun.elapsed() < START, "nginx does not listen: {ended:?} {errors}");
            thread::sleep(Duration::from_millis(20));
        }
        proxy
    }

    /// What passed, as many as are waited for: method, status, what the server said of buffering (`-` for nothing), and
    /// which server it was.
    pub(crate) fn passed(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let log = fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
            // Written a moment after the answer.
            if log.lines().count() >= count || begun.elapsed() > START {
                return log.lines().map(str::to_owned).collect();
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // One process, and nothing that has to be written.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
