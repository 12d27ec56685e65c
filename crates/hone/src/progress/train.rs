//! Progress display of a training run.

use std::fmt::Write as _;
use std::path::Path;

use hone_arena::show::Show;
use hone_doctor::{Live, Named, Severity};
use hone_trace::{Group, Trace, clean, clean_line};
use hone_train::evaluate::{Evaluation, Measured};
use hone_train::events::Event;
use hone_train::faults::Broke;
use hone_train::ledger::Ledger;
use hone_train::ledger::names::{self, Name};
use hone_train::recipe::Recipe;
use hone_train::run::{Warning, Watch};
use hone_train::setup::Setup;
use hone_view::exports::live::Logs;
use hone_view::exports::wandb::Mode;

use super::board::number;
use super::faults::in_short;
use super::sparkline::Scale;
use super::summary::has;
use super::{Board, Interrupt, Progress};
use crate::output::duration;

/// Texts of a sample conversation are cut to this many characters.
const SAMPLE_CHARS: usize = 600;

/// Shows a run on stderr.
pub(crate) struct TrainProgress<'a> {
    progress: Progress,
    interrupt: Interrupt,
    setup: &'a Setup,
    recipe: &'a Recipe,
    /// Logs for other tools.
    logs: Logs,
    /// Steps between sample conversations; 0: none.
    samples: u64,
    evaluations: Vec<(u64, Measured)>,
    /// Live checks of the doctor.
    live: Live,
    /// Findings from before the first step.
    preflight: Vec<Named>,
    /// The last fault, on one line.
    broke: Option<String>,
    /// True once a fault was quoted in full.
    quoted: bool,
}

impl<'a> TrainProgress<'a> {
    /// Must be called on a runtime: it listens for ctrl-c.
    pub(crate) fn start(recipe: &'a Recipe, setup: &'a Setup, samples: u64, directory: &Path) -> Self {
        let progress = Progress::start(Board::new(&recipe.name, "step", recipe.train.steps));
        let interrupt = Interrupt::default();
        let resume = format!("`hone train --resume {}` continues; ", directory.display());
        let resume = if has("train", Some("resume")) { resume } else { String::new() };
        let notice = format!("stopping when this step is recorded; {resume}ctrl-c again stops immediately");
        interrupt.listen(progress.handle(), notice);
        super::waits::listen(progress.handle());
        let live = Live::new(recipe);
        let (logs, warning) = logs(recipe, directory);
        let (evaluations, preflight, broke) = (Vec::new(), Vec::new(), None);
        let shown = Self {
            progress,
            interrupt,
            setup,
            recipe,
            logs,
            samples,
            evaluations,
            live,
            preflight,
            broke,
            quoted: false,
        };
        shown.warn(warning.as_slice());
        shown
    }

    /// Ends the logs. The last state stays on the screen.
    pub(crate) fn finish(mut self) {
        let warnings = self.logs.finish();
        self.warn(&warnings);
    }

    fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            self.progress.print(&self.progress.style().red(&format!("warning: {}", clean_line(warning))));
        }
    }

    /// Brings the logs up to date; the row of `unfinished` waits until that step is complete.
    fn log(&mut self, unfinished: Option<u64>) {
        let warnings = self.logs.update(unfinished);
        self.warn(&warnings);
    }

    /// Findings from before the first step, for the record.
    pub(crate) fn found_before(mut self, findings: Vec<Named>) -> Self {
        self.preflight = findings;
        self
    }

    /// Quotes the first fault of the run in full, a traceback on lines of its own. The others are on one line.
    fn quote(&mut self, first: &str) {
        if !std::mem::replace(&mut self.quoted, true) && in_short(first) != clean_line(first) {
            self.progress.print(&self.progress.style().red(&clean(&format!("the first episode that broke: {first}"))));
        }
    }

    fn sample(&self, step: u64, trace: &Trace) {
        let decode =
            |ids: &[u32]| self.setup.renderer.tokenizer().decode(ids).unwrap_or_else(|error| error.to_string());
        let style = self.progress.style();
        let show = Show { decode: &decode, colour: style.colour, max_chars: Some(SAMPLE_CHARS) };
        let title = style.bold(&format!("a conversation of step {step}"));
        self.progress.print(&format!("\n{title}\n{}", show.trace(trace)));
    }

    fn facts(&self) -> Vec<String> {
        let broke = self.broke.iter().map(|broke| self.progress.style().red(broke));
        let Some((_, first)) = self.evaluations.first() else { return broke.collect() };
        let last = self.evaluations.last().filter(|(step, _)| *step > 0);
        let line = |name: &str, of: fn(&Measured) -> &Evaluation| match last {
            None => format!("held-out success, {name}: {} at the start", with_interval(of(first))),
            Some((step, last)) => format!(
                "held-out success, {name}: {} at the start, {} at step {step}",
                optional(of(first).success),
                with_interval(of(last))
            ),
        };
        let success = [line("greedy", |measured| &measured.greedy), line("sampled", |measured| &measured.sampled)];
        success.into_iter().chain(broke).collect()
    }
}

