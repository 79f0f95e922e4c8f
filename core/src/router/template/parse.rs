//! Reading a template (RFC 6570, 2).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::uri;

/// The longest template that is taken, in bytes
pub const MAX_TEMPLATE: usize = 2048;
/// The most variables that one template may name
pub const MAX_VARIABLES: usize = 64;

/// A text is no template
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} (at byte {at} of the template)")]
#[non_exhaustive]
pub struct TemplateError {
    /// Where
    pub at: usize,
    /// What is wrong there
    pub why: &'static str,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Literal {
        /// As it is written by expansion
        text: Box<str>,
        /// As it stands in a normalised URI, where that is something else
        key: Option<Box<str>>,
    },
    Expression(Expression),
}

#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) operator: &'static Operator,
    pub(super) variables: Vec<Variable>,
    /// Signs that end what it matches, since something further on begins with them
    pub(super) stops: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: Box<str>,
    pub(super) modifier: Modifier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modifier {
    None,
    /// At most so many characters
    Prefix(u16),
    Explode,
}

/// A row of the table in appendix A, and what matching needs to know besides
#[derive(Debug)]
pub(super) struct Operator {
    sign: u8,
    /// What an expansion begins with that is not empty
    pub(super) first: Option<u8>,
    pub(super) separator: u8,
    /// Values come with their names
    pub(super) named: bool,
    /// A name without value has an equals sign nevertheless
    pub(super) equals: bool,
    /// Reserved characters stand as they are
    pub(super) reserved: bool,
    /// What a value may hold in a URI that somebody wrote: more than expansion writes
    pub(super) class: u8,
}

const OPERATORS: [Operator; 8] = [
    operator(0, None, b',', uri::SEGMENT),
    Operator { reserved: true, ..operator(b'+', None, b',', uri::ANY) },
    Operator { reserved: true, ..operator(b'#', Some(b'#'), b',', uri::ANY) },
    operator(b'.', Some(b'.'), b'.', uri::SEGMENT),
    operator(b'/', Some(b'/'), b'/', uri::SEGMENT),
    Operator { named: true, ..operator(b';', Some(b';'), b';', uri::SEGMENT) },
    Operator { named: true, equals: true, ..operator(b'?', Some(b'?'), b'&', uri::QUERY) },
    Operator { named: true, equals: true, ..operator(b'&', Some(b'&'), b'&', uri::QUERY) },
];

const fn operator(sign: u8, first: Option<u8>, separator: u8, class: u8) -> Operator {
    Operator { sign, first, separator, named: false, equals: false, reserved: false, class }
}

/// Reads a template from left to right; nothing is looked at twice
pub(super) fn parse(text: &str) -> Result<Vec<Part>, TemplateError> {
    if text.len() > MAX_TEMPLATE {
        return Err(TemplateError { at: MAX_TEMPLATE, why: "the template is too long" });
    }
    let mut parts = Vec::new();
    let mut variables = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(inner) = rest.strip_prefix('{') {
            let end = inner.find('}').ok_or(TemplateError { at, why: "`{` without `}`" })?;
            let expression = expression(inner.get(..end).unwrap_or_default(), at + 1)?;
            variables += expression.variables.len();
            if variables > MAX_VARIABLES {
                return Err(TemplateError { at, why: "too many variables" });
            }
            parts.push(Part::Expression(expression));
            at += end + 2;
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            parts.push(literal(rest.get(..end).unwrap_or_default(), at)?);
            at += end;
        }
    }
    stop(&mut parts);
    Ok(parts)
}

/// Notes where expressions without names end: at the sign of the one that follows, and at the query and the fragment
///
/// Without this, what may be absent would always be: `{+path}{?page}` would take the question mark for the path's.
fn stop(parts: &mut [Part]) {
    let (mut ahead, mut next) = (Vec::new(), None);
    for part in parts.iter_mut().rev() {
        let Part::Expression(e) = part else {
            next = None;
            continue;
        };
        e.stops = ahead.clone();
        e.stops.extend(next);
        next = e.operator.first;
        if let Some(sign @ (b'?' | b'#')) = next {
            ahead.push(sign);
        }
    }
}

