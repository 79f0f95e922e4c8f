//! `events send`: a signed test delivery, or a challenge.

use std::fs;
use std::time::SystemTime;

use mcp_events::webhook::{
    Challenge, MAX_CHALLENGE_ANSWER, MEDIA_TYPE, SUBSCRIPTION_ID, WEBHOOK_ID, WEBHOOK_SIGNATURE,
    WEBHOOK_TIMESTAMP, sign,
};
use mcp_events::wire::EventOccurrence;
use mcp_proto::head::Fields;
use mcp_proto::http::Url;
use mcp_proto::{Entropy, RawJson, iso_8601};
use mcp_std::http_client::{BodyBound, HttpClient, HttpFailure, HttpRequest};
use mcp_std::sync::Budget;
use mcp_std::{Clock, entropy};
use serde::Serialize;

use super::args::EventsSendArgs;
use super::required_secret;
use crate::failure::{CommandFailure, Exit};
use crate::output::{print, print_value};

pub(super) fn run(args: &EventsSendArgs) -> Result<(), CommandFailure> {
    let secret = required_secret(&args.secret)?;
    let url = Url::parse(&args.url)
        .map_err(|error| CommandFailure::usage(format!("{}: {error}", Url::redacted(&args.url))))?;
    let no_entropy =
        |error: std::io::Error| CommandFailure::failed(format!("there is no randomness: {error}"));
    let mut entropy = Entropy::new(entropy::seed().map_err(no_entropy)?, entropy::nonce());
    let clock = Clock::start();
    let unix_secs = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut random_id = |prefix: &str| {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        format!("{prefix}{:032x}", u128::from_le_bytes(bytes))
    };
    let (body, id) = match (&args.body, args.challenge) {
        (Some(path), _) => {
            let body = fs::read(path)
                .map_err(|error| CommandFailure::usage(format!("the file {}: {error}", path.display())))?;
            let id = RawJson::new(body.clone()).ok().and_then(|body| body.member("eventId")?.string());
            (body, id.unwrap_or_else(|| random_id("msg_")))
        }
        (None, true) => (Vec::new(), random_id("msg_verification_")),
        (None, false) => {
            let id = random_id("evt_");
            let event = EventOccurrence::new(&*id, &*args.name, iso_8601(unix_secs), args.data.clone());
            let body = RawJson::encode(&event).map_err(|error| CommandFailure::usage(error.to_string()))?;
            (body.as_bytes().to_vec(), id)
        }
    };
    let challenge = args.challenge.then(|| {
        let mut bytes = [0; 24];
        entropy.fill(&mut bytes);
        Challenge::new(bytes, clock.now())
    });
    let body = challenge.as_ref().map_or(body, |challenge| challenge.body().into_bytes());
    let id = args.id.clone().unwrap_or(id);
    let signature = sign([&secret], &id, unix_secs, &body);
    let mut fields = Fields::new();
    let values = [
        ("Content-Type", MEDIA_TYPE),
        (WEBHOOK_ID, &id),
        (WEBHOOK_TIMESTAMP, &unix_secs.to_string()),
        (WEBHOOK_SIGNATURE, &signature),
        (SUBSCRIPTION_ID, &args.subscription),
    ];
    for (name, value) in values {
        if !fields.push(name, value.as_bytes()) {
            return Err(CommandFailure::usage(format!("{name}: the value cannot be a header field")));
        }
    }
    let request = HttpRequest {
        method: "POST",
        url: &url,
        fields: &fields,
        body: &body,
        response_body: BodyBound::Cut(MAX_CHALLENGE_ANSWER),
    };
    let budget = Budget::new(args.timeout);
    let client = HttpClient::new();
    let addresses = client.look_up(url.origin(), &budget).map_err(|failure| unsent(&failure))?;
    let answer = client.send(&request, addresses, &budget).map_err(|failure| unsent(&failure))?;
    let is_good = (200..300).contains(&answer.status);
    if let Some(challenge) = challenge {
        challenge
            .accept(clock.now(), answer.status, &answer.body)
            .map_err(|error| CommandFailure::failed(error.to_string()))?;
        return report(args, &id, answer.status, true, "the challenge is echoed");
    }
    let what = if is_good { "acknowledged" } else { "not acknowledged" };
    report(args, &id, answer.status, is_good, &format!("{id} is {what}"))?;
    match is_good {
        true => Ok(()),
        false => {
            let why = format!("the receiver answered with status {}", answer.status);
            Err(CommandFailure::failed(why).after_result())
        }
    }
}

/// Output of `--json`.
#[derive(Serialize)]
struct SendReport<'a> {
    /// Id of the delivery.
    id: &'a str,
    status: u16,
    acknowledged: bool,
}

fn report(
    args: &EventsSendArgs,
    id: &str,
    status: u16,
    acknowledged: bool,
    text: &str,
) -> Result<(), CommandFailure> {
    match args.json {
        true => print_value(&SendReport { id, status, acknowledged }),
        false => print(&format!("status {status}: {text}\n")),
    }
}

/// Creates the failure of a request without an answer.
fn unsent(failure: &HttpFailure) -> CommandFailure {
    let exit = match failure {
        HttpFailure::Ended(_) => Exit::Timeout,
        _ => Exit::Connection,
    };
    CommandFailure::new(exit, format!("there is no answer of the receiver: {failure}"))
}
