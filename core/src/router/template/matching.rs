//! Matching: from a template and a URI to values.
//!
//! Each part of a template (a literal, an expression) matches a piece of the URI. From the last part to the first, a
//! set notes from which places the rest of the URI can be matched by the rest of the parts; from the first to the last,
//! each part then takes the longest piece that leaves the rest matchable. Each step looks at each place a bounded
//! number of times, so the work is at most the length of the URI times that of the template, whatever both hold.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::parse::{Expression, Modifier, Part, Variable};
use super::rows::Places;
use super::uri::{self, class};
use super::values::{Value, Values};

/// Counts what matching does, in tests
pub(super) trait Count {
    fn add(&mut self, steps: usize);
}

impl Count for () {
    #[inline]
    fn add(&mut self, _: usize) {}
}

/// What the variables of `parts` are in a normalised URI
pub(super) fn matches<'t>(parts: &'t [Part], uri: &str, count: &mut impl Count) -> Option<Match<'t>> {
    let (host, uri) = (uri::host(uri), uri.as_bytes());
    let mut end = Places::new(uri.len() + 1);
    end.insert(uri.len());
    // From where each part can begin, the last part first.
    let mut rows = vec![end];
    for part in parts.iter().rev() {
        let after = rows.last()?;
        let row = match part {
            Part::Literal { text, key } => {
                before_literal(key.as_ref().unwrap_or(text), uri, &host, after, count)
            }
            Part::Expression(e) if e.operator.named => Pairs::new(e, uri, after, count).row(after),
            Part::Expression(e) => before_list(e, uri, after, count),
        };
        if row.is_empty() {
            return None;
        }
        rows.push(row);
    }
    if !rows.pop()?.has(0) {
        return None;
    }
    let mut captures = Captures::default();
    let mut at = 0;
    for part in parts {
        let after = rows.pop()?;
        at = match part {
            Part::Literal { text, key } => at + key.as_ref().unwrap_or(text).len(),
            Part::Expression(e) if e.operator.named => {
                Pairs::new(e, uri, &after, count).take(at, &after, &mut captures)?
            }
            Part::Expression(e) => {
                let end = list_end(e, uri, at, &after, count)?;
                captures.list(e, uri.get(at..end)?)?;
                end
            }
        };
    }
    Some(captures.into_match())
}

/// What a URI means to a template
#[derive(Debug)]
pub(super) struct Match<'t> {
    pub(super) values: Values<'t>,
    /// A variable that stands for a part of the path, with an encoded slash in its value
    pub(super) slashed: Option<&'t str>,
}

fn before_literal(
    text: &str,
    uri: &[u8],
    host: &Range<usize>,
    after: &Places,
    count: &mut impl Count,
) -> Places {
    let mut row = Places::new(after.len());
    for end in after.iter() {
        count.add(1);
        let Some(start) = end.checked_sub(text.len()) else { continue };
        // The digits of a triplet are no piece of their own.
        let (before, piece) = (uri.get(start.saturating_sub(2)..start), uri.get(start..end));
        if before.is_some_and(|b| !b.contains(&b'%'))
            && piece.is_some_and(|p| same(p, text.as_bytes(), end, host, count))
        {
            row.insert(start);
        }
    }
    row
}

/// Compares from the back, since neighbours of a piece differ there first more often than not; `a` ends at a place
fn same(a: &[u8], b: &[u8], end: usize, host: &Range<usize>, count: &mut impl Count) -> bool {
    let mut pairs = (0..end).rev().zip(a.iter().rev().zip(b.iter().rev()));
    let differ = pairs.position(|(at, (a, b))| !uri::same_at(host, at, *a, *b));
    count.add(differ.unwrap_or(a.len()));
    differ.is_none()
}

/// How much a place holds: a byte, or three that stand for one
fn unit(uri: &[u8], at: usize) -> usize {
    if uri.get(at) == Some(&b'%') { 3 } else { 1 }
}

/// Whether a triplet at a place stands for a byte that is not the first of its character
fn continues(uri: &[u8], at: usize) -> bool {
    uri::triplet(uri.get(at..).unwrap_or_default()).is_some_and(|b| b & 0xc0 == 0x80)
}

/// How many values an expression without names may have, and how long one may be
struct Bounds {
    separators: usize,
    characters: usize,
}

