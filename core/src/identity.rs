//! Identity and capabilities of a peer.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::meta;
use super::model::{
    ClientCapabilities, CreateMessageParams, ElicitParams, ElicitationCapability, IncludeContext,
    InputRequest, Map, RootsCapability, SamplingCapability,
};
use crate::json::{Serializer, append_one_line, object_members, write_str};
use crate::methods::Capability;
use crate::raw::RawJson;
use crate::shape;
use crate::version::Version;
use extensions::{Declarations, Extensions};

pub use crate::model::Implementation;

mod extensions;

pub use extensions::ExtensionError;
pub(crate) use extensions::declared_extension;

impl Implementation {
    /// Appends the object with the members that `version` has (LIFE-022).
    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        // Cannot fail: the members are strings, lists of strings, and icons that passed the check.
        let _ = Serializer::shaped(out, self, shape::table(version));
    }

    /// Appends the object with name and version alone.
    pub(crate) fn write_name_and_version(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"name\":");
        write_str(out, &self.name);
        out.extend_from_slice(b",\"version\":");
        write_str(out, &self.version);
        out.push(b'}');
    }

    /// Removes icons that must not be sent (META-027).
    pub(crate) fn without_forbidden_icons(mut self) -> Self {
        self.icons.retain(crate::model::Icon::is_allowed);
        self
    }
}

/// Capabilities of one side: flags for those that the engines act on, JSON text for those that they pass on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    flags: u32,
    /// Boxed, since most peers have none and every connection stores these capabilities.
    named: Option<Box<NamedCapabilities>>,
}

/// Capabilities without a flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NamedCapabilities {
    /// Further members of the capability object.
    members: Declarations,
    extensions: Extensions,
}

/// A capability and its place in the capability object.
struct CapabilityDeclaration {
    capability: Capability,
    member: &'static str,
    /// A member within that member, with the value that is written.
    inner: Option<(&'static str, &'static str)>,
    since: Version,
}

const fn declaration(capability: Capability, member: &'static str, since: Version) -> CapabilityDeclaration {
    CapabilityDeclaration { capability, member, inner: None, since }
}

impl CapabilityDeclaration {
    const fn with_inner(self, inner: &'static str, value: &'static str) -> Self {
        Self { inner: Some((inner, value)), ..self }
    }

    /// Returns whether a member within the member declares it: a flag that is true, or any object.
    fn is_declared_by(&self, name: &[u8], value: &[u8]) -> bool {
        let Some((inner, expected)) = self.inner else { return false };
        inner.as_bytes() == name
            && match expected {
                "true" => value == b"true",
                TOOL_TASKS | SAMPLING_TASKS | ELICITATION_TASKS => declares_tasks(expected, value),
                _ => value.starts_with(b"{"),
            }
    }
}

/// Values of `tasks.requests` (TASK-002). Several are written as one object.
const TOOL_TASKS: &str = r#"{"tools":{"call":{}}}"#;
const SAMPLING_TASKS: &str = r#"{"sampling":{"createMessage":{}}}"#;
const ELICITATION_TASKS: &str = r#"{"elicitation":{"create":{}}}"#;

/// Returns whether `tasks.requests` names the request that `expected` names.
fn declares_tasks(expected: &str, requests: &[u8]) -> bool {
    let mut declared = false;
    object_members(expected.as_bytes(), |group, request| {
        object_members(request, |request, _| {
            object_members(requests, |name, value| {
                if name == group {
                    object_members(value, |name, value| {
                        declared |= name == request && value.starts_with(b"{");
                    });
                }
            });
        });
    });
    declared
}

/// All capabilities that gate a feature; a part follows the capability that contains it.
#[expect(deprecated, reason = "supported until its removal")]
static DECLARATIONS: [CapabilityDeclaration; 23] = {
    use Capability as C;
    use Version as V;
    [
        declaration(C::Tools, "tools", V::V2024_11_05),
        declaration(C::ToolsListChanged, "tools", V::V2024_11_05).with_inner("listChanged", "true"),
        declaration(C::Resources, "resources", V::V2024_11_05),
        declaration(C::ResourceSubscriptions, "resources", V::V2024_11_05).with_inner("subscribe", "true"),
        declaration(C::ResourcesListChanged, "resources", V::V2024_11_05).with_inner("listChanged", "true"),
        declaration(C::Prompts, "prompts", V::V2024_11_05),
        declaration(C::PromptsListChanged, "prompts", V::V2024_11_05).with_inner("listChanged", "true"),
        declaration(C::Completions, "completions", V::V2025_03_26),
        declaration(C::Logging, "logging", V::V2024_11_05),
        declaration(C::Roots, "roots", V::V2024_11_05),
        declaration(C::RootsListChanged, "roots", V::V2024_11_05).with_inner("listChanged", "true"),
        declaration(C::Sampling, "sampling", V::V2024_11_05),
        declaration(C::SamplingTools, "sampling", V::V2025_11_25).with_inner("tools", "{}"),
        declaration(C::SamplingContext, "sampling", V::V2025_11_25).with_inner("context", "{}"),
        declaration(C::Elicitation, "elicitation", V::V2025_06_18),
        declaration(C::ElicitationForm, "elicitation", V::V2025_11_25).with_inner("form", "{}"),
        declaration(C::ElicitationUrl, "elicitation", V::V2025_11_25).with_inner("url", "{}"),
        declaration(C::Tasks, "tasks", V::V2025_11_25),
        declaration(C::TaskList, "tasks", V::V2025_11_25).with_inner("list", "{}"),
        declaration(C::TaskCancellation, "tasks", V::V2025_11_25).with_inner("cancel", "{}"),
        declaration(C::ToolTasks, "tasks", V::V2025_11_25).with_inner("requests", TOOL_TASKS),
        declaration(C::SamplingTasks, "tasks", V::V2025_11_25).with_inner("requests", SAMPLING_TASKS),
        declaration(C::ElicitationTasks, "tasks", V::V2025_11_25).with_inner("requests", ELICITATION_TASKS),
    ]
};

