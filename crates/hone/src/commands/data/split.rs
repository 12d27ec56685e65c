//! `hone data split`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hone_data::manifest::{FileEntry, Manifest, Parent};
use hone_data::read::Inputs;
use hone_data::split::{Assignment, SplitSettings, Splitter, Why};
use hone_trace::{SPLIT_LOCK, Side, SplitLock};
use serde_json::json;

use super::{Reading, command_line, create, is_input};

const EXAMPLES: &str = "\
Examples:
  hone data split tasks.json --out sets/v1                       a tenth of every environment is held out
  hone data split tasks.json --out sets/v1 --eval 0.05 --eval-of github=0.02 --hold-out outlook --max-eval 20
  hone data split grown.json --out sets/v2 --lock sets/v1/split.lock   new tasks are added, none moves
  hone data split tasks.json --out sets/v1 --hold-out-tasks booking=0,17,booking-cancel-3

Writes train.jsonl, eval.jsonl, unused.jsonl, split.lock and manifest.json. `hone train` refuses task files that
contradict the lock beside them.";

/// Hold tasks out for evaluation so that none ever moves: keyed hash, near-duplicates on one side, a lock file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Task files, directories, URLs or `-`.
    #[arg(required = true)]
    inputs: Vec<String>,
    /// Output directory. An existing lock is kept.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Share of every environment's tasks that is held out.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    eval: f64,
    /// Another share for one environment. May be given several times.
    #[arg(long, value_name = "ENV=SHARE", value_parser = share_of)]
    eval_of: Vec<(String, f64)>,
    /// An environment to hold out entirely. May be given several times.
    #[arg(long, value_name = "ENV")]
    hold_out: Vec<String>,
    /// Tasks of an environment to hold out, by key or by number from 0. May be given several times.
    #[arg(long, value_name = "ENV=TASK,…", value_parser = tasks_of)]
    hold_out_tasks: Vec<(String, Vec<String>)>,
    /// Maximum evaluation tasks of an environment; the rest is unused, never trained on.
    #[arg(long, value_name = "N")]
    max_eval: Option<usize>,
    /// Maximum training tasks of an environment; the rest is unused.
    #[arg(long, value_name = "N")]
    max_train: Option<usize>,
    /// Similarity from which two prompts are near-duplicates and stay on one side; 0 compares none.
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    near: f64,
    /// The key of the hash.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// An earlier split to keep; without it, the one in --out.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// The set's name; without it, that of the directory.
    #[arg(long)]
    name: Option<String>,
    /// The set's version; without it, the first digits of its content's digest.
    #[arg(long = "set-version", value_name = "VERSION")]
    version: Option<String>,
    #[arg(long)]
    json: bool,
}

fn share_of(text: &str) -> Result<(String, f64), String> {
    let (env, share) = text.split_once('=').ok_or("write ENV=SHARE, such as github=0.02")?;
    Ok((env.to_owned(), share.parse().map_err(|_| format!("{share:?} is not a share; write ENV=0.02"))?))
}

fn tasks_of(text: &str) -> Result<(String, Vec<String>), String> {
    let (env, tasks) = text.split_once('=').ok_or("write ENV=TASK,TASK, such as booking=0,17")?;
    Ok((env.to_owned(), tasks.split(',').map(str::to_owned).collect()))
}

impl Args {
    fn settings(&self) -> SplitSettings {
        let mut held_out_tasks: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (env, tasks) in &self.hold_out_tasks {
            held_out_tasks.entry(env.clone()).or_default().extend(tasks.iter().cloned());
        }
        SplitSettings {
            eval: self.eval,
            eval_of: self.eval_of.iter().cloned().collect(),
            held_out_envs: self.hold_out.clone(),
            held_out_tasks,
            max_eval: self.max_eval,
            max_train: self.max_train,
            near: (self.near != 0.0).then_some(self.near),
            seed: self.seed,
        }
    }

    fn file_of(&self, side: Side) -> PathBuf {
        self.out.join(format!("{side}.jsonl"))
    }

    /// Refuses to write over task files, except those of an earlier split here that are all read: then no row is lost.
    fn spare_files(&self, inputs: &Inputs) -> Result<()> {
        let there: Vec<PathBuf> =
            SIDES.into_iter().map(|side| self.file_of(side)).filter(|path| path.exists()).collect();
        let split_before = self.out.join(SPLIT_LOCK).is_file();
        let read: Vec<&PathBuf> = there.iter().filter(|path| is_input(path, inputs)).collect();
        let shown = |path: &Path| path.strip_prefix(".").unwrap_or(path).display().to_string();
        match read.first() {
            Some(_) if split_before && read.len() == there.len() => Ok(()),
            Some(path) if split_before => bail!(
                "the output {} is the input, and the earlier split in {out} has more files; choose an empty --out, or split all \
                 of it again: hone data split {out} --out {out}",
                shown(path),
                out = self.out.display(),
            ),
            Some(path) => bail!("the output {} is the input; choose an empty --out", shown(path)),
            None if split_before => Ok(()),
            None => match there.first() {
                Some(path) => bail!("{} exists and is of no earlier split; choose an empty --out", shown(path)),
                None => Ok(()),
            },
        }
    }

