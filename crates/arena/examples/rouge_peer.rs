//! The Rust side of `scripts/bench_rouge.sh`: ROUGE-L over a file of pairs, timed.
//!
//! In: a JSON list of `[reference, prediction]`. Out: one JSON object with the fastest of five passes in seconds, the F of
//! every pair and the tokens of every reference.

use std::time::Instant;

use hone_arena::rewards::rouge::{rouge_l, tokens};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: rouge_peer PAIRS.json")?;
    let pairs: Vec<(String, String)> = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let mut fastest = f64::INFINITY;
    let mut scores = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        scores = pairs.iter().map(|(reference, prediction)| rouge_l(reference, prediction, true).f).collect();
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    let tokens: Vec<Vec<String>> = pairs.iter().map(|(reference, _)| tokens(reference, true)).collect();
    println!("{}", json!({"seconds": fastest, "scores": scores, "tokens": tokens}));
    Ok(())
}
