//! The `read` command: reads a resource.

use std::io::{self, IsTerminal as _};

use base64::Engine as _;
use clap::Args;
use mcp_proto::CallOptions;
use mcp_proto::model::{ReadResourceParams, ReadResourceResult, RequestParams, ResourceContents};

use super::kept::KeptResults;
use super::{Answer, ShowResult, Verb};
use crate::answer::AnswerArgs;
use crate::args::{RequestArgs, usage};
use crate::failure::CommandFailure;
use crate::request;
use crate::results;
use crate::session::{ClientSession, RequestError};

/// Reads a resource and prints its contents.
///
/// Text is printed with control characters escaped. Binary contents are described by type and size; a single blob that goes to a
/// file or a pipe is written as its bytes. --json prints both unchanged.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe read [OPTIONS] <URI>"))]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) read: Read,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

/// The reading of a resource.
#[derive(Clone, Debug, Args)]
pub(crate) struct Read {
    /// URI of the resource, from `inspect` or from an expanded template.
    uri: String,
}

impl Verb for Read {
    type Request = ReadResourceParams<'static>;
    const NOUN: &'static str = "reading a resource";
    const FORM: &'static str = "URI";
    const SHOW: ShowResult<Self> = results::format_resource;

    fn from_words(words: &[String], kept: &KeptResults) -> Result<Option<(String, Self)>, CommandFailure> {
        let [uri] = words else { return Ok(None) };
        let uri = kept.text(uri)?;
        Ok(Some((format!("read {uri}"), Self { uri })))
    }

    fn send(&mut self, session: &mut ClientSession, options: &CallOptions) -> Result<Answer, RequestError> {
        let params = ReadResourceParams::new(&*self.uri);
        session.request(ReadResourceParams::METHOD, &params, options).map(Answer::from)
    }

    /// Returns the bytes of a single blob, if they do not go to a terminal.
    fn bytes(result: &ReadResourceResult<'static>) -> Option<Vec<u8>> {
        match &*result.contents {
            [ResourceContents::Blob(only)] if !io::stdout().is_terminal() => {
                // Some encoders break lines.
                let text: String = only.blob.split_ascii_whitespace().collect();
                base64::engine::general_purpose::STANDARD.decode(text).ok()
            }
            _ => None,
        }
    }

    fn hint(&self, session: &mut ClientSession) -> Option<String> {
        request::resource_hint(&mut session.client, &self.uri)
    }
}

pub(crate) fn run(args: &ReadArgs) -> Result<(), CommandFailure> {
    super::run(&args.read, &args.request_args, Some(&args.answer_args))
}

const HELP: &str = "\
Examples:
  mcp-probe read test://static-text -- mcp-probe serve --everything
  mcp-probe read test://static-binary -- mcp-probe serve --everything > dot.png
  mcp-probe read --json file:///etc/hostname -- my-server | \\
      jq -r .contents[0].text";
