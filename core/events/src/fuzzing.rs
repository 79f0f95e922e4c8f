//! Body of the fuzz target `webhook`: requests, URLs and arguments of strangers.

use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::RawJson;
use mcp_proto::head::FieldLine;

use crate::address::AddressPolicy;
use crate::receiver::{Limits, Outcome, Receiver, Request};
use crate::webhook::{Secret, SubscriptionKey, sign};

const NOW: u64 = 1_795_600_800;

/// Receives a request, checks a URL, and makes the canonical form of arguments.
///
/// The first line has the values of the five header fields, separated by `|`; the rest is the body. The signature `!` stands
/// for the right one.
///
/// # Panics
///
/// Panics if a message is taken without the right signature, is taken twice, or has two canonical forms.
pub fn webhook(data: &[u8]) {
    let end = data.iter().position(|b| *b == b'\n').unwrap_or(data.len());
    let (line, body) = data.split_at(end);
    let body = body.get(1..).unwrap_or_default();
    receive(line, body);
    if let Ok(line) = core::str::from_utf8(line) {
        let _ = Secret::parse(line).map(|secret| assert_eq!(secret.reveal(), line));
        if let Ok(url) = AddressPolicy::new().check_url(line) {
            assert!(url.origin().secure && matches!(url.origin().port, 443 | 8443), "{line}");
            let authority = line["https://".len()..].split(['/', '?']).next().unwrap_or_default();
            assert!(!authority.contains(['@', '\\', '%']) && !line.contains(['#', ' ', '\r']), "{line}");
        }
    }
    if let Ok(arguments) = RawJson::new(Vec::from(body)) {
        if let Ok(text) = arguments.to_canonical() {
            let again = RawJson::new(text.clone()).expect("canonical text is JSON");
            assert_eq!(again.to_canonical(), Ok(text));
            let id = |arguments| SubscriptionKey::new("p", "u", "n", arguments).expect("canonical").id();
            assert_eq!(id(&arguments), id(&again));
        }
    }
}

fn receive(line: &[u8], body: &[u8]) {
    let mut values: Vec<&[u8]> = line.split(|b| *b == b'|').collect();
    values.resize(5, b"");
    let secret = Secret::from_entropy([7; 32]);
    let text = |value| core::str::from_utf8(value).unwrap_or_default();
    let time: Option<u64> = text(values[2]).parse().ok();
    let right = time.map_or_else(String::new, |time| sign([&secret], text(values[1]), time, body));
    if values[3] == b"!" {
        values[3] = right.as_bytes();
    }
    let names =
        ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature", "x-mcp-subscription-id"];
    let fields: Vec<FieldLine<'_>> = names.into_iter().zip(values.iter().copied()).collect();
    let request = Request { method: "POST", fields: &fields, body };

    let mut receiver = Receiver::new(Limits::default());
    let key = receiver.register(secret).expect("room");
    if values[4] == b"sub_1" {
        receiver.bind(key, "sub_1").expect("a free id");
    }
    let outcome = receiver.receive(&request, NOW);
    if matches!(outcome, Outcome::Refused { .. }) {
        return;
    }
    assert!(text(values[3]).split(' ').any(|signature| signature == right), "a signature that does not fit");
    match outcome {
        Outcome::Event { receipt, .. }
        | Outcome::Gap { receipt, .. }
        | Outcome::Terminated { receipt, .. } => {
            let again = receiver.receive(&request, NOW);
            assert!(matches!(again, Outcome::Refused { status: 503, .. }), "{again:?}");
            assert_eq!(receiver.confirm(receipt, true).status, 204);
            let again = receiver.receive(&request, NOW);
            assert!(
                matches!(again, Outcome::Acknowledged(_) | Outcome::Refused { status: 410, .. }),
                "{again:?}"
            );
        }
        Outcome::Challenge { answer, .. } => {
            assert!(RawJson::new(answer.body).is_ok_and(|echo| echo.member("challenge").is_some()));
        }
        Outcome::Acknowledged(_) | Outcome::Refused { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz_tests;

    #[test]
    fn webhook_target_accepts_seeds_and_noise() {
        fuzz_tests::for_each_variant("webhook", webhook);
    }
}
