//! `config.json` of Qwen3, Qwen2/2.5 and Llama, in the key styles of transformers 4 and 5.
//!
//! Options that would change the maths and are not implemented are refused by name: a model that loads is computed as
//! transformers computes it.

mod heads;
mod shape;

use std::path::Path;

use serde_json::{Map, Value};
pub use shape::Shape;

pub use heads::Heads;

use crate::error::{EngineError, Result};
use crate::rope::{Rope, Scaling};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Qwen3,
    Qwen2,
    Llama,
}

impl Family {
    fn architecture(self) -> &'static str {
        match self {
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Llama => "LlamaForCausalLM",
        }
    }

    fn model_type(self) -> &'static str {
        match self {
            Self::Qwen3 => "qwen3",
            Self::Qwen2 => "qwen2",
            Self::Llama => "llama",
        }
    }
}

/// The shape of a model.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts of an architecture")]
pub struct Config {
    pub family: Family,
    pub vocab: usize,
    pub hidden: usize,
    pub mlp: usize,
    pub layers: usize,
    pub heads: Heads,
    /// Maximum sequence length.
    pub context: usize,
    pub norm_eps: f32,
    /// Tied embeddings: the LM head is the embedding matrix.
    pub tied: bool,
    pub qkv_bias: bool,
    pub out_bias: bool,
    pub mlp_bias: bool,
    /// Query-key norm: RMSNorm per head before RoPE.
    pub qk_norm: bool,
    pub rope: Rope,
    /// Standard deviation of fresh weights.
    pub init_std: f32,
    /// The file as read: saved back unchanged.
    pub source: Map<String, Value>,
}

impl Config {
    /// Reads `config.json` of a model directory.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let text = std::fs::read_to_string(&path).map_err(|source| EngineError::Io {
            action: "read",
            path: path.clone(),
            source,
        })?;
        Self::parse(&text).map_err(|what| EngineError::Config { path, what })
    }

    /// Reads the text of a `config.json`.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| format!("not JSON: {e}; copy it from the model again"))?;
        let Value::Object(source) = value else { return Err("not a JSON object; copy it from the model again".into()) };
        Self::from_map(source)
    }

    pub fn from_map(source: Map<String, Value>) -> std::result::Result<Self, String> {
        let keys = Keys(&source);
        let family = family(keys)?;
        refuse_what_changes_the_maths(keys, family)?;
        let hidden = keys.size("hidden_size")?;
        let queries = keys.size("num_attention_heads")?;
        let default_dim = if family == Family::Qwen3 { 128 } else { hidden / queries };
        let heads = Heads {
            queries,
            keys: keys.size_or("num_key_value_heads", queries)?,
            dim: keys.size_or("head_dim", default_dim)?,
        };
        if !heads.queries.is_multiple_of(heads.keys) {
            return Err(format!(
                "num_attention_heads {} is not a multiple of num_key_value_heads {}; change one of them",
                heads.queries, heads.keys
            ));
        }
        if heads.dim % 2 == 1 || heads.dim < 4 {
            return Err(format!("head_dim {} is odd or below 4; use an even number of at least 4", heads.dim));
        }
        let positions = keys.size("max_position_embeddings")?;
        let rope = rope(keys, heads.dim, positions)?;
        let attention_bias = keys.flag("attention_bias", false)?;
        let config = Self {
            family,
            vocab: keys.size("vocab_size")?,
            hidden,
            mlp: keys.size("intermediate_size")?,
            layers: keys.size("num_hidden_layers")?,
            heads,
            context: context(positions, rope.scaling),
            norm_eps: keys.number("rms_norm_eps")?.unwrap_or(1e-6) as f32,
            tied: keys.flag("tie_word_embeddings", false)?,
            qkv_bias: family == Family::Qwen2 || attention_bias,
            out_bias: family != Family::Qwen2 && attention_bias,
            mlp_bias: family == Family::Llama && keys.flag("mlp_bias", false)?,
            qk_norm: family == Family::Qwen3,
            rope,
            init_std: keys.number("initializer_range")?.unwrap_or(0.02) as f32,
            source: Map::new(),
        };
        refuse_sliding_window(keys, &config)?;
        Ok(Self { source, ..config })
    }
}

