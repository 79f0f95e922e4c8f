//! The configuration file of a gateway: its servers, with the members of their entries that other clients do not know.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;
use std::fs;
use std::path::PathBuf;

use mcp_proto_proxy::host::{Pattern, Patterns, Rules, Server as Upstream};
use mcp_proto_proxy::upstream_name;
use serde_json::{Map, Value};

use crate::args::authorization::TokenStoreArgs;
use crate::args::{self, ProxyArgs};
use crate::authorization;
use crate::escape;
use crate::failure::CommandFailure;
use crate::notes::print_note;
use crate::output::join_names;
use crate::proxy::UpstreamOpener;
use crate::server::{Location, NamedServer, Server};

/// The file with the servers, which may change.
pub(super) struct ServerFile {
    path: PathBuf,
    proxy: Arc<ProxyArgs>,
    store: TokenStoreArgs,
    allow_http: Vec<String>,
    /// Its content when it was read: one that is written anew may have the time and the length of the last one.
    seen: Option<Vec<u8>>,
    /// Its servers when it was read without a mistake. Those that are the same go on.
    openers: Vec<Arc<UpstreamOpener>>,
}

impl ServerFile {
    pub(super) const fn new(
        path: PathBuf,
        proxy: Arc<ProxyArgs>,
        store: TokenStoreArgs,
        allow_http: Vec<String>,
    ) -> Self {
        Self { path, proxy, store, allow_http, seen: None, openers: Vec::new() }
    }

    /// Returns whether the file has changed since it was read.
    pub(super) fn has_changed(&self) -> bool {
        self.content() != self.seen
    }

    /// The content of a file; what is read only once, such as a pipe, has none.
    fn content(&self) -> Option<Vec<u8>> {
        fs::metadata(&self.path).ok().filter(fs::Metadata::is_file)?;
        fs::read(&self.path).ok()
    }

    /// Reads the servers of the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if something in it is wrong. The message names the file, the member and its line, and
    /// contains no values.
    pub(super) fn read(&mut self) -> Result<Vec<Upstream>, CommandFailure> {
        // Before it is read, so that a change meanwhile is seen.
        self.seen = self.content();
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let (mut all, mut openers) = (Vec::new(), Vec::new());
        for server in Server::all_from_config(&self.path)? {
            let name = upstream_name(&server.name);
            if name.is_empty() {
                return Err(server.at.failure("has no name").into());
            }
            if let Some(other) = names.insert(name.clone(), server.name.clone()) {
                let why = format!("is named `{name}` behind the gateway, as `{other}` is: rename one");
                return Err(server.at.failure(&why).into());
            }
            let (opener, max_calls, rules) = self.upstream(name, server)?;
            let upstream = Upstream::new(opener.name.as_deref().unwrap_or_default(), opener.clone());
            all.push(upstream.max_calls(max_calls).rules(rules));
            openers.push(opener);
        }
        self.openers = openers;
        Ok(all)
    }

    /// Returns how a server is connected to, its largest number of calls in flight, so that one slow server leaves room for those of
    /// others, and its rules.
    fn upstream(
        &self,
        name: String,
        server: NamedServer,
    ) -> Result<(Arc<UpstreamOpener>, usize, Rules), CommandFailure> {
        let NamedServer { mut server, members, at, .. } = server;
        let (max_calls, timeout) = limits(&members, &at)?;
        let rules = rules(&members, &at)?;
        if let Some(member) = members.keys().find(|name| Member::of(name) == Member::NearRule) {
            // What it was to hide would be shown.
            let why = "is no rule: there are `allow`, `hide`, `principals` and `limits`";
            return Err(at.member(member).failure(why).into());
        }
        let unknown = members.keys().filter(|name| Member::of(name) == Member::Unknown);
        let unknown = join_names(unknown.map(|member| &**member));
        if !unknown.is_empty() {
            print_note(&format!("{}: not used: {}", escape::line(&at.describe()), escape::line(&unknown)));
        }
        let authorizer = authorization::for_stored_tokens(&self.store, &self.allow_http, &mut server)?;
        let timeout = timeout.unwrap_or(self.proxy.timeout);
        let args = Arc::clone(&self.proxy);
        let opener = UpstreamOpener { name: Some(name), args, timeout, server, authorizer };
        let mut before = self.openers.iter();
        let same = before.find(|before| {
            before.name == opener.name && before.server == opener.server && before.timeout == opener.timeout
        });
        Ok((same.map_or_else(|| Arc::new(opener), Arc::clone), max_calls, rules))
    }
}

