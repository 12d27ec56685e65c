//! `hone score`: reward components over recorded completions or traces, after a reward has changed.
//!
//! Lines go in and out in the same order, one for one. An unreadable line becomes an error in its place.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::rewards::{Case, Rubric, Scorecard};
use hone_trace::rundir::RunReader;
use hone_trace::{EndState, Outcome, Trace, Verdict, clean_line};
use serde_json::{Map, Value, json};

use crate::output;

/// Reward components over recorded completions, one JSON line each
#[derive(Debug, clap::Args)]
#[command(after_long_help = FORMATS)]
pub(crate) struct Args {
    /// A component (`rouge_l`, `soft_overlong:max=512,cache=64`), or a TOML or JSON file of a rubric
    #[arg(long, value_name = "SPEC")]
    reward: String,
    /// JSON lines of completions or traces, or a run directory; `-` reads standard input
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// Only the JSON lines: no summary on standard error
    #[arg(long)]
    json: bool,
}

const FORMATS: &str = "\
Input, one JSON object per line; all keys are optional, and a component that misses one says so:
  id, completion          what the policy wrote
  tokens                  ids it sampled (repetition, lengths)
  messages, turns, tools  the conversation, what was read from each reply, OpenAI function schemas
  reference, question     a text or a list of texts a perfect answer gives; what was asked
  gold_ids, context       ids a perfect answer cites; what was shown: {id: text} or [id]
  correct                 whether the answer is right (calibration, cosine)
  db_match, outputs_said, outputs, assertions   parts of the tau and tau2 rewards
  changes {made, wanted}, states {initial, final, reference}   for partial credit
  reference_calls, writes the calls of a perfect episode; the names of the tools that change state
A line with \"nodes\" is a trace; what its environment left for the scorers is under \"facts\". A run directory is
re-scored trace by trace; runs recorded before traces had facts score what needs none.

