//! Preset answers (`--answer KEY=JSON`) and their assignment to input requests.

use mcp_proto::RawJson;
use mcp_proto::model::{
    CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, ElicitSchema, ElicitValue, InputRequest,
    InputResponse, ListRootsResult, Map, Role, Root, StopReason,
};

use super::{InputKind, roots};

/// A preset answer and the key of the requests it is for.
#[derive(Clone, Debug)]
pub(crate) struct PresetAnswer {
    key: String,
    content: PresetContent,
}

#[derive(Clone, Debug)]
enum PresetContent {
    Accept,
    Decline,
    Cancel,
    Json(RawJson),
}

impl PresetAnswer {
    /// Parses a value of `--answer`.
    ///
    /// # Errors
    ///
    /// Returns a description of the mistake.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (key, content) = text.split_once('=').ok_or("must be KEY=JSON, KEY=decline or KEY=cancel")?;
        let content = match content {
            "accept" => PresetContent::Accept,
            "decline" => PresetContent::Decline,
            "cancel" => PresetContent::Cancel,
            json => PresetContent::Json(RawJson::new(json.to_owned()).map_err(|error| {
                format!("{error}; the value after KEY= must be JSON, or one of accept, decline, cancel")
            })?),
        };
        let given = Self { key: key.to_owned(), content };
        given.kind().map(|_| given)
    }

    /// Returns the kind of input request that this answers.
    fn kind(&self) -> Result<InputKind, String> {
        if let Some(kind) = InputKind::from_name(&self.key) {
            return Ok(kind);
        }
        let PresetContent::Json(json) = &self.content else { return Ok(InputKind::Elicit) };
        let has = |name| json.member(name).is_some();
        match json.as_bytes().first() {
            Some(b'{') if has("role") && has("content") && has("model") => Ok(InputKind::Sample),
            Some(b'{') if json.member("roots").is_some_and(|roots| roots.elements().is_some()) => {
                Ok(InputKind::Roots)
            }
            Some(b'{') => Ok(InputKind::Elicit),
            Some(b'"') => Ok(InputKind::Sample),
            Some(b'[') => Ok(InputKind::Roots),
            _ => {
                Err("the answer must be an object (a form), a string (of a model) or a list (of roots)"
                    .into())
            }
        }
    }

    /// Applies this answer to a request. `None` refuses the request.
    ///
    /// # Errors
    ///
    /// Returns why the answer does not fit the request.
    #[expect(deprecated, reason = "supported until its removal")]
    fn answer(&self, request: &InputRequest<'_>) -> Result<Option<InputResponse<'static>>, String> {
        let answer = match request {
            InputRequest::Elicit(ElicitParams::Form(form)) => {
                Some(self.form_result(&form.requested_schema)?.into())
            }
            InputRequest::Elicit(_) => Some(self.elicit_result()?.into()),
            InputRequest::CreateMessage(_) => self.sampling_result()?.map(InputResponse::from),
            InputRequest::ListRoots(_) => self.roots_result()?.map(InputResponse::from),
            _ => return Err("this kind of input request cannot be answered".into()),
        };
        if let Some(answer) = &answer {
            request.check_response(answer).map_err(|mismatch| mismatch.to_string())?;
        }
        Ok(answer)
    }

    /// Returns an answer without content, or a complete result.
    fn elicit_result(&self) -> Result<ElicitResult, String> {
        match &self.content {
            PresetContent::Accept => Ok(ElicitResult::new(ElicitAction::Accept)),
            PresetContent::Decline => Ok(ElicitResult::decline()),
            PresetContent::Cancel => Ok(ElicitResult::cancel()),
            PresetContent::Json(json) => json.parse().map_err(|error| error.to_string()),
        }
    }

    /// Fills in a form. Fields that are left out get their defaults.
    fn form_result(&self, form: &ElicitSchema) -> Result<ElicitResult, String> {
        let content = match &self.content {
            PresetContent::Accept => Map::new(),
            PresetContent::Json(json)
                if json.member("action").is_none() || form.properties.get("action").is_some() =>
            {
                json.parse::<Map<ElicitValue>>().map_err(|error| error.to_string())?
            }
            _ => return self.elicit_result(),
        };
        if let Some((name, _)) = content.iter().find(|(name, _)| form.properties.get(name).is_none()) {
            return Err(format!("the form has no field `{name}`"));
        }
        Ok(ElicitResult::accept(form.fill_defaults(content)))
    }

    /// Returns the value of an answer that has to be one; `None` if it declines or cancels.
    fn json(&self) -> Result<Option<&RawJson>, String> {
        match &self.content {
            PresetContent::Json(json) => Ok(Some(json)),
            PresetContent::Accept => Err("accept is not a possible answer".into()),
            PresetContent::Decline | PresetContent::Cancel => Ok(None),
        }
    }

    fn sampling_result(&self) -> Result<Option<CreateMessageResult<'static>>, String> {
        let Some(json) = self.json()? else { return Ok(None) };
        Ok(Some(match json.string() {
            Some(text) => text_message(text),
            None => json.parse::<CreateMessageResult<'_>>().map_err(|error| error.to_string())?.into_owned(),
        }))
    }

    fn roots_result(&self) -> Result<Option<ListRootsResult>, String> {
        let Some(json) = self.json()? else { return Ok(None) };
        let Some(elements) = json.elements() else {
            return json.parse().map(Some).map_err(|error| error.to_string());
        };
        let root = |element: &RawJson| match element.string() {
            Some(text) => roots::root(text.as_ref()),
            None => element.parse::<Root>().map_err(|error| error.to_string()),
        };
        elements.iter().map(root).collect::<Result<Vec<_>, _>>().map(|all| Some(ListRootsResult::new(all)))
    }
}

