//! Test vectors of RFC 6570 and of github.com/uri-templates/uritemplate-test (Apache-2.0), and tests of matching.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use serde_json::Value as Json;

use super::*;
use crate::testing::rounds;

fn template(text: &str) -> Template {
    Template::new(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn text(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), ToOwned::to_owned)
}

fn values(json: &Json) -> Values<'static> {
    let mut values = Values::new();
    for (name, value) in json.as_object().expect("variables") {
        values = match value {
            Json::Null => values,
            Json::Array(list) => values.list(name.clone(), list.iter().map(text)),
            Json::Object(map) => values.pairs(name.clone(), map.iter().map(|(k, v)| (k.clone(), text(v)))),
            other => values.text(name.clone(), text(other)),
        };
    }
    values
}

/// Returns template, values and the valid expansions of each test case; `None` if the template must be refused.
fn vectors(file: &str) -> Vec<(String, Values<'static>, Option<Vec<String>>)> {
    let groups: BTreeMap<String, Json> = serde_json::from_str(file).expect("vectors");
    let mut all = Vec::new();
    for group in groups.values() {
        let variables = values(&group["variables"]);
        for case in group["testcases"].as_array().expect("cases") {
            let expected = match &case[1] {
                Json::Bool(false) => None,
                Json::Array(any) => Some(any.iter().map(text).collect()),
                one => Some(vec![text(one)]),
            };
            all.push((text(&case[0]), variables.clone(), expected));
        }
    }
    all
}

// covers: RES-009
#[test]
fn rfc6570_vectors_expand() {
    let files = [
        include_str!("vectors/spec-examples-by-section.json"),
        include_str!("vectors/extended-tests.json"),
        include_str!("vectors/negative-tests.json"),
    ];
    let mut counts = [0, 0];
    for (text, values, expected) in files.into_iter().flat_map(vectors) {
        let got = Template::new(&text).ok().and_then(|t| t.expand(&values).ok());
        counts[usize::from(expected.is_none())] += 1;
        match (got, expected) {
            (Some(got), Some(expected)) => {
                assert!(expected.contains(&got), "{text}: {got}, not {expected:?}")
            }
            (None, None) => {}
            (got, expected) => panic!("{text}: {got:?}, not {expected:?}"),
        }
    }
    assert!(counts[0] > 150 && counts[1] > 30, "{counts:?}");
}

fn found(template: &Template, uri: &str) -> Option<String> {
    let found = template.match_uri(uri, VariablePolicy::dangerously_off()).ok()?;
    let pairs = found.iter().map(|(name, value)| match value {
        VariableValue::Text(text) => format!("{name}={text}"),
        VariableValue::List(list) => format!("{name}=[{}]", list.join("|")),
        VariableValue::Pairs(_) => unreachable!("matching produces no pairs"),
    });
    Some(pairs.collect::<Vec<_>>().join(" "))
}

