//! The tools and texts of both harbour servers; they are the same, so they are not counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The harbours, with their berths.
pub const HARBOURS: [(&str, u32); 3] = [("Cobh", 40), ("Cork", 12), ("Kinsale", 25)];

/// The state of a tide.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tide {
    /// Height above chart datum, in metres.
    pub height: f64,
    /// Whether it rises.
    pub is_rising: bool,
}

/// Returns the tide of a harbour.
///
/// # Errors
///
/// A text for the model, if there is no such harbour.
pub fn tide(harbour: &str) -> Result<Tide, String> {
    match berths(harbour) {
        Some(berths) => Ok(Tide { height: f64::from(berths) / 10.0, is_rising: berths > 20 }),
        None => Err(format!("no tide table for {harbour}")),
    }
}

/// Returns the number of berths of a harbour.
#[must_use]
pub fn berths(harbour: &str) -> Option<u32> {
    HARBOURS.into_iter().find(|(name, _)| *name == harbour).map(|(_, berths)| berths)
}

/// Arguments of the tool `tide`.
#[derive(Deserialize, JsonSchema)]
pub struct TideArguments {
    /// Name of the harbour.
    pub harbour: String,
}

/// Arguments of the tool `count`.
#[derive(Deserialize, JsonSchema)]
pub struct CountArguments {
    /// Number of ships to wait for.
    pub ships: u32,
}

/// Arguments of the prompt `trip`.
#[derive(Deserialize, JsonSchema)]
pub struct TripArguments {
    /// Name of the harbour.
    pub to: String,
}
