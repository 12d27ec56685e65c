use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::{ENVIRONMENT_TOOL_CALLS_EMITTED, ENVIRONMENT_TOOL_CALLS_EXECUTED};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "calls_not_run",
    what: "The policy calls tools and the calls are not run.",
    measure: "`environment/tool_calls_executed` over `environment/tool_calls_emitted`, and the calls of probed episodes. \
              Warning under 90 %, error under 50 %.",
    fix: "Read one of the traces: a call that is read but not run is the environment's doing (unknown tool, episode \
          over).",
    explains: &["no_signal", "do_nothing"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let episodes = run.probed()?;
    let counted = run.sum(ENVIRONMENT_TOOL_CALLS_EMITTED).zip(run.sum(ENVIRONMENT_TOOL_CALLS_EXECUTED));
    let turns = || episodes.iter().flat_map(|(_, trace)| &trace.turns).filter(|turn| turn.failure.is_none());
    let recorded = turns().fold((0.0, 0.0), |(emitted, executed), turn| {
        (emitted + turn.calls.len() as f64, executed + f64::from(turn.executed))
    });
    let worst = [counted, Some(recorded)].into_iter().flatten().filter(|(emitted, _)| *emitted > 0.0);
    let Some((emitted, executed)) = worst.min_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0))) else {
        return Looked::skipped("a step in which a tool was called");
    };
    let share = executed / emitted;
    if share >= 0.9 {
        return Ok(Looked::Healthy);
    }
    let severity = if share < 0.5 { Severity::Error } else { Severity::Warning };
    let says = format!("of {emitted:.0} calls, {executed:.0} ({:.1} %) were run", 100.0 * share);
    let not_run = episodes.into_iter().filter(|(_, trace)| {
        trace.turns.iter().any(|turn| turn.failure.is_none() && turn.calls.len() > turn.executed as usize)
    });
    Finding::new(severity, says).traces(not_run.map(|(number, _)| number).collect::<Vec<_>>()).into()
}
