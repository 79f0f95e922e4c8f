//! The steps of a server that asks for a token: where to get one, whether there is one, and whether it is enough.

use core::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_oauth::{AccessToken, Secret, TokenRecord, Trigger};
use mcp_proto::http::client::Url;
use mcp_proto::http::fields::{AUTHORIZATION, WWW_AUTHENTICATE};
use mcp_proto_trace::escape::shell_word;
use serde_json::Value;

use super::http::{self, Reply};
use super::quote::clip;
use super::status::{excerpt, shown};
use super::{Diagnosis, Ended, Fault, FaultKind, Passed, Steps, clock};
use crate::document::{MAX_SERVERS, covers, fetch_resource_metadata, fetch_server_metadata, is_safe};
use crate::exchange::HttpTarget;
use crate::hints;

/// Where a diagnosis gets tokens from, as `mcp_auth::client::Authorizer` does.
pub trait Tokens {
    /// Returns a token for the server at `server`: the one to begin with ([`Trigger::Connect`]), or another one in place of a refused one
    /// ([`Trigger::Unauthorized`]).
    ///
    /// # Errors
    ///
    /// A [`Fault`] of the step `token`.
    fn token(&mut self, server: &Url, trigger: Trigger) -> Result<Option<AccessToken>, Fault>;

    /// Returns what is stored for the server although it gives no token, which the fault tells then.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of the step `token`.
    fn stored(&mut self, server: &Url) -> Result<Option<TokenRecord>, Fault> {
        let _ = server;
        Ok(None)
    }
}

/// Follows the challenge of the server to a token. Returns the response to a request with it, if one can be made here.
pub(super) fn diagnose(
    steps: &mut Steps<'_>,
    diagnosis: &mut Diagnosis<'_>,
    target: &HttpTarget,
    reply: &Reply,
    skew: Option<i64>,
) -> Result<Option<Reply>, Ended> {
    let (timeout, has_credential) = (diagnosis.timeout, target.field(AUTHORIZATION).is_some());
    let Some(challenge) = reply.head.bearer_challenge() else {
        // A key may travel in any field.
        let outcome = explain_other_scheme(reply, target.has_fields());
        steps.check("token", Err(outcome))?;
        return Ok(None);
    };
    let named = challenge.param("resource_metadata");
    let metadata = fetch_resource_metadata(named, target.url(), timeout);
    let issuers = steps.record("resource", check_resource(target.url(), metadata, has_credential))?;
    steps.check("issuer", check_issuers(target.url(), &issuers, timeout))?;
    if has_credential {
        let outcome = check_sent_token(target, reply, skew);
        steps.check("token", outcome)?;
        return steps.check("scopes", check_scopes(target.url(), reply)).map(|()| None);
    }
    let outcome = try_stored_token(steps, diagnosis, target, skew);
    let reply = steps.record("token", outcome)?;
    let scopes = match &reply {
        Some(reply) => check_scopes(target.url(), reply),
        None => Ok(Passed::Skipped("the next step shows whether they are enough".into())),
    };
    steps.check("scopes", scopes)?;
    Ok(reply)
}

/// Explains a refusal that names no scheme of OAuth.
fn explain_other_scheme(reply: &Reply, has_credential: bool) -> Fault {
    let why = match reply.head.field(WWW_AUTHENTICATE) {
        Some(value) => {
            format!("its challenge is {:?}, so it wants another credential than an access token", clip(value))
        }
        None => format!(
            "the response has no `{WWW_AUTHENTICATE}`, so it does not say what it wants, often a key of its own"
        ),
    };
    let what = match has_credential {
        true => "the server refuses the credential",
        false => "the server asks for a credential",
    };
    let fix = match has_credential {
        true => {
            "compare the key with the one that the server gave out, and the field with its documentation: the key may have expired"
        }
        false => {
            "send what its documentation names, for example --header \"X-Api-Key: env:API_KEY\" or --bearer env:TOKEN"
        }
    };
    Fault::new(format!("{what} with the status {}{}", reply.head.status, excerpt(reply)), why, fix)
        .with_kind(FaultKind::Unauthorized)
}