// covers: RES-009
#[test]
fn uri_match_follows_documented_rules() {
    for (text, uri, expected) in [
        // Literals, and equivalent spellings.
        ("file:///a", "file:///a", Some("")),
        ("file:///a", "FILE:///%61", Some("")),
        ("FILE:///%c3%a9", "file:///é", Some("")),
        ("file:///a", "file:///a/", None),
        ("file:///a", "file:///A", None),
        ("x:5{a}", "x:%255b", None),
        // A single text.
        ("test://template/{id}/data", "test://template/123/data", Some("id=123")),
        ("test://template/{id}/data", "test://template//data", None),
        ("test://template/{id}/data", "test://template/1/2/data", None),
        ("user://{id}", "user://bob@example.com", Some("id=bob@example.com")),
        ("user://{id}", "user://a,b", Some("id=a,b")),
        ("user://{id}", "user://a%2Cb%20%C3%BC", Some("id=a,b ü")),
        ("user://{id}", "user://a?b", None),
        ("user://{id}", "user://%ff", None),
        ("{scheme}://{host}", "a://b", Some("scheme=a host=b")),
        ("x:{a}.{b}", "x:1.2.3", Some("a=1.2 b=3")),
        ("x:{a}{b}", "x:123", Some("a=12 b=3")),
        ("x:{a:2}{b}", "x:%C3%BC456", Some("a=ü4 b=56")),
        ("x:{a:1}/{a}", "x:v/value", Some("a=value")),
        ("x:{a}/{a:1}", "x:value/w", None),
        ("x:{a}/{a}", "x:1/1", Some("a=1")),
        ("x:{a}/{a}", "x:1/2", None),
        // Several texts, and lists.
        ("map:{x,y}", "map:1024,768", Some("x=1024 y=768")),
        ("map:{x,y}", "map:1024", Some("x=1024")),
        ("map:{x,y}", "map:1,2,3", None),
        ("x:{list*}", "x:red,green,blue", Some("list=[red|green|blue]")),
        ("x:{list*,last}", "x:red,green,blue", Some("list=[red|green] last=blue")),
        // Reserved characters.
        ("file:///{+path}", "file:///a/b?c#d", Some("path=a/b?c#d")),
        ("file:///{+path}", "file:///", None),
        ("file:///{+path}/{name}.txt", "file:///a/b/c.d.txt", Some("path=a/b name=c.d")),
        ("x:{+a}.{b}/c", "x:x/y.z/w.q/c", Some("a=x/y.z/w b=q")),
        ("x:{+a}{#b}", "x:a?b#c#d", Some("a=a?b b=c#d")),
        ("x:{+a}{?b}", "x:a/b?b=1", Some("a=a/b b=1")),
        ("x:{+a}{?b}", "x:a/b?c=1", None),
        // Expansions with a first character of their own may be absent.
        ("x:{name}{.ext}", "x:a.tar.gz", Some("name=a ext=tar.gz")),
        ("x:{name}{.ext}", "x:a", Some("name=a")),
        ("x:{a}{.b*}", "x:1.2.3", Some("a=1 b=[2|3]")),
        ("x:{/a,b}/here", "x:/1/2/here", Some("a=1 b=2")),
        ("x:{/a,b}/here", "x:/1/here", Some("a=1")),
        ("x:{/a,b}/here", "x:/here", Some("")),
        ("x:{/a*}/here", "x:/1/2/3/here", Some("a=[1|2|3]")),
        ("x:{/a}", "x:/", Some("a=")),
        ("x:{;x,y}", "x:;x=1024;y=768", Some("x=1024 y=768")),
        ("x:{;x,y,empty}/z", "x:;empty;y=768/z", Some("empty= y=768")),
        ("x:{?x,y}", "x:?x=1024&y=768", Some("x=1024 y=768")),
        ("x:{?x,y}", "x:?y=768&x=a/b?c", Some("y=768 x=a/b?c")),
        ("x:{?x,y}", "x:?x=1&x=2", None),
        ("x:{?x,y}{+s}", "x:?x=&y=2:?y=2&x=a/b", Some("x= y=2:?y=2 s=&x=a/b")),
        ("x:{?x*}{+s}", "x:?x=1&x=2&s", Some("x=[1|2] s=&s")),
        ("x:{?x,y}", "x:?x=1&z=2", None),
        ("x:{?x,xy}", "x:?xy=1&x=2", Some("xy=1 x=2")),
        ("x:{?x,y}", "x:", Some("")),
        // No split lies inside a character.
        ("x:{a}{b}", "x:cd%CA%9D", Some("a=cd b=ʝ")),
        ("x:{?x}{b}", "x:?x=1%26%CA%9D", Some("x=1& b=ʝ")),
        ("x:{a}{b}", "x:%CA%9D", None),
        ("x:{?x,y}", "x:?", None),
        ("x:{?x:2}", "x:?x=123", None),
        ("x:{?list*,y}", "x:?list=a&y=1&list=b", Some("y=1 list=[a|b]")),
        ("x:?fixed=yes{&x}", "x:?fixed=yes&x=1", Some("x=1")),
        ("x:{?x}{&y}", "x:?x=1&y=2", Some("x=1 y=2")),
        ("x:{?x}{#y}", "x:?x=1#2", Some("x=1 y=2")),
    ] {
        assert_eq!(found(&template(text), uri).as_deref(), expected, "{text} with {uri}");
    }
}

// covers: RES-026
#[test]
fn host_literal_ignores_case_and_variable_keeps_it() {
    for (text, uri, expected) in [
        ("https://EXAMPLE.com/{x}", "HTTPS://example.COM/Doc", Some("x=Doc")),
        ("https://example.com/Doc{?x}", "https://Example.com/Doc?x=A", Some("x=A")),
        ("https://example.com/Doc{?x}", "https://Example.com/doc?x=A", None),
        ("https://{sub}.EXAMPLE.com/a", "https://WWW.example.com/a", Some("sub=WWW")),
        ("https://{sub}.EXAMPLE.com/a", "https://WWW.example.com/A", None),
        ("x://User@{host}/", "x://User@Host/", Some("host=Host")),
        ("x://User@{host}/", "x://user@Host/", None),
        ("note://{id}", "note://README", Some("id=README")),
    ] {
        assert_eq!(found(&template(text), uri).as_deref(), expected, "{text} with {uri}");
    }
}

