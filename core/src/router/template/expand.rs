//! Expansion: from a template and values to a URI (RFC 6570, 3).

use alloc::string::String;

use super::parse::{Expression, Modifier, Part, Variable};
use super::uri::{self, PERCENT, RESERVED, UNRESERVED, class};
use super::values::{Value, Values};

/// A template cannot be expanded with these values
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// The prefix of a list was asked for (RFC 6570, 2.4.1)
    #[error("the variable `{0}` has a prefix modifier, and its value is no text")]
    Prefix(String),
}

/// Appends the expansion of `parts`; what is undefined is left out
pub(super) fn expand(parts: &[Part], values: &Values<'_>, out: &mut String) -> Result<(), ExpandError> {
    for part in parts {
        match part {
            Part::Literal { text, .. } => out.push_str(text),
            Part::Expression(expression) => expand_one(expression, values, out)?,
        }
    }
    Ok(())
}

fn expand_one(e: &Expression, values: &Values<'_>, out: &mut String) -> Result<(), ExpandError> {
    let mut writer = Writer { expression: e, out, begun: false };
    for variable in &e.variables {
        let Some(value) = values.value(&variable.name) else { continue };
        let explode = variable.modifier == Modifier::Explode;
        match value {
            Value::Text(text) => {
                writer.item(Some(&variable.name), Some(prefix(variable, text, e.operator.reserved)));
            }
            _ if matches!(variable.modifier, Modifier::Prefix(_)) => {
                return Err(ExpandError::Prefix(String::from(&*variable.name)));
            }
            Value::List(list) if explode => {
                list.iter().for_each(|v| writer.item(Some(&variable.name), Some(v)));
            }
            Value::Pairs(pairs) if explode => pairs.iter().for_each(|(k, v)| writer.pair(k, v)),
            Value::List(list) => writer.joined(variable, list.iter().map(|v| &**v)),
            Value::Pairs(pairs) => {
                writer.joined(variable, pairs.iter().flat_map(|(k, v)| [&**k, &**v]));
            }
        }
    }
    Ok(())
}

/// The first characters of a value, a triplet that stays as it is being one
fn prefix<'v>(variable: &Variable, value: &'v str, reserved: bool) -> &'v str {
    let Modifier::Prefix(length) = variable.modifier else { return value };
    let mut rest = value;
    for _ in 0..length {
        let Some(c) = rest.chars().next() else { return value };
        let whole = reserved && uri::triplet(rest.as_bytes()).is_some();
        rest = rest.get(if whole { 3 } else { c.len_utf8() }..).unwrap_or_default();
    }
    value.get(..value.len() - rest.len()).unwrap_or(value)
}

struct Writer<'a> {
    expression: &'a Expression,
    out: &'a mut String,
    begun: bool,
}

impl Writer<'_> {
    fn separate(&mut self) {
        let operator = self.expression.operator;
        let sign = if self.begun { Some(operator.separator) } else { operator.first };
        self.out.extend(sign.map(char::from));
        self.begun = true;
    }

    /// A value, with its name where the operator wants it
    fn item(&mut self, name: Option<&str>, value: Option<&str>) {
        let operator = self.expression.operator;
        self.separate();
        if let Some(name) = name.filter(|_| operator.named) {
            self.out.push_str(name);
            if operator.equals || value.is_none_or(|v| !v.is_empty()) {
                self.out.push('=');
            }
        }
        self.value(value.unwrap_or_default());
    }

    /// A name and a value of an exploded variable
    fn pair(&mut self, name: &str, value: &str) {
        let operator = self.expression.operator;
        self.separate();
        self.value(name);
        if !operator.named || operator.equals || !value.is_empty() {
            self.out.push('=');
        }
        self.value(value);
    }

    /// Values in a row
    fn joined<'v>(&mut self, variable: &Variable, values: impl Iterator<Item = &'v str>) {
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
        let kept = if self.expression.operator.reserved { UNRESERVED | RESERVED } else { UNRESERVED };
        for (at, byte) in value.bytes().enumerate() {
            let class = class(byte);
            let rest = || value.as_bytes().get(at..).unwrap_or_default();
            if class & kept != 0 || (class == PERCENT && kept != UNRESERVED && uri::triplet(rest()).is_some())
            {
                self.out.push(char::from(byte));
            } else {
                uri::encode(self.out, byte);
            }
        }
    }
}
