//! A judge's endpoint: a model that is asked for one JSON object at a time.
//!
//! Deadlines, retries and the API key are handled by [`ChatClient`]. The response is text; the caller validates it
//! against the schema, however the server was asked for it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalogue::{Documented, split};
use crate::chat_client::{ChatClient, ChatSpec};

/// Way of asking the server for JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFormat {
    #[default]
    JsonSchema,
    JsonObject,
    /// The prompt alone, for servers without `response_format`.
    Prompt,
}

/// Splits a table into the judge's options and its model's, both read in full.
pub(super) fn read<A: Documented + DeserializeOwned>(options: Value) -> Result<(A, ChatSpec), String> {
    let (own, chat) = split::<A>(options);
    let own = serde_json::from_value(own).map_err(|error| error.to_string())?;
    Ok((own, serde_json::from_value(chat).map_err(|error| error.to_string())?))
}

#[derive(Debug, Clone)]
pub struct Endpoint {
    client: ChatClient,
    answer: AnswerFormat,
}

impl Endpoint {
    /// A judge without a temperature is sampled at 0.
    pub fn new(mut spec: ChatSpec, answer: AnswerFormat) -> Result<Self, String> {
        spec.temperature = spec.temperature.or(Some(0.0));
        Ok(Self { client: ChatClient::new(spec)?, answer })
    }

    /// Content of the model's reply, or the reason why there is none.
    pub async fn ask(&self, system: &str, user: &str, schema: &Value) -> Result<String, String> {
        let messages = [json!({"role": "system", "content": system}), json!({"role": "user", "content": user})];
        let mut extra = Map::new();
        match self.answer {
            AnswerFormat::JsonSchema => {
                let named = json!({"name": "verdict", "strict": true, "schema": schema});
                extra.insert("response_format".into(), json!({"type": "json_schema", "json_schema": named}));
            }
            AnswerFormat::JsonObject => {
                extra.insert("response_format".into(), json!({"type": "json_object"}));
            }
            AnswerFormat::Prompt => {}
        }
        self.client.reply(&messages, extra).await.map_err(|fault| format!("judge_{fault}"))
    }
}
