//! Asking a person: forms field by field, web pages, and texts in the place of a model

use core::fmt::Write;

use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitFormParams, ElicitParams, ElicitResult, ElicitSchema,
    ElicitUrlParams, ElicitValue, InputRequest, InputResponse, Map, PrimitiveSchemaDefinition as Field,
};

use super::terminal::Terminal;
use super::{field, given, page};
use crate::escape;

/// Asks on a terminal
pub(super) struct Dialogue<T> {
    terminal: T,
    /// Who asks
    server: String,
}

/// What a person did instead of answering
enum Left {
    Declined,
    Cancelled,
}

/// What is typed into one field
enum Typed {
    Value(Option<ElicitValue>),
    Back,
}

impl<T: Terminal> Dialogue<T> {
    /// For the questions of `server`, which is shown as it is
    pub(super) fn new(terminal: T, server: &str) -> Self {
        Self { terminal, server: server.to_owned() }
    }

    /// The answer to a question: `Some(None)` refuses it, none when a person is not asked for such a thing
    pub(super) fn ask(
        &mut self,
        key: Option<&str>,
        request: &InputRequest<'_>,
    ) -> Option<Option<InputResponse<'static>>> {
        match request {
            InputRequest::Elicit(ElicitParams::Form(form)) => Some(Some(self.form(key, form).into())),
            InputRequest::Elicit(ElicitParams::Url(page)) => Some(Some(self.page(key, page).into())),
            InputRequest::CreateMessage(params) => Some(self.sample(key, params).map(Into::into)),
            _ => None,
        }
    }

    // ---- forms -------------------------------------------------------------------------------------------------

    fn form(&mut self, key: Option<&str>, form: &ElicitFormParams) -> ElicitResult {
        self.head(key, "asks you", &form.message);
        self.say(
            "  An empty line takes what stands in [ ], or leaves out what need not be there; :none leaves it out in any \
             case, :back goes back, :decline and :cancel end it.\n",
        );
        match self.fill(&form.requested_schema) {
            Ok(content) => ElicitResult::accept(content),
            Err(Left::Declined) => ElicitResult::decline(),
            Err(Left::Cancelled) => ElicitResult::cancel(),
        }
    }

    /// Asks for one field after the other, and whether that is right
    fn fill(&mut self, form: &ElicitSchema) -> Result<Map<ElicitValue>, Left> {
        let mut content = form.fill_defaults(Map::new());
        let fields: Vec<_> = form.properties.iter().collect();
        let mut at = 0;
        loop {
            while let Some((name, schema)) = fields.get(at) {
                let needed = form.required.iter().flatten().any(|required| required == name);
                let head = format!("\n  {}/{}  {}", at + 1, fields.len(), escape::line(name));
                match self.field(&head, schema, needed, content.get(name))? {
                    Typed::Back => at = at.saturating_sub(1),
                    Typed::Value(value) => {
                        match value {
                            Some(value) => _ = content.insert(*name, value),
                            None => _ = content.remove(name),
                        }
                        at += 1;
                    }
                }
            }
            self.review(&fields, &content);
            if let Err(misfit) = form.check(&content) {
                self.say(&format!("  that does not fit: {}\n", escape::line(&misfit.to_string())));
            } else if self.sends()? {
                return Ok(content);
            }
            at = 0;
        }
    }

    fn field(
        &mut self,
        head: &str,
        schema: &Field,
        needed: bool,
        stands: Option<&ElicitValue>,
    ) -> Result<Typed, Left> {
        let must = if needed { "needed" } else { "may be left out" };
        let mut text = format!("{head} ({}; {must})\n", field::kind(schema));
        for about in [schema.title(), schema.description()].into_iter().flatten() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "       {}", escape::line(about));
        }
        text += &field::choices(schema);
        self.say(&text);
        let prompt =
            stands.map_or_else(|| "  > ".to_owned(), |value| format!("  [{}] > ", field::shown(value)));
        loop {
            self.say(&prompt);
            let typed = self.line()?;
            let wrong = match (typed.trim(), stands) {
                (":back", _) => return Ok(Typed::Back),
                (":none", _) if !needed => return Ok(Typed::Value(None)),
                ("", Some(value)) => return Ok(Typed::Value(Some(value.clone()))),
                ("", None) if !needed => return Ok(Typed::Value(None)),
                ("" | ":none", _) => "must be filled in".into(),
                _ => match field::read(schema, &typed) {
                    Ok(value) => return Ok(Typed::Value(Some(value))),
                    Err(wrong) => wrong,
                },
            };
            self.say(&format!("  ✗ {wrong}\n"));
        }
    }

    /// What is to be sent
    fn review(&mut self, fields: &[(&str, &Field)], content: &Map<ElicitValue>) {
        let mut text = String::from("\n  To be sent:\n");
        for (name, _) in fields {
            let value = content.get(name).map_or_else(|| "(left out)".into(), field::shown);
            let _ = writeln!(text, "    {}: {value}", escape::line(name));
        }
        self.say(&text);
    }

    /// Whether it is to be sent; if not, it is to be changed
    fn sends(&mut self) -> Result<bool, Left> {
        match self.pick("Send it? [y]es, [e]dit, [d]ecline, [c]ancel", &["y", "e", "d", "c"])? {
            "y" => Ok(true),
            "e" => Ok(false),
            "d" => Err(Left::Declined),
            _ => Err(Left::Cancelled),
        }
    }

    // ---- pages -------------------------------------------------------------------------------------------------

    fn page(&mut self, key: Option<&str>, asked: &ElicitUrlParams) -> ElicitResult {
        self.head(key, "wants you to visit a web page", &asked.message);
        let url = &asked.url;
        let mut text =
            format!("\n  host: {}\n  page: {}\n", escape::line(page::host(url)), escape::line(url));
        for warning in page::warnings(url) {
            let _ = writeln!(text, "  beware: {warning}");
        }
        text += "  Nothing is opened by itself. If you agree, open it yourself.\n";
        self.say(&text);
        match self.pick("Agree? [y]es, [d]ecline, [c]ancel", &["y", "d", "c"]) {
            Ok("y") => ElicitResult::new(mcp_proto::model::ElicitAction::Accept),
            Ok("d") | Err(Left::Declined) => ElicitResult::decline(),
            _ => ElicitResult::cancel(),
        }
    }

    // ---- models ------------------------------------------------------------------------------------------------

    /// None refuses
    fn sample(
        &mut self,
        key: Option<&str>,
        params: &CreateMessageParams<'_>,
    ) -> Option<CreateMessageResult<'static>> {
        self.head(
            key,
            "asks your model, which you are now",
            params.system_prompt.as_deref().unwrap_or_default(),
        );
        let mut text = String::new();
        for message in &params.messages {
            for block in message.content.iter() {
                let said = match block.as_text() {
                    Some(said) => said.to_owned(),
                    None => serde_json::to_string(block).unwrap_or_default().chars().take(SHORT).collect(),
                };
                let _ = write!(text, "  {}:\n{}", escape::line(message.role.as_str()), quoted(&said));
            }
        }
        let _ = writeln!(
            text,
            "  At most {} tokens. The answer ends with a line that is a dot; :decline refuses.",
            params.max_tokens
        );
        self.say(&text);
        loop {
            let answer = self.text().ok()?;
            self.say(&format!("\n  To be sent:\n{}", quoted(&answer)));
            match self.pick("Send it? [y]es, [e]dit, [d]ecline", &["y", "e", "d"]).ok()? {
                "y" => return Some(given::message(answer)),
                "e" => {}
                _ => return None,
            }
        }
    }

    /// Lines up to one that is a dot
    fn text(&mut self) -> Result<String, Left> {
        let mut lines = Vec::new();
        loop {
            self.say("  > ");
            match self.line()? {
                line if line == "." => return Ok(lines.join("\n")),
                line => lines.push(line),
            }
        }
    }

    // ---- what they share -----------------------------------------------------------------------------------------

    fn head(&mut self, key: Option<&str>, what: &str, message: &str) {
        let key = key.map(|key| format!(" (`{}`)", escape::line(key))).unwrap_or_default();
        let text = format!("\n? {} {what}{key}\n{}", self.server, quoted(message));
        self.say(&text);
    }

    /// Asks until one of these letters is typed
    fn pick<'a>(&mut self, question: &str, letters: &[&'a str]) -> Result<&'a str, Left> {
        loop {
            self.say(&format!("  {question}: "));
            let typed = self.line()?.trim().to_lowercase();
            let first = typed.get(..1).unwrap_or_default();
            if let Some(letter) = letters.iter().find(|letter| **letter == first) {
                return Ok(letter);
            }
        }
    }

    /// What is typed next; the end of all input, and two words, leave
    fn line(&mut self) -> Result<String, Left> {
        let line = self.terminal.line().ok_or(Left::Cancelled)?;
        match line.trim() {
            ":decline" => Err(Left::Declined),
            ":cancel" => Err(Left::Cancelled),
            _ => Ok(line),
        }
    }

    fn say(&mut self, text: &str) {
        self.terminal.show(text);
    }
}

/// What a server says, each line marked as that
fn quoted(text: &str) -> String {
    escape::lines(text).lines().map(|line| format!("    | {line}\n")).collect()
}

/// Characters of what is no text
const SHORT: usize = 200;

#[cfg(test)]
mod tests;
