//! How an authorization reaches its user.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;
use std::{io, thread};

use mcp_oauth::{AssertionRequest, ClientCredentials, Secret, UserCode, redirect_query};
use mcp_proto::http::client::Url;
use mcp_std::sync::{Budget, Ended};

use super::browser::Browser;
use super::redirect::{RedirectEnd, RedirectListener, RedirectPage};

/// The part of an authorization that a user has to do, or the application in their place.
///
/// The methods run on a thread of the authorization and may block.
pub trait Interaction: Send + Sync {
    /// Prepares to receive the redirect of a browser.
    ///
    /// `preferred` is the redirect URI that the client registered earlier; a receiver with that URI spares a new
    /// registration.
    ///
    /// # Errors
    ///
    /// An error, whose text is shown to users, if no redirect can be received.
    fn receive_redirects(&self, preferred: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>>;

    /// Shows a user where to authorize on another device. The texts are of the authorization server: escape them.
    ///
    /// # Errors
    ///
    /// An error if there is no way to show it; the default.
    fn show_user_code(&self, code: &UserCode) -> io::Result<()> {
        let _ = code;
        Err(io::Error::other("this program cannot show the code of a device login"))
    }

    /// Chooses one of several authorization servers by its place in the list; the default is the first.
    ///
    /// It is asked if [`choose_server`](mcp_oauth::Config::choose_server) is set.
    fn choose_server(&self, issuers: &[String]) -> usize {
        let _ = issuers;
        0
    }

    /// Returns the client of this application at an authorization server where it cannot register itself; the default
    /// has none.
    fn client(&self, issuer: &str) -> Option<ClientCredentials> {
        let _ = issuer;
        None
    }

    /// Supplies an assertion.
    ///
    /// # Errors
    ///
    /// An error if there is none; the default.
    fn assertion(&self, request: &AssertionRequest) -> io::Result<Secret> {
        let _ = request;
        Err(io::Error::other("this program has no assertion"))
    }
}

/// A place to which browsers are redirected.
pub trait RedirectReceiver {
    /// Returns the redirect URI.
    fn redirect_uri(&self) -> String;

    /// Sends the user to `url`, and passes the query of each redirect to `answer` until a page other than
    /// [`RedirectPage::Foreign`] comes back.
    ///
    /// # Errors
    ///
    /// An error if the user cannot be reached or no redirect can be received.
    fn receive(
        &mut self,
        url: &Url,
        deadline: Instant,
        cancellation: &Cancellation,
        answer: &mut dyn FnMut(&str) -> RedirectPage,
    ) -> io::Result<RedirectEnd>;
}

/// A function that shows an address to a user.
type ShowUrl = Arc<dyn Fn(&Url) + Send + Sync>;

/// An [`Interaction`] by a browser on this machine, which is redirected to a [`RedirectListener`].
#[derive(Clone)]
pub struct BrowserLogin {
    browser: Browser,
    show_url: Option<ShowUrl>,
    /// `None`: that of an earlier registration, or one at a port of the system.
    redirect_uri: Option<String>,
}

impl BrowserLogin {
    /// Uses a browser.
    #[must_use]
    pub const fn new(browser: Browser) -> Self {
        Self { browser, show_url: None, redirect_uri: None }
    }

    /// Also passes the address to a function, which may show it to a user whose browser does not start.
    ///
    /// The login then goes on when the browser cannot be started.
    #[must_use]
    pub fn show_url(mut self, show: impl Fn(&Url) + Send + Sync + 'static) -> Self {
        self.show_url = Some(Arc::new(show));
        self
    }

    /// Sets the redirect URI with which the client is registered ([`RedirectListener::bind_at`]).
    #[must_use]
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.redirect_uri = Some(uri.into());
        self
    }
}

impl Interaction for BrowserLogin {
    fn receive_redirects(&self, preferred: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>> {
        let listener = match &self.redirect_uri {
            Some(uri) => RedirectListener::bind_at(uri)?,
            None => RedirectListener::bind(preferred.and_then(loopback_port))?,
        };
        Ok(Box::new(BrowserReceiver { login: self.clone(), listener }))
    }
}

struct BrowserReceiver {
    login: BrowserLogin,
    listener: RedirectListener,
}

impl RedirectReceiver for BrowserReceiver {
    fn redirect_uri(&self) -> String {
        self.listener.redirect_uri()
    }

