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
fn what_was_sealed_opens_and_can_be_read_by_anyone() {
    for payload in [&b""[..], b"x", b"xy", b"xyz", &[0; 100], b"step 1", &[0xff; 1_000]] {
        let text = sealed(payload);
        assert_eq!(open(&text).as_deref(), Ok(payload));
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{text}");
        assert_eq!(text.len(), (4 * payload.len()).div_ceil(3) + 60, "{}", payload.len());
        assert_eq!(raw(&text)[HEAD..][..payload.len()], *payload);
    }
    // Equal arguments, equal texts: nothing is drawn.
    assert_eq!(sealed(b"step 1"), sealed(b"step 1"));
}

// covers: MRTR-020, MRTR-021
#[test]
fn a_change_of_any_bit_is_refused() {
    let text = sealed(b"step 1");
    let bytes = raw(&text);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let want = match at {
                0 => SealError::Malformed,
                1..5 => SealError::UnknownKey,
                _ => SealError::Unfit,
            };
            assert_eq!(open(&URL_SAFE_NO_PAD.encode(changed)), Err(want), "bit {bit} of byte {at}");
        }
    }
    // Every other letter at every place of the text, those outside of the alphabet included.
    for at in 0..text.len() {
        for letter in (0..128).map(char::from).chain(['é']).filter(|l| !text[at..].starts_with(*l)) {
            let changed = format!("{}{letter}{}", &text[..at], &text[at + 1..]);
            assert!(open(&changed).is_err(), "{letter:?} at {at}");
        }
    }
}

