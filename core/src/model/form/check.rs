//! Forms that are right in themselves, and answers that fit a form (ELIC-017, ELIC-020).

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{NumberKind, NumberSchema, PrimitiveSchemaDefinition, StringFormat, StringSchema};
use crate::json::twice;
use crate::model::Misfit;
use crate::model::codec::whole;
use crate::model::elicitation::{ElicitSchema, ElicitValue};
use crate::model::map::Map;

impl ElicitSchema {
    /// Whether the form is right in itself
    ///
    /// Every field is of a kind that the protocol has, its bounds leave something between them, its choices differ, its
    /// default fits, and what is required exists. Whoever asks calls this; whoever is asked need not be that strict.
    pub fn validate(&self) -> Result<(), Misfit> {
        for (name, field) in self.properties.iter() {
            field.validate().map_err(|m| m.within(name).within("properties"))?;
        }
        let fields = self.properties.index();
        let required = || self.required.iter().flatten().map(|name| &**name);
        if required().any(|name| fields.get(name).is_none()) {
            return Err(Misfit::at("required", "names a field that does not exist"));
        }
        if twice(required().map(str::as_bytes)).is_some() {
            return Err(Misfit::at("required", "names a field twice"));
        }
        Ok(())
    }

    /// Whether somebody can be shown the form: every field is of a kind that the protocol has (ELIC-012)
    pub(crate) fn readable(&self) -> Result<(), Misfit> {
        let odd = |field: &PrimitiveSchemaDefinition| matches!(field, PrimitiveSchemaDefinition::Other(_));
        match self.properties.iter().find(|(_, field)| odd(field)) {
            Some((name, _)) => {
                Err(no_such_kind().within(name).within("properties").within("requestedSchema"))
            }
            None => Ok(()),
        }
    }

    /// Whether what was filled in fits the form (ELIC-020)
    ///
    /// The error names the first field that does not. What the form does not ask for is let through, as JSON Schema has
    /// it, and so is any value of a field of a kind that this version does not know.
    pub fn check(&self, content: &Map<ElicitValue>) -> Result<(), Misfit> {
        let given = content.index();
        for name in self.required.iter().flatten() {
            if given.get(name).is_none() {
                return Err(Misfit::at(name, "must be filled in"));
            }
        }
        for (name, field) in self.properties.iter() {
            if let Some(value) = given.get(name) {
                field.check(value).map_err(|m| m.within(name))?;
            }
        }
        Ok(())
    }

    /// What was filled in, with the defaults of the form for what was not (ELIC-017)
    ///
    /// `fill_defaults(Map::new())` is what a form shows at first. Where a user may empty an optional field, this is not
    /// for afterwards: it would fill the field again.
    #[must_use]
    pub fn fill_defaults(&self, mut content: Map<ElicitValue>) -> Map<ElicitValue> {
        let given = content.index();
        let open = self.properties.iter().filter(|(name, _)| given.get(name).is_none());
        let defaults = open.filter_map(|(name, field)| Some((String::from(name), field.default_value()?)));
        let defaults: Vec<_> = defaults.collect();
        content.append_new(defaults);
        content
    }
}

fn no_such_kind() -> Misfit {
    Misfit::new("is of a kind that no form has")
}

impl PrimitiveSchemaDefinition {
    /// Whether a value fits the field: its type, its bounds, its format, its choices (ELIC-013 to ELIC-016)
    ///
    /// Lengths are counted in Unicode scalar values, as JSON Schema does; `2.0` is a whole number; what is chosen twice
    /// is refused; see [`StringFormat::matches`] for formats. `pattern` is not looked at (DEC-010).
    pub fn check(&self, value: &ElicitValue) -> Result<(), Misfit> {
        match (self, value) {
            (Self::String(field), ElicitValue::Text(text)) => field.check(text),
            (Self::String(_), _) => Err(Misfit::new("must be a string")),
            (Self::Number(field), _) => field.check(value),
            (Self::Boolean(_), ElicitValue::Boolean(_)) | (Self::Other(_), _) => Ok(()),
            (Self::Boolean(_), _) => Err(Misfit::new("must be true or false")),
            (Self::SingleSelect(_) | Self::TitledSingleSelect(_) | Self::LegacyTitledEnum(_), _) => {
                let ElicitValue::Text(text) = value else { return Err(Misfit::new("must be a string")) };
                let known = self.choices().iter().any(|(choice, _)| choice == text);
                if known { Ok(()) } else { Err(Misfit::new("must be one of the choices")) }
            }
            (Self::MultiSelect(field), _) => self.several(value, field.min_items, field.max_items),
            (Self::TitledMultiSelect(field), _) => self.several(value, field.min_items, field.max_items),
        }
    }

    /// Several of the choices
    fn several(&self, value: &ElicitValue, least: Option<u64>, most: Option<u64>) -> Result<(), Misfit> {
        let ElicitValue::Choices(chosen) = value else {
            return Err(Misfit::new("must be an array of strings"));
        };
        let choices = self.choices();
        let mut choices: Vec<&str> = choices.iter().map(|(choice, _)| *choice).collect();
        choices.sort_unstable();
        if let Some(at) = chosen.iter().position(|one| choices.binary_search(&&**one).is_err()) {
            return Err(Misfit::new("must be one of the choices").element(at));
        }
        if twice(chosen.iter().map(|one| one.as_bytes())).is_some() {
            return Err(Misfit::new("must not hold a choice twice"));
        }
        within(chosen.len(), least, most, "choices")
    }

