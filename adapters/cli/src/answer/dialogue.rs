//! Interactive answers: forms field by field, consent to web pages, and texts in place of a model.

use core::fmt::Write;

use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitFormParams, ElicitParams, ElicitResult, ElicitSchema,
    ElicitUrlParams, ElicitValue, InputRequest, InputResponse, Map, PrimitiveSchemaDefinition as Field,
};

use super::terminal::Terminal;
use super::{field, preset, url};
use crate::escape;

/// Answers input requests on a terminal.
pub(super) struct Dialogue<T> {
    terminal: T,
    /// Name of the server, shown with each question.
    server: String,
}

/// Outcome of asking the user.
pub(super) enum DialogueOutcome {
    Answered(Box<InputResponse<'static>>),
    /// The user refuses the request.
    Refused,
    /// The user filled in the form wrongly too often. The text names the field.
    Failed(String),
    /// The user is not asked for this kind of input.
    NotAsked,
}

/// Reason why a dialogue ended without an answer.
enum UserRefusal {
    Declined,
    Cancelled,
    /// Too many wrong values. The text names the field.
    Failed(String),
}

/// Input for one field of a form.
enum FieldInput {
    Value(Option<ElicitValue>),
    Back,
}

impl<T: Terminal> Dialogue<T> {
    /// Creates a dialogue about requests of `server`, whose name is shown unescaped.
    pub(super) fn new(terminal: T, server: &str) -> Self {
        Self { terminal, server: server.to_owned() }
    }

    /// Answers an input request.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn ask(&mut self, key: Option<&str>, request: &InputRequest<'_>) -> DialogueOutcome {
        let answered = |answer: InputResponse<'static>| DialogueOutcome::Answered(Box::new(answer));
        match request {
            InputRequest::Elicit(ElicitParams::Form(form)) => match self.ask_form(key, form) {
                Ok(result) => answered(result.into()),
                Err(why) => DialogueOutcome::Failed(why),
            },
            InputRequest::Elicit(ElicitParams::Url(page)) => answered(self.ask_url(key, page).into()),
            InputRequest::CreateMessage(params) => match self.ask_sample(key, params) {
                Some(message) => answered(message.into()),
                None => DialogueOutcome::Refused,
            },
            _ => DialogueOutcome::NotAsked,
        }
    }

    // ---- forms -------------------------------------------------------------------------------------------------

    /// Asks the user to fill in a form.
    ///
    /// # Errors
    ///
    /// Returns which field was filled in wrongly too often.
    fn ask_form(&mut self, key: Option<&str>, form: &ElicitFormParams) -> Result<ElicitResult, String> {
        self.show_heading(key, "asks you", &form.message);
        self.show(
            "  An empty line takes the value in [ ], or leaves an optional field out; :none always leaves it out, :back \
             goes back, :decline and :cancel end the form.\n",
        );
        match self.fill_form(&form.requested_schema) {
            Ok(content) => Ok(ElicitResult::accept(content)),
            Err(UserRefusal::Declined) => Ok(ElicitResult::decline()),
            Err(UserRefusal::Cancelled) => Ok(ElicitResult::cancel()),
            Err(UserRefusal::Failed(why)) => Err(why),
        }
    }

    /// Asks for one field after the other, then for confirmation.
    fn fill_form(&mut self, form: &ElicitSchema) -> Result<Map<ElicitValue>, UserRefusal> {
        let mut content = form.fill_defaults(Map::new());
        let fields: Vec<_> = form.properties.iter().collect();
        let (mut at, mut attempt) = (0, 0);
        loop {
            while let Some((name, schema)) = fields.get(at) {
                let needed = form.required.iter().flatten().any(|required| required == name);
                let position = format!("\n  {}/{}", at + 1, fields.len());
                match self.ask_field(&position, name, schema, needed, content.get(name))? {
                    FieldInput::Back => at = at.saturating_sub(1),
                    FieldInput::Value(value) => {
                        match value {
                            Some(value) => _ = content.insert(*name, value),
                            None => _ = content.remove(name),
                        }
                        at += 1;
                    }
                }
            }
            self.show_review(&fields, &content);
            if let Err(mismatch) = form.check(&content) {
                // The text names the field.
                attempt += 1;
                let wrong = format!("the values do not fit the form: {mismatch}");
                self.show_wrong(&wrong, attempt)?;
            } else if self.confirm_send()? {
                return Ok(content);
            }
            at = 0;
        }
    }

