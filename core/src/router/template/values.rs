//! Variables of a template and their values.

use alloc::borrow::Cow;
use alloc::vec::Vec;

/// The value of a variable
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A text
    Text(Cow<'a, str>),
    /// A list; an empty one counts as undefined
    List(Vec<Cow<'a, str>>),
    /// Names with values, in the order in which they are written; none of them counts as undefined
    Pairs(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}

/// Values by the names of variables: what a template is expanded with, and what matching a URI yields
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
pub struct Values<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Values<'a> {
    /// No variable is defined
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Defines a variable as a text
    #[must_use]
    pub fn text(self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.with(name, Value::Text(value.into()))
    }

    /// Defines a variable as a list
    #[must_use]
    pub fn list<T: Into<Cow<'a, str>>>(
        self,
        name: impl Into<Cow<'a, str>>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.with(name, Value::List(values.into_iter().map(Into::into).collect()))
    }

    /// Defines a variable as names with values
    #[must_use]
    pub fn pairs<K: Into<Cow<'a, str>>, V: Into<Cow<'a, str>>>(
        self,
        name: impl Into<Cow<'a, str>>,
        values: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let pairs = values.into_iter().map(|(k, v)| (k.into(), v.into()));
        self.with(name, Value::Pairs(pairs.collect()))
    }

    /// Defines a variable, in the place of what it was before
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, value: Value<'a>) -> Self {
        let name = name.into();
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
        self
    }

    /// The value of a variable; none when it is undefined
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value<'a>> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// The text of a variable; none when it is undefined or no text
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The texts of a variable: its elements when it is a list, its only one when it is a text
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let (one, many): (_, &[Cow<'a, str>]) = match self.value(name) {
            Some(Value::Text(text)) => (Some(text), &[]),
            Some(Value::List(list)) => (None, list),
            _ => (None, &[]),
        };
        one.into_iter().chain(many).map(|text| &**text)
    }

    /// The variables, in the order in which they came
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// How many variables are defined
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no variable is defined
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<(Cow<'a, str>, Value<'a>)> for Values<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, Value<'a>)>>(values: I) -> Self {
        values.into_iter().fold(Self::new(), |all, (name, value)| all.with(name, value))
    }
}
