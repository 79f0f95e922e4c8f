use alloc::string::ToString as _;
use alloc::vec;

use super::*;

const BODY: &[u8] = br#"{"eventId":"evt-7001","name":"build.finished","timestamp":"2026-11-25T10:00:00Z","data":{"build":7001,"ok":true},"cursor":"c-42"}"#;
const TIME: u64 = 1_795_600_800;
const FIRST: &str = "v1,tO84eROclO7g/JTEsLRXMhl5WXLq0x7AZixaHNFhl4M=";
const SECOND: &str = "v1,imnJiIxMs/hL3KjLNmCrtahT33gLnEaYX+LuR+RZ1XU=";
const AS_TEXT: &str = "v1,WRYrhtdwTc5cWQR3VJn2HTr2lOOcpldL1GVNOwj7mrA=";

fn first() -> Secret {
    Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").expect("a secret")
}

fn second() -> Secret {
    Secret::parse("whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7").expect("a secret")
}

fn head(signature: &str) -> SignedHead<'_> {
    SignedHead { id: "evt-7001", timestamp: "1795600800", signature }
}

// covers: EVT-092, EVT-094
#[test]
fn signatures_are_those_of_the_vectors() {
    assert_eq!(sign([&first()], "evt-7001", TIME, BODY), FIRST);
    assert_eq!(sign([&second()], "evt-7001", TIME, BODY), SECOND);
    assert_eq!(sign([&first(), &second()], "evt-7001", TIME, BODY), format!("{FIRST} {SECOND}"));
    let challenge = br#"{"type":"verification","challenge":"n0nce-A1"}"#;
    assert_eq!(
        sign([&first()], "msg_verification_0001", TIME, challenge),
        "v1,6yii/PfqwKgD1iU+HVFDGDoNGVcQJmF+KmpH7l0sUlc="
    );
    assert_eq!(sign([], "x", TIME, b""), "");
}

// covers: EVT-072, EVT-073
#[test]
fn secrets_have_a_prefix_and_24_to_64_bytes() {
    for length in 0..70 {
        let text = format!("whsec_{}", STANDARD.encode(vec![0xfb; length]));
        let secret = Secret::parse(&text);
        assert_eq!(secret.is_ok(), (24..=64).contains(&length), "{length}");
        match secret {
            Ok(secret) => assert_eq!(secret.reveal(), text),
            Err(error) => assert_eq!(error, SecretError::Length(length)),
        }
    }
    let good = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    for (text, error) in [
        (String::new(), SecretError::Prefix),
        (good.to_string(), SecretError::Prefix),
        (format!("WHSEC_{good}"), SecretError::Prefix),
        ("whsec_".to_string(), SecretError::Length(0)),
        (format!("whsec_{}", good.trim_end_matches('=')), SecretError::Base64),
        (format!("whsec_{good} "), SecretError::Base64),
        (format!("whsec_{}", good.replace('A', "-")), SecretError::Base64),
    ] {
        assert_eq!(Secret::parse(&text), Err(error), "{text}");
    }
    assert_eq!(Secret::from_entropy([9; 32]).reveal().len(), 6 + 44);
    assert!(first() == first() && first() != second());
}

// covers: EVT-072
#[test]
fn debug_output_has_no_part_of_a_secret() {
    let secret = Secret::from_entropy([0xab; 32]);
    let verifier = Verifier::new(secret.clone()).or(second());
    let challenge = Challenge::new([0xab; 24], Instant::ZERO);
    let nonce = challenge.nonce.clone();
    for text in [format!("{secret:?}"), format!("{verifier:?}"), format!("{challenge:?}")] {
        let parts = [
            secret.reveal().split_off(6),
            nonce.clone(),
            "171".to_string(),
            "ab".to_string(),
            "ZGVm".to_string(),
        ];
        assert!(parts.iter().all(|part| !text.contains(&**part)), "{text}");
    }
    let error = Secret::parse("whsec_c2VjcmV0").expect_err("short");
    assert_eq!(error.to_string(), "the secret has 6 bytes instead of 24 to 64");
}

