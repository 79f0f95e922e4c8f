//! The servers and traces that an agent may reach: what the command line names, and nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use mcp_proto::http::Url;
use mcp_proto_trace::Secrets;
use mcp_std::io::StreamAddress;
use serde::Serialize;

use super::McpArgs;
use crate::args::{DraftArgs, ServerArgs, ServerPlaceArgs, is_url};
use crate::escape;
use crate::failure::CommandFailure;
use crate::handed_over;
use crate::server::Server;

/// Everything that is allowed.
#[derive(Default)]
pub(super) struct Allowed {
    servers: Vec<AllowedServer>,
    /// Folder of the traces, resolved.
    traces: Option<PathBuf>,
    drafts: DraftArgs,
}

struct AllowedServer {
    name: String,
    place: Place,
}

/// How a server is reached.
enum Place {
    /// The words of a command, a URL or an address.
    Words(Vec<String>),
    /// All URLs of this origin whose paths begin so.
    Prefix(Url),
    /// A server of a configuration file, as it was at the start: an agent that can write the file must not name another program.
    Config(Box<Server>),
}

/// How a process of this program reaches a server.
#[derive(Default)]
pub(super) struct Reach {
    /// The words at the end of its command line.
    pub(super) words: Vec<OsString>,
    /// Variables of its environment.
    pub(super) variables: Vec<(&'static str, String)>,
    /// What its output must not show.
    pub(super) secrets: Secrets,
}

/// A server in the answer of the tool `servers`.
#[derive(Serialize)]
pub(super) struct ListedServer<'a> {
    name: &'a str,
    kind: &'static str,
}

impl Allowed {
    /// Reads what the options allow.
    ///
    /// # Errors
    ///
    /// Fails if a value is invalid, if a file cannot be read, or if two servers have one name.
    pub(super) fn from_args(args: &McpArgs) -> Result<Self, CommandFailure> {
        let mut allowed = Self { drafts: args.drafts, ..Self::default() };
        for text in &args.allow {
            let (name, place) = parse_server(text)
                .map_err(|why| CommandFailure::usage(format!("--allow {}: {why}", shown(text))))?;
            allowed.add(name, place)?;
        }
        for text in &args.allow_config {
            for (name, place) in read_config(text)? {
                allowed.add(name, place)?;
            }
        }
        if let Some(folder) = &args.allow_traces {
            let resolved = folder.canonicalize();
            allowed.traces = Some(resolved.map_err(|error| {
                CommandFailure::usage(format!("--allow-traces {}: {error}", folder.display()))
            })?);
        }
        Ok(allowed)
    }

    fn add(&mut self, name: String, place: Place) -> Result<(), CommandFailure> {
        if self.servers.iter().any(|server| server.name == name) {
            return Err(CommandFailure::usage(format!("two servers are allowed with the name `{name}`")));
        }
        self.servers.push(AllowedServer { name, place });
        Ok(())
    }

    /// Returns whether no server is allowed.
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    pub(super) const fn has_traces(&self) -> bool {
        self.traces.is_some()
    }

