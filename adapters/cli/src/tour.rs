//! The steps of the tour of `demo`, which `serve` can perform wrongly.

use clap::builder::{PossibleValuesParser, TypedValueParser};

pub(crate) use mcp_mock::TourStep;

/// Parses the name of a step.
pub(crate) fn parser() -> impl TypedValueParser<Value = TourStep> {
    let names = PossibleValuesParser::new(TourStep::ALL.map(TourStep::as_str));
    names.try_map(|name| TourStep::ALL.into_iter().find(|step| step.as_str() == name).ok_or(name))
}