// covers: EVT-120, EVT-128
#[test]
fn any_signature_that_fits_is_enough() {
    let one = Verifier::new(first());
    let rotating = Verifier::new(second()).or(first());
    let many = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= ".repeat(MAX_SIGNATURES - 1);
    let broken = "v1,??????????????????????????????????????????== ".repeat(1_000);
    for signature in [
        FIRST.to_string(),
        format!("{SECOND} {FIRST}"),
        format!("v1,??? {FIRST}"),
        format!("v1, v1 , {FIRST}"),
        format!("v1a,AAAA v2,x {FIRST}"),
        format!("{many}{FIRST}"),
        format!("{broken}{FIRST}"),
    ] {
        assert_eq!(one.verify(&head(&signature), BODY, TIME), Ok(()), "{signature}");
        assert_eq!(rotating.verify(&head(&signature), BODY, TIME), Ok(()), "{signature}");
    }
    assert_eq!(rotating.verify(&head(SECOND), BODY, TIME), Ok(()));
    let url_safe = FIRST.replace('/', "_");
    let unpadded = FIRST.trim_end_matches('=');
    for (signature, error) in [
        (SECOND, VerifyError::Mismatch),
        (&format!("{many}{SECOND} {FIRST}"), VerifyError::Mismatch),
        (AS_TEXT, VerifyError::Mismatch),
        (&url_safe, VerifyError::Malformed),
        (unpadded, VerifyError::Malformed),
        ("v1,", VerifyError::Malformed),
        ("", VerifyError::NoSignature),
        ("v1a,AAAA", VerifyError::NoSignature),
        (&FIRST["v1,".len()..], VerifyError::NoSignature),
        (&FIRST.replace("v1,", "V1,"), VerifyError::NoSignature),
    ] {
        assert_eq!(one.verify(&head(signature), BODY, TIME), Err(error), "{signature}");
    }
}

// covers: EVT-120
#[test]
fn every_changed_byte_is_noticed() {
    let verifier = Verifier::new(first());
    for at in 0..BODY.len() {
        let mut body = BODY.to_vec();
        body[at] ^= 1;
        assert_eq!(verifier.verify(&head(FIRST), &body, TIME), Err(VerifyError::Mismatch), "{at}");
    }
    for body in [b"".as_slice(), &BODY[1..], &[BODY, b" "].concat(), &[b"\xef\xbb\xbf", BODY].concat()] {
        assert_eq!(verifier.verify(&head(FIRST), body, TIME), Err(VerifyError::Mismatch));
    }
    let ids = ["evt-7002", "evt-7001.", "evt-7001.1795600800"];
    for id in ids {
        assert_eq!(
            verifier.verify(&SignedHead { id, ..head(FIRST) }, BODY, TIME),
            Err(VerifyError::Mismatch)
        );
    }
    for (timestamp, error) in [
        ("1795600801", VerifyError::Mismatch),
        ("01795600800", VerifyError::Mismatch),
        ("", VerifyError::Timestamp),
        ("+1795600800", VerifyError::Timestamp),
        ("1795600800.0", VerifyError::Timestamp),
        ("99999999999999999999", VerifyError::Timestamp),
    ] {
        let head = SignedHead { timestamp, ..head(FIRST) };
        assert_eq!(verifier.verify(&head, BODY, TIME), Err(error), "{timestamp}");
    }
    assert_eq!(verifier.verify(&SignedHead { id: "", ..head(FIRST) }, BODY, TIME), Err(VerifyError::Id));
    // A place in the signature, except unused bits, which are malformed.
    for at in "v1,".len()..FIRST.len() {
        let mut signature = FIRST.to_string().into_bytes();
        signature[at] = if signature[at] == b'A' { b'B' } else { b'A' };
        let signature = String::from_utf8(signature).expect("ASCII");
        assert!(verifier.verify(&head(&signature), BODY, TIME).is_err(), "{signature}");
    }
}

// covers: EVT-121
#[test]
fn times_are_allowed_within_300_seconds() {
    let verifier = Verifier::new(first());
    for (now, expected) in [
        (TIME + 299, Ok(())),
        (TIME + 300, Ok(())),
        (TIME + 301, Err(VerifyError::Stale { by: 1 })),
        (TIME + 3_600, Err(VerifyError::Stale { by: 3_300 })),
        (TIME - 300, Ok(())),
        (TIME - 301, Err(VerifyError::Future { by: 1 })),
        (TIME - 3_600, Err(VerifyError::Future { by: 3_300 })),
        (0, Err(VerifyError::Future { by: TIME - 300 })),
        (u64::MAX, Err(VerifyError::Stale { by: u64::MAX - TIME - 300 })),
    ] {
        assert_eq!(verifier.verify(&head(FIRST), BODY, now), expected, "{now}");
    }
    let strict = verifier.clone().tolerance(Duration::ZERO);
    let lenient = verifier.clone().tolerance(Duration::MAX);
    assert_eq!(strict.verify(&head(FIRST), BODY, TIME + 1), Err(VerifyError::Stale { by: 1 }));
    assert_eq!(lenient.verify(&head(FIRST), BODY, u64::MAX), Ok(()));
    // The reason of a delivery that was not signed by the secret is that, whatever its time.
    assert_eq!(verifier.verify(&head(SECOND), BODY, 0), Err(VerifyError::Mismatch));
}