    pub(super) fn list(&self) -> Vec<ListedServer<'_>> {
        let list = self.servers.iter().map(|AllowedServer { name, place }| ListedServer {
            name,
            kind: match place {
                Place::Words(words) if is_url(&words[0]) => "url",
                Place::Words(words) if is_connection(words) => "connection",
                Place::Words(words) if StreamAddress::is_socket(&words[0]) => "socket",
                Place::Words(_) => "command",
                Place::Prefix(_) => "urls",
                Place::Config(_) => "config",
            },
        });
        list.collect()
    }

    /// Returns how a server is reached.
    ///
    /// # Errors
    ///
    /// The reason why the server may not be reached.
    pub(super) fn reach(&self, name: &str) -> Result<Reach, String> {
        // Nothing behind `--` but the server, so that no other word is taken for it.
        let words = self.drafts.are_followed.then_some("--draft").into_iter().chain(["--"]);
        let mut reach = Reach { words: words.map(OsString::from).collect(), ..Reach::default() };
        let named = self.servers.iter().find(|server| server.name == name);
        match named.map(|server| &server.place) {
            Some(Place::Words(words)) => {
                reach.words.extend(words.iter().map(OsString::from));
                if let Some(url) = words.first().and_then(|word| Url::parse(word).ok()) {
                    reach.variables.push((handed_over::PATH, url.target().to_owned()));
                    let query = url.target().split_once('?').map_or("", |(_, query)| query);
                    reach.secrets.add(query);
                    query
                        .split('&')
                        .filter_map(|part| part.split_once('='))
                        .for_each(|(_, value)| reach.secrets.add(value));
                }
            }
            Some(Place::Config(server)) => {
                server.named_secrets().iter().for_each(|secret| reach.secrets.add(secret));
                let server = serde_json::to_string(server).map_err(|error| error.to_string())?;
                reach.variables.push((handed_over::SERVER, server));
            }
            Some(Place::Prefix(_)) | None => {
                let prefix = self.prefix_of(name).ok_or_else(|| self.refusal(name))?;
                reach.words.push(name.into());
                // All of the origin is not bounded any more than by the client.
                if prefix.target() != "/" {
                    reach.variables.push((handed_over::PATH, format!("{}*", prefix.target())));
                }
            }
        }
        Ok(reach)
    }

    /// Returns the prefix that allows a URL.
    fn prefix_of(&self, text: &str) -> Option<&Url> {
        // Spellings that a server may take for another path.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:[]".contains(c);
        if !text.chars().all(is_plain) || text.contains("/.") {
            return None;
        }
        let url = Url::parse(text).ok()?;
        let mut prefixes = self.servers.iter().filter_map(|server| match &server.place {
            Place::Prefix(prefix) => Some(prefix),
            _ => None,
        });
        prefixes.find(|prefix| url.origin() == prefix.origin() && url.target().starts_with(prefix.target()))
    }

    fn refusal(&self, name: &str) -> String {
        format!("the server {} is not allowed: the tool `servers` lists those that are", shown(name))
    }

    /// Reads a trace of the folder of the traces.
    ///
    /// # Errors
    ///
    /// The reason why it may not be read. It does not tell what exists outside of the folder.
    pub(super) fn trace(&self, file: &str) -> Result<Vec<u8>, String> {
        let refused = || format!("there is no trace {} in the folder of the traces", shown(file));
        let folder = self.traces.as_deref().ok_or_else(refused)?;
        let path = Path::new(file);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        // What is opened is what is read: a link that is put there later leads nowhere.
        let file = if is_below { open_below(folder, path).ok() } else { None };
        let is_file = |file: &File| file.metadata().is_ok_and(|metadata| metadata.is_file());
        let file = file.filter(is_file).ok_or_else(refused)?;
        let mut trace = Vec::new();
        file.take(MAX_TRACE).read_to_end(&mut trace).map_err(|_| refused())?;
        Ok(trace)
    }
}

/// Opens a file below a folder, following no link.
#[cfg(unix)]
fn open_below(folder: &Path, file: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, openat};

    let mut opened = File::open(folder)?;
    for part in file {
        // A pipe is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        opened = openat(&opened, part, flags, Mode::empty())?.into();
    }
    Ok(opened)
}

/// Opens a file below a folder. A link is followed if it does not lead out of the folder.
#[cfg(not(unix))]
fn open_below(folder: &Path, file: &Path) -> io::Result<File> {
    let path = folder.join(file).canonicalize()?;
    if path.starts_with(folder) { File::open(path) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Quotes a text of an agent, or of the command line, in a message.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(100).collect();
    format!("`{}`", escape::line(&short))
}

/// Returns whether these words are a connection that `connect` keeps.
fn is_connection(words: &[String]) -> bool {
    words.len() == 1 && words[0].starts_with('@')
}

/// Parses a value of `--allow`.
fn parse_server(text: &str) -> Result<(String, Place), &'static str> {
    if is_url(text) {
        return match parse_url(text)? {
            Place::Words(_) if text.contains('?') => Err("a URL with a query needs a name: write NAME=URL"),
            place => Ok((text.to_owned(), place)),
        };
    }
    let (name, server) = text.split_once('=').ok_or("write NAME=SERVER, or a URL")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err("a name has 1 to 64 letters, digits and any of -_.");
    }
    if is_url(server) {
        return match parse_url(server)? {
            Place::Prefix(_) => Err("a URL with /* at its end stands for many, and has no name"),
            place => Ok((name.to_owned(), place)),
        };
    }
    let words: Vec<String> = if server.starts_with('[') {
        serde_json::from_str(server).map_err(|_| "the command is not a JSON array of strings")?
    } else {
        server.split_whitespace().map(str::to_owned).collect()
    };
    match words.first() {
        Some(first) if is_url(first) => Err("the command is a URL: write NAME=URL"),
        Some(first) if !first.is_empty() => Ok((name.to_owned(), Place::Words(words))),
        _ => Err("the command has no words"),
    }
}