    /// Asks for one field until the value fits, at most [`MAX_ATTEMPTS`] times.
    fn ask_field(
        &mut self,
        position: &str,
        name: &str,
        schema: &Field,
        needed: bool,
        stands: Option<&ElicitValue>,
    ) -> Result<FieldInput, UserRefusal> {
        let must = if needed { "required" } else { "optional" };
        let mut text =
            format!("{position}  {} ({}; {must})\n", escape::line(name), field::describe_kind(schema));
        for about in [schema.title(), schema.description()].into_iter().flatten() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "       {}", escape::line(about));
        }
        text += &field::format_choices(schema);
        self.show(&text);
        let prompt = stands
            .map_or_else(|| "  > ".to_owned(), |value| format!("  [{}] > ", field::format_value(value)));
        let mut attempt = 0;
        loop {
            self.show(&prompt);
            let typed = self.read_line()?;
            let wrong = match (typed.trim(), stands) {
                (":back", _) => return Ok(FieldInput::Back),
                (":none", _) if !needed => return Ok(FieldInput::Value(None)),
                // A default of the server may not fit its own form.
                ("", Some(value)) => match schema.check(value) {
                    Ok(()) => return Ok(FieldInput::Value(Some(value.clone()))),
                    Err(mismatch) => mismatch.reason,
                },
                ("", None) if !needed => return Ok(FieldInput::Value(None)),
                ("" | ":none", _) => "must be filled in".into(),
                _ => match schema.parse_text(&typed) {
                    Ok(value) => return Ok(FieldInput::Value(Some(value))),
                    Err(mismatch) => mismatch.reason,
                },
            };
            attempt += 1;
            self.show_wrong(&format!("`{name}` {wrong}"), attempt)?;
        }
    }

    /// Shows what is wrong.
    ///
    /// # Errors
    ///
    /// Ends the dialogue after [`MAX_ATTEMPTS`].
    fn show_wrong(&mut self, wrong: &str, attempt: u32) -> Result<(), UserRefusal> {
        self.show(&format!("  ✗ {} (attempt {attempt} of {MAX_ATTEMPTS})\n", escape::line(wrong)));
        if attempt < MAX_ATTEMPTS {
            return Ok(());
        }
        Err(UserRefusal::Failed(format!("the form was filled in wrongly {MAX_ATTEMPTS} times: {wrong}")))
    }

    /// Shows the values that will be sent.
    fn show_review(&mut self, fields: &[(&str, &Field)], content: &Map<ElicitValue>) {
        let mut text = String::from("\n  To be sent:\n");
        for (name, _) in fields {
            let value = content.get(name).map_or_else(|| "(left out)".into(), field::format_value);
            let _ = writeln!(text, "    {}: {value}", escape::line(name));
        }
        self.show(&text);
    }

    /// Asks for confirmation. Returns `false` if the values are to be changed.
    fn confirm_send(&mut self) -> Result<bool, UserRefusal> {
        match self.pick("Send it? [y]es, [e]dit, [d]ecline, [c]ancel", &["y", "e", "d", "c"])? {
            "y" => Ok(true),
            "e" => Ok(false),
            "d" => Err(UserRefusal::Declined),
            _ => Err(UserRefusal::Cancelled),
        }
    }

    // ---- web pages ---------------------------------------------------------------------------------------------

    fn ask_url(&mut self, key: Option<&str>, params: &ElicitUrlParams) -> ElicitResult {
        self.show_heading(key, "wants you to visit a web page", &params.message);
        let url = &params.url;
        let mut text = format!("\n  host: {}\n  page: {}\n", escape::line(url::host(url)), escape::line(url));
        for warning in url::warnings(url) {
            let _ = writeln!(text, "  warning: {warning}");
        }
        text += "  Nothing is opened automatically. If you agree, open it yourself.\n";
        self.show(&text);
        match self.pick("Agree? [y]es, [d]ecline, [c]ancel", &["y", "d", "c"]) {
            Ok("y") => ElicitResult::new(mcp_proto::model::ElicitAction::Accept),
            Ok("d") | Err(UserRefusal::Declined) => ElicitResult::decline(),
            _ => ElicitResult::cancel(),
        }
    }

    // ---- models ------------------------------------------------------------------------------------------------

    /// Returns the text of the user as a model message, or `None` if the user refuses.
    fn ask_sample(
        &mut self,
        key: Option<&str>,
        params: &CreateMessageParams<'_>,
    ) -> Option<CreateMessageResult<'static>> {
        self.show_heading(
            key,
            "asks your model, whose place you take",
            params.system_prompt.as_deref().unwrap_or_default(),
        );
        let mut text = String::new();
        for message in &params.messages {
            for block in message.content.iter() {
                let content = match block.as_text() {
                    Some(content) => content.to_owned(),
                    None => serde_json::to_string(block)
                        .unwrap_or_default()
                        .chars()
                        .take(MAX_SHOWN_CHARS)
                        .collect(),
                };
                let _ = write!(text, "  {}:\n{}", escape::line(message.role.as_str()), quote(&content));
            }
        }
        let _ = writeln!(
            text,
            "  At most {} tokens. End the answer with a line that is a single dot; :decline refuses.",
            params.max_tokens
        );
        self.show(&text);
        loop {
            let answer = self.read_text().ok()?;
            self.show(&format!("\n  To be sent:\n{}", quote(&answer)));
            match self.pick("Send it? [y]es, [e]dit, [d]ecline", &["y", "e", "d"]).ok()? {
                "y" => return Some(preset::text_message(answer)),
                "e" => {}
                _ => return None,
            }
        }
    }

    /// Reads lines up to one that consists of a dot.
    fn read_text(&mut self) -> Result<String, UserRefusal> {
        let mut lines = Vec::new();
        loop {
            self.show("  > ");
            match self.read_line()? {
                line if line == "." => return Ok(lines.join("\n")),
                line => lines.push(line),
            }
        }
    }

    // ---- shared ------------------------------------------------------------------------------------------------

    fn show_heading(&mut self, key: Option<&str>, what: &str, message: &str) {
        let key = key.map(|key| format!(" (`{}`)", escape::line(key))).unwrap_or_default();
        let text = format!("\n? {} {what}{key}\n{}", self.server, quote(message));
        self.show(&text);
    }

    /// Repeats a question until one of the letters is typed.
    fn pick<'a>(&mut self, question: &str, letters: &[&'a str]) -> Result<&'a str, UserRefusal> {
        loop {
            self.show(&format!("  {question}: "));
            let typed = self.read_line()?.trim().to_lowercase();
            let first = typed.get(..1).unwrap_or_default();
            if let Some(letter) = letters.iter().find(|letter| **letter == first) {
                return Ok(letter);
            }
        }
    }

    /// Reads a line. The end of input, `:decline` and `:cancel` end the dialogue.
    fn read_line(&mut self) -> Result<String, UserRefusal> {
        let line = self.terminal.read_line().ok_or(UserRefusal::Cancelled)?;
        match line.trim() {
            ":decline" => Err(UserRefusal::Declined),
            ":cancel" => Err(UserRefusal::Cancelled),
            _ => Ok(line),
        }
    }

    fn show(&mut self, text: &str) {
        self.terminal.show(text);
    }
}

/// Marks each line of text from the server.
fn quote(text: &str) -> String {
    escape::lines(text).lines().map(|line| format!("    | {line}\n")).collect()
}

/// Maximum number of wrong values for one field, and of forms whose values do not fit together. Then the request fails.
const MAX_ATTEMPTS: u32 = 5;
/// Maximum number of characters shown of content that is not text.
const MAX_SHOWN_CHARS: usize = 200;

#[cfg(test)]
mod tests;
