//! A user with a browser, as a script: follows an authorization URL, logs in, consents, and goes where it is redirected.
//!
//! It speaks HTTP without TLS, keeps cookies, and submits the forms of the development pages of `oidc-provider`. The
//! program `scripted-browser` is a command for it. [`http`] sends single requests, for tests.

mod cookies;
mod html;
pub mod http;
mod query;

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use std::{io, thread};

use mcp_proto::http::client::Url;

use self::cookies::CookieJar;
use self::html::{Form, Page};
use self::http::Response;

pub use self::query::{encode, parameter, parameters, with_parameter};

/// Limit for pages and redirects of one visit. A login with consent takes about eight.
const MAX_STEPS: usize = 20;

/// What the user does at the pages of the authorization server.
#[derive(Clone, Debug)]
pub struct BrowserScript {
    /// Name to log in with.
    pub user: String,
    /// Whether the user consents; otherwise the user cancels at the consent page.
    pub consents: bool,
    /// Code to enter at a verification URI (RFC 8628) that does not contain it.
    pub user_code: Option<String>,
}

impl Default for BrowserScript {
    /// Returns the script of a user named `tester`, who consents.
    fn default() -> Self {
        Self { user: "tester".to_owned(), consents: true, user_code: None }
    }
}

/// The reason why a visit did not come to its end.
#[derive(Debug)]
pub enum BrowserError {
    /// An address is not an `http` URL.
    Address(String),
    /// A server cannot be reached, or does not answer in time.
    Unreachable(String, io::Error),
    /// The response to a request is not HTTP/1.1.
    Malformed(String),
    /// A page is an error, or has no form to go on with. Contains its status, its path and its text.
    Page(u16, String, String),
    /// There were more pages and redirects than a login needs.
    Endless,
}

impl fmt::Display for BrowserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) => write!(f, "not an http URL: {text}"),
            Self::Unreachable(origin, error) => write!(f, "{origin}: {error}"),
            Self::Malformed(target) => write!(f, "{target}: the response is not HTTP/1.1"),
            Self::Page(status, target, text) => write!(f, "{target}: status {status}: {text}"),
            Self::Endless => write!(f, "more than {MAX_STEPS} pages and redirects"),
        }
    }
}

impl core::error::Error for BrowserError {}

/// Response of a redirect URI to the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryResponse {
    /// HTTP status.
    pub status: u16,
    /// Page that the user sees.
    pub body: String,
}

/// A browser with the cookies of its earlier visits.
#[derive(Default)]
pub struct Browser {
    cookies: CookieJar,
    script: BrowserScript,
}

impl Browser {
    /// Creates a browser without cookies.
    #[must_use]
    pub fn new(script: BrowserScript) -> Self {
        Self { cookies: CookieJar::default(), script }
    }

    /// Visits an authorization URL and returns the address to which the authorization server sends the browser at the
    /// end: the `redirect_uri` of the URL, with the parameters of the response. It does not visit that address.
    ///
    /// # Errors
    ///
    /// [`BrowserError`], also if the authorization server shows an error page instead of a redirect.
    pub fn authorize(&mut self, url: &str) -> Result<String, BrowserError> {
        let redirect_uri =
            parameter(url, "redirect_uri").ok_or_else(|| BrowserError::Address(url.to_owned()))?;
        match self.visit(url, Some(&redirect_uri))? {
            VisitEnd::Redirect(address) => Ok(address),
            VisitEnd::Page(page) => Err(page),
        }
    }

    /// Visits a verification URI (RFC 8628), enters the code of the script if it is asked for, and logs in and confirms, or
    /// cancels.
    ///
    /// # Errors
    ///
    /// [`BrowserError`], also if the authorization server does not accept the code.
    pub fn verify_device(&mut self, url: &str) -> Result<(), BrowserError> {
        let end = if self.script.consents { "Success" } else { "interrupted" };
        match self.visit(url, None)? {
            VisitEnd::Page(BrowserError::Page(200, _, text)) if text.contains(end) => Ok(()),
            VisitEnd::Page(page) => Err(page),
            VisitEnd::Redirect(address) => Err(BrowserError::Address(address)),
        }
    }

    /// Visits an address without a form, for example a redirect URI.
    ///
    /// # Errors
    ///
    /// [`BrowserError`] if there is no response.
    pub fn deliver(address: &str) -> Result<DeliveryResponse, BrowserError> {
        let url = parse_url(address)?;
        let response = http::Request { method: "GET", url: &url, fields: &[], body: "" }.send()?;
        Ok(DeliveryResponse { status: response.status, body: response.body })
    }

    /// Visits the addresses at the same time, each over a connection of its own.
    pub fn deliver_at_once(addresses: &[String]) -> Vec<Result<DeliveryResponse, BrowserError>> {
        thread::scope(|scope| {
            let visits: Vec<_> =
                addresses.iter().map(|address| scope.spawn(move || Self::deliver(address))).collect();
            visits.into_iter().map(|visit| visit.join().expect("a visit does not panic")).collect()
        })
    }

