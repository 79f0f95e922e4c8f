//! The listener against clients that write bytes of their own.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn soon() -> StdInstant {
    StdInstant::now() + LONG
}

impl RedirectListener {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends bytes on a new connection and returns all that comes back.
    fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_ref()).unwrap();
        read(stream)
    }

    /// Opens an address of the listener, as a browser does.
    fn get(&self, target: &str) -> String {
        self.exchange(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port()))
    }
}

fn read(mut stream: impl io::Read) -> String {
    let mut response = String::new();
    // The end may be a reset.
    let _ = stream.read_to_string(&mut response);
    response
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("none")
}

/// Waits with an answer that accepts the state `s`, and runs `browser` beside it; returns the queries that it got.
fn waited(browser: impl FnOnce(&RedirectListener)) -> Vec<String> {
    let (listener, mut queries) = (RedirectListener::bind(None).unwrap(), Vec::new());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut answer = |query: &str| {
                queries.push(query.into());
                match query {
                    "state=s&code=1" => RedirectPage::Done,
                    "state=s&error=denied" => RedirectPage::Failed("<denied>".into()),
                    _ => RedirectPage::Foreign,
                }
            };
            listener.wait(soon(), &Cancellation::new(), &mut answer).unwrap()
        });
        browser(&listener);
        assert_eq!(waiting.join().unwrap(), RedirectEnd::Accepted);
    });
    queries
}

// covers: AUTH-061
#[test]
fn accepted_redirect_gets_a_page_and_ends_the_wait() {
    let begun = StdInstant::now();
    let queries = waited(|listener| {
        assert_eq!(listener.redirect_uri(), format!("http://127.0.0.1:{}/callback", listener.port()));
        let page = listener.get("/callback?state=s&code=1");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("You are authorized"), "{page}");
        let lower = page.to_lowercase();
        for field in ["cache-control: no-store", "referrer-policy: no-referrer", "connection: close"] {
            assert!(lower.contains(&format!("\r\n{field}\r\n")), "{page}");
        }
        assert!(lower.contains("\r\ncontent-security-policy: default-src 'none'"), "{page}");
        for absent in ["access-control", "<script", "set-cookie", "code=1"] {
            assert!(!lower.contains(absent), "{page}");
        }
    });
    assert_eq!(queries, ["state=s&code=1"]);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn refusal_of_the_user_is_shown_escaped() {
    waited(|listener| {
        let page = listener.get("/callback?state=s&error=denied");
        assert_eq!(status(&page), "400");
        assert!(page.contains("The authorization failed") && page.contains("&lt;denied&gt;"), "{page}");
    });
}

#[test]
fn wait_goes_on_after_foreign_redirects_and_other_requests() {
    let queries = waited(|listener| {
        let port = listener.port();
        let page = listener.get("/callback?state=other&code=2");
        assert!(status(&page) == "400" && page.contains("not expected"), "{page}");
        assert_eq!(status(&listener.get("/callback")), "400");
        for target in ["/favicon.ico", "/", "/callback/", "/Callback?state=s&code=1", "//callback?state=s"] {
            assert_eq!(status(&listener.get(target)), "404", "{target}");
        }
        for method in ["POST", "HEAD", "OPTIONS", "DELETE"] {
            let host = format!("Host: 127.0.0.1:{port}\r\n");
            let page = listener.exchange(format!("{method} /callback?state=s&code=1 HTTP/1.1\r\n{host}\r\n"));
            assert!(status(&page) == "405" && page.contains("\r\nAllow: GET\r\n"), "{method}: {page}");
        }
        assert_eq!(status(&listener.get("/callback?state=s&code=1")), "200");
    });
    assert_eq!(queries, ["state=other&code=2", "", "state=s&code=1"]);
}

