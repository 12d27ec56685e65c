//! `hone data stats`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use hone_chat::ModelDir;
use hone_data::read::Inputs;
use hone_data::stats::{Stats, characters};
use serde_json::json;

use super::Reading;

const EXAMPLES: &str = "\
Examples:
  hone data stats tasks.json                          one file; its tasks may say their \"split\"
  hone data stats train=v0.2/train.json eval=v0.2/eval.json --markdown
  hone data stats https://example.org/all_tool_use.json --json
  hone data stats tau-bench/retail --model Qwen3-8B    prompt lengths in that model's tokens";

/// Tasks by environment and split: variables, references, modality, difficulty, tools, prompt lengths
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Task files, directories, URLs or `-`; `train=PATH` and `eval=PATH` say which side a file is.
    #[arg(required = true)]
    inputs: Vec<String>,
    #[command(flatten)]
    reading: Reading,
    /// Count prompt lengths in the tokens of this model directory instead of in characters.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let model = args.model.as_deref().map(ModelDir::open).transpose()?;
    let tokenizer = model.as_ref().map(ModelDir::tokenizer).transpose()?;
    let in_tokens = |text: &str| tokenizer.and_then(|tokenizer| tokenizer.count(text).ok()).unwrap_or_default();
    let (unit, measure): (_, &dyn Fn(&str) -> usize) =
        if tokenizer.is_some() { ("tokens", &in_tokens) } else { ("characters", &characters) };
    let mut stats = Stats::new(unit);
    let inputs = Inputs::open(&args.inputs)?;
    let issues = args.reading.rows_of(&inputs, true, &mut |row| stats.add(&row, measure))?;
    let stats = stats.finish();
    if stats.all.total == 0 && issues.dropped > 0 {
        args.reading.exit(&issues);
        bail!("no row could be read as a task; name files of tasks, one JSON object with `key` and `prompt` each");
    }
    let mut out = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        writeln!(out, "{}", json!({"stats": stats, "issues": issues}))?;
    } else if args.markdown {
        write!(out, "{}", stats.table().markdown())?;
    } else {
        write!(out, "{}", stats.table().text())?;
    }
    Ok(args.reading.exit(&issues))
}
