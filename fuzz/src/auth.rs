//! Fuzz targets for the documents and texts of an authorization, and for a whole flow.

use mcp_oauth::{
    ClientAuth, ClientCredentials, ClientMetadata, Config, DpopMode, FetchFailure, GrantType, Secret,
    TokenRecord, Trigger, parse_form, redirect_query,
};
use mcp_proto::http::client::{Url, parse_challenges};

use super::auth_run::{End, ISSUER, SERVER, Script, drive, mark, response, right};
use super::input::FuzzInput;

fn config() -> Config {
    Config::new("fuzz").max_document(4 << 10)
}

fn server() -> Url {
    Url::parse(SERVER).expect("a URL")
}

const LOGIN: Trigger = Trigger::LogIn { challenges: Vec::new() };

/// Begins a flow for a server by the challenge that follows; they are on two lines.
///
/// The first request stays at the origin of the server, and no URL of a secure server is insecure.
pub fn auth_challenge(data: &[u8]) {
    let mark = mark(data);
    let text = String::from_utf8_lossy(data);
    let (url, fields) = text.split_once('\n').unwrap_or((SERVER, &text));
    let Ok(server) = Url::parse(url) else { return };
    let challenges = parse_challenges(fields.lines().map(str::as_bytes));
    let mut first = None;
    let mut script = Script::right(&mark).responding(|fetch| {
        first.get_or_insert_with(|| fetch.url.clone());
        right(&mark, fetch)
    });
    let trigger = Trigger::Unauthorized { challenges, rejected: None };
    let end = drive(config().legacy_fallback(true), &server, trigger, &mut script);
    drop(script);
    if let Some(first) = first {
        assert_eq!(first.origin(), server.origin(), "{end:?}");
    }
}

/// Reads the input as the metadata of a resource, of an authorization server, or of a client.
pub fn auth_document(data: &[u8]) {
    let mark = mark(data);
    let mut choices = FuzzInput::new(data);
    let place = match choices.below(4) {
        0 => "/.well-known/oauth-protected-resource/mcp",
        1 => "/.well-known/oauth-authorization-server",
        2 => "/register",
        _ => {
            // A document that is accepted has the URL as its id.
            if ClientMetadata::check("https://app/c", choices.rest()).is_ok() {
                assert!(String::from_utf8_lossy(data).contains("client_name"));
            }
            return;
        }
    };
    let body = choices.rest();
    let mut script = Script::right(&mark).responding(|fetch| {
        if fetch.url.target() == place { Ok(response(200, body)) } else { right(&mark, fetch) }
    });
    drive(config(), &server(), LOGIN, &mut script);
}

/// Reads the input as the query of a redirect; `STATE` in it stands for the state of the flow.
///
/// A redirect without the state is foreign. One with another issuer, with an error or with a repeated parameter brings
/// no token. `form_urlencoded` finds the same parameters.
pub fn auth_redirect(data: &[u8]) {
    let mark = mark(data);
    let text = String::from_utf8_lossy(data).into_owned();
    let mut pairs = Vec::new();
    if parse_form(&text, &mut |name, value| pairs.push((name, value))).is_some() {
        let others = form_urlencoded::parse(text.as_bytes()).into_owned();
        assert_eq!(pairs, others.collect::<Vec<_>>(), "{text:?}");
    }
    let query = redirect_query(&text);
    let mut is_opened = false;
    let mut script = Script::right(&mark).redirecting(|state| {
        is_opened = true;
        vec![query.replace("STATE", state)]
    });
    let end = drive(config(), &server(), LOGIN, &mut script);
    drop(script);
    assert!(is_opened, "{end:?}");
    if let End::Authorized(_) = end {
        let names = |name: &str| query.split('&').filter(|part| part.split('=').next() == Some(name)).count();
        assert!(query.contains("STATE"), "a token without the state: {query}");
        assert!(["code", "state", "iss", "error"].iter().all(|name| names(name) <= 1), "{query}");
        assert_eq!(names("error"), 0, "a token in spite of an error: {query}");
    }
}

