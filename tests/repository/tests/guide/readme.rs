//! The first page of the repository.

use super::{assert_none, read, root};

/// Most lines of README.md.
const MAX_LINES: usize = 200;
/// Its part that fits on a screen.
const FIRST_SCREEN: usize = 40;

/// Returns the text of the first block with this info string.
fn first_block<'a>(text: &'a str, info: &str) -> Option<&'a str> {
    let (_, block) = text.split_once(&format!("```{info}\n"))?;
    block.split_once("```").map(|(block, _)| block)
}

#[test]
fn readme_is_short_and_shows_the_lines_for_axum_first() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= MAX_LINES, "README.md has more than {MAX_LINES} lines");
    let screen = readme.lines().take(FIRST_SCREEN).collect::<Vec<_>>().join("\n");
    assert!(screen.contains("axum, tokio or plain stdio?"), "{screen}");
    // The page of `mcp-tower` is compiled, where axum is a dependency.
    let program = first_block(&screen, "rs").expect("a program on the first screen");
    let compiled = read("adapters/tower/README.md");
    assert_eq!(Some(program), first_block(&compiled, "rust,no_run"), "README.md, adapters/tower/README.md");
}

#[test]
fn links_of_readme_and_of_the_list_of_features_lead_to_files() {
    let mut broken = Vec::new();
    for (page, folder) in [("README.md", ""), ("core/docs/features.md", "core/docs/")] {
        let text = read(page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let local = targets.filter(|target| !target.is_empty() && !target.contains("://"));
        broken.extend(
            local
                .filter(|target| !root().join(folder).join(target).exists())
                .map(|target| format!("{page}: {target}")),
        );
    }
    assert_none("links to nothing", &broken);
}
