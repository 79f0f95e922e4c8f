//! Templates and the URIs that they are matched with.

use alloc::string::String;

use super::dice::Dice;
use crate::router::template::{MAX_URI, Mismatch, Screen, Template, Value, Values};

/// Matching takes no more steps than both lengths multiplied; what was found makes a URI again in which the same is
/// found; nothing that the screen lets through leads elsewhere; and any values expand or are refused
pub fn template(data: &[u8]) {
    let mut dice = Dice::new(data);
    let length = usize::from(dice.byte());
    let Ok(text) = core::str::from_utf8(dice.take(length)) else { return };
    let Ok(uri) = core::str::from_utf8(dice.rest()) else { return };
    let Ok(template) = Template::new(text) else { return };
    assert_eq!(template.as_str(), text);
    let most = 4 * (uri.len() * 3 + 2) * (text.len() * 3 + 2);
    assert!(template.steps(uri).is_none_or(|steps| steps <= most), "{text} with {uri}");
    expands(&template, uri);
    let Ok(found) = template.matches(uri, Screen::dangerously_off()) else {
        assert!(template.matches(uri, Screen::default()).is_err(), "{text} with {uri}");
        return;
    };
    for (name, value) in found.iter() {
        assert!(template.variables().any(|v| v == name));
        assert!(!matches!(value, Value::Pairs(_)), "matching makes no pairs");
    }
    again(&template, uri, &found);
    if let Ok(screened) = template.matches(uri, Screen::default()) {
        for (_, value) in screened.iter() {
            let steps_out =
                |text: &str| text.split(['/', '\\']).any(|part| part == "..") || text.contains('\0');
            match value {
                Value::Text(text) => assert!(!steps_out(text), "{uri}"),
                Value::List(list) => assert!(!list.iter().any(|text| steps_out(text)), "{uri}"),
                Value::Pairs(_) => {}
            }
        }
    }
}

/// What was found means the same once more
fn again(template: &Template, uri: &str, found: &Values<'_>) {
    // Pairs of one name are written twice and read once.
    let mut names: alloc::vec::Vec<&str> = template.variables().collect();
    names.sort_unstable();
    if names.windows(2).any(|two| two[0] == two[1]) {
        return;
    }
    let made = template.expand(found).unwrap_or_else(|e| panic!("{template:?} with {uri}: {e}"));
    // `{+a}` and `{#a}` may hold what looks like a part that stands before or behind them: nothing is promised there
    // but an answer.
    let reserved = ["{+", "{#"].iter().any(|sign| template.as_str().contains(sign));
    if reserved || made.len() > MAX_URI {
        return;
    }
    let second = template.matches(&made, Screen::dangerously_off());
    // A value that stands for a part of the scheme is encoded, which no scheme can be.
    let fixed = template.as_str().split('{').next().is_some_and(|text| text.contains(':'));
    if !fixed && matches!(second, Err(Mismatch::Uri(_))) {
        return;
    }
    let second = second.unwrap_or_else(|e| panic!("{template:?} with {uri}, then {made}: {e}"));
    assert_eq!(template.expand(&second).as_deref(), Ok(&*made), "{template:?} with {uri}");
}

/// Every variable is whatever the input holds
fn expands(template: &Template, text: &str) {
    let names: alloc::vec::Vec<String> = template.variables().map(String::from).collect();
    for kind in 0..3 {
        let values = names.iter().fold(Values::new(), |values, name| match kind {
            0 => values.text(name.clone(), text),
            1 => values.list(name.clone(), [text, "b"]),
            _ => values.pairs(name.clone(), [("k", text)]),
        });
        if let Ok(uri) = template.expand(&values) {
            // Nothing but what may stand in a URI.
            assert!(uri.is_ascii() && !uri.contains([' ', '"', '<', '>', '^', '`', '{', '|', '}']), "{uri}");
        }
    }
}