    fn receive(
        &mut self,
        url: &Url,
        deadline: Instant,
        cancellation: &Cancellation,
        answer: &mut dyn FnMut(&str) -> RedirectPage,
    ) -> io::Result<RedirectEnd> {
        if let Some(show) = &self.login.show_url {
            show(url);
        }
        match self.login.browser.open(url) {
            Err(error) if self.login.show_url.is_none() => return Err(io::Error::other(error)),
            _ => {}
        }
        self.listener.wait(deadline, cancellation, answer)
    }
}

/// Returns the port of a redirect URI of a [`RedirectListener`].
fn loopback_port(uri: &str) -> Option<u16> {
    let url = Url::parse(uri).ok()?;
    (&*url.origin().host == "127.0.0.1").then_some(url.origin().port)
}

/// A function that shows an address and returns what the user pasted: the address of the redirect, or its query.
type AskForRedirect = Arc<dyn Fn(&Url) -> io::Result<String> + Send + Sync>;

/// An [`Interaction`] by a browser anywhere: the user copies the address to it, and the address that it ends at back to
/// the program.
#[derive(Clone)]
pub struct PasteLogin {
    /// `None`: that of an earlier registration, if there is one.
    redirect_uri: Option<String>,
    ask: AskForRedirect,
}

impl PasteLogin {
    /// Asks a user by a function. Each of its results is tried, so that a user may correct a mistake; its error ends
    /// the login.
    ///
    /// The function runs on a thread of its own, because the wait for it is bounded: if it still blocks at the end of the
    /// login, that thread outlives it.
    ///
    /// The redirect URI is that of an earlier registration, or one on a port of this program on `127.0.0.1`, where a page
    /// asks the user to copy its address. A browser on another machine shows an error page, whose address holds the redirect
    /// as well.
    #[must_use]
    pub fn new(ask: impl Fn(&Url) -> io::Result<String> + Send + Sync + 'static) -> Self {
        Self { redirect_uri: None, ask: Arc::new(ask) }
    }

    /// Sets another redirect URI.
    #[must_use]
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.redirect_uri = Some(uri.into());
        self
    }

    /// Asks until a redirect fits.
    fn receive_pasted(
        &self,
        url: &Url,
        budget: &Budget<'_>,
        answer: &mut dyn FnMut(&str) -> RedirectPage,
    ) -> io::Result<RedirectEnd> {
        loop {
            let pasted = match self.ask_within(url, budget) {
                Ok(pasted) => pasted?,
                Err(Ended::TimedOut) => return Ok(RedirectEnd::TimedOut),
                Err(Ended::Cancelled) => return Ok(RedirectEnd::Cancelled),
            };
            if answer(&redirect_query(&pasted)) != RedirectPage::Foreign {
                return Ok(RedirectEnd::Accepted);
            }
        }
    }

    /// Asks once, within the budget.
    fn ask_within(&self, url: &Url, budget: &Budget<'_>) -> Result<io::Result<String>, Ended> {
        budget.next_wait()?;
        let (sender, pasted) = mpsc::channel();
        let (ask, url) = (Arc::clone(&self.ask), url.clone());
        // The receiver is gone if the wait has ended.
        let asking = move || drop(sender.send(ask(&url)));
        if let Err(error) = thread::Builder::new().name("mcp-paste".into()).spawn(asking) {
            return Ok(Err(error));
        }
        loop {
            match pasted.recv_timeout(budget.next_wait()?) {
                Ok(pasted) => return Ok(pasted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Err(io::Error::other("the question for the redirect panicked")));
                }
            }
        }
    }
}

