//! Validation of cards before they are written.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::{
    CardArgument, CardArgumentKind, CardHeader, CardInput, CardInputFormat, CardPackage, CardRemote,
    CardRepository, CardTransport, ServerCard,
};
use mcp_proto::http::{Url, fields};
use mcp_proto::model::{Map, ValidationError};

type Checked = Result<(), ValidationError>;

/// Media types of icons in `server.json`.
const ICON_TYPES: [&str; 5] = ["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"];

impl ServerCard {
    /// Checks the card against the rules of both schemas.
    ///
    /// # Errors
    ///
    /// The path of the first wrong member and the reason. Values are not repeated, as they may be confidential.
    pub fn check(&self) -> Checked {
        check_name(&self.name).map_err(|reason| at("name", reason))?;
        check_version(&self.version).map_err(|reason| at("version", reason))?;
        check_length("description", &self.description)?;
        self.title.as_deref().map_or(Ok(()), |title| check_length("title", title))?;
        if let Some(url) = &self.website_url {
            check_url(url).map_err(|reason| at("websiteUrl", reason))?;
        }
        if let Some(repository) = &self.repository {
            repository.check().map_err(|error| error.prefixed("repository"))?;
        }
        each("icons", &self.icons, |icon| {
            if icon.is_allowed() {
                Ok(())
            } else {
                Err(at("src", "the scheme is not `https`, `http` or `data`"))
            }
        })?;
        each("remotes", &self.remotes, CardRemote::check)?;
        each("packages", &self.packages, CardPackage::check)
    }

    /// Checks the rules that the schema of `server.json` has besides those of cards.
    pub(super) fn check_server_json(&self) -> Checked {
        each("icons", &self.icons, |icon| {
            if !icon.src.starts_with("https://") || icon.src.len() > 255 {
                return Err(at("src", "is not an `https` URL of at most 255 bytes, as a registry requires"));
            }
            if icon.mime_type.as_deref().is_some_and(|media_type| !ICON_TYPES.contains(&media_type)) {
                return Err(at("mimeType", "is not the type of an image that a registry allows"));
            }
            each("sizes", &icon.sizes, |size| {
                let is_size = |(width, height)| is_digits(width) && is_digits(height);
                if size == "any" || size.split_once('x').is_some_and(is_size) {
                    Ok(())
                } else {
                    Err(ValidationError::new("is neither `any` nor of the form `48x48`"))
                }
            })
        })?;
        each("remotes", &self.remotes, |remote| check_scheme(&remote.url).map_err(|reason| at("url", reason)))
    }
}

impl CardRepository {
    fn check(&self) -> Checked {
        check_url(&self.url).map_err(|reason| at("url", reason))?;
        if self.source.is_empty() {
            return Err(at("source", "is empty"));
        }
        let is_clean = |path: &String| {
            !path.contains(['\\', ':']) && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        };
        match &self.subfolder {
            Some(path) if !is_clean(path) => {
                Err(at("subfolder", "is not a relative path without `.` and `..`"))
            }
            _ => Ok(()),
        }
    }
}

impl CardRemote {
    fn check(&self) -> Checked {
        if !matches!(self.transport, CardTransport::StreamableHttp | CardTransport::Sse) {
            return Err(at("type", "is neither `streamable-http` nor `sse`"));
        }
        let variables = self.variables.as_ref();
        check_variables(variables)?;
        let known = |name: &str| check_placeholder(name, variables).map(drop);
        let url = expand(&self.url, known).map_err(|reason| at("url", reason))?;
        match Url::parse(&url) {
            Err(error) => return Err(at("url", format!("{error}"))),
            Ok(url) if !url.origin().secure && !url.origin().is_loopback() => {
                return Err(at("url", "is not `https`"));
            }
            Ok(_) => {}
        }
        check_headers(&self.headers)?;
        each("supportedProtocolVersions", &self.supported_protocol_versions, |version| {
            if version.is_empty() { Err(ValidationError::new("is empty")) } else { Ok(()) }
        })
    }
}

