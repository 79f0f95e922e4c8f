//! A list of resources with several pages.

use mcp_proto::model::Resource;
use mcp_runtime::server::router::RegisterFunctions;

/// The radio spelling alphabet.
const WORDS: [&str; 26] = [
    "Alfa", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot", "Golf", "Hotel", "India", "Juliett", "Kilo",
    "Lima", "Mike", "November", "Oscar", "Papa", "Quebec", "Romeo", "Sierra", "Tango", "Uniform", "Victor",
    "Whiskey", "Xray", "Yankee", "Zulu",
];

pub(super) fn register(router: &mut impl RegisterFunctions) {
    for word in WORDS {
        let letter = &word[..1];
        let resource =
            Resource::new(format!("alphabet://{letter}"), letter).title(word).mime_type("text/plain");
        router.resource(resource, move |_, _| format!("{letter} as in {word}"));
    }
}
