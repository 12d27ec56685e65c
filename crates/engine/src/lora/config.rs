//! LoRA configuration: PEFT's `adapter_config.json`, with variants that are not implemented refused by name.

use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::error::{EngineError, Result};
use crate::weights::LayerParams;

/// A matrix that can be adapted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Module {
    Q,
    K,
    V,
    O,
    Gate,
    Up,
    Down,
}

impl Module {
    pub const COUNT: usize = 7;
    pub const ALL: [Self; Self::COUNT] = [Self::Q, Self::K, Self::V, Self::O, Self::Gate, Self::Up, Self::Down];

    /// Its name in `target_modules`.
    pub fn name(self) -> &'static str {
        self.path().split_once('.').map_or("", |(_, name)| name)
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Q => "self_attn.q_proj",
            Self::K => "self_attn.k_proj",
            Self::V => "self_attn.v_proj",
            Self::O => "self_attn.o_proj",
            Self::Gate => "mlp.gate_proj",
            Self::Up => "mlp.up_proj",
            Self::Down => "mlp.down_proj",
        }
    }

    /// Width of its input.
    pub fn inputs(self, c: &Config) -> usize {
        match self {
            Self::O => c.heads.out_width(),
            Self::Down => c.mlp,
            _ => c.hidden,
        }
    }

    /// Width of its output.
    pub fn outputs(self, c: &Config) -> usize {
        match self {
            Self::Q => c.heads.out_width(),
            Self::K | Self::V => c.heads.keys * c.heads.dim,
            Self::Gate | Self::Up => c.mlp,
            Self::O | Self::Down => c.hidden,
        }
    }

    /// Its first output in the fused matrix it is part of.
    pub fn column(self, c: &Config) -> usize {
        match self {
            Self::K => c.heads.out_width(),
            Self::V => c.heads.out_width() + c.heads.keys * c.heads.dim,
            Self::Up => c.mlp,
            _ => 0,
        }
    }

    /// The fused matrix it is part of.
    pub(crate) fn range(self, layer: &LayerParams) -> Range<usize> {
        match self {
            Self::Q | Self::K | Self::V => layer.qkv.clone(),
            Self::O => layer.out.clone(),
            Self::Gate | Self::Up => layer.gate_up.clone(),
            Self::Down => layer.down.clone(),
        }
    }
}

/// Shape of an adapter. Dropout is not applied: `lora_dropout` of a loaded adapter is ignored and saved as 0.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraConfig {
    pub rank: usize,
    pub alpha: f64,
    /// The adapted matrices, in the order of [`Module::ALL`].
    pub modules: Vec<Module>,
    /// Rank-stabilised LoRA: scale by alpha / sqrt(rank) instead of alpha / rank.
    pub rslora: bool,
    /// `base_model_name_or_path`, preserved.
    pub base: Option<String>,
}

impl LoraConfig {
    /// All seven matrices.
    pub fn all(rank: usize, alpha: f64) -> Self {
        Self { rank, alpha, modules: Module::ALL.to_vec(), rslora: false, base: None }
    }

    /// The factor on `B A`.
    pub fn scale(&self) -> f32 {
        let rank = self.rank as f64;
        (self.alpha / if self.rslora { rank.sqrt() } else { rank }) as f32
    }

    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join("adapter_config.json");
        let text = std::fs::read_to_string(&path).map_err(|source| EngineError::Io {
            action: "read",
            path: path.clone(),
            source,
        })?;
        Self::parse(&text).map_err(|what| EngineError::Adapter { path, what })
    }

    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let json: Map<String, Value> = serde_json::from_str(text)
            .map_err(|e| format!("not a JSON object: {e}; save the adapter again with PEFT"))?;
        refuse_variants(&json)?;
        let rank = json.get("r").and_then(Value::as_u64).filter(|r| (1..=65_536).contains(r));
        let rank = rank.ok_or("r is missing or not a rank")? as usize;
        Ok(Self {
            rank,
            alpha: json.get("lora_alpha").and_then(Value::as_f64).ok_or("lora_alpha is missing or not a number")?,
            modules: modules(json.get("target_modules"))?,
            rslora: json.get("use_rslora").and_then(Value::as_bool).unwrap_or(false),
            base: json.get("base_model_name_or_path").and_then(Value::as_str).map(str::to_owned),
        })
    }

    pub(super) fn save(&self, dir: &Path) -> Result<()> {
        let json = json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": self.base,
            "r": self.rank,
            "lora_alpha": self.alpha,
            "lora_dropout": 0.0,
            "bias": "none",
            "target_modules": self.modules.iter().map(|m| m.name()).collect::<Vec<_>>(),
            "use_rslora": self.rslora,
            "inference_mode": true,
        });
        let path = dir.join("adapter_config.json");
        std::fs::write(&path, format!("{json:#}\n")).map_err(|source| EngineError::Io { action: "write", path, source })
    }
}

/// Rejects PEFT keys that change the maths, unless their value changes nothing.
fn refuse_variants(json: &Map<String, Value>) -> std::result::Result<(), String> {
    // Read here, or without effect on the maths.
    const KNOWN: [&str; 19] = [
        "peft_type",
        "peft_version",
        "auto_mapping",
        "base_model_name_or_path",
        "revision",
        "task_type",
        "inference_mode",
        "r",
        "lora_alpha",
        "lora_dropout",
        "target_modules",
        "use_rslora",
        "bias",
        "init_lora_weights",
        "megatron_core",
        "qalora_group_size",
        "ensure_weight_tying",
        "runtime_config",
        "low_cpu_mem_usage",
    ];
    let kind = json.get("peft_type").and_then(Value::as_str).unwrap_or("missing");
    if kind != "LORA" {
        return Err(format!("peft_type {kind} is not implemented; train or convert it as LORA"));
    }
    let neutral = |v: &Value| match v {
        Value::Null | Value::Bool(false) => true,
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
        _ => false,
    };
    for (key, value) in json.iter().filter(|(key, _)| !KNOWN.contains(&key.as_str())) {
        if !neutral(value) {
            return Err(format!("{key} = {value} is not implemented; merge the adapter with PEFT and load the result"));
        }
    }
    if let Some(bias) = json.get("bias").filter(|b| !b.is_null() && *b != "none") {
        return Err(format!("bias = {bias} is not implemented; retrain with bias = \"none\""));
    }
    // Other initialisations (PiSSA, OLoRA, ...) change the base weights as well.
    match json.get("init_lora_weights") {
        None | Some(Value::Null | Value::Bool(_)) => Ok(()),
        Some(v) if v == "gaussian" => Ok(()),
        Some(v) => {
            Err(format!("init_lora_weights = {v} changes the base weights; convert the adapter with PEFT first"))
        }
    }
}

fn modules(value: Option<&Value>) -> std::result::Result<Vec<Module>, String> {
    let named = |name: &str| Module::ALL.into_iter().find(|m| m.name() == name || m.path() == name);
    let mut found = match value {
        Some(Value::String(all)) if all == "all-linear" => return Ok(Module::ALL.to_vec()),
        Some(Value::Array(names)) => {
            names.iter().map(|n| n.as_str().and_then(named).ok_or(n)).collect::<std::result::Result<Vec<_>, _>>()
        }
        Some(other) => Err(other),
        None => return Err("target_modules is missing; list the adapted matrices or write \"all-linear\"".into()),
    }
    .map_err(|bad| {
        format!("target_modules: {bad} is not implemented; known are {}", Module::ALL.map(Module::name).join(", "))
    })?;
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        Err("target_modules is empty; list the adapted matrices or write \"all-linear\"".into())
    } else {
        Ok(found)
    }
}
