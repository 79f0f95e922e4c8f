//! Forms (`application/x-www-form-urlencoded`), read by `form_urlencoded` (WHATWG) and Python's `urllib.parse`.

use mcp_oauth::{Form, parse_form};

use crate::compare::{Comparison, for_each_input};
use crate::process::Process;

const EXAMPLES: [&str; 5] = [
    "grant_type=authorization_code&code=a%2Fb+c&redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2F",
    "code=x&state=y&iss=https%3A%2F%2Fas.example",
    "a=b=c&d&=e&&f=",
    "%C3%A9=%F0%9F%98%80",
    "error=access_denied&error_description=a;b",
];
const PIECES: [&str; 15] =
    ["a", "=", "&", "+", "%41", "%3d", "%26", "%2B", "%25", "%C3%A9", ";", "\u{e9}", "?", "#", " "];

const SCRIPT: &str = "
import urllib.parse
def read(text):
    return urllib.parse.parse_qsl(text.decode(), keep_blank_values=True, errors='strict')
";

fn read(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    parse_form(text, &mut |name, value| pairs.push((name, value)))?;
    Some(pairs)
}

#[test]
fn form_that_is_accepted_is_read_alike_by_whatwg_and_python() {
    let mut comparison = Comparison::new("form");
    let mut python = Process::python("python", SCRIPT);
    let check = |input: &[u8]| {
        let Ok(text) = str::from_utf8(input) else { return };
        let Some(pairs) = comparison.count(input, read(text)) else { return };
        let mut printed = Form::default();
        pairs.iter().for_each(|(name, value)| printed.push(name, value));
        assert_eq!(read(&printed.into_string()).as_ref(), Some(&pairs), "{text}");
        let whatwg: Vec<(String, String)> = form_urlencoded::parse(input).into_owned().collect();
        comparison.check("form_urlencoded", input, &pairs, Some(&whatwg), "");
        python.ask(input, serde_json::to_value(&pairs).expect("JSON"), "");
    };
    for_each_input("auth_redirect", &EXAMPLES, &PIECES, 4, check);
    python.compare(&mut comparison);
    comparison.finish(50_000);
}
