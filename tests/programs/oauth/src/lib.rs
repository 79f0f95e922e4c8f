//! Gets a token for a service, with whatever sends requests.

#![forbid(unsafe_code)]

use std::sync::Arc;

use mcp_oauth::{
    Anchor, ClientAuth, ClientCredentials, Config, Entropy, Error, Event, Fetch, FetchResponse, Flow,
    GrantType, Instant, Secret, Trigger, Url,
};

/// Returns a token that the client gets by itself; `None` if the flow ends without one.
///
/// `send` answers each request, and refuses what `policy` of the request does not permit.
pub fn token(
    service: Url,
    id: &str,
    secret: &str,
    mut send: impl FnMut(&Fetch) -> FetchResponse,
) -> Result<Option<Secret>, Error> {
    let client = ClientCredentials::new(id, ClientAuth::Secret(secret.into()));
    let config = Config::new("batch").grant(GrantType::ClientCredentials).credentials(client);
    let trigger = Trigger::LogIn { challenges: Vec::new() };
    let now = Instant::from_micros(1);
    let clock = Anchor::new(now, 1_800_000_000);
    let mut flow = Flow::new(Arc::new(config), service, trigger, clock, now, Entropy::new([7; 32], 0));
    while let Some(event) = flow.poll_event(now) {
        match event {
            Event::Fetch(fetch) => {
                let response = send(&fetch);
                flow.handle_response(now, fetch.id, response);
            }
            // Nothing is kept.
            Event::Load { .. } | Event::Lock { .. } => flow.handle_loaded(now, None),
            Event::Save { .. } | Event::Replace { .. } => flow.handle_saved(now),
            Event::Authorized(token) => return Ok(Some(token.token)),
            Event::Failed(error) => return Err(error),
            Event::Unlock { .. } => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}
