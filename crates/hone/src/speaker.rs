//! Inference without a run: rendering, sampling and parsing of a policy's replies.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hone_chat::parse::{Format, Parsed, Toolbox, parse};
use hone_chat::{Conversation, ModelDir, RenderSettings, Renderer, call_format};
use hone_engine::Native;
use hone_trace::{Engine, EngineKind as _, EngineSpec, Sample, SampleRequest, SamplingParams, StopReason};

use crate::place::Place;

/// A policy on this machine, with its texts.
pub(crate) struct Speaker {
    pub(crate) texts: ModelDir,
    pub(crate) renderer: Renderer,
    /// Its tool-call format, if the template shows it.
    pub(crate) format: Option<Format>,
    /// Tokens of the longest sequence.
    pub(crate) context: usize,
    engine: Arc<dyn Engine>,
}

/// A reply as sampled and as parsed.
pub(crate) struct Reply {
    pub(crate) ids: Vec<u32>,
    pub(crate) text: String,
    pub(crate) parsed: Parsed,
    pub(crate) stop: StopReason,
}

impl Speaker {
    pub(crate) async fn open(given: &Path, threads: usize) -> Result<Self> {
        let Place { model, adapter } = Place::find(given)?;
        let texts = ModelDir::open(&model)?;
        let renderer = Renderer::new(&texts, RenderSettings::default())?;
        let format = call_format(renderer.template(true), texts.special_tokens());
        let context = hone_engine::Config::load(&model)?.context;
        let run = "chat".to_owned();
        let spec = EngineSpec { model, adapter, lora: None, run, seed: 0, threads, options: serde_json::Map::new() };
        let engine = Native.open(&spec).await?;
        if renderer.tokenizer().vocab_size() > engine.vocabulary() {
            bail!(
                "the tokenizer has {} tokens and the model {} rows; use the tokenizer the model was made with",
                renderer.tokenizer().vocab_size(),
                engine.vocabulary()
            );
        }
        Ok(Self { texts, renderer, format, context, engine })
    }

    /// The continuation of a prompt. Special tokens at its end are not part of the text.
    pub(crate) async fn sample(&self, prompt: Vec<u32>, mut params: SamplingParams, seed: u64) -> Result<Sample> {
        let room = self.context.saturating_sub(prompt.len());
        if room == 0 {
            bail!("the prompt has {} tokens and the model's context is {}; shorten it", prompt.len(), self.context);
        }
        params.max_new_tokens = params.max_new_tokens.min(u32::try_from(room).unwrap_or(u32::MAX));
        let request = SampleRequest { prompt, params, seed, gate: None };
        self.engine.sampler().sample(request).await.context("the policy cannot be sampled")
    }

    /// The next reply of a conversation.
    pub(crate) async fn reply(
        &self,
        conversation: &Conversation,
        tools: &Toolbox,
        params: &SamplingParams,
        seed: u64,
    ) -> Result<Reply> {
        let params = SamplingParams { stop_ids: conversation.stop_ids(), ..params.clone() };
        let sample = self.sample(conversation.ids().to_vec(), params, seed).await?;
        let text = self.text(&sample.tokens);
        let parsed = parse(&text, tools, self.format);
        Ok(Reply { ids: sample.tokens, text, parsed, stop: sample.stop })
    }

    /// The text of ids, as training reads it.
    pub(crate) fn text(&self, ids: &[u32]) -> String {
        let mut decoder = self.renderer.tokenizer().stream();
        let mut text: String = ids.iter().map(|id| decoder.push(*id)).collect();
        text.push_str(&decoder.finish());
        text
    }
}

/// Sampling flags that `chat` and `generate` share.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Sampling {
    /// 0 is greedy; 1 is how policies are trained
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Tokens of a reply, at most
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_new: u32,
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
}

impl Sampling {
    pub(crate) fn params(&self) -> Result<SamplingParams> {
        let params =
            SamplingParams { temperature: self.temperature, max_new_tokens: self.max_new, ..SamplingParams::default() };
        params.check().map_err(anyhow::Error::msg)?;
        Ok(params)
    }
}
