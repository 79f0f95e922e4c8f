//! Skills: the rules for their names, URIs and front matter, and the verification of what a server serves (SEP-2640).
//!
//! The types are in [`model`](crate::model): [`Skill`] is an entry of `skills/list`. An entry is a promise about the
//! files of a skill: [`Skill::check`] says whether it is well-formed, [`Skill::resource`] finds the entry of a file,
//! [`SkillResource::verify`] compares the bytes of a file with it, and [`Skill::verify_front_matter`] the front matter.
//! [`SkillUri`] names a skill and its files, and [`split_front_matter`] finds the YAML text at the beginning of a
//! `SKILL.md`. YAML is parsed elsewhere: `mcp-std` does it with its feature `skills`.
//!
//! A server lists skills with [`Router::skill`](crate::router::Router::skill).
//!
//! ```
//! use mcp_proto::RawJson;
//! use mcp_proto::model::{Skill, SkillResource};
//! use mcp_proto::skills::{SkillUri, split_front_matter};
//!
//! let text = "---\nname: tides\ndescription: Reads tide tables\n---\nLook at `references/ports.md`.\n";
//! let (yaml, body) = split_front_matter(text)?;
//! assert_eq!(yaml, "name: tides\ndescription: Reads tide tables\n");
//!
//! let uri = SkillUri::parse("skill://harbour/tides/SKILL.md")?;
//! assert_eq!((uri.name(), uri.root()), ("tides", "skill://harbour/tides"));
//! let front_matter = RawJson::new(r#"{"name":"tides","description":"Reads tide tables"}"#)?;
//! # #[cfg(feature = "crypto")] {
//! let file = SkillResource::of(uri.as_str(), text.as_bytes());
//! let skill = Skill::new(uri.as_str(), front_matter, vec![file]);
//! skill.check()?;
//! skill.resource(uri.as_str())?.expect("listed").verify(text.as_bytes())?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "crypto")]
mod digest;
mod entry;
mod error;
mod front_matter;
mod uri;

pub use entry::{MAX_DESCRIPTION, MAX_FILES, MAX_TOTAL_SIZE};
pub use error::SkillError;
pub use front_matter::{FrontMatterError, MAX_FRONT_MATTER, split_front_matter};
pub(crate) use uri::file_name;
pub use uri::{MAX_NAME, SKILL_FILE, SkillUri, check_name};

#[cfg(doc)]
use crate::model::{Skill, SkillResource};
