//! Matching of a URI against a template by dynamic programming.
//!
//! Each part of a template (a literal or an expression) matches a piece of the URI. The first pass goes from the last
//! part to the first. For each part it computes the positions from which the rest of the URI matches the rest of the
//! parts. The second pass goes from the first part to the last. Each part takes the longest piece that leaves the rest
//! matchable. Each step visits each position a bounded number of times, so the work is at most the length of the URI
//! times the length of the template, for every content.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::expand::{Values, VariableValue};
use super::parse::{Expression, Modifier, TemplatePart, Variable};
use super::uri::{self, SEGMENT, byte_class, bytes_equal_at, host_range};

/// Matches a normalized URI against `parts` and returns the values of the variables. Adds the steps to `count`.
pub(super) fn match_parts<'t>(
    parts: &'t [TemplatePart],
    uri: &str,
    count: &mut usize,
) -> Option<UriMatch<'t>> {
    let (host, uri) = (host_range(uri), uri.as_bytes());
    let mut end = PositionSet::new(uri.len() + 1);
    end.insert(uri.len());
    // Start positions of each part, the last part first.
    let mut rows = vec![end];
    // From the end: each row tells from where the rest can be matched, so the second pass never goes back.
    for part in parts.iter().rev() {
        let after = rows.last()?;
        let row = match part {
            TemplatePart::Literal { text, key } => {
                before_literal(key.as_ref().unwrap_or(text), uri, &host, after, count)
            }
            TemplatePart::Expression(e) if e.operator.is_named => {
                PairMatcher::new(e, uri, after, count).row(after)
            }
            TemplatePart::Expression(e) => before_list(e, uri, after, count),
        };
        if row.is_empty() {
            return None;
        }
        rows.push(row);
    }
    if !rows.pop()?.contains(0) {
        return None;
    }
    let mut captures = Captures::default();
    let mut at = 0;
    for part in parts {
        let after = rows.pop()?;
        at = match part {
            TemplatePart::Literal { text, key } => at + key.as_ref().unwrap_or(text).len(),
            TemplatePart::Expression(e) if e.operator.is_named => {
                PairMatcher::new(e, uri, &after, count).take(at, &after, &mut captures)?
            }
            TemplatePart::Expression(e) => {
                let end = list_end(e, uri, at, &after, count)?;
                captures.capture_list(e, uri.get(at..end)?)?;
                end
            }
        };
    }
    Some(captures.into_match())
}

/// A successful match.
#[derive(Debug)]
pub(super) struct UriMatch<'t> {
    pub(super) values: Values<'t>,
    /// A path variable whose value contains an encoded slash or backslash.
    pub(super) encoded_slash: Option<&'t str>,
}

fn before_literal(
    text: &str,
    uri: &[u8],
    host: &Range<usize>,
    after: &PositionSet,
    count: &mut usize,
) -> PositionSet {
    let mut row = PositionSet::new(after.len());
    for end in after.iter() {
        *count += 1;
        let Some(start) = end.checked_sub(text.len()) else { continue };
        // A literal must not match the hex digits of a percent-encoded byte.
        let (before, piece) = (uri.get(start.saturating_sub(2)..start), uri.get(start..end));
        if before.is_some_and(|b| !b.contains(&b'%'))
            && piece.is_some_and(|p| literal_matches(p, text.as_bytes(), end, host, count))
        {
            row.insert(start);
        }
    }
    row
}

/// Compares a piece with a literal, from the end, where neighbouring pieces usually differ first; `end` is the position
/// after the piece.
fn literal_matches(a: &[u8], b: &[u8], end: usize, host: &Range<usize>, count: &mut usize) -> bool {
    let mut pairs = (0..end).rev().zip(a.iter().rev().zip(b.iter().rev()));
    let differ = pairs.position(|(at, (a, b))| !bytes_equal_at(host, at, *a, *b));
    *count += differ.unwrap_or(a.len());
    differ.is_none()
}

