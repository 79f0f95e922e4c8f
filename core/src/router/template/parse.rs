//! Parser for templates (RFC 6570, section 2).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::uri;

/// Maximum length of a template, in bytes.
pub const MAX_TEMPLATE: usize = 2048;
/// Maximum number of variables in a template.
pub const MAX_VARIABLES: usize = 64;

/// Syntax error in a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (at byte {at} of the template)")]
#[non_exhaustive]
pub struct TemplateError {
    /// Position of the error, in bytes.
    pub at: usize,
    /// Rule that is broken there.
    pub reason: &'static str,
}

#[derive(Clone, Debug)]
pub(super) enum TemplatePart {
    Literal {
        /// The text that expansion writes.
        text: Box<str>,
        /// The text in a normalized URI, if it differs from `text`.
        key: Option<Box<str>>,
    },
    Expression(Expression),
}

#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) operator: &'static Operator,
    pub(super) variables: Vec<Variable>,
    /// Characters that end the match, because the expansion of a later expression begins with them.
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
    /// Maximum number of characters.
    Prefix(u16),
    Explode,
}

/// Operator of an expression: a row of the table in RFC 6570, appendix A, and the properties that matching needs.
#[derive(Debug)]
pub(super) struct Operator {
    /// Character in the template, or 0 for simple expansion.
    symbol: u8,
    /// First character of an expansion that is not empty.
    pub(super) first: Option<u8>,
    pub(super) separator: u8,
    /// Whether values are written with their names.
    pub(super) is_named: bool,
    /// Whether an empty value is written with an equals sign.
    pub(super) writes_empty_equals: bool,
    /// Whether reserved characters are written without encoding.
    pub(super) allows_reserved: bool,
    /// Characters that a value may contain in a received URI: a superset of those that expansion writes.
    pub(super) class: u8,
}

const OPERATORS: [Operator; 8] = [
    operator(0, None, b',', uri::SEGMENT),
    Operator { allows_reserved: true, ..operator(b'+', None, b',', uri::ANY) },
    Operator { allows_reserved: true, ..operator(b'#', Some(b'#'), b',', uri::ANY) },
    operator(b'.', Some(b'.'), b'.', uri::SEGMENT),
    operator(b'/', Some(b'/'), b'/', uri::SEGMENT),
    Operator { is_named: true, ..operator(b';', Some(b';'), b';', uri::SEGMENT) },
    Operator { is_named: true, writes_empty_equals: true, ..operator(b'?', Some(b'?'), b'&', uri::QUERY) },
    Operator { is_named: true, writes_empty_equals: true, ..operator(b'&', Some(b'&'), b'&', uri::QUERY) },
];

const fn operator(symbol: u8, first: Option<u8>, separator: u8, class: u8) -> Operator {
    Operator {
        symbol,
        first,
        separator,
        is_named: false,
        writes_empty_equals: false,
        allows_reserved: false,
        class,
    }
}

/// Parses a template from left to right in one pass.
pub(super) fn parse(text: &str) -> Result<Vec<TemplatePart>, TemplateError> {
    if text.len() > MAX_TEMPLATE {
        return Err(TemplateError { at: MAX_TEMPLATE, reason: "the template is too long" });
    }
    let mut parts = Vec::new();
    let mut variables = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(inner) = rest.strip_prefix('{') {
            let end = inner.find('}').ok_or(TemplateError { at, reason: "`{` has no closing `}`" })?;
            let expression = parse_expression(inner.get(..end).unwrap_or_default(), at + 1)?;
            variables += expression.variables.len();
            if variables > MAX_VARIABLES {
                return Err(TemplateError { at, reason: "too many variables" });
            }
            parts.push(TemplatePart::Expression(expression));
            at += end + 2;
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            parts.push(parse_literal(rest.get(..end).unwrap_or_default(), at)?);
            at += end;
        }
    }
    mark_stops(&mut parts);
    Ok(parts)
}

