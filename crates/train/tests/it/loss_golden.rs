//! Values and gradients of TRL 1.16's losses, recorded in float64, against the losses of the catalogue.

use std::collections::BTreeSet;

use hone_train::loss::{Bound, Correction, Estimator, Kl, LossRecipe, Objective, Reduction, Spread};
use serde_json::Value;

use crate::common::{Columns, close, recorded};

fn rows(value: &Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).unwrap()
}

fn number(config: &Value, key: &str) -> f64 {
    config[key].as_f64().unwrap()
}

/// The tokens a mask keeps, row after row: what Hone calls targets.
fn targets(inputs: &Value, config: &Value) -> Vec<(usize, usize)> {
    let (completion, tool) = (rows(&inputs["completion_mask"]), rows(&inputs["tool_mask"]));
    let with_tool = config["tool"].as_bool().unwrap();
    let kept = |row: usize, column: usize| completion[row][column] > 0.0 && (!with_tool || tool[row][column] > 0.0);
    let places = (0..completion.len()).flat_map(|row| (0..completion[row].len()).map(move |column| (row, column)));
    places.filter(|&(row, column)| kept(row, column)).collect()
}

fn columns(inputs: &Value, config: &Value, reduction: Reduction) -> Columns {
    let at = targets(inputs, config);
    let pick = |key: &str| -> Vec<f64> {
        let rows = rows(&inputs[key]);
        at.iter().map(|&(row, column)| rows[row][column]).collect()
    };
    let advantages: Vec<f64> = serde_json::from_value(inputs["advantages"].clone()).unwrap();
    let mut counts = vec![0; advantages.len()];
    for (row, _) in &at {
        counts[*row] += 1;
    }
    let logp = pick("logp");
    let old = if config["has_old"].as_bool().unwrap() { pick("old_logp") } else { logp.clone() };
    // Without a separate sampler TRL compares with the old policy.
    let sampler = if config["use_vllm"].as_bool().unwrap() { pick("sampling_logp") } else { old.clone() };
    // TRL's step is `gas` of these batches; its token mean covers the tokens of `spg` steps.
    let steps = match reduction {
        Reduction::TokenMean if config["loss_type"] != "bnpo" => number(config, "gas") / number(config, "spg"),
        _ => number(config, "gas"),
    };
    let weights = reduction.weights(&[counts.clone()]).remove(0);
    let ends = counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end - count..*end)
    });
    Columns {
        reference: pick("ref_logp"),
        advantage: at.iter().map(|(row, _)| advantages[*row]).collect(),
        weight: at.iter().map(|(row, _)| weights[*row] / steps).collect(),
        entropy: pick("entropy"),
        sequences: ends.collect(),
        logp,
        old,
        sampler,
    }
}

/// Loss of the catalogue that a recorded case is, with the clips that its entry has by default.
fn named(config: &Value) -> (&str, f64, f64) {
    let sequence = config["importance_sampling_level"] == "sequence";
    match config["loss_type"].as_str().unwrap() {
        "grpo" if sequence => ("gspo", 3e-4, 4e-4),
        "dapo" => ("dapo", 0.2, 0.28),
        name => (name, 0.2, 0.2),
    }
}

/// The catalogue's loss, with the recorded numbers where they are not its defaults.
fn objective(config: &Value) -> Objective {
    let (name, low, high) = named(config);
    let mut recipe = LossRecipe::named(name);
    let mut set = |key: &str, value: f64| _ = recipe.hyperparameters.insert(key.to_owned(), value);
    let (clip_low, clip_high) = (number(config, "epsilon_low"), number(config, "epsilon_high"));
    match name {
        "cispo" if clip_high != 5.0 => set("cap", clip_high),
        "cispo" | "sapo" | "vespo" => {}
        _ => {
            let differing = [("clip_low", clip_low, low), ("clip_high", clip_high, high)];
            differing.iter().filter(|(_, is, own)| is != own).for_each(|(key, is, _)| set(key, *is));
            config["delta"].as_f64().into_iter().for_each(|cap| set("cap", cap));
        }
    }
    if name == "dr_grpo" {
        set("max_tokens", number(config, "max_completion_length"));
    }
    if name == "luspo" && config["importance_sampling_level"] == "token" {
        recipe.level = Some("token".into());
    }
    let beta = number(config, "beta");
    recipe.kl = (beta > 0.0).then(|| Kl {
        coefficient: beta,
        estimator: Estimator::K3,
        bias_correction: config["use_bias_correction_kl"].as_bool().unwrap(),
    });
    recipe.correction = config["vllm_mode_is"].as_str().map(|mode| Correction {
        spread: if mode.starts_with("token") { Spread::Token } else { Spread::Sequence },
        bound: if mode.ends_with("truncate") { Bound::Truncate } else { Bound::Mask },
        min: config["clip_min"].as_f64(),
        max: number(config, "clip_max"),
    });
    recipe.off_policy_mask = config["off_policy_mask_threshold"].as_f64();
    recipe.top_entropy = config["top_entropy_quantile"].as_f64();
    recipe.entropy_bonus = number(config, "entropy_coef");
    recipe.build().unwrap()
}

/// The losses compared with TRL; the others obey the laws in `loss_laws`.
const COMPARED: [&str; 9] = ["bnpo", "cispo", "dapo", "dr_grpo", "grpo", "gspo", "luspo", "sapo", "vespo"];

#[test]
fn values_gradients_and_metrics_match_every_recorded_case() {
    let golden = recorded("trl/trl_1_16_losses.json");
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 32);
    let names: BTreeSet<&str> = cases.iter().map(|case| named(&case["config"]).0).collect();
    assert_eq!(names, BTreeSet::from(COMPARED));
    for (index, case) in cases.iter().enumerate() {
        let (inputs, config) = (&golden["inputs"], &case["config"]);
        let objective = objective(config);
        let columns = columns(inputs, config, objective.reduction);
        let (stats, gradient) = columns.grad(&objective);
        let loss = case["loss"].as_f64().unwrap();
        assert!((stats.loss - loss).abs() < 1e-9, "case {index}: loss {} is not {loss} ({config})", stats.loss);
        let recorded = rows(&case["grad"]);
        let mut seen = 0.0;
        for (&(row, column), gradient) in targets(inputs, config).iter().zip(&gradient) {
            let expected = recorded[row][column];
            seen += expected.abs();
            assert!((gradient - expected).abs() < 1e-9, "case {index} at {row},{column}: {gradient} is not {expected}");
        }
        // Nothing is recorded outside the mask.
        assert!(close(seen, recorded.iter().flatten().map(|value| value.abs()).sum(), 1e-12));
        let tokens = gradient.len() as f64;
        if let Some(kl) = case["metrics"]["kl"].as_f64() {
            assert!((stats.kl.unwrap_or(0.0) / tokens - kl).abs() < 1e-6, "case {index}: kl");
        }
        let by_token = config["importance_sampling_level"] == "token" && config["delta"].is_null();
        if let (true, Some(share)) = (by_token, case["metrics"]["clip_ratio/region_mean"].as_f64()) {
            assert!((stats.clipped as f64 / tokens - share).abs() < 1e-6, "case {index}: clipped");
        }
    }
}