/// Returns the length of the unit at a position: 1 for a plain byte, 3 for a percent-encoded one.
fn unit_len(uri: &[u8], at: usize) -> usize {
    if uri.get(at) == Some(&b'%') { 3 } else { 1 }
}

/// Returns whether the unit at a position is a percent-encoded UTF-8 continuation byte.
fn is_continuation(uri: &[u8], at: usize) -> bool {
    uri::decode_triplet(uri.get(at..).unwrap_or_default()).is_some_and(|b| b & 0xc0 == 0x80)
}

/// Bounds for the piece that an unnamed expression may match.
struct PieceBounds {
    separators: usize,
    characters: usize,
}

impl PieceBounds {
    fn new(e: &Expression) -> Self {
        let unbounded = Self { separators: usize::MAX, characters: usize::MAX };
        match &*e.variables {
            _ if e.variables.iter().any(|v| v.modifier == Modifier::Explode) => unbounded,
            // A single text may contain the separator, unless expansion always encodes it.
            [one] => Self {
                separators: if e.operator.separator == b'/' { 0 } else { usize::MAX },
                characters: match one.modifier {
                    Modifier::Prefix(length) => usize::from(length),
                    _ => usize::MAX,
                },
            },
            // Expansion does not encode dots in values.
            _ if e.operator.separator == b'.' => unbounded,
            many => Self { separators: many.len() - 1, ..unbounded },
        }
    }
}

/// Sliding window over the URI: the longest piece that one expression may match from `start`.
struct MatchWindow<'a> {
    expression: &'a Expression,
    uri: &'a [u8],
    bounds: PieceBounds,
    start: usize,
    end: usize,
    separators: usize,
    characters: usize,
}

impl<'a> MatchWindow<'a> {
    fn new(expression: &'a Expression, uri: &'a [u8], start: usize) -> Self {
        let bounds = PieceBounds::new(expression);
        Self { expression, uri, bounds, start, end: start, separators: 0, characters: 0 }
    }

    fn allows(&self, byte: u8) -> bool {
        let e = self.expression;
        (byte_class(byte) & e.operator.class != 0 || byte == e.operator.separator) && !e.stops.contains(&byte)
    }

    /// Returns what the unit at a position adds to the counts of separators and characters.
    fn weight(&self, at: usize) -> (usize, usize) {
        let rest = self.uri.get(at..).unwrap_or_default();
        let separator = rest.first() == Some(&self.expression.operator.separator);
        // Only the first byte of a character counts.
        (usize::from(separator), usize::from(!is_continuation(self.uri, at)))
    }

    /// Extends the window as far as the bounds allow and returns its end.
    fn widen(&mut self, count: &mut usize) -> usize {
        while let Some(byte) = self.uri.get(self.end) {
            *count += 1;
            let (separator, character) = self.weight(self.end);
            if !self.allows(*byte)
                || separator > self.bounds.separators - self.separators
                || character > self.bounds.characters - self.characters
            {
                break;
            }
            self.separators += separator;
            self.characters += character;
            self.end += unit_len(self.uri, self.end);
        }
        self.end
    }

    /// Moves the start behind the unit at its position.
    fn advance(&mut self) {
        if self.start < self.end {
            let (separator, character) = self.weight(self.start);
            self.separators -= separator;
            self.characters -= character;
        }
        self.start += unit_len(self.uri, self.start);
        self.end = self.end.max(self.start);
    }
}

fn before_list(e: &Expression, uri: &[u8], after: &PositionSet, count: &mut usize) -> PositionSet {
    let predecessors = after.predecessors();
    let mut row = PositionSet::new(after.len());
    let mut window = MatchWindow::new(e, uri, 0);
    let mut begins = 0;
    while begins <= uri.len() {
        *count += 1;
        if let Some(values) = values_at(e, uri, begins) {
            // The window only moves forward, so all pieces together cost one pass over the URI.
            while window.start < values && window.start < uri.len() {
                window.advance();
            }
            let reach = window.widen(count);
            if predecessors.get(reach).is_some_and(|last| *last as usize > begins + 1) {
                row.insert(begins);
            }
        }
        // An expansion with a first character of its own may be absent; the others match at least one byte.
        if e.operator.first.is_some() && after.contains(begins) {
            row.insert(begins);
        }
        begins += unit_len(uri, begins);
    }
    row
}