    /// Whether the field is right in itself
    fn validate(&self) -> Result<(), Misfit> {
        match self {
            Self::String(field) => field.validate(),
            Self::Number(field) => field.validate(),
            Self::MultiSelect(field) => self.offers(field.min_items, field.max_items),
            Self::TitledMultiSelect(field) => self.offers(field.min_items, field.max_items),
            Self::SingleSelect(_) | Self::TitledSingleSelect(_) => self.offers(None, None),
            Self::LegacyTitledEnum(field) if field.enum_names.len() != field.values.len() => {
                Err(Misfit::at("enumNames", "must be as many as the choices"))
            }
            Self::LegacyTitledEnum(_) => self.offers(None, None),
            Self::Boolean(_) => Ok(()),
            Self::Other(_) => Err(no_such_kind()),
        }?;
        let default = self.default_value();
        default.map_or(Ok(()), |value| self.check(&value).map_err(|m| m.within("default")))
    }

    /// Whether something can be chosen
    fn offers(&self, least: Option<u64>, most: Option<u64>) -> Result<(), Misfit> {
        let choices = self.choices();
        if choices.is_empty() {
            return Err(Misfit::new("must have choices"));
        }
        if twice(choices.iter().map(|(choice, _)| choice.as_bytes())).is_some() {
            return Err(Misfit::new("must not have a choice twice"));
        }
        let all = choices.len() as u64;
        match least {
            Some(least) if least > most.unwrap_or(all).min(all) => {
                Err(Misfit::at("minItems", "must not be more than can be chosen"))
            }
            _ => Ok(()),
        }
    }
}

impl StringSchema {
    fn check(&self, text: &str) -> Result<(), Misfit> {
        within(text.chars().count(), self.min_length, self.max_length, "characters")?;
        match &self.format {
            Some(format) if !format.matches(text) => Err(Misfit::new(match format {
                StringFormat::Email => "must be an e-mail address",
                StringFormat::Uri => "must be a URI",
                StringFormat::Date => "must be a date, such as 2026-07-28",
                StringFormat::DateTime => "must be a date and time, such as 2026-07-28T12:00:00Z",
                StringFormat::Other(_) => "must have the right format",
            })),
            _ => Ok(()),
        }
    }

    fn validate(&self) -> Result<(), Misfit> {
        match (self.min_length, self.max_length) {
            (Some(least), Some(most)) if least > most => {
                Err(Misfit::at("minLength", "must not be more than `maxLength`"))
            }
            _ => Ok(()),
        }
    }
}

impl NumberSchema {
    fn check(&self, value: &ElicitValue) -> Result<(), Misfit> {
        let integer = self.kind == NumberKind::Integer;
        let fits = match value {
            ElicitValue::Integer(_) => true,
            ElicitValue::Number(n) if integer => n.is_finite() && (whole(*n).is_some() || n.abs() >= EXACT),
            ElicitValue::Number(n) => n.is_finite(),
            _ => false,
        };
        if !fits {
            return Err(Misfit::new(if integer { "must be a whole number" } else { "must be a number" }));
        }
        let is = |bound: f64, wrong: Ordering| compare(value, bound) == Some(wrong);
        if let Some(least) = self.minimum.filter(|bound| is(*bound, Ordering::Less)) {
            return Err(Misfit::new(format_args!("must be {least} or more")));
        }
        if let Some(most) = self.maximum.filter(|bound| is(*bound, Ordering::Greater)) {
            return Err(Misfit::new(format_args!("must be {most} or less")));
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), Misfit> {
        for (name, bound) in [("minimum", self.minimum), ("maximum", self.maximum), ("default", self.default)]
        {
            if bound.is_some_and(|n| !n.is_finite()) {
                return Err(Misfit::at(name, "must be a number"));
            }
        }
        match (self.minimum, self.maximum) {
            (Some(least), Some(most)) if least > most => {
                Err(Misfit::at("minimum", "must not be more than `maximum`"))
            }
            _ => Ok(()),
        }
    }
}

/// From here on every float is whole, and not every whole number is one
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number against a bound, without a loss on the way
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "only where both are exact")]
fn compare(value: &ElicitValue, bound: f64) -> Option<Ordering> {
    match value {
        // Where the bound is small, rounding cannot carry a number across it.
        ElicitValue::Integer(int) if bound.abs() < EXACT => (*int as f64).partial_cmp(&bound),
        ElicitValue::Integer(int) => Some(i128::from(*int).cmp(&(bound as i128))),
        ElicitValue::Number(number) => number.partial_cmp(&bound),
        _ => None,
    }
}

/// Whether a length is one of those allowed
fn within(length: usize, least: Option<u64>, most: Option<u64>, what: &str) -> Result<(), Misfit> {
    let length = length as u64;
    match (least, most) {
        (Some(least), _) if length < least => {
            Err(Misfit::new(format_args!("must have {least} {what} or more")))
        }
        (_, Some(most)) if length > most => {
            Err(Misfit::new(format_args!("must have {most} {what} or fewer")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