/// Checks the metadata of the resource and returns the authorization servers that it names.
fn check_resource(
    server: &Url,
    metadata: Result<Value, String>,
    has_credential: bool,
) -> Result<(Passed, Vec<String>), Fault> {
    let failed = |what: &str, why: String, fix: &str| {
        Err(Fault::new(what, why, fix).with_kind(FaultKind::Unauthorized))
    };
    let document = match metadata {
        Ok(document) => document,
        Err(why) if has_credential => return Ok((Passed::Warning(why), Vec::new())),
        Err(why) => {
            return failed(
                "the server asks for a token and does not say where to get one",
                format!("the metadata of the resource (RFC 9728) is not found: {why}"),
                "let the server publish it at /.well-known/oauth-protected-resource, or send a token from elsewhere with --bearer",
            );
        }
    };
    let resource = document["resource"].as_str().unwrap_or_default();
    if !covers(resource, server) {
        return failed(
            "the metadata of the resource is that of another server",
            format!("its `resource` is {:?}, and the URL is {}", clip(resource), shown(server)),
            "let `resource` be the URL that clients use, with the same scheme, host and port: behind a proxy the public one",
        );
    }
    let named = document["authorization_servers"].as_array().map_or(&[][..], |all| all);
    let issuers: Vec<String> = named.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if issuers.is_empty() {
        return failed(
            "the metadata of the resource names no authorization server",
            "its member `authorization_servers` is missing or empty".into(),
            "let the server name the issuer of its tokens there",
        );
    }
    Ok((Passed::Ok(clip(resource)), issuers))
}

/// Checks that one of the authorization servers can be used.
fn check_issuers(server: &Url, issuers: &[String], timeout: Duration) -> Result<Passed, Fault> {
    let until = Instant::now() + timeout;
    let mut first = None;
    for (issuer, waiting) in issuers.iter().zip((1..=issuers.len().min(MAX_SERVERS)).rev()) {
        // One that does not answer leaves time for those behind it.
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(waiting).unwrap_or(u32::MAX);
        match check_issuer(server, issuer, share) {
            Ok(()) => return Ok(Passed::Ok(Url::redacted(issuer))),
            Err(fault) => _ = first.get_or_insert(fault),
        }
    }
    first.map_or_else(|| Ok(Passed::Skipped("none is named".into())), Err)
}

fn check_issuer(server: &Url, issuer: &str, timeout: Duration) -> Result<(), Fault> {
    let name = Url::redacted(issuer);
    let failed = |what: String, why: String, fix: &str| {
        Err(Fault::new(what, why, fix).with_kind(FaultKind::Unauthorized))
    };
    let Some(url) = Url::parse(issuer).ok().filter(is_safe) else {
        return failed(
            format!("the authorization server {name} cannot be used"),
            "its issuer is no https URL".into(),
            "let the metadata of the resource name the https URL of the issuer",
        );
    };
    let metadata = match fetch_server_metadata(issuer, &url, server, timeout) {
        Ok(metadata) => metadata,
        Err(error) if error.is_unreachable => {
            return Err(Fault::new(
                format!("the authorization server {name} is not reached"),
                error.to_string(),
                "is it running, and does this machine reach it? Open its URL in a browser",
            ));
        }
        Err(error) => {
            return failed(
                format!("the authorization server {name} publishes no metadata"),
                error.to_string(),
                "let it publish RFC 8414 or OpenID Connect metadata below /.well-known/, or correct the issuer that the resource names",
            );
        }
    };
    if metadata["issuer"] != *issuer {
        return failed(
            format!("the metadata of {name} is that of another issuer"),
            format!(
                "its `issuer` is {}, which differs from {issuer:?}, if only by a slash",
                clip(&metadata["issuer"].to_string())
            ),
            "name the issuer in the metadata of the resource byte for byte as it names itself",
        );
    }
    if metadata["token_endpoint"].is_null() {
        return failed(
            format!("the authorization server {name} gives no tokens"),
            "its metadata has no `token_endpoint`".into(),
            "correct the metadata of the authorization server",
        );
    }
    Ok(())
}