fn parse_url(text: &str) -> Result<Place, &'static str> {
    let prefix = text.strip_suffix('*');
    let url = Url::parse(prefix.unwrap_or(text)).map_err(|_| "this is no URL")?;
    let path = text.split_once("://").map_or("", |(_, rest)| rest);
    match prefix {
        None if !text.contains('*') => Ok(Place::Words(vec![text.to_owned()])),
        Some(prefix) if prefix.ends_with('/') && !prefix.contains(['?', '#', '%', '*', '\\']) => {
            // Another spelling than that of the path which is meant.
            let is_plain = !path.contains("//") && !path.contains("/.");
            is_plain
                .then_some(Place::Prefix(url))
                .ok_or("the path of a URL with /* has no part that is empty or begins with .")
        }
        _ => Err("* stands behind the last / of a URL"),
    }
}

/// Reads a value of `--allow-config`: all servers of a file, or one.
fn read_config(text: &str) -> Result<Vec<(String, Place)>, CommandFailure> {
    let (file, name) = match text.rsplit_once('#') {
        Some((file, name)) if !Path::new(text).exists() => (file, Some(name)),
        _ => (text, None),
    };
    let Some(name) = name else {
        let all = Server::all_from_config(Path::new(file))?.into_iter();
        return Ok(all.map(|named| (named.name, Place::Config(Box::new(named.server)))).collect());
    };
    let place = ServerPlaceArgs {
        config: Some(file.into()),
        server_name: Some(name.to_owned()),
        serial: None,
        command: Vec::new(),
    };
    let server = Server::from_args(&ServerArgs { env: Vec::new(), bearer: None, header: Vec::new(), place })?;
    Ok(vec![(name.to_owned(), Place::Config(Box::new(server)))])
}

/// Maximum number of bytes that are read of a trace.
const MAX_TRACE: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(texts: &[&str]) -> Allowed {
        let mut allowed = Allowed::default();
        for text in texts {
            let (name, place) = parse_server(text).expect("valid");
            allowed.add(name, place).expect("new");
        }
        allowed
    }

    #[test]
    fn urls_are_allowed_by_their_origin_and_path() {
        let allowed = allowed(&["https://h.example/team/*", "http://127.0.0.1:8080/mcp"]);
        for url in
            ["https://h.example/team/a/mcp", "https://H.example:443/team/", "http://127.0.0.1:8080/mcp"]
        {
            assert!(allowed.reach(url).is_ok_and(|reach| reach.words == ["--", url]), "{url}");
        }
        for url in [
            "https://h.example/other",
            "https://h.example/teams/a",
            "https://h.example/team/../other",
            "https://h.example/team/%2e%2e/other",
            "https://h.example/team/..%2fother",
            "https://h.example/team/.\\other",
            "https://h.example/team/a?x=1",
            "https://h.example/team/a#b",
            "https://user@h.example/team/a",
            "https://h.example@evil.example/team/a",
            "https://h.example.evil.example/team/a",
            "https://h.example:8443/team/a",
            "http://h.example/team/a",
            "https://evil.example/https://h.example/team/a",
            "http://127.0.0.1:8080/mcp/x",
            "https://h.example/team/*",
            "../x",
            "",
            "--config",
            "sh -c true",
        ] {
            let refused = allowed.reach(url).err().unwrap_or_else(|| panic!("{url}"));
            assert!(refused.contains("is not allowed"), "{url}: {refused}");
        }
    }

    #[test]
    fn commands_are_the_words_that_the_user_has_written() {
        let allowed =
            allowed(&["a=my-server --port 1", r#"b.2=["my server", "", "x y"]"#, "c=tcp://h:1", "d=@lab"]);
        let words = |name: &str| allowed.reach(name).map(|reach| reach.words);
        assert_eq!(words("a"), Ok(["--", "my-server", "--port", "1"].map(OsString::from).into()));
        assert_eq!(words("b.2"), Ok(["--", "my server", "", "x y"].map(OsString::from).into()));
        let kinds: Vec<_> = allowed.list().into_iter().map(|server| server.kind).collect();
        assert_eq!(kinds, ["command", "command", "socket", "connection"]);
        for wrong in [
            "a",
            "=x",
            "a b=x",
            "a=",
            "a=[1]",
            "a=[]",
            "a=http://h/*",
            "http://h*",
            "http://",
            "http://h/?q=*",
            "http://h/x?key=abc",
            r#"a=["http://h/x"]"#,
            "http://h/../x/*",
            "http://h//x/*",
            "a=http://h/*?key=abc",
        ] {
            assert!(parse_server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn messages_quote_hostile_names_harmlessly() {
        let refused = Allowed::default().reach("\u{1b}[2J\u{202e}").err().expect("refused");
        assert!(refused.contains(r"`\u001b[2J\u202e`"), "{refused}");
    }
}
