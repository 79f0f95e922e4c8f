//! The deployments of the page "More than one process": its files, as they are apart from paths and ports, while each process is
//! replaced by another.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use serde_json::{Value, json};

use crate::hosted_server::HostedServer;
use crate::interop::processes::{
    Library, Redis, SessionClient, assert_kept_session, certificates, free_port, is_redis_ready, print_done,
};
use crate::interop::proxy::{NginxProxy, is_nginx_ready};
use crate::peers::{is_node_ready, is_python_ready, package, probe, report_readiness};
use crate::run::{DEADLINE, command, print_line, run};

const LIBRARIES: [Library; 3] = [Library::TypeScript, Library::Python, Library::Own];

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = env::temp_dir().join(format!("mcp-deployments-{}-{}", std::process::id(), free_port()));
        fs::create_dir_all(&path).expect("room for a folder");
        Self(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }

    /// Makes a key by the line in the head of a file.
    fn make_key(&self, file: &str) {
        let mut lines = file.lines().filter_map(|line| line.strip_prefix("#   "));
        let line = lines.find(|line| line.contains("head -c 32")).expect("a line that makes a key");
        let line = line.replace("/etc/mcp/", "");
        let mut shell = command(["sh", "-euc", &*line]);
        shell.current_dir(&self.0);
        run(shell, DEADLINE).expect("a shell").assert_success();
        assert_eq!(fs::read(self.0.join("session.key")).map(|key| key.len()).ok(), Some(64), "{line}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn folder_of_files() -> PathBuf {
    package().join("../../adapters/blocking/src/guide/several_processes")
}

fn file(name: &str) -> String {
    fs::read_to_string(folder_of_files().join(name)).expect("a file of this repository")
}

/// Replaces texts, each of which has to be there.
fn substitute(text: &str, pairs: &[(&str, &str)]) -> String {
    let replace = |text: String, (old, new): &(&str, &str)| {
        assert!(text.contains(old), "no {old} in {text}");
        text.replace(old, new)
    };
    pairs.iter().fold(text.to_owned(), replace)
}

/// Lets systemd read a unit, whose program has to exist.
fn verify_unit(unit: &str, folder: &Folder) {
    let found = run(command(["systemd-analyze", "--version"]), DEADLINE);
    let found = found.map(drop).map_err(|error| format!("systemd-analyze does not run: {error}"));
    if !report_readiness(&found, "units of systemd") {
        return;
    }
    let program = format!("{:?}", probe().to_str().expect("a path in UTF-8"));
    let path = folder.0.join("mcp@.service");
    fs::write(&path, substitute(unit, &[("/usr/local/bin/mcp-probe", &program)])).expect("room for a file");
    let mut verify = command(["systemd-analyze", "verify", "--man=no"]);
    verify.arg(&path);
    let done = run(verify, DEADLINE).expect("it was there before").assert_success();
    // It ignores what it does not know, and warns.
    assert!(!done.stderr.contains("mcp@"), "{done}");
}

/// Returns the command line of a unit with other texts in it.
fn exec_start(unit: &str, pairs: &[(&str, &str)]) -> Vec<String> {
    let unit = unit.replace("\\\n", "");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command line");
    // What is put into a word may have spaces.
    let words: Vec<_> = line.split_whitespace().collect();
    substitute(&words.join("\n"), pairs).lines().map(str::to_owned).collect()
}

/// Returns the list of words after `name` in the part of a file that `head` begins.
fn words(text: &str, head: &str, name: &str) -> Vec<String> {
    let part = text.split_once(head).unwrap_or_else(|| panic!("no {head}")).1;
    let list = part.split_once(name).and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.unwrap_or_else(|| panic!("no {name} after {head}"));
    serde_json::from_str(&format!("{list}]")).expect("words in quotes")
}

fn start(words: &[String], port: u16) -> HostedServer {
    HostedServer::start_at(command(words), port, "/mcp")
}

/// Runs a site of nginx in front of processes, each of which ends and is started again while clients use sessions.
fn run_deployment(
    name: &str,
    site: &str,
    front: (u16, &str),
    commands: &[(u16, Vec<String>)],
    libraries: &[Library],
) {
    let mut processes: Vec<_> = commands.iter().map(|(port, words)| start(words, *port)).collect();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path \"@DIR@/{kind}\";\n"))
        .concat();
    // What the distribution has around a site. One process keeps the rights of the user.
    let config = format!(
        "daemon off;\nmaster_process off;\npid \"@DIR@/pid\";\nerror_log \"@DIR@/error.log\" notice;\n\
         events {{ worker_connections 256; }}\nhttp {{\naccess_log off;\n{temporary}{site}}}\n"
    );
    let proxy = NginxProxy::start_config(&config, front.0, front.1.to_owned());
    let start_client = |library: &Library| SessionClient::start(*library, &proxy.url, "2025-11-25", false);
    let clients: Vec<_> = libraries.iter().map(start_client).collect();
    thread::sleep(Duration::from_secs(2));
    for (port, words) in commands {
        // In the order in which they were started.
        processes.remove(0).stop();
        processes.push(start(words, *port));
        thread::sleep(Duration::from_secs(2));
    }
    let all: Vec<_> = clients.into_iter().map(SessionClient::finish).collect();
    for (client, done) in &all {
        print_done(&format!("deployment {name}"), client, done);
    }
    for (client, done) in &all {
        assert_eq!(done["errors"], json!([]), "{name}, {client}");
        assert_kept_session(client, done);
    }
    // All at once: nobody answers for a while, and the session goes on.
    let client = SessionClient::start(libraries[0], &proxy.url, "2025-11-25", false);
    thread::sleep(Duration::from_secs(2));
    processes.into_iter().for_each(HostedServer::stop);
    let _processes: Vec<_> = commands.iter().map(|(port, words)| start(words, *port)).collect();
    thread::sleep(Duration::from_secs(2));
    let (client, done) = client.finish();
    print_done(&format!("deployment {name}, all at once"), &client, &done);
    let errors = done["errors"].as_array().expect("a list");
    // A server that ends in order tells the calls that it cannot answer any more.
    let told = ["502", "-32603 MCP error -32603: the input ended before the answers came"];
    let is_told =
        |error: &Value| error.as_str().is_some_and(|error| told.iter().any(|told| error.contains(told)));
    assert!(errors.iter().all(is_told), "{name}, {client}: {errors:?}");
    assert_kept_session(&client, &done);
}

