use super::*;
use alloc::format;
use alloc::string::ToString;

const NOW: u64 = 1_800_000_000;
const LIMIT: usize = 32 << 10;

fn keys() -> Keys {
    Keys::new([7; 32])
}

fn binding(arguments: &str) -> Binding<'static> {
    Binding {
        principal: Some("alice"),
        method: "tools/call",
        target: "transfer",
        arguments: digest(Some(arguments.as_bytes())).expect("JSON"),
    }
}

fn sealed(payload: &[u8]) -> String {
    keys().seal(&binding("{}"), NOW + 60, payload, LIMIT).expect("a text")
}

fn open(text: &str) -> Result<Vec<u8>, SealError> {
    keys().open(&binding("{}"), NOW, text, LIMIT)
}

fn raw(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).expect("base64")
}

// covers: MRTR-010, MRTR-021
#[test]
fn sealed_text_opens_and_is_not_encrypted() {
    for payload in [&b""[..], b"x", b"xy", b"xyz", &[0; 100], b"step 1", &[0xff; 1_000]] {
        let text = sealed(payload);
        assert_eq!(open(&text).as_deref(), Ok(payload));
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{text}");
        assert_eq!(text.len(), (4 * payload.len()).div_ceil(3) + 60, "{}", payload.len());
        assert_eq!(raw(&text)[HEAD_LEN..][..payload.len()], *payload);
    }
    // Equal arguments give equal texts: no randomness is involved.
    assert_eq!(sealed(b"step 1"), sealed(b"step 1"));
}

// covers: MRTR-020, MRTR-021
#[test]
fn changed_bit_is_refused() {
    let text = sealed(b"step 1");
    let bytes = raw(&text);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let want = match at {
                0 => SealError::Malformed,
                1..5 => SealError::UnknownKey,
                _ => SealError::BindingMismatch,
            };
            assert_eq!(open(&URL_SAFE_NO_PAD.encode(changed)), Err(want), "bit {bit} of byte {at}");
        }
    }
    // Every other ASCII letter at every offset of the text, those outside of the alphabet included.
    for at in 0..text.len() {
        for letter in (0..128).map(char::from).chain(['é']).filter(|l| !text[at..].starts_with(*l)) {
            let changed = format!("{}{letter}{}", &text[..at], &text[at + 1..]);
            assert!(open(&changed).is_err(), "{letter:?} at {at}");
        }
    }
}

// covers: MRTR-020, MRTR-021
#[test]
fn other_spelling_of_last_bits_is_refused() {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (payload, free) in [(&b"x"[..], 4), (b"xy", 2), (b"xyz", 0)] {
        // 45 bytes stand around the payload, so its length decides how many bits of the last letter are free.
        let text = sealed(payload);
        let (rest, last) = text.split_at(text.len() - 1);
        let value = alphabet.find(last).expect("a letter");
        assert_eq!(value % (1 << free), 0, "free bits are zero");
        for other in 1..1 << free {
            let letter = &alphabet[value + other..][..1];
            assert_eq!(open(&format!("{rest}{letter}")), Err(SealError::Malformed));
        }
    }
}

// covers: MRTR-020, MRTR-021
#[test]
fn added_or_removed_bytes_are_refused() {
    let text = sealed(b"step 1");
    for more in ["A", "AA", "AAA", "AAAA", "=", "==", " ", "\n", "-TAMPERED", ".", "\0", &*text] {
        for changed in [format!("{text}{more}"), format!("{more}{text}")] {
            assert!(open(&changed).is_err(), "{changed:?}");
        }
    }
    for length in 0..text.len() {
        assert!(open(&text[..length]).is_err(), "the first {length}");
        assert!(open(&text[length + 1..]).is_err(), "all but {} at the front", length + 1);
    }
    // The payload grown, shrunk, or moved into the seal, byte by byte.
    let bytes = raw(&text);
    for at in 0..=bytes.len() {
        let mut longer = bytes.clone();
        longer.insert(at, b'x');
        assert!(open(&URL_SAFE_NO_PAD.encode(&longer)).is_err(), "one more at {at}");
        if at < bytes.len() {
            let mut shorter = bytes.clone();
            shorter.remove(at);
            assert!(open(&URL_SAFE_NO_PAD.encode(&shorter)).is_err(), "one less at {at}");
        }
    }
}

