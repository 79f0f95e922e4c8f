//! The client at an authorization server: configured, by its metadata document, registered, or named by a user
//! (AUTH-031).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::client_request::{AuthMethod, Client};
use super::super::config::{ApplicationType, ClientCredentials, GrantType};
use super::super::document::{Defect, Document};
use super::super::jose::JsonObject;
use super::super::record::{ClientRecord, SecretBinding};
use super::super::request::{FetchResponse, json_fields};
use super::super::token;
use super::facts::{Facts, Registered};
use super::{Event, Flow, State};
use crate::client_request::Registration;
use crate::error::{Error, ErrorKind, Step};
use crate::token::Secret;
use mcp_proto::Instant;
use mcp_proto::http::Url;
use mcp_proto::sync::Arc;

impl Flow {
    /// Determines the client at the authorization server that was discovered.
    pub(super) fn choose_client(&mut self) {
        // Whatever the client is, such a grant cannot be completed without a user.
        if !self.facts.config.interactive && self.facts.needs_user() {
            return self.need_login();
        }
        let config = Arc::clone(&self.facts.config);
        // The order of what follows is that of AUTH-031.
        if let Some(credentials) = &config.credentials {
            return self.use_credentials(credentials);
        }
        if let Some(client) = self.facts.named_client() {
            self.facts.client = Some(client);
            return self.client_ready();
        }
        let Some(issuer) = &self.facts.issuer else { return };
        if let Some(url) = config.client_metadata.clone().filter(|_| issuer.supports_client_metadata) {
            let client = Client { id: url, auth: AuthMethod::None };
            self.facts.client =
                Some(Registered { client, registration: Registration::MetadataDocument, secret: None });
            return self.client_ready();
        }
        let may_register =
            !matches!(self.facts.config.grant_type(), GrantType::ClientCredentials | GrantType::Assertion);
        if issuer.registration_endpoint.is_some() && self.facts.config.dynamic_registration && may_register {
            let key = ClientRecord::key(&issuer.issuer);
            self.state = State::LoadingClient;
            return self.emit(Event::Load { key });
        }
        if self.facts.config.interactive && may_register {
            let issuer = issuer.issuer.clone();
            self.state = State::AwaitingClient;
            return self.emit(Event::NeedClient { issuer });
        }
        self.unsupported(
            Step::Registration,
            "the client is not registered there and cannot register",
            "AUTH-031",
        );
    }

    /// Names a client at the authorization server, after [`Event::NeedClient`].
    pub fn set_client(&mut self, now: Instant, credentials: &ClientCredentials) {
        self.tick(now);
        if matches!(self.state, State::AwaitingClient) {
            self.use_credentials(credentials);
        }
    }

    fn use_credentials(&mut self, credentials: &ClientCredentials) {
        let Some(issuer) = &self.facts.issuer else { return };
        if credentials.issuer.as_ref().is_some_and(|other| *other != issuer.issuer) {
            return self.invalid(
                Step::Registration,
                "the client is registered at another issuer",
                "AUTH-039",
            );
        }
        let lists_methods = issuer.auth_methods.is_some();
        match credentials.auth.method(|method| issuer.supports_auth(method), lists_methods) {
            Some(auth) => {
                let client = Client { id: credentials.client_id.clone(), auth };
                // The secret of the configuration is there again next time; the one that a user typed is not.
                let is_configured = self.facts.config.credentials.is_some();
                let shared = credentials.auth.secret();
                let secret = shared.filter(|_| !is_configured).cloned();
                self.facts.client =
                    Some(Registered { client, registration: Registration::PreRegistered, secret });
                // Nobody named the issuer of this secret, so the first one that gets it is stored (AUTH-039).
                match shared.filter(|_| is_configured && credentials.issuer.is_none()) {
                    Some(shared) => {
                        let key = SecretBinding::key(&credentials.client_id, shared);
                        self.state = State::LoadingBinding { key: key.clone() };
                        self.emit(Event::Load { key });
                    }
                    None => self.client_ready(),
                }
            }
            None => {
                let why = "`token_endpoint_auth_methods_supported` has no method of this client";
                self.unsupported(Step::Registration, why, "RFC 8414, 2");
            }
        }
    }

    // ---- dynamic registration (RFC 7591) ---------------------------------------------------------------------