Output, one JSON object per input line:
  {\"id\", \"components\": {NAME: {\"value\", \"why\"} or {\"value\": null, \"unscored\"}}, \"total\": x or null, \"total_why\"}
  {\"line\", \"id\"?, \"error\"}   where the line could not be read

A rubric file has [[component]] tables (kind, name, weight, gate, required, and the component's own options) and
[[product]] tables (name, of, weight), at its top, or under `rubric` as in a recipe.

Exit code: 0, or 2 when a line could not be read.";

/// Lines scored concurrently: enough to keep a judge busy, few enough to keep memory small.
const AT_ONCE: usize = 16;

pub(crate) fn run(Args { reward, input, json }: Args) -> Result<ExitCode> {
    let rubric = rubric(&reward)?;
    let mut out = output::json_lines();
    let mut scoring = Scoring { rubric: &rubric, out: &mut out, waiting: Vec::new(), summary: Summary::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(scoring.all(&input))?;
    let summary = scoring.summary;
    out.flush()?;
    if !json {
        summary.print();
    }
    Ok(ExitCode::from(if summary.bad > 0 { 2 } else { 0 }))
}

/// Reads `--reward`: a file if one of that name exists, else a component with options.
fn rubric(spec: &str) -> Result<Rubric> {
    let path = Path::new(spec);
    let is_file = path.extension().is_some_and(|end| end == "toml" || end == "json");
    let spec = if is_file || path.is_file() { from_file(path)? } else { from_words(spec)? };
    Ok(spec.build()?)
}

fn from_file(path: &Path) -> Result<RubricSpec> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the rubric {}", path.display()))?;
    let wrong = || format!("{} is not a rubric; `hone score --help` shows one", path.display());
    let table: Value = if path.extension().is_some_and(|end| end == "json") {
        serde_json::from_str(&text).with_context(wrong)?
    } else {
        toml::from_str(&text).with_context(wrong)?
    };
    // A separate rubric, or that of a recipe.
    let rubric = ["reward", "rubric"].iter().find_map(|key| table.get(*key).cloned());
    serde_json::from_value(rubric.unwrap_or(table)).with_context(wrong)
}

/// `kind` or `kind:key=value,…`; a value is JSON if it parses as JSON, else text.
fn from_words(spec: &str) -> Result<RubricSpec> {
    let (kind, words) = spec.split_once(':').unwrap_or((spec, ""));
    let mut options = Map::new();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let Some((key, value)) = word.split_once('=') else {
            bail!("the option {word:?} of {kind} is not key=value");
        };
        options.insert(key.into(), serde_json::from_str(value).unwrap_or_else(|_| value.into()));
    }
    Ok(RubricSpec::single(kind, options))
}

/// A line in progress: its number, its id if it has one, and its content.
struct Entry {
    line: usize,
    id: Value,
    read: Read,
}

enum Read {
    Case(Box<Case>),
    /// A trace with a fault: unscored, and not an error of the line.
    Faulted(String),
    Bad(String),
}

struct Scoring<'a, W> {
    rubric: &'a Rubric,
    out: &'a mut W,
    waiting: Vec<Entry>,
    summary: Summary,
}

impl<W: Write> Scoring<'_, W> {
    async fn all(&mut self, input: &Path) -> Result<()> {
        if input.is_dir() {
            for (at, trace) in RunReader::open(input)?.traces()?.iter().enumerate() {
                let read = trace.map_or_else(|error| Read::Bad(error.to_string()), |trace| of_trace(&trace));
                self.push(Entry::new(at + 1, Value::Null, read)).await?;
            }
        } else if input == Path::new("-") {
            self.lines(io::stdin().lock()).await?;
        } else {
            let file = File::open(input).with_context(|| format!("cannot open {}", input.display()))?;
            self.lines(BufReader::new(file)).await?;
        }
        self.drain().await
    }

    async fn lines(&mut self, mut input: impl BufRead) -> Result<()> {
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            if input.read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            if !bytes.trim_ascii().is_empty() {
                self.push(Entry::read(line, &bytes)).await?;
            }
        }
        Ok(())
    }

    async fn push(&mut self, entry: Entry) -> Result<()> {
        self.waiting.push(entry);
        if self.waiting.len() == AT_ONCE { self.drain().await } else { Ok(()) }
    }

    /// Scores the pending lines and writes them in order.
    async fn drain(&mut self) -> Result<()> {
        let entries: Vec<Entry> = self.waiting.drain(..).collect();
        let cases = entries.iter().filter_map(|entry| match &entry.read {
            Read::Case(case) => Some(case.as_ref()),
            Read::Faulted(_) | Read::Bad(_) => None,
        });
        let mut cards = self.rubric.score_cases(cases).await.into_iter();
        for Entry { line, id, read } in &entries {
            let card = match read {
                Read::Case(_) => cards.next().ok_or_else(|| anyhow!("line {line} was not scored"))?,
                Read::Faulted(why) => self.rubric.unscored(why),
                Read::Bad(error) => {
                    self.summary.bad += 1;
                    writeln!(self.out, "{}", error_line(*line, id, error))?;
                    continue;
                }
            };
            self.summary.add(&card);
            writeln!(self.out, "{}", scored_line(id, &card))?;
        }
        Ok(())
    }
}

impl Entry {
    fn read(line: usize, bytes: &[u8]) -> Self {
        // Some editors begin a file with a byte order mark.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").filter(|_| line == 1).unwrap_or(bytes);
        let form: Value = match serde_json::from_slice(bytes) {
            Ok(form) => form,
            Err(error) => {
                let text = error.to_string();
                // The line is that of the file, not of the text in it.
                let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
                let why = format!("not JSON: {what} at column {}", error.column());
                return Self::new(line, Value::Null, Read::Bad(why));
            }
        };
        let id = form.get("id").cloned().unwrap_or_default();
        let read = match &form {
            Value::Object(fields) if fields.contains_key("nodes") => read_trace(form),
            Value::Object(_) => Case::read(form).map_or_else(Read::Bad, |case| Read::Case(Box::new(case))),
            _ => Read::Bad("a line must be a JSON object; `hone score --help` has its keys".into()),
        };
        Self::new(line, id, read)
    }

