//! SkyRL: `dumped_evals/global_step_N_evals/<source>.jsonl`.
//!
//! A row is an episode: input_prompt, output_response, score (a number, or one for each token), stop_reason, env_class.

use serde_json::Value;

use super::Reader;
use crate::ForeignError;
use crate::record::{Episode, Record};
use crate::source::{Source, left_out, lines, said, step_of};

pub(super) const READER: Reader = Reader {
    what: "SkyRL's dumped evaluations (dumped_evals/global_step_N_evals/*.jsonl)",
    recognises: |source| source.has_line_with(&["input_prompt", "output_response"]),
    read,
};

fn read(source: &Source) -> Result<Record, ForeignError> {
    let mut record = Record { format: "SkyRL dump", ..Record::default() };
    record.component("score", 1.0);
    for path in source.json_lines() {
        let mut others = 0;
        for (number, row) in lines(path, &mut record.notes)? {
            if row.get("input_prompt").is_none() && row.get("output_response").is_none() {
                others += 1;
                continue;
            }
            record.has_endings |= row["stop_reason"].is_string();
            let prompt = said(&row["input_prompt"]);
            let total = score(&row["score"]);
            let stop = row["stop_reason"].as_str().unwrap_or_default();
            record.episodes.push(Episode {
                step: step_of(path.parent().unwrap_or(path)).unwrap_or(0),
                // An episode without a prompt belongs to no group.
                group: prompt.clone().unwrap_or_else(|| format!("{}, line {number}", path.display())),
                rewards: total.map(|total| ("score".to_owned(), total)).into_iter().collect(),
                total,
                prompt,
                completion: said(&row["output_response"]),
                truncated: stop == "length",
                ..Episode::default()
            });
        }
        // The aggregate beside the episodes has no prompts.
        left_out(&mut record.notes, path, others, "no episodes of SkyRL's");
    }
    Ok(record)
}

/// A score by token is worth its sum.
fn score(value: &Value) -> Option<f64> {
    match value {
        Value::Array(tokens) if !tokens.is_empty() => tokens.iter().map(Value::as_f64).sum(),
        value => value.as_f64(),
    }
}
