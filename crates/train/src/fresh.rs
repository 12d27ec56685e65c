//! A policy made on the spot, for recipes that name none: a tiny Qwen3 with a tokenizer trained on the world's own words.
//!
//! It knows nothing. `sft.steps` of imitation come before reinforcement learning.

use std::path::Path;
use std::sync::Arc;

use hone_arena::registry::World;
use hone_arena::solution::{Move, demonstration};
use hone_chat::template::{ChatTemplate, Clock, TemplateInput};
use hone_chat::{CHATML, ModelDir, RenderError, to_template, train_tokenizer};
use hone_engine::weights::Storage;
use hone_engine::{Config, Cpu, Model};
use hone_trace::{Action, Message, ToolSpec};
use serde_json::{Value, json};

use crate::recipe::Recipe;
use crate::setup::SetupError;

const VOCAB: usize = 1024;
/// Tasks whose words the tokenizer is trained on.
const TEXTS: usize = 300;

/// Writes a model directory for the recipe's world into `dir`.
pub async fn fresh_policy(recipe: &Recipe, dir: &Path) -> Result<(), SetupError> {
    let failed = |what: String| SetupError::Fresh(what);
    std::fs::create_dir_all(dir).map_err(|error| failed(format!("cannot make {}: {error}", dir.display())))?;
    let files = train_tokenizer(texts(recipe).await?, VOCAB, &[]).map_err(|error| failed(error.to_string()))?;
    files.write(dir).map_err(|error| failed(format!("cannot write to {}: {error}", dir.display())))?;
    let stop_ids = ModelDir::open(dir)?.stop_ids().to_vec();
    let config = json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": VOCAB,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": recipe.rollout.window,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": false,
        "tie_word_embeddings": true,
        "eos_token_id": stop_ids.first(),
    });
    let config = Config::parse(&config.to_string()).map_err(failed)?;
    let model = Model::random(config, Arc::new(Cpu::new(recipe.policy.threads)?), recipe.seed);
    Ok(model.save(dir, Storage::F32)?)
}

/// Solved episodes as the template shows them: what the policy will read and write.
async fn texts(recipe: &Recipe) -> Result<Vec<String>, SetupError> {
    let world = World::open(&recipe.env)?;
    let template = ChatTemplate::new(CHATML).map_err(RenderError::from)?;
    let mut texts = Vec::new();
    // Spread over all tasks, so that every environment of the recipe has its say.
    for task in world.tasks.iter().step_by(world.tasks.len().div_ceil(TEXTS).max(1)) {
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
        let tools: Vec<Value> = episode.tools.iter().map(ToolSpec::to_openai).collect();
        let input = TemplateInput {
            messages: &said.iter().map(to_template).collect::<Vec<_>>(),
            tools: Some(&tools),
            documents: None,
            add_generation_prompt: false,
            variables: &serde_json::Map::new(),
            clock: Clock::host(),
        };
        texts.push(template.render(&input).map_err(RenderError::from)?);
    }
    Ok(texts)
}