/// Judges a token of the command line or of a configuration file.
fn check_sent_token(target: &HttpTarget, reply: &Reply, skew: Option<i64>) -> Result<Passed, Fault> {
    match reply.head.status {
        401 => {
            let token = target.field(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
            Err(explain_rejection(target.url(), reply, token, skew))
        }
        _ => Ok(Passed::Ok("the token that is sent is accepted".into())),
    }
}

/// Sends the stored token, and a renewed one if that is refused. Returns the response; `None` for a token that is bound to a key,
/// which only the client of the next step can send.
fn try_stored_token(
    steps: &mut Steps<'_>,
    diagnosis: &mut Diagnosis<'_>,
    target: &HttpTarget,
    skew: Option<i64>,
) -> Result<(Passed, Option<Reply>), Fault> {
    let (url, timeout) = (target.url(), diagnosis.timeout);
    let Some(tokens) = &mut diagnosis.tokens else { return Err(explain_missing(url, None)) };
    let Some(token) = tokens.token(url, Trigger::Connect)? else {
        return Err(explain_missing(url, tokens.stored(url)?.as_ref()));
    };
    steps.hide(token.token.expose());
    let bound = || (Passed::Ok("the stored one is bound to a key".into()), None);
    if token.dpop.is_some() {
        return Ok(bound());
    }
    let send = |token: &Secret| {
        let mut target = target.clone();
        target.add_field(AUTHORIZATION, format!("Bearer {}", token.expose()));
        http::send(&target, timeout).map_err(|why| http::explain_no_reply(&target, why, timeout))
    };
    let reply = send(&token.token)?;
    if reply.head.status != 401 {
        return Ok((Passed::Ok("the stored one is accepted".into()), Some(reply)));
    }
    let challenges = reply.head.bearer_challenge().into_iter().collect();
    let rejected = Some(token.token.clone());
    let renewed = tokens.token(url, Trigger::Unauthorized { challenges, rejected });
    if let Ok(Some(token)) = &renewed {
        steps.hide(token.token.expose());
    }
    match renewed {
        Ok(Some(token)) if token.dpop.is_some() => Ok(bound()),
        Ok(Some(token)) => {
            let reply = send(&token.token)?;
            match reply.head.status {
                401 => Err(explain_rejection(url, &reply, Some(token.token.expose()), skew)),
                _ => Ok((Passed::Ok("the stored one was refused, and is renewed".into()), Some(reply))),
            }
        }
        // That it cannot be renewed matters less than that it is refused.
        Ok(None) | Err(_) => Err(explain_rejection(url, &reply, Some(token.token.expose()), skew)),
    }
}

/// Explains why there is no token that can be used, with what is stored.
fn explain_missing(url: &Url, record: Option<&TokenRecord>) -> Fault {
    let login = format!(
        "`mcp-probe login {}` gets one; --bearer env:NAME sends one from elsewhere",
        shell_word(&shown(url))
    );
    let (what, why) = match record {
        None => (
            "the server asks for a token, and there is none",
            "nobody has logged in at this server, and no option gives a token",
        ),
        Some(record) if record.expires_at().is_some_and(|at| at <= unix_time()) => {
            ("the stored token cannot be used", "it has expired, and cannot be renewed without a user")
        }
        Some(_) => (
            "the stored token cannot be used",
            "it is not for this client or this authorization server any more",
        ),
    };
    Fault::new(what, why, login).with_kind(FaultKind::Unauthorized)
}

/// Explains why the server does not take a token.
fn explain_rejection(url: &Url, reply: &Reply, token: Option<&str>, skew: Option<i64>) -> Fault {
    let challenge = reply.head.bearer_challenge();
    let told = challenge.as_ref().and_then(|challenge| {
        challenge.param("error_description").or_else(|| challenge.param("error")).map(str::to_owned)
    });
    let told = told.map(|words| format!(" (it says {:?})", clip(&words))).unwrap_or_default();
    let expired = token.and_then(expiry).and_then(|at| unix_time().checked_sub(at));
    let why = match (expired, clock::explain(skew)) {
        (Some(ago), _) => format!("the token has expired {ago} s ago{told}"),
        (None, Some(skew)) => format!("{skew}, so the token may seem expired or not yet valid there{told}"),
        (None, None) => format!("it is revoked, or for another server or of another issuer{told}"),
    };
    let fix = format!("`mcp-probe login {}` gets another one; {}", shell_word(&shown(url)), hints::BEARER);
    Fault::new("the server refuses the token with the status 401", why, fix)
        .with_kind(FaultKind::Unauthorized)
}

/// Returns the time at which a JWT expires. Its signature is not checked.
fn expiry(token: &str) -> Option<u64> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice::<Value>(&claims).ok()?["exp"].as_u64()
}

/// Checks that the response does not ask for more scopes.
fn check_scopes(url: &Url, reply: &Reply) -> Result<Passed, Fault> {
    let challenge = reply.head.bearer_challenge().filter(|_| reply.head.status == 403);
    let Some(challenge) = challenge else { return Ok(Passed::Ok("they are enough to connect".into())) };
    let scopes = challenge.param("scope").unwrap_or_default();
    let options: String =
        scopes.split_whitespace().map(|scope| format!("--scope {} ", shell_word(scope))).collect();
    let why = match scopes {
        "" => "its challenge does not say which scopes it wants".to_owned(),
        scopes => format!("it wants the scopes {:?} (insufficient_scope)", clip(scopes)),
    };
    let fix = format!("`mcp-probe login {options}{}` asks for them", shell_word(&shown(url)));
    Err(Fault::new("the token is valid, but not for this", why, fix).with_kind(FaultKind::Unauthorized))
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn timeout_holds_for_all_issuers_together() {
        // Connections are made and never answered.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let origin = format!("http://{}", silent.local_addr().expect("bound"));
        let issuers: Vec<String> = (0..6).map(|number| format!("{origin}/{number}")).collect();
        let server = Url::parse(&origin).expect("a URL");
        let begun = Instant::now();
        let outcome = check_issuers(&server, &issuers, Duration::from_millis(600));
        assert!(outcome.is_err_and(|fault| fault.what.contains("is not reached")));
        assert!(begun.elapsed() < Duration::from_millis(1_500), "{:?}", begun.elapsed());
    }
}