/// Returns the end of the longest piece that leaves the rest matchable.
fn list_end(e: &Expression, uri: &[u8], at: usize, after: &PositionSet, count: &mut usize) -> Option<usize> {
    let longest = values_at(e, uri, at).and_then(|values| {
        let reach = MatchWindow::new(e, uri, values).widen(count);
        (at + 1..=reach).rev().find(|end| {
            *count += 1;
            after.contains(*end)
        })
    });
    longest.or_else(|| (e.operator.first.is_some() && after.contains(at)).then_some(at))
}

/// Returns where the values of an unnamed expression begin, if a piece that is not empty can begin at a position.
fn values_at(e: &Expression, uri: &[u8], at: usize) -> Option<usize> {
    match e.operator.first {
        Some(first) => (uri.get(at) == Some(&first)).then_some(at + 1),
        // A value cannot begin inside a character.
        None => (!is_continuation(uri, at)).then_some(at),
    }
}

/// Matcher for an expression with names: finds the name after each separator, and the end of its value.
struct PairMatcher<'t, 'u> {
    expression: &'t Expression,
    uri: &'u [u8],
    /// End of the longest run of value characters, for each start position.
    runs: Vec<u32>,
    predecessors: Vec<u32>,
    /// Separators from which the rest can be matched.
    chain: PositionSet,
}

impl<'t, 'u> PairMatcher<'t, 'u> {
    fn new(e: &'t Expression, uri: &'u [u8], after: &PositionSet, count: &mut usize) -> Self {
        let mut pairs = Self {
            expression: e,
            uri,
            runs: vec![0; uri.len() + 1],
            predecessors: after.predecessors(),
            chain: PositionSet::new(uri.len() + 1),
        };
        let mut run = uri.len();
        for at in (0..=uri.len()).rev() {
            *count += 1;
            let fits = uri.get(at).is_some_and(|b| {
                byte_class(*b) & e.operator.class != 0 && *b != e.operator.separator && !e.stops.contains(b)
            });
            if !fits {
                run = at;
            }
            if let Some(place) = pairs.runs.get_mut(at) {
                *place = run as u32;
            }
        }
        // From the end, because `can_match` looks at the separators behind `at`.
        for at in (0..uri.len()).rev() {
            let byte = uri.get(at).copied();
            if (byte == Some(e.operator.separator) || byte == e.operator.first) && pairs.can_match(at, count)
            {
                pairs.chain.insert(at);
            }
        }
        pairs
    }

    /// Parses the pair at `begin`, the position of the character before its name. Returns its variable, the start of
    /// its value, and the largest end of the value.
    fn pair(&self, begin: usize, count: &mut usize) -> Option<(&'t Variable, usize, usize)> {
        let rest = self.uri.get(begin + 1..)?;
        let mut best: Option<&'t Variable> = None;
        for variable in &self.expression.variables {
            *count += variable.name.len();
            let longer = best.is_none_or(|b| b.name.len() < variable.name.len());
            if longer && rest.starts_with(variable.name.as_bytes()) {
                best = Some(variable);
            }
        }
        let variable = best?;
        let value = begin + 1 + variable.name.len();
        if self.uri.get(value) == Some(&b'=') {
            let end = self.runs.get(value + 1).copied()? as usize;
            return Some((variable, value + 1, end));
        }
        Some((variable, value, value))
    }

