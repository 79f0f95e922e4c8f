//! Forms and links of a page. Only what login pages need: no scripts, no nested forms, no select fields.

use alloc::string::String;
use alloc::vec::Vec;

/// A form of a page.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Form {
    pub(super) action: String,
    /// Whether it is submitted by POST.
    pub(super) is_post: bool,
    /// Inputs in order, without buttons.
    pub(super) inputs: Vec<Input>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) value: String,
    /// Whether a user can see and fill it.
    pub(super) is_visible: bool,
}

impl Form {
    /// Returns the input of that name.
    pub(super) fn input(&mut self, name: &str) -> Option<&mut Input> {
        self.inputs.iter_mut().find(|input| input.name == name)
    }

    /// Returns whether the form has an input with that value.
    pub(super) fn has(&self, name: &str, value: &str) -> bool {
        self.inputs.iter().any(|input| input.name == name && input.value == value)
    }
}

/// The parts of a page that a user acts on.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) forms: Vec<Form>,
    /// Targets of links, in order.
    pub(super) links: Vec<String>,
}

impl Page {
    pub(super) fn parse(html: &str) -> Self {
        let mut page = Self::default();
        let mut is_in_form = false;
        for tag in tags(html) {
            match &*tag.name {
                "form" => {
                    let action = tag.attribute("action").unwrap_or_default();
                    let is_post = tag.attribute("method").is_some_and(|m| m.eq_ignore_ascii_case("post"));
                    page.forms.push(Form { action, is_post, inputs: Vec::new() });
                    is_in_form = true;
                }
                "/form" => is_in_form = false,
                "input" if is_in_form => {
                    let kind = tag.attribute("type").unwrap_or_else(|| "text".to_owned());
                    let (Some(name), Some(form)) = (tag.attribute("name"), page.forms.last_mut()) else {
                        continue;
                    };
                    if !matches!(&*kind, "submit" | "button" | "reset") {
                        let value = tag.attribute("value").unwrap_or_default();
                        form.inputs.push(Input { name, value, is_visible: kind != "hidden" });
                    }
                }
                "a" => page.links.extend(tag.attribute("href")),
                _ => {}
            }
        }
        page
    }
}

struct Tag {
    /// Name in lower case, with a slash in front if it is an end tag.
    name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    fn attribute(&self, name: &str) -> Option<String> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    }
}

fn tags(html: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        rest = &rest[end..];
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start();
            if rest.is_empty() || rest.starts_with('>') {
                break;
            }
            let (attribute, tail) = parse_attribute(rest);
            attributes.push(attribute);
            rest = tail;
        }
        tags.push(Tag { name, attributes });
    }
    tags
}

/// Parses an attribute, and returns it with the rest of the text. Consumes at least one character.
fn parse_attribute(text: &str) -> ((String, String), &str) {
    let end = text.find(|c: char| c.is_whitespace() || c == '=' || c == '>').unwrap_or(text.len());
    let name = text[..end].to_ascii_lowercase();
    let rest = text[end..].trim_start();
    let Some(rest) = rest.strip_prefix('=').map(str::trim_start) else {
        return ((name, String::new()), rest);
    };
    let (value, rest) = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => rest[1..].split_once(quote).unwrap_or_else(|| (&rest[1..], "")),
        _ => rest.split_at(rest.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(rest.len())),
    };
    ((name, unescape(value)), rest)
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out += &rest[..at];
        rest = &rest[at..];
        let Some((entity, tail)) = rest[1..].split_once(';') else { break };
        let character = match entity {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => numeric_entity(entity),
        };
        match character {
            Some(character) => {
                out.push(character);
                rest = tail;
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

fn numeric_entity(entity: &str) -> Option<char> {
    let digits = entity.strip_prefix('#')?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    code.ok().and_then(char::from_u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_parsed_into_forms_and_links() {
        let html = r#"<!DOCTYPE html><html><body><a class=x href="/next?a=1&amp;b=2">n</a>
            <input name="outside"><FORM id="f" action='/in?x=&#39;&quot;' METHOD="POST">
            <input type="hidden" name="xsrf" value="1"/><input required type="text" name="login" placeholder="a > b">
            <input type=password name=password><button type="submit" name="go">Go</button>
            <input type="submit" name="send"></form><form action="/get"></form>"#;
        let input = |name: &str, value: &str, is_visible| Input {
            name: name.into(),
            value: value.into(),
            is_visible,
        };
        let page = Page::parse(html);
        assert_eq!(page.links, ["/next?a=1&b=2"]);
        assert_eq!(page.forms.len(), 2);
        assert_eq!(page.forms[0].action, "/in?x='\"");
        assert!(page.forms[0].is_post && !page.forms[1].is_post);
        assert_eq!(
            page.forms[0].inputs,
            [input("xsrf", "1", false), input("login", "", true), input("password", "", true)]
        );
    }

    #[test]
    fn cut_page_is_parsed() {
        let html = r#"<a href="/x"><form action="/y" method="post"><input name="a" value="b&amp;c&d">"#;
        for (end, _) in html.char_indices() {
            // It ends, and finds nothing that is not there.
            assert!(Page::parse(&html[..end]).forms.len() <= 1, "{end}");
        }
        assert!(Page::parse(html).forms[0].has("a", "b&c&d"));
    }
}
