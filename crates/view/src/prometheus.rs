//! Prometheus export: the newest value of every metric, in its text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hone_train::ledger::names::{self, Metric};

use crate::run::Run;
use crate::site::Site;

/// Gauges named after the metrics (`reward/signal_ratio` is `hone_reward_signal_ratio`), one value for each run; the step, the
/// steps planned and the tokens of the whole run; the newest evaluation of each kind.
pub(crate) fn metrics(site: &Site) -> String {
    let runs = site.all();
    let named: Vec<(String, &Run)> = runs.iter().map(|run| (name_among(run, &runs), &**run)).collect();
    let mut families = BTreeMap::new();
    for (name, run) in &named {
        let mut add = |metric: &str, kind, help: &str, value: Option<f64>| {
            let Some(value) = value else { return };
            let family = families.entry(identifier(metric)).or_insert_with(|| Family::new(kind, help));
            family.values.entry((name.clone(), metric.to_owned())).or_insert(value);
        };
        add("step", GAUGE, "Steps that were recorded.", Some(run.done() as f64));
        add("steps_planned", GAUGE, "Steps of the recipe.", run.planned().map(|steps| steps as f64));
        let sum = |metric: Metric| run.metrics.sum(metric.name);
        add("tokens_sampled_total", COUNTER, "Tokens sampled over the run.", sum(names::TOKENS_SAMPLED));
        add("tokens_trained_total", COUNTER, "Tokens trained over the run.", sum(names::TOKENS_TRAINED));
        for metric in run.metrics.names() {
            add(metric, GAUGE, &format!("{metric} of the newest step."), run.metrics.at(run.done(), metric));
        }
        for played in run.events.evaluations().rev() {
            let metric = format!("eval/{}/success", played.set.kind());
            add(&metric, GAUGE, &format!("{metric} of the newest evaluation."), played.success);
        }
    }
    families.iter().fold(String::new(), |mut out, (name, family)| {
        family.print(name, &mut out);
        out
    })
}

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// Values of one name.
struct Family {
    kind: &'static str,
    help: String,
    /// By run and by the metric's own name: two may map to the same identifier.
    values: BTreeMap<(String, String), f64>,
}

impl Family {
    fn new(kind: &'static str, help: &str) -> Self {
        Self { kind, help: help.to_owned(), values: BTreeMap::new() }
    }

    fn print(&self, name: &str, out: &mut String) {
        let help = self.help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", self.kind);
        for ((run, metric), value) in &self.values {
            let twin = self.values.keys().any(|(other, twin)| other == run && twin != metric);
            let metric = if twin { format!(",metric=\"{}\"", label(metric)) } else { String::new() };
            let _ = writeln!(out, "{name}{{run=\"{}\"{metric}}} {value}", label(run));
        }
    }
}

/// The run's name, or its path if another run has the same name: Prometheus rejects an answer with duplicate values.
fn name_among(run: &Run, runs: &[std::sync::Arc<Run>]) -> String {
    let alone = runs.iter().filter(|other| other.name == run.name).count() == 1;
    if alone { run.name.clone() } else { run.path.display().to_string() }
}

/// A metric's name in the characters that Prometheus allows.
fn identifier(metric: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("hone_{}", metric.chars().map(letter).collect::<String>())
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_what_prometheus_takes() {
        assert_eq!(identifier("batch_reward/größe-2"), "hone_batch_reward_gr__e_2");
        assert_eq!(label("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    }

    #[test]
    fn metrics_of_the_same_identifier_stay_apart() {
        let mut family = Family::new(GAUGE, "x");
        family.values.insert(("r".into(), "a/b".into()), 1.0);
        family.values.insert(("s".into(), "a/b".into()), 3.0);
        family.values.insert(("r".into(), "a-b".into()), 2.0);
        let mut out = String::new();
        family.print("hone_a_b", &mut out);
        assert_eq!(
            out,
            "# HELP hone_a_b x\n# TYPE hone_a_b gauge\nhone_a_b{run=\"r\",metric=\"a-b\"} 2\n\
             hone_a_b{run=\"r\",metric=\"a/b\"} 1\nhone_a_b{run=\"s\"} 3\n"
        );
    }
}
