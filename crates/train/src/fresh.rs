//! Fresh policy for recipes that name none: a tiny Qwen3 with a tokenizer trained on the world's own words.
//!
//! It knows nothing. `sft.steps` of imitation come before reinforcement learning.

mod survey;

use std::path::Path;

use hone_arena::registry::World;
use hone_arena::solution::{Move, demonstration};
use hone_chat::template::ChatTemplate;
use hone_chat::{CHATML, ModelDir, RenderError, Tokenizer, TokenizerFiles, train_tokenizer};
use hone_trace::{Action, EngineKind, FreshSpec, Message, Task, documented};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use survey::{Chosen, Survey};

use crate::recipe::Recipe;
use crate::setup::SetupError;

documented! {
    /// `[policy.fresh]`: size of a policy created from scratch.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct FreshRecipe {
        /// Tokens of its tokenizer, which is trained on the world's own words. Fewer tokens split rare words into pieces, so
        /// that words never seen are spelled in pieces that were.
        pub vocabulary: usize where whole(1, 1_000_000),
        /// Layers of the model.
        pub layers: u32 where whole(1, 1_024),
        /// Width of the residual stream. Two heads share a key; the MLP is three times as wide.
        pub hidden: u32 where whole(64, 65_536),
        /// Width of a head. On a GPU heads of 64 or 128 are the fastest.
        pub head_dim: u32 where whole(1, 1_024),
        /// Whole tokens for the JSON around the names and values of schemas and calls: a call of one argument took 9 tokens
        /// instead of 20.
        pub json_tokens: bool,
    }
}

impl Default for FreshRecipe {
    fn default() -> Self {
        Self { vocabulary: 1024, layers: 3, hidden: 128, head_dim: 32, json_tokens: false }
    }
}

impl FreshRecipe {
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.hidden.is_multiple_of(64) {
            return Err(format!("policy.fresh.hidden is {}; it must be a multiple of 64", self.hidden));
        }
        if !self.hidden.is_multiple_of(2 * self.head_dim) {
            return Err(format!(
                "policy.fresh.hidden is {} and policy.fresh.head_dim {}; two heads share a key, so hidden must be a multiple of {}",
                self.hidden,
                self.head_dim,
                2 * self.head_dim
            ));
        }
        Ok(())
    }
}

/// Texts around the names and values of schemas, calls and answers as the template writes them.
const JSON_TOKENS: [&str; 13] = [
    "{\"type\": \"function\", \"function\": {\"name\": \"",
    "\", \"description\": \"",
    "\", \"parameters\": {\"type\": \"object\", \"properties\": {\"",
    "\": {\"type\": \"string\"}, \"",
    "\": {\"type\": \"string\"}}, \"required\": [\"",
    "\"]}}}",
    "<tool_call>\n{\"name\": \"",
    "\", \"arguments\": {\"",
    "\": \"",
    "\", \"",
    "\"}}\n</tool_call>",
    "<tool_response>\n",
    "\n</tool_response>",
];

/// Tasks whose words the tokenizer is trained on.
const TEXTS: usize = 300;

/// The tokenizer of a new policy.
#[derive(Debug)]
pub struct FreshTokenizer {
    files: TokenizerFiles,
    /// Tokens of the longest solved episode, up to the policy's last turn.
    pub longest: usize,
}

impl FreshTokenizer {
    /// A tokenizer of the recipe's size, trained on solved episodes.
    pub fn of(recipe: &Recipe, solutions: &Solutions) -> Result<Self, SetupError> {
        let size = &recipe.policy.fresh;
        let texts = solutions.episodes.iter().map(|episode| episode.text.clone());
        let files = train_tokenizer(texts, size.vocabulary, if size.json_tokens { &JSON_TOKENS } else { &[] })
            .map_err(|error| SetupError::Fresh(error.to_string()))?;
        let tokenizer = Tokenizer::from_json(&files.tokenizer)?;
        let mut longest = 0;
        for episode in &solutions.episodes {
            longest = longest.max(tokenizer.count(episode.acted.as_ref().unwrap_or(&episode.text))?);
        }
        Ok(Self { files, longest })
    }

