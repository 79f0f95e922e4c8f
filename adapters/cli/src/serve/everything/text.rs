//! A separate router, independent of the one that it is mounted in.

use mcp_proto::router::schema::{Typed, schemars};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Router;

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

pub(super) fn router() -> Router {
    let mut router = Router::new("text", "1.0");
    router.tool(
        "reverse",
        "Turns a text around, character by character",
        handler!(|_, TextToMeasure { text }: TextToMeasure| { text.chars().rev().collect::<String>() }),
    );
    router.tool(
        "measure",
        "Counts characters, words and lines of a text",
        handler!(|_, TextToMeasure { text }: TextToMeasure| {
            let (characters, words) = (text.chars().count(), text.split_whitespace().count());
            Typed(TextSize { characters, words, lines: text.lines().count() })
        }),
    );
    router
}
