//! Report of an audit: findings by cost, the table, the worst junk.

use std::collections::BTreeMap;

use hone_arena::rewards::TOTAL;
use serde::Serialize;

use crate::evidence::{Evidence, Line};
use crate::honest::{Honest, Source};
use crate::law::{Breach, Checked, LawText, Severity};
use crate::parity::Parity;
use crate::probe::Role;
use crate::relative::Standing;

/// The outcome of an audit. The serde form is `hone audit --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    pub recipe: String,
    pub tasks: usize,
    pub episodes: usize,
    /// Episodes that broke outside the policy and say nothing.
    pub faults: usize,
    pub honest: HonestView,
    pub components: Vec<ComponentView>,
    /// Worst first.
    pub findings: Vec<Finding>,
    /// Laws that hold.
    pub held: Vec<&'static str>,
    pub skipped: Vec<SkippedLaw>,
    /// The junk with the highest total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
    pub parity: Parity,
    pub lines: Vec<Row>,
}

/// The honest work that junk is compared with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HonestView {
    pub source: Source,
    pub who: String,
    pub total: Option<f64>,
    pub success: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A component in the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentView {
    pub name: String,
    pub weight: f64,
    pub paid: bool,
    /// Mean of the solutions; absent if they were not scored.
    pub oracle: Option<f64>,
    /// Of the junk with the highest total.
    pub junk: Option<f64>,
    /// The most any junk earns of it.
    pub most: Option<f64>,
    /// Share of the variance of honest advantages.
    pub advantage_share: Option<f64>,
}

/// A broken law, or junk that beats honest work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub law: &'static str,
    #[serde(flatten)]
    pub breach: Breach,
    pub repair: &'static str,
    /// Laws that are broken as a consequence, with what they say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<String>,
}

/// A law that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedLaw {
    pub law: &'static str,
    pub needs: String,
}

/// The junk that earns the most, with its text on one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worst {
    pub probe: &'static str,
    pub label: String,
    pub task: String,
    pub text: String,
    pub values: BTreeMap<String, f64>,
    /// Place between an empty reply (0) and the solution (1).
    pub share: Option<f64>,
}

/// A line of the table, with its standing among honest episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub line: Line,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advantage: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positive: Option<f64>,
}

/// Parts of a report.
pub(crate) struct Material {
    pub recipe: String,
    pub evidence: Evidence,
    pub lines: Vec<Line>,
    pub honest: Honest,
    pub standings: Vec<Standing>,
    pub shares: Option<Vec<(String, f64)>>,
    pub parity: Parity,
    pub checked: Vec<(LawText, Checked)>,
}

/// The comparison with honest work, as a separate law.
pub(crate) const HONEST_WORK: LawText = LawText {
    name: "honest_work",
    law: "Junk earns less than honest work.",
    measure: "Mean total of the worst junk against that of the policy's own episodes, of the recorded run's, or of the best \
              scripted baseline: error where junk earns more. Junk with a positive mean advantage among those episodes, in \
              over half of the groups: warning.",
    repair: "See the findings above for the component that pays it. Where there are none, the policy is too weak for the \
             tasks: give easier ones or a warm start.",
    explains: &[],
};

impl Audit {
    pub(crate) fn new(material: Material) -> Self {
        let Material { recipe, evidence, lines, honest, standings, shares, parity, checked } = material;
        let worst_line = evidence.worst_junk();
        let mut checked = checked;
        checked.push((HONEST_WORK, honest_work(&evidence, &honest, &standings, worst_line.as_ref())));
        let (findings, held, skipped) = settle(checked);
        let share = |name: &str| shares.as_ref()?.iter().find(|(other, _)| other == name).map(|(_, share)| *share);
        let junk = |name: &str| worst_line.as_ref()?.means.get(name).copied();
        let most = |name: &str| {
            let junk = lines.iter().filter(|line| line.role == Role::Junk && 2 * line.tasks > evidence.tasks);
            junk.filter_map(|line| line.means.get(name).copied()).max_by(f64::total_cmp)
        };
        let components = evidence.components.iter().map(|component| ComponentView {
            name: component.name.clone(),
            weight: component.weight,
            paid: component.paid,
            oracle: evidence.oracle_mean(&component.name),
            junk: junk(&component.name),
            most: most(&component.name),
            advantage_share: share(&component.name),
        });
        let total = ComponentView {
            name: TOTAL.into(),
            weight: evidence.components.iter().map(|component| component.weight).sum(),
            paid: true,
            oracle: evidence.oracle_mean(TOTAL),
            junk: junk(TOTAL),
            most: most(TOTAL),
            advantage_share: None,
        };
        let rows = lines.iter().map(|line| {
            let standing = standings.iter().find(|other| other.probe == line.probe && other.label == line.label);
            Row {
                line: line.clone(),
                advantage: standing.map(|standing| standing.advantage),
                positive: standing.map(|standing| standing.positive),
            }
        });
        Self {
            recipe,
            tasks: evidence.tasks,
            episodes: evidence.played.len(),
            faults: evidence.played.iter().filter(|played| played.is_fault()).count(),
            components: components.chain([total]).collect(),
            findings,
            held,
            skipped,
            worst: worst_line.map(|line| worst(&evidence, &line)),
            parity,
            lines: rows.collect(),
            honest: HonestView {
                source: honest.source,
                who: honest.who,
                total: honest.total,
                success: honest.success,
                note: honest.note,
            },
        }
    }

