//! `serve --mock`: a server that a file or a trace defines.

use alloc::sync::Arc;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::PathBuf;

use clap::Args;

use mcp_mock::Definition;

use crate::failure::CommandFailure;
use crate::notes::print_note;
use crate::server::Location;
use crate::trace::read_from;

/// Options of a server that a file or a trace defines.
#[derive(Args, Debug)]
pub(crate) struct MockArgs {
    /// Serves what this file or this trace defines instead of the demonstration.
    ///
    /// FILE is JSON, in which comments are allowed, with the members server, tools, resources, resourceTemplates and
    /// prompts, or a trace of `mcp-probe tap`. A tool called with arguments that have no answer gets an error that names the
    /// nearest ones. Arguments are not compared with schemas. A trace becomes the lists, results and errors that it has; what
    /// was left without an answer, errors for what was not listed, questions to the client, notifications and completions are
    /// left out. `replay --serve` plays
    /// the recorded messages themselves to one client on stdio; this is a server of any era and transport.
    #[arg(long, value_name = "FILE", conflicts_with = "everything")]
    pub(crate) mock: Option<PathBuf>,
    /// Answers after the time that the recorded server took.
    #[arg(long, requires = "mock")]
    pub(crate) mock_delays: bool,
    /// What the file defines.
    #[arg(skip)]
    pub(crate) definition: Option<Arc<Definition>>,
}

impl MockArgs {
    /// Reads the file, if one is given.
    ///
    /// # Errors
    ///
    /// Fails if it is neither a trace nor a definition.
    pub(super) fn load(&mut self) -> Result<(), CommandFailure> {
        let Some(path) = &self.mock else { return Ok(()) };
        let failed = |error: std::io::Error| Location::top(path).failure(&error.to_string());
        let mut file = File::open(path).map_err(failed)?;
        let mut begin = Vec::new();
        file.by_ref().take(64).read_to_end(&mut begin).map_err(failed)?;
        // A trace begins like this, whatever its version.
        let is_trace = begin.starts_with(b"{\"mcpTrace\"");
        // What was read is not there again if the file is a pipe.
        let content = BufReader::new(std::io::Cursor::new(begin).chain(file));
        let definition = if is_trace {
            let trace = read_from(content, path, MAX_TRACE)?;
            let (definition, left_out) = Definition::from_trace(&trace, self.mock_delays);
            if left_out > 0 {
                print_note(&format!(
                    "the trace {}: {left_out} of its entries and results cannot be read, and are left out",
                    path.display()
                ));
            }
            definition
        } else if self.mock_delays {
            return Err(CommandFailure::usage("--mock-delays needs a trace; a file has the member `after`"));
        } else {
            Definition::from_file(content, path, HINT)?
        };
        self.definition = Some(Arc::new(definition));
        Ok(())
    }
}

const HINT: &str = "`mcp-probe serve --help` shows a file; a trace begins with {\"mcpTrace\":1";
/// Largest trace that is read into memory.
const MAX_TRACE: u64 = 512 << 20;

/// Text of `serve --help` about files.
pub(crate) const MOCK_HELP: &str = "\
A file for --mock:
  {
    \"server\": {\"name\": \"shop\", \"version\": \"1.0\", \"instructions\": \"…\"},
    \"tools\": [{
      \"name\": \"price\", \"inputSchema\": {\"type\": \"object\"},
      \"answers\": [
        {\"arguments\": {\"of\": \"tea\"}, \"structured\": {\"cents\": 250}},
        {\"arguments\": {\"of\": \"air\"},
         \"error\": {\"code\": -32602, \"message\": \"none\"}},
        {\"text\": \"not for sale\", \"isError\": true, \"after\": \"200ms\"}
      ]
    }],
    \"resources\": [{\"uri\": \"shop://hours\", \"name\": \"hours\",
                   \"answers\": [{\"text\": \"9 to 5\"}]}],
    \"resourceTemplates\": [{\"uriTemplate\": \"shop://{item}\", \"name\": \"item\",
      \"answers\": [{\"uri\": \"shop://tea\", \"text\": \"green\"}]}],
    \"prompts\": [{\"name\": \"order\", \"answers\": [{\"text\": \"Order tea.\"}]}]
  }
Entries have the members that the lists of the protocol give them, and answers.
The first answer that fits counts: \"arguments\" has to be a part of those of the
call (with \"exact\": true all of them), and so has \"uri\" to be that of the read.
Exact answers go first. Several answers with equal conditions are given in
order, and then the last one again, by all clients together. An answer has
\"text\", \"structured\" (tools), \"result\" (the whole object of the protocol) or
\"error\" (code, message, data), and \"after\", a time. A file has at most 16 MiB,
a trace 512 MiB.";