fn is_ready() -> bool {
    is_nginx_ready() && is_node_ready() && is_python_ready()
}

/// Returns the replacements of the addresses of a site.
fn addresses<'a>(old: &'a [String], ports: &'a [String]) -> Vec<(&'a str, &'a str)> {
    old.iter().zip(ports).map(|(old, new)| (&**old, &**new)).collect()
}

/// Returns as many free ports, and the addresses with them.
fn places(count: usize) -> (Vec<u16>, Vec<String>) {
    let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
    let addresses = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    (ports, addresses)
}

#[test]
fn units_of_machines_and_site_with_tls_keep_sessions_in_redis() {
    if !is_ready() || !is_redis_ready() {
        return;
    }
    let (folder, unit, site) = (Folder::new(), file("machines/mcp@.service"), file("machines/nginx.conf"));
    verify_unit(&unit, &folder);
    folder.make_key(&unit);
    let redis = Redis::start(&[]);
    let (ports, new) = places(3);
    let program = probe().to_str().expect("a path in UTF-8");
    let line = |address: &String| {
        let pairs = [
            ("/usr/local/bin/mcp-probe", program),
            ("127.0.0.1:%i", address),
            ("redis://127.0.0.1:6379/0", &redis.url),
            ("%d", folder.text()),
        ];
        exec_start(&unit, &pairs)
    };
    let commands: Vec<_> = ports.into_iter().zip(new.iter().map(line)).collect();
    let front = free_port();
    let old = ["127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"].map(str::to_owned);
    let listen = format!("listen 127.0.0.1:{front} ssl");
    let path = |name: &str| format!("{:?}", certificates().join(name).to_str().expect("a path in UTF-8"));
    let (certificate, key) = (path("server.pem"), path("key.pem"));
    let mut pairs = addresses(&old, &new);
    pairs.extend([
        ("listen 443 ssl", &*listen),
        ("/etc/ssl/tools.example.com.pem", &certificate),
        ("/etc/ssl/tools.example.com.key", &key),
    ]);
    let url = format!("https://localhost:{front}/mcp");
    // The authority of the certificate is one of these tests, which the other clients cannot be told.
    run_deployment("machines", &substitute(&site, &pairs), (front, &url), &commands, &[Library::TypeScript]);
}

