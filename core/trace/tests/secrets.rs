//! The corpus of `secrets.tsv`: what has to be masked, and what must not be. In each line the kind, how it is recorded, and the text; a
//! secret stands in `«…»`. `{A24}` stands for 24 random characters, because scanners of repositories would take real forms for leaks.

use core::fmt::Write as _;

use mcp_proto_trace::{Header, Mask, Recorder, Side};

const CORPUS: &str = include_str!("secrets.tsv");

/// Replaces each `{A24}` by as many random characters: letters and digits, upper case (`U`), bytes in hexadecimal (`H`), digits (`D`), and
/// those of base64 for URLs (`B`).
fn expand(text: &str, seed: &mut u64) -> String {
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let length = part.split_once('}').and_then(|(class, _)| class.get(1..)?.parse::<usize>().ok());
        let alphabet: &[u8] = match part.as_bytes().first().filter(|_| length.is_some()) {
            Some(b'A') => b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
            Some(b'U') => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            Some(b'H') => b"0123456789abcdef",
            Some(b'D') => b"0123456789",
            Some(b'B') => b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_",
            _ => {
                out.push('{');
                out.push_str(part);
                continue;
            }
        };
        for _ in 0..length.unwrap_or_default() {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            out.push(char::from(alphabet[(*seed >> 33) as usize % alphabet.len()]));
        }
        out.push_str(part.split_once('}').unwrap_or_default().1);
    }
    out
}

/// Returns the trace of a text.
fn recorded(how: &str, text: &str, mask: Mask) -> String {
    let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
    let header = Header::new("test", 0);
    let header = if how == "cmd" { header.command(words) } else { header };
    let mut recorder = Recorder::new(Vec::new(), header, mask, u64::MAX).expect("memory");
    match how {
        "json" => recorder.bytes(0, Side::Client, format!("{text}\n").as_bytes()),
        "log" => recorder.stderr(0, text),
        "head" => recorder.head(0, Side::Client, 1, &text.replace("\\n", "\n")),
        _ => {}
    }
    String::from_utf8(recorder.finish()).expect("UTF-8")
}

// covers: SEC-019
#[test]
fn of_330_secrets_few_are_recorded_and_of_3100_other_texts_few_are_masked() {
    let (mut seed, mut wrong) = (7, [String::new(), String::new()]);
    let (mut lines, mut faults) = ([0, 0], [0, 0]);
    for line in CORPUS.lines() {
        let [kind, how, text] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let text = expand(text, &mut seed);
        let secret =
            text.split_once('«').and_then(|(_, rest)| rest.split_once('»')).map(|(secret, _)| secret);
        assert_eq!(secret.is_some(), kind == "secret", "{line}");
        let text = text.replace(['«', '»'], "");
        let trace = recorded(how, &text, Mask::default());
        let (class, is_fault) = match secret {
            Some(secret) => (0, trace.contains(secret)),
            None => (
                1,
                trace.replace("\"masked\":true", "\"masked\":false") != recorded(how, &text, Mask::none()),
            ),
        };
        lines[class] += 1;
        if is_fault {
            faults[class] += 1;
            let _ = writeln!(wrong[class], "{line}\n    {}", trace.lines().last().unwrap_or_default());
        }
    }
    assert_eq!(lines, [330, 3_100]);
    let [recorded, masked] = &wrong;
    assert!(faults[0] * 100 <= lines[0] * 5, "{} secrets are recorded:\n{recorded}", faults[0]);
    assert!(faults[1] * 100 <= lines[1], "{} other texts are masked:\n{masked}", faults[1]);
}

/// Text in which each byte may begin a secret takes linear time; quadratic time would be minutes.
#[test]
fn hostile_texts_are_looked_through_once() {
    for piece in [
        "a=",
        "?key=",
        ":",
        "password:",
        "://",
        "sk-",
        "-----BEGIN PRIVATE KEY-----\\",
        "-----BEGIN ",
        "api key: x ",
    ] {
        let text = piece.repeat((256 << 10) / piece.len()) + "\" end";
        let mut at = 0;
        while let Some(found) = mcp_proto_trace::find_secret(&text, at) {
            assert!(found.end > at && found.end <= text.len(), "{piece}: {found:?}");
            at = found.end;
        }
    }
}

/// So does what may be a pair at each place, and what opens without end.
#[test]
fn hostile_messages_are_masked_in_linear_time() {
    for piece in [
        r#"{"value":"#,
        r#"{"value":"x","#,
        r#"{"name":"api_key","value":"#,
        r#""value":"x","#,
        r#"["--password","#,
        r#"[["password","#,
        r#""--password","#,
        r#"{"name":"#,
        r#""value":x"#,
        r#""value":x","#,
        r#""name":"api_key","k":x"#,
        r#""--a",x"#,
        r#""password",x"#,
    ] {
        let text = piece.repeat((256 << 10) / piece.len());
        let trace = recorded("json", &text, Mask::default());
        assert!(trace.len() <= text.len() * 3, "{piece}");
    }
}

#[test]
fn credentials_are_found_whatever_the_case_of_their_scheme() {
    for text in [
        "use Basic dXNlcjpwYXNz here",
        "bearer 0paque-token",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\u{1}y",
    ] {
        assert!(mcp_proto_trace::find_secret(text, 0).is_some(), "{text}");
    }
    assert_eq!(mcp_proto_trace::find_secret("basic information, bearer authentication", 0), None);
}
