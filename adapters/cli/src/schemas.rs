//! The `schema` command: prints the JSON Schema of what a command prints with `--json`.

use clap::Args;
use serde::Serialize;

use crate::failure::CommandFailure;
use crate::output::{print, print_value};
use crate::output_schemas::{OutputSchema, SCHEMAS};

/// Prints the JSON Schema of what a command prints with --json.
///
/// Without a name, lists them. A schema (2020-12) stands alone, and has a failure as one of its shapes. Shapes of this program are
/// closed: a new member is a change of the schema. Results of the protocol are open.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
pub(crate) struct SchemaArgs {
    /// Name of the schema, or the words of the command: `events list`.
    name: Vec<String>,
    /// Prints the list as a JSON array.
    ///
    /// The members of an entry: name, command, lines (one value per line), description. A schema is JSON anyway.
    #[arg(long)]
    json: bool,
}

/// An entry of the list.
#[derive(Serialize)]
struct ListedSchema {
    name: &'static str,
    command: String,
    lines: bool,
    description: String,
}

/// Prints a schema, or the list of all.
///
/// # Errors
///
/// Fails if there is no schema with the name.
pub(crate) fn run(args: &SchemaArgs) -> Result<(), CommandFailure> {
    let name = args.name.join("-");
    if !name.is_empty() {
        let schema = OutputSchema::find(&name).ok_or_else(|| {
            let names = SCHEMAS.iter().map(|schema| schema.name);
            CommandFailure::usage(format!("there is no schema `{name}`"))
                .with_hint(format!("there are: {}", names.collect::<Vec<_>>().join(", ")))
        })?;
        return print_value(&schema.bundled());
    }
    let list = SCHEMAS.iter().map(|schema| ListedSchema {
        name: schema.name,
        command: format!("mcp-probe {} --json", schema.command.join(" ")),
        lines: schema.has_lines,
        description: schema.description(),
    });
    if args.json {
        return print_value(&list.collect::<Vec<_>>());
    }
    print(&list.map(|listed| format!("{:17} {}\n", listed.name, listed.command)).collect::<String>())
}

const HELP: &str = "\
Examples:
  mcp-probe schema
  mcp-probe schema inspect | jq '.anyOf[0].properties | keys'
  mcp-probe schema events list > events-list.schema.json";
