//! nginx in front of servers: `peers/nginx.conf`, run by the user of the tests on a free port.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;
use std::{env, fs, thread};

use crate::peers::{peers, report_readiness};
use crate::run::{DEADLINE, command, run};

/// Longest time until nginx listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// An nginx process that runs until it is dropped.
pub(crate) struct NginxProxy {
    child: Child,
    dir: PathBuf,
    /// URL for clients, with the path of the servers.
    pub(crate) url: String,
}

fn program() -> Option<&'static str> {
    // The second path is not in every user's `PATH`.
    ["nginx", "/usr/sbin/nginx"]
        .into_iter()
        .find(|nginx| run(command([*nginx, "-v"]), DEADLINE).is_ok_and(|done| done.succeeded()))
}

/// Returns whether nginx is installed. If not, prints a warning, and fails if `CI` is `true`.
pub(crate) fn is_nginx_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let found = READY.get_or_init(|| program().map(drop).ok_or_else(|| "nginx is not installed".to_owned()));
    report_readiness(found, "HTTP through nginx")
}

impl NginxProxy {
    /// Starts nginx in front of servers with the same path, which take turns.
    pub(crate) fn start(urls: &[&str]) -> Self {
        let template = fs::read_to_string(peers().join("nginx.conf")).expect("a file of this repository");
        let mut path = "";
        let mut servers = String::new();
        for url in urls {
            let rest = url.strip_prefix("http://").expect("http");
            let at = rest.find('/').unwrap_or(rest.len());
            path = &rest[at..];
            // By default one that refuses a connection is left out for ten seconds.
            servers.push_str(&format!("        server {} max_fails=0;\n", &rest[..at]));
        }
        // The port was free a moment ago. If another process takes it, the start fails with a message.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let config = template.replace("@PORT@", &port.to_string()).replace("@SERVERS@", servers.trim_end());
        Self::start_config(&config, port, format!("http://127.0.0.1:{port}{path}"))
    }

    /// Starts nginx with a configuration, in which `@DIR@` is a folder for its files, at a free port. Fails if nginx finds a
    /// fault in it.
    pub(crate) fn start_config(config_text: &str, port: u16, url: String) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = env::temp_dir().join(format!("mcp-interop-nginx-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("room for a folder");
        let config = dir.join("nginx.conf");
        let config_text = config_text.replace("@DIR@", dir.to_str().expect("a path in UTF-8"));
        fs::write(&config, config_text).expect("room for a file");
        let nginx = || {
            let mut nginx = Command::new(program().expect("looked for before"));
            nginx.arg("-p").arg(&dir).arg("-c").arg(&config).arg("-e").arg(dir.join("error.log"));
            nginx
        };
        let mut check = nginx();
        check.arg("-t");
        run(check, DEADLINE).expect("it was there before").assert_success();
        let mut nginx = nginx();
        let child = nginx.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("nginx starts");
        let mut proxy = Self { child, dir, url };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let status = proxy.child.try_wait().expect("a child");
            let errors = fs::read_to_string(proxy.dir.join("error.log")).unwrap_or_default();
            assert!(
                status.is_none() && start.elapsed() < START_TIMEOUT,
                "nginx does not accept connections: {status:?} {errors}"
            );
            thread::sleep(Duration::from_millis(20));
        }
        proxy
    }

    /// Waits for `count` requests and returns those logged: method, status, the buffering field of the server (`-` for
    /// none), and the server.
    pub(crate) fn wait_for_requests(&self, count: usize) -> Vec<String> {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
            // nginx writes its log a moment after the response.
            if log.lines().count() >= count || start.elapsed() > START_TIMEOUT {
                return log.lines().map(str::to_owned).collect();
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for NginxProxy {
    fn drop(&mut self) {
        // One process without state to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
