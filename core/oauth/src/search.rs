//! The search for one document at several places, with redirects.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::document::{Defect, Document};
use super::locations::{self, UrlPolicy};
use super::request::FetchResponse;
use crate::error::{Error, ErrorKind, FetchFailure, Step};
use mcp_proto::http::Url;

/// Largest number of redirects that are followed for one document (SEC-011).
const MAX_REDIRECTS: u8 = 3;

/// The places of a document that were not tried yet.
#[derive(Debug)]
pub(super) struct Search {
    step: Step,
    /// The place being tried, without redirects.
    place: Url,
    /// The URL being fetched.
    url: Url,
    redirects: u8,
    /// Further places, the next one last.
    rest: Vec<Url>,
    /// Whether the server named the only place, so that a miss is an error.
    is_named: bool,
    /// The first document that could not be used.
    defect: Option<Error>,
    /// The places without a document, for the error.
    misses: String,
}

/// What to do next.
#[derive(Debug)]
pub(super) enum SearchStep {
    /// Fetch the document at this URL.
    Fetch(Url),
    /// A JSON object was found.
    Found(Vec<u8>),
    /// There is no document at any place.
    Missing(Error),
    /// The search cannot go on.
    Failed(Error),
}

impl Search {
    /// Starts a search; `None` without a place.
    pub(super) fn new(step: Step, mut places: Vec<Url>) -> Option<Self> {
        // `advance` takes the next place from the end.
        places.reverse();
        let place = places.pop()?;
        Some(Self { rest: places, is_named: false, ..Self::at(step, place) })
    }

    /// Starts a search at the place that a server named.
    pub(super) fn at(step: Step, place: Url) -> Self {
        let url = place.clone();
        Self {
            step,
            place,
            url,
            redirects: 0,
            rest: Vec::new(),
            is_named: true,
            defect: None,
            misses: String::new(),
        }
    }

    /// Returns the URL to fetch.
    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the place of the document, before redirects, without its query.
    pub(super) fn place(&self) -> String {
        locations::without_query(&self.place)
    }

    fn error(&self, kind: ErrorKind, rule: &'static str) -> Error {
        Error::new(self.step, self.place(), kind, rule)
    }

    /// Takes the response to the last fetch.
    pub(super) fn handle_response(&mut self, response: FetchResponse, policy: &UrlPolicy<'_>) -> SearchStep {
        match response.status {
            200 => match Document::check(&response.body) {
                Ok(_) => SearchStep::Found(response.body),
                // A page for people, at an address that the server does not know.
                Err(_) if !begins_object(&response.body) && !self.is_named => self.miss("no JSON object"),
                Err(why) => self.reject(why, ""),
            },
            301 | 302 | 303 | 307 | 308 => self.follow(&response, policy),
            400..=499 => self.miss(itoa::Buffer::new().format(response.status)),
            // The document may be there: no other place stands in for it, and nothing is guessed.
            status => SearchStep::Failed(self.error(ErrorKind::Status(status), "")),
        }
    }

    /// Takes the failure of the last fetch.
    pub(super) fn handle_failure(&self, failure: FetchFailure) -> SearchStep {
        SearchStep::Failed(self.error(ErrorKind::Fetch(failure), ""))
    }

    /// Refuses the document that was found, and tries the next place.
    pub(super) fn reject(&mut self, why: Defect, rule: &'static str) -> SearchStep {
        let error = self.error(ErrorKind::Invalid(why), rule);
        if self.is_named {
            return SearchStep::Failed(error);
        }
        // The first defect is reported: its place comes before the others (AUTH-023, AUTH-028).
        self.defect.get_or_insert(error);
        self.advance()
    }

    /// Notes that there is no document at the place, and tries the next one.
    fn miss(&mut self, why: &str) -> SearchStep {
        let sep = if self.misses.is_empty() { "" } else { ", " };
        self.misses.push_str(&format!("{sep}{} ({why})", self.place()));
        self.advance()
    }

    fn advance(&mut self) -> SearchStep {
        match self.rest.pop() {
            Some(place) => {
                self.url = place.clone();
                self.place = place;
                self.redirects = 0;
                SearchStep::Fetch(self.url.clone())
            }
            None => match self.defect.take() {
                // A document that cannot be used explains more than the places without one.
                Some(error) => SearchStep::Failed(error),
                None if self.is_named => SearchStep::Failed(
                    self.error(ErrorKind::Invalid("there is no document".into()), "AUTH-023"),
                ),
                None => {
                    let why = format!("there is no document at {}", self.misses);
                    let server = format!("{}", self.place.origin());
                    SearchStep::Missing(Error::new(self.step, server, ErrorKind::Invalid(why.into()), ""))
                }
            },
        }
    }

