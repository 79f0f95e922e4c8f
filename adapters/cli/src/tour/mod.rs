//! The steps of the tour of `demo`, which `serve` can perform wrongly.

mod step;

use clap::ValueEnum;
use clap::builder::PossibleValue;

pub(crate) use step::TourStep;

impl ValueEnum for TourStep {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()))
    }
}