    /// Refuses a window that solved episodes do not fit: a policy could imitate them and never play one to its end.
    pub fn check(&self, recipe: &Recipe) -> Result<(), SetupError> {
        let (longest, window) = (self.longest, recipe.rollout.window);
        // Recorded traces fitted the window of their run.
        if longest <= window || recipe.sft.traces.is_some() {
            return Ok(());
        }
        Err(SetupError::Fresh(format!(
            "the longest solved episode takes {longest} tokens with this tokenizer, and rollout.window is {window}; raise \
             rollout.window, or policy.fresh.vocabulary"
        )))
    }
}

/// Writes a model directory for the recipe's world into `dir`: the tokenizer here, the weights by the engine.
pub async fn fresh_policy(recipe: &Recipe, engine: &dyn EngineKind, dir: &Path) -> Result<(), SetupError> {
    fresh_policy_of(recipe, &FreshTokenizer::of(recipe, &Solutions::of(recipe).await?)?, engine, dir).await
}

/// Like [`fresh_policy`], with a tokenizer that was made before.
pub async fn fresh_policy_of(
    recipe: &Recipe,
    tokenizer: &FreshTokenizer,
    engine: &dyn EngineKind,
    dir: &Path,
) -> Result<(), SetupError> {
    let failed = |what: String| SetupError::Fresh(what);
    let size = &recipe.policy.fresh;
    std::fs::create_dir_all(dir).map_err(|error| failed(format!("cannot make {}: {error}", dir.display())))?;
    tokenizer.files.write(dir).map_err(|error| failed(format!("cannot write to {}: {error}", dir.display())))?;
    let stop_ids = ModelDir::open(dir)?.stop_ids().to_vec();
    let config = json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": size.vocabulary,
        "hidden_size": size.hidden,
        "intermediate_size": 3 * size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.hidden / size.head_dim,
        "num_key_value_heads": size.hidden / (2 * size.head_dim),
        "head_dim": size.head_dim,
        // The last observation of an episode may go over its window.
        "max_position_embeddings": 2 * recipe.rollout.window,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": false,
        "tie_word_embeddings": true,
        "eos_token_id": stop_ids.first(),
    });
    let spec = FreshSpec { config: &config, seed: recipe.seed, threads: recipe.policy.threads, dir };
    Ok(engine.fresh(&spec).await?)
}

/// A solved episode.
struct Solved {
    /// As rendered by the template: what the policy will read and write.
    text: String,
    /// The text up to the policy's last turn, where something follows: that is nothing it reads.
    acted: Option<String>,
    /// Names of its tools.
    tools: Vec<String>,
}

/// Solved episodes of an environment. Generating a large one's tasks takes seconds, so it is done once.
pub struct Solutions {
    episodes: Vec<Solved>,
    /// All training tasks.
    pub tasks: Vec<Task>,
}

impl std::fmt::Debug for Solutions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Solutions").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Solutions {
    /// Those of tasks spread over all, so that every environment of the recipe contributes.
    pub async fn of(recipe: &Recipe) -> Result<Self, SetupError> {
        let world = World::open(&recipe.env)?;
        let template = ChatTemplate::new(CHATML).map_err(RenderError::from)?;
        let mut episodes = Vec::new();
        for task in world.tasks.iter().step_by(world.tasks.len().div_ceil(TEXTS).max(1)) {
            episodes.push(solve(&world, task, &template).await?);
        }
        Ok(Self { episodes, tasks: world.tasks })
    }
}

async fn solve(world: &World, task: &Task, template: &ChatTemplate) -> Result<Solved, SetupError> {
    let mut episode = world.arena.open(task, 0).await?;
    let mut said = vec![Message::system(&*episode.system)];
    said.append(&mut episode.first);
    for step in demonstration(task).unwrap_or_default() {
        let action = match step {
            Move::Call(call) => {
                said.push(Message::calls(vec![call.clone()]));
                Action::Calls(vec![call])
            }
            Move::Say(reply) => {
                said.push(Message::assistant(&reply));
                Action::Reply(reply)
            }
        };
        let turn = episode.env.step(action).await?;
        said.extend(turn.messages);
        if turn.done {
            break;
        }
    }
    let transcript = |said: &[Message]| template.transcript(said, &episode.tools).map_err(RenderError::from);
    let text = transcript(&said)?;
    let last = said.iter().rposition(|message| message.role() == "assistant");
    let acted = last.filter(|last| last + 1 < said.len()).map(|last| transcript(&said[..=last])).transpose()?;
    Ok(Solved { text, acted, tools: episode.tools.iter().map(|tool| tool.name.clone()).collect() })
}
