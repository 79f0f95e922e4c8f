//! A separate router, independent of the one that it is mounted in.

use mcp_proto::router::schema::{Typed, schemars};
use mcp_runtime::server::router::{Flavor, RegisterFunctions, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextToMeasure {
    /// Text to examine.
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct TextSize {
    characters: usize,
    words: usize,
    lines: usize,
}

pub(super) fn router<F: Flavor>() -> Router<F> {
    let mut router = Router::<F>::new("text", "1.0");
    router
        .tool("reverse", move |_, TextToMeasure { text }: TextToMeasure| {
            text.chars().rev().collect::<String>()
        })
        .description("Turns a text around, character by character");
    router
        .tool("measure", move |_, TextToMeasure { text }: TextToMeasure| {
            let (characters, words) = (text.chars().count(), text.split_whitespace().count());
            Typed(TextSize { characters, words, lines: text.lines().count() })
        })
        .description("Counts characters, words and lines of a text");
    router
}