impl CardHeader {
    /// `is_credential` tells that the name alone says that the value is confidential.
    fn check(&self, is_credential: bool) -> Checked {
        if self.value.as_ref().is_some_and(|value| !is_field_value(value)) {
            return Err(at("value", "contains a control character"));
        }
        Given {
            value: self.value.as_ref(),
            default: self.default.as_ref(),
            choices: &self.choices,
            format: self.format.as_ref(),
            variables: self.variables.as_ref(),
            has_variables: true,
            is_secret: is_credential || self.is_secret == Some(true),
        }
        .check()
    }
}

impl CardInput {
    fn check(&self) -> Checked {
        Given {
            value: self.value.as_ref(),
            default: self.default.as_ref(),
            choices: &self.choices,
            format: self.format.as_ref(),
            variables: None,
            has_variables: false,
            is_secret: self.is_secret == Some(true),
        }
        .check()
    }
}

impl CardArgument {
    fn check(&self) -> Checked {
        let (name, hint) = (self.name.as_deref(), self.value_hint.as_deref());
        match self.kind {
            CardArgumentKind::Named if name.unwrap_or_default().is_empty() => {
                return Err(at("name", "is missing"));
            }
            CardArgumentKind::Positional if name.is_some() => {
                return Err(at("name", "has no meaning for a positional argument"));
            }
            CardArgumentKind::Positional if hint.is_none() && self.value.is_none() => {
                return Err(at("valueHint", "is missing, and so is `value`"));
            }
            CardArgumentKind::Other(_) => return Err(at("type", "is neither `positional` nor `named`")),
            _ => {}
        }
        if hint == Some("") {
            return Err(at("valueHint", "is empty"));
        }
        Given {
            value: self.value.as_ref(),
            default: self.default.as_ref(),
            choices: &self.choices,
            format: self.format.as_ref(),
            variables: self.variables.as_ref(),
            has_variables: true,
            is_secret: self.is_secret == Some(true),
        }
        .check()
    }
}

impl CardPackage {
    fn check(&self) -> Checked {
        for (name, text) in [("registryType", &self.registry_type), ("identifier", &self.identifier)] {
            if text.is_empty() {
                return Err(at(name, "is empty"));
            }
        }
        if let Some(version) = &self.version {
            check_version(version).map_err(|reason| at("version", reason))?;
            if version == "latest" {
                return Err(at("version", "is not one version"));
            }
        }
        if let Some(url) = &self.registry_base_url {
            check_url(url).map_err(|reason| at("registryBaseUrl", reason))?;
        }
        let is_hash =
            |hash: &String| hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if self.file_sha256.as_ref().is_some_and(|hash| !is_hash(hash)) {
            return Err(at("fileSha256", "is not 64 lower-case hexadecimal digits"));
        }
        if self.registry_type == "mcpb" && self.file_sha256.is_none() {
            return Err(at("fileSha256", "is missing, and the registry has only files"));
        }
        each("runtimeArguments", &self.runtime_arguments, CardArgument::check)?;
        each("packageArguments", &self.package_arguments, CardArgument::check)?;
        self.check_transport().map_err(|error| error.prefixed("transport"))?;
        each("environmentVariables", &self.environment_variables, |variable| {
            if variable.name.is_empty() || variable.name.contains(['=', '\0']) {
                return Err(at("name", "is not the name of an environment variable"));
            }
            variable.check(false)
        })
    }
}