#[test]
fn commands_of_containers_and_their_site_keep_sessions_in_redis() {
    if !is_ready() || !is_redis_ready() {
        return;
    }
    let (folder, site) = (Folder::new(), file("containers/nginx.conf"));
    let (compose, image) = (file("containers/compose.yaml"), file("containers/Dockerfile"));
    folder.make_key(&compose);
    let redis_words = words(&compose, "  redis:\n", "command:");
    let (program, redis_args) = redis_words.split_first().expect("a program");
    assert_eq!(program, "redis-server");
    let redis = Redis::start(&redis_args.iter().map(String::as_str).collect::<Vec<_>>());
    let container = [words(&image, "", "ENTRYPOINT"), words(&compose, "x-server:", "command:")].concat();
    let old: Vec<String> = compose
        .split("ipv4_address: ")
        .skip(1)
        .map(|rest| format!("{}:8080", rest.split('}').next().unwrap_or_default()))
        .collect();
    assert_eq!(old.len(), 3, "servers with an address");
    assert_eq!(site.matches(" max_fails=0;").count(), old.len(), "nginx knows each server");
    let (ports, new) = places(old.len());
    let key = format!("{}/session.key", folder.text());
    let line = |address: &String| -> Vec<String> {
        let pairs = [
            ("\n/mcp-probe\n", &*format!("\n{}\n", probe().display())),
            ("0.0.0.0:8080", address),
            ("redis://redis:6379/0", &redis.url),
            ("/run/secrets/session.key", &key),
        ];
        let lines = substitute(&format!("\n{}\n", container.join("\n")), &pairs);
        lines.trim().lines().map(str::to_owned).collect()
    };
    let commands: Vec<_> = ports.into_iter().zip(new.iter().map(line)).collect();
    let front = free_port();
    let listen = format!("listen 127.0.0.1:{front};");
    let mut pairs = addresses(&old, &new);
    pairs.push(("listen 8080;", &listen));
    let url = format!("http://127.0.0.1:{front}/mcp");
    run_deployment("containers", &substitute(&site, &pairs), (front, &url), &commands, &LIBRARIES);
}

#[test]
fn compose_file_is_valid() {
    let found = run(command(["docker", "compose", "version"]), DEADLINE);
    if !found.is_ok_and(|done| done.succeeded()) {
        // No failure: its command lines, and that of the image, run in the test of containers.
        print_line("NOT CHECKED: compose.yaml by docker: there is no docker with compose");
        return;
    }
    let folder = Folder::new();
    for name in ["compose.yaml", "Dockerfile", "nginx.conf"] {
        fs::copy(folder_of_files().join("containers").join(name), folder.0.join(name))
            .expect("room for a file");
    }
    folder.make_key(&file("containers/compose.yaml"));
    let mut config = command(["docker", "compose", "config", "--quiet"]);
    config.current_dir(&folder.0);
    run(config, DEADLINE).expect("it was there before").assert_success();
}

#[test]
fn units_of_one_machine_and_their_site_keep_sessions_in_a_folder() {
    if !is_ready() {
        return;
    }
    let (folder, unit) = (Folder::new(), file("one_machine/mcp@.service"));
    verify_unit(&unit, &folder);
    folder.make_key(&unit);
    assert!(unit.contains("\nStateDirectory=mcp\n"), "{unit}");
    fs::create_dir(folder.0.join("mcp")).expect("room for a folder");
    let (ports, new) = places(2);
    let program = probe().to_str().expect("a path in UTF-8");
    let line = |address: &String| {
        let pairs = [
            ("/usr/local/bin/mcp-probe", program),
            ("127.0.0.1:%i", address),
            ("%S", folder.text()),
            ("%d", folder.text()),
        ];
        exec_start(&unit, &pairs)
    };
    let commands: Vec<_> = ports.into_iter().zip(new.iter().map(line)).collect();
    let front = free_port();
    let listen = format!("listen 127.0.0.1:{front};");
    let old = ["127.0.0.1:8081", "127.0.0.1:8082"].map(str::to_owned);
    let mut pairs = addresses(&old, &new);
    pairs.push(("listen 127.0.0.1:8080;", &listen));
    let site = substitute(&file("one_machine/nginx.conf"), &pairs);
    let url = format!("http://127.0.0.1:{front}/mcp");
    run_deployment("one machine", &site, (front, &url), &commands, &LIBRARIES);
    // They did share the folder.
    assert!(has_files(&folder.0.join("mcp")), "the store is empty");
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