    pub(super) fn client_loaded(&mut self, value: Option<&Secret>) {
        let record = match value.map(ClientRecord::parse).transpose() {
            Ok(record) => record,
            Err(why) => {
                let error = self.facts.damaged("the stored registration at this server is", &why);
                return self.end_with(error);
            }
        };
        let unix_secs = self.unix_secs();
        let grant = self.facts.config.grant_type().registered_name();
        let is_known = |record: &ClientRecord| {
            // A registration lists its grant types, and a server may refuse any other.
            record.grant == grant && record.expires_at.is_none_or(|at| at > unix_secs)
        };
        let record = record.filter(is_known);
        self.facts.client = record.as_ref().map(registered);
        self.facts.uses_stored_registration = record.is_some();
        // The earlier registration has shown that the server is an authorization server.
        self.facts.missing_metadata.take_if(|_| record.is_some());
        if !matches!(self.facts.config.grant_type(), GrantType::AuthorizationCode) {
            return match self.facts.client {
                Some(_) => self.client_ready(),
                None => self.register(String::new()),
            };
        }
        let preferred = record.map(|record| record.redirect_uri).filter(|uri| !uri.is_empty());
        self.emit(Event::NeedRedirectUri { preferred: preferred.clone() });
        self.state = State::AwaitingRedirectUri { preferred };
    }

    /// Sets the redirect URI at which the application receives the redirect, after [`Event::NeedRedirectUri`].
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn set_redirect_uri(&mut self, now: Instant, uri: &str) {
        self.tick(now);
        let State::AwaitingRedirectUri { preferred } = &mut self.state else { return };
        let is_registered = preferred.take().is_some_and(|registered| registered == uri);
        self.facts.redirect_uri = Some(uri.into());
        let is_dynamic = self.facts.client.as_ref().is_none_or(|c| c.registration == Registration::Dynamic);
        if is_dynamic && !is_registered {
            // A server may compare redirect URIs byte for byte (AUTH-062).
            return self.register(uri.into());
        }
        self.client_ready();
    }

    fn register(&mut self, redirect_uri: String) {
        let Some((issuer, endpoint)) = self
            .facts
            .issuer
            .as_ref()
            .and_then(|issuer| Some((issuer, issuer.registration_endpoint.clone()?)))
        else {
            return;
        };
        let method = match &issuer.auth_methods {
            Some(_) if issuer.supports_auth("none") => "none",
            Some(_) if issuer.supports_auth("client_secret_basic") => "client_secret_basic",
            Some(_) if issuer.supports_auth("client_secret_post") => "client_secret_post",
            _ => "none",
        };
        let mut fields = json_fields();
        fields.push("Content-Type", b"application/json");
        let body = self.facts.registration(method, &redirect_uri);
        let Some(fetch) = self.fetch(Step::Registration, "POST", endpoint, fields, body, false) else {
            return;
        };
        self.state = State::Registering { fetch, redirect_uri };
    }

    /// Ends the flow with an error. A registration that the server does not know is forgotten first, so that the next
    /// flow makes another.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn end_without_client(&mut self, error: Error, is_unknown: bool) {
        let is_dynamic =
            self.facts.client.as_ref().is_some_and(|client| client.registration == Registration::Dynamic);
        match &self.facts.issuer {
            Some(issuer) if is_unknown && is_dynamic => {
                let issuer = issuer.issuer.clone();
                self.remove_client(&issuer, Some(error));
            }
            _ => self.end_with(error),
        }
    }

    /// Forgets the registration at an authorization server; then ends the flow with an error, or gets another
    /// authorization.
    pub(super) fn remove_client(&mut self, issuer: &str, error: Option<Error>) {
        self.state = State::RemovingClient(error);
        self.emit(Event::Save { key: ClientRecord::key(issuer), value: None });
    }

    pub(super) fn registered(&mut self, response: &FetchResponse, redirect_uri: String) {
        let grant = self.facts.config.grant_type().registered_name();
        let record = match response.status {
            200 | 201 => read_registration(&response.body, grant, redirect_uri).map_err(ErrorKind::Invalid),
            // AUTH-038: the server says which redirect URI or type it refuses.
            _ => Err(token::refusal(response)),
        };
        match (record, &self.facts.issuer) {
            (Ok(record), Some(issuer)) => {
                let key = ClientRecord::key(&issuer.issuer);
                self.facts.client = Some(registered(&record));
                self.facts.uses_stored_registration = false;
                self.facts.missing_metadata = None;
                self.state = State::SavingClient;
                self.emit(Event::Save { key, value: Some(record.to_secret()) });
            }
            (Err(kind), _) => {
                self.fail_at(Step::Registration, kind, "RFC 7591");
            }
            (Ok(_), None) => {}
        }
    }
}