/// Sizes that no model exceeds: a table of a billion layers must not be built from a slip of the pen.
const MOST: [(&str, usize); 6] = [
    ("num_hidden_layers", 4_096),
    ("hidden_size", 1 << 20),
    ("intermediate_size", 1 << 22),
    ("num_attention_heads", 1 << 16),
    ("head_dim", 1 << 16),
    ("vocab_size", 1 << 26),
];

/// Maximum context. Dynamic RoPE frequencies extend beyond the trained length; the other kinds do not.
fn context(positions: usize, scaling: Scaling) -> usize {
    match scaling {
        Scaling::Dynamic { factor, trained } => (factor * trained as f64) as usize,
        _ => positions,
    }
}

fn family(keys: Keys<'_>) -> std::result::Result<Family, String> {
    const KNOWN: [Family; 3] = [Family::Qwen3, Family::Qwen2, Family::Llama];
    let architecture = keys.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str);
    let model_type = keys.get("model_type").and_then(Value::as_str);
    let found = KNOWN
        .into_iter()
        .find(|f| architecture.is_none_or(|a| a == f.architecture()) && model_type.is_none_or(|t| t == f.model_type()));
    match found {
        Some(family) if architecture.is_some() || model_type.is_some() => Ok(family),
        _ => Err(format!(
            "architecture {} (model_type {}) is not known; this engine computes {}",
            architecture.unwrap_or("missing"),
            model_type.unwrap_or("missing"),
            KNOWN.map(Family::architecture).join(", ")
        )),
    }
}

fn refuse_what_changes_the_maths(keys: Keys<'_>, family: Family) -> std::result::Result<(), String> {
    // (key, the value that changes nothing)
    let neutral: [(&str, &[Value]); 11] = [
        ("hidden_act", &["silu".into()]),
        ("attention_dropout", &[0.into()]),
        ("partial_rotary_factor", &[1.into()]),
        ("attention_multiplier", &[1.into()]),
        ("residual_multiplier", &[1.into()]),
        ("embedding_multiplier", &[1.into()]),
        ("logits_scaling", &[1.into()]),
        ("is_causal", &[true.into()]),
        ("use_bidirectional_attention", &[false.into()]),
        ("attn_logit_softcapping", &[]),
        ("final_logit_softcapping", &[]),
    ];
    for (key, harmless) in neutral {
        if let Some(value) = keys.get(key)
            && !harmless.iter().any(|h| h == value || (h.as_f64().is_some() && h.as_f64() == value.as_f64()))
        {
            return Err(format!(
                "{key} = {value} is not implemented; remove it only if the weights were trained without it"
            ));
        }
    }
    if keys.get("quantization_config").is_some() {
        return Err("quantization_config: quantised weights are not implemented; use the unquantised model".into());
    }
    if family == Family::Qwen2 && !keys.flag("attention_bias", true)? {
        return Err(
            "attention_bias = false: Qwen2 always has biases on q, k and v; remove the key, or correct model_type"
                .into(),
        );
    }
    Ok(())
}

/// Sliding window: one that no sequence can outgrow changes nothing; any other is refused.
fn refuse_sliding_window(keys: Keys<'_>, config: &Config) -> std::result::Result<(), String> {
    let listed = keys.get("layer_types").and_then(Value::as_array);
    if let Some(other) =
        listed.and_then(|l| l.iter().find(|t| !matches!(t.as_str(), Some("full_attention" | "sliding_attention"))))
    {
        return Err(format!("layer_types: {other} is not implemented; use a model of full_attention layers"));
    }
    let slides = match listed {
        Some(types) => types.iter().any(|t| t == "sliding_attention"),
        None => {
            config.family != Family::Llama
                && keys.flag("use_sliding_window", false)?
                && keys.number("max_window_layers")?.unwrap_or(28.0) < config.layers as f64
        }
    };
    let window = keys.size_or("sliding_window", 4096)?;
    if slides && window < config.context {
        return Err(format!(
            "sliding_window = {window} is not implemented; with max_position_embeddings of at most {window} it would change nothing"
        ));
    }
    Ok(())
}

