use hone_chat::template::Clock;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "host_date",
    what: "The prompt contains this machine's date: tomorrow's prompt will differ, and the task's own dates do not \
           match it.",
    measure: "The prompt rendered as on another day, and the environment's texts searched for today's date, where the \
              task does not state today as its CURRENT_DATE. Warning.",
    fix: "Give every task a CURRENT_DATE variable: environments and templates use it.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let today = Clock::host().date();
    for opening in world.openings.iter().filter(|opening| opening.stated_date.is_none()) {
        if opening.rendered.known().is_some_and(|rendered| rendered.dated) {
            return Finding::new(Severity::Warning, "the chat template writes this machine's date into the prompt")
                .line(format!("task {} states no CURRENT_DATE", opening.task))
                .into();
        }
        if let Some(form) = forms(&today).into_iter().find(|form| opening.said.contains(form.as_str())) {
            let says = format!("{} writes today's date, {form:?}, into the prompt", opening.env);
            return Finding::new(Severity::Warning, says)
                .line(format!("task {} states no CURRENT_DATE", opening.task))
                .likely()
                .into();
        }
    }
    if world.openings.iter().all(|opening| opening.fault.is_some()) {
        return Looked::skipped("an episode that opens");
    }
    Ok(Looked::Healthy)
}

/// A date as people write it.
fn forms(date: &str) -> Vec<String> {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next(), parts.next(), parts.next());
    let (Some(year), Some(month), Some(day)) = (year, month, day) else { return Vec::new() };
    let Some(name) = month.parse().ok().and_then(Clock::month_name) else {
        return Vec::new();
    };
    let short = &name[..3];
    let plain = day.trim_start_matches('0');
    vec![
        date.to_owned(),
        format!("{year}/{month}/{day}"),
        format!("{month}/{day}/{year}"),
        format!("{day}.{month}.{year}"),
        format!("{name} {plain}, {year}"),
        format!("{plain} {name} {year}"),
        format!("{day} {short} {year}"),
        format!("{short} {day}, {year}"),
    ]
}
