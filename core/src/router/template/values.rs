//! Values of the variables of a template.

use alloc::borrow::Cow;
use alloc::vec::Vec;

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