#[test]
fn requests_for_other_hosts_are_refused() {
    let queries = waited(|listener| {
        let port = listener.port();
        let get = |host: &str| {
            listener.exchange(format!("GET /callback?state=s&code=1 HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        };
        for host in ["evil.test", &format!("evil.test:{port}"), "127.0.0.1", "localhost:1", "127.0.0.2:80"] {
            assert_eq!(status(&get(host)), "403", "{host}");
        }
        assert_eq!(status(&listener.exchange("GET /callback?state=s&code=1 HTTP/1.1\r\n\r\n")), "400");
        assert_eq!(status(&get(&format!("LOCALHOST:{port}"))), "200");
    });
    assert_eq!(queries, ["state=s&code=1"]);
}

#[test]
fn malformed_huge_and_bodied_requests_are_refused() {
    let queries = waited(|listener| {
        let host = format!("Host: 127.0.0.1:{}\r\n", listener.port());
        let target = "/callback?state=s&code=1";
        for (request, expected) in [
            (format!("GET {target} HTTP/2.0\r\n{host}\r\n"), "505"),
            (format!("GET {target}\r\n{host}\r\n"), "400"),
            (format!("GET {target} HTTP/1.1\n{host}\n"), "400"),
            ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}".into(), "400"),
            (format!("GET {target}{} HTTP/1.1\r\n{host}\r\n", "x".repeat(40 << 10)), "414"),
            (format!("GET {target} HTTP/1.1\r\n{host}A: {}\r\n\r\n", "x".repeat(40 << 10)), "431"),
            (format!("GET {target} HTTP/1.1\r\n{host}Content-Length: 1\r\n\r\nx"), "413"),
            (format!("GET {target} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"), "413"),
        ] {
            assert_eq!(status(&listener.exchange(&request)), expected, "{:?}", request.get(..40));
        }
        let long = format!("/callback?state=o&code={}", "x".repeat(16 << 10));
        assert_eq!(status(&listener.get(&long)), "400");
        assert_eq!(status(&listener.get(target)), "200");
    });
    assert_eq!(queries.len(), 2);
}

#[test]
fn silent_and_slow_connections_do_not_block_the_redirect() {
    let begun = StdInstant::now();
    let queries = waited(|listener| {
        let silent: Vec<_> = (0..100).map(|_| listener.connect()).collect();
        let mut slow = listener.connect();
        slow.write_all(b"GET /callback?sta").unwrap();
        let gone = listener.connect();
        gone.shutdown(Shutdown::Both).unwrap();
        assert_eq!(status(&listener.get("/callback?state=s&code=1")), "200");
        drop((silent, slow));
    });
    assert_eq!(queries, ["state=s&code=1"]);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn request_in_pieces_is_understood() {
    waited(|listener| {
        let mut stream = listener.connect();
        let request =
            format!("GET /callback?state=s&code=1 HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", listener.port());
        for byte in request.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
        }
        assert_eq!(status(&read(stream)), "200");
    });
}

#[test]
fn only_the_first_of_two_redirects_counts() {
    let (listener, mut calls) = (RedirectListener::bind(None).unwrap(), 0);
    let get = format!("GET /callback?state=s HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", listener.port());
    // All have arrived before the wait begins.
    let browsers = [(); 3].map(|()| {
        let mut stream = listener.connect();
        stream.write_all(get.as_bytes()).unwrap();
        stream
    });
    let mut answer = |_: &str| {
        calls += 1;
        RedirectPage::Done
    };
    assert_eq!(listener.wait(soon(), &Cancellation::new(), &mut answer).unwrap(), RedirectEnd::Accepted);
    let pages = browsers.map(read);
    let mut statuses: Vec<_> = pages.iter().map(|page| status(page)).collect();
    statuses.sort_unstable();
    assert_eq!((calls, &*statuses), (1, &["200", "409", "409"][..]));
}

#[test]
fn wait_ends_at_its_deadline_and_by_cancellation() {
    let listener = RedirectListener::bind(None).unwrap();
    let mut answer = |_: &str| RedirectPage::Done;
    let (cancellation, deadline) = (Cancellation::new(), StdInstant::now() + Duration::from_millis(100));
    assert_eq!(listener.wait(deadline, &cancellation, &mut answer).unwrap(), RedirectEnd::TimedOut);
    assert!(StdInstant::now() >= deadline);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.wait(soon(), &cancellation, &mut answer).unwrap());
        thread::sleep(Duration::from_millis(50));
        let begun = StdInstant::now();
        cancellation.cancel();
        assert_eq!(waiting.join().unwrap(), RedirectEnd::Cancelled);
        assert!(begun.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn preferred_port_is_used_only_if_it_is_free() {
    let first = RedirectListener::bind(None).unwrap();
    let taken = RedirectListener::bind(Some(first.port())).unwrap();
    assert_ne!(taken.port(), first.port());
    assert!(taken.listener.address().unwrap().ip().is_loopback());
    let port = first.port();
    drop(first);
    assert_eq!(RedirectListener::bind(Some(port)).unwrap().port(), port);
}

#[test]
fn registered_redirect_uri_is_kept_exactly_or_is_an_error() {
    let port = RedirectListener::bind(None).unwrap().port();
    for (host, path) in [("localhost", "/oauth/cb"), ("127.0.0.1", "/"), ("localhost", "")] {
        let uri = format!("http://{host}:{port}{path}");
        let listener = RedirectListener::bind_at(&uri).unwrap();
        assert_eq!((listener.redirect_uri(), listener.port()), (uri, port));
        let mut answer = |query: &str| match query {
            "state=s" => RedirectPage::Done,
            _ => RedirectPage::Foreign,
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| listener.wait(soon(), &Cancellation::new(), &mut answer).unwrap());
            assert_eq!(status(&listener.get("/callback?state=s")), "404", "{path}");
            assert_eq!(
                status(&listener.get(&format!("/{}?state=s", path.trim_start_matches('/')))),
                "200",
                "{path}"
            );
            assert_eq!(waiting.join().unwrap(), RedirectEnd::Accepted);
        });
    }
    let taken = RedirectListener::bind(None).unwrap();
    let uri = taken.redirect_uri();
    let why = RedirectListener::bind_at(&uri).unwrap_err().to_string();
    assert!(why.starts_with(&format!("the redirect URI {uri}: ")), "{why}");
    for uri in [
        "https://localhost:1/cb",
        "http://example.com:1/cb",
        "http://localhost:1/cb?a=1",
        "http://localhost:1/#",
        "cb",
    ] {
        let why = RedirectListener::bind_at(uri).unwrap_err().to_string();
        assert!(why.starts_with(&format!("the redirect URI {uri}: ")), "{why}");
    }
}

#[test]
fn later_redirects_get_a_page_until_the_browser_has_the_first_one() {
    let get = |listener: &RedirectListener| {
        let mut stream = listener.connect();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let port = listener.port();
        // After the beginning of another request the connection lingers.
        write!(stream, "GET /callback?state=s&code=1 HTTP/1.1\r\nHost: localhost:{port}\r\n\r\nG").unwrap();
        (status(&read(&stream)).to_owned(), stream)
    };
    // A machine that stands still for half a second closes the first connection.
    let is_answered = (0..3).any(|_| {
        let mut later = String::new();
        waited(|listener| {
            let (first, _kept) = get(listener);
            assert_eq!(first, "200");
            later = get(listener).0;
        });
        later == "409"
    });
    assert!(is_answered, "the wait ended before the first connection did");
    let is_fast = (0..3).any(|_| {
        let begun = StdInstant::now();
        waited(|listener| drop(get(listener)));
        begun.elapsed() < GRACE
    });
    assert!(is_fast, "nobody was left to wait for");
}

#[test]
fn newest_connections_replace_the_oldest() {
    waited(|listener| {
        let mut open: Vec<_> = (0..=MAX_VISITORS).map(|_| listener.connect()).collect();
        open[0].set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(open[0].read(&mut [0]).unwrap(), 0, "the oldest is closed");
        open[1].set_nonblocking(true).unwrap();
        assert_eq!(open[1].read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(status(&listener.get("/callback?state=s&code=1")), "200");
    });
}

#[test]
fn ends_of_a_wait_are_explained() {
    for (end, expected) in [
        (RedirectEnd::Accepted, "a redirect was accepted"),
        (RedirectEnd::TimedOut, "no redirect came in time"),
        (RedirectEnd::Cancelled, "the wait for the redirect was cancelled"),
    ] {
        assert_eq!(format!("{end}"), expected);
    }
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use super::*;

    const FEW_DESCRIPTORS: &str = "MCP_TEST_FEW_DESCRIPTORS";
    const READABLE: Ready = Ready { readable: true, writable: false };

    #[test]
    #[ignore = "run by the test below, in a process of its own"]
    fn wait_with_few_descriptors() {
        if std::env::var_os(FEW_DESCRIPTORS).is_none() {
            return;
        }
        let listener = RedirectListener::bind(None).unwrap();
        let silent = [(); 6].map(|()| listener.connect());
        let mut browser = listener.connect();
        write!(browser, "GET /callback? HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", listener.port()).unwrap();
        let mut files: Vec<_> = core::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        // For the selector, and for a part of the connections.
        files.truncate(files.len() - 4);
        let deadline = StdInstant::now() + Duration::from_secs(10);
        let end = listener.wait(deadline, &Cancellation::new(), &mut |_| RedirectPage::Done);
        assert_eq!(end.unwrap(), RedirectEnd::Accepted);
        assert_eq!(status(&read(browser)), "200");
        drop((silent, files));
    }

    #[test]
    fn oldest_connections_make_room_without_free_descriptors() {
        let output = Command::new("sh")
            .args(["-c", "ulimit -n 40; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["client::redirect::tests::unix::wait_with_few_descriptors", "--exact", "--ignored"])
            .env(FEW_DESCRIPTORS, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    /// Returns a connection, our end of the same socket, and the other end.
    fn visitor() -> (Visitor, UnixStream, UnixStream) {
        let (own, browser) = UnixStream::pair().unwrap();
        let same = own.try_clone().unwrap();
        (Visitor::new(Socket::unix(own).unwrap(), 1, Instant::ZERO), same, browser)
    }

    #[test]
    fn page_is_sent_when_the_browser_takes_it() {
        let (mut visitor, own, mut browser) = visitor();
        let mut selector = Selector::new().unwrap();
        selector.add(visitor.socket(), 1, Interest::READ).unwrap();
        let mut page = |_: &str| Some(RedirectPage::Done);
        // A spurious wake-up: there is nothing to read.
        assert!(visitor.advance(Instant::ZERO, READABLE, &at_7(), &mut page));
        let mut sent = 0;
        while let Ok(n) = (&own).write(&[b'x'; 4 << 10]) {
            sent += n;
        }
        browser.write_all(b"GET /callback? HTTP/1.1\r\nHost: localhost:7\r\n\r\n").unwrap();
        assert!(visitor.advance(Instant::ZERO, READABLE, &at_7(), &mut page), "the page has to wait");
        visitor.watch(&mut selector).unwrap();
        browser.read_exact(&mut vec![0; sent]).unwrap();
        let mut found = Vec::new();
        selector.wait(Some(LONG), &mut found).unwrap();
        assert!(matches!(&*found, [(1, ready)] if ready.writable), "{found:?}");
        assert!(!visitor.advance(Instant::ZERO, found[0].1, &at_7(), &mut page), "nothing is left to send");
        drop((visitor, own));
        let mut text = String::new();
        browser.read_to_string(&mut text).unwrap();
        assert!(status(&text) == "200" && text.ends_with("</html>\n"), "{text}");
    }

    /// A listener of another port than that of its connections.
    fn at_7() -> RedirectListener {
        let uri = "http://127.0.0.1:7/callback".into();
        RedirectListener { port: 7, uri, ..RedirectListener::bind(None).unwrap() }
    }

    #[test]
    fn connection_that_breaks_is_over() {
        let mut page = |_: &str| Some(RedirectPage::Done);
        let (mut reading, own, browser) = visitor();
        (&own).write_all(b"unread").unwrap();
        drop(browser);
        assert!(!reading.advance(Instant::ZERO, READABLE, &at_7(), &mut page));

        let (mut writing, own, mut browser) = visitor();
        while (&own).write(&[b'x'; 4 << 10]).is_ok() {}
        browser.write_all(b"GET /callback? HTTP/1.1\r\nHost: localhost:7\r\n\r\n").unwrap();
        assert!(writing.advance(Instant::ZERO, READABLE, &at_7(), &mut page));
        drop(browser);
        assert!(!writing.advance(Instant::ZERO, Ready::default(), &at_7(), &mut page));
    }
}