impl Capabilities {
    /// Creates capabilities with the base protocol alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares `capability` and the capability that contains it.
    ///
    /// [`Capability::Elicitation`] alone means forms, as it does on the wire (ELIC-003, ELIC-004).
    #[must_use]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn with(mut self, capability: Capability) -> Self {
        let whole = match capability {
            Capability::ToolsListChanged => Capability::Tools,
            Capability::PromptsListChanged => Capability::Prompts,
            Capability::ResourceSubscriptions | Capability::ResourcesListChanged => Capability::Resources,
            Capability::RootsListChanged => Capability::Roots,
            Capability::SamplingTools | Capability::SamplingContext => Capability::Sampling,
            Capability::ElicitationForm | Capability::ElicitationUrl => Capability::Elicitation,
            Capability::Elicitation => Capability::ElicitationForm,
            Capability::Skills | Capability::DirectoryRead => return self.with_skills(capability),
            Capability::TaskList
            | Capability::TaskCancellation
            | Capability::ToolTasks
            | Capability::SamplingTasks
            | Capability::ElicitationTasks => Capability::Tasks,
            Capability::TasksExtension => {
                let settings = RawJson::trusted(bytes::Bytes::from_static(b"{}"));
                self.change_named(|named| named.extensions.insert_if_absent(meta::TASKS_EXTENSION, settings));
                return self;
            }
            other => other,
        };
        self.flags |= capability_bit(capability) | capability_bit(whole);
        self
    }

    /// Withdraws a capability, and nothing else: its parts stay declared, but are not sent without it.
    ///
    /// One that stands for an extension is withdrawn by [`without_extension`](Self::without_extension).
    #[must_use]
    pub fn without(mut self, capability: Capability) -> Self {
        self.flags &= !capability_bit(capability);
        self
    }

    /// Adds a member to the capability object, or replaces it.
    ///
    /// The member holds features that client and server have agreed on (`experimental`), for example. `since` is the
    /// first revision that the member is sent to; revisions before keep what was added for them. The members of `extensions`
    /// are added to the declared [extensions](Self::extension) for all revisions; those that are not valid are left out.
    #[must_use]
    pub fn with_member(mut self, name: impl Into<String>, value: RawJson, since: Version) -> Self {
        let name = name.into();
        self.change_named(|named| {
            if name == extensions::MEMBER {
                named.extensions.merge(value.as_bytes());
            } else {
                named.members.insert(name, value, since);
            }
        });
        self
    }

    /// Changes the members and extensions, and sets the flags of the capabilities that are extensions.
    fn change_named<R>(&mut self, change: impl FnOnce(&mut NamedCapabilities) -> R) -> R {
        let mut named = self.named.take().unwrap_or_default();
        let result = change(&mut named);
        // The flags of extensions follow from the extensions alone.
        self.flags = self.flags & !extensions::ALL_FLAGS | named.extensions.flags();
        self.named = Some(named).filter(|named| **named != NamedCapabilities::default());
        result
    }

    /// Returns whether `capability` is declared.
    #[must_use]
    pub const fn has(&self, capability: Capability) -> bool {
        self.flags & capability_bit(capability) != 0
    }

    /// Iterates over the declared capabilities that gate a feature.
    pub fn iter(&self) -> impl Iterator<Item = Capability> {
        let own = DECLARATIONS.iter().map(|row| row.capability);
        own.chain(extensions::CAPABILITIES).filter(|capability| self.has(*capability))
    }

    /// Returns whether no capability that gates a feature is declared.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.flags == 0
    }

    /// Returns the capabilities of `needed` that are not declared here; empty if all are.
    #[must_use]
    pub fn missing(&self, needed: &Self) -> Self {
        Self { flags: needed.flags & !self.flags, ..Self::default() }
    }

    /// Reads a peer's capability object.
    ///
    /// Unknown members (LIFE-015) and members of a wrong type are ignored, and so are extensions that are not valid or
    /// beyond 256.
    #[must_use]
    pub fn from_json(object: &RawJson) -> Self {
        let mut named = NamedCapabilities::default();
        let mut read = Self::read_parts(object.as_bytes(), &mut |extensions| {
            named.extensions.merge(extensions);
            named.extensions.flags()
        });
        read.named = (named != NamedCapabilities::default()).then(|| named.into());
        read
    }

    /// Reads the capabilities that gate a feature, from JSON text that was checked already.
    pub(crate) fn read(text: &[u8]) -> Self {
        Self::read_parts(text, &mut |extensions| {
            let mut all = 0;
            object_members(extensions, |id, settings| all |= extensions::flags(id, settings));
            all
        })
    }

    /// Reads capabilities; `read_extensions` gets the member with the extensions and returns their flags.
    fn read_parts(text: &[u8], read_extensions: &mut dyn FnMut(&[u8]) -> u32) -> Self {
        let mut read = Self::default();
        object_members(text, |member, value| {
            // A capability is an object. Another value declares nothing.
            if value.first() != Some(&b'{') {
                return;
            }
            let rows = || DECLARATIONS.iter().filter(|row| row.member.as_bytes() == member);
            for row in rows().filter(|row| row.inner.is_none()) {
                read.flags |= capability_bit(row.capability);
            }
            if member == extensions::MEMBER.as_bytes() {
                read.flags |= read_extensions(value);
                return;
            }
            object_members(value, |name, value| {
                for row in rows().filter(|row| row.is_declared_by(name, value)) {
                    read.flags |= capability_bit(row.capability);
                }
            });
        });
        // ELIC-003. It also holds for a client of a revision without modes that names a mode nevertheless.
        if read.has(Capability::Elicitation) && !read.has(Capability::ElicitationUrl) {
            read.flags |= capability_bit(Capability::ElicitationForm);
        }
        read
    }

    /// Appends the object with the members that `version` has (LIFE-013, LIFE-014).
    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        out.push(b'{');
        let start = out.len();
        let known =
            |row: &&CapabilityDeclaration| version >= row.since && self.is_written(row.capability, version);
        for row in DECLARATIONS.iter().filter(|row| row.inner.is_none()).filter(known) {
            push_comma(out, start);
            write_str(out, row.member);
            out.extend_from_slice(b":{");
            let start = out.len();
            let mut last = None;
            for part in DECLARATIONS.iter().filter(|part| part.member == row.member).filter(known) {
                let Some((inner, value)) = part.inner else { continue };
                if last.replace(inner) == Some(inner) {
                    // A further member of the same object.
                    out.pop();
                    out.push(b',');
                    out.extend_from_slice(value.as_bytes().get(1..).unwrap_or_default());
                    continue;
                }
                push_comma(out, start);
                write_str(out, inner);
                out.push(b':');
                out.extend_from_slice(value.as_bytes());
            }
            out.push(b'}');
        }
        if let Some(named) = &self.named {
            for (name, value) in named.members.of(version) {
                push_comma(out, start);
                write_str(out, name);
                out.push(b':');
                append_one_line(out, value.as_bytes());
            }
            named.extensions.write(out, version, start);
        }
        out.push(b'}');
    }

    /// Returns whether the object of `version` contains `capability`.
    #[expect(deprecated, reason = "supported until its removal")]
    fn is_written(&self, capability: Capability, version: Version) -> bool {
        let url = self.has(Capability::ElicitationUrl);
        self.has(capability)
            && match capability {
                // In a revision without modes the member would mean forms.
                Capability::Elicitation => {
                    version >= Version::V2025_11_25 || self.has(Capability::ElicitationForm)
                }
                // Forms alone are written as `{}`, which every revision understands.
                Capability::ElicitationForm => url,
                Capability::Tasks
                | Capability::TaskList
                | Capability::TaskCancellation
                | Capability::ToolTasks
                | Capability::SamplingTasks
                | Capability::ElicitationTasks
                | Capability::RootsListChanged => version < Version::V2026_07_28,
                _ => true,
            }
    }
}