/// Reads the input as the response of a token endpoint, for a code or for a refresh token.
pub fn auth_token(data: &[u8]) {
    let mark = mark(data);
    let mut choices = FuzzInput::new(data);
    let flags = choices.byte();
    let status = [200, 200, 200, 400, 401, 302, 500, 204].into_iter().nth(choices.below(8)).unwrap_or(200);
    let mode = if flags & 1 == 0 { DpopMode::Never } else { DpopMode::Always };
    let body = choices.rest();
    let mut script = Script::right(&mark);
    if flags & 2 != 0 {
        // The stored tokens are due at once in the eyes of the next run.
        drive(config().dpop(mode), &server(), LOGIN, &mut script);
        for value in script.store.values_mut() {
            *value = value.replace("\"renew_at\":18", "\"renew_at\":17");
        }
    }
    let trigger = if flags & 2 != 0 { Trigger::Connect } else { LOGIN };
    let mut script = script.responding(|fetch| {
        if fetch.url.target() == "/token" { Ok(response(status, body)) } else { right(&mark, fetch) }
    });
    let end = drive(config().dpop(mode), &server(), trigger, &mut script);
    if let End::Authorized(token) = end {
        assert_eq!(status, 200);
        assert!(mode == DpopMode::Never || token.dpop.is_some(), "a token without its key");
    }
}

/// Reads the input as what is stored: the tokens of a server, or the registration at an authorization server.
///
/// What cannot be read is an error and stays as it is.
pub fn auth_record(data: &[u8]) {
    let mark = mark(data);
    let mut choices = FuzzInput::new(data);
    let which = choices.below(5);
    let text = String::from_utf8_lossy(choices.rest()).into_owned();
    let key = if which == 0 { format!("client {ISSUER}") } else { TokenRecord::key(&server()) };
    let mut script = Script::right(&mark);
    script.store.insert(key.clone(), text.clone());
    let trigger = match which {
        1 => Trigger::Connect,
        2 => Trigger::Unauthorized { challenges: Vec::new(), rejected: Some("other".into()) },
        3 => Trigger::LogOut,
        _ => LOGIN,
    };
    let is_readable = which == 0 || TokenRecord::parse(&Secret::from(&*text)).is_ok();
    let end = drive(config(), &server(), trigger, &mut script);
    if !is_readable {
        assert!(matches!(end, End::Failed), "{end:?}");
        assert_eq!(script.store.get(&key), Some(&text), "what is damaged is not overwritten");
    }
}

/// Runs two flows whose configuration and responses come from the input.
pub fn auth_flow(data: &[u8]) {
    let mark = mark(data);
    let mut choices = FuzzInput::new(data);
    let flags = choices.byte();
    let known = || ClientCredentials::new("known", ClientAuth::Secret(format!("{mark}-k").into()));
    let mut config = config().legacy_fallback(flags & 1 != 0).choose_server(flags & 2 != 0);
    config = match choices.below(5) {
        0 => config,
        1 => config.grant(GrantType::DeviceCode),
        2 => config.grant(GrantType::ClientCredentials).credentials(known()),
        3 => config.grant(GrantType::Assertion).credentials(known()),
        _ => config.client_metadata_url("https://app/c").expect("a client id"),
    };
    config = config.dpop(if flags & 4 != 0 { DpopMode::Always } else { DpopMode::Auto });
    let mut script = Script::right(&mark).responding(|fetch| answer(&mut choices, &mark, fetch));
    for trigger in [LOGIN, Trigger::Unauthorized { challenges: Vec::new(), rejected: Some("old".into()) }] {
        drive(config.clone(), &server(), trigger, &mut script);
    }
}

/// Draws the reply to a request: the right one, the right one with changes, or free bytes.
fn answer(
    choices: &mut FuzzInput<'_>,
    mark: &str,
    fetch: &mcp_oauth::Fetch,
) -> Result<mcp_oauth::FetchResponse, FetchFailure> {
    let mut reply = right(mark, fetch)?;
    match choices.below(8) {
        0 => return Err(FetchFailure::Unreachable("refused".into())),
        1 => return Err(FetchFailure::TimedOut),
        2 => {
            let length = choices.below(200);
            reply.body = choices.take(length).to_vec();
        }
        3 => {
            let statuses = [200, 201, 301, 307, 400, 401, 404, 500];
            reply.status = statuses.into_iter().nth(choices.below(8)).unwrap_or(200);
            let length = choices.below(40);
            let place: Vec<u8> =
                choices.take(length).iter().copied().filter(|b| (0x20..0x7f).contains(b)).collect();
            reply.fields.push("Location", place.trim_ascii());
        }
        4 => {
            let codes =
                ["use_dpop_nonce", "slow_down", "authorization_pending", "invalid_grant", "invalid_client"];
            let code = codes.into_iter().nth(choices.below(5)).unwrap_or("");
            reply = response(400, format!(r#"{{"error":"{code}"}}"#).as_bytes());
            reply.fields.push("DPoP-Nonce", choices.byte().to_string().as_bytes());
        }
        5 => {
            let at = choices.below(reply.body.len());
            if let Some(byte) = reply.body.get_mut(at) {
                *byte = choices.byte();
            }
        }
        _ => {}
    }
    Ok(reply)
}