fn literal(text: &str, at: usize) -> Result<Part, TemplateError> {
    let key = uri::normalize_part(text, at == 0, at).map_err(|e| match e {
        uri::UriError::Character { at } => TemplateError { at, why: "no URI may hold this character" },
        _ => TemplateError { at, why: "no part of a URI" },
    })?;
    let mut written = String::with_capacity(text.len());
    for b in text.bytes() {
        if b < 128 { written.push(char::from(b)) } else { uri::encode(&mut written, b) }
    }
    let key = match key {
        Cow::Owned(key) if key != written => Some(key.into()),
        _ => None,
    };
    Ok(Part::Literal { text: written.into(), key })
}

fn expression(inner: &str, mut at: usize) -> Result<Expression, TemplateError> {
    let sign = inner.bytes().next().ok_or(TemplateError { at, why: "an expression without a variable" })?;
    let [simple, signed @ ..] = &OPERATORS;
    let operator = signed.iter().find(|o| o.sign == sign);
    let names = match operator {
        Some(_) => {
            at += 1;
            inner.get(1..).unwrap_or_default()
        }
        None if matches!(sign, b'=' | b',' | b'!' | b'@' | b'|') => {
            return Err(TemplateError { at, why: "an operator that is reserved for extensions" });
        }
        None => inner,
    };
    let mut variables = Vec::new();
    for spec in names.split(',') {
        variables.push(variable(spec, at)?);
        at += spec.len() + 1;
    }
    Ok(Expression { operator: operator.unwrap_or(simple), variables, stops: Vec::new() })
}

fn variable(spec: &str, at: usize) -> Result<Variable, TemplateError> {
    let (name, modifier) = match (spec.strip_suffix('*'), spec.split_once(':')) {
        (Some(name), _) => (name, Modifier::Explode),
        (None, Some((name, digits))) => {
            let at = at + name.len() + 1;
            let first = digits.bytes().next().unwrap_or(b'0');
            let fits = first != b'0' && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit());
            let length = digits.parse().ok().filter(|_| fits);
            let why = "a prefix length is a number from 1 to 9999";
            (name, Modifier::Prefix(length.ok_or(TemplateError { at, why })?))
        }
        (None, None) => (spec, Modifier::None),
    };
    if name.is_empty() {
        return Err(TemplateError { at, why: "a variable without a name" });
    }
    let bytes = name.as_bytes();
    let mut i = 0;
    while let Some(byte) = bytes.get(i).copied() {
        let dotted = || i > 0 && i + 1 < bytes.len() && bytes.get(i - 1) != Some(&b'.');
        i += match byte {
            b'_' => 1,
            b if b.is_ascii_alphanumeric() => 1,
            b'.' if dotted() => 1,
            b'%' if uri::triplet(bytes.get(i..).unwrap_or_default()).is_some() => 3,
            _ => {
                let why = "a name has letters, digits, `_`, triplets, and single dots between them";
                return Err(TemplateError { at: at + i, why });
            }
        };
    }
    Ok(Variable { name: name.into(), modifier })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn fault(text: &str) -> usize {
        parse(text).expect_err(text).at
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, at) in [
            ("{", 0),
            ("a{}", 2),
            ("a{b", 1),
            ("a}b", 1),
            ("a b", 1),
            ("%4", 0),
            ("{a,}", 3),
            ("{a b}", 2),
            ("{a:0}", 3),
            ("{a:12345}", 3),
            ("{a:}", 3),
            ("{a:3*}", 2),
            ("{=a}", 1),
            ("{a..b}", 3),
            ("{.a.}", 3),
            ("{{a}}", 1),
        ] {
            assert_eq!(fault(text), at, "{text}");
        }
    }

    #[test]
    fn templates_have_bounds() {
        assert!(parse(&"a".repeat(MAX_TEMPLATE)).is_ok());
        assert_eq!(fault(&"a".repeat(MAX_TEMPLATE + 1)), MAX_TEMPLATE);
        let many = |n| (0..n).map(|i| format!("{{v{i}}}")).collect::<String>();
        assert!(parse(&many(MAX_VARIABLES)).is_ok());
        assert!(parse(&many(MAX_VARIABLES + 1)).is_err());
    }
}
