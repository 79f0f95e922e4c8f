//! Settings of a world, read from the fragment of an address and clamped to their bounds.

use mcp_proto::VersionSet;
use mcp_sim::{Binding, Marks, Plan};
use serde_json::{Value, json};

/// A name in a fragment, and what it does to a plan.
type Fault = (&'static str, fn(&mut Plan));

/// The faults, by their names in a fragment.
pub(crate) const FAULTS: [Fault; 14] = [
    ("delay", |plan| plan.delay = Plan::STORM.delay),
    ("cuts", |plan| plan.cuts = true),
    ("reset", |plan| plan.reset = storm(plan).reset),
    ("death", |plan| plan.death = storm(plan).death),
    ("stall", |plan| plan.stall = Plan::STORM.stall),
    ("foreign", |plan| plan.hostile = Plan::STORM.hostile),
    ("clock", |plan| plan.clock_jump = Plan::STORM.clock_jump),
    ("silence", |plan| plan.silence = storm(plan).silence),
    ("changes", |plan| plan.changes = Plan::STORM.changes),
    ("questions", |plan| plan.questions = Plan::STORM.questions),
    ("tasks", |plan| plan.tasks = Plan::STORM.tasks),
    ("tight", |plan| plan.tight = true),
    ("http1", |plan| plan.http1 = true),
    ("events", |plan| plan.events = Plan::EVENTS.events),
];

/// Those that `all` leaves out, because they change the kind of the world.
pub(crate) const VARIANTS: [&str; 3] = ["tight", "http1", "events"];

/// Returns the plan with every fault of a binding.
fn storm(plan: &Plan) -> Plan {
    match plan.binding {
        Binding::Http => Plan::HTTP_STORM,
        Binding::HttpSse => Plan::HTTP_SSE_STORM,
        _ => Plan::STORM,
    }
}

/// A world, after clamping.
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    pub(crate) marks: Marks,
    /// Names of the revisions of clients and servers.
    revisions: [String; 2],
    /// Names of the chosen faults.
    faults: Vec<&'static str>,
    /// Whether the application has the planted mistake.
    pub(crate) is_planted: bool,
    /// Whether the run is reduced to what violates the invariant.
    pub(crate) is_reduced: bool,
    /// Messages about values that were out of bounds.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Reads pairs `name=value` that are separated by `&`.
    pub(crate) fn parse(fragment: &str) -> Self {
        let mut settings = Self {
            seed: 1,
            plan: Plan::new().steps(60),
            marks: Marks::ALL,
            revisions: ["all".to_owned(), "all".to_owned()],
            faults: Vec::new(),
            is_planted: false,
            is_reduced: false,
            warnings: Vec::new(),
        };
        for pair in fragment.split('&').filter(|pair| !pair.is_empty()).take(32) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            settings.set(name, value);
        }
        for (name, apply) in FAULTS {
            // How often a fault comes depends on the binding, which may stand after it.
            if settings.faults.contains(&name) {
                apply(&mut settings.plan);
            }
        }
        settings
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "seed" => self.seed = self.number(name, value, 0, u64::MAX, self.seed),
            "clients" => {
                let clients = self.number(name, value, 1, 4, 1);
                self.plan.clients = u32::try_from(clients).unwrap_or(1);
            }
            "steps" => {
                let steps = self.number(name, value, 1, 400, 60);
                self.plan.steps = usize::try_from(steps).unwrap_or(60);
            }
            "binding" => self.plan.binding = self.binding(value),
            "client" => (self.marks.client_versions, self.revisions[0]) = self.versions(name, value),
            "server" => (self.marks.server_versions, self.revisions[1]) = self.versions(name, value),
            "faults" => self.faults(value),
            "planted" => self.is_planted = self.number(name, value, 0, 1, 0) == 1,
            "reduced" => self.is_reduced = self.number(name, value, 0, 1, 0) == 1,
            // They belong to the page.
            "speed" | "at" | "show" => {}
            _ => self.warnings.push(format!("{}: unknown, ignored", short(name))),
        }
    }

    /// Returns what was selected, as a page shows it.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            // Numbers of JavaScript are shorter.
            "seed": self.seed.to_string(),
            "binding": match self.plan.binding {
                Binding::Http => "http",
                Binding::HttpSse => "http-sse",
                _ => "stdio",
            },
            "clients": self.plan.clients,
            "steps": self.plan.steps,
            "client": self.revisions[0],
            "server": self.revisions[1],
            "faults": self.faults,
            "planted": self.is_planted,
            "reduced": self.is_reduced,
        })
    }

    fn number(&mut self, name: &str, value: &str, least: u64, most: u64, usual: u64) -> u64 {
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        // A number that does not fit is a great one.
        let read = if is_number { value.parse().ok() } else { Some(usual) };
        let clamped = read.unwrap_or(u64::MAX).clamp(least, most);
        if !is_number || read != Some(clamped) {
            let value = short(value);
            self.warnings.push(format!(
                "{name}: expected a number from {least} to {most}, not {value}; {clamped} is used"
            ));
        }
        clamped
    }

    fn binding(&mut self, value: &str) -> Binding {
        match value {
            "stdio" => Binding::Pipe,
            "http" => Binding::Http,
            "http-sse" => Binding::HttpSse,
            _ => {
                let value = short(value);
                self.warnings
                    .push(format!("binding: expected stdio, http or http-sse, not {value}; stdio is used"));
                Binding::Pipe
            }
        }
    }

    fn versions(&mut self, name: &str, value: &str) -> (VersionSet, String) {
        let set = match value {
            "all" => VersionSet::ALL,
            "legacy" => VersionSet::LEGACY,
            "modern" => VersionSet::MODERN,
            _ => match VersionSet::ALL.iter().find(|version| version.as_str() == value) {
                Some(version) => VersionSet::only(version),
                None => {
                    let value = short(value);
                    self.warnings.push(format!(
                        "{name}: expected all, legacy, modern or a revision, not {value}; all is used"
                    ));
                    return (VersionSet::ALL, "all".to_owned());
                }
            },
        };
        (set, value.to_owned())
    }

    fn faults(&mut self, value: &str) {
        for name in value.split([',', '+']).filter(|name| !name.is_empty() && *name != "none").take(32) {
            let mut is_known = name == "all";
            for (fault, _) in FAULTS {
                if fault == name || (name == "all" && !VARIANTS.contains(&fault)) {
                    if !self.faults.contains(&fault) {
                        self.faults.push(fault);
                    }
                    is_known = true;
                }
            }
            if !is_known {
                self.warnings.push(format!("faults: {} is unknown, ignored", short(name)));
            }
        }
    }
}

/// Returns the beginning of a text of a stranger, for a message.
fn short(text: &str) -> String {
    format!("{:?}", text.chars().take(20).collect::<String>())
}
