//! The forms of an error response, of which memory decides.

/// Message of the error that takes the place of an answer without memory.
pub(super) const NO_MEMORY_FOR_ANSWER: &str = "not enough memory for the answer";

/// The form of an error response for which there is room.
pub(super) enum ErrorForm {
    Whole,
    /// With a short message of the engine, and without data.
    Short,
}