    /// A trace without an id is identified by its task and replica.
    fn new(line: usize, id: Value, read: Read) -> Self {
        let id = match &read {
            Read::Case(case) if id.is_null() => case.id.clone(),
            _ => id,
        };
        Self { line, id, read }
    }
}

fn read_trace(form: Value) -> Read {
    match serde_json::from_value::<Trace>(form) {
        Ok(trace) => of_trace(&trace),
        Err(error) => Read::Bad(format!("not a trace: {error}")),
    }
}

/// A trace carries the facts its environment left behind.
fn of_trace(trace: &Trace) -> Read {
    match (&trace.outcome, Case::of(trace, &EndState { facts: trace.facts.clone() })) {
        (_, Ok(case)) => Read::Case(Box::new(case)),
        (Outcome::Fault { .. }, Err(why)) => Read::Faulted(why),
        (_, Err(why)) => Read::Bad(why),
    }
}

fn scored_line(id: &Value, card: &Scorecard) -> Value {
    let components: Map<String, Value> =
        card.components.iter().map(|reward| (reward.component.clone(), verdict(&reward.verdict))).collect();
    json!({"id": id, "components": components, "total": card.total.value(), "total_why": card.total.why()})
}

fn verdict(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Scored { value, why, .. } => json!({"value": value, "why": why}),
        Verdict::NotApplicable { why } => json!({"value": null, "unscored": why, "not_applicable": true}),
        Verdict::Unscored { unscored, .. } => json!({"value": null, "unscored": unscored}),
    }
}

fn error_line(line: usize, id: &Value, error: &str) -> Value {
    let mut object = json!({"line": line, "error": error});
    if !id.is_null() {
        object["id"] = id.clone();
    }
    object
}

/// Means over what was scored, for people.
#[derive(Default)]
struct Summary {
    bad: usize,
    /// Name, sum, scored, unscored.
    components: Vec<(String, f64, usize, usize)>,
}

impl Summary {
    fn add(&mut self, card: &Scorecard) {
        for (i, reward) in card.components.iter().chain([&card.total]).enumerate() {
            if self.components.len() == i {
                self.components.push((reward.component.clone(), 0.0, 0, 0));
            }
            let (_, sum, scored, unscored) = &mut self.components[i];
            match reward.value() {
                Some(value) => {
                    *sum += value;
                    *scored += 1;
                }
                None => *unscored += 1,
            }
        }
    }

