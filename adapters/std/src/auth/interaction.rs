//! How an authorization reaches its user.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use std::io;
use std::time::Instant;

use mcp_proto::auth::{AssertionRequest, ClientCredentials, Secret, UserCode, redirect_query};
use mcp_proto::http::client::Url;

use super::browser::Browser;
use super::cancellation::Cancellation;
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
    /// It is asked if [`choose_server`](mcp_proto::auth::Config::choose_server) is set.
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
}

impl BrowserLogin {
    /// Uses a browser.
    #[must_use]
    pub const fn new(browser: Browser) -> Self {
        Self { browser, show_url: None }
    }

    /// Also passes the address to a function, which may show it to a user whose browser does not start.
    ///
    /// The login then goes on when the browser cannot be started.
    #[must_use]
    pub fn show_url(mut self, show: impl Fn(&Url) + Send + Sync + 'static) -> Self {
        self.show_url = Some(Arc::new(show));
        self
    }
}

impl Interaction for BrowserLogin {
    fn receive_redirects(&self, preferred: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>> {
        let listener = RedirectListener::bind(preferred.and_then(loopback_port))?;
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

/// An [`Interaction`] without a listener: the user copies the address to a browser anywhere, and the address that it ends
/// at back to the program.
#[derive(Clone)]
pub struct PasteLogin {
    redirect_uri: String,
    ask: AskForRedirect,
}

impl PasteLogin {
    /// Asks a user by a function. Each of its results is tried, so that a user may correct a mistake; its error ends
    /// the login.
    ///
    /// Nothing listens at the redirect URI, `http://127.0.0.1/callback`: the browser shows an error page whose address
    /// holds the redirect.
    #[must_use]
    pub fn new(ask: impl Fn(&Url) -> io::Result<String> + Send + Sync + 'static) -> Self {
        Self { redirect_uri: "http://127.0.0.1/callback".into(), ask: Arc::new(ask) }
    }

    /// Sets another redirect URI.
    #[must_use]
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.redirect_uri = uri.into();
        self
    }
}

impl Interaction for PasteLogin {
    fn receive_redirects(&self, _preferred: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>> {
        Ok(Box::new(self.clone()))
    }
}

impl RedirectReceiver for PasteLogin {
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
        loop {
            if cancellation.is_cancelled() {
                return Ok(RedirectEnd::Cancelled);
            }
            if Instant::now() >= deadline {
                return Ok(RedirectEnd::TimedOut);
            }
            let pasted = (self.ask)(url)?;
            if answer(&redirect_query(&pasted)) != RedirectPage::Foreign {
                return Ok(RedirectEnd::Accepted);
            }
        }
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
