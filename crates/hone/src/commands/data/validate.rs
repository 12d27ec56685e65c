//! `hone data validate`.

use std::collections::{BTreeMap, HashMap};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use hone_arena::chat_client::{ChatClient, ChatSpec};
use hone_arena::player::{Player, Remote};
use hone_arena::registry::World;
use hone_data::manifest::{FileEntry, Manifest, Parent};
use hone_data::read::{Inputs, Item, ReadOptions, Reader};
use hone_data::validate::{Bench, Checked, Finding, Lint, Reason, Report, Rules, rejected_row};
use hone_data::{IssueKind, Issues, Place, Row};
use hone_trace::rundir::{RunDir, read_lines};
use hone_trace::{Digest, Side};
use hone_train::recipe::Recipe;
use hone_worlds::registry;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{command_line, create, is_input};
use crate::recipes::Source;

const EXAMPLES: &str = "\
Examples:
  hone data validate --set env.name=retail --out checked          the environment's own tasks
  hone data validate tasks.jsonl --recipe my.toml --out checked   a task file, played in the recipe's environments
  hone data validate tasks.jsonl --recipe my.toml --out checked --rule teacher=4 --rule max_solved=0.75 \\
      --teacher https://api.example.org/v1 --teacher-model big --teacher-key-env API_KEY

An interrupted validation resumes when the command is run again. Writes into --out: tasks.jsonl (kept, with
provenance), rejected.jsonl, report.md, report.json, manifest.json; the directory is a run directory, so that the
traces of rejected tasks can be shown. Exits with code 1 if a task was rejected.";

/// Finds the tasks that can be solved, verified and learned from: lint, replay of the reference, teacher, rules
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Task files, directories, URLs or `-`. Without: the tasks of the recipe's environments.
    inputs: Vec<String>,
    /// Output directory of the kept set and the report.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The recipe whose environments, rubric and eval.success are used.
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    /// Set a recipe key, e.g. --set env.name=retail. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Rules in TOML: pass, replays, teacher, min_solved, max_solved, drop_no_op, failing_reads, failing_calls,
    /// require_variables, date_share, max_turns, seed. docs/data.md describes them.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Set a rule, e.g. --rule drop_no_op=true. May be given several times.
    #[arg(long = "rule", value_name = "KEY=VALUE")]
    rule: Vec<String>,
    /// An OpenAI-compatible API whose model attempts the tasks. Without: the reference is replayed with other seeds.
    #[arg(long, value_name = "URL", requires = "teacher_model")]
    teacher: Option<String>,
    #[arg(long, value_name = "NAME")]
    teacher_model: Option<String>,
    /// The environment variable that holds the API's key.
    #[arg(long, value_name = "NAME")]
    teacher_key_env: Option<String>,
    /// Tasks at a time.
    #[arg(long, value_name = "N", default_value_t = 16)]
    concurrency: usize,
    /// The set's name; without it, that of the directory.
    #[arg(long)]
    name: Option<String>,
    #[arg(long)]
    json: bool,
}

/// Findings so far, from which a validation resumes; no other run directory has them.
const PROGRESS: &str = "progress.jsonl";

