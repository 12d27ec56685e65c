use hone_chat::template::Clock;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "host_date",
    what: "The prompt carries the date of this machine: tomorrow's prompt is another one, and the task's own dates \
           do not fit it.",
    measure: "The prompt rendered on another day, and today's date searched for in the environment's texts, where \
              the task states no CURRENT_DATE of today. Warning.",
    fix: "Give every task a CURRENT_DATE variable: environments and templates go by it.",
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
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next(), parts.next(), parts.next());
    let (Some(year), Some(month), Some(day)) = (year, month, day) else { return Vec::new() };
    let Some(name) = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?)) else {
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
