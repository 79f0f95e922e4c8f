//! Questions that are right in themselves, and answers by the kind of the question (MRTR-008, MRTR-018, MRTR-027).

use serde::Deserialize;

use super::{InputRequest, InputResponse};
use crate::ascii::AnyCase as _;
use crate::model::Misfit;
use crate::model::elicitation::{ElicitAction, ElicitParams, ElicitResult, ElicitUrlParams};
use crate::model::map::Map;
use crate::model::roots::ListRootsResult;
use crate::raw::RawJson;
use crate::uri::{has_host, is_uri};
use crate::vocab::{CREATE_MESSAGE, ELICIT, LIST_ROOTS};

impl<'a> InputRequest<'a> {
    /// A question from its method and its parameters, as a legacy request has them
    pub fn of(method: &str, params: Option<&'a RawJson>) -> Result<Self, Misfit> {
        fn read<'a, T: Deserialize<'a>>(params: &'a RawJson) -> Result<T, Misfit> {
            params.parse().map_err(|e| unread(&e))
        }
        fn unread(error: &serde_json::Error) -> Misfit {
            Misfit::unread(error).within("params")
        }
        let needed = || params.ok_or_else(|| Misfit::new("missing field `params`"));
        match method {
            ELICIT => ElicitParams::of(needed()?.as_str()).map(Self::Elicit).map_err(|e| unread(&e)),
            CREATE_MESSAGE => read(needed()?).map(Self::CreateMessage),
            LIST_ROOTS => params.map(read).transpose().map(Self::ListRoots),
            _ => Err(Misfit::at("method", "is nothing that a server can ask for")),
        }
    }

    /// Whether `key` does as the key of a question: 1 to 64 characters, none of them a control character
    ///
    /// The protocol leaves keys to servers (MRTR-007); this is for those that we make. A client takes any.
    #[must_use]
    pub fn is_key(key: &str) -> bool {
        (1..=64).contains(&key.chars().count()) && !key.chars().any(char::is_control)
    }

    /// Whether the question is right in itself
    ///
    /// A form that can be filled in ([`ElicitSchema::validate`](crate::model::ElicitSchema::validate)), a page that can
    /// be visited ([`ElicitUrlParams::validate`]), a conversation that a model can be given
    /// ([`CreateMessageParams::validate`](crate::model::CreateMessageParams::validate)); and a kind of question that
    /// there is (MRTR-008). Whether the client can be asked is another matter: see [`needs`](Self::needs).
    pub fn validate(&self) -> Result<(), Misfit> {
        match self {
            Self::Elicit(ElicitParams::Form(form)) => {
                form.requested_schema.validate().map_err(|m| m.within("requestedSchema"))
            }
            Self::Elicit(ElicitParams::Url(page)) => page.validate(),
            Self::Elicit(ElicitParams::Other(_)) => Err(Misfit::at("mode", "is neither `form` nor `url`")),
            Self::CreateMessage(params) => params.validate(),
            Self::ListRoots(_) => Ok(()),
            Self::Other(_) => Err(Misfit::at("method", "is nothing that a server can ask for")),
        }
    }

    /// Reads an answer to this question, on either side: a bare result that fits it (MRTR-018, MRTR-027)
    ///
    /// Members that this version does not know are let through. The error names what does not fit.
    pub fn read<'r>(&self, answer: &'r RawJson) -> Result<InputResponse<'r>, Misfit> {
        let Some(method) = self.method() else { return Ok(InputResponse::Other(answer.clone())) };
        let response = InputResponse::read(method, answer)?;
        self.suits(&response).map(|()| response)
    }

    /// Whether an answer fits this question (ELIC-020, SAMP-022)
    pub fn check(&self, answer: &InputResponse<'_>) -> Result<(), Misfit> {
        answer.validate().and_then(|()| self.suits(answer))
    }

    /// Whether an answer that is right in itself fits this question
    fn suits(&self, answer: &InputResponse<'_>) -> Result<(), Misfit> {
        match (self, answer) {
            (Self::Elicit(question), InputResponse::Elicit(result)) => question.suits(result),
            (Self::CreateMessage(question), InputResponse::CreateMessage(result)) => question.suits(result),
            (Self::ListRoots(_), InputResponse::ListRoots(_)) | (Self::Other(_), _) => Ok(()),
            _ => Err(Misfit::new("is the answer to another kind of question")),
        }
    }
}

