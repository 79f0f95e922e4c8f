//! Matching templates of the common kind, in which each variable ends where it must: in one pass, without tables.

use super::matching::{Captures, Match};
use super::parse::{Expression, Modifier, Part};
use super::uri::{SEGMENT, class, host, same_at};

/// Whether no variable of a template can end in more than one place
///
/// So it is when `{a}` is followed by the end, or by a literal that begins with what `{a}` cannot hold, and `{+a}` by the
/// end. What [`matching`](super::matching) finds is the same.
pub(super) fn is_direct(parts: &[Part]) -> bool {
    parts.iter().enumerate().all(|(i, part)| match (part, parts.get(i + 1)) {
        (Part::Literal { .. }, _) => true,
        (Part::Expression(e), next) => {
            let lone = matches!(&*e.variables, [v] if v.modifier == Modifier::None) && e.stops.is_empty();
            lone && e.operator.first.is_none()
                && match next {
                    None => true,
                    Some(Part::Literal { text, key }) => {
                        let first = key.as_ref().unwrap_or(text).bytes().next();
                        !e.operator.reserved && first.is_some_and(|b| class(b) & SEGMENT == 0)
                    }
                    Some(Part::Expression(_)) => false,
                }
        }
    })
}

/// What the variables of a direct template are in a normalised URI
pub(super) fn matches<'t>(parts: &'t [Part], uri: &str) -> Option<Match<'t>> {
    let mut captures = Captures::default();
    let host = host(uri);
    let mut rest = uri.as_bytes();
    for part in parts {
        match part {
            Part::Literal { text, key } => {
                let text = key.as_ref().unwrap_or(text).as_bytes();
                let at = uri.len() - rest.len();
                let (piece, behind) = rest.split_at_checked(text.len())?;
                if piece != text
                    && !(at..).zip(piece.iter().zip(text)).all(|(at, (a, b))| same_at(&host, at, *a, *b))
                {
                    return None;
                }
                rest = behind;
            }
            Part::Expression(e) => {
                let (piece, behind) = rest.split_at_checked(length(e, rest))?;
                if piece.is_empty() {
                    return None;
                }
                captures.list(e, piece)?;
                rest = behind;
            }
        }
    }
    rest.is_empty().then(|| captures.into_match())
}

fn length(e: &Expression, rest: &[u8]) -> usize {
    if e.operator.reserved {
        return rest.len();
    }
    rest.iter().position(|b| class(*b) & SEGMENT == 0).unwrap_or(rest.len())
}