/// Creates the message of a model from a text that a user or a program wrote.
pub(super) fn text_message(text: String) -> CreateMessageResult<'static> {
    CreateMessageResult::new(Role::Assistant, text, "mcp-probe").stop_reason(StopReason::EndTurn)
}

/// All preset answers, each with a flag that it has been used.
pub(super) struct PresetAnswers(Vec<(PresetAnswer, bool)>);

/// Result of looking up a preset answer.
pub(super) enum PresetLookup {
    /// An answer; `None` inside refuses the request.
    Answer(Option<Box<InputResponse<'static>>>),
    /// An answer that does not fit, with the reason.
    Mismatch(String),
    None,
}

impl PresetAnswers {
    pub(super) fn new(given: Vec<PresetAnswer>) -> Self {
        Self(given.into_iter().map(|given| (given, false)).collect())
    }

    pub(super) fn has(&self, kind: InputKind) -> bool {
        self.0.iter().any(|(given, _)| given.kind() == Ok(kind))
    }

    /// Returns whether a complete model message is among the answers.
    pub(super) fn has_messages(&self) -> bool {
        let is_object =
            |given: &PresetAnswer| matches!(&given.content, PresetContent::Json(json) if json.is_object());
        self.0.iter().any(|(given, _)| given.kind() == Ok(InputKind::Sample) && is_object(given))
    }

    /// Chooses the answer to a request.
    ///
    /// Looks for answers with the server's key first, then for answers with the name of the kind. Answers with the same
    /// key are used in order, and the last one repeats. A request without a key (legacy) gets the first unused answer
    /// of its kind that fits.
    pub(super) fn choose(&mut self, key: Option<&str>, request: &InputRequest<'_>) -> PresetLookup {
        let Some(kind) = InputKind::from_request(request) else { return PresetLookup::None };
        let Some(key) = key else { return self.first_fit(kind, request) };
        for name in [key, kind.as_str()] {
            let mut named: Vec<_> = self.0.iter_mut().filter(|(given, _)| given.key == name).collect();
            let next = named.iter().position(|(_, used)| !used).or_else(|| named.len().checked_sub(1));
            if let Some((given, used)) = next.and_then(|next| named.get_mut(next)) {
                *used = true;
                return match given.answer(request) {
                    Ok(answer) => PresetLookup::Answer(answer.map(Box::new)),
                    Err(why) => {
                        PresetLookup::Mismatch(format!("the answer given for `{name}` does not fit: {why}"))
                    }
                };
            }
        }
        PresetLookup::None
    }