const fn capability_bit(capability: Capability) -> u32 {
    1 << capability as u32
}

/// Appends a comma before every member but the first.
fn push_comma(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}

// Client capabilities that an input request needs (MRTR-009, ELIC-005, SAMP-002, SAMP-008, SAMP-010, ROOT-010).

impl InputRequest<'_> {
    /// Returns the capabilities that a client of revision `version` must have declared for this input request.
    ///
    /// [`Capabilities::missing`] returns those that a client lacks. Converted to a [`ClientCapabilities`], they go into
    /// [`RpcError::missing_client_capability`](crate::RpcError::missing_client_capability). This function does not
    /// check whether the revision has this input request; writing it does. An unknown input request needs nothing.
    ///
    /// ```
    /// use mcp_proto::model::{ClientCapabilities, ElicitParams, InputRequest};
    /// use mcp_proto::{Capabilities, RawJson, Version};
    ///
    /// let request = InputRequest::Elicit(ElicitParams::url("Pay", "https://harbour.example/pay"));
    /// let needed = request.required_capabilities(Version::V2026_07_28);
    /// let client = Capabilities::from_json(&RawJson::new(r#"{"elicitation":{}}"#)?); // forms only
    /// let missing = client.missing(&needed);
    /// assert!(!missing.is_empty());
    /// let required = RawJson::encode(&ClientCapabilities::from(&missing))?;
    /// assert_eq!(required.as_str(), r#"{"elicitation":{"url":{}}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn required_capabilities(&self, version: Version) -> Capabilities {
        let none = Capabilities::new();
        match self {
            Self::Elicit(ElicitParams::Form(_)) => none.with(Capability::ElicitationForm),
            Self::Elicit(ElicitParams::Url(_)) => none.with(Capability::ElicitationUrl),
            Self::Elicit(ElicitParams::Other(_)) => {
                Capabilities { flags: capability_bit(Capability::Elicitation), ..none }
            }
            Self::CreateMessage(params) => sampling_capabilities(params, version),
            Self::ListRoots(_) => none.with(Capability::Roots),
            Self::Other(_) => none,
        }
    }
}

