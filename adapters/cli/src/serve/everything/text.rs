//! A router of its own, which knows nothing of the one that it is mounted in

use mcp_proto::router::schema::{Typed, schemars};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Router;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    /// The text to look at
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Size {
    characters: usize,
    words: usize,
    lines: usize,
}

pub(super) fn router() -> Router {
    let mut router = Router::new("text", "1.0");
    router.tool(
        "reverse",
        "Turns a text around, character by character",
        handler!(|_, Text { text }: Text| { text.chars().rev().collect::<String>() }),
    );
    router.tool(
        "measure",
        "Counts characters, words and lines of a text",
        handler!(|_, Text { text }: Text| {
            let (characters, words) = (text.chars().count(), text.split_whitespace().count());
            Typed(Size { characters, words, lines: text.lines().count() })
        }),
    );
    router
}