    fn first_fit(&mut self, kind: InputKind, request: &InputRequest<'_>) -> PresetLookup {
        let mut again = None;
        let mut mismatch = None;
        for (given, used) in self.0.iter_mut().filter(|(given, _)| given.kind() == Ok(kind)) {
            match given.answer(request) {
                Ok(answer) if *used => again = Some(answer.map(Box::new)),
                Ok(answer) => {
                    *used = true;
                    return PresetLookup::Answer(answer.map(Box::new));
                }
                Err(why) => _ = mismatch.get_or_insert_with(|| (given.key.clone(), why)),
            }
        }
        match (again, mismatch) {
            (Some(answer), _) => PresetLookup::Answer(answer),
            (None, Some((key, why))) => {
                PresetLookup::Mismatch(format!("no answer fits; the one given for `{key}` does not: {why}"))
            }
            (None, None) => PresetLookup::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> InputRequest<'static> {
        let text = r#"{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object",
            "properties":{"name":{"type":"string","minLength":2},"age":{"type":"integer","default":30}},"required":["name"]}}}"#;
        serde_json::from_str::<InputRequest<'_>>(text).expect("a question").into_owned()
    }

    fn other(method: &str, params: &str) -> InputRequest<'static> {
        let text = format!(r#"{{"method":"{method}","params":{params}}}"#);
        serde_json::from_str::<InputRequest<'_>>(&text).expect("a question").into_owned()
    }

    fn sampling() -> InputRequest<'static> {
        other("sampling/createMessage", r#"{"messages":[],"maxTokens":5}"#)
    }

    fn page() -> InputRequest<'static> {
        other("elicitation/create", r#"{"mode":"url","message":"m","url":"https://a.example/"}"#)
    }

    /// Returns the outcome of a lookup: JSON, `refused`, `mismatch: …` or `none`.
    fn chosen(store: &mut PresetAnswers, key: Option<&str>, request: &InputRequest<'_>) -> String {
        match store.choose(key, request) {
            PresetLookup::Answer(Some(answer)) => serde_json::to_string(&answer).expect("JSON"),
            PresetLookup::Answer(None) => "refused".into(),
            PresetLookup::Mismatch(why) => format!("mismatch: {why}"),
            PresetLookup::None => "none".into(),
        }
    }

    fn store(texts: &[&str]) -> PresetAnswers {
        PresetAnswers::new(texts.iter().map(|text| PresetAnswer::parse(text).expect("an answer")).collect())
    }

    const ALICE: &str = r#"{"action":"accept","content":{"name":"Alice","age":30}}"#;

    // covers: ELIC-017, ELIC-018, ELIC-020, SAMP-015
    #[test]
    fn preset_answer_is_interpreted_by_request_kind() {
        let roots = || other("roots/list", "{}");
        let content = r#"{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"mcp-probe","stopReason":"endTurn"}"#;
        let whole = r#"{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}"#;
        let given = format!("k={whole}");
        let cases: [(&str, InputRequest<'static>, &str); 14] = [
            (r#"k={"name":"Alice"}"#, form(), ALICE),
            (
                r#"k={"action":"accept","content":{"name":"Al"}}"#,
                form(),
                r#"{"action":"accept","content":{"name":"Al"}}"#,
            ),
            ("k=decline", form(), r#"{"action":"decline"}"#),
            ("k=cancel", form(), r#"{"action":"cancel"}"#),
            (
                "k=accept",
                form(),
                "mismatch: the answer given for `k` does not fit: `content.name`: must be filled in",
            ),
            (
                r#"k={"name":"A"}"#,
                form(),
                "mismatch: the answer given for `k` does not fit: `content.name`: must have 2 characters or more",
            ),
            (
                r#"k={"nome":"A"}"#,
                form(),
                "mismatch: the answer given for `k` does not fit: the form has no field `nome`",
            ),
            ("k=accept", page(), r#"{"action":"accept"}"#),
            ("k=decline", page(), r#"{"action":"decline"}"#),
            (r#"k="Paris""#, sampling(), content),
            ("k=decline", sampling(), "refused"),
            (&given, sampling(), whole),
            (
                r#"k=[{"uri":"file:///a","name":"b"}]"#,
                roots(),
                r#"{"roots":[{"uri":"file:///a","name":"b"}]}"#,
            ),
            (r#"k={"roots":[]}"#, roots(), r#"{"roots":[]}"#),
        ];
        for (text, request, want) in cases {
            assert_eq!(chosen(&mut store(&[text]), Some("k"), &request), want, "{text}");
        }
    }

    #[test]
    fn preset_answer_is_chosen_by_key_then_kind() {
        let mut all = store(&[
            r#"elicit={"name":"Any"}"#,
            r#"who={"name":"First"}"#,
            r#"who={"name":"Last"}"#,
            r#"sample="x""#,
        ]);
        let mut name = |key: Option<&str>| {
            let answer = chosen(&mut all, key, &form());
            answer.split('"').nth(9).map(str::to_owned).unwrap_or(answer)
        };
        assert_eq!([name(Some("who")), name(Some("who")), name(Some("who"))], ["First", "Last", "Last"]);
        assert_eq!([name(Some("other")), name(Some("other"))], ["Any", "Any"]);
        assert_eq!(chosen(&mut all, Some("x"), &other("roots/list", "{}")), "none");
        // Without a key each fitting answer is used once, then the last one repeats.
        let mut all = store(&[r#"a={"nome":"x"}"#, r#"b={"name":"First"}"#, r#"elicit={"name":"Second"}"#]);
        let mut name = || chosen(&mut all, None, &form()).split('"').nth(9).map(str::to_owned);
        assert_eq!([name(), name(), name()].map(Option::unwrap), ["First", "Second", "Second"]);
        let none = chosen(&mut store(&[r#"a={"nome":"x"}"#]), None, &form());
        assert_eq!(
            none,
            "mismatch: no answer fits; the one given for `a` does not: the form has no field `nome`"
        );
    }

    #[test]
    fn invalid_preset_answer_is_refused_at_parsing() {
        for (text, wanted) in [
            ("name", "KEY=JSON"),
            ("name=", "one of accept, decline, cancel"),
            ("name=maybe", "one of accept, decline, cancel"),
            ("name=7", "an object (a form), a string (of a model) or a list (of roots)"),
        ] {
            let error = PresetAnswer::parse(text).map(drop).expect_err(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn answerable_kinds_follow_from_preset_answers() {
        let kinds = |text: &str| {
            let all = store(&[text]);
            [InputKind::Elicit, InputKind::Sample, InputKind::Roots]
                .into_iter()
                .filter(|kind| all.has(*kind))
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds("k=decline"), [InputKind::Elicit]);
        assert_eq!(kinds("sample=decline"), [InputKind::Sample]);
        assert_eq!(kinds(r#"k="x""#), [InputKind::Sample]);
        assert_eq!(kinds(r#"k=["/"]"#), [InputKind::Roots]);
        assert_eq!(kinds(r#"k={"roots":"x"}"#), [InputKind::Elicit]);
        assert!(!store(&[r#"k="x""#]).has_messages());
        assert!(store(&[r#"k={"role":"assistant","content":[],"model":"m"}"#]).has_messages());
    }
}