// covers: MRTR-020, MRTR-021
#[test]
fn no_second_spelling_of_the_last_bits_opens() {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (payload, free) in [(&b"x"[..], 4), (b"xy", 2), (b"xyz", 0)] {
        // 45 bytes stand around the payload, so that its length decides how many bits of the last letter are free.
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
fn nothing_may_be_added_or_left_out() {
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
fn a_state_serves_no_other_call() {
    let arguments = r#"{"to":"bob","amount":10,"memo":"caf\u00e9"}"#;
    let ours = binding(arguments);
    let text = keys().seal(&ours, NOW + 60, b"approved", LIMIT).expect("a text");
    let try_with = |other: &Binding<'_>| keys().open(other, NOW, &text, LIMIT);
    assert!(try_with(&ours).is_ok());
    let others = [
        Binding { principal: Some("eve"), ..ours },
        Binding { principal: Some(""), ..ours },
        Binding { principal: Some("alic"), ..ours },
        Binding { principal: Some("alicetools/call"), method: "", ..ours },
        Binding { principal: None, ..ours },
        Binding { method: "prompts/get", ..ours },
        Binding { method: "tools/callt", target: "ransfer", ..ours },
        Binding { target: "transfe", ..ours },
        Binding { target: "Transfer", ..ours },
        Binding { target: "", ..ours },
        binding(r#"{"to":"bob","amount":100,"memo":"café"}"#),
        binding(r#"{"to":"eve","amount":10,"memo":"café"}"#),
        binding(r#"{"to":"bob","amount":10}"#),
        binding(r#"{"to":"bob","amount":10,"memo":"café","memo":"café"}"#),
        Binding { arguments: digest(None).expect("nothing"), ..ours },
    ];
    for other in &others {
        assert_eq!(try_with(other), Err(SealError::Unfit), "{other:?}");
    }
    // The same arguments, written another way.
    for same in [
        r#"{"amount":10,"memo":"café","to":"bob"}"#,
        "{ \"memo\": \"caf\\u00E9\",\n\t\"amount\": 1.0e1, \"\\u0074o\": \"b\\u006fb\" }",
    ] {
        assert_eq!(try_with(&binding(same)).as_deref(), Ok(&b"approved"[..]), "{same}");
    }
    // Nobody is not the same as somebody without a name.
    let nobody = Binding { principal: None, ..ours };
    let text = keys().seal(&nobody, NOW + 60, b"", LIMIT).expect("a text");
    assert!(keys().open(&nobody, NOW, &text, LIMIT).is_ok());
    let unnamed = Binding { principal: Some(""), ..ours };
    assert_eq!(keys().open(&unnamed, NOW, &text, LIMIT), Err(SealError::Unfit));
}

// covers: MRTR-023
#[test]
fn a_state_is_good_until_it_expires() {
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
    // The time is not told of a text that is not ours in all else.
    assert_eq!(keys().open(&binding("[]"), NOW, &text, LIMIT), Err(SealError::Unfit));
    // Nor can it be put off.
    let mut later = raw(&text);
    later[HEAD - 8..HEAD].copy_from_slice(&(NOW + 60).to_be_bytes());
    assert_eq!(open(&URL_SAFE_NO_PAD.encode(later)), Err(SealError::Unfit));
}

// covers: MRTR-021
#[test]
fn keys_come_and_go() {
    let (old, new, other) = ([1; 32], [2; 32], [3; 32]);
    let ours = binding("{}");
    let text = Keys::new(old).seal(&ours, NOW + 60, b"x", LIMIT).expect("a text");
    let opened = |keys: &Keys| keys.open(&ours, NOW, &text, LIMIT).map(|_| ());
    // A restart, another host: the same key again.
    assert_eq!(opened(&Keys::new(old)), Ok(()));
    // The key becomes an older one, among others in any order, and goes.
    assert_eq!(opened(&Keys::new(new).older(old)), Ok(()));
    assert_eq!(opened(&Keys::new(new).older(other).older(old)), Ok(()));
    assert_eq!(opened(&Keys::new(new).older(old).older(other)), Ok(()));
    assert_eq!(opened(&Keys::new(new).older(other)), Err(SealError::UnknownKey));
    // The first key seals.
    let next = Keys::new(new).older(old).seal(&ours, NOW + 60, b"x", LIMIT).expect("a text");
    assert!(Keys::new(new).open(&ours, NOW, &next, LIMIT).is_ok());
    assert_eq!(Keys::new(old).open(&ours, NOW, &next, LIMIT), Err(SealError::UnknownKey));
    // A name alone opens nothing.
    let mut renamed = raw(&text);
    renamed[1..5].copy_from_slice(&raw(&next)[1..5]);
    let renamed = URL_SAFE_NO_PAD.encode(renamed);
    assert_eq!(Keys::new(new).older(old).open(&ours, NOW, &renamed, LIMIT), Err(SealError::Unfit));
}

#[test]
fn two_keys_of_one_name_are_both_tried() {
    let ours = binding("{}");
    let text = Keys::new([1; 32]).seal(&ours, NOW + 60, b"x", LIMIT).expect("a text");
    let mut keys = Keys::new([2; 32]).older([1; 32]);
    keys.current.name = keys.older[0].name;
    assert!(keys.open(&ours, NOW, &text, LIMIT).is_ok());
}

// covers: MRTR-020
#[test]
fn length_is_judged_before_anything_else() {
    let ours = binding("{}");
    let most = vec_of((LIMIT - 60) / 4 * 3);
    let text = keys().seal(&ours, NOW + 60, &most, LIMIT).expect("a text");
    assert_eq!(text.len(), LIMIT);
    assert_eq!(open(&text), Ok(most.clone()));
    let too_long = Err(SealError::TooLong { limit: LIMIT });
    assert_eq!(keys().seal(&ours, NOW + 60, &vec_of(most.len() + 1), LIMIT), too_long);
    // It would not be base64 either.
    assert_eq!(open(&".".repeat(LIMIT + 1)).map(|_| String::new()), too_long);
    assert_eq!(keys().open(&ours, NOW, &text, LIMIT - 1), Err(SealError::TooLong { limit: LIMIT - 1 }));
    assert_eq!(keys().seal(&ours, NOW, b"", 60).map(|text| text.len()), Ok(60));
    assert_eq!(keys().seal(&ours, NOW, b"", 59), Err(SealError::TooLong { limit: 59 }));
    assert_eq!(keys().open(&ours, NOW, "", 0), Err(SealError::Malformed));
}

fn vec_of(length: usize) -> Vec<u8> {
    (0..length).map(|i| i as u8).collect()
}

// covers: MRTR-020
#[test]
fn texts_that_nobody_sealed_are_refused() {
    let forged = |version: u8, name: &[u8], rest: usize| {
        let mut bytes = Vec::from([version]);
        bytes.extend_from_slice(name);
        bytes.resize(bytes.len() + rest, 0);
        URL_SAFE_NO_PAD.encode(bytes)
    };
    let name = keys().current.name;
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
        (forged(1, &name, 40), SealError::Unfit),
        (forged(2, &name, 40), SealError::Malformed),
        (forged(1, &[0; 4], 40), SealError::UnknownKey),
        (forged(1, &name, 20_000), SealError::Unfit),
    ] {
        assert_eq!(open(&text), Err(want), "{text}");
    }
}

/// Texts are in clients' hands across releases: this one, calculated by another program, opens for as long as its version
/// is known.
#[test]
fn the_form_of_a_text_is_kept() {
    let text = "Aai8qUsAAAAAa0nSPHN0ZXAgMdglXso6w5K-USb6I2hJN3-72NIAoxdraqVROrN429KA";
    assert_eq!(sealed(b"step 1"), text);
}

#[test]
fn the_digest_is_that_of_the_value() {
    let of = |text: &str| digest(Some(text.as_bytes()));
    assert_eq!(of(r#"{"a":1,"b":[]}"#), of(r#"{"b":[ ],"a":10e-1}"#));
    let different = [digest(None), of("null"), of("{}"), of("[]"), of("\"\""), of("0")];
    for (i, a) in different.iter().enumerate() {
        assert!(a.is_ok() && different[..i].iter().all(|b| a != b), "{i}");
    }
    assert_eq!(of(""), Err(InvalidJson { at: 0 }));
    assert_eq!(of("{\"a\":01}"), Err(InvalidJson { at: 6 }));
    assert_eq!(digest(Some(b"\"\xff\"")), Err(InvalidJson { at: 1 }));
    assert_eq!(of(&"[".repeat(1_000)), Err(InvalidJson { at: 128 }));
}

#[test]
fn nothing_secret_is_shown() {
    assert_eq!(format!("{:?}", Keys::new([0xab; 32]).older([0xcd; 32])), "Keys { .. }");
    for error in [
        SealError::TooLong { limit: 1 },
        SealError::Malformed,
        SealError::UnknownKey,
        SealError::Unfit,
        SealError::Expired,
    ] {
        assert_ne!(error.to_string(), SealError::TOLD);
    }
}
