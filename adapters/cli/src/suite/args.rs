//! Options of `test`.

use std::path::PathBuf;

use clap::Args;

use crate::answer::AnswerArgs;
use crate::args::{TargetArgs, usage};

/// Runs the steps of a file against a server and compares their results.
///
/// The steps run in order in one session: calls of tools, reads of resources, prompts, lists, completions and pings, each
/// with what its result has to be. The whole file is checked before the server starts.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = concat!("mcp-probe test [OPTIONS] <FILE>\n       ", usage!("mcp-probe test [OPTIONS] <FILE>")))]
pub(crate) struct TestArgs {
    /// File with the steps: JSON, in which comments and trailing commas are allowed.
    ///
    /// At most 4 MiB and 1,000 steps.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Runs only the steps whose name contains this text, and those that save what they use.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Writes the results of steps with a snapshot to FILE.snapshots instead of comparing them.
    ///
    /// A step that fails otherwise keeps its snapshot.
    #[arg(long)]
    pub(crate) update: bool,
    /// Prints one JSON object instead.
    ///
    /// Its members: file, server, revision, passed, failed, skipped, milliseconds, steps. Those of a step: name, outcome
    /// (passed, failed, skipped), milliseconds, reason (why it was skipped), failures. Those of a failure: where (a JSON
    /// pointer into the result, or answer, error, time or snapshot), expected, found, diff. A run that could not begin
    /// prints an object with the member error, as `call --json` does.
    #[arg(long)]
    pub(crate) json: bool,
    /// Writes a report in JUnit's XML to this file, for CI servers.
    ///
    /// It is there even if the server does not start, or if a signal ends the run: each step is an error then.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

const HELP: &str = "\
The file is an object with the members server and steps. A server of the
command line replaces the one of the file, which is one of these:
  \"http://127.0.0.1:8080/mcp\"          a URL, or the address of a socket
  [\"my-server\", \"--stdio\"]             a command
  {\"config\": \"mcp.json\", \"name\": \"a\"}  an entry of a client's configuration;
                                       its path begins at the test file

A step asks for one of these:
  \"call\": TOOL        with \"arguments\": {…}
  \"read\": URI
  \"prompt\": NAME      with \"arguments\": {…}, whose values are texts
  \"list\": KIND        tools, resources, resourceTemplates, prompts or skills:
                      all pages as one array
  \"complete\": OF      prompt:NAME or a template, with \"argument\": NAME,
                      \"value\": TEXT and \"with\": {…}, the known arguments
  \"ping\": true
and says what it expects, if it has to be more than a result:
  \"name\"       its name; without one, for example, \"call add\"
  \"expect\"     JSON pointers into the result, each with a value to be equal to,
               or with an object of one or more of these:
                 equals    any JSON value, which is the way to write an object
                 matches   a regular expression that finds something in a text
                 contains  a part of a text, an element of an array, or members
                           of an object (in elements and members again)
                 schema    a JSON Schema
                 exists    true or false
                 length    of a text in characters, an array or an object
                 type      string, number, integer, boolean, null, array, object
               The pointer \"\" is the whole result. Integers have at most 64 bits
               and are compared exactly; 1e30 is a floating-point number.
  \"isError\"    true: the result reports an error of the tool, which otherwise
               fails the step
  \"error\"      true, or {\"code\": N, \"message\": TEXT or {…}}: the answer is an
               error; the pointers of \"expect\" lead into it then
  \"within\"     the longest time, of all pages of a list together: \"500ms\", \"2s\"
  \"snapshot\"   true: the result is what FILE.snapshots/NAME.json holds;
               \"ignore\": [POINTER, …] leaves out what changes with each run
  \"save\"       {\"id\": POINTER}: ${id} in arguments, URIs and values of later
               steps is what was found there. A text that is ${id} alone becomes
               the value itself; $${ is written for ${

A step fails alone. After one that had no answer in time, or a connection that
has ended, the rest is skipped. The exit code is 1 if a step has failed.

Example of a file:
  {
    \"server\": [\"mcp-probe\", \"serve\"],
    \"steps\": [
      {\"call\": \"add\", \"arguments\": {\"a\": 20, \"b\": 22},
       \"expect\": {\"/structuredContent/sum\": 42}, \"within\": \"2s\"},
      {\"call\": \"echo\", \"arguments\": {\"text\": \"hello\"},
       \"expect\": {\"/content/0/text\": {\"matches\": \"^hel+o$\"}}},
      {\"list\": \"tools\", \"snapshot\": true}
    ]
  }

Examples:
  mcp-probe test tests.json
  mcp-probe test tests.json -- python my_server.py
  mcp-probe test tests.json --junit report.xml http://127.0.0.1:8080/mcp
  mcp-probe test tests.json --update
  mcp-probe test tests.json --filter add --json | jq '.steps[].failures'";