impl CardPackage {
    fn check_transport(&self) -> Checked {
        let (transport, url) = (&self.transport.transport, &self.transport.url);
        match (transport, url) {
            (CardTransport::Other(_), _) => {
                return Err(at("type", "is not `stdio`, `streamable-http` or `sse`"));
            }
            (CardTransport::Stdio, Some(_)) => return Err(at("url", "has no meaning for `stdio`")),
            (CardTransport::Stdio, None) if !self.transport.headers.is_empty() => {
                return Err(at("headers", "have no meaning for `stdio`"));
            }
            (CardTransport::Stdio, None) => {}
            (_, None) => return Err(at("url", "is missing")),
            (_, Some(url)) => {
                let url = expand(url, |name| {
                    if self.describes(name) {
                        Ok(())
                    } else {
                        Err(format!("no argument or environment variable describes `{{{name}}}`"))
                    }
                });
                check_url(&url.map_err(|reason| at("url", reason))?).map_err(|reason| at("url", reason))?;
                check_scheme(self.transport.url.as_deref().unwrap_or_default())
                    .map_err(|reason| at("url", reason))?;
            }
        }
        check_headers(&self.transport.headers)
    }

    /// Returns whether a placeholder in the URL is the name of an argument, of its value, or of an environment variable.
    fn describes(&self, placeholder: &str) -> bool {
        let is = |name: &Option<String>| name.as_deref() == Some(placeholder);
        let mut arguments = self.runtime_arguments.iter().chain(&self.package_arguments);
        arguments.any(|argument| is(&argument.name) || is(&argument.value_hint))
            || self.environment_variables.iter().any(|variable| variable.name == placeholder)
    }
}

fn check_headers(headers: &[CardHeader]) -> Checked {
    let mut names = BTreeSet::new();
    each("headers", headers, |header| {
        if !is_token(&header.name) {
            return Err(at("name", "is not the name of a header field"));
        }
        if !names.insert(header.name.to_ascii_lowercase()) {
            return Err(at("name", "another header has this name"));
        }
        header.check(fields::is_secret(&header.name))
    })
}

/// Members that headers, variables and arguments have in common.
struct Given<'a> {
    value: Option<&'a String>,
    default: Option<&'a String>,
    choices: &'a [String],
    format: Option<&'a CardInputFormat>,
    variables: Option<&'a Map<CardInput>>,
    /// True if `value` is a template.
    has_variables: bool,
    is_secret: bool,
}

impl Given<'_> {
    fn check(&self) -> Checked {
        let mut asks = false;
        check_variables(self.variables)?;
        let mut is_template = false;
        if let Some(template) = self.value.filter(|_| self.has_variables) {
            for name in placeholders(template) {
                let input = check_placeholder(name, self.variables).map_err(|reason| at("value", reason))?;
                asks |= input.value.is_none() && input.default.is_none();
                is_template = true;
            }
        }
        // A fixed part is fine as long as the user is asked for the secret part: `Bearer {token}`.
        if self.is_secret && (self.value.is_some() && !asks || self.default.is_some()) {
            let name = if self.default.is_some() { "default" } else { "value" };
            return Err(at(name, "is fixed in a public document, but the input is confidential"));
        }
        if self.is_secret && !self.choices.is_empty() {
            return Err(at("choices", "are listed in a public document, but the input is confidential"));
        }
        if let Some(CardInputFormat::Other(_)) = self.format {
            return Err(at("format", "is not `string`, `number`, `boolean` or `filepath`"));
        }
        let fixed = self.value.filter(|_| !is_template);
        for (name, value) in [("value", fixed), ("default", self.default)] {
            let Some(value) = value else { continue };
            self.check_format(value).map_err(|reason| at(name, reason))?;
            if !self.choices.is_empty() && !self.choices.contains(value) {
                return Err(at(name, "is none of the choices"));
            }
        }
        each("choices", self.choices, |choice| self.check_format(choice).map_err(ValidationError::new))
    }

    fn check_format(&self, value: &str) -> Result<(), &'static str> {
        match self.format {
            Some(CardInputFormat::Number) if !is_decimal(value) => Err("is not a number in decimal digits"),
            Some(CardInputFormat::Boolean) if !matches!(value, "true" | "false") => {
                Err("is neither `true` nor `false`")
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether a text is digits, with an optional sign and an optional fraction.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    is_digits(whole) && is_digits(fraction)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the names in braces. Other text in braces is literal, as in an argument that is JSON.
fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    let names = template.split('{').skip(1).filter_map(|behind| behind.split_once('}'));
    names.map(|(name, _)| name).filter(|name| is_variable(name))
}

/// Returns the variable of a placeholder.
fn check_placeholder<'a>(name: &str, variables: Option<&'a Map<CardInput>>) -> Result<&'a CardInput, String> {
    if !is_variable(name) {
        return Err("a placeholder is not the name of a variable".into());
    }
    let input = variables.and_then(|known| known.get(name));
    input.ok_or_else(|| format!("`variables` does not describe the placeholder `{{{name}}}`"))
}