#[expect(deprecated, reason = "supported until its removal")]
fn sampling_capabilities(params: &CreateMessageParams<'_>, version: Version) -> Capabilities {
    let mut needed = Capabilities::new().with(Capability::Sampling);
    if params.tools.is_some() || params.tool_choice.is_some() {
        needed = needed.with(Capability::SamplingTools);
    }
    // Revisions before 2025-11-25 have no capability for it: any client with sampling may be asked for context.
    let context = !matches!(params.include_context, None | Some(IncludeContext::None));
    if context && version >= Version::V2025_11_25 {
        needed = needed.with(Capability::SamplingContext);
    }
    needed
}

impl From<&Capabilities> for ClientCapabilities {
    /// Returns the object with the client's share of the capabilities; each part is named, forms too.
    #[expect(deprecated, reason = "supported until its removal")]
    fn from(capabilities: &Capabilities) -> Self {
        let mut object = Self::new();
        let given = |capability| capabilities.has(capability).then(Map::new);
        if capabilities.has(Capability::Roots) {
            object.roots = Some(RootsCapability::new());
        }
        let (tools, context) = (given(Capability::SamplingTools), given(Capability::SamplingContext));
        if capabilities.has(Capability::Sampling) || tools.is_some() || context.is_some() {
            let mut sampling = SamplingCapability::new();
            (sampling.tools, sampling.context) = (tools, context);
            object.sampling = Some(sampling);
        }
        let (form, url) = (given(Capability::ElicitationForm), given(Capability::ElicitationUrl));
        if capabilities.has(Capability::Elicitation) || form.is_some() || url.is_some() {
            let mut elicitation = ElicitationCapability::new();
            (elicitation.form, elicitation.url) = (form, url);
            object.elicitation = Some(elicitation);
        }
        if capabilities.has(Capability::TasksExtension) {
            let settings = RawJson::trusted(bytes::Bytes::from_static(b"{}"));
            object.extensions = Some([(meta::TASKS_EXTENSION, settings)].into_iter().collect());
        }
        let members = capabilities.named.iter().flat_map(|named| named.members.of(Version::V2026_07_28));
        for (name, value) in members {
            object.extra.insert(name, value.clone());
        }
        object
    }
}

#[cfg(test)]
mod required_tests {
    use super::super::RpcError;
    use super::super::model::{ElicitSchema, SamplingMessage, Tool, ToolChoice};
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;

    const MODERN: Version = Version::V2026_07_28;