    fn old_lock(&self) -> Result<Option<SplitLock>> {
        let beside = self.out.join(SPLIT_LOCK);
        let path = match &self.lock {
            Some(path) => path,
            None if beside.is_file() => &beside,
            None => return Ok(None),
        };
        Ok(Some(SplitLock::read(path)?))
    }
}

const SIDES: [Side; 3] = [Side::Train, Side::Eval, Side::Unused];

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let inputs = Inputs::open(&args.inputs)?;
    args.spare_files(&inputs)?;
    let lock = args.old_lock()?;
    let mut splitter = Splitter::new(args.settings())?;
    let issues = args.reading.rows(&inputs, &mut |row| splitter.add(&row))?;
    let assignment = splitter.assign(lock.as_ref())?;
    if assignment.sides.is_empty() {
        bail!(
            "no task could be read, so there is nothing to split; name a file with tasks, see what is said of its rows above"
        );
    }
    let manifest = write(&args, &inputs, &assignment)?;
    let summary = &assignment.summary;
    let mut out = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        let shown = json!({"set": args.out, "summary": summary, "manifest": manifest, "issues": issues});
        writeln!(out, "{shown}")?;
    } else {
        write!(out, "{}", summary.table().text())?;
        for (why, number) in &summary.why {
            let words = match why {
                Why::Locked => "stayed where an earlier split put them",
                Why::HeldOutEnvironment => "are of held-out environments",
                Why::HeldOutTask => "were held out by name",
                Why::Hash => "went by their hash",
                Why::NearDuplicate => "went with a task whose prompt is nearly the same",
                Why::BothSides => "are unused: nearly the same as tasks of the other side, or of both",
                Why::EvalCap => "are unused: over --max-eval",
                Why::TrainCap => "are unused: over --max-train",
            };
            writeln!(out, "{number} tasks {words}")?;
        }
        if summary.against > 0 {
            writeln!(
                out,
                "eval in the input and train now: {}; earlier results on them are no evidence any more, and --hold-out-tasks \
                 ENV=KEY,… keeps them held out",
                summary.against
            )?;
        }
        if summary.missing > 0 {
            writeln!(out, "{} locked tasks are not in the set; they stay locked", summary.missing)?;
        }
        writeln!(out, "{} {} is in {}", manifest.name, manifest.version, args.out.display())?;
    }
    Ok(args.reading.exit(&issues))
}

/// Reads the inputs again and writes every row to its side's file. The files are renamed into place when all of them
/// are complete: the inputs may be an earlier split in the same directory.
fn write(args: &Args, inputs: &Inputs, assignment: &Assignment) -> Result<Manifest> {
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let path = |side: Side| args.file_of(side);
    let new = |side: Side| args.out.join(format!(".{side}.jsonl.new"));
    let mut files = SIDES.into_iter().map(|side| Ok((side, create(&new(side))?, 0))).collect::<Result<Vec<_>>>()?;
    let mut assigned = assignment.sides.iter();
    let mut failed = None;
    args.reading.rows(inputs, &mut |mut row| {
        let Some((side, _)) = assigned.next() else { return };
        row.side = Some(*side);
        for (own, file, count) in &mut files {
            if own == side {
                failed = failed.take().or(writeln!(file, "{}", row.to_json()).err());
                *count += 1;
            }
        }
    })?;
    for (_, file, _) in &mut files {
        failed = failed.or(file.flush().err());
    }
    if let Some(error) = failed {
        return Err(error).with_context(|| format!("cannot write into {}", args.out.display()));
    }
    let written: u64 = files.iter().map(|(.., count)| *count).sum();
    if written != assignment.sides.len() as u64 {
        bail!("the inputs changed while they were read; run the command again");
    }
    let parents = inputs.sources().map(|source| Ok(Parent::of(&source.name, source.path())?)).collect::<Result<_>>()?;
    let mut entries = BTreeMap::new();
    for (side, file, count) in files {
        drop(file);
        std::fs::rename(new(side), path(side)).with_context(|| format!("cannot write {}", path(side).display()))?;
        if count == 0 && side == Side::Unused {
            std::fs::remove_file(path(side)).context("cannot remove an empty file")?;
            continue;
        }
        entries.insert(format!("{side}.jsonl"), FileEntry::of(&path(side), Some(count))?);
    }
    let lock_path = args.out.join(SPLIT_LOCK);
    let mut lock = create(&lock_path)?;
    assignment.lock.write(&mut lock).and_then(|()| lock.flush()).context("cannot write the split lock")?;
    drop(lock);
    entries.insert(SPLIT_LOCK.into(), FileEntry::of(&lock_path, None)?);
    let by_directory = || args.out.file_name().map(|name| name.to_string_lossy().into_owned());
    let manifest = Manifest {
        name: args.name.clone().or_else(by_directory).unwrap_or_else(|| "set".into()),
        version: args.version.clone().unwrap_or_default(),
        parents,
        files: entries,
        counts: json!(assignment.summary.environments),
        command: command_line(),
    };
    Ok(manifest.write(&args.out)?)
}