/// Logs that a recipe asks for. W&B's own settings decide whether its rows are written and sent; unreadable settings
/// are a warning, and the rows are written.
fn logs(recipe: &Recipe, directory: &Path) -> (Logs, Option<String>) {
    let (tensorboard, wandb) = (recipe.log.tensorboard.as_deref(), recipe.log.wandb.as_deref());
    let logs = Logs::new(directory, tensorboard, wandb);
    match wandb.map(|_| Mode::from_env()) {
        Some(Ok(Mode::Disabled)) => (Logs::new(directory, tensorboard, None), None),
        Some(Ok(Mode::Online(account))) => (logs.online(account), None),
        Some(Ok(Mode::Offline)) | None => (logs, None),
        Some(Err(error)) => (logs, Some(format!("log.wandb: {error}"))),
    }
}

/// A number, or a word for an absent one.
pub(crate) fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "not scored".to_owned(), number)
}

/// Success with its interval.
pub(crate) fn with_interval(evaluation: &Evaluation) -> String {
    match evaluation.ci {
        Some([low, high]) => format!("{} [{}, {}]", optional(evaluation.success), number(low), number(high)),
        None => optional(evaluation.success),
    }
}

/// The numbers of a step on the board.
fn note(board: &mut Board, ledger: &Ledger) {
    for name in ledger.component_names() {
        board.note(name, ledger.get(names::BATCH_REWARD_COMPONENT.of([&name])), Scale::Unit);
    }
    board.note("groups with signal", ledger.get(names::REWARD_SIGNAL_RATIO), Scale::Unit);
    board.note("parse failures", ledger.get(names::REWARD_PARSE_FAILURE_RATE), Scale::Unit);
}

impl Watch for TrainProgress<'_> {
    fn resumed(&mut self, steps: &[Ledger]) {
        let done = steps.last().map_or(0, |ledger| ledger.step);
        self.progress.print(&format!("resuming after step {done}"));
        // Earlier notices are in the record and are not repeated.
        for ledger in steps {
            drop(self.live.see(ledger));
        }
        self.progress.update(|board| {
            for ledger in steps {
                note(board, ledger);
            }
            board.start_at(done);
        });
        self.log(None);
    }

    fn started(&mut self, before: &Measured) {
        self.evaluations.push((0, before.clone()));
        let facts = self.facts();
        self.progress.update(|board| board.facts = facts);
    }

    fn warned(&mut self, _step: u64, warning: &Warning) {
        self.progress.print(&self.progress.style().red(&warning.to_string()));
    }

    fn doing(&mut self, _step: u64, what: &'static str) {
        self.progress.update(|board| board.doing = what);
    }

    fn sampled(&mut self, step: u64, groups: &[Group]) {
        if self.samples == 0 || !step.is_multiple_of(self.samples) {
            return;
        }
        let group = groups.get(step as usize % groups.len().max(1));
        if let Some(trace) = group.and_then(|group| group.traces().first()) {
            self.sample(step, trace);
        }
    }

    fn broke(&mut self, step: u64, broke: &Broke) {
        self.quote(&broke.first);
        let Broke { broken, episodes, first } = broke;
        let line = format!("step {step}: {broken} of {episodes} episodes broke; the first: {}", in_short(first));
        if !self.progress.is_live() {
            self.progress.print(&line);
        }
        self.broke = Some(line);
        let facts = self.facts();
        self.progress.update(|board| board.facts = facts);
    }

    fn evaluated(&mut self, step: u64, measured: &Measured) {
        self.evaluations.push((step, measured.clone()));
        if let Some(first) = measured.sampled.first_fault.as_ref().or(measured.greedy.first_fault.as_ref()) {
            let faults = measured.sampled.faults + measured.greedy.faults;
            self.quote(first);
            self.broke = Some(format!("eval at step {step}: {faults} episodes broke; the first: {}", in_short(first)));
        }
        let facts = self.facts();
        self.progress.update(|board| board.facts = facts);
        if !self.progress.is_live() {
            self.progress.print(&evaluation_line(step, measured));
        }
        self.log(None);
    }

    fn stepped(&mut self, ledger: &Ledger) {
        self.progress.update(|board| {
            note(board, ledger);
            board.foot = foot(ledger);
            board.reach(ledger.step);
        });
        if !self.progress.is_live() {
            let left = self.progress.left().map(|left| format!("  about {} left", duration(left.as_secs_f64())));
            self.progress.print(&(step_line(ledger) + &left.unwrap_or_default()));
        }
        self.log(self.recipe.evaluates_after(ledger.step).then_some(ledger.step));
    }

    fn notices(&mut self, ledger: Option<&Ledger>) -> Vec<Event> {
        let Some(ledger) = ledger else {
            return std::mem::take(&mut self.preflight).iter().map(|named| notice(0, named)).collect();
        };
        let found = self.live.see(ledger);
        for named in found.iter().filter(|named| named.finding.severity != Severity::Note) {
            let (severity, says) = (named.finding.severity.word(), &named.finding.says);
            let line = format!("{severity}: {says}  [{}]\n  fix: {}", named.check, named.fix());
            self.progress.print(&line);
        }
        found.iter().map(|named| notice(ledger.step, named)).collect()
    }

    fn stop(&self) -> bool {
        self.interrupt.asked()
    }
}

