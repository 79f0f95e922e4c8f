//! `read`: what a resource holds

use mcp_proto::client::Kind;
use mcp_proto::model::{ReadResourceParams, ReadResourceResult, Request, ResourceContents};

use crate::args;
use crate::ask::{self, Question};
use crate::client::Client;
use crate::content;
use crate::failure::Failure;
use crate::paint::Paint;

pub(crate) fn run(args: &args::Read) -> Result<(), Failure> {
    let params = ReadResourceParams::new(&*args.uri);
    let question = Question::<ReadResourceParams<'_>> {
        of: "reading a resource",
        show: shown,
        hint: &|client| hint(client, &args.uri),
    };
    let start: ask::Start<'_> =
        &|client, options, told| client.request(ReadResourceParams::METHOD, &params, options, told);
    ask::run(&args.asking, Some(&args.answering), start, &question).map(drop)
}

/// What there is to read, and the templates that make more of it
fn hint(client: &mut Client, uri: &str) -> Option<String> {
    let hint = ask::alternatives(client, Kind::Resource, "resource", "uri", uri)?;
    let templates = client.list(Kind::ResourceTemplate).unwrap_or_default();
    let templates: Vec<_> =
        templates.iter().filter_map(|entry| entry.member("uriTemplate")?.string()).take(20).collect();
    if templates.is_empty() {
        return Some(hint);
    }
    Some(format!("{hint}; and these templates: {}", templates.join(", ")))
}

/// A text alone is shown without more ado; what is none, or one of several, has a line about itself
fn shown(result: &ReadResourceResult<'_>, paint: Paint) -> String {
    let mut out = String::new();
    match &*result.contents {
        [] => out.push_str(&format!("{}\n", paint.dim("(nothing in it)"))),
        [ResourceContents::Text(only)] => content::text(&mut out, &only.text),
        several => several.iter().for_each(|contents| content::resource(&mut out, contents, paint)),
    }
    out
}

#[cfg(test)]
mod tests {
    use mcp_proto::RawJson;

    use super::*;

    // covers: RES-006, RES-020
    #[test]
    fn contents_are_put_on_lines() {
        let cases = [
            (r#"{"contents":[{"uri":"a:b","text":"x\u202ey"}]}"#, "x\\u202ey\n"),
            (
                r#"{"contents":[{"uri":"a:b","mimeType":"a/b","blob":"AAAA"}]}"#,
                "[resource a:b, a/b, 3 bytes]\n",
            ),
            (
                r#"{"contents":[{"uri":"a:b","text":"x"},{"uri":"a:c","text":"y\n"}]}"#,
                "[resource a:b]\nx\n[resource a:c]\ny\n",
            ),
            (r#"{"contents":[]}"#, "(nothing in it)\n"),
        ];
        for (result, want) in cases {
            let result = RawJson::new(result).expect("JSON");
            assert_eq!(shown(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }
}
