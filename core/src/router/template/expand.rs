//! Expansion of a template to a URI (RFC 6570, section 3).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::parse::{Expression, Modifier, TemplatePart, Variable};
use super::uri::{self, PERCENT, RESERVED, UNRESERVED, byte_class};

/// Reason why a template cannot be expanded with the given values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// A variable with a prefix modifier is a list or pairs (RFC 6570, section 2.4.1).
    #[error("the variable `{0}` has a prefix modifier, but its value is not a text")]
    Prefix(String),
}

/// Appends the expansion of `parts`; undefined variables are left out.
pub(super) fn expand(
    parts: &[TemplatePart],
    values: &Values<'_>,
    out: &mut String,
) -> Result<(), ExpandError> {
    for part in parts {
        match part {
            TemplatePart::Literal { text, .. } => out.push_str(text),
            TemplatePart::Expression(expression) => expand_one(expression, values, out)?,
        }
    }
    Ok(())
}

fn expand_one(e: &Expression, values: &Values<'_>, out: &mut String) -> Result<(), ExpandError> {
    let mut writer = ExpansionWriter { expression: e, out, has_begun: false };
    for variable in &e.variables {
        let Some(value) = values.value(&variable.name) else { continue };
        let explode = variable.modifier == Modifier::Explode;
        match value {
            VariableValue::Text(text) => {
                writer.item(Some(&variable.name), Some(prefix(variable, text, e.operator.allows_reserved)));
            }
            _ if matches!(variable.modifier, Modifier::Prefix(_)) => {
                return Err(ExpandError::Prefix(String::from(&*variable.name)));
            }
            VariableValue::List(list) if explode => {
                list.iter().for_each(|v| writer.item(Some(&variable.name), Some(v)));
            }
            VariableValue::Pairs(pairs) if explode => pairs.iter().for_each(|(k, v)| writer.pair(k, v)),
            VariableValue::List(list) => writer.join(variable, list.iter().map(|v| &**v)),
            VariableValue::Pairs(pairs) => {
                writer.join(variable, pairs.iter().flat_map(|(k, v)| [&**k, &**v]));
            }
        }
    }
    Ok(())
}

/// Returns the first characters of a value; a percent-encoded byte that is kept counts as one character.
fn prefix<'v>(variable: &Variable, value: &'v str, reserved: bool) -> &'v str {
    let Modifier::Prefix(length) = variable.modifier else { return value };
    let mut rest = value;
    for _ in 0..length {
        let Some(c) = rest.chars().next() else { return value };
        let whole = reserved && uri::decode_triplet(rest.as_bytes()).is_some();
        rest = rest.get(if whole { 3 } else { c.len_utf8() }..).unwrap_or_default();
    }
    value.get(..value.len() - rest.len()).unwrap_or(value)
}

struct ExpansionWriter<'a> {
    expression: &'a Expression,
    out: &'a mut String,
    has_begun: bool,
}

impl ExpansionWriter<'_> {
    fn separate(&mut self) {
        let operator = self.expression.operator;
        let sign = if self.has_begun { Some(operator.separator) } else { operator.first };
        self.out.extend(sign.map(char::from));
        self.has_begun = true;
    }

    /// Writes a value, preceded by its name if the operator asks for it.
    fn item(&mut self, name: Option<&str>, value: Option<&str>) {
        let operator = self.expression.operator;
        self.separate();
        if let Some(name) = name.filter(|_| operator.is_named) {
            self.out.push_str(name);
            if operator.writes_empty_equals || value.is_none_or(|v| !v.is_empty()) {
                self.out.push('=');
            }
        }
        self.value(value.unwrap_or_default());
    }

    /// Writes a name and a value of an exploded variable.
    fn pair(&mut self, name: &str, value: &str) {
        let operator = self.expression.operator;
        self.separate();
        self.value(name);
        if !operator.is_named || operator.writes_empty_equals || !value.is_empty() {
            self.out.push('=');
        }
        self.value(value);
    }

    /// Writes several values, separated by commas.
    fn join<'v>(&mut self, variable: &Variable, values: impl Iterator<Item = &'v str>) {
        for (i, value) in values.enumerate() {
            if i == 0 {
                self.item(Some(&variable.name), None);
            } else {
                self.out.push(',');
            }
            self.value(value);
        }
    }

    fn value(&mut self, value: &str) {
        let kept = if self.expression.operator.allows_reserved { UNRESERVED | RESERVED } else { UNRESERVED };
        for (at, byte) in value.bytes().enumerate() {
            let class = byte_class(byte);
            // Reserved expansion keeps a triplet and encodes a single percent sign (RFC 6570, section 3.2.3).
            let rest = || value.as_bytes().get(at..).unwrap_or_default();
            if class & kept != 0
                || (class == PERCENT && kept != UNRESERVED && uri::decode_triplet(rest()).is_some())
            {
                self.out.push(char::from(byte));
            } else {
                uri::push_encoded(self.out, byte);
            }
        }
    }
}

// Values of the variables of a template.

/// Value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariableValue<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A list; an empty list counts as undefined.
    List(Vec<Cow<'a, str>>),
    /// Pairs of names and values, in the order of expansion; no pairs count as undefined.
    Pairs(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}

/// Values by variable name: the input of an expansion and the output of a match.
///
/// ```
/// use mcp_proto::router::template::{Template, Values};
///
/// let template = Template::new("repo://{owner}/{name}{?page}")?;
/// let values = Values::new().text("owner", "ada").text("name", "engine").text("page", "2");
/// assert_eq!(template.expand(&values).unwrap(), "repo://ada/engine?page=2");
/// # Ok::<(), mcp_proto::router::template::TemplateError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values<'a>(Vec<(Cow<'a, str>, VariableValue<'a>)>);

impl<'a> Values<'a> {
    /// Creates an empty set of values.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets a variable to a text.
    #[must_use]
    pub fn text(self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.with(name, VariableValue::Text(value.into()))
    }

    /// Sets a variable to a list.
    #[must_use]
    pub fn list<T: Into<Cow<'a, str>>>(
        self,
        name: impl Into<Cow<'a, str>>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.with(name, VariableValue::List(values.into_iter().map(Into::into).collect()))
    }

    /// Sets a variable to pairs of names and values.
    #[must_use]
    pub fn pairs<K: Into<Cow<'a, str>>, V: Into<Cow<'a, str>>>(
        self,
        name: impl Into<Cow<'a, str>>,
        values: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let pairs = values.into_iter().map(|(k, v)| (k.into(), v.into()));
        self.with(name, VariableValue::Pairs(pairs.collect()))
    }

    /// Sets a variable, and replaces its previous value.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, value: VariableValue<'a>) -> Self {
        let name = name.into();
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
        self
    }

    /// Returns the value of a variable, or `None` if it is undefined.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&VariableValue<'a>> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Returns the text of a variable, or `None` if it is undefined or not a text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(VariableValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the texts of a variable: the elements of a list, or a single text.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let (one, many): (_, &[Cow<'a, str>]) = match self.value(name) {
            Some(VariableValue::Text(text)) => (Some(text), &[]),
            Some(VariableValue::List(list)) => (None, list),
            _ => (None, &[]),
        };
        one.into_iter().chain(many).map(|text| &**text)
    }

    /// Returns all variables in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &VariableValue<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the number of defined variables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no variable is defined.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<(Cow<'a, str>, VariableValue<'a>)> for Values<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, VariableValue<'a>)>>(values: I) -> Self {
        values.into_iter().fold(Self::new(), |all, (name, value)| all.with(name, value))
    }
}