impl Bounds {
    fn of(e: &Expression) -> Self {
        let unbounded = Self { separators: usize::MAX, characters: usize::MAX };
        match &*e.variables {
            _ if e.variables.iter().any(|v| v.modifier == Modifier::Explode) => unbounded,
            // A lone text may hold what separates values elsewhere, unless expansion never leaves it standing.
            [one] => Self {
                separators: if e.operator.separator == b'/' { 0 } else { usize::MAX },
                characters: match one.modifier {
                    Modifier::Prefix(length) => usize::from(length),
                    _ => usize::MAX,
                },
            },
            // Expansion leaves dots in values.
            _ if e.operator.separator == b'.' => unbounded,
            many => Self { separators: many.len() - 1, ..unbounded },
        }
    }
}

/// A window over the URI that holds what one expression may match from its start
struct Window<'a> {
    expression: &'a Expression,
    uri: &'a [u8],
    bounds: Bounds,
    start: usize,
    end: usize,
    separators: usize,
    characters: usize,
}

impl<'a> Window<'a> {
    fn new(expression: &'a Expression, uri: &'a [u8], start: usize) -> Self {
        let bounds = Bounds::of(expression);
        Self { expression, uri, bounds, start, end: start, separators: 0, characters: 0 }
    }

    fn holds(&self, byte: u8) -> bool {
        let e = self.expression;
        (class(byte) & e.operator.class != 0 || byte == e.operator.separator) && !e.stops.contains(&byte)
    }

    /// What the unit at a place adds: a separator, a character
    fn weight(&self, at: usize) -> (usize, usize) {
        let rest = self.uri.get(at..).unwrap_or_default();
        let separator = rest.first() == Some(&self.expression.operator.separator);
        // Only the first byte of a character counts.
        (usize::from(separator), usize::from(!continues(self.uri, at)))
    }

    /// As far as the window can reach
    fn widen(&mut self, count: &mut impl Count) -> usize {
        while let Some(byte) = self.uri.get(self.end) {
            count.add(1);
            let (separator, character) = self.weight(self.end);
            if !self.holds(*byte)
                || separator > self.bounds.separators - self.separators
                || character > self.bounds.characters - self.characters
            {
                break;
            }
            self.separators += separator;
            self.characters += character;
            self.end += unit(self.uri, self.end);
        }
        self.end
    }

    /// Moves the start behind the unit that it stands at
    fn advance(&mut self) {
        if self.start < self.end {
            let (separator, character) = self.weight(self.start);
            self.separators -= separator;
            self.characters -= character;
        }
        self.start += unit(self.uri, self.start);
        self.end = self.end.max(self.start);
    }
}

fn before_list(e: &Expression, uri: &[u8], after: &Places, count: &mut impl Count) -> Places {
    let latest = after.latest();
    let mut row = Places::new(after.len());
    let mut window = Window::new(e, uri, 0);
    let mut begins = 0;
    while begins <= uri.len() {
        count.add(1);
        // An operator with a sign of its own may be absent, or be followed by nothing; others match something.
        let (values, least) = match e.operator.first {
            Some(sign) if uri.get(begins) == Some(&sign) => (begins + 1, begins + 1),
            Some(_) => (usize::MAX, 0),
            // What begins inside of a character is no text.
            None if continues(uri, begins) => (usize::MAX, 0),
            None => (begins, begins + 1),
        };
        if values != usize::MAX {
            while window.start < values && window.start < uri.len() {
                window.advance();
            }
            let reach = window.widen(count);
            if latest.get(reach).is_some_and(|last| *last as usize > least) {
                row.insert(begins);
            }
        }
        if e.operator.first.is_some() && after.has(begins) {
            row.insert(begins);
        }
        begins += unit(uri, begins);
    }
    row
}

/// Where the longest piece ends that leaves the rest matchable
fn list_end(e: &Expression, uri: &[u8], at: usize, after: &Places, count: &mut impl Count) -> Option<usize> {
    let (values, least) = match e.operator.first {
        Some(sign) if uri.get(at) == Some(&sign) => (at + 1, at + 1),
        Some(_) => return after.has(at).then_some(at),
        None => (at, at + 1),
    };
    let reach = Window::new(e, uri, values).widen(count);
    let end = (least..=reach).rev().find(|end| {
        count.add(1);
        after.has(*end)
    });
    end.or_else(|| (e.operator.first.is_some() && after.has(at)).then_some(at))
}

