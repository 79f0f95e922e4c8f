//! Pages of other origins (CORS): preflight requests, and the fields of responses.
//!
//! The server calls them through the function pointers of [`Cors`], which [`Config::cors`](super::Config::cors) installs, so a
//! program without it links none of the functions.

use alloc::string::String;

use super::Server;
use super::request_headers::RequestHeaders;
use crate::head::Fields;
use crate::http::fields;

/// The functions of a server that allows pages of other origins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cors {
    preflight_fields: fn(&Server) -> Fields,
    append_fields: fn(&RequestHeaders, &mut Fields),
}

impl Cors {
    pub(super) const fn new() -> Self {
        Self { preflight_fields, append_fields }
    }

    /// Returns the fields of the response to a preflight request, with those of the arguments of tools.
    pub(super) fn preflight_fields(self, server: &Server) -> Fields {
        (self.preflight_fields)(server)
    }

    /// Appends the fields of the response to a request.
    pub(super) fn append_fields(self, request: &RequestHeaders, fields: &mut Fields) {
        (self.append_fields)(request, fields);
    }
}

fn preflight_fields(server: &Server) -> Fields {
    let mut fields = Fields::new();
    fields.push(fields::ALLOW_METHODS, b"POST, GET, DELETE");
    let mut names = String::from(fields::CORS_REQUEST_HEADERS);
    match &server.tool_fields {
        // A preflight has no token, and the names would tell about tools (AUTH-070).
        _ if server.config.protected.is_some() => names.push_str(", *"),
        Some(tools) => tools.append_names(&mut names),
        None => {}
    }
    fields.push(fields::ALLOW_HEADERS, names.as_bytes());
    fields.push(fields::MAX_AGE, b"600");
    fields
}

fn append_fields(request: &RequestHeaders, fields: &mut Fields) {
    // Also without an origin: a cached response must not be shown to a page.
    fields.push(fields::VARY, b"Origin");
    if let Some(origin) = request.cors_origin() {
        fields.push(fields::ALLOW_ORIGIN, origin);
        fields.push(fields::EXPOSE_HEADERS, fields::CORS_EXPOSED_HEADERS.as_bytes());
    }
}