fn check_variables(variables: Option<&Map<CardInput>>) -> Checked {
    for (name, input) in variables.into_iter().flat_map(Map::iter) {
        if !is_variable(name) {
            return Err(at(name, "is not the name of a variable").prefixed("variables"));
        }
        input.check().map_err(|error| error.prefixed(name).prefixed("variables"))?;
    }
    Ok(())
}

/// Returns a template with `1` in place of each placeholder; `known` refuses the name of one that is not described.
///
/// A template that begins with a placeholder gets `https://x`, for the variable holds the beginning of the URL.
fn expand(template: &str, mut known: impl FnMut(&str) -> Result<(), String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((name, after)) = behind.split_once('}') else {
            return Err("a `{` is not closed".into());
        };
        if before.contains('}') {
            return Err("a `}` is not opened".into());
        }
        known(name)?;
        out.push_str(before);
        out.push_str(if out.is_empty() { "https://x" } else { "1" });
        rest = after;
    }
    if rest.contains('}') {
        return Err("a `}` is not opened".into());
    }
    out.push_str(rest);
    Ok(out)
}

/// Checks that a URL or a template of one begins with its scheme, as the schema of `server.json` requires.
fn check_scheme(url: &str) -> Result<(), &'static str> {
    if url.starts_with("https://") || url.starts_with("http://") {
        Ok(())
    } else {
        Err("begins with a placeholder, where a registry requires `https://` or `http://`")
    }
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn is_field_value(value: &str) -> bool {
    value.bytes().all(|b| b == b'\t' || !b.is_ascii_control())
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let allowed = |text: &str, more: &[u8]| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    let is_name = name
        .split_once('/')
        .is_some_and(|(namespace, name)| allowed(namespace, b".-") && allowed(name, b"._-"));
    match name.len() {
        _ if !is_name => Err("is not in reverse-DNS form with one slash, as in `com.example/weather`"),
        3..=200 => Ok(()),
        _ => Err("has not 3 to 200 characters"),
    }
}

fn check_version(version: &str) -> Result<(), &'static str> {
    let is_wild = |part: &str| matches!(part, "x" | "X" | "*");
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let is_range = version.starts_with(['^', '~', '<', '>', '='])
        || version.contains("||")
        || version.contains(" - ")
        || core.split('.').any(is_wild);
    match version.len() {
        0 => Err("is empty"),
        256.. => Err("has more than 255 bytes"),
        _ if is_range => Err("is a range, not one version"),
        _ => Ok(()),
    }
}

fn check_length(member: &'static str, text: &str) -> Checked {
    match text.chars().count() {
        1..=100 => Ok(()),
        0 => Err(at(member, "is empty")),
        _ => Err(at(member, "has more than 100 characters")),
    }
}

fn check_url(text: &str) -> Result<(), String> {
    // A fragment names a part of a page; the parser is for requests, which have none.
    let text = text.split('#').next().unwrap_or_default();
    Url::parse(text).map(drop).map_err(|error| format!("{error}"))
}

/// Checks each element of a list; an error gets its path.
fn each<T>(member: &'static str, items: &[T], mut check: impl FnMut(&T) -> Checked) -> Checked {
    for (index, item) in items.iter().enumerate() {
        check(item).map_err(|error| error.at_index(index).prefixed(member))?;
    }
    Ok(())
}

#[cold]
fn at(member: &str, reason: impl core::fmt::Display) -> ValidationError {
    ValidationError::at_member(member, reason)
}