impl Facts {
    /// Checks that the secret of the configuration is for the authorization server, the first one that it is used at,
    /// whichever MCP server named that one (AUTH-039). Returns what is to be stored, if nothing is.
    pub(super) fn check_secret_binding(&self, stored: Option<&Secret>) -> Result<Option<Secret>, Error> {
        let issuer = self.issuer.as_ref().map_or("", |issuer| &issuer.issuer);
        let bound = stored.map(SecretBinding::parse).transpose();
        let bound = bound.map_err(|why| self.damaged("the stored issuer of the client is", &why))?;
        match bound {
            None => Ok(Some(SecretBinding::to_secret(issuer))),
            Some(bound) if bound == issuer => Ok(None),
            Some(bound) => {
                let why = format!("the secret of the client is for {}", Url::redacted(&bound));
                Err(self.error(Step::Registration, ErrorKind::Invalid(why.into()), "AUTH-039"))
            }
        }
    }

    /// Returns the client that a user named earlier for this authorization server.
    pub(super) fn named_client(&self) -> Option<Registered> {
        let record = self.record.as_ref().filter(|r| r.registration == Registration::PreRegistered)?;
        self.issuer.as_ref().filter(|issuer| issuer.issuer == record.issuer)?; // AUTH-039
        let client = self.client_of(record)?;
        Some(Registered {
            client,
            registration: Registration::PreRegistered,
            secret: record.client_secret.clone(),
        })
    }

    /// Returns the metadata of the client for its registration (RFC 7591, 2; AUTH-037, AUTH-059).
    pub(super) fn registration(&self, auth_method: &str, redirect_uri: &str) -> String {
        let mut body = JsonObject::new();
        body.string("client_name", &self.config.client_name);
        body.optional("client_uri", self.config.client_uri.as_deref());
        let kind = match self.config.application_type {
            ApplicationType::Native => "native",
            ApplicationType::Web => "web",
        };
        body.string("application_type", kind);
        let grant = self.config.grant_type().registered_name();
        let (grants, responses): (Vec<&str>, &[&str]) = match self.config.grant_type() {
            GrantType::Enterprise(_) => (Vec::from([grant]), &[]),
            GrantType::DeviceCode => (Vec::from([grant, "refresh_token"]), &[]),
            _ => (Vec::from([grant, "refresh_token"]), &["code"]),
        };
        body.strings("redirect_uris", (!redirect_uri.is_empty()).then_some(redirect_uri));
        body.strings("grant_types", grants).strings("response_types", responses.iter().copied());
        body.string("token_endpoint_auth_method", auth_method);
        body.finish()
    }
}

/// Reads the response of a registration (RFC 7591, 3.2.1).
fn read_registration(body: &[u8], grant: &str, redirect_uri: String) -> Result<ClientRecord, Defect> {
    Document::read(
        body,
        |why| why,
        |document| {
            let secret = document.string("client_secret").map(Secret::from);
            let method = document.string("token_endpoint_auth_method");
            let method = match (method.as_deref(), &secret) {
                (Some("none"), _) | (None, None) => "none",
                (Some("client_secret_post"), Some(_)) => "client_secret_post",
                (Some("client_secret_basic") | None, Some(_)) => "client_secret_basic",
                (Some(_), _) => return Err("`token_endpoint_auth_method` is none that was asked for".into()),
            };
            Ok(ClientRecord {
                client_id: document.required_string("client_id"),
                auth_method: method.into(),
                // A server may send a secret although its method does not use it.
                secret: secret.filter(|_| method != "none"),
                grant: grant.into(),
                redirect_uri,
                // 0: never (RFC 7591, 3.2.1).
                expires_at: document.seconds("client_secret_expires_at").filter(|at| *at != 0),
            })
        },
    )
}

#[expect(deprecated, reason = "supported until its removal")]
fn registered(record: &ClientRecord) -> Registered {
    let auth = match (&*record.auth_method, &record.secret) {
        ("client_secret_basic", Some(secret)) => AuthMethod::Basic(secret.clone()),
        ("client_secret_post", Some(secret)) => AuthMethod::Post(secret.clone()),
        _ => AuthMethod::None,
    };
    let client = Client { id: record.client_id.clone(), auth };
    Registered { client, registration: Registration::Dynamic, secret: record.secret.clone() }
}
