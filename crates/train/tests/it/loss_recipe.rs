//! Losses from the words of a recipe.

use hone_train::loss::{BadLoss, Level, LossRecipe, Reduction};
use serde_json::json;

fn recipe(value: serde_json::Value) -> LossRecipe {
    serde_json::from_value(value).unwrap()
}

fn error(value: serde_json::Value) -> String {
    recipe(value).build().unwrap_err().to_string()
}

#[test]
fn a_name_is_enough() {
    let objective = recipe(json!("dapo")).build().unwrap();
    assert_eq!(objective.reduction, Reduction::TokenMean);
    assert!(format!("{:?}", objective.surrogate).contains("high: 0.28"));
    assert_eq!(recipe(json!("GSPO-token")).build().unwrap().level, Level::SequenceToken);
}

#[test]
fn options_change_what_the_name_says() {
    let table = json!({
        "name": "gspo", "clip_high": 1, "reduction": "constant_length", "max_tokens": 256, "level": "token",
        "kl": {"coefficient": 0.001}, "correction": {"mode": "sequence_mask", "max": 3.0}, "entropy_bonus": 0.01,
    });
    let objective = recipe(table.clone()).build().unwrap();
    assert_eq!(objective.reduction, Reduction::ConstantLength(256.0));
    assert_eq!(objective.level, Level::Token);
    assert!(objective.kl.unwrap().bias_correction);
    assert!(format!("{:?}", objective.surrogate).contains("low: 0.0003, high: 1.0"));
    let written = serde_json::to_value(recipe(table.clone())).unwrap();
    assert_eq!(recipe(written), recipe(table));
}

#[test]
fn errors_carry_their_fix() {
    assert!(error(json!("dap")).contains("did you mean \"dapo\""));
    let misspelt = error(json!({"name": "dapo", "clip_hihg": 0.3}));
    assert!(misspelt.contains("\"clip_hihg\"; did you mean \"clip_high\"?"), "{misspelt}");
    assert!(error(json!({"name": "dapo", "reductoin": "token_mean"})).contains("did you mean \"reduction\""));
    assert!(error(json!({"name": "sapo", "clip_low": 0.1})).contains("tau_positive"));
    assert!(error(json!({"name": "dapo", "clip_low": "0.1"})).contains("clip_low is not a number; write"));
    assert!(error(json!({"name": "dapo", "reduction": "token_men"})).contains("did you mean \"token_mean\""));
    assert!(error(json!("dr_grpo")).contains("needs max_tokens"));
    assert!(error(json!({"name": "dapo", "top_entropy": 20})).contains("out of range"));
    let sequence = json!({"mode": "sequence_mask", "max": 3});
    assert!(error(json!({"name": "vespo", "correction": sequence})).contains("token_truncate"));
    assert!(error(json!({"name": "importance_sampling", "correction": sequence})).contains("anchor = \"old\""));
    let bad = recipe(json!({"name": "dr_grpo", "max_tokens": 0})).build();
    assert!(matches!(bad, Err(BadLoss::Range { option: "max_tokens", .. })));
    let correction = json!({"name": "dapo", "correction": {"mode": "token_trunc", "max": 2}});
    let correction = serde_json::from_value::<LossRecipe>(correction).unwrap_err().to_string();
    assert!(correction.contains("did you mean \"token_truncate\""), "{correction}");
}