#[test]
fn known_mistakes_are_explained() {
    let verifier = Verifier::new(first());
    assert_eq!(verifier.explain(&head(AS_TEXT), BODY), Some(SignatureMistake::SecretAsText));
    let with_line = [BODY, b"\n"].concat();
    assert_eq!(verifier.explain(&head(FIRST), &with_line), Some(SignatureMistake::WhiteSpace));
    assert_eq!(
        verifier.explain(&head(&sign([&first()], "evt-7001", TIME, &with_line)), BODY),
        Some(SignatureMistake::WhiteSpace)
    );
    let mut alone = Hmac::<Sha256>::new_from_slice(&first().0).expect("any length");
    alone.update(BODY);
    let alone = format!("v1,{}", STANDARD.encode(alone.finalize().into_bytes()));
    assert_eq!(verifier.explain(&head(&alone), BODY), Some(SignatureMistake::BodyAlone));
    let time_first = STANDARD.encode(mac(&first().0, &format!("{TIME}"), "evt-7001", BODY));
    assert_eq!(verifier.explain(&head(&format!("v1,{time_first}")), BODY), Some(SignatureMistake::TimeFirst));
    assert_eq!(verifier.explain(&head(SECOND), BODY), None);
}

// covers: EVT-114, EVT-101
#[test]
fn a_challenge_is_answered_by_its_echo_alone() {
    let start = Instant::from_micros(1_000_000);
    let challenge = || Challenge::new([0x5a; 24], start);
    let body = challenge().body();
    let nonce = challenge().nonce;
    assert_eq!(nonce.len(), 32);
    assert_eq!(body, format!(r#"{{"type":"verification","challenge":"{nonce}"}}"#));
    let echo = format!(r#"{{"challenge":"{nonce}"}}"#);
    let at = |secs| start + Duration::from_secs(secs);
    for status in [200, 201, 204, 299] {
        assert_eq!(challenge().accept(at(300), status, echo.as_bytes()), Ok(()));
    }
    assert_eq!(
        challenge().accept(at(1), 200, format!(r#" {{"ok":true,"challenge":"{nonce}"}} "#).as_bytes()),
        Ok(())
    );
    assert_eq!(challenge().accept(at(301), 200, echo.as_bytes()), Err(ChallengeError::Expired));
    for status in [0, 199, 300, 302, 400, 503] {
        assert_eq!(challenge().accept(at(1), status, echo.as_bytes()), Err(ChallengeError::Status(status)));
    }
    let padding = " ".repeat(MAX_CHALLENGE_ANSWER);
    for wrong in [
        String::new(),
        nonce.clone(),
        format!("\"{nonce}\""),
        format!(r#"{{"challenge":["{nonce}"]}}"#),
        format!(r#"{{"a":{{"challenge":"{nonce}"}}}}"#),
        format!(r#"{{"challenge":"{nonce}","challenge":"{nonce}"}}"#),
        format!(r#"{{"challenge":"{nonce}x"}}"#),
        format!(r#"{{"challenge":"{}"}}"#, nonce.to_ascii_lowercase()),
        r#"{"challenge":1}"#.to_string(),
        format!("{echo}{padding}"),
    ] {
        let error = challenge().accept(at(1), 200, wrong.as_bytes());
        assert_eq!(error, Err(ChallengeError::Echo), "{wrong}");
        assert!(!ChallengeError::Echo.to_string().contains(&nonce));
    }
}

// covers: EVT-074, EVT-076, EVT-077
#[test]
fn ids_of_subscriptions_follow_from_their_key() {
    let key = |principal: &str, url: &str, name: &str, arguments: &'static str| {
        SubscriptionKey::new(principal, url, name, &RawJson::new(arguments).expect("JSON"))
    };
    let id = |arguments| {
        key("user-17", "https://hooks.example/mcp/a1", "build.finished", arguments).expect("a key").id()
    };
    let vector = "sub_33f8080817ec0c597ac0f4de1e7de5cd";
    assert_eq!(id(r#"{"branch":"main","limit":5}"#), vector);
    assert_eq!(id(r#"{"limit":5,"branch":"main"}"#), vector);
    assert_eq!(id(r#"{ "limit": 5.0, "br\u0061nch": "main" }"#), vector);
    assert_ne!(id("{}"), vector);
    let mut ids: Vec<String> = [
        ("a:b", "c", "n", "{}"),
        ("a", "b:c", "n", "{}"),
        ("a\",\"b", "c", "n", "{}"),
        ("A:b", "c", "n", "{}"),
        ("\u{e9}", "c", "n", "{}"),
        ("e\u{301}", "c", "n", "{}"),
        ("a:b", "c?x", "n", "{}"),
        ("a:b", "c", "m", "{}"),
        ("a:b", "c", "n", r#"{"a":null}"#),
    ]
    .map(|(principal, url, name, arguments)| key(principal, url, name, arguments).expect("a key").id())
    .into();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 9);
    let twice = key("p", "u", "n", r#"{"a":1,"a":2}"#);
    assert!(matches!(twice, Err(CanonicalError::Duplicate { .. })), "{twice:?}");
}