    /// Returns the pair at `begin`: its variable, the start and the end of its value, and whether another pair follows.
    ///
    /// The value ends at the separator of the next pair, or at the last position that leaves the rest matchable.
    fn next_pair(&self, begin: usize, count: &mut usize) -> Option<(&'t Variable, usize, usize, bool)> {
        let (variable, value, end) = self.pair(begin, count)?;
        if self.uri.get(end) == Some(&self.expression.operator.separator) && self.chain.contains(end) {
            return Some((variable, value, end, true));
        }
        Some((variable, value, self.last_end(value, end)?, false))
    }

    /// Returns the last position from `value` to `end` from which the rest can be matched.
    fn last_end(&self, value: usize, end: usize) -> Option<usize> {
        let last = self.predecessors.get(end).copied()? as usize;
        (last > value).then(|| last - 1)
    }

    fn can_match(&self, begin: usize, count: &mut usize) -> bool {
        self.next_pair(begin, count).is_some()
    }

    fn starts_at(&self, at: usize) -> bool {
        self.uri.get(at).copied() == self.expression.operator.first && self.chain.contains(at)
    }

    fn row(&self, after: &PositionSet) -> PositionSet {
        let mut row = after.clone();
        (0..self.uri.len()).filter(|at| self.starts_at(*at)).for_each(|at| row.insert(at));
        row
    }

    /// Captures the pairs that begin at a position and returns the position behind them.
    fn take(self, at: usize, after: &PositionSet, captures: &mut Captures<'t>) -> Option<usize> {
        if !self.starts_at(at) {
            return after.contains(at).then_some(at);
        }
        let mut exploded: Vec<(&'t Variable, Vec<String>)> = Vec::new();
        let mut taken: Vec<&'t str> = Vec::new();
        let mut begin = at;
        loop {
            let (variable, start, mut end, mut more) = self.next_pair(begin, &mut 0)?;
            if variable.modifier != Modifier::Explode {
                taken.push(&variable.name);
            }
            // A name occurs once: a second pair with it belongs to the parts behind.
            if more && self.pair(end, &mut 0).is_some_and(|(v, ..)| taken.contains(&&*v.name)) {
                end = self.last_end(start, end)?;
                more = false;
            }
            let text = decode(self.uri.get(start..end)?)?;
            if variable.modifier != Modifier::Explode {
                captures.capture_text(variable, text)?;
            } else if let Some((_, list)) = exploded.iter_mut().find(|(v, _)| v.name == variable.name) {
                list.push(text);
            } else {
                exploded.push((variable, vec![text]));
            }
            begin = end;
            if !more {
                break;
            }
        }
        for (variable, list) in exploded {
            captures.capture(variable, CapturedValue::List(list))?;
        }
        Some(begin)
    }
}

fn decode(piece: &[u8]) -> Option<String> {
    uri::decode(core::str::from_utf8(piece).ok()?)
}

#[derive(PartialEq, Eq)]
enum CapturedValue {
    Text(String),
    List(Vec<String>),
}

/// Values that were captured so far. Invariant: a name that occurs more than once has one value.
#[derive(Default)]
pub(super) struct Captures<'t> {
    values: Vec<(&'t Variable, CapturedValue)>,
    encoded_slash: Option<&'t str>,
}

impl<'t> Captures<'t> {
    fn capture_text(&mut self, variable: &'t Variable, text: String) -> Option<()> {
        match variable.modifier {
            Modifier::Prefix(length) if text.chars().nth(usize::from(length)).is_some() => None,
            _ => self.capture(variable, CapturedValue::Text(text)),
        }
    }