    /// A law is broken, or junk earns more than honest work.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.breach.severity == Severity::Error)
    }

    /// The finding of a law, where it is one of its own.
    pub fn found(&self, law: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.law == law)
    }
}

fn worst(evidence: &Evidence, line: &Line) -> Worst {
    let mut mine = evidence.episodes().filter(|played| played.probe == line.probe && played.label == line.label);
    let played = mine.next();
    Worst {
        probe: line.probe,
        label: line.label.clone(),
        task: played.map(|played| played.trace.task.clone()).unwrap_or_default(),
        text: played.map(|played| played.replies.join("\n")).unwrap_or_default(),
        values: line.means.clone(),
        share: line.total().and_then(|total| evidence.share(total)),
    }
}

fn honest_work(evidence: &Evidence, honest: &Honest, standings: &[Standing], worst: Option<&Line>) -> Checked {
    let (Some(worst), Some(total)) = (worst, honest.total) else {
        return Checked::Skipped("honest episodes that were scored".into());
    };
    let junk = worst.total().unwrap_or(f64::MIN);
    let slack = 0.01 * evidence.oracle_mean(TOTAL).unwrap_or(1.0).abs();
    if junk > total + slack {
        let says = format!("{} earns {junk:.3}, {} earn {total:.3}", worst.label, honest.who);
        return Checked::Broken(vec![Breach::new(Severity::Error, TOTAL, says)]);
    }
    let is_junk = |standing: &&Standing| {
        let line =
            evidence.played.iter().find(|played| played.probe == standing.probe && played.label == standing.label);
        line.is_some_and(|line| line.role == Role::Junk)
    };
    let mut taught: Vec<&Standing> = standings
        .iter()
        .filter(is_junk)
        .filter(|standing| standing.positive > 0.5 && standing.advantage > 0.0 && 2 * standing.groups > evidence.tasks)
        .collect();
    taught.sort_by(|a, b| b.advantage.total_cmp(&a.advantage));
    let Some(first) = taught.first().filter(|_| honest.source != Source::Baselines) else { return Checked::Holds };
    let says = format!(
        "{} would be reinforced: its advantage is above 0 in {:.0} % of the groups, {:+.2} on average",
        first.label,
        100.0 * first.positive,
        first.advantage
    );
    let lines = taught.iter().skip(1).take(3);
    let breach = Breach::new(Severity::Warning, TOTAL, says);
    let breach = lines.fold(breach, |breach, standing| {
        breach.line(format!("{}: {:+.2} in {:.0} %", standing.label, standing.advantage, 100.0 * standing.positive))
    });
    Checked::Broken(vec![breach])
}

type Settled = (Vec<Finding>, Vec<&'static str>, Vec<SkippedLaw>);

/// Findings worst first. A breach goes under one that explains its law and is no less severe.
fn settle(checked: Vec<(LawText, Checked)>) -> Settled {
    let (mut found, mut held, mut skipped): (Vec<(LawText, Breach)>, _, _) = (Vec::new(), Vec::new(), Vec::new());
    for (law, checked) in checked {
        match checked {
            Checked::Holds => held.push(law.name),
            Checked::Skipped(needs) => skipped.push(SkippedLaw { law: law.name, needs }),
            Checked::Broken(breaches) => found.extend(breaches.into_iter().map(|breach| (law, breach))),
        }
    }
    // Of a component's own, or of what is not one component's fault.
    let explains = |cause: &(LawText, Breach), (law, breach): &(LawText, Breach)| {
        cause.0.name != law.name
            && cause.0.explains.contains(&law.name)
            && cause.1.severity <= breach.severity
            && (breach.component == TOTAL || cause.1.component == TOTAL || breach.component == cause.1.component)
    };
    let cause_of = |one: &(LawText, Breach)| found.iter().position(|cause| explains(cause, one));
    let causes: Vec<Option<usize>> = found.iter().map(cause_of).collect();
    let mut findings: Vec<Finding> = Vec::new();
    for (place, (law, breach)) in found.iter().enumerate() {
        if causes[place].is_some() {
            continue;
        }
        let follow = (0..found.len()).filter(|&other| causes[other] == Some(place));
        let consequences = follow.map(|other| format!("{}  [{}]", found[other].1.says, found[other].0.name)).collect();
        findings.push(Finding { law: law.name, breach: breach.clone(), repair: law.repair, consequences });
    }
    findings.sort_by_key(|finding| finding.breach.severity);
    (findings, held, skipped)
}
