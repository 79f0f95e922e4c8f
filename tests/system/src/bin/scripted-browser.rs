//! A browser as a command: opens an address, logs in, consents, and visits the redirect URI.

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use std::env;
use std::process::ExitCode;

use mcp_system_tests::browser::{Browser, BrowserScript, DeliveryResponse, parameter, with_parameter};
use serde_json::{Value, json};

const USAGE: &str = "\
usage: scripted-browser [OPTION...] URL

An authorization URL is followed to the redirect URI, which is then visited. A URL without redirect_uri is the verification
URI of a device.

  --user NAME          log in with this name (tester)
  --decline            cancel at the consent page, or at the confirmation of a device
  --code CODE          enter this code at a verification URI
  --set NAME=VALUE     change a parameter of the redirect (repeatable)
  --remove NAME        remove a parameter of the redirect (repeatable)
  --before NAME=VALUE  first visit the redirect URI with this parameter changed, then as it is (repeatable)
  --twice              visit the redirect URI twice at the same time
  --never              do not visit the redirect URI
  --print              print the redirect URI with its parameters instead of visiting it

Prints a JSON line with the responses of the redirect URI. The exit code is 1 if the redirect URI was not reached.
";

/// What becomes of the redirect.
#[derive(Clone, Copy, PartialEq)]
enum Delivery {
    Once,
    Twice,
    Never,
    Print,
}

/// Command-line arguments.
struct BrowserArgs {
    script: BrowserScript,
    delivery: Delivery,
    /// Parameters to change, or to remove.
    changes: Vec<(String, Option<String>)>,
    /// Changes of the visits before the last.
    before: Vec<(String, String)>,
    url: String,
}

impl BrowserArgs {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let (script, delivery) = (BrowserScript::default(), Delivery::Once);
        let mut args = Self { script, delivery, changes: Vec::new(), before: Vec::new(), url: String::new() };
        let pair =
            |word: String| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        while let Some(word) = words.next() {
            match &*word {
                "--user" => args.script.user = words.next()?,
                "--decline" => args.script.consents = false,
                "--code" => args.script.user_code = Some(words.next()?),
                "--set" => {
                    let (name, value) = pair(words.next()?)?;
                    args.changes.push((name, Some(value)));
                }
                "--remove" => args.changes.push((words.next()?, None)),
                "--before" => args.before.push(pair(words.next()?)?),
                "--twice" => args.delivery = Delivery::Twice,
                "--never" => args.delivery = Delivery::Never,
                "--print" => args.delivery = Delivery::Print,
                _ if word.starts_with("--") || !args.url.is_empty() => return None,
                _ => args.url = word,
            }
        }
        if args.url.is_empty() { None } else { Some(args) }
    }
}

type Outcome = Result<Value, Box<dyn core::error::Error>>;

fn open(args: BrowserArgs) -> Outcome {
    let mut browser = Browser::new(args.script);
    if parameter(&args.url, "redirect_uri").is_none() {
        browser.verify_device(&args.url)?;
        return Ok(json!({ "verified": true }));
    }
    let mut redirect = browser.authorize(&args.url)?;
    for (name, value) in &args.changes {
        redirect = with_parameter(&redirect, name, value.as_deref());
    }
    let mut responses = Vec::new();
    for (name, value) in &args.before {
        responses.push(Browser::deliver(&with_parameter(&redirect, name, Some(value)))?);
    }
    match args.delivery {
        Delivery::Print => return Ok(Value::String(redirect)),
        Delivery::Never => {}
        Delivery::Once => responses.push(Browser::deliver(&redirect)?),
        Delivery::Twice => {
            let both = Browser::deliver_at_once(&[redirect.clone(), redirect]);
            // A listener may close after the first redirect, so one of the two may be refused.
            let (arrived, refused): (Vec<_>, Vec<_>) = both.into_iter().partition(Result::is_ok);
            if arrived.is_empty() {
                refused.into_iter().next().expect("two results")?;
            }
            responses.extend(arrived.into_iter().flatten());
        }
    }
    let line =
        |DeliveryResponse { status, body }: &DeliveryResponse| json!({ "status": status, "body": body });
    Ok(json!({ "responses": responses.iter().map(line).collect::<Vec<_>>() }))
}

fn main() -> ExitCode {
    let Some(args) = BrowserArgs::parse(env::args().skip(1)) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match open(args) {
        Ok(Value::String(redirect)) => println!("{redirect}"),
        Ok(outcome) => println!("{outcome}"),
        Err(error) => {
            eprintln!("scripted-browser: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
