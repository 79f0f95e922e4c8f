//! `--answer KEY=JSON`: answers that are given beforehand, and which of them is for which question

use mcp_proto::RawJson;
use mcp_proto::model::{
    CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, ElicitSchema, ElicitValue, InputRequest,
    InputResponse, ListRootsResult, Map, Role, Root, StopReason,
};

use super::{Kind, roots};

/// One answer, and the questions that it is for
#[derive(Clone, Debug)]
pub(crate) struct Given {
    key: String,
    said: Said,
}

#[derive(Clone, Debug)]
enum Said {
    Accept,
    Decline,
    Cancel,
    Json(RawJson),
}

impl Given {
    /// As the command line has it
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (key, said) = text.split_once('=').ok_or("has to be KEY=JSON, KEY=decline or KEY=cancel")?;
        let said = match said {
            "accept" => Said::Accept,
            "decline" => Said::Decline,
            "cancel" => Said::Cancel,
            json => Said::Json(RawJson::new(json.to_owned()).map_err(|error| {
                format!("{error}; what stands behind KEY= is JSON, or one of accept, decline, cancel")
            })?),
        };
        let given = Self { key: key.to_owned(), said };
        given.kind().map(|_| given)
    }

    /// The kind of question that this answers
    fn kind(&self) -> Result<Kind, String> {
        if let Some(kind) = Kind::named(&self.key) {
            return Ok(kind);
        }
        let Said::Json(json) = &self.said else { return Ok(Kind::Elicit) };
        let has = |name| json.member(name).is_some();
        match json.as_bytes().first() {
            Some(b'{') if has("role") && has("content") && has("model") => Ok(Kind::Sample),
            Some(b'{') if json.member("roots").is_some_and(|roots| roots.elements().is_some()) => {
                Ok(Kind::Roots)
            }
            Some(b'{') => Ok(Kind::Elicit),
            Some(b'"') => Ok(Kind::Sample),
            Some(b'[') => Ok(Kind::Roots),
            _ => {
                Err("the answer has to be an object (a form), a text (of a model) or a list (of roots)"
                    .into())
            }
        }
    }

    /// The answer that this is to a question; none when it refuses, an error when it is none
    fn answer(&self, request: &InputRequest<'_>) -> Result<Option<InputResponse<'static>>, String> {
        let answer: InputResponse<'static> = match request {
            InputRequest::Elicit(ElicitParams::Form(form)) => self.form(&form.requested_schema)?.into(),
            InputRequest::Elicit(_) => self.action()?.into(),
            InputRequest::CreateMessage(_) => match self.message()? {
                Some(message) => message.into(),
                None => return Ok(None),
            },
            InputRequest::ListRoots(_) => match self.roots()? {
                Some(roots) => roots.into(),
                None => return Ok(None),
            },
            _ => return Err("this is nothing that can be answered".into()),
        };
        request.check(&answer).map_err(|misfit| misfit.to_string())?;
        Ok(Some(answer))
    }

    /// An answer without content, or a result as it stands
    fn action(&self) -> Result<ElicitResult, String> {
        match &self.said {
            Said::Accept => Ok(ElicitResult::new(ElicitAction::Accept)),
            Said::Decline => Ok(ElicitResult::decline()),
            Said::Cancel => Ok(ElicitResult::cancel()),
            Said::Json(json) => json.parse().map_err(|error| error.to_string()),
        }
    }

    /// What is filled into a form; what is left out of it stands as the form has it at first
    fn form(&self, form: &ElicitSchema) -> Result<ElicitResult, String> {
        let content = match &self.said {
            Said::Accept => Map::new(),
            Said::Json(json)
                if json.member("action").is_none() || form.properties.get("action").is_some() =>
            {
                json.parse::<Map<ElicitValue>>().map_err(|error| error.to_string())?
            }
            _ => return self.action(),
        };
        if let Some((name, _)) = content.iter().find(|(name, _)| form.properties.get(name).is_none()) {
            return Err(format!("the form has no field `{name}`"));
        }
        Ok(ElicitResult::accept(form.fill_defaults(content)))
    }

    fn message(&self) -> Result<Option<CreateMessageResult<'static>>, String> {
        let Said::Json(json) = &self.said else {
            return if matches!(self.said, Said::Accept) {
                Err("there is nothing to accept".into())
            } else {
                Ok(None)
            };
        };
        Ok(Some(match json.string() {
            Some(text) => message(text),
            None => json.parse::<CreateMessageResult<'_>>().map_err(|error| error.to_string())?.into_owned(),
        }))
    }

    fn roots(&self) -> Result<Option<ListRootsResult>, String> {
        let Said::Json(json) = &self.said else {
            return if matches!(self.said, Said::Accept) {
                Err("there is nothing to accept".into())
            } else {
                Ok(None)
            };
        };
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

/// What a person or a program says in the place of a model
pub(super) fn message(text: String) -> CreateMessageResult<'static> {
    CreateMessageResult::new(Role::Assistant, text, "mcp-probe").stop_reason(StopReason::EndTurn)
}

/// The answers that were given, and which of them have been used
pub(super) struct Store(Vec<(Given, bool)>);

/// What there is for a question
pub(super) enum Choice {
    /// An answer; none refuses
    Answer(Option<Box<InputResponse<'static>>>),
    /// One that does not fit, and why
    Misfit(String),
    None,
}

impl Store {
    pub(super) fn new(given: Vec<Given>) -> Self {
        Self(given.into_iter().map(|given| (given, false)).collect())
    }

    pub(super) fn has(&self, kind: Kind) -> bool {
        self.0.iter().any(|(given, _)| given.kind() == Ok(kind))
    }

