//! Conversations with the process of the server, in both eras.

mod support;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use std::{fs, process};

use mcp_threads::mcp_proto::client::Config;
use mcp_threads::mcp_proto::model::SubscriptionFilter;
use mcp_threads::mcp_proto::{CallOptions, Capabilities, Capability, Change, Era, VersionSet};
use mcp_threads::{Client, Program, Stderr};
use serde_json::json;

use support::{Folder, Handler, PROGRAM, ProgressRecorder, call, connect, connect_with, uri};

const DEADLINE: Duration = Duration::from_secs(30);
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[test]
fn tools_list_read_search_and_write() {
    for era in ERAS {
        let folder = Folder::new();
        let client = connect(era, &folder.0);
        let folders = call(&client, "list", json!({})).unwrap();
        assert_eq!(
            folders["entries"],
            json!([{"name": folder.open("").trim_end_matches('/'), "kind": "directory", "size": null}])
        );
        let listed = call(&client, "list", json!({"path": folder.open("")})).unwrap();
        let names: Vec<_> =
            listed["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
        assert_eq!(names, ["a.txt", "data", "sub"]);
        assert_eq!(listed["entries"][0]["size"], 21);

        // 14 bytes end inside of `ü`, which belongs to the second part.
        let path = folder.open("a.txt");
        let part = call(&client, "read", json!({"path": path, "length": 14})).unwrap();
        assert_eq!(part, json!({"text": "first\nsecond ", "size": 21, "next_offset": 13}));
        let part = call(&client, "read", json!({"path": path, "offset": 13})).unwrap();
        assert_eq!(part, json!({"text": "ü line\n", "size": 21, "next_offset": null}));

        let found = call(&client, "search", json!({"path": folder.open(""), "text": "line"})).unwrap();
        let mut lines: Vec<_> =
            found["matches"].as_array().unwrap().iter().map(|at| at["text"].to_string()).collect();
        lines.sort();
        assert_eq!(lines, [r#""line of b""#, r#""second ü line""#]);
        assert_eq!((&found["files"], &found["skipped"]), (&json!(2), &json!(1)));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let written = call(&client, "write", json!({"path": path, "text": "new"})).unwrap();
        assert_eq!(written, "3 bytes written");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        call(&client, "write", json!({"path": folder.open("sub/new"), "text": ""})).unwrap();
        assert_eq!(fs::read_dir(folder.open("sub")).unwrap().count(), 2, "no temporary file is left");
    }
}

#[test]
fn resources_are_text_or_binary_and_report_changes() {
    for era in ERAS {
        let folder = Folder::new();
        let (sender, changes) = mpsc::channel();
        let client = connect(era, &folder.0);
        client.set_handler(Handler { roots: Arc::default(), changes: Mutex::new(sender) });
        let path = folder.open("sub/b c%.txt");
        let read = client.read_resource(&uri(&path)).unwrap();
        assert_eq!(read.contents[0].as_text(), Some("line of b"));
        let read = client.read_resource(&uri(&folder.open("data"))).unwrap();
        assert_eq!(read.contents[0].as_text(), None);

        let filter = SubscriptionFilter::new().resource_subscriptions([uri(&path)]);
        client.subscribe(&filter).unwrap();
        // The first look of the server counts as a change.
        assert_eq!(changes.recv_timeout(DEADLINE), Ok(Change::Resource(uri(&path))));
        fs::write(&path, "longer than before").unwrap();
        assert_eq!(changes.recv_timeout(DEADLINE), Ok(Change::Resource(uri(&path))));
        for (uri, problem) in [
            (uri(&folder.open("missing")), "not found"),
            (uri(&folder.open("../secret/key")), "`..`"),
            (uri(&folder.open("x%ff")).replace("%25", "%"), "not found"),
            (uri("/etc/passwd"), "`/etc/passwd` is outside of the folders"),
        ] {
            let error = client.read_resource(&uri).unwrap_err().to_string();
            assert!(error.contains(problem), "{uri}: {error}");
        }
    }
}

#[test]
fn path_to_no_file_below_the_folders_is_refused() {
    let folder = Folder::new();
    let open = folder.0.join("open");
    symlink(folder.0.join("secret/key"), open.join("link")).unwrap();
    symlink(folder.0.join("secret"), open.join("links")).unwrap();
    symlink(open.join("a.txt"), open.join("inside")).unwrap();
    symlink("/dev/zero", open.join("zero")).unwrap();
    let _socket = UnixListener::bind(open.join("socket")).unwrap();
    fs::write(open.join(OsStr::from_bytes(b"\xff")), "").unwrap();
    fs::File::create(open.join("huge")).unwrap().set_len(1 << 40).unwrap();
    let key = folder.0.join("secret/key");
    for era in ERAS {
        let client = connect(era, &folder.0);
        assert_eq!(call(&client, "list", json!({"path": folder.open("")})).unwrap()["not_utf8"], 1);
        assert_eq!(
            call(&client, "read", json!({"path": folder.open("inside"), "length": 5})).unwrap()["text"],
            "first"
        );
        for (tool, path, problem) in [
            ("read", "a.txt", "is not an absolute path"),
            ("read", &folder.open("../secret/key"), "contains `..`"),
            ("read", key.to_str().unwrap(), "is outside of the folders: "),
            ("read", "/no/such/file", "is outside of the folders: "),
            ("read", &folder.open("link"), "leads out of the folders by a symbolic link"),
            ("read", &folder.open("links/key"), "leads out of the folders by a symbolic link"),
            ("read", &folder.open("zero"), "leads out of the folders by a symbolic link"),
            ("read", &folder.open("socket"), "is a device, pipe or socket, not a file"),
            ("read", &folder.open("sub"), "is a directory, not a file"),
            ("read", &folder.open("data"), "is not UTF-8 text; read it as a resource"),
            ("read", &folder.open("a\0"), "NUL byte"),
            ("list", &folder.open("missing"), "; `list` shows what is there"),
            ("list", &folder.open("a.txt"), "is a file, not a directory"),
            ("write", &folder.open("link"), "is a symbolic link, not a file"),
            ("write", &folder.open("links/key"), "leads out of the folders by a symbolic link"),
            ("write", &folder.open("../new"), "contains `..`"),
            ("write", &folder.open(""), "is outside of the folders: "),
            ("write", &folder.open("sub"), "is a directory, not a file"),
            ("write", "/new", "is outside of the folders: "),
        ] {
            let error = call(&client, tool, json!({"path": path, "text": "x"})).unwrap_err();
            assert!(error.contains(problem), "{tool} {path}: {error}");
        }
        let read =
            |offset: u64| call(&client, "read", json!({"path": folder.open("a.txt"), "offset": offset}));
        assert!(read(14).unwrap_err().starts_with("byte 14 of "));
        assert!(read(99).unwrap_err().starts_with("byte 99 is beyond the end of "));
        let error = client.read_resource(&uri(&folder.open("huge"))).unwrap_err().to_string();
        assert!(error.contains("has 1099511627776 bytes, more than 1048576"), "{error}");
        let text = "x".repeat(1024 * 1024 + 1);
        let error = call(&client, "write", json!({"path": folder.open("a.txt"), "text": text})).unwrap_err();
        assert_eq!(error, "the text has 1048577 bytes, more than 1048576");
        assert_eq!(fs::read_to_string(&key).unwrap(), "secret line");
    }
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn roots_narrow_the_folders_and_their_changes_are_followed() {
    for era in ERAS {
        let folder = Folder::new();
        let roots = Arc::new(Mutex::new(vec![
            uri(&folder.open("sub")),
            uri("/no/such/root"),
            "file://elsewhere/share".into(),
        ]));
        let capabilities = Capabilities::new().with(Capability::Roots).with(Capability::RootsListChanged);
        let config = Config::new("test", "1").versions(VersionSet::ALL.era(era)).capabilities(capabilities);
        let handler = Handler { roots: roots.clone(), changes: Mutex::new(mpsc::channel().0) };
        let program = Program::new(PROGRAM).arg(folder.0.join("open"));
        let client = Client::options(config).handler(handler).spawn(program).unwrap();
        let read = || call(&client, "read", json!({"path": folder.open("a.txt")}));

        assert_eq!(call(&client, "list", json!({})).unwrap()["entries"][0]["name"], folder.open("sub"));
        assert_eq!(
            read().unwrap_err(),
            format!("`{0}/a.txt` is outside of the folders: {0}/sub", folder.open("").trim_end_matches('/'))
        );
        assert!(client.read_resource(&uri(&folder.open("sub/b c%.txt"))).is_ok());
        assert!(client.read_resource(&uri(&folder.open("a.txt"))).is_err());
        // A root above the folders does not widen them.
        *roots.lock().unwrap() = vec!["file:///".into()];
        client.roots_changed().unwrap();
        assert!(read().is_ok());
        let key = folder.0.join("secret/key");
        assert!(
            call(&client, "read", json!({"path": key})).unwrap_err().contains("is outside of the folders")
        );
        roots.lock().unwrap().clear();
        assert!(read().unwrap_err().ends_with("no folder is both served and a root of the client"));
        let tools: Vec<_> = client.list_tools().unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(tools, ["list", "read", "search"], "`write` needs the flag");
    }
}

#[test]
fn search_is_bounded_and_ends_when_it_is_cancelled() {
    let folder = Folder::new();
    fs::write(folder.open("sub/many"), "x\n".repeat(500)).unwrap();
    fs::create_dir(folder.open("big")).unwrap();
    for number in 0..3000 {
        // Without blocks on the disk.
        fs::File::create(folder.open(&format!("big/{number}"))).unwrap().set_len(1 << 20).unwrap();
    }
    for era in ERAS {
        let (sender, lines) = mpsc::channel();
        let sender = Mutex::new(sender);
        let stderr = Stderr::lines(move |line| _ = sender.lock().unwrap().send(line.to_owned()));
        let client = connect_with(era, &folder.0, stderr);
        let found = call(&client, "search", json!({"path": folder.open("sub"), "text": "x"})).unwrap();
        assert_eq!(
            (found["matches"].as_array().unwrap().len(), &found["ended_early"]),
            (100, &json!("100 lines were found"))
        );
        let error = call(&client, "search", json!({"path": folder.open(""), "text": ""})).unwrap_err();
        assert_eq!(error, "the text to search for is empty");

        let (sender, progress) = mpsc::channel();
        let arguments = json!({"path": folder.open("big"), "text": "x"});
        let options = CallOptions::new().with_progress();
        let search = client.start_tool("search", &arguments, &options).unwrap();
        client.set_handler(ProgressRecorder(Mutex::new(sender)));
        progress.recv_timeout(DEADLINE).unwrap();
        client.cancel(search, None).unwrap();
        let line = lines.recv_timeout(DEADLINE).unwrap();
        let files = line.strip_prefix("search cancelled after ").and_then(|line| line.strip_suffix(" files"));
        let files: u32 = files.expect(&line).parse().unwrap();
        assert!(files < 3000, "{files}");
    }
}

#[test]
fn unusable_arguments_are_named() {
    for (arguments, problem) in [
        (&[][..], "usage: mcp-files"),
        (&["--read"], "unknown option --read"),
        (&["/no/such/folder"], "cannot serve /no/such/folder"),
        (&["/etc/passwd"], "/etc/passwd is not a folder"),
    ] {
        let output = process::Command::new(PROGRAM).args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(problem), "{arguments:?}: {error}");
    }
}