// covers: RES-019, RES-022
#[test]
fn variable_with_path_traversal_is_refused() {
    use UnsafeUri::*;
    let files = template("file:///{+path}");
    let simple = template("note://{id}");
    let two = template("file:///{a}{b}");
    let query = template("x://s{?path}");
    let searched = template("file:///{a}{b}{?q}{#f}");
    let list = template("file:/{/path*}");
    for (template, uri, why) in [
        (&files, "file:///../etc/passwd", Traversal),
        (&files, "file:///a/../../etc/passwd", Traversal),
        (&files, "file:///a/%2e%2E/b", Traversal),
        (&files, "file:///a%2f..%2fb", Traversal),
        (&files, "file:///a%5C..%5Cb", Traversal),
        (&files, "file:///a/..%20/b", Traversal),
        (&files, "file:////etc/passwd", Absolute),
        (&files, "file:///C:/Windows", Absolute),
        (&files, "file:///%5C%5Cserver/share", EncodedSlash),
        (&files, "file:///a%00.txt", Nul),
        (&simple, "note://..", Traversal),
        (&simple, "note://a%2Fb", EncodedSlash),
        (&two, "file:///..", Traversal),
        (&searched, "file:///..?q=1", Traversal),
        (&searched, "file:///..#1", Traversal),
        (&query, "x://s?path=..%2Fetc", Traversal),
        (&query, "x://s?path=/etc", Absolute),
        (&list, "file://a/b%00", Nul),
        (&list, "file://a/C:x", Absolute),
        (&list, "file://a/%5Cb", EncodedSlash),
    ] {
        assert_eq!(
            template.match_uri(uri, VariablePolicy::default()),
            Err(TemplateMismatch::Unsafe(why)),
            "{uri}"
        );
        assert!(template.match_uri(uri, VariablePolicy::dangerously_off()).is_ok(), "{uri}");
    }
    for (template, uri) in [
        (&files, "file:///a/b..c/...d"),
        (&files, "file:///.hidden/a.b"),
        (&query, "x://s?path=a%2Fb"),
        (&simple, "note://ab:c@d"),
    ] {
        assert!(template.match_uri(uri, VariablePolicy::default()).is_ok(), "{uri}");
    }
    let lax = VariablePolicy::default().allow_absolute().allow_encoded_slashes();
    assert!(files.match_uri("file:////etc/a%2Fb", lax).is_ok());
    assert_eq!(files.match_uri("file:////etc/../b", lax), Err(TemplateMismatch::Unsafe(Traversal)));
}

/// Matching an expanded template yields values that expand to the same URI.
#[test]
fn expanded_uri_matches_its_template() {
    let mut seed = 7u64;
    let mut random = move |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let alphabet = ["a", "7", ".", "-", "é", " ", ",", ";", "=", "&", "@", "%", "/"];
    for _ in 0..rounds(20_000) {
        let mut text = "x:".to_owned();
        let mut values = Values::new();
        for i in 0..=random(4) {
            let sign = ["", "", "+", "#", ".", "/", ";", "?", "&"][random(9)];
            let explode = random(4) == 0;
            let names: Vec<_> = (0..=random(2)).map(|j| format!("v{i}{j}")).collect();
            let stars = if explode { "*" } else { "" };
            text.push_str(&format!("{{{sign}{}}}", names.join(&format!("{stars},")) + stars));
            text.push_str(["/", "~lit"][random(2)]);
            for name in names {
                // A reserved value may contain text that the next part matches, or that looks encoded, so its alphabet
                // is smaller.
                let letters = if matches!(sign, "+" | "#") { 4 } else { alphabet.len() };
                let word: String = (0..=random(3)).map(|_| alphabet[random(letters)]).collect();
                values = if explode {
                    values.list(name, vec![word.clone(), word])
                } else {
                    values.text(name, word)
                };
            }
        }
        let template = template(&text);
        let uri = template.expand(&values).expect("values of the right kind");
        let found = template.match_uri(&uri, VariablePolicy::dangerously_off());
        let found = found.unwrap_or_else(|e| panic!("{text}: {uri}: {e}"));
        assert_eq!(template.expand(&found).as_ref(), Ok(&uri), "{text}: {found:?}");
    }
}

