//! Input that a handler requests from the client.

use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::RpcError;
#[cfg(feature = "schemars")]
use mcp_proto::model::ElicitOutcome;
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitResult, ElicitSchema, ElicitUrlParams,
    InputRequest, InputResponse, ListRootsResult,
};
#[cfg(feature = "schemars")]
use mcp_proto::router::schema::schemars::JsonSchema;
use mcp_proto::server::InputError;
#[cfg(doc)]
use mcp_proto::server::InputRequired;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CallCx, CallParts, OwnedCall, RunningCall};

impl<B: RunningCall> CallCx<B> {
    /// Asks the user to fill in a form, and returns the response once it has arrived.
    ///
    /// Until then it returns an error: leave the handler with `?`. The handler runs again from its beginning when the
    /// response has arrived. `key` distinguishes the input requests of this call. If the user declines, that is a
    /// response, too ([`ElicitAction`](mcp_proto::model::ElicitAction)).
    ///
    /// ```
    /// # use mcp_runtime::server::Cx;
    /// # use mcp_proto::RpcError;
    /// # use mcp_proto::model::{ElicitSchema, StringSchema};
    /// fn greet(cx: &mut Cx<'_>) -> Result<String, RpcError> {
    ///     let form = ElicitSchema::new([("name", StringSchema::new().into())]).required(["name".to_owned()]);
    ///     let answer = cx.elicit("name", "What is your name?", form)?;
    ///     Ok(format!("Hello, {:?}!", answer.content))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`InputError::Pending`]: the input was requested just now. `?` turns it into an error that is never sent.
    /// - [`InputError::Refused`]: the client cannot answer. `?` turns it into an error for the client.
    /// - [`InputError::Unusable`]: the client was asked twice, and its answers do not fit the form. `?` tells the client what is wrong.
    pub fn elicit(
        &mut self,
        key: &str,
        message: impl Into<String>,
        form: ElicitSchema,
    ) -> Result<ElicitResult, InputError> {
        let CallParts { call, state, .. } = self.0.parts();
        state.input_required.elicit(call, key, message, form)
    }

    /// Lets the input requests of this run be tasks of the client, whose answers are collected later.
    ///
    /// Call it before the handler asks. A client of 2025-11-25 that hosts such tasks acknowledges a question at once and is
    /// polled for the answer; all others are asked as usual. The handler sees the same in both cases. `ttl` is the time for
    /// which the client is asked to keep the task; without one it is the time that the answer is waited for. See
    /// [`InputRequired::ask_as_tasks`].
    ///
    /// ```
    /// # use mcp_runtime::server::Cx;
    /// # use mcp_proto::RpcError;
    /// # use mcp_proto::model::{BooleanSchema, ElicitSchema};
    /// fn sail(cx: &mut Cx<'_>) -> Result<&'static str, RpcError> {
    ///     cx.ask_as_tasks(None);
    ///     let form = ElicitSchema::default().field("ok", BooleanSchema::new());
    ///     cx.elicit("weather", "Is the weather fair?", form)?;
    ///     Ok("sailing")
    /// }
    /// # let _ = sail;
    /// ```
    #[cfg(feature = "tasks")]
    pub fn ask_as_tasks(&mut self, ttl: Option<core::time::Duration>) {
        self.0.parts().state.input_required.ask_as_tasks(ttl);
    }

    /// Asks the user for a value of `T`; otherwise as [`elicit`](Self::elicit).
    ///
    /// The form is derived from the type ([`ElicitSchema::for_type`](mcp_proto::model::ElicitSchema)).
    ///
    /// ```
    /// # use mcp_runtime::server::Cx;
    /// # use mcp_proto::server::InputError;
    /// use mcp_proto::model::ElicitOutcome;
    /// # use mcp_proto::router::schema::schemars::{self, JsonSchema};
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Stay {
    ///     /// How many nights?
    ///     nights: u8,
    /// }
    /// fn book(cx: &mut Cx<'_>) -> Result<String, InputError> {
    ///     Ok(match cx.elicit_as::<Stay>("stay", "For how long?")? {
    ///         ElicitOutcome::Accepted(stay) => format!("{} nights", stay.nights),
    ///         ElicitOutcome::Declined | ElicitOutcome::Cancelled => "not booked".to_owned(),
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit), and [`InputError::UnsupportedForm`] if `T` cannot be expressed as a form.
    #[cfg(feature = "schemars")]
    pub fn elicit_as<T>(
        &mut self,
        key: &str,
        message: impl Into<String>,
    ) -> Result<ElicitOutcome<T>, InputError>
    where
        T: JsonSchema + DeserializeOwned,
    {
        let CallParts { call, state, .. } = self.0.parts();
        state.input_required.elicit_as(call, key, message)
    }

