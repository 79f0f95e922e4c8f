//! How a user is asked to log in.

use std::io;

use mcp_auth::client::{Browser, BrowserLogin, Interaction, RedirectReceiver};
use mcp_oauth::{AssertionRequest, Secret, UserCode};
use mcp_proto::http::client::Url;

use super::options::AssertionSource;
use super::pasted_redirect::pasted_redirect;
use crate::args::authorization::LoginArgs;
use crate::escape;
use crate::failure::CommandFailure;
use crate::notes::print_stderr;

/// The user of this program, by a browser, a pasted address or a code. All of it is shown on stderr.
pub(super) struct ProbeInteraction {
    /// `None`: the redirect is pasted.
    browser: Option<BrowserLogin>,
    /// The redirect URI of a redirect that is pasted.
    redirect_uri: Option<String>,
    assertion: Option<AssertionSource>,
}

impl ProbeInteraction {
    /// Creates the interaction that the options ask for.
    ///
    /// # Errors
    ///
    /// Fails if the command of the browser is wrong.
    pub(super) fn new(login: &LoginArgs, assertion: Option<AssertionSource>) -> Result<Self, CommandFailure> {
        if login.no_browser {
            return Ok(Self { browser: None, redirect_uri: login.redirect_uri.clone(), assertion });
        }
        let browser = match &login.browser {
            Some(command) => Browser::command(command),
            None => Browser::from_env(),
        };
        let name = if login.browser.is_some() { "--browser" } else { "BROWSER" };
        let browser = browser.map_err(|why| CommandFailure::usage(format!("{name}: {why}")))?;
        let browser = BrowserLogin::new(browser).show_url(|url| {
            print_stderr("a browser is opened to log in; if none appears, open this address:");
            print_stderr(&format!("  {}", address(url)));
        });
        let browser = login.redirect_uri.iter().fold(browser, |browser, uri| browser.redirect_uri(uri));
        Ok(Self { browser: Some(browser), redirect_uri: None, assertion })
    }
}

impl Interaction for ProbeInteraction {
    fn receive_redirects(&self, preferred: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>> {
        match &self.browser {
            Some(browser) => browser.receive_redirects(preferred),
            None => {
                let login = pasted_redirect();
                let login = self.redirect_uri.iter().fold(login, |login, uri| login.redirect_uri(uri));
                login.receive_redirects(preferred)
            }
        }
    }

    fn show_user_code(&self, code: &UserCode) -> io::Result<()> {
        print_stderr("to log in, open this address on any device:");
        print_stderr(&format!("  {}", address(&code.verification_uri)));
        print_stderr(&format!("and enter the code {}", escape::line(&code.user_code)));
        if let Some(complete) = &code.verification_uri_complete {
            print_stderr(&format!("the address with the code in it: {}", address(complete)));
        }
        Ok(())
    }

    fn assertion(&self, _: &AssertionRequest) -> io::Result<Secret> {
        match &self.assertion {
            Some(source) => source.read().map(Secret::from).map_err(|why| io::Error::other(why.message)),
            None => Err(io::Error::other("no option names an assertion")),
        }
    }
}

/// Returns a URL as text, escaped.
pub(super) fn address(url: &Url) -> String {
    escape::line(&format!("{}{}", url.origin(), url.target())).into_owned()
}
