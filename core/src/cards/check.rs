//! Validation of cards before they are written.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::{
    CardHeader, CardInput, CardInputFormat, CardPackage, CardRemote, CardRepository, CardTransport,
    ServerCard,
};
use crate::fields;
use crate::model::{Map, ValidationError};
use crate::url::Url;

type Checked = Result<(), ValidationError>;

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
        let url = expand(&self.url, variables).map_err(|reason| at("url", reason))?;
        match Url::parse(&url) {
            Err(error) => return Err(at("url", format!("{error}"))),
            Ok(url) if !url.origin().secure && !url.origin().is_loopback() => {
                return Err(at("url", "is not `https`"));
            }
            Ok(_) => {}
        }
        let mut names = BTreeSet::new();
        each("headers", &self.headers, |header| {
            if !is_token(&header.name) {
                return Err(at("name", "is not the name of a header field"));
            }
            if !names.insert(header.name.to_ascii_lowercase()) {
                return Err(at("name", "another header has this name"));
            }
            header.check(fields::is_secret(&header.name))
        })?;
        each("supportedProtocolVersions", &self.supported_protocol_versions, |version| {
            if version.is_empty() { Err(ValidationError::new("is empty")) } else { Ok(()) }
        })
    }
}

impl CardHeader {
    /// `is_credential` tells that the name alone says that the value is confidential.
    fn check(&self, is_credential: bool) -> Checked {
        check_variables(self.variables.as_ref())?;
        if let Some(value) = &self.value {
            expand(value, self.variables.as_ref()).map_err(|reason| at("value", reason))?;
            if !is_field_value(value) {
                return Err(at("value", "contains a control character"));
            }
        }
        let is_secret = is_credential || self.is_secret == Some(true);
        // A fixed value is fine as long as the secret part is asked for: `Bearer {token}`.
        let fixed = self.value.as_ref().filter(|value| !value.contains('{'));
        check_input(fixed, self.default.as_ref(), &self.choices, self.format.as_ref(), is_secret)
    }
}

impl CardInput {
    fn check(&self) -> Checked {
        let is_secret = self.is_secret == Some(true);
        check_input(
            self.value.as_ref(),
            self.default.as_ref(),
            &self.choices,
            self.format.as_ref(),
            is_secret,
        )
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
        let (transport, url) = (&self.transport.transport, &self.transport.url);
        let reason = match (transport, url) {
            (CardTransport::Other(_), _) => Some(at("type", "is not `stdio`, `streamable-http` or `sse`")),
            (CardTransport::Stdio, Some(_)) => Some(at("url", "has no meaning for `stdio`")),
            (CardTransport::StreamableHttp | CardTransport::Sse, None) => Some(at("url", "is missing")),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(reason.prefixed("transport"));
        }
        each("environmentVariables", &self.environment_variables, |variable| {
            if variable.name.is_empty() || variable.name.contains(['=', '\0']) {
                return Err(at("name", "is not the name of an environment variable"));
            }
            variable.check(false)
        })
    }
}

/// Checks what a header and a variable have in common; `fixed` is the value if the user has no part in it.
fn check_input(
    fixed: Option<&String>,
    default: Option<&String>,
    choices: &[String],
    format: Option<&CardInputFormat>,
    is_secret: bool,
) -> Checked {
    if let Some(CardInputFormat::Other(_)) = format {
        return Err(at("format", "is not `string`, `number`, `boolean` or `filepath`"));
    }
    let given = [("value", fixed), ("default", default)];
    for (name, value) in given.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))) {
        if is_secret {
            return Err(at(name, "is fixed in a public document, but the input is confidential"));
        }
        if !choices.is_empty() && !choices.contains(value) {
            return Err(at(name, "is none of the choices"));
        }
    }
    if is_secret && !choices.is_empty() {
        return Err(at("choices", "are listed in a public document, but the input is confidential"));
    }
    Ok(())
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

/// Returns a template with `x` in place of each placeholder, which must be one of the variables.
///
/// A template that begins with a placeholder gets `https://x`, for the variable holds the beginning of the URL.
fn expand(template: &str, variables: Option<&Map<CardInput>>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((name, after)) = behind.split_once('}') else {
            return Err("a `{` is not closed".into());
        };
        if before.contains('}') {
            return Err("a `}` is not opened".into());
        }
        if !is_variable(name) {
            return Err("a placeholder is not the name of a variable".into());
        }
        if variables.is_none_or(|known| known.get(name).is_none()) {
            return Err(format!("`variables` does not describe the placeholder `{{{name}}}`"));
        }
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