    /// Whether a model's answer is given with all that it has
    pub(super) fn has_messages(&self) -> bool {
        let is_object = |given: &Given| matches!(&given.said, Said::Json(json) if json.is_object());
        self.0.iter().any(|(given, _)| given.kind() == Ok(Kind::Sample) && is_object(given))
    }

    /// The answer to a question
    ///
    /// By the server's key for it, else by its kind, each in the order in which they were given, the last one as often as
    /// it is needed. A question without a key (legacy) gets the first one of its kind that fits.
    pub(super) fn choose(&mut self, key: Option<&str>, request: &InputRequest<'_>) -> Choice {
        let Some(kind) = Kind::of(request) else { return Choice::None };
        let Some(key) = key else { return self.first_fit(kind, request) };
        for name in [key, kind.word()] {
            let mut named: Vec<_> = self.0.iter_mut().filter(|(given, _)| given.key == name).collect();
            let next = named.iter().position(|(_, used)| !used).or_else(|| named.len().checked_sub(1));
            if let Some((given, used)) = next.and_then(|next| named.get_mut(next)) {
                *used = true;
                return match given.answer(request) {
                    Ok(answer) => Choice::Answer(answer.map(Box::new)),
                    Err(why) => Choice::Misfit(format!("the answer given for `{name}` does not fit: {why}")),
                };
            }
        }
        Choice::None
    }

    fn first_fit(&mut self, kind: Kind, request: &InputRequest<'_>) -> Choice {
        let mut again = None;
        let mut misfit = None;
        for (given, used) in self.0.iter_mut().filter(|(given, _)| given.kind() == Ok(kind)) {
            match given.answer(request) {
                Ok(answer) if *used => again = Some(answer.map(Box::new)),
                Ok(answer) => {
                    *used = true;
                    return Choice::Answer(answer.map(Box::new));
                }
                Err(why) => _ = misfit.get_or_insert_with(|| (given.key.clone(), why)),
            }
        }
        match (again, misfit) {
            (Some(answer), _) => Choice::Answer(answer),
            (None, Some((key, why))) => {
                Choice::Misfit(format!("no answer fits; the one given for `{key}` does not: {why}"))
            }
            (None, None) => Choice::None,
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

    /// What comes of these answers for a question: JSON, `refused`, `misfit: …` or `none`
    fn chosen(store: &mut Store, key: Option<&str>, request: &InputRequest<'_>) -> String {
        match store.choose(key, request) {
            Choice::Answer(Some(answer)) => serde_json::to_string(&answer).expect("JSON"),
            Choice::Answer(None) => "refused".into(),
            Choice::Misfit(why) => format!("misfit: {why}"),
            Choice::None => "none".into(),
        }
    }

    fn store(texts: &[&str]) -> Store {
        Store::new(texts.iter().map(|text| Given::parse(text).expect("an answer")).collect())
    }

    const ALICE: &str = r#"{"action":"accept","content":{"name":"Alice","age":30}}"#;

    // covers: ELIC-017, ELIC-018, ELIC-020, SAMP-015
    #[test]
    fn an_answer_is_what_the_question_makes_of_it() {
        let roots = || other("roots/list", "{}");
        let said = r#"{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"mcp-probe","stopReason":"endTurn"}"#;
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
                "misfit: the answer given for `k` does not fit: `content.name`: must be filled in",
            ),
            (
                r#"k={"name":"A"}"#,
                form(),
                "misfit: the answer given for `k` does not fit: `content.name`: must have 2 characters or more",
            ),
            (
                r#"k={"nome":"A"}"#,
                form(),
                "misfit: the answer given for `k` does not fit: the form has no field `nome`",
            ),
            ("k=accept", page(), r#"{"action":"accept"}"#),
            ("k=decline", page(), r#"{"action":"decline"}"#),
            (r#"k="Paris""#, sampling(), said),
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
    fn a_key_is_the_servers_or_a_kind() {
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
        // Without a key: what fits, each once, and then again.
        let mut all = store(&[r#"a={"nome":"x"}"#, r#"b={"name":"First"}"#, r#"elicit={"name":"Second"}"#]);
        let mut name = || chosen(&mut all, None, &form()).split('"').nth(9).map(str::to_owned);
        assert_eq!([name(), name(), name()].map(Option::unwrap), ["First", "Second", "Second"]);
        let none = chosen(&mut store(&[r#"a={"nome":"x"}"#]), None, &form());
        assert_eq!(
            none,
            "misfit: no answer fits; the one given for `a` does not: the form has no field `nome`"
        );
    }

    #[test]
    fn what_is_no_answer_is_refused_at_once() {
        for (text, wanted) in [
            ("name", "KEY=JSON"),
            ("name=", "one of accept, decline, cancel"),
            ("name=maybe", "one of accept, decline, cancel"),
            ("name=7", "an object (a form), a text (of a model) or a list (of roots)"),
        ] {
            let error = Given::parse(text).map(drop).expect_err(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn what_can_be_answered_is_seen_from_the_answers() {
        let kinds = |text: &str| {
            let all = store(&[text]);
            [Kind::Elicit, Kind::Sample, Kind::Roots]
                .into_iter()
                .filter(|kind| all.has(*kind))
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds("k=decline"), [Kind::Elicit]);
        assert_eq!(kinds("sample=decline"), [Kind::Sample]);
        assert_eq!(kinds(r#"k="x""#), [Kind::Sample]);
        assert_eq!(kinds(r#"k=["/"]"#), [Kind::Roots]);
        assert_eq!(kinds(r#"k={"roots":"x"}"#), [Kind::Elicit]);
        assert!(!store(&[r#"k="x""#]).has_messages());
        assert!(store(&[r#"k={"role":"assistant","content":[],"model":"m"}"#]).has_messages());
    }
}