impl<'a> InputResponse<'a> {
    /// Reads an answer to a question of which no more than the method is known: a bare result of that kind (MRTR-018)
    ///
    /// Looks at all that can be told without the question: see [`validate`](Self::validate).
    pub fn read(method: &str, answer: &'a RawJson) -> Result<Self, Misfit> {
        let read = match method {
            ELICIT => answer.parse().map(Self::Elicit),
            CREATE_MESSAGE => answer.parse().map(Self::CreateMessage),
            LIST_ROOTS => answer.parse().map(Self::ListRoots),
            _ => return Err(Misfit::new("is the answer to nothing that a server can ask for")),
        };
        let read = read.map_err(|e| Misfit::unread(&e))?;
        read.validate().map(|()| read)
    }

    /// Whether the answer is right in itself: the action one of three, with content only if it is `accept` (ELIC-018);
    /// tools called with objects (SAMP-022); roots that are files (ROOT-005)
    pub fn validate(&self) -> Result<(), Misfit> {
        match self {
            Self::Elicit(result) => result.validate(),
            Self::CreateMessage(result) => result.validate(),
            Self::ListRoots(result) => result.validate(),
            Self::Other(_) => Ok(()),
        }
    }
}

impl ElicitParams {
    fn suits(&self, result: &ElicitResult) -> Result<(), Misfit> {
        static NOTHING: Map<crate::model::ElicitValue> = Map::new();
        let content = result.content.as_ref().unwrap_or(&NOTHING);
        match self {
            Self::Form(form) if result.action == ElicitAction::Accept => {
                form.requested_schema.check(content).map_err(|m| m.within("content"))
            }
            // ELIC-034
            Self::Url(_) if !content.is_empty() => {
                Err(Misfit::at("content", "does not belong to an answer about a web page"))
            }
            _ => Ok(()),
        }
    }
}

impl ElicitUrlParams {
    /// Whether the page can be visited: its URL is absolute and names a host (ELIC-009)
    ///
    /// Which schemes to open is for who opens it; outside of development it should be `https` (ELIC-038).
    pub fn validate(&self) -> Result<(), Misfit> {
        match is_uri(&self.url) && has_host(&self.url) {
            true => Ok(()),
            false => Err(Misfit::at("url", "must be an absolute URL with a host")),
        }
    }
}

impl ElicitResult {
    fn validate(&self) -> Result<(), Misfit> {
        match &self.action {
            ElicitAction::Accept => Ok(()),
            // Some clients say `{}` where they mean nothing.
            ElicitAction::Decline | ElicitAction::Cancel
                if self.content.as_ref().is_none_or(Map::is_empty) =>
            {
                Ok(())
            }
            ElicitAction::Decline | ElicitAction::Cancel => {
                Err(Misfit::at("content", "belongs only to an answer that is `accept`"))
            }
            ElicitAction::Other(_) => Err(Misfit::at("action", "must be `accept`, `decline` or `cancel`")),
        }
    }
}

impl ListRootsResult {
    /// The scheme in any case; what follows is for who works there to judge (ROOT-008)
    fn validate(&self) -> Result<(), Misfit> {
        let is_file = |uri: &str| uri.get(..7).is_some_and(|start| start.eq_any_case("file://"));
        match self.roots.iter().position(|root| !is_file(&root.uri)) {
            Some(at) => Err(Misfit::at("uri", "must begin with `file://`").element(at).within("roots")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