    fn print(&self) {
        for (name, sum, scored, unscored) in &self.components {
            let mean = if *scored == 0 { "-".to_owned() } else { format!("{:.4}", sum / *scored as f64) };
            let name = clean_line(name);
            crate::output::note!("{name:<22} mean {mean:>8}   scored {scored}   unscored {unscored}");
        }
        if self.bad > 0 {
            crate::output::note!("{} lines could not be read; each has an \"error\" in its place", self.bad);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::SamplingParams;

    fn score(spec: &str, input: &str) -> (Vec<Value>, usize) {
        let rubric = rubric(spec).unwrap();
        let mut out = Vec::new();
        let mut scoring = Scoring { rubric: &rubric, out: &mut out, waiting: Vec::new(), summary: Summary::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            scoring.lines(input.as_bytes()).await.unwrap();
            scoring.drain().await.unwrap();
        });
        let bad = scoring.summary.bad;
        (out.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect(), bad)
    }

    #[test]
    fn lines_come_out_in_order_and_bad_ones_in_their_place() {
        let good = (0..40).map(|i| json!({"id": i, "completion": "a b", "reference": "a b"}).to_string() + "\n");
        let mut input: String = good.collect();
        input.push_str("not json\n\n[1]\n{\"id\": \"x\", \"completion\": 5}\n{\"id\": 99, \"completion\": \"a\"}");
        let (lines, bad) = score("rouge_l", &input);
        assert_eq!((lines.len(), bad), (44, 3));
        for (i, line) in lines[..40].iter().enumerate() {
            assert_eq!((&line["id"], &line["total"]), (&json!(i), &json!(1.0)));
            assert_eq!(line["components"]["rouge_l"]["value"], 1.0);
        }
        assert_eq!(
            (&lines[40]["line"], &lines[40]["error"]),
            (&json!(41), &json!("not JSON: expected ident at column 2"))
        );
        assert_eq!(lines[41]["line"], 43, "blank lines are counted");
        assert_eq!(lines[42]["id"], "x");
        assert!(lines[42]["error"].as_str().unwrap().contains("expected a string"), "{}", lines[42]);
        // No reference: unscored, not 0.
        assert_eq!(lines[43]["total"], Value::Null);
        assert!(lines[43]["components"]["rouge_l"]["unscored"].as_str().unwrap().starts_with("not_applicable: "));
    }

    #[test]
    fn a_value_of_the_wrong_form_is_answered_with_the_right_one() {
        for (line, said) in [
            ("{\"reference\": 3}", "`reference`: expected a text or a list of texts"),
            ("{\"correct\": 1}", "expected a boolean, so send true or false"),
        ] {
            let error = score("rouge_l", line).0[0]["error"].to_string();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(score("rouge_l", "\u{feff}{\"completion\": \"a\", \"reference\": \"a\"}\r\n").0[0]["total"], 1.0);
    }

    #[test]
    fn a_trace_is_scored_with_its_facts_and_a_fault_is_no_bad_line() {
        let mut trace = json!({
            "task": "t", "env": "e", "replica": 2, "seed": 0, "tools": [], "sampling": SamplingParams::default(),
            "nodes": [{"tokens": [1], "origin": "prompt", "tools": hone_trace::ToolSet::none().digest()}],
            "turns": [], "outcome": {"kind": "finished"}, "rewards": [],
            "facts": {"completion": "a b", "reference": ["a b", "c"]},
        });
        let (lines, bad) = score("rouge_l", &trace.to_string());
        assert_eq!((&lines[0]["id"], &lines[0]["total"], bad), (&json!("t/2"), &json!(1.0), 0), "{lines:?}");
        trace["outcome"] = json!({"kind": "fault", "fault": {"boundary": "judge", "what": "gone"}});
        let (lines, bad) = score("rouge_l", &trace.to_string());
        assert_eq!((&lines[0]["total"], bad), (&Value::Null, 0), "{lines:?}");
        assert_eq!(lines[0]["components"]["rouge_l"]["unscored"], "fault: judge: gone");
        trace["nodes"] = json!([]);
        assert_eq!(score("rouge_l", &trace.to_string()).1, 1);
    }

    #[test]
    fn options_and_rubric_files_are_read() {
        let line = "{\"completion\": \"running\", \"reference\": \"runs\", \"tokens\": [1, 2, 3]}";
        assert_eq!(score("rouge_l", line).0[0]["total"], 1.0);
        assert_eq!(score("rouge_l:stem=false", line).0[0]["total"], 0.0);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rubric.toml");
        std::fs::write(
            &path,
            "[[reward.component]]\nkind = \"rouge_l\"\nweight = 2\n[[reward.component]]\nkind = \"length_cost\"\nmax = 6\n",
        )
        .unwrap();
        assert_eq!(score(path.to_str().unwrap(), line).0[0]["total"], 1.5);
        for wrong in ["rouge", "rouge_l:stem", "rouge_l:steam=true", "missing.toml"] {
            assert!(rubric(wrong).is_err(), "{wrong}");
        }
    }
}