    /// Asks the user to visit a web page (since 2025-11-25); otherwise as [`elicit`](Self::elicit).
    ///
    /// Acceptance means that the page will be opened, and nothing about what the user does there; see
    /// [`InputRequired::elicit_url`].
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    pub fn elicit_url(&mut self, key: &str, params: ElicitUrlParams) -> Result<ElicitAction, InputError> {
        let CallParts { call, state, .. } = self.0.parts();
        state.input_required.elicit_url(call, key, params)
    }

    /// Asks the client's language model for a message; otherwise as [`elicit`](Self::elicit).
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn sample(
        &mut self,
        key: &str,
        params: CreateMessageParams<'static>,
    ) -> Result<CreateMessageResult<'static>, InputError> {
        let CallParts { call, state, .. } = self.0.parts();
        state.input_required.sample(call, key, params).map(CreateMessageResult::into_owned)
    }

    /// Asks for the directories that the client lets the server see; otherwise as [`elicit`](Self::elicit).
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn list_roots(&mut self, key: &str) -> Result<ListRootsResult, InputError> {
        let CallParts { call, state, .. } = self.0.parts();
        state.input_required.list_roots(call, key)
    }

    /// Sends any input request; otherwise as [`elicit`](Self::elicit).
    ///
    /// To send several input requests at once, call this for each of them before leaving the handler.
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    pub fn request_input(
        &mut self,
        key: &str,
        request: InputRequest<'static>,
    ) -> Result<InputResponse<'static>, InputError> {
        let CallParts { call, state, .. } = self.0.parts();
        state.input_required.request_input(call, key, request).map(InputResponse::into_owned)
    }

    /// Runs `run` once in the whole call, and returns its value in every run of the handler.
    ///
    /// A handler runs again from its beginning when an input response arrives. What must not happen twice belongs in
    /// here: the value of the first time travels with the state of the call. `key` must be unique within the call. To
    /// keep an error as well, let `run` return a `Result` that can be serialized. [`InputRequired::once`] describes the
    /// bounds.
    ///
    /// ```
    /// # use mcp_runtime::server::Cx;
    /// # use mcp_proto::RpcError;
    /// # use mcp_proto::model::{BooleanSchema, ElicitSchema};
    /// # fn reserve_berth() -> u32 { 7 }
    /// fn moor(cx: &mut Cx<'_>) -> Result<String, RpcError> {
    ///     let berth = cx.once("berth", reserve_berth)?; // not reserved again after the answer
    ///     let form = ElicitSchema::default().field("ok", BooleanSchema::new());
    ///     let answer = cx.elicit("confirm", format!("Moor at berth {berth}?"), form)?;
    ///     Ok(format!("{berth}: {:?}", answer.action))
    /// }
    /// # let _ = moor;
    /// ```
    ///
    /// # Errors
    ///
    /// An internal error if the value cannot be written as JSON, or if the kept one is not a `T`.
    pub fn once<T: Serialize + DeserializeOwned>(
        &mut self,
        key: &str,
        run: impl FnOnce() -> T,
    ) -> Result<T, RpcError> {
        let CallParts { call, state, .. } = self.0.parts();
        state.input_required.once(call, key, run)
    }

    /// Keeps `state` for the next run of the handler, if this run requests input. [`Call::state`](mcp_proto::server::Call::state) returns it then.
    pub fn set_state(&mut self, state: impl Into<Vec<u8>>) {
        self.0.parts().state.input_required.set_state(state);
    }
}

impl CallCx<OwnedCall> {
    /// Awaits `run` once in the whole call; otherwise as [`once`](Self::once).
    ///
    /// # Errors
    ///
    /// As [`once`](Self::once).
    pub async fn once_async<T: Serialize + DeserializeOwned>(
        &mut self,
        key: &str,
        run: impl AsyncFnOnce() -> T,
    ) -> Result<T, RpcError> {
        let CallParts { call, state, .. } = self.0.parts();
        if let Some(value) = state.input_required.kept(call, key)? {
            return Ok(value);
        }
        let value = run().await;
        self.0.parts().state.input_required.keep(key, &value)?;
        Ok(value)
    }
}