impl Interaction for PasteLogin {
    fn receive_redirects(&self, preferred: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>> {
        let login = self.clone();
        if let Some(uri) =
            self.redirect_uri.as_deref().or_else(|| preferred.filter(|uri| loopback_port(uri).is_none()))
        {
            return Ok(Box::new(PasteReceiver { login, redirect_uri: uri.into(), listener: None }));
        }
        // The code would otherwise go to whatever program listens on the port.
        let listener = RedirectListener::bind(preferred.and_then(loopback_port))?;
        let redirect_uri = listener.redirect_uri();
        Ok(Box::new(PasteReceiver { login, redirect_uri, listener: Some(listener) }))
    }
}

struct PasteReceiver {
    login: PasteLogin,
    redirect_uri: String,
    listener: Option<RedirectListener>,
}

impl RedirectReceiver for PasteReceiver {
    fn redirect_uri(&self) -> String {
        self.redirect_uri.clone()
    }

    fn receive(
        &mut self,
        url: &Url,
        deadline: Instant,
        cancellation: &Cancellation,
        answer: &mut dyn FnMut(&str) -> RedirectPage,
    ) -> io::Result<RedirectEnd> {
        let is_over = Cancellation::new();
        thread::scope(|scope| {
            if let Some(listener) = &self.listener {
                // Without the page the browser waits, and its address can be copied all the same.
                let mut page = |_: &str| RedirectPage::CopyAddress;
                let is_over = is_over.clone();
                scope.spawn(move || listener.wait(deadline, &is_over, &mut page));
            }
            let end = self.login.receive_pasted(url, &cancellation.until(deadline), answer);
            is_over.cancel();
            end
        })
    }
}

/// An [`Interaction`] without a user, for grants that need none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoInteraction;

impl Interaction for NoInteraction {
    fn receive_redirects(&self, _preferred: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>> {
        Err(io::Error::other("there is no user to ask"))
    }
}

impl fmt::Debug for BrowserLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserLogin").field("browser", &self.browser).finish_non_exhaustive()
    }
}

impl fmt::Debug for PasteLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasteLogin").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

// Ending blocking calls from another thread.

