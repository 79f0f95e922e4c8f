//! Skills: one with files in folders, one within another, and one whose content is made when it is read.

use core::sync::atomic::{AtomicU64, Ordering};

use mcp_extensions::skills::{Skill, SkillFolder, SkillResources};
use mcp_proto::RawJson;
use mcp_proto::model::Resource;
use mcp_runtime::server::router::RegisterFunctions;

const PLANNING: &str = "\
---
name: berth-planning
description: Plans berths for arriving ships. Use it when a ship asks for a place in the harbour.
license: MIT
metadata:
  version: \"1.0\"
  languages: [en, no]
---
# Berth planning

1. Look up the harbour in [references/HARBOURS.md](references/HARBOURS.md).
2. Choose the matching template from `templates/` and fill it in.
";

const HARBOURS: &str = "# Harbours\n\n- Brest: 12 berths\n- Bergen: 30 berths\n";
const ARRIVAL: &str = "Berth {berth} is reserved for {ship} from {time}.\n";
const NIGHT: &str = "Berth {berth} is reserved for {ship}. The harbour master is on channel 12.\n";
const MOORING: &str = "---\nname: mooring\ndescription: Explains how to moor.\n---\nBow line first.\n";
const REPORT_URI: &str = "skill://reports/daily/SKILL.md";
const REPORT: &str = "---\nname: daily\ndescription: Reports how often it was read.\n---\n";

pub(super) fn register(router: &mut impl RegisterFunctions) {
    let planning = SkillFolder::new("skill://harbour/berth-planning")
        .file("SKILL.md", PLANNING)
        .file("references/HARBOURS.md", HARBOURS)
        .file("templates/arrival.md", ARRIVAL)
        .file("templates/special/night.md", NIGHT)
        .file("assets/dot.png", *include_bytes!("dot.png"));
    let mooring = SkillFolder::new("skill://mooring").file("SKILL.md", MOORING);
    router.as_router().skill(planning).skill(mooring);

    let report = Resource::new(REPORT_URI, "daily")
        .mime_type("text/markdown")
        .description("Reports how often it was read.");
    let reads = AtomicU64::new(0);
    router.resource(report, move |_, _| {
        format!("{REPORT}Read {} times before.\n", reads.fetch_add(1, Ordering::Relaxed))
    });
    let front_matter = r#"{"name":"daily","description":"Reports how often it was read."}"#;
    if let Ok(front_matter) = RawJson::new(front_matter) {
        let entry = Skill::new(REPORT_URI, front_matter, SkillResources::Dynamic);
        // Its resource was registered just now.
        let _ = router.as_router().core().skill(&entry);
    }
}