/// Sets `stops` of all expressions: the first character of the expansion that follows, and those of later queries and
/// fragments.
///
/// Without stops, an optional expression would never match: in `{+path}{?page}` the path would include the question
/// mark.
fn mark_stops(parts: &mut [TemplatePart]) {
    let (mut ahead, mut next) = (Vec::new(), None);
    for part in parts.iter_mut().rev() {
        let TemplatePart::Expression(e) = part else {
            next = None;
            continue;
        };
        e.stops = ahead.clone();
        e.stops.extend(next);
        next = e.operator.first;
        if let Some(first @ (b'?' | b'#')) = next {
            ahead.push(first);
        }
    }
}

fn parse_literal(text: &str, at: usize) -> Result<TemplatePart, TemplateError> {
    let key = uri::normalize_part(text, at == 0, at).map_err(|e| match e {
        uri::UriError::Character { at } => {
            TemplateError { at, reason: "this character is not allowed in a URI" }
        }
        _ => TemplateError { at, reason: "not a valid part of a URI" },
    })?;
    let mut written = String::with_capacity(text.len());
    for b in text.bytes() {
        if b < 128 { written.push(char::from(b)) } else { uri::push_encoded(&mut written, b) }
    }
    let key = match key {
        Cow::Owned(key) if key != written => Some(key.into()),
        _ => None,
    };
    Ok(TemplatePart::Literal { text: written.into(), key })
}

fn parse_expression(inner: &str, mut at: usize) -> Result<Expression, TemplateError> {
    let first = inner.bytes().next().ok_or(TemplateError { at, reason: "an expression needs a variable" })?;
    let [simple, others @ ..] = &OPERATORS;
    let operator = others.iter().find(|o| o.symbol == first);
    let names = match operator {
        Some(_) => {
            at += 1;
            inner.get(1..).unwrap_or_default()
        }
        None if matches!(first, b'=' | b',' | b'!' | b'@' | b'|') => {
            return Err(TemplateError { at, reason: "this operator is reserved for extensions" });
        }
        None => inner,
    };
    let mut variables = Vec::new();
    for spec in names.split(',') {
        variables.push(parse_variable(spec, at)?);
        at += spec.len() + 1;
    }
    Ok(Expression { operator: operator.unwrap_or(simple), variables, stops: Vec::new() })
}

fn parse_variable(spec: &str, at: usize) -> Result<Variable, TemplateError> {
    let (name, modifier) = match (spec.strip_suffix('*'), spec.split_once(':')) {
        (Some(name), _) => (name, Modifier::Explode),
        (None, Some((name, digits))) => {
            let at = at + name.len() + 1;
            let first = digits.bytes().next().unwrap_or(b'0');
            let fits = first != b'0' && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit());
            let length = digits.parse().ok().filter(|_| fits);
            let reason = "a prefix length must be a number from 1 to 9999";
            (name, Modifier::Prefix(length.ok_or(TemplateError { at, reason })?))
        }
        (None, None) => (spec, Modifier::None),
    };
    if name.is_empty() {
        return Err(TemplateError { at, reason: "a variable needs a name" });
    }
    let bytes = name.as_bytes();
    let mut i = 0;
    while let Some(byte) = bytes.get(i).copied() {
        let dotted = || i > 0 && i + 1 < bytes.len() && bytes.get(i - 1) != Some(&b'.');
        i += match byte {
            b'_' => 1,
            b if b.is_ascii_alphanumeric() => 1,
            b'.' if dotted() => 1,
            b'%' if uri::decode_triplet(bytes.get(i..).unwrap_or_default()).is_some() => 3,
            _ => {
                let reason = "a name may contain only letters, digits, `_`, percent-encoded bytes, and single dots in between";
                return Err(TemplateError { at: at + i, reason });
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
    fn parse_error_reports_position() {
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
    fn template_beyond_limits_is_refused() {
        assert!(parse(&"a".repeat(MAX_TEMPLATE)).is_ok());
        assert_eq!(fault(&"a".repeat(MAX_TEMPLATE + 1)), MAX_TEMPLATE);
        let many = |n| (0..n).map(|i| format!("{{v{i}}}")).collect::<String>();
        assert!(parse(&many(MAX_VARIABLES)).is_ok());
        assert!(parse(&many(MAX_VARIABLES + 1)).is_err());
    }
}