    /// Follows redirects and submits forms until the redirect URI or a page without a form.
    fn visit(&mut self, url: &str, redirect_uri: Option<&str>) -> Result<VisitEnd, BrowserError> {
        let mut next = PageRequest { url: parse_url(url)?, form: None };
        let mut is_code_entered = false;
        for _ in 0..MAX_STEPS {
            let response = self.send(&next)?;
            let location =
                response.fields("location").next().filter(|_| (300..400).contains(&response.status));
            if let Some(location) = location {
                // Before it is resolved, because a redirect URI may have a scheme of an app.
                if redirect_uri.is_some_and(|uri| is_same_but_query(uri, location)) {
                    return Ok(VisitEnd::Redirect(location.to_owned()));
                }
                next = PageRequest { url: resolve(&next.url, location)?, form: None };
                continue;
            }
            match self.act(&next.url, &response, &mut is_code_entered)? {
                Some(request) => next = request,
                None => return Ok(VisitEnd::Page(page_error(&next.url, &response))),
            }
        }
        Err(BrowserError::Endless)
    }

    fn send(&mut self, request: &PageRequest) -> Result<Response, BrowserError> {
        let cookies = self.cookies.field(&request.url);
        let mut fields = vec![("Accept", "text/html")];
        if !cookies.is_empty() {
            fields.push(("Cookie", &*cookies));
        }
        let (method, body) = match &request.form {
            Some(form) => {
                fields.push(("Content-Type", "application/x-www-form-urlencoded"));
                ("POST", &**form)
            }
            None => ("GET", ""),
        };
        let response = http::Request { method, url: &request.url, fields: &fields, body }.send()?;
        for field in response.fields("set-cookie") {
            self.cookies.store(&request.url, field);
        }
        Ok(response)
    }

    /// Does what the script says at a page, and returns the next request, if there is one.
    fn act(
        &self,
        url: &Url,
        response: &Response,
        is_code_entered: &mut bool,
    ) -> Result<Option<PageRequest>, BrowserError> {
        let page = Page::parse(&response.body);
        let Some(mut form) = page.forms.into_iter().find(|form| form.is_post) else { return Ok(None) };
        if let Some(input) = form.input("login") {
            self.script.user.clone_into(&mut input.value);
        }
        if let Some(input) = form.input("password") {
            "any".clone_into(&mut input.value);
        }
        if let Some(input) = form.input("user_code").filter(|input| input.is_visible) {
            // A second time means that the code was not accepted.
            let Some(code) = self.script.user_code.as_ref().filter(|_| !*is_code_entered) else {
                return Ok(None);
            };
            code.clone_into(&mut input.value);
            *is_code_entered = true;
        }
        if !self.script.consents && is_consent(&form) {
            if let Some(cancel) = page.links.iter().find(|link| link.ends_with("/abort")) {
                return Ok(Some(PageRequest { url: resolve(url, cancel)?, form: None }));
            }
            form.inputs.push(html::Input { name: "abort".into(), value: "yes".into(), is_visible: false });
        }
        let pairs = form.inputs.iter().map(|input| (&*input.name, &*input.value));
        Ok(Some(PageRequest { url: resolve(url, &form.action)?, form: Some(encode(pairs)) }))
    }
}

struct PageRequest {
    url: Url,
    /// Body of a POST request.
    form: Option<String>,
}

enum VisitEnd {
    Redirect(String),
    /// A page without a form, as the error that it is in most cases.
    Page(BrowserError),
}

/// Returns whether a form asks for consent, or to confirm a device.
fn is_consent(form: &Form) -> bool {
    form.has("prompt", "consent") || form.has("confirm", "yes")
}

fn is_same_but_query(redirect_uri: &str, location: &str) -> bool {
    let base = |text: &str| text.split(['?', '#']).next().unwrap_or_default().to_string();
    base(redirect_uri) == base(location)
}

fn parse_url(text: &str) -> Result<Url, BrowserError> {
    Url::parse(text).map_err(|_| BrowserError::Address(text.to_owned()))
}

fn resolve(base: &Url, reference: &str) -> Result<Url, BrowserError> {
    base.resolve(reference).map_err(|_| BrowserError::Address(reference.to_owned()))
}

/// Returns a page as an error, with its text but without its styles and tags.
fn page_error(url: &Url, response: &Response) -> BrowserError {
    let body = response.body.split("</style>").last().unwrap_or_default();
    let text: Vec<_> =
        body.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
    let text = if text.is_empty() { body.to_owned() } else { text.join(" ") };
    let words: Vec<_> = text.split_whitespace().collect();
    let path = url.target().split('?').next().unwrap_or_default();
    BrowserError::Page(response.status, path.to_owned(), words.join(" "))
}
