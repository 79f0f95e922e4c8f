//! The client apart from its calls: callbacks, lists, other streams, and the end of the connection.

use core::time::Duration;
use std::io;
use std::sync::mpsc;
use std::time::Instant;

use crate::support::{
    DEADLINE, ERAS, NoteLog, Tools, client_config, pair, server_config, text, version_set, with_timeout,
};
use mcp_blocking::{Answered, Call, Client, ClientHandler, Cx, Error, Handler, Server};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Event;
use mcp_proto::{
    CallError, CallKey, CallOptions, Diagnostic, Era, Limits, Progress, RawJson, RpcError, VersionSet, client,
};
use mcp_std::io::{Duplex, Interest, MemoryEnd, Ready};
use serde::Deserialize;
use serde_json::json;

/// Answers `mine/…` requests and records all callbacks.
struct CallbackLog(NoteLog);

impl ClientHandler for CallbackLog {
    fn request(&self, request: &client::ServerRequest) -> Result<RawJson, RpcError> {
        self.0.record(format!("request {}", request.method));
        match &*request.method {
            "mine/answer" => Ok(RawJson::new(r#"{"n":42}"#).unwrap()),
            "mine/wrong" => Ok(RawJson::new("42").unwrap()),
            "mine/panic" => panic!("on purpose"),
            other => Err(RpcError::method_not_found(other)),
        }
    }

    fn notification(&self, notification: &client::Notification) {
        self.0.record(format!("notification {}", notification.method));
    }

    fn progress(&self, _: CallKey, progress: &Progress) {
        self.0.record(format!("progress {}", progress.progress));
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.0.record(format!("odd {diagnostic:?}"));
    }

    fn tap(&self, record: &mcp_proto::tap::TapRecord) {
        let text = String::from_utf8_lossy(&record.bytes).into_owned();
        self.0.record(format!("{:?} {text}", record.direction));
    }
}

/// Sends requests and a notification to the client during a call, and reports the outcomes.
struct ServerRequestHandler {
    answers: mpsc::Sender<String>,
}

impl Handler for ServerRequestHandler {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let channel = call.channel();
        cx.with_engine(move |engine, now| {
            for method in ["mine/answer", "mine/wrong", "mine/panic", "mine/unknown"] {
                engine.request(now, channel, method, &json!({}), &CallOptions::new()).unwrap();
            }
            engine.notify(now, channel, "notifications/mine", None::<&()>).unwrap();
        })?;
        cx.complete(&CallToolResult::text("asked"))
    }

    fn event(&mut self, event: &Event) {
        if let Event::Done { outcome, .. } = event {
            let _ = self.answers.send(match outcome {
                Ok(result) => result.to_string(),
                Err(CallError::Rpc(error)) => error.code.to_string(),
                Err(error) => error.to_string(),
            });
        }
    }
}

// covers: BASE-018, ERR-002
#[test]
fn client_answers_server_requests_between_calls() {
    with_timeout(|| {
        let (near, far) = mcp_std::io::memory_pair(256);
        let (answers, outcomes) = mpsc::channel();
        let serving = std::thread::spawn(move || {
            mcp_blocking::serve(server_config(), near, ServerRequestHandler { answers })
        });
        let methods = ["mine/answer", "mine/wrong", "mine/panic", "mine/unknown"];
        let config = methods
            .iter()
            .fold(client_config(version_set(Era::Legacy)), |config, method| config.custom_method(*method));
        let notes = NoteLog::default();
        let mut client = mcp_blocking::Options::new(config).connect(far).unwrap();
        client.set_handler(CallbackLog(notes.clone()));
        client.call_tool("any", &json!({})).unwrap();
        let mut answers = Vec::new();
        while answers.len() < 4 {
            client.poll(Duration::from_millis(5)).unwrap();
            answers.extend(outcomes.try_iter());
        }
        assert_eq!(answers, [r#"{"n":42}"#, "-32603", "-32603", "-32601"]);
        let mut expected: Vec<String> = methods.iter().map(|method| format!("request {method}")).collect();
        expected.push("notification notifications/mine".into());
        assert_eq!(notes.take(), expected);
        assert!(!client.poll(Duration::ZERO).unwrap(), "nothing is left");
        client.close().unwrap();
        serving.join().unwrap().unwrap();
    });
}

// covers: PROG-001
#[test]
fn handler_receives_progress_and_tapped_messages() {
    with_timeout(|| {
        let (near, far) = mcp_std::io::memory_pair(1 << 10);
        let serving = std::thread::spawn(move || mcp_blocking::serve(server_config(), near, Tools::new().0));
        let mut limits = Limits::default();
        limits.tap_records = 8;
        let notes = NoteLog::default();
        let config = client_config(version_set(Era::Modern)).limits(limits).redact_in_tap("arguments");
        let client =
            mcp_blocking::Options::new(config).handler(CallbackLog(notes.clone())).connect(far).unwrap();
        let opening = notes.take();
        assert!(
            opening[0].starts_with("Out {\"jsonrpc\":\"2.0\",\"id\":1,") && opening[1].starts_with("In "),
            "{opening:?}"
        );
        let options = CallOptions::new().with_progress();
        let call = client.start_tool("count", &json!({"steps": 3}), &options).unwrap();
        client.wait(call).unwrap();
        let call = client.start_tool("count", &json!({"steps": 3}), &options).unwrap();
        while client.wait_timeout(call, Duration::from_millis(50)).unwrap().is_none() {}
        let notes = notes.take();
        assert!(notes.iter().any(|note| note == "progress 3"), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains(r#""arguments":"[redacted]""#)), "{notes:?}");
        client.close().unwrap();
        serving.join().unwrap().unwrap();
    });
}

// covers: STDIO-022, LIFE-018, STDIO-028
#[test]
fn client_reports_end_by_server() {
    with_timeout(|| {
        for era in ERAS {
            let (near, far) = mcp_std::io::memory_pair(1 << 10);
            let (tools, outcomes) = Tools::new();
            let (stop, stopped) = mpsc::channel::<()>();
            let serving = std::thread::spawn(move || {
                let mut server = Server::new(server_config(), near, tools);
                while stopped.try_recv().is_err() {
                    assert!(server.poll(Duration::from_millis(1)).unwrap());
                }
                server.shutdown(Duration::from_millis(20));
                while server.poll(Duration::from_secs(1)).unwrap() {}
            });
            let client = Client::connect(client_config(version_set(era)), far).unwrap();
            client.call_tool("echo", &json!({})).unwrap();
            stop.send(()).unwrap();
            serving.join().unwrap();
            let begun = Instant::now();
            let error = client.call_tool("echo", &json!({})).unwrap_err();
            assert!(error.is_closed() && begun.elapsed() < DEADLINE, "{error:?}");
            assert!(
                error.to_string().contains("start it again") || error.to_string().contains("closed"),
                "{error}"
            );
            assert!(client.poll(DEADLINE).unwrap_err().is_closed());
            drop(outcomes);
        }
    });
}

// covers: BASE-037, BASE-040, BASE-041, STDIO-027
#[test]
fn client_and_server_run_on_sockets() {
    with_timeout(|| {
        use mcp_std::io::Socket;
        use std::net::{TcpListener, TcpStream};

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        #[allow(unused_mut, reason = "there are no Unix client_and_server_run_on_sockets elsewhere")]
        let mut pairs = vec![(Socket::tcp(accepted).unwrap(), Socket::tcp(tcp).unwrap())];
        #[cfg(unix)]
        {
            let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            pairs.push((Socket::unix(near).unwrap(), Socket::unix(far).unwrap()));
        }
        for (near, far) in pairs {
            let serving =
                std::thread::spawn(move || mcp_blocking::serve(server_config(), near, Tools::new().0));
            let client = Client::connect(client_config(VersionSet::ALL), far).unwrap();
            let large = "x".repeat(1_000_000);
            assert!(text(&client.call_tool("echo", &json!({"text": large})).unwrap()) == large);
            client.close().unwrap();
            serving.join().unwrap().unwrap();
        }
    });
}

// covers: PAGE-002, PAGE-004, PAGE-005, PAGE-007, PAGE-008, PAGE-009, PAGE-012
#[test]
fn list_follows_cursors_up_to_page_limit() {
    with_timeout(|| {
        #[derive(Deserialize)]
        struct CursorParams {
            cursor: Option<String>,
        }
        // The successor of each cursor, in three servers: a finite list, a circle, and an endless list.
        let follow: [fn(&str) -> Option<String>; 3] = [
            |cursor| match cursor {
                "first" => Some(String::new()),
                "" => Some("\"odd\" one\n".into()),
                _ => None,
            },
            |cursor| Some(if cursor == "a" { "b" } else { "a" }.into()),
            |cursor| Some(format!("{}", cursor.parse::<u32>().unwrap_or(0) + 1)),
        ];
        for (follow, pages) in follow.into_iter().zip([3, 3, 1_000]) {
            let (client, serving) = pair(Era::Modern, 1 << 10, move |cx: &mut Cx<'_>, call: &Call| {
                let params: CursorParams = call.parse()?;
                let cursor = params.cursor.as_deref().unwrap_or("first");
                let next = follow(cursor);
                let tool = json!({"name": "x", "description": cursor, "inputSchema": {"type": "object"}});
                let mut page = json!({"tools": [tool]});
                if let Some(next) = next {
                    page["nextCursor"] = next.into();
                }
                cx.complete(&page)
            });
            assert_eq!(client.list_tools().unwrap().len(), pages);
            client.close().unwrap();
            serving.join().unwrap().unwrap();
        }
        let (client, serving) =
            pair(Era::Modern, 1 << 10, |cx: &mut Cx<'_>, _: &Call| cx.complete(&json!({"tools": 1})));
        let error = client.list_tools().unwrap_err();
        assert!(
            matches!(error, Error::UnexpectedResult(_)) && error.to_string().contains("`tools`"),
            "{error:?}"
        );
        client.close().unwrap();
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn client_is_send() {
    fn assert_send<T: Send>() {}
    assert_send::<Client>();
    assert_send::<mcp_blocking::Options>();
    assert_send::<Error>();
    assert_send::<&mcp_blocking::SharedCache>();
}

// covers: VER-024
#[test]
fn tap_receives_message_when_it_is_sent() {
    with_timeout(|| {
        let (near, mut far) = mcp_std::io::memory_pair(1 << 16);
        let notes = NoteLog::default();
        let mut limits = Limits::default();
        limits.tap_records = 16;
        let config = client_config(VersionSet::MODERN).limits(limits);
        let seen = notes.clone();
        let client =
            std::thread::spawn(move || Client::options(config).handler(CallbackLog(notes)).connect(near));
        // The other end never answers, so the client only sends its first request.
        let mut buffer = [0; 4096];
        let mut read = 0;
        while read == 0 {
            read = far.read(&mut buffer).unwrap_or(0);
        }
        // The copy follows the write.
        while !seen.take().iter().any(|note| note.starts_with("Out ") && note.contains("server/discover")) {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(far);
        assert!(client.join().expect("no panic").is_err());
    });
}

#[test]
fn call_from_a_callback_is_busy_and_changes_nothing() {
    with_timeout(|| {
        let (near, far) = mcp_std::io::memory_pair(1 << 10);
        let serving = std::thread::spawn(move || mcp_blocking::serve(server_config(), near, Tools::new().0));
        let client =
            mcp_blocking::Options::new(client_config(version_set(Era::Modern))).connect(far).unwrap();
        let other = client.start_tool("count", &json!({"steps": 1}), &CallOptions::new()).unwrap();
        let (mut outcomes, mut eras) = (Vec::new(), Vec::new());
        let counted = client.call_tool_with("count", &json!({"steps": 2}), &CallOptions::new(), &mut |_| {
            eras.push(client.known_era());
            outcomes.push(client.ping().map(drop));
            outcomes.push(client.start("ping", &json!({}), &CallOptions::new()).map(drop));
            outcomes.push(client.notify("notifications/mine", None::<&()>));
            outcomes.push(client.list_tools().map(drop));
            outcomes.push(client.wait(other).map(drop));
            outcomes.push(client.cancel(other, None));
            outcomes.push(client.poll(Duration::ZERO).map(drop));
        });
        assert_eq!(text(&counted.unwrap()), "counted");
        assert_eq!((outcomes.len(), eras), (14, vec![None, None]), "two reports of progress");
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Busy) && !error.is_closed(), "{error:?}");
            assert!(error.to_string().starts_with("a callback called the client"), "{error}");
        }
        client.wait(other).unwrap();
        assert!(client.known_era().is_some());
        client.close().unwrap();
        serving.join().unwrap().unwrap();
    });
}

/// A stream of which only the first writes succeed.
struct FailingWrites {
    stream: MemoryEnd,
    left: usize,
}

impl Duplex for FailingWrites {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("the cable is cut"))?;
        self.stream.write(bytes)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.stream.wait(interest, timeout)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.stream.shutdown_write()
    }
}

#[test]
fn tool_call_after_failed_write_names_its_reason() {
    with_timeout(|| {
        for era in ERAS {
            let (near, far) = mcp_std::io::memory_pair(1 << 16);
            let server = std::thread::spawn(move || {
                let mut router = mcp_blocking::Router::new("tools", "1");
                router.tasks(mcp_blocking::ServerTasks::new());
                router.tool("echo", |_: &mut Cx<'_>, _: serde_json::Value| "ahoy");
                mcp_blocking::serve(router.config().unwrap(), near, router)
            });
            // The probe or `initialize`. In the legacy era the list of tools, which says what runs as a task, meets the failure.
            let stream = FailingWrites { stream: far, left: 1 };
            let config = client_config(version_set(era)).task_polling(client::TaskPolling::new());
            let client = Client::connect(config, stream).unwrap();
            let error = client.call_tool("echo", &json!({"text": "ahoy"})).unwrap_err().to_string();
            assert!(error.contains("the cable is cut"), "{era:?}: {error}");
            // Later calls name it, too.
            for _ in 0..2 {
                let error = client.call_tool("echo", &json!({"text": "ahoy"})).unwrap_err();
                assert!(matches!(error, Error::Closed(_)), "{era:?}: {error:?}");
                let error = error.to_string();
                assert!(
                    error.starts_with("no connection to the server: the cable is cut"),
                    "{era:?}: {error}"
                );
            }
            drop(client);
            let _ = server.join().unwrap();
        }
    });
}