/// A line of progress.jsonl.
#[derive(Serialize, Deserialize)]
struct Done {
    /// Digest of the task, the rules, the environment and the teacher.
    of: Digest,
    finding: Finding,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let recipe = args.recipe()?;
    let rules = args.rules()?;
    let inputs = Inputs::open(&args.inputs)?;
    args.spare_files(&inputs)?;
    let world = World::open(&recipe.env)?;
    let (rows, unread, issues) = args.rows(&inputs, &world, &recipe)?;
    let bench = Bench {
        arena: Arc::clone(&world.arena),
        rubric: Arc::new(recipe.rubric.build()?),
        success: recipe.eval.success.clone(),
        teacher: args.teacher()?,
        rules,
    };
    let context = json!([bench.rules, recipe.env, recipe.rubric, bench.success, args.teacher, args.teacher_model]);
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let mut findings = runtime.block_on(all(&args, &bench, &rows, &context.to_string(), &recipe))?;
    findings.extend(unread);
    let report = Report::of(&findings);
    args.write(&rows, &findings, &report, &inputs)?;
    anstream::eprint!("{}", hone_trace::clean(&issues.text()));
    let mut out = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        writeln!(out, "{}", json!({"set": args.out, "report": report, "issues": issues}))?;
    } else {
        write!(out, "{}", report.table().text())?;
        if !report.reasons().is_empty() {
            write!(out, "\n{}", report.reasons().text())?;
        }
        for finding in report.rejected.iter().take(10) {
            let reason = finding.rejected.map_or("", Reason::words);
            let line = format!("  {}: {reason}: {}", finding.key, finding.detail);
            writeln!(out, "{}", hone_trace::clean_line(&line))?;
        }
        let again: u64 =
            report.all.rejected.iter().filter(|(reason, _)| reason.may_pass()).map(|(_, tasks)| tasks).sum();
        if again > 0 {
            writeln!(out, "{again} tasks met a fault outside of them; the same command plays those again")?;
        }
        writeln!(out, "report.md and the kept tasks.jsonl are in {}", args.out.display())?;
    }
    Ok(if report.rejected.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Judges every row; earlier findings are reused.
async fn all(args: &Args, bench: &Bench, rows: &[Row], context: &str, recipe: &Recipe) -> Result<Vec<Finding>> {
    let mut run = open_run(&args.out, recipe)?;
    let path = args.out.join(PROGRESS);
    let mut known: HashMap<Digest, Finding> = HashMap::new();
    if path.exists() {
        // A failure outside a task is not a finding about it: the task is played again.
        let lasting = |finding: &Finding| !finding.rejected.is_some_and(Reason::may_pass);
        let judged = read_lines::<Done>(&path)?.records.into_iter().filter(|done| lasting(&done.finding));
        known.extend(judged.map(|done| (done.of, done.finding)));
    }
    let progress = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    let mut progress = progress.with_context(|| format!("cannot write {}", path.display()))?;
    let lint = Lint::of(rows);
    let digest = |row: &Row| Digest::of(format!("{context}\n{}", row.task.digest()).as_bytes());
    let mut findings: Vec<Option<Finding>> = Vec::with_capacity(rows.len());
    let mut open = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let linted = lint.check(&row.task, &bench.rules).map(|(reason, detail)| Finding {
            rejected: Some(reason),
            detail,
            ..rejected_by_lint(row)
        });
        findings.push(linted.or_else(|| known.get(&digest(row)).cloned()));
        if findings[at].is_none() {
            open.push(at);
        }
    }
    if open.len() < rows.len() && !known.is_empty() {
        crate::output::note!("{} of {} tasks were judged before", rows.len() - open.len(), rows.len());
    }
    let line = Line::new(rows.len(), rows.len() - open.len());
    let checks = open.into_iter().map(|at| async move { (at, bench.check(&rows[at].task).await) });
    let mut checks = futures::stream::iter(checks).buffer_unordered(args.concurrency.max(1));
    let mut line = line;
    while let Some((at, Checked { mut finding, traces })) = checks.next().await {
        finding.traces = run.traces(&traces)?.collect();
        let done = Done { of: digest(&rows[at]), finding };
        writeln!(progress, "{}", serde_json::to_string(&done)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        line.one(done.finding.rejected.is_some());
        findings[at] = Some(done.finding);
    }
    line.end();
    Ok(findings.into_iter().flatten().collect())
}

/// Refuses tasks of an environment that nobody named: played in another one, every one of them would be rejected.
fn known_environments(recipe: &Recipe, rows: &[Row], issues: &Issues) -> Result<()> {
    let foreign = |row: &&Row| !recipe.env.iter().any(|env| env.name() == row.task.env);
    match rows.iter().find(foreign).map(|row| &row.task.env) {
        Some(env) if registry::find(env).is_ok() => {
            bail!("the tasks belong to {env}; name it, --set env.name={env}, or a recipe that has it: --recipe my.toml")
        }
        Some(env) => {
            bail!("the tasks belong to {env:?}, which is not built in; name the recipe that has it: --recipe my.toml")
        }
        None if issues.counts.contains_key("dropped: env") => {
            bail!("the tasks name no environment; name the recipe whose environments they belong to: --recipe my.toml")
        }
        None => Ok(()),
    }
}

fn rejected_by_lint(row: &Row) -> Finding {
    Finding {
        key: row.task.key.clone(),
        env: row.task.env.clone(),
        rejected: None,
        detail: String::new(),
        labels: Vec::new(),
        before: None,
        after: None,
        solved: None,
        traces: Vec::new(),
    }
}

fn open_run(directory: &Path, recipe: &Recipe) -> Result<RunDir> {
    if directory.join("recipe.toml").exists() {
        return Ok(RunDir::resume(directory)?.0);
    }
    Ok(RunDir::create(directory, &recipe.to_toml()?)?)
}

/// One line on a terminal.
struct Line {
    total: usize,
    done: usize,
    rejected: usize,
    live: bool,
}

impl Line {
    fn new(total: usize, done: usize) -> Self {
        Self { total, done, rejected: 0, live: std::io::stderr().is_terminal() }
    }

    fn one(&mut self, rejected: bool) {
        self.done += 1;
        self.rejected += usize::from(rejected);
        if self.live {
            let share = 20 * self.done / self.total.max(1);
            let bar: String = (0..20).map(|at| if at < share { '█' } else { '·' }).collect();
            eprint!("\r{bar} {} of {} tasks, {} rejected", self.done, self.total, self.rejected);
        }
    }

    fn end(&self) {
        if self.live && self.done > 0 {
            eprintln!();
        }
    }
}

impl Args {
    fn recipe(&self) -> Result<Recipe> {
        let Some(path) = &self.recipe else { return Ok(Recipe::parse("[eval]\ntasks = 0\n", &self.set)?) };
        Source::find(path)?.read(&self.set)
    }

    /// Refuses to write over inputs, and into a directory that is not of an earlier validation.
    fn spare_files(&self, inputs: &Inputs) -> Result<()> {
        let written = ["tasks.jsonl", "rejected.jsonl"].map(|name| self.out.join(name));
        if let Some(path) = written.iter().find(|path| is_input(path, inputs)) {
            let path = path.strip_prefix(".").unwrap_or(path);
            bail!("the output {} is the input; choose an empty --out", path.display());
        }
        let vacant = std::fs::read_dir(&self.out).map_or(true, |mut entries| entries.next().is_none());
        if !vacant && !self.out.join(PROGRESS).is_file() {
            bail!("{} has files that are of no validation; choose an empty --out", self.out.display());
        }
        Ok(())
    }

    fn rules(&self) -> Result<Rules> {
        let mut text = match &self.rules {
            Some(path) => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
            None => String::new(),
        };
        let mut table: toml::Table = toml::from_str(&text).context("the rules are not TOML")?;
        for rule in &self.rule {
            let (key, value) =
                rule.split_once('=').with_context(|| format!("--rule takes key=value, found {rule:?}"))?;
            let one: toml::Table = toml::from_str(&format!("value = {value}"))
                .with_context(|| format!("--rule {rule}: {value:?} is no TOML value; quote texts"))?;
            table.extend(one.into_iter().map(|(_, value)| (key.trim().to_owned(), value)));
        }
        text = toml::to_string(&table)?;
        toml::from_str(&text).context("in the rules")
    }

    fn teacher(&self) -> Result<Option<Arc<dyn Player>>> {
        let (Some(url), Some(model)) = (&self.teacher, &self.teacher_model) else { return Ok(None) };
        let spec = json!({"url": url, "model": model, "key_env": self.teacher_key_env});
        let spec: ChatSpec = serde_json::from_value(spec)?;
        match ChatClient::new(spec) {
            Ok(client) => Ok(Some(Arc::new(Remote(client)))),
            Err(what) => bail!("the teacher cannot be asked: {what}"),
        }
    }

    /// Rows to judge, findings of rows that could not be read, and all issues.
    fn rows(&self, inputs: &Inputs, world: &World, recipe: &Recipe) -> Result<(Vec<Row>, Vec<Finding>, Issues)> {
        let (mut rows, mut unread, mut issues) = (Vec::new(), Vec::new(), Issues::default());
        if self.inputs.is_empty() {
            for (side, tasks) in [(Side::Train, &world.tasks), (Side::Eval, &world.held_out)] {
                let place = |at: usize| Place { file: "the environment".into(), line: at as u64 + 1 };
                let row = |(at, task): (usize, &hone_trace::Task)| Row {
                    task: task.clone(),
                    side: Some(side),
                    at: place(at),
                };
                rows.extend(tasks.iter().enumerate().map(row));
            }
            return Ok((rows, unread, issues));
        }
        let only = recipe.env.first().filter(|_| recipe.env.len() == 1 && self.names_environments());
        let env = only.map(|env| env.name().to_owned());
        Reader::new(ReadOptions { env, env_by_file: false }).read(inputs, &mut |item| {
            match item {
                Item::Row(row) => rows.push(row),
                Item::Issue(issue) => {
                    if issue.kind == IssueKind::Dropped {
                        unread.push(rejected_row(&issue));
                    }
                    issues.add(issue);
                }
            }
            Ok(())
        })?;
        if !self.names_environments() {
            known_environments(recipe, &rows, &issues)?;
        }
        Ok((rows, unread, issues))
    }

    /// True if the command line says where tasks are played; else that is the default recipe's environment.
    fn names_environments(&self) -> bool {
        self.recipe.is_some() || self.set.iter().any(|setting| setting.trim_start().starts_with("env"))
    }

    fn write(&self, rows: &[Row], findings: &[Finding], report: &Report, inputs: &Inputs) -> Result<()> {
        let by_key: HashMap<&str, &Finding> = findings
            .iter()
            .rev()
            .filter(|finding| !finding.env.is_empty())
            .map(|finding| (finding.key.as_str(), finding))
            .collect();
        let path = |name: &str| self.out.join(name);
        let (mut kept, mut rejected) = (create(&path("tasks.jsonl"))?, create(&path("rejected.jsonl"))?);
        for row in rows {
            let Some(finding) = by_key.get(row.task.key.as_str()) else { continue };
            let mut line = row.to_json();
            if finding.rejected.is_none() {
                line["validation"] = json!({"before": finding.before, "after": finding.after, "solved": finding.solved,
                    "labels": finding.labels});
                if line.get("provenance").is_none_or(Value::is_null) {
                    line["provenance"] = format!("{}:{}", row.at.file, row.at.line).into();
                }
                writeln!(kept, "{line}")?;
            } else {
                let reason = finding.rejected.map(Reason::words);
                let (file, number) = (&*row.at.file, row.at.line);
                let line = json!({"finding": finding, "reason": reason, "file": file, "line": number, "task": line});
                writeln!(rejected, "{line}")?;
            }
        }
        for finding in findings.iter().filter(|finding| finding.env.is_empty()) {
            writeln!(rejected, "{}", json!({"finding": finding, "reason": finding.rejected.map(Reason::words)}))?;
        }
        kept.flush()?;
        rejected.flush()?;
        std::fs::write(path("report.md"), report.markdown()).context("cannot write report.md")?;
        std::fs::write(path("report.json"), serde_json::to_string_pretty(report)? + "\n")
            .context("cannot write report.json")?;
        let counts = [("tasks.jsonl", report.all.kept), ("rejected.jsonl", report.all.tasks - report.all.kept)];
        let files = counts.map(|(name, count)| Ok((name.to_owned(), FileEntry::of(&path(name), Some(count))?)));
        let parents =
            inputs.sources().map(|source| Ok(Parent::of(&source.name, source.path())?)).collect::<Result<_>>()?;
        let by_directory = || self.out.file_name().map(|name| name.to_string_lossy().into_owned());
        let manifest = Manifest {
            name: self.name.clone().or_else(by_directory).unwrap_or_else(|| "set".into()),
            version: String::new(),
            parents,
            files: files.into_iter().collect::<Result<BTreeMap<_, _>>>()?,
            counts: json!(report.environments),
            command: command_line(),
        };
        manifest.write(&self.out)?;
        Ok(())
    }
}