    fn capture(&mut self, variable: &'t Variable, found: CapturedValue) -> Option<()> {
        let Some((old, known)) = self.values.iter_mut().find(|(v, _)| v.name == variable.name) else {
            self.values.push((variable, found));
            return Some(());
        };
        let is_prefix = |v: &Variable| matches!(v.modifier, Modifier::Prefix(_));
        let agree = match (&*known, &found) {
            (CapturedValue::Text(a), CapturedValue::Text(b)) => match (is_prefix(old), is_prefix(variable)) {
                (false, false) => a == b,
                (true, false) => b.starts_with(&**a),
                (false, true) => a.starts_with(&**b),
                (true, true) => a.starts_with(&**b) || b.starts_with(&**a),
            },
            (a, b) => a == b,
        };
        // Of a prefix and the value that it is cut from, the value is kept.
        let longer = matches!((&*known, &found), (CapturedValue::Text(a), CapturedValue::Text(b)) if b.len() > a.len());
        if longer || !is_prefix(variable) {
            (*old, *known) = (variable, found);
        }
        agree.then_some(())
    }

    /// Splits the piece that an unnamed expression matched and captures its values.
    pub(super) fn capture_list(&mut self, e: &'t Expression, piece: &[u8]) -> Option<()> {
        let piece = match (e.operator.first, piece.split_first()) {
            (Some(_), Some((_, values))) => values,
            (Some(_), None) => return Some(()),
            (None, _) => piece,
        };
        if piece.contains(&b'%') && piece.windows(3).any(|w| matches!(w, b"%2F" | b"%5C")) {
            self.encoded_slash = self.encoded_slash.or_else(|| e.variables.first().map(|v| &*v.name));
        }
        if let [one @ Variable { modifier: Modifier::None | Modifier::Prefix(_), .. }] = &*e.variables {
            return self.capture_text(one, decode(piece)?);
        }
        let explodes = e.variables.iter().any(|v| v.modifier == Modifier::Explode);
        let max_pieces = if explodes { usize::MAX } else { e.variables.len() };
        let mut texts = piece.splitn(max_pieces, |b| *b == e.operator.separator);
        let mut left = (piece.iter().filter(|b| **b == e.operator.separator).count() + 1).min(max_pieces);
        for (i, variable) in e.variables.iter().enumerate() {
            if left == 0 {
                break;
            }
            // The first list takes all values that the variables behind it do not need.
            let behind = e.variables.len() - 1 - i;
            let explodes = variable.modifier == Modifier::Explode;
            let takes = if explodes { left.saturating_sub(behind).max(1) } else { 1 };
            left -= takes;
            let mut taken = texts.by_ref().take(takes).map(decode).collect::<Option<Vec<_>>>()?;
            if explodes {
                self.capture(variable, CapturedValue::List(taken))?;
            } else {
                self.capture_text(variable, taken.pop()?)?;
            }
        }
        Some(())
    }

    pub(super) fn into_match(self) -> UriMatch<'t> {
        let values = self.values.into_iter().map(|(variable, found)| {
            let value = match found {
                CapturedValue::Text(text) => VariableValue::Text(Cow::Owned(text)),
                CapturedValue::List(list) => VariableValue::List(list.into_iter().map(Cow::Owned).collect()),
            };
            (Cow::Borrowed(&*variable.name), value)
        });
        UriMatch { values: values.collect(), encoded_slash: self.encoded_slash }
    }
}

// Matching in one pass, for templates in which the end of every variable is determined by the next part.

/// Returns whether every variable of a template can end in one place only.
///
/// This holds if each `{a}` is followed by the end of the template, or by a literal whose first character `{a}` cannot
/// match, and each `{+a}` by the end. The result of a match is the same as that of [`match_parts`].
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

// Bit set of positions in a URI.

#[derive(Clone, Debug)]
pub(super) struct PositionSet {
    words: Vec<u64>,
    len: usize,
}

impl PositionSet {
    /// Creates an empty set for the positions `0..len`.
    pub(super) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    pub(super) fn insert(&mut self, at: usize) {
        if let Some(word) = self.words.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(super) fn contains(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(i, word)| {
            core::iter::successors(Some(*word), |w| Some(w & w.wrapping_sub(1)))
                .take_while(|w| *w != 0)
                .map(move |w| i * 64 + w.trailing_zeros() as usize)
        })
    }