fn notice(step: u64, named: &Named) -> Event {
    Event::Notice {
        step,
        check: named.check.to_owned(),
        severity: named.finding.severity.word().to_owned(),
        says: named.finding.says.clone(),
        waived: named.waived.clone(),
    }
}

fn foot(ledger: &Ledger) -> String {
    let shown = [
        (names::TIMING_SAMPLED_TOKENS_PER_SECOND, "sampled tokens/s"),
        (names::POLICY_POLICY_ENTROPY, "entropy"),
        (names::POLICY_LOSS_METRICS_CLIP_RATIO, "clipped"),
        (names::POLICY_GRAD_NORM, "gradient"),
    ];
    let parts = shown.iter().filter_map(|(metric, label)| Some(format!("{} {label}", number(ledger.get(*metric)?))));
    parts.collect::<Vec<_>>().join(" · ")
}

fn evaluation_line(step: u64, Measured { greedy, sampled }: &Measured) -> String {
    let broken = sampled.first_fault.as_ref().or(greedy.first_fault.as_ref()).map(|words| ("broken", words));
    let unscored = sampled.first_unscored.as_ref().or(greedy.first_unscored.as_ref()).map(|words| ("unscored", words));
    let firsts = broken.into_iter().chain(unscored);
    let first: String = firsts.map(|(kind, words)| format!("; the first {kind}: {}", in_short(words))).collect();
    let failures = sampled.parse_failure_rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.3}"));
    let lost = match (sampled.unscored + greedy.unscored, sampled.faults + greedy.faults) {
        (0, 0) => String::new(),
        (unscored, faults) => format!("; {unscored} episodes unscored, {faults} broken{first}"),
    };
    format!(
        "eval at step {step}: success {} greedy, {} sampled at temperature {}; {} held-out tasks, parse failures {failures}{lost}",
        with_interval(greedy),
        with_interval(sampled),
        sampled.temperature,
        sampled.tasks
    )
}

/// One plain line per step.
fn step_line(ledger: &Ledger) -> String {
    let mut line = format!("step {:>4}", ledger.step);
    let mut add = |label: &str, name: Name| {
        if let Some(value) = ledger.get(name) {
            let _ = write!(line, "  {label} {}", number(value));
        }
    };
    for name in ledger.component_names() {
        add(name, names::BATCH_REWARD_COMPONENT.of([&name]));
    }
    add("signal", names::REWARD_SIGNAL_RATIO.into());
    add("parse failures", names::REWARD_PARSE_FAILURE_RATE.into());
    add("entropy", names::POLICY_POLICY_ENTROPY.into());
    add("clipped", names::POLICY_LOSS_METRICS_CLIP_RATIO.into());
    add("gradient", names::POLICY_GRAD_NORM.into());
    add("tokens/s", names::TIMING_SAMPLED_TOKENS_PER_SECOND.into());
    add("seconds", names::TIMING_STEP.into());
    line
}