fn rope(keys: Keys<'_>, dim: usize, positions: usize) -> std::result::Result<Rope, String> {
    const KNOWN: [&str; 15] = [
        "rope_type",
        "type",
        "rope_theta",
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "low_freq_factor",
        "high_freq_factor",
        "partial_rotary_factor",
        "finetuned",
    ];
    let empty = Map::new();
    // If both keys are present the old one wins, as in transformers.
    let table = |key| keys.get(key).and_then(Value::as_object).filter(|m| !m.is_empty());
    let parameters = table("rope_scaling").or_else(|| table("rope_parameters")).unwrap_or(&empty);
    if let Some(unknown) = parameters.keys().find(|k| !KNOWN.contains(&k.as_str())) {
        return Err(format!("rope parameter {unknown} is not known; known are {}", KNOWN.join(", ")));
    }
    let rope = Keys(parameters);
    if rope.number("partial_rotary_factor")?.is_some_and(|f| f != 1.0) {
        return Err(
            "rope parameter partial_rotary_factor: only whole heads can be rotated; use a model with a factor of 1"
                .into(),
        );
    }
    let theta = match rope.number("rope_theta")? {
        Some(theta) => theta,
        None => keys.number("rope_theta")?.unwrap_or(10_000.0),
    };
    let kind = rope.get("rope_type").or_else(|| rope.get("type")).and_then(Value::as_str).unwrap_or("default");
    let needed = |key: &str| rope.number(key)?.ok_or_else(|| format!("rope type {kind} needs {key}"));
    let trained = || -> std::result::Result<f64, String> {
        let outer = keys.number("original_max_position_embeddings")?;
        Ok(outer.or(rope.number("original_max_position_embeddings")?).unwrap_or(positions as f64))
    };
    let scaling = match kind {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: needed("factor")? },
        "dynamic" => Scaling::Dynamic { factor: needed("factor")?, trained: positions },
        "yarn" => yarn(rope, positions as f64, trained()?)?,
        "llama3" => Scaling::Llama3 {
            factor: needed("factor")?,
            trained: trained()?,
            low: needed("low_freq_factor")?,
            high: needed("high_freq_factor")?,
        },
        other => {
            return Err(format!(
                "rope type {other} is not implemented; known are default, linear, dynamic, yarn, llama3"
            ));
        }
    };
    Ok(Rope { theta, dim, scaling })
}

fn yarn(rope: Keys<'_>, positions: f64, trained: f64) -> std::result::Result<Scaling, String> {
    let factor = rope.number("factor")?.unwrap_or(positions / trained);
    let mscale = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
    // A zero counts as absent, as in transformers.
    let set = |key| -> std::result::Result<Option<f64>, String> { Ok(rope.number(key)?.filter(|v| *v != 0.0)) };
    let attention_factor = match (rope.number("attention_factor")?, set("mscale")?, set("mscale_all_dim")?) {
        (Some(given), _, _) => given,
        (None, Some(m), Some(all)) => mscale(m) / mscale(all),
        _ => mscale(1.0),
    };
    Ok(Scaling::Yarn {
        factor,
        trained,
        beta_fast: set("beta_fast")?.unwrap_or(32.0),
        beta_slow: set("beta_slow")?.unwrap_or(1.0),
        truncate: rope.flag("truncate", true)?,
        attention_factor,
    })
}

/// Typed access to a JSON object. `null` counts as absent.
#[derive(Clone, Copy)]
struct Keys<'a>(&'a Map<String, Value>);

impl<'a> Keys<'a> {
    fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }

    fn number(self, key: &str) -> std::result::Result<Option<f64>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_f64().filter(|n| n.is_finite());
        number.map(Some).ok_or_else(|| format!("{key} is not a number: {value}"))
    }

    fn flag(self, key: &str, default: bool) -> std::result::Result<bool, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| format!("{key} is not true or false: {value}"))
    }

    fn size(self, key: &str) -> std::result::Result<usize, String> {
        let value = self.get(key).ok_or_else(|| format!("{key} is missing"))?;
        // No other dimension of a model that fits a machine needs more than 32 bits; products of two then fit 64.
        let most = MOST.iter().find(|(of, _)| *of == key).map_or(u64::from(u32::MAX), |(_, most)| *most as u64);
        let size = value.as_u64().filter(|n| (1..=most).contains(n));
        size.map(|n| n as usize).ok_or_else(|| {
            format!("{key} must be a whole number from 1 to {most}, and is {value}; look at config.json")
        })
    }

    fn size_or(self, key: &str, default: usize) -> std::result::Result<usize, String> {
        if self.get(key).is_some() { self.size(key) } else { Ok(default) }
    }
}