    /// Returns for each position the largest member at or before it, plus one; 0 where there is none.
    pub(super) fn predecessors(&self) -> Vec<u32> {
        let mut last = 0;
        let mut predecessors = Vec::with_capacity(self.len);
        for at in 0..self.len {
            if self.contains(at) {
                last = at as u32 + 1;
            }
            predecessors.push(last);
        }
        predecessors
    }
}

// Index of templates by their literal prefix.

/// Keys by prefix; the candidates for a URI are found in one pass over the URI, regardless of the number of keys.
///
/// A prefix is stored as its length and a hash. The hash ignores case, because hosts do. Two prefixes with the same
/// hash cost one failed match and have no other effect.
#[derive(Clone, Debug, Default)]
pub(in crate::router) struct PrefixIndex(
    /// Sorted entries: length, hash, key.
    Vec<(usize, u64, u64)>,
);

impl PrefixIndex {
    pub(in crate::router) fn insert(&mut self, prefix: &str, key: u64) {
        let entry = (prefix.len(), extend_hash(HASH_SEED, lowercase(prefix.as_bytes())), key);
        if let Err(at) = self.0.binary_search(&entry) {
            self.0.insert(at, entry);
        }
    }

    pub(in crate::router) fn remove(&mut self, prefix: &str, key: u64) {
        let entry = (prefix.len(), extend_hash(HASH_SEED, lowercase(prefix.as_bytes())), key);
        if let Ok(at) = self.0.binary_search(&entry) {
            self.0.remove(at);
        }
    }

    /// Returns the keys whose prefix may match the text, the longest prefix first.
    pub(in crate::router) fn find(&self, text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        let (mut state, mut done) = (HASH_SEED, 0);
        let mut rest = &*self.0;
        while let Some((length, ..)) = rest.first() {
            let Some(more) = text.as_bytes().get(done..*length) else { break };
            state = extend_hash(state, lowercase(more));
            done = *length;
            let (same, longer) = split_where(rest, |(length, ..)| *length <= done);
            let (_, equal) = split_where(same, |(_, hash, _)| *hash < state);
            let (equal, _) = split_where(equal, |(_, hash, _)| *hash <= state);
            found.extend(equal.iter().rev().map(|(.., key)| *key));
            rest = longer;
        }
        // Longest prefix first, and the order of insertion among equals.
        found.reverse();
        found
    }
}

/// Splits a sorted slice into the entries for which the condition holds, and the others.
fn split_where<T>(all: &[T], holds: impl FnMut(&T) -> bool) -> (&[T], &[T]) {
    all.split_at_checked(all.partition_point(holds)).unwrap_or((all, &[]))
}

fn lowercase(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().map(u8::to_ascii_lowercase)
}

/// Initial state of the hash.
pub(in crate::router) const HASH_SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues an FNV-1a hash.
pub(in crate::router) fn extend_hash(start: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(start, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod prefix_index_tests {
    use super::*;

    #[test]
    fn longest_prefix_comes_first() {
        let mut b = PrefixIndex::default();
        for (key, text) in ["a:", "a:b/", "", "a:b/", "x:"].into_iter().enumerate() {
            b.insert(text, key as u64);
        }
        assert_eq!(b.find("a:b/c"), [1, 3, 0, 2]);
        assert_eq!(b.find("a"), [2]);
        b.remove("a:b/", 1);
        b.remove("", 2);
        assert_eq!(b.find("a:b/c"), [3, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_set_returns_inserted_positions() {
        let mut p = PositionSet::new(130);
        assert!(p.is_empty());
        for at in [0, 63, 64, 129] {
            p.insert(at);
        }
        assert_eq!(p.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(p.contains(64) && !p.contains(65) && !p.contains(1_000));
        let predecessors = p.predecessors();
        assert_eq!(
            (predecessors[62], predecessors[63], predecessors[100], predecessors[129]),
            (1, 64, 65, 130)
        );
    }
}
