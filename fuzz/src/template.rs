//! Fuzz target for URI templates and their matching.

use mcp_proto::internals::count_match_steps;
use mcp_proto::router::template::{
    MAX_URI, Template, TemplateMismatch, Values, VariablePolicy, VariableValue,
};

use super::input::FuzzInput;

/// Matches an arbitrary URI against an arbitrary template and checks the invariants.
///
/// - A match takes no more steps than the product of both lengths, times a constant.
/// - The values of a match expand to a URI that has the same match.
/// - No value that satisfies the default policy leads elsewhere.
/// - Every set of values expands or is refused.
pub fn template(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let length = usize::from(choices.byte());
    let Ok(text) = core::str::from_utf8(choices.take(length)) else { return };
    let Ok(uri) = core::str::from_utf8(choices.rest()) else { return };
    let Ok(template) = Template::new(text) else { return };
    assert_eq!(template.as_str(), text);
    let limit = 4 * (uri.len() * 3 + 2) * (text.len() * 3 + 2);
    assert!(count_match_steps(&template, uri).is_none_or(|steps| steps <= limit), "{text} with {uri}");
    check_expansion(&template, uri);
    let Ok(found) = template.match_uri(uri, VariablePolicy::dangerously_off()) else {
        assert!(template.match_uri(uri, VariablePolicy::default()).is_err(), "{text} with {uri}");
        return;
    };
    for (name, value) in found.iter() {
        assert!(template.variables().any(|v| v == name));
        assert!(!matches!(value, VariableValue::Pairs(_)), "matching produces no pairs");
    }
    check_round_trip(&template, uri, &found);
    if let Ok(screened) = template.match_uri(uri, VariablePolicy::default()) {
        for (_, value) in screened.iter() {
            let steps_out =
                |text: &str| text.split(['/', '\\']).any(|part| part == "..") || text.contains('\0');
            match value {
                VariableValue::Text(text) => assert!(!steps_out(text), "{uri}"),
                VariableValue::List(list) => assert!(!list.iter().any(|text| steps_out(text)), "{uri}"),
                VariableValue::Pairs(_) => {}
                other => panic!("unknown value: {other:?}"),
            }
        }
    }
}

/// Checks that the values of a match expand to a URI with the same values.
fn check_round_trip(template: &Template, uri: &str, found: &Values<'_>) {
    // Pairs with equal names are written twice and matched once.
    let mut names: Vec<&str> = template.variables().collect();
    names.sort_unstable();
    if names.windows(2).any(|two| two[0] == two[1]) {
        return;
    }
    let made = template.expand(found).unwrap_or_else(|e| panic!("{template:?} with {uri}: {e}"));
    // `{+a}` and `{#a}` may contain text that a neighbouring part matches, so their round trip is not guaranteed.
    let reserved = ["{+", "{#"].iter().any(|sign| template.as_str().contains(sign));
    if reserved || made.len() > MAX_URI {
        return;
    }
    let second = template.match_uri(&made, VariablePolicy::dangerously_off());
    // A value in the scheme is percent-encoded, which no scheme can be.
    let fixed = template.as_str().split('{').next().is_some_and(|text| text.contains(':'));
    if !fixed && matches!(second, Err(TemplateMismatch::Uri(_))) {
        return;
    }
    let second = second.unwrap_or_else(|e| panic!("{template:?} with {uri}, then {made}: {e}"));
    assert_eq!(template.expand(&second).as_deref(), Ok(&*made), "{template:?} with {uri}");
}

/// Expands the template with the input as the value of every variable.
fn check_expansion(template: &Template, text: &str) {
    let names: Vec<String> = template.variables().map(String::from).collect();
    for kind in 0..3 {
        let values = names.iter().fold(Values::new(), |values, name| match kind {
            0 => values.text(name.clone(), text),
            1 => values.list(name.clone(), [text, "b"]),
            _ => values.pairs(name.clone(), [("k", text)]),
        });
        if let Ok(uri) = template.expand(&values) {
            // Only characters that are allowed in a URI.
            assert!(uri.is_ascii() && !uri.contains([' ', '"', '<', '>', '^', '`', '{', '|', '}']), "{uri}");
        }
    }
}