    /// Follows a redirect to a URL that is acceptable itself (SEC-011).
    fn follow(&mut self, response: &FetchResponse, policy: &UrlPolicy<'_>) -> SearchStep {
        let target = response.field("location").unwrap_or_default();
        let refused = |search: &Self, why: &str| {
            let to = format!("{}{why}", Url::redacted(target));
            SearchStep::Failed(search.error(ErrorKind::Redirected(to.into()), "SEC-011"))
        };
        if target.is_empty() {
            return refused(self, "no place");
        }
        if self.redirects >= MAX_REDIRECTS {
            return refused(self, ", the fourth,");
        }
        match self.url.resolve(target) {
            Ok(url) if policy.check("location", &url).is_ok() => {
                self.redirects += 1;
                self.url = url;
                SearchStep::Fetch(self.url.clone())
            }
            _ => refused(self, ""),
        }
    }
}

/// Returns whether a text begins as a JSON object: a damaged document is a defect, anything else is none at all.
fn begins_object(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'{')
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::head::Fields;

    fn response(status: u16, body: &str) -> FetchResponse {
        FetchResponse { status, body: body.into(), ..FetchResponse::default() }
    }

    fn redirect(to: &str) -> FetchResponse {
        let mut fields = Fields::new();
        fields.push("Location", to.as_bytes());
        FetchResponse { status: 302, fields, body: Vec::new() }
    }

    fn with<T>(server: &str, body: impl FnOnce(&UrlPolicy<'_>) -> T) -> T {
        let server = Url::parse(server).expect("a URL");
        body(&UrlPolicy { server: server.origin(), http_hosts: &[] })
    }

    fn search() -> Search {
        let server = Url::parse("https://h/mcp").expect("a URL");
        Search::new(Step::ResourceMetadata, locations::resource_metadata(&server)).expect("places")
    }

    // covers: AUTH-023
    #[test]
    fn absent_documents_and_pages_lead_to_the_next_place() {
        with("https://h", |policy| {
            for absent in [response(404, ""), response(401, "{}"), response(200, "<html>"), response(405, "")]
            {
                let mut search = search();
                let SearchStep::Fetch(url) = search.handle_response(absent, policy) else {
                    panic!("no next place")
                };
                assert_eq!(locations::path(&url), "/.well-known/oauth-protected-resource");
                assert!(matches!(search.handle_response(response(200, "{}"), policy), SearchStep::Found(_)));
            }
            let mut search = search();
            search.handle_response(response(404, ""), policy);
            let SearchStep::Missing(error) = search.handle_response(response(404, ""), policy) else {
                panic!("found")
            };
            assert!(
                alloc::format!("{error}").contains("/.well-known/oauth-protected-resource/mcp (404)"),
                "{error}"
            );
        });
    }

    #[test]
    fn trouble_of_the_server_is_no_absence() {
        with("https://h", |policy| {
            for trouble in [response(500, ""), response(503, "{}"), response(204, ""), response(304, "")] {
                assert!(matches!(search().handle_response(trouble, policy), SearchStep::Failed(_)));
            }
            assert!(matches!(search().handle_failure(FetchFailure::TooLarge), SearchStep::Failed(_)));
        });
    }

    // covers: SEC-011
    #[test]
    fn at_most_three_acceptable_redirects_are_followed() {
        with("https://h", |policy| {
            let mut search = search();
            for _ in 0..3 {
                assert!(matches!(search.handle_response(redirect("/x"), policy), SearchStep::Fetch(_)));
            }
            assert!(matches!(search.handle_response(redirect("/x"), policy), SearchStep::Failed(_)));
        });
        for bad in ["http://h/x", "https://127.0.0.1/x", "https://169.254.169.254/", "javascript:x", ""] {
            with("https://h", |policy| {
                let SearchStep::Failed(error) = search().handle_response(redirect(bad), policy) else {
                    panic!("{bad} was followed")
                };
                assert_eq!(error.rule(), "SEC-011", "{bad}");
            });
        }
    }

    #[test]
    fn a_named_place_is_the_only_one() {
        with("https://h", |policy| {
            let url = Url::parse("https://h/meta?secret").expect("a URL");
            for absent in [response(404, ""), response(200, "<html>")] {
                let mut search = Search::at(Step::ResourceMetadata, url.clone());
                let SearchStep::Failed(error) = search.handle_response(absent, policy) else {
                    panic!("went on")
                };
                assert_eq!(error.server(), "https://h/meta");
            }
        });
    }
}
