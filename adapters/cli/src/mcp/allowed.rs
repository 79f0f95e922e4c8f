//! The servers and traces that an agent may reach: what the command line names, and nothing else.

use std::ffi::OsString;
use std::fs;
use std::path::{self, Path, PathBuf};

use mcp_proto::http::Url;
use mcp_std::io::StreamAddress;
use serde::Serialize;

use super::McpArgs;
use crate::args::{ServerArgs, ServerPlaceArgs, is_url};
use crate::escape;
use crate::failure::CommandFailure;
use crate::server::Server;

/// Everything that is allowed.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    servers: Vec<AllowedServer>,
    /// Folder of the traces, resolved.
    traces: Option<PathBuf>,
}

#[derive(Debug)]
struct AllowedServer {
    name: String,
    place: Place,
}

/// How a server is reached.
#[derive(Debug)]
enum Place {
    /// The words of a command, a URL or an address.
    Words(Vec<String>),
    /// All URLs of this origin whose paths begin so.
    Prefix(Url),
    /// A server of a configuration file, as it was at the start.
    Config(Snapshot),
}

/// A configuration file at the start: an agent that can write it must not name another program.
#[derive(Clone, Debug)]
struct Snapshot {
    file: PathBuf,
    content: Vec<u8>,
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
        let mut allowed = Self::default();
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
                Place::Words(words) if StreamAddress::is_socket(&words[0]) => "socket",
                Place::Words(_) => "command",
                Place::Prefix(_) => "urls",
                Place::Config(_) => "config",
            },
        });
        list.collect()
    }

    /// Returns the words that name a server at the end of a command line of this program.
    ///
    /// # Errors
    ///
    /// The reason why the server may not be reached.
    pub(super) fn server_words(&self, name: &str) -> Result<Vec<OsString>, String> {
        let named = self.servers.iter().find(|server| server.name == name);
        let words = match named.map(|server| &server.place) {
            Some(Place::Words(words)) => words.iter().map(OsString::from).collect(),
            Some(Place::Config(config)) => {
                if fs::read(&config.file).ok().as_ref() != Some(&config.content) {
                    return Err(format!(
                        "the configuration of the server `{name}` has changed: it is read again at the next start"
                    ));
                }
                let file = config.file.clone().into_os_string();
                // Nothing behind `--`, so that no other word is taken for the server.
                return Ok(vec!["--config".into(), file, format!("--server={name}").into(), "--".into()]);
            }
            Some(Place::Prefix(_)) | None => match self.allowed_url(name) {
                Some(url) => vec![url.into()],
                None => return Err(self.refusal(name)),
            },
        };
        Ok([vec![OsString::from("--")], words].concat())
    }

    /// Returns a URL as it is sent, if a prefix allows it.
    fn allowed_url(&self, text: &str) -> Option<String> {
        // Spellings that a server may take for another path.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:[]".contains(c);
        if !text.chars().all(is_plain) || text.contains("/.") {
            return None;
        }
        let url = Url::parse(text).ok()?;
        let fits =
            |prefix: &Url| url.origin() == prefix.origin() && url.target().starts_with(prefix.target());
        let mut prefixes = self.servers.iter().filter_map(|server| match &server.place {
            Place::Prefix(prefix) => Some(prefix),
            _ => None,
        });
        prefixes.any(fits).then(|| text.to_owned())
    }

    fn refusal(&self, name: &str) -> String {
        format!("the server {} is not allowed: the tool `servers` lists those that are", shown(name))
    }

    /// Returns the path of a trace in the folder of the traces.
    ///
    /// # Errors
    ///
    /// The reason why it may not be read. It does not tell what exists outside of the folder.
    pub(super) fn trace(&self, file: &str) -> Result<PathBuf, String> {
        let refused = || format!("there is no trace {} in the folder of the traces", shown(file));
        let folder = self.traces.as_deref().ok_or_else(refused)?;
        // Links are resolved, so that none leads out of the folder.
        let path = folder.join(file).canonicalize().map_err(|_| refused())?;
        if path.starts_with(folder) && path.is_file() { Ok(path) } else { Err(refused()) }
    }
}

/// Quotes a text of an agent, or of the command line, in a message.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(100).collect();
    format!("`{}`", escape::line(&short))
}

/// Parses a value of `--allow`.
fn parse_server(text: &str) -> Result<(String, Place), &'static str> {
    if is_url(text) {
        return Ok((text.to_owned(), parse_url(text)?));
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
    if words.first().is_none_or(String::is_empty) {
        return Err("the command has no words");
    }
    Ok((name.to_owned(), Place::Words(words)))
}

fn parse_url(text: &str) -> Result<Place, &'static str> {
    let prefix = text.strip_suffix('*');
    let url = Url::parse(prefix.unwrap_or(text)).map_err(|_| "this is no URL")?;
    match prefix {
        None => Ok(Place::Words(vec![text.to_owned()])),
        Some(prefix) if prefix.ends_with('/') && !prefix.contains(['?', '#', '%']) => Ok(Place::Prefix(url)),
        Some(_) => Err("* stands behind the last / of a URL"),
    }
}

/// Reads a value of `--allow-config`: all servers of a file, or one.
fn read_config(text: &str) -> Result<Vec<(String, Place)>, CommandFailure> {
    let (file, name) = match text.rsplit_once('#') {
        Some((file, name)) if !Path::new(text).exists() => (file, Some(name)),
        _ => (text, None),
    };
    let unread = |error: std::io::Error| CommandFailure::usage(format!("--allow-config {file}: {error}"));
    // What is looked at is what is kept: the entries are read after it.
    let file = path::absolute(file).map_err(unread)?;
    let snapshot = Snapshot { content: fs::read(&file).map_err(unread)?, file };
    let names = match name {
        Some(name) => {
            let place = ServerPlaceArgs {
                config: Some(snapshot.file.clone()),
                server_name: Some(name.to_owned()),
                serial: None,
                command: Vec::new(),
            };
            Server::from_args(&ServerArgs { env: Vec::new(), bearer: None, header: Vec::new(), place })?;
            vec![name.to_owned()]
        }
        None => Server::all_from_config(&snapshot.file)?.into_iter().map(|server| server.name).collect(),
    };
    Ok(names.into_iter().map(|name| (name, Place::Config(snapshot.clone()))).collect())
}

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
            assert!(allowed.server_words(url).is_ok_and(|words| words == ["--", url]), "{url}");
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
            let refused = allowed.server_words(url).expect_err(url);
            assert!(refused.contains("is not allowed"), "{url}: {refused}");
        }
    }

    #[test]
    fn commands_are_the_words_that_the_user_has_written() {
        let allowed = allowed(&["a=my-server --port 1", r#"b.2=["my server", "", "x y"]"#, "c=tcp://h:1"]);
        assert_eq!(
            allowed.server_words("a"),
            Ok(["--", "my-server", "--port", "1"].map(OsString::from).into())
        );
        assert_eq!(
            allowed.server_words("b.2"),
            Ok(["--", "my server", "", "x y"].map(OsString::from).into())
        );
        let kinds: Vec<_> = allowed.list().into_iter().map(|server| server.kind).collect();
        assert_eq!(kinds, ["command", "command", "socket"]);
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
        ] {
            assert!(parse_server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn messages_quote_hostile_names_harmlessly() {
        let refused = Allowed::default().server_words("\u{1b}[2J\u{202e}").expect_err("refused");
        assert!(refused.contains(r"`\u001b[2J\u202e`"), "{refused}");
    }
}
