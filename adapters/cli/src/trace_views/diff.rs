//! `trace diff`: the messages of two traces side by side.

use mcp_proto_trace::views::{Change, Divergence, diff};
use serde_json::{Value, json};

use super::args::DiffArgs;
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, print, print_value};
use crate::paint::Paint;
use crate::trace;

/// Most characters of a value that are shown.
const MAX_VALUE: usize = 200;
/// Text that is printed at once.
const CHUNK: usize = 1 << 16;

pub(crate) fn run(args: &DiffArgs) -> Result<(), CommandFailure> {
    let (first, second) = (
        trace::read_file(&args.first, args.size.max_size)?,
        trace::read_file(&args.second, args.size.max_size)?,
    );
    let differences = diff(&first, &second);
    if args.json {
        print_value(&json!(differences))?;
    } else {
        print_differences(&differences)?;
    }
    match differences.len() {
        0 => Ok(()),
        n => {
            let text = format!("{} between the traces", count(n, "difference"));
            Err(CommandFailure::failed(text).after_result())
        }
    }
}

fn print_differences(differences: &[Divergence]) -> Result<(), CommandFailure> {
    let (mut out, paint) = (String::new(), Paint::for_stdout());
    for difference in differences {
        push(&mut out, difference, paint);
        if out.len() >= CHUNK {
            print(&core::mem::take(&mut out))?;
        }
    }
    if differences.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("the traces are the same")));
    }
    print(&out)
}

fn push(out: &mut String, difference: &Divergence, paint: Paint) {
    let Divergence { from, message, change, .. } = difference;
    let line = |line: Option<usize>| line.map_or_else(|| "-".to_owned(), |line| line.to_string());
    let place = format!("lines {} and {}", line(difference.first_line), line(difference.second_line));
    let what = escape::line(&trace::truncate(message.clone(), MAX_VALUE)).into_owned();
    let show = |value: &Option<Value>| match value {
        None => "(nothing)".to_owned(),
        Some(value) => escape::line(&trace::truncate(value.to_string(), MAX_VALUE)).into_owned(),
    };
    let text = match change {
        Change::OnlyFirst => format!("{}", paint.bad("only in the first trace")),
        Change::OnlySecond => format!("{}", paint.good("only in the second trace")),
        Change::Moved => format!("{}", paint.note("at another place")),
        Change::Value { pointer, first, second } => {
            let (pointer, first, second) = (escape::line(pointer), show(first), show(second));
            format!("{}\n  - {}\n  + {}", paint.bold(pointer), paint.bad(first), paint.good(second))
        }
    };
    out.push_str(&format!("{} {from} {}: {text}\n", paint.dim(place), paint.name(what)));
}