/// Reads `limits`, which has defaults: the number of calls in flight, and the time for one.
fn limits(members: &Map<String, Value>, at: &Location) -> Result<(usize, Option<Duration>), CommandFailure> {
    let at = at.member("limits");
    let Some(limits) = members.get("limits") else { return Ok((DEFAULT_CALLS, None)) };
    let limits = limits.as_object().ok_or_else(|| at.failure("must be an object"))?;
    let (mut calls, mut timeout) = (DEFAULT_CALLS, None);
    for (name, value) in limits {
        let at = at.member(name);
        match &**name {
            "calls" => {
                let number = value.as_u64().filter(|number| (1..=MAX_CALLS).contains(number));
                let number = number.and_then(|number| usize::try_from(number).ok());
                calls =
                    number.ok_or_else(|| at.failure(&format!("must be a number from 1 to {MAX_CALLS}")))?;
            }
            "timeout" => {
                let text =
                    value.as_str().ok_or_else(|| at.failure("must be a string, for example \"30s\""))?;
                timeout = Some(args::duration(text).map_err(|why| at.failure(&why))?);
            }
            _ => return Err(at.failure("is no limit: there are `calls` and `timeout`").into()),
        }
    }
    Ok((calls, timeout))
}

/// Reads the rules in the entry of a server: the members `allow`, `hide` and `principals`.
fn rules(members: &Map<String, Value>, at: &Location) -> Result<Rules, CommandFailure> {
    let mut rules = Rules { common: patterns(members, at)?, ..Rules::default() };
    let at = at.member("principals");
    let listed = match members.get("principals") {
        None => &Map::new(),
        Some(listed) => listed.as_object().ok_or_else(|| at.failure("must be an object"))?,
    };
    for (name, members) in listed {
        let at = at.member(name);
        let members = members.as_object().ok_or_else(|| at.failure("must be an object"))?;
        if let Some(other) = members.keys().find(|member| !["allow", "hide"].contains(&&***member)) {
            return Err(at.member(other).failure("is no rule: there are `allow` and `hide`").into());
        }
        rules.principals.insert(name.clone(), patterns(members, &at)?);
    }
    Ok(rules)
}

fn patterns(members: &Map<String, Value>, at: &Location) -> Result<Patterns, CommandFailure> {
    let list = |member: &str| {
        let Some(list) = members.get(member) else { return Ok(None) };
        let at = at.member(member);
        let list = list.as_array().ok_or_else(|| at.failure("must be an array of strings"))?;
        let patterns = list.iter().enumerate().map(|(index, pattern)| {
            let fail = |why| at.element(index).failure(why);
            let pattern = pattern.as_str().filter(|pattern| !pattern.is_empty());
            let pattern =
                pattern.ok_or_else(|| fail("must be a name or a URI; * stands for any characters"))?;
            Pattern::new(pattern)
                .ok_or_else(|| fail("must have no segment `.` or `..`: write where it leads to"))
        });
        patterns.collect::<Result<Vec<_>, _>>().map(Some)
    };
    Ok(Patterns { allow: list("allow")?, hide: list("hide")?.unwrap_or_default() })
}

/// What a member of an entry is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    /// It is used here or by the file's readers.
    Used,
    /// Its name is written for that of a rule or limit, in any case. Restrictions of other clients are not among them, so that they may have
    /// the same file.
    NearRule,
    /// It is named in a note.
    Unknown,
}

impl Member {
    fn of(name: &str) -> Self {
        match name {
            "allow" | "args" | "command" | "cwd" | "disabled" | "enabled" | "env" | "envFile"
            | "environment" | "headers" | "hide" | "httpUrl" | "limits" | "principals" | "serverUrl"
            | "source" | "type" | "url" => Self::Used,
            name => match &*name.to_ascii_lowercase() {
                "allow" | "allowed" | "allows" | "block" | "blocked" | "denied" | "deny" | "exclude"
                | "excluded" | "hidden" | "hide" | "hides" | "include" | "included" | "limit" | "limits"
                | "principal" | "principals" | "rule" | "rules" => Self::NearRule,
                _ => Self::Unknown,
            },
        }
    }
}

/// Limit of calls in flight of a server without `limits.calls`. Lists do not count.
const DEFAULT_CALLS: usize = 64;
/// Largest limit of calls in flight: that of the engine in front.
const MAX_CALLS: u64 = 1_024;
