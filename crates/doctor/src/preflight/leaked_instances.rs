use hone_trace::Held;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Closed, Probe};

pub(super) const CHECK: Check<Probe> = Check {
    name: "leaked_instances",
    what: "Closed episodes are not released: the environment keeps their sessions, processes, files or state.",
    measure: "Scripted episodes, opened and closed one after the other. Child processes, open files and threads of the \
              environment's processes that grow by 0.25 an episode in both halves of at least 8, and memory by 2 MiB; \
              instances and sessions that a server counts beyond the open ones; a closed episode that answers a step \
              while one that was never opened does not. Warning; error where a limit is reached within the run.",
    fix: "Free everything an episode holds at `close`: its state, its files, the processes it started (killed and \
          waited for).",
    explains: &["script_faults", "faulted", "unscored", "latency", "never_done"],
    look,
};

/// Growth of a count by episode, and of MiB.
const GROWTH: f64 = 0.25;
const GROWTH_OF_MEMORY: f64 = 2.0;
/// Fewest episodes between the first and the last count.
const EPISODES: usize = 8;

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    let train = &probe.recipe.train;
    let episodes = train.steps * train.groups as u64 * u64::from(train.group_size);
    let closed = &scripts.closed;
    if let Some(finding) = in_excess(closed) {
        return finding.into();
    }
    let growths = growths(closed);
    if let Some(first) = growths.iter().flatten().next() {
        let severity = if growths.iter().flatten().any(|one| one.ends_within(episodes)) {
            Severity::Error
        } else {
            Severity::Warning
        };
        let finding =
            Finding::new(severity, first.says()).lines(growths.iter().flatten().map(|one| one.line(episodes)));
        let finding = if first.kind == MEMORY { finding.possible() } else { finding.likely() };
        return finding.lines(answers(closed)).into();
    }
    if closed.answered > 0 {
        let says = format!("{} of {} closed episodes still answer a step", closed.answered, closed.asked);
        return Finding::new(Severity::Warning, says)
            .line(format!("a run of {} steps opens {episodes} episodes, and none is forgotten", train.steps))
            .lines(answers(closed))
            .into();
    }
    if growths.is_none() && closed.asked == 0 && !counted_by_server(closed) {
        return Looked::skipped(format!(
            "an environment in another process that keeps its episodes apart, and {EPISODES} scripted episodes of it"
        ));
    }
    Ok(Looked::Healthy)
}

const MEMORY: &str = "MiB of memory";

fn answers(closed: &Closed) -> Option<String> {
    let line = "a step of the closed episode is answered, the same step of one that was never opened is refused";
    (closed.answered > 0).then(|| line.to_owned())
}

fn counted_by_server(closed: &Closed) -> bool {
    closed.held.iter().flat_map(|(_, held)| held).any(|held| held.in_use.is_some())
}

/// Instances or sessions that a server counts, and no open episode accounts for.
fn in_excess(closed: &Closed) -> Option<Finding> {
    let (_, held) = closed.held.last()?;
    let held = held.iter().find(|held| held.in_use.is_some_and(|in_use| held.count > in_use))?;
    let (in_use, kind) = (held.in_use.unwrap_or(0), held.kind);
    let full = held.limit.is_some_and(|limit| held.count >= limit);
    let severity = if full { Severity::Error } else { Severity::Warning };
    let says = format!("{} has {} {kind}, and {in_use} episodes are open", held.place, held.count);
    let finding = Finding::new(severity, says).line(format!(
        "{} - {in_use} = {} {kind} of closed episodes that were not given up, or of another client",
        held.count,
        held.count - in_use
    ));
    Some(match held.limit.filter(|_| full) {
        Some(limit) => finding.line(format!("it allows {limit}: no further episode opens")).likely(),
        None => finding.likely(),
    })
}

/// A kind of resource that grew with the episodes.
struct Growth {
    kind: &'static str,
    /// Episodes and resources at the first and at the last count.
    from: (usize, u64),
    to: (usize, u64),
    limit: Option<u64>,
}

/// Kinds that grew in both halves. `None` where nothing was counted often enough.
fn growths(closed: &Closed) -> Option<Vec<Growth>> {
    let counted: Vec<&(usize, Vec<Held>)> =
        closed.held.iter().filter(|(_, held)| held.iter().any(|held| held.in_use.is_none())).collect();
    let (first, last) = (counted.first()?, counted.last()?);
    let half = usize::midpoint(first.0, last.0);
    let middle = counted[1..counted.len().max(2) - 1].iter().min_by_key(|(at, _)| at.abs_diff(half))?;
    if last.0 - first.0 < EPISODES {
        return None;
    }
    // A process that was started in between holds what is its own.
    let of = |held: &[Held], one: &Held| {
        held.iter().find(|held| held.place == one.place && held.kind == one.kind).map(|held| held.count)
    };
    let lasting: Vec<&Held> =
        last.1.iter().filter(|one| [first, *middle].iter().all(|(_, held)| of(held, one).is_some())).collect();
    if lasting.is_empty() {
        return None;
    }
    let mut kinds: Vec<&'static str> = Vec::new();
    for held in &lasting {
        if !kinds.contains(&held.kind) {
            kinds.push(held.kind);
        }
    }
    let grown = kinds.into_iter().filter_map(|kind| {
        let own = || lasting.iter().filter(move |held| held.kind == kind);
        let [a, b, c] = [first, *middle, last].map(|(_, held)| own().filter_map(|one| of(held, one)).sum::<u64>());
        let least = if kind == MEMORY { GROWTH_OF_MEMORY } else { GROWTH };
        let steady =
            |from: (usize, u64), to: (usize, u64)| to.1 as f64 - from.1 as f64 >= least * (to.0 - from.0) as f64;
        let limit = own().filter_map(|held| held.limit).min();
        (steady((first.0, a), (middle.0, b)) && steady((middle.0, b), (last.0, c))).then_some(Growth {
            kind,
            from: (first.0, a),
            to: (last.0, c),
            limit,
        })
    });
    Some(grown.collect())
}

impl Growth {
    fn by_episode(&self) -> f64 {
        (self.to.1 as f64 - self.from.1 as f64) / (self.to.0 - self.from.0).max(1) as f64
    }

    /// Episodes until the limit is reached.
    fn left(&self) -> Option<u64> {
        Some((self.limit?.saturating_sub(self.to.1) as f64 / self.by_episode()) as u64)
    }

    fn ends_within(&self, episodes: u64) -> bool {
        self.left().is_some_and(|left| left < episodes)
    }

    fn says(&self) -> String {
        format!("every closed episode leaves {:.1} {} behind", self.by_episode(), self.kind)
    }

    fn line(&self, episodes: u64) -> String {
        let Self { kind, from, to, .. } = self;
        let grown = format!("{} {kind} after {} episodes, {} after {}", from.1, from.0, to.1, to.0);
        match (self.left().filter(|left| *left < episodes), self.limit) {
            (Some(left), Some(limit)) => {
                format!(
                    "{grown}; the process may have {limit}, reached after {left} more, and the run opens {episodes}"
                )
            }
            _ => format!("{grown}; over the run's {episodes} episodes {:.0}", self.by_episode() * episodes as f64),
        }
    }
}