    fn sampling() -> CreateMessageParams<'static> {
        CreateMessageParams::new([SamplingMessage::user("hi")], 9u32)
    }

    /// Each kind of input request with the smallest capability object that permits it.
    #[expect(deprecated, reason = "tested until its removal")]
    fn requests() -> Vec<(InputRequest<'static>, &'static str)> {
        let tool = Tool::new("t", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
        let both = sampling().tools([tool.clone()]).include_context(IncludeContext::AllServers);
        alloc::vec![
            (InputRequest::ListRoots(None), r#"{"roots":{}}"#),
            (InputRequest::CreateMessage(sampling()), r#"{"sampling":{}}"#),
            (
                InputRequest::CreateMessage(sampling().include_context(IncludeContext::None)),
                r#"{"sampling":{}}"#
            ),
            (InputRequest::CreateMessage(sampling().tools([tool])), r#"{"sampling":{"tools":{}}}"#),
            (
                InputRequest::CreateMessage(sampling().tool_choice(ToolChoice::new())),
                r#"{"sampling":{"tools":{}}}"#
            ),
            (
                InputRequest::CreateMessage(sampling().include_context(IncludeContext::ThisServer)),
                r#"{"sampling":{"context":{}}}"#,
            ),
            (InputRequest::CreateMessage(both), r#"{"sampling":{"context":{},"tools":{}}}"#),
            (
                InputRequest::Elicit(ElicitParams::form("m", ElicitSchema::default())),
                r#"{"elicitation":{"form":{}}}"#,
            ),
            (
                InputRequest::Elicit(ElicitParams::url("m", "https://x.example")),
                r#"{"elicitation":{"url":{}}}"#
            ),
        ]
    }

    fn declared(text: &str) -> Capabilities {
        Capabilities::from_json(&RawJson::new(String::from(text)).expect("JSON"))
    }

    fn object(capabilities: &Capabilities) -> String {
        serde_json::to_string(&ClientCapabilities::from(capabilities)).expect("JSON")
    }

    // covers: SAMP-007, SAMP-010, ERR-007
    #[test]
    fn missing_capabilities_equal_required_ones() {
        for (request, required) in requests() {
            let needed = request.required_capabilities(MODERN);
            let missing = Capabilities::new().missing(&needed);
            assert_eq!(object(&missing), required);
            assert!(declared(required).missing(&needed).is_empty(), "{required}");
            let error = RpcError::missing_client_capability((&missing).into()).expect("JSON");
            let reported = error.as_missing_client_capability().expect("data").required_capabilities;
            assert_eq!(serde_json::to_string(&reported).expect("JSON"), required);
            // The capabilities of another input request suffice only if they contain the required ones.
            for (_, other) in requests() {
                let enough = other == required
                    || required == r#"{"sampling":{}}"# && other.contains("sampling")
                    || required.contains("sampling") && other == r#"{"sampling":{"context":{},"tools":{}}}"#;
                assert_eq!(declared(other).missing(&needed).is_empty(), enough, "{other} for {required}");
            }
        }
        let other = InputRequest::Other(RawJson::new("{}").expect("JSON"));
        assert!(other.required_capabilities(MODERN).is_empty());
        let voice = InputRequest::Elicit(ElicitParams::Other(RawJson::new("{}").expect("JSON")));
        assert!(
            declared(r#"{"elicitation":{"url":{}}}"#)
                .missing(&voice.required_capabilities(MODERN))
                .is_empty()
        );
    }

    // covers: ELIC-003, SAMP-010
    #[test]
    #[expect(deprecated, reason = "tested until its removal")]
    fn only_missing_capabilities_are_named() {
        let both = sampling().tool_choice(ToolChoice::new()).include_context(IncludeContext::from("new"));
        let needed = InputRequest::CreateMessage(both).required_capabilities(MODERN);
        assert_eq!(
            object(&declared(r#"{"sampling":{}}"#).missing(&needed)),
            r#"{"sampling":{"context":{},"tools":{}}}"#
        );
        let missing = declared(r#"{"sampling":{"tools":{}}}"#).missing(&needed);
        assert_eq!(object(&missing), r#"{"sampling":{"context":{}}}"#);
        assert_eq!(missing.iter().collect::<Vec<_>>(), [Capability::SamplingContext]);
        let form = InputRequest::Elicit(ElicitParams::form("m", ElicitSchema::default()))
            .required_capabilities(MODERN);
        assert!(declared(r#"{"elicitation":{}}"#).missing(&form).is_empty());
        let missing = declared(r#"{"elicitation":{"url":{}}}"#).missing(&form);
        assert_eq!(object(&missing), r#"{"elicitation":{"form":{}}}"#);
    }

    // covers: SAMP-010
    #[test]
    #[expect(deprecated, reason = "tested until its removal")]
    fn context_needs_no_capability_before_2025_11_25() {
        let context = InputRequest::CreateMessage(sampling().include_context(IncludeContext::AllServers));
        for (version, enough) in [
            (Version::V2024_11_05, true),
            (Version::V2025_03_26, true),
            (Version::V2025_06_18, true),
            (Version::V2025_11_25, false),
            (MODERN, false),
        ] {
            let missing = declared(r#"{"sampling":{}}"#).missing(&context.required_capabilities(version));
            assert_eq!(missing.is_empty(), enough, "{version}");
            assert!(!declared("{}").missing(&context.required_capabilities(version)).is_empty(), "{version}");
            let form = InputRequest::Elicit(ElicitParams::form("m", ElicitSchema::default()));
            assert!(
                declared(r#"{"elicitation":{}}"#).missing(&form.required_capabilities(version)).is_empty()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    // covers: LIFE-022
    #[test]
    fn implementation_is_written_per_revision() {
        let mut i = Implementation::new("n", "1");
        i.title = Some("T".into());
        i.website_url = Some("https://x.example".into());
        assert_eq!(written(|o| i.write(o, Version::V2025_03_26)), r#"{"name":"n","version":"1"}"#);
        assert_eq!(
            written(|o| i.write(o, Version::V2025_06_18)),
            r#"{"name":"n","version":"1","title":"T"}"#
        );
        assert!(written(|o| i.write(o, Version::V2026_07_28)).contains("websiteUrl"));
    }

    /// The objects of each capability alone, as the specification spells them; revisions between share the previous one.
    // covers: LIFE-013, LIFE-014
    #[test]
    #[expect(deprecated, reason = "supported until its removal")]
    fn each_capability_has_the_name_of_its_revision() {
        use Capability as C;
        use Version as V;
        const NEW_TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        let table: [(C, &[(V, &str)]); 24] = [
            (C::Tools, &[(V::V2024_11_05, r#"{"tools":{}}"#)]),
            (C::ToolsListChanged, &[(V::V2024_11_05, r#"{"tools":{"listChanged":true}}"#)]),
            (C::Resources, &[(V::V2024_11_05, r#"{"resources":{}}"#)]),
            (C::ResourceSubscriptions, &[(V::V2024_11_05, r#"{"resources":{"subscribe":true}}"#)]),
            (C::ResourcesListChanged, &[(V::V2024_11_05, r#"{"resources":{"listChanged":true}}"#)]),
            (C::Prompts, &[(V::V2024_11_05, r#"{"prompts":{}}"#)]),
            (C::PromptsListChanged, &[(V::V2024_11_05, r#"{"prompts":{"listChanged":true}}"#)]),
            (C::Completions, &[(V::V2024_11_05, "{}"), (V::V2025_03_26, r#"{"completions":{}}"#)]),
            (C::Logging, &[(V::V2024_11_05, r#"{"logging":{}}"#)]),
            (C::Roots, &[(V::V2024_11_05, r#"{"roots":{}}"#)]),
            (
                C::RootsListChanged,
                &[(V::V2024_11_05, r#"{"roots":{"listChanged":true}}"#), (V::V2026_07_28, r#"{"roots":{}}"#)],
            ),
            (C::Sampling, &[(V::V2024_11_05, r#"{"sampling":{}}"#)]),
            (
                C::SamplingTools,
                &[(V::V2024_11_05, r#"{"sampling":{}}"#), (V::V2025_11_25, r#"{"sampling":{"tools":{}}}"#)],
            ),
            (
                C::SamplingContext,
                &[(V::V2024_11_05, r#"{"sampling":{}}"#), (V::V2025_11_25, r#"{"sampling":{"context":{}}}"#)],
            ),
            (C::Elicitation, &[(V::V2024_11_05, "{}"), (V::V2025_06_18, r#"{"elicitation":{}}"#)]),
            (C::ElicitationForm, &[(V::V2024_11_05, "{}"), (V::V2025_06_18, r#"{"elicitation":{}}"#)]),
            (C::ElicitationUrl, &[(V::V2024_11_05, "{}"), (V::V2025_11_25, r#"{"elicitation":{"url":{}}}"#)]),
            (
                C::Tasks,
                &[(V::V2024_11_05, "{}"), (V::V2025_11_25, r#"{"tasks":{}}"#), (V::V2026_07_28, "{}")],
            ),
            (
                C::TaskList,
                &[
                    (V::V2024_11_05, "{}"),
                    (V::V2025_11_25, r#"{"tasks":{"list":{}}}"#),
                    (V::V2026_07_28, "{}"),
                ],
            ),
            (
                C::TaskCancellation,
                &[
                    (V::V2024_11_05, "{}"),
                    (V::V2025_11_25, r#"{"tasks":{"cancel":{}}}"#),
                    (V::V2026_07_28, "{}"),
                ],
            ),
            (
                C::ToolTasks,
                &[
                    (V::V2024_11_05, "{}"),
                    (V::V2025_11_25, r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#),
                    (V::V2026_07_28, "{}"),
                ],
            ),
            (
                C::SamplingTasks,
                &[
                    (V::V2024_11_05, "{}"),
                    (V::V2025_11_25, r#"{"tasks":{"requests":{"sampling":{"createMessage":{}}}}}"#),
                    (V::V2026_07_28, "{}"),
                ],
            ),
            (
                C::ElicitationTasks,
                &[
                    (V::V2024_11_05, "{}"),
                    (V::V2025_11_25, r#"{"tasks":{"requests":{"elicitation":{"create":{}}}}}"#),
                    (V::V2026_07_28, "{}"),
                ],
            ),
            (C::TasksExtension, &[(V::V2024_11_05, "{}"), (V::V2026_07_28, NEW_TASKS)]),
        ];
        for (capability, spellings) in table {
            let declared = Capabilities::new().with(capability);
            for version in crate::VersionSet::ALL.iter() {
                let (_, expected) =
                    spellings.iter().rev().find(|(since, _)| version >= *since).expect("the oldest revision");
                let text = written(|out| declared.write(out, version));
                assert_eq!(text, *expected, "{capability:?} in {version:?}");
            }
            // The longest one has every part.
            let whole =
                spellings.iter().map(|(_, text)| *text).max_by_key(|text| text.len()).expect("a spelling");
            assert!(Capabilities::read(whole.as_bytes()).has(capability), "{capability:?}: {whole}");
        }
    }

    // covers: LIFE-013, LIFE-014, LIFE-015
    #[test]
    fn capabilities_are_written_per_revision_and_read_back() {
        let member = RawJson::new("{\"a\":1}").expect("JSON");
        let c = Capabilities::new()
            .with(Capability::ResourceSubscriptions)
            .with(Capability::Completions)
            .with_member("new", member, Version::V2026_07_28);
        assert_eq!(written(|o| c.write(o, Version::V2024_11_05)), r#"{"resources":{"subscribe":true}}"#);
        assert_eq!(
            written(|o| c.write(o, Version::V2026_07_28)),
            r#"{"resources":{"subscribe":true},"completions":{},"new":{"a":1}}"#
        );
        let back =
            Capabilities::read(br#"{"resources":{"subscribe":true,"x":1},"completions":{},"unknown":[]}"#);
        assert!(back.has(Capability::ResourceSubscriptions) && back.has(Capability::Resources));
        assert!(back.has(Capability::Completions) && !back.has(Capability::Tools));
        assert!(!Capabilities::read(b"{\"tools\":true}").has(Capability::Tools));
    }

    // covers: EXT-001, EXT-002, EXT-003, EXT-009, TASK-130
    #[test]
    fn extensions_are_written_in_every_revision_except_tasks() {
        let json = |text: &str| RawJson::new(String::from(text)).expect("JSON");
        let c = Capabilities::new()
            .extension("a.example/b", json("{}"))
            .and_then(|c| c.extension("io.modelcontextprotocol/tasks", json("{}")))
            .and_then(|c| c.extension("a.example/b", json("{\"x\":1}")))
            .expect("valid");
        for version in Version::ALL {
            let tasks = r#","io.modelcontextprotocol/tasks":{}"#;
            let tasks = if version == Version::V2026_07_28 { tasks } else { "" };
            let expected = alloc::format!("{{\"extensions\":{{\"a.example/b\":{{\"x\":1}}{tasks}}}}}");
            let object = written(|o| c.write(o, version));
            assert_eq!(object, expected, "{version}");
            let read = Capabilities::from_json(&json(&object));
            assert!(read.has_extension("a.example/b") && !read.has_extension("b"));
            // An identifier of a peer without a prefix is ignored.
            let unprefixed = json(r#"{"extensions":{"b":{},"a.example/b":{}}}"#);
            assert_eq!(declared_extension(&unprefixed, "b", version), None);
            assert!(declared_extension(&unprefixed, "a.example/b", version).is_some());
            assert!(!Capabilities::from_json(&unprefixed).has_extension("b"));
            // The word of a peer is as little worth as ours.
            let all = json(&written(|o| c.write(o, Version::V2026_07_28)));
            let has = declared_extension(&all, "io.modelcontextprotocol/tasks", version).is_some();
            assert_eq!(has, version == Version::V2026_07_28);
            let settings = declared_extension(&all, "a.example/b", version).expect("declared");
            assert_eq!(settings.as_str(), "{\"x\":1}");
        }
        // Each revision has what was declared last for it or for one before.
        let dated = Capabilities::new()
            .extension("a/b", json("{\"x\":1}"))
            .and_then(|c| c.extension_since("a/b", json("{}"), Version::V2026_07_28))
            .and_then(|c| c.extension_since("c/d", json("{}"), Version::V2025_11_25))
            .expect("valid")
            .with_member("m", json("1"), Version::V2024_11_05)
            .with_member("m", json("2"), Version::V2026_07_28);
        for (version, expected) in [
            (Version::V2025_06_18, r#"{"m":1,"extensions":{"a/b":{"x":1}}}"#),
            (Version::V2025_11_25, r#"{"m":1,"extensions":{"a/b":{"x":1},"c/d":{}}}"#),
            (Version::V2026_07_28, r#"{"m":2,"extensions":{"a/b":{},"c/d":{}}}"#),
        ] {
            assert_eq!(written(|o| dated.write(o, version)), expected, "{version}");
            assert_eq!(dated.declares_extension("c/d", version), expected.contains("c/d"), "{version}");
        }
        assert_eq!(dated.extensions().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["{}", "{}"]);
        let mut adopted = Capabilities::new().extension("c/d", json("{\"y\":1}")).expect("valid");
        adopted.adopt_extensions(&dated);
        let object = written(|o| adopted.write(o, Version::V2025_06_18));
        assert_eq!(object, r#"{"extensions":{"c/d":{"y":1},"a/b":{"x":1}}}"#);
        // The first revision again: it replaces all.
        let all = dated.extension("a/b", json("{\"z\":1}")).expect("valid");
        let object = written(|o| all.write(o, Version::V2026_07_28));
        assert_eq!(object, r#"{"m":2,"extensions":{"a/b":{"z":1},"c/d":{}}}"#);
        let twice = |n: Capabilities| n.with_member("experimental", json("{}"), Version::V2024_11_05);
        let twice = twice(twice(Capabilities::new()));
        assert_eq!(written(|o| twice.write(o, Version::V2025_11_25)), r#"{"experimental":{}}"#);
        let only_tasks = c.clone().without_extension("a.example/b");
        assert_eq!(written(|o| only_tasks.write(o, Version::V2025_11_25)), "{}");
        for id in ["", "b", "/b", "a.example/", "a..b/c", "a.example/-", "1a/b", "a b/c"] {
            let refused = Capabilities::new().extension(id, json("{}"));
            assert_eq!(refused, Err(ExtensionError::Identifier(id.into())));
        }
        for settings in ["null", "[]", "true", "\"x\""] {
            let refused = Capabilities::new().extension("a/b", json(settings));
            assert_eq!(refused, Err(ExtensionError::Settings("a/b".into())), "{settings}");
        }
        // What a peer writes wrongly is left out; the rest holds.
        let read =
            Capabilities::from_json(&json(r#"{"extensions":{"a/b":{},"c":{},"d/e":true,"f/g":{"x":1}}}"#));
        assert_eq!(read.extensions().map(|(id, _)| id).collect::<Vec<_>>(), ["a/b", "f/g"]);
        let many: Vec<String> = (0..1_000).map(|i| alloc::format!("\"a/n{i}\":{{}}")).collect();
        let many = alloc::format!("{{\"extensions\":{{{}}}}}", many.join(","));
        assert_eq!(Capabilities::from_json(&json(&many)).extensions().count(), 256);
    }

    // covers: SKILL-001, SKILL-003, SKILL-004
    #[test]
    fn capability_of_skills_is_their_extension() {
        let has =
            |c: &Capabilities| [Capability::Skills, Capability::DirectoryRead].map(|which| c.has(which));
        let plain = Capabilities::new().with(Capability::Skills);
        assert_eq!(has(&plain), [true, false]);
        assert_eq!(
            written(|o| plain.write(o, Version::V2025_06_18)),
            r#"{"extensions":{"io.modelcontextprotocol/skills":{}}}"#
        );
        let directories = plain.clone().with(Capability::DirectoryRead);
        assert_eq!(has(&directories), [true, true]);
        let text = written(|o| directories.write(o, Version::V2026_07_28));
        assert_eq!(text, r#"{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}"#);
        let read = Capabilities::from_json(&RawJson::new(text).expect("JSON"));
        assert_eq!((&read, has(&read)), (&directories, [true, true]));
        assert_eq!(has(&read.with(Capability::Skills)), [true, true], "the settings are kept");
        assert_eq!(has(&directories.without_extension("io.modelcontextprotocol/skills")), [false; 2]);
        for (settings, expected) in [
            (r#"{"directoryRead":false}"#, [true, false]),
            (r#"{"directoryRead":"true"}"#, [true, false]),
            (r#"{"x":1}"#, [true, false]),
            ("true", [false, false]),
        ] {
            let text = alloc::format!(r#"{{"extensions":{{"io.modelcontextprotocol/skills":{settings}}}}}"#);
            let read = Capabilities::from_json(&RawJson::new(text).expect("JSON"));
            assert_eq!(has(&read), expected, "{settings}");
        }
    }

    // covers: ELIC-001, ELIC-003, ELIC-004, SAMP-001, SAMP-007, ROOT-001
    #[test]
    #[expect(deprecated, reason = "tested until its removal")]
    fn capability_parts_are_written_per_revision() {
        #[expect(deprecated, reason = "tested until its removal")]
        use Capability::{
            Elicitation, ElicitationForm, ElicitationUrl, Roots, SamplingContext, SamplingTools,
        };
        for (declared, v2025_03, v2025_06, v2025_11) in [
            (&[Elicitation][..], "{}", r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (&[ElicitationForm], "{}", r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (&[ElicitationUrl], "{}", "{}", r#"{"elicitation":{"url":{}}}"#),
            (
                &[ElicitationUrl, ElicitationForm],
                "{}",
                r#"{"elicitation":{}}"#,
                r#"{"elicitation":{"form":{},"url":{}}}"#,
            ),
            (&[SamplingTools], r#"{"sampling":{}}"#, r#"{"sampling":{}}"#, r#"{"sampling":{"tools":{}}}"#),
            (
                &[SamplingContext, SamplingTools, Roots],
                r#"{"roots":{},"sampling":{}}"#,
                r#"{"roots":{},"sampling":{}}"#,
                r#"{"roots":{},"sampling":{"tools":{},"context":{}}}"#,
            ),
        ] {
            let c = declared.iter().fold(Capabilities::new(), |c, capability| c.with(*capability));
            assert_eq!(written(|o| c.write(o, Version::V2025_03_26)), v2025_03, "{declared:?}");
            assert_eq!(written(|o| c.write(o, Version::V2025_06_18)), v2025_06, "{declared:?}");
            assert_eq!(written(|o| c.write(o, Version::V2025_11_25)), v2025_11, "{declared:?}");
            let modern = written(|o| c.write(o, Version::V2026_07_28));
            assert_eq!(modern, v2025_11, "{declared:?}");
            assert_eq!(Capabilities::read(modern.as_bytes()), c, "{declared:?}");
        }
    }

    // covers: ELIC-003
    #[test]
    #[expect(deprecated, reason = "tested until its removal")]
    fn elicitation_modes_are_read_from_members() {
        use Capability::{Elicitation, ElicitationForm, ElicitationUrl};
        for (text, any, form, url) in [
            ("{}", false, false, false),
            (r#"{"elicitation":true}"#, false, false, false),
            (r#"{"elicitation":null}"#, false, false, false),
            (r#"{"elicitation":{}}"#, true, true, false),
            (r#"{"elicitation":{"schemaValidation":true}}"#, true, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, true, false),
            (r#"{"elicitation":{"form":{"x":1},"url":{}}}"#, true, true, true),
            (r#"{"elicitation":{"url":{}}}"#, true, false, true),
            (r#"{"elicitation":{"url":true}}"#, true, true, false),
        ] {
            let read = Capabilities::from_json(&RawJson::new(text).expect("JSON"));
            let has = [Elicitation, ElicitationForm, ElicitationUrl].map(|c| read.has(c));
            assert_eq!(has, [any, form, url], "{text}");
        }
        let parts = Capabilities::read(br#"{"sampling":{"tools":{},"context":1},"elicitation":{}}"#);
        let all: Vec<_> = parts.iter().collect();
        let expected = [Capability::Sampling, Capability::SamplingTools, Elicitation, ElicitationForm];
        assert_eq!(all, expected);
    }
}
