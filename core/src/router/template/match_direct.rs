//! Matching in one pass, for templates in which the end of every variable is determined by the next part.

use super::matching::{Captures, UriMatch};
use super::parse::{Expression, Modifier, TemplatePart};
use super::uri::{SEGMENT, byte_class, bytes_equal_at, host_range};

/// Returns whether every variable of a template can end in one place only.
///
/// This holds if each `{a}` is followed by the end of the template, or by a literal whose first character `{a}` cannot
/// match, and each `{+a}` by the end. The result of a match is the same as that of [`matching`](super::matching).
pub(super) fn is_direct(parts: &[TemplatePart]) -> bool {
    parts.iter().enumerate().all(|(i, part)| match (part, parts.get(i + 1)) {
        (TemplatePart::Literal { .. }, _) => true,
        (TemplatePart::Expression(e), next) => {
            let lone = matches!(&*e.variables, [v] if v.modifier == Modifier::None) && e.stops.is_empty();
            lone && e.operator.first.is_none()
                && match next {
                    None => true,
                    Some(TemplatePart::Literal { text, key }) => {
                        let first = key.as_ref().unwrap_or(text).bytes().next();
                        !e.operator.allows_reserved && first.is_some_and(|b| byte_class(b) & SEGMENT == 0)
                    }
                    Some(TemplatePart::Expression(_)) => false,
                }
        }
    })
}

/// Matches a normalized URI against a direct template.
pub(super) fn match_direct<'t>(parts: &'t [TemplatePart], uri: &str) -> Option<UriMatch<'t>> {
    let mut captures = Captures::default();
    let host = host_range(uri);
    let mut rest = uri.as_bytes();
    for part in parts {
        match part {
            TemplatePart::Literal { text, key } => {
                let text = key.as_ref().unwrap_or(text).as_bytes();
                let at = uri.len() - rest.len();
                let (piece, behind) = rest.split_at_checked(text.len())?;
                if piece != text
                    && !(at..)
                        .zip(piece.iter().zip(text))
                        .all(|(at, (a, b))| bytes_equal_at(&host, at, *a, *b))
                {
                    return None;
                }
                rest = behind;
            }
            TemplatePart::Expression(e) => {
                let (piece, behind) = rest.split_at_checked(value_len(e, rest))?;
                if piece.is_empty() {
                    return None;
                }
                captures.capture_list(e, piece)?;
                rest = behind;
            }
        }
    }
    rest.is_empty().then(|| captures.into_match())
}

fn value_len(e: &Expression, rest: &[u8]) -> usize {
    if e.operator.allows_reserved {
        return rest.len();
    }
    rest.iter().position(|b| byte_class(*b) & SEGMENT == 0).unwrap_or(rest.len())
}