/// What an expression with names can match: from each separator on, a name and where its value ends
struct Pairs<'t, 'u> {
    expression: &'t Expression,
    uri: &'u [u8],
    /// Where the last character of a value that begins at a place ends
    runs: Vec<u32>,
    latest: Vec<u32>,
    /// The separators from which the rest can be matched
    chain: Places,
}

impl<'t, 'u> Pairs<'t, 'u> {
    fn new(e: &'t Expression, uri: &'u [u8], after: &Places, count: &mut impl Count) -> Self {
        let mut pairs = Self {
            expression: e,
            uri,
            runs: vec![0; uri.len() + 1],
            latest: after.latest(),
            chain: Places::new(uri.len() + 1),
        };
        let mut run = uri.len();
        for at in (0..=uri.len()).rev() {
            count.add(1);
            let fits =
                uri.get(at).is_some_and(|b| class(*b) & e.operator.class != 0 && *b != e.operator.separator);
            if !fits {
                run = at;
            }
            if let Some(place) = pairs.runs.get_mut(at) {
                *place = run as u32;
            }
        }
        for at in (0..uri.len()).rev() {
            let sign = uri.get(at).copied();
            if (sign == Some(e.operator.separator) || sign == e.operator.first) && pairs.reaches(at, count) {
                pairs.chain.insert(at);
            }
        }
        pairs
    }

    /// The variable whose name follows a sign, where its value begins and where that ends at the latest
    fn pair(&self, sign: usize, count: &mut impl Count) -> Option<(&'t Variable, usize, usize)> {
        let rest = self.uri.get(sign + 1..)?;
        let mut best: Option<&'t Variable> = None;
        for variable in &self.expression.variables {
            count.add(variable.name.len());
            let longer = best.is_none_or(|b| b.name.len() < variable.name.len());
            if longer && rest.starts_with(variable.name.as_bytes()) {
                best = Some(variable);
            }
        }
        let variable = best?;
        let value = sign + 1 + variable.name.len();
        if self.uri.get(value) == Some(&b'=') {
            let end = self.runs.get(value + 1).copied()? as usize;
            return Some((variable, value + 1, end));
        }
        Some((variable, value, value))
    }

    /// Where the value ends: at the separator of the next pair, or at the last place that leaves the rest matchable
    fn next(&self, sign: usize, count: &mut impl Count) -> Option<(&'t Variable, usize, usize, bool)> {
        let (variable, value, end) = self.pair(sign, count)?;
        if self.uri.get(end) == Some(&self.expression.operator.separator) && self.chain.has(end) {
            return Some((variable, value, end, true));
        }
        Some((variable, value, self.last(value, end)?, false))
    }

    /// The last place from `value` to `end` from which the rest can be matched
    fn last(&self, value: usize, end: usize) -> Option<usize> {
        let last = self.latest.get(end).copied()? as usize;
        (last > value).then(|| last - 1)
    }

    fn reaches(&self, sign: usize, count: &mut impl Count) -> bool {
        self.next(sign, count).is_some()
    }

    fn begins(&self, at: usize) -> bool {
        self.uri.get(at).copied() == self.expression.operator.first && self.chain.has(at)
    }

    fn row(&self, after: &Places) -> Places {
        let mut row = after.clone();
        (0..self.uri.len()).filter(|at| self.begins(*at)).for_each(|at| row.insert(at));
        row
    }