// covers: MRTR-021, MRTR-023
#[test]
fn state_of_another_call_is_refused() {
    let arguments = r#"{"to":"bob","amount":10,"memo":"caf\u00e9"}"#;
    let call = binding(arguments);
    let text = keys().seal(&call, NOW + 60, b"approved", LIMIT).expect("a text");
    let try_with = |other: &Binding<'_>| keys().open(other, NOW, &text, LIMIT);
    assert!(try_with(&call).is_ok());
    let others = [
        Binding { principal: Some("eve"), ..call },
        Binding { principal: Some(""), ..call },
        Binding { principal: Some("alic"), ..call },
        Binding { principal: Some("alicetools/call"), method: "", ..call },
        Binding { principal: None, ..call },
        Binding { method: "prompts/get", ..call },
        Binding { method: "tools/callt", target: "ransfer", ..call },
        Binding { target: "transfe", ..call },
        Binding { target: "Transfer", ..call },
        Binding { target: "", ..call },
        binding(r#"{"to":"bob","amount":100,"memo":"café"}"#),
        binding(r#"{"to":"eve","amount":10,"memo":"café"}"#),
        binding(r#"{"to":"bob","amount":10}"#),
        binding(r#"{"to":"bob","amount":10,"memo":"café","memo":"café"}"#),
        Binding { arguments: digest(None).expect("nothing"), ..call },
    ];
    for other in &others {
        assert_eq!(try_with(other), Err(SealError::BindingMismatch), "{other:?}");
    }
    // The same arguments in another spelling.
    for same in [
        r#"{"amount":10,"memo":"café","to":"bob"}"#,
        "{ \"memo\": \"caf\\u00E9\",\n\t\"amount\": 1.0e1, \"\\u0074o\": \"b\\u006fb\" }",
    ] {
        assert_eq!(try_with(&binding(same)).as_deref(), Ok(&b"approved"[..]), "{same}");
    }
    // No principal differs from a principal with an empty name.
    let anonymous = Binding { principal: None, ..call };
    let text = keys().seal(&anonymous, NOW + 60, b"", LIMIT).expect("a text");
    assert!(keys().open(&anonymous, NOW, &text, LIMIT).is_ok());
    let unnamed = Binding { principal: Some(""), ..call };
    assert_eq!(keys().open(&unnamed, NOW, &text, LIMIT), Err(SealError::BindingMismatch));
}

// covers: MRTR-023
#[test]
fn state_opens_until_it_expires() {
    let text = keys().seal(&binding("{}"), NOW, b"x", LIMIT).expect("a text");
    for (now, want) in [
        (0, Ok(())),
        (NOW - 1, Ok(())),
        (NOW, Err(SealError::Expired)),
        (NOW + 1, Err(SealError::Expired)),
        (u64::MAX, Err(SealError::Expired)),
    ] {
        assert_eq!(keys().open(&binding("{}"), now, &text, LIMIT).map(|_| ()), want, "{now}");
    }
    // A text that does not match its call does not reveal whether it has expired.
    assert_eq!(keys().open(&binding("[]"), NOW, &text, LIMIT), Err(SealError::BindingMismatch));
    // The expiry cannot be changed.
    let mut later = raw(&text);
    later[HEAD_LEN - 8..HEAD_LEN].copy_from_slice(&(NOW + 60).to_be_bytes());
    assert_eq!(open(&URL_SAFE_NO_PAD.encode(later)), Err(SealError::BindingMismatch));
}

// covers: MRTR-021
#[test]
fn rotated_keys_open_until_dropped() {
    let (old, new, other) = ([1; 32], [2; 32], [3; 32]);
    let call = binding("{}");
    let text = Keys::new(old).seal(&call, NOW + 60, b"x", LIMIT).expect("a text");
    let opened = |keys: &Keys| keys.open(&call, NOW, &text, LIMIT).map(|_| ());
    // A restart or another host with the same key.
    assert_eq!(opened(&Keys::new(old)), Ok(()));
    // The key becomes an older one, among others in any order, and is dropped.
    assert_eq!(opened(&Keys::new(new).with_older(old)), Ok(()));
    assert_eq!(opened(&Keys::new(new).with_older(other).with_older(old)), Ok(()));
    assert_eq!(opened(&Keys::new(new).with_older(old).with_older(other)), Ok(()));
    assert_eq!(opened(&Keys::new(new).with_older(other)), Err(SealError::UnknownKey));
    // The current key seals.
    let next = Keys::new(new).with_older(old).seal(&call, NOW + 60, b"x", LIMIT).expect("a text");
    assert!(Keys::new(new).open(&call, NOW, &next, LIMIT).is_ok());
    assert_eq!(Keys::new(old).open(&call, NOW, &next, LIMIT), Err(SealError::UnknownKey));
    // The id of a key alone opens nothing.
    let mut renamed = raw(&text);
    renamed[1..5].copy_from_slice(&raw(&next)[1..5]);
    let renamed = URL_SAFE_NO_PAD.encode(renamed);
    assert_eq!(
        Keys::new(new).with_older(old).open(&call, NOW, &renamed, LIMIT),
        Err(SealError::BindingMismatch)
    );
}

#[test]
fn keys_with_equal_ids_are_all_tried() {
    let call = binding("{}");
    let text = Keys::new([1; 32]).seal(&call, NOW + 60, b"x", LIMIT).expect("a text");
    let mut keys = Keys::new([2; 32]).with_older([1; 32]);
    keys.current.id = keys.older[0].id;
    assert!(keys.open(&call, NOW, &text, LIMIT).is_ok());
}

// covers: MRTR-020
#[test]
fn length_is_checked_first() {
    let call = binding("{}");
    let largest = vec_of((LIMIT - 60) / 4 * 3);
    let text = keys().seal(&call, NOW + 60, &largest, LIMIT).expect("a text");
    assert_eq!(text.len(), LIMIT);
    assert_eq!(open(&text), Ok(largest.clone()));
    let too_long = Err(SealError::TooLong { limit: LIMIT });
    assert_eq!(keys().seal(&call, NOW + 60, &vec_of(largest.len() + 1), LIMIT), too_long);
    // Its length is checked before its base64.
    assert_eq!(open(&".".repeat(LIMIT + 1)).map(|_| String::new()), too_long);
    assert_eq!(keys().open(&call, NOW, &text, LIMIT - 1), Err(SealError::TooLong { limit: LIMIT - 1 }));
    assert_eq!(keys().seal(&call, NOW, b"", 60).map(|text| text.len()), Ok(60));
    assert_eq!(keys().seal(&call, NOW, b"", 59), Err(SealError::TooLong { limit: 59 }));
    assert_eq!(keys().open(&call, NOW, "", 0), Err(SealError::Malformed));
}

fn vec_of(length: usize) -> Vec<u8> {
    (0..length).map(|i| i as u8).collect()
}

// covers: MRTR-020
#[test]
fn forged_texts_are_refused() {
    let forged = |version: u8, name: &[u8], rest: usize| {
        let mut bytes = Vec::from([version]);
        bytes.extend_from_slice(name);
        bytes.resize(bytes.len() + rest, 0);
        URL_SAFE_NO_PAD.encode(bytes)
    };
    let name = keys().current.id;
    for (text, want) in [
        (String::new(), SealError::Malformed),
        ("step-1".into(), SealError::Malformed),
        (r#"{"step":1}"#.into(), SealError::Malformed),
        ("é".into(), SealError::Malformed),
        ("\0".repeat(100), SealError::Malformed),
        ("A".repeat(59), SealError::Malformed),
        ("A".repeat(60), SealError::Malformed),
        ("AQ==".repeat(100), SealError::Malformed),
        ("+/+/".repeat(100), SealError::Malformed),
        (forged(1, &name, 39), SealError::Malformed),
        (forged(1, &name, 40), SealError::BindingMismatch),
        (forged(2, &name, 40), SealError::Malformed),
        (forged(1, &[0; 4], 40), SealError::UnknownKey),
        (forged(1, &name, 20_000), SealError::BindingMismatch),
    ] {
        assert_eq!(open(&text), Err(want), "{text}");
    }
}

/// Clients hold texts across releases: this one, computed by another program, opens as long as its version is known.
#[test]
fn sealed_text_format_is_stable() {
    let text = "Aai8qUsAAAAAa0nSPHN0ZXAgMdglXso6w5K-USb6I2hJN3-72NIAoxdraqVROrN429KA";
    assert_eq!(sealed(b"step 1"), text);
}

#[test]
fn digest_depends_on_value_not_spelling() {
    let of = |text: &str| digest(Some(text.as_bytes()));
    assert_eq!(of(r#"{"a":1,"b":[]}"#), of(r#"{"b":[ ],"a":10e-1}"#));
    let different = [digest(None), of("null"), of("{}"), of("[]"), of("\"\""), of("0")];
    for (i, a) in different.iter().enumerate() {
        assert!(a.is_ok() && different[..i].iter().all(|b| a != b), "{i}");
    }
    assert_eq!(of(""), Err(InvalidJson { at: 0 }));
    assert_eq!(of("{\"a\":01}"), Err(InvalidJson { at: 6 }));
    assert_eq!(digest(Some(b"\"\xff\"")), Err(InvalidJson { at: 1 }));
    assert_eq!(of(&"[".repeat(1_000)), Err(InvalidJson { at: 1000 }));
}

#[test]
fn debug_and_errors_hide_secrets() {
    assert_eq!(format!("{:?}", Keys::new([0xab; 32]).with_older([0xcd; 32])), "Keys { .. }");
    for error in [
        SealError::TooLong { limit: 1 },
        SealError::Malformed,
        SealError::UnknownKey,
        SealError::BindingMismatch,
        SealError::Expired,
    ] {
        assert_ne!(error.to_string(), SealError::PEER_MESSAGE);
    }
}
