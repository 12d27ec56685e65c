use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText, if_paid};
use crate::probe::Role;

/// A policy cannot make a component unscored.
#[derive(Debug)]
pub(super) struct NoWayOut;

impl Law for NoWayOut {
    fn about(&self) -> LawText {
        LawText {
            name: "no_way_out",
            law: "A component that has a value for the solution of a task has one for every other episode of that task: bad \
                  output is a low value, never none.",
            measure: "Episodes of a task whose solution was scored by a component, and which the component left \
                      unscored. Its weight then goes to the others, so breaking the output evades it.",
            repair: "Return the component's lowest value for output that cannot be read; leave unscored only what the task \
                     lacks. Or mark the component `required = true`, and the episode has no total.",
            explains: &[],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        if !evidence.episodes().any(|played| played.role == Role::Oracle) {
            return Checked::Skipped("tasks with a reference".into());
        }
        let mut breaches = Vec::new();
        for component in &evidence.components {
            let name = component.name.as_str();
            let out: Vec<_> = evidence
                .episodes()
                .filter(|played| played.value(name).is_none() && evidence.oracle(played.task, name).is_some())
                .collect();
            let Some(first) = out.first() else { continue };
            let why =
                first.trace.rewards.iter().find(|reward| reward.component == name).map_or("", |reward| reward.why());
            let says = format!("`{name}` has no value for {}: {why}", first.label);
            let line = format!("{} episodes get out of it", out.len());
            breaches.push(Breach::new(if_paid(evidence, name), name, says).line(line));
        }
        Checked::of(breaches)
    }
}