/// A flag that ends blocking calls early. Clones share it.
///
/// The calls look at it every 50 ms. It cannot be reset.
///
/// ```
/// let cancellation = mcp_auth::client::Cancellation::new();
/// let other = cancellation.clone();
/// other.cancel();
/// assert!(cancellation.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Creates a flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag: calls that wait end, and later ones end at their first wait.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns whether the flag is set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Returns the time of a call that ends after `time`, or when the flag is set.
    pub(super) fn within(&self, time: Duration) -> Budget<'_> {
        Budget::new(time).or_cancelled(&self.0)
    }

    /// Returns the time of a call that ends at `deadline`, or when the flag is set.
    pub(super) fn until(&self, deadline: Instant) -> Budget<'_> {
        Budget::until(deadline).or_cancelled(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned as _;
    use alloc::format;
    use alloc::string::ToString as _;
    use alloc::vec::Vec;
    use core::time::Duration;
    use std::sync::Mutex;

    use super::*;

    fn receive(login: &PasteLogin, wait: Duration, cancellation: &Cancellation) -> io::Result<RedirectEnd> {
        let url = Url::parse("https://as.test/authorize").unwrap();
        let mut answer = |query: &str| match query {
            "code=right" => RedirectPage::Done,
            _ => RedirectPage::Foreign,
        };
        login.receive_redirects(None)?.receive(&url, Instant::now() + wait, cancellation, &mut answer)
    }

    #[test]
    fn what_was_pasted_is_tried_until_it_fits() {
        let lines = Mutex::new(Vec::from(["code=right", "code=wrong", ""]));
        let login = PasteLogin::new(move |url| {
            assert_eq!(url.target(), "/authorize");
            Ok(lines.lock().unwrap().pop().expect("no further question").into())
        });
        let found = receive(&login, Duration::from_secs(30), &Cancellation::new()).unwrap();
        assert_eq!(found, RedirectEnd::Accepted);
        let login = PasteLogin::new(|_| Err(io::Error::other("stdin ended")));
        let error = receive(&login, Duration::from_secs(30), &Cancellation::new()).unwrap_err();
        assert_eq!(error.to_string(), "stdin ended");
    }

    #[test]
    fn page_at_the_redirect_asks_to_copy_its_address() {
        use std::io::{Read as _, Write as _};
        let (sender, pasted) = mpsc::channel();
        let pasted = Mutex::new(pasted);
        let login = PasteLogin::new(move |_| pasted.lock().unwrap().recv().map_err(io::Error::other));
        let mut receiver = login.receive_redirects(None).unwrap();
        let port = loopback_port(&receiver.redirect_uri()).unwrap();
        let browser = thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let request = format!("GET /callback?code=right HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).unwrap();
            sender.send(String::from("code=right")).unwrap();
            page
        });
        let url = Url::parse("https://as.test/authorize").unwrap();
        let mut answer = |query: &str| {
            assert_eq!(query, "code=right");
            RedirectPage::Done
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let end = receiver.receive(&url, deadline, &Cancellation::new(), &mut answer).unwrap();
        assert_eq!(end, RedirectEnd::Accepted);
        let page = browser.join().unwrap();
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("Copy the address"), "{page}");
    }

    #[test]
    fn question_that_blocks_ends_in_time_or_by_cancellation() {
        let (_blocks, never) = mpsc::channel::<String>();
        let never = Mutex::new(never);
        let login = PasteLogin::new(move |_| never.lock().unwrap().recv().map_err(io::Error::other));
        let begun = Instant::now();
        let found = receive(&login, Duration::from_millis(20), &Cancellation::new()).unwrap();
        assert_eq!(found, RedirectEnd::TimedOut);
        let cancellation = Cancellation::new();
        let canceller = cancellation.clone();
        let cancelling = thread::spawn(move || {
            thread::sleep(Duration::from_millis(60));
            canceller.cancel();
        });
        let found = receive(&login, Duration::from_secs(300), &cancellation).unwrap();
        assert_eq!(found, RedirectEnd::Cancelled);
        cancelling.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn browser_that_does_not_start_ends_the_login_unless_the_address_is_shown() {
        let url = Url::parse("https://as.test/authorize").unwrap();
        let login = BrowserLogin::new(Browser::command("/no/such-program").unwrap());
        let receive = |login: &BrowserLogin, url: &Url, end: Duration| {
            let (deadline, cancellation) = (Instant::now() + end, Cancellation::new());
            let mut receiver = login.receive_redirects(None).unwrap();
            let uri = receiver.redirect_uri();
            assert_eq!(uri, format!("http://127.0.0.1:{}/callback", loopback_port(&uri).unwrap()));
            receiver.receive(url, deadline, &cancellation, &mut |_| RedirectPage::Done)
        };
        let error = receive(&login, &url, Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("/no/such-program"), "{error}");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&shown);
        let login = login.show_url(move |url| log.lock().unwrap().push(url.target().to_owned()));
        assert_eq!(receive(&login, &url, Duration::from_millis(50)).unwrap(), RedirectEnd::TimedOut);
        assert_eq!(*shown.lock().unwrap(), ["/authorize"]);
    }

    #[test]
    fn debug_output_of_logins_names_the_browser_and_the_redirect_uri() {
        let login = BrowserLogin::new(Browser::command("firefox").unwrap()).show_url(|_| {});
        assert!(format!("{login:?}").starts_with("BrowserLogin { browser: Browser {"), "{login:?}");
        let login = PasteLogin::new(|_| Ok(String::new())).redirect_uri("app:/done");
        assert_eq!(format!("{login:?}"), "PasteLogin { redirect_uri: Some(\"app:/done\"), .. }");
    }

    #[test]
    fn redirect_uri_is_the_one_that_was_set_or_registered() {
        let login = PasteLogin::new(|_| Ok(String::new()));
        let uri = |login: &PasteLogin, preferred| login.receive_redirects(preferred).unwrap().redirect_uri();
        let own = uri(&login, None);
        let port = loopback_port(&own).expect("a port of its own");
        assert!(port > 1023 && own == format!("http://127.0.0.1:{port}/callback"), "{own}");
        assert_eq!(uri(&login, Some(&own)), own, "the port is free again");
        assert_eq!(uri(&login, Some("app:/registered")), "app:/registered");
        // Another program may listen on a port that is in use.
        let other = RedirectListener::bind(None).unwrap();
        let taken = other.redirect_uri();
        assert_ne!(uri(&login, Some(&taken)), taken);
        let login = login.redirect_uri("app:/done");
        assert_eq!(uri(&login, Some("http://127.0.0.1:7/callback")), "app:/done");
    }
}