    /// Takes the pairs from a place on; the place behind them
    fn take(self, at: usize, after: &Places, captures: &mut Captures<'t>) -> Option<usize> {
        if !self.begins(at) {
            return after.has(at).then_some(at);
        }
        let mut exploded: Vec<(&'t Variable, Vec<String>)> = Vec::new();
        let mut taken: Vec<&'t str> = Vec::new();
        let mut sign = at;
        loop {
            let (variable, start, mut end, mut more) = self.next(sign, &mut ())?;
            if variable.modifier != Modifier::Explode {
                taken.push(&variable.name);
            }
            // A pair is taken once: what looks like another belongs to the parts behind.
            if more && self.pair(end, &mut ()).is_some_and(|(v, ..)| taken.contains(&&*v.name)) {
                end = self.last(start, end)?;
                more = false;
            }
            let text = decode(self.uri.get(start..end)?)?;
            if variable.modifier != Modifier::Explode {
                captures.text(variable, text)?;
            } else if let Some((_, list)) = exploded.iter_mut().find(|(v, _)| v.name == variable.name) {
                list.push(text);
            } else {
                exploded.push((variable, vec![text]));
            }
            sign = end;
            if !more {
                break;
            }
        }
        for (variable, list) in exploded {
            captures.note(variable, Found::List(list))?;
        }
        Some(sign)
    }
}

fn decode(piece: &[u8]) -> Option<String> {
    uri::decode(core::str::from_utf8(piece).ok()?)
}

#[derive(PartialEq, Eq)]
enum Found {
    Text(String),
    List(Vec<String>),
}

/// What the variables matched so far; a name may stand more than once, and means the same then
#[derive(Default)]
pub(super) struct Captures<'t> {
    found: Vec<(&'t Variable, Found)>,
    slashed: Option<&'t str>,
}

impl<'t> Captures<'t> {
    fn text(&mut self, variable: &'t Variable, text: String) -> Option<()> {
        match variable.modifier {
            Modifier::Prefix(length) if text.chars().nth(usize::from(length)).is_some() => None,
            _ => self.note(variable, Found::Text(text)),
        }
    }

    fn note(&mut self, variable: &'t Variable, found: Found) -> Option<()> {
        let Some((old, known)) = self.found.iter_mut().find(|(v, _)| v.name == variable.name) else {
            self.found.push((variable, found));
            return Some(());
        };
        let is_prefix = |v: &Variable| matches!(v.modifier, Modifier::Prefix(_));
        let agree = match (&*known, &found) {
            (Found::Text(a), Found::Text(b)) => match (is_prefix(old), is_prefix(variable)) {
                (false, false) => a == b,
                (true, false) => b.starts_with(&**a),
                (false, true) => a.starts_with(&**b),
                (true, true) => a.starts_with(&**b) || b.starts_with(&**a),
            },
            (a, b) => a == b,
        };
        let longer = matches!((&*known, &found), (Found::Text(a), Found::Text(b)) if b.len() > a.len());
        if longer || !is_prefix(variable) {
            (*old, *known) = (variable, found);
        }
        agree.then_some(())
    }

    /// Splits what an expression without names matched
    pub(super) fn list(&mut self, e: &'t Expression, piece: &[u8]) -> Option<()> {
        let piece = match (e.operator.first, piece.split_first()) {
            (Some(_), Some((_, values))) => values,
            (Some(_), None) => return Some(()),
            (None, _) => piece,
        };
        if piece.contains(&b'%') && piece.windows(3).any(|w| matches!(w, b"%2F" | b"%5C")) {
            self.slashed = self.slashed.or_else(|| e.variables.first().map(|v| &*v.name));
        }
        if let [one @ Variable { modifier: Modifier::None | Modifier::Prefix(_), .. }] = &*e.variables {
            return self.text(one, decode(piece)?);
        }
        let explodes = e.variables.iter().any(|v| v.modifier == Modifier::Explode);
        let most = if explodes { usize::MAX } else { e.variables.len() };
        let mut texts = piece.splitn(most, |b| *b == e.operator.separator);
        let mut left = (piece.iter().filter(|b| **b == e.operator.separator).count() + 1).min(most);
        for (i, variable) in e.variables.iter().enumerate() {
            if left == 0 {
                break;
            }
            // The first list takes all that is not needed behind it.
            let behind = e.variables.len() - 1 - i;
            let explodes = variable.modifier == Modifier::Explode;
            let takes = if explodes { left.saturating_sub(behind).max(1) } else { 1 };
            left -= takes;
            let mut taken = texts.by_ref().take(takes).map(decode).collect::<Option<Vec<_>>>()?;
            if explodes {
                self.note(variable, Found::List(taken))?;
            } else {
                self.text(variable, taken.pop()?)?;
            }
        }
        Some(())
    }

    pub(super) fn into_match(self) -> Match<'t> {
        let values = self.found.into_iter().map(|(variable, found)| {
            let value = match found {
                Found::Text(text) => Value::Text(Cow::Owned(text)),
                Found::List(list) => Value::List(list.into_iter().map(Cow::Owned).collect()),
            };
            (Cow::Borrowed(&*variable.name), value)
        });
        Match { values: values.collect(), slashed: self.slashed }
    }
}