/// Direct matching and general matching yield the same values.
#[test]
fn direct_match_agrees_with_general_match() {
    let texts =
        ["x:{a}", "x:{a}/{b}", "x:{a}/y/{+b}", "x:{a}?{b}", "x:{a}/{b}/{a}", "x:{+a}", "x:%2F{a}/%41", "x:"];
    let units = ["a", "/", "?", "y", "%2F", "%41", ".", "//", "x:", "://"];
    let mut hits = 0;
    for text in texts {
        let template = template(text);
        assert!(template.is_direct, "{text}");
        for n in 0..units.len().pow(4) {
            let uri: String = (0..4).map(|i| units[n / units.len().pow(i) % units.len()]).collect();
            let Ok(uri) = normalize(&format!("x:{uri}"), MAX_URI).map(String::from) else { continue };
            let [short, long] = [
                matching::match_direct(&template.parts, &uri),
                matching::match_parts(&template.parts, &uri, &mut 0),
            ];
            hits += usize::from(short.is_some());
            assert_eq!(
                short.map(|m| (m.values, m.encoded_slash)),
                long.map(|m| (m.values, m.encoded_slash)),
                "{text}: {uri}"
            );
        }
    }
    assert!(hits > 5_000, "{hits}");
    for text in
        ["x:{a}{b}", "x:{a}.b", "x:{+a}/b", "x:{a:3}", "x:{a*}", "x:{a,b}", "x:{/a}", "x:{a}{?b}", "x:{?a}"]
    {
        assert!(!template(text).is_direct, "{text}");
    }
}

// covers: RES-019
#[test]
fn match_steps_stay_below_product_of_lengths() {
    let hostile = [
        "{a*}{b*}{c*}{d*}{e*}{f*}{g*}{h*}!",
        "{+a}{+b}{+c}{+d}{+e}{+f}{+g}{+h}!",
        "{/a*}{/b*}{/c*}{/d*}/!",
        "{.a*}{.b*}{.c*}.!",
        "{;a*,b*,aa*}{;a*,ab*}{;b*}!",
        "{?a*,b*}{&a*,b*}{&a*,aa*}!",
        "aaaaaaaaaaaaaaaa{a}aaaaaaaaaaaaaaaaaaaaaa{b}aaaaaaaaaaaaaaaaaaaaab",
        "{a,b,c,d,e,f}{g,h,i:3}{j:100}!",
        "{a:1}{b:2}{c:3}{d:9999}!",
    ];
    let units =
        ["a", ",", "/", "/a", ".a", ";a", ";a=", "&a=a", ";a=1;b=2", "%2C", "%C3%A9", "a,", "?a=", "aa"];
    for text in hostile {
        let template = template(&format!("x:{text}"));
        for unit in units {
            for length in [100, 1_000, 8_000] {
                for end in ["", "!", "?a=1"] {
                    let uri = format!("x:{}{end}", unit.repeat(length / unit.len()));
                    let mut steps = 0;
                    let _ = matching::match_parts(&template.parts, &uri, &mut steps);
                    let limit = 4 * (uri.len() + 2) * (text.len() + 2);
                    assert!(steps <= limit, "{text} with {length} of {unit}: {} steps of {limit}", steps);
                }
            }
        }
    }
    let long = format!("x:{}", "a".repeat(1 << 20));
    let simple = template("x:{a}");
    let mismatch = simple.match_uri(&long, VariablePolicy::default());
    assert_eq!(mismatch, Err(TemplateMismatch::Uri(UriError::TooLong { limit: MAX_URI })));
}

#[test]
fn value_with_a_name_ends_where_the_next_expansion_begins() {
    for (text, uri, expected) in
        [("x:{;a}{.b}", "x:;a=1.2", "2"), ("x:{?a}{/b}", "x:?a=1/2", "2"), ("x:{?a}{;b}", "x:?a=1;b=2", "2")]
    {
        let template = Template::new(text).expect("a template");
        let found = template.match_uri(uri, VariablePolicy::default()).expect("a match");
        assert_eq!((found.get("a"), found.get("b")), (Some("1"), Some(expected)), "{text} {uri}");
    }
}
