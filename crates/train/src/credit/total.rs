//! One number per trace, from its reward components.

use hone_trace::{Group, Trace};

/// The components that count and how much. A component that was not scored leaves the sum together with its weight:
/// the others are scaled up to fill its place, so that a judge that is down does not look like a judge that said 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Weights {
    components: Vec<(String, f64)>,
}

impl Weights {
    pub fn new(components: impl IntoIterator<Item = (impl Into<String>, f64)>) -> Self {
        Self { components: components.into_iter().map(|(name, weight)| (name.into(), weight)).collect() }
    }

    /// A single component.
    pub fn only(component: impl Into<String>) -> Self {
        Self::new([(component, 1.0)])
    }

    pub fn components(&self) -> &[(String, f64)] {
        &self.components
    }

    /// Weighted sum of the scored components. `None` if nothing was scored.
    pub fn total(&self, trace: &Trace) -> Option<f64> {
        let (mut sum, mut counted, mut all) = (0.0, 0.0, 0.0);
        for (component, weight) in &self.components {
            all += weight.abs();
            if let Some(value) = trace.reward(component) {
                sum += weight * value;
                counted += weight.abs();
            }
        }
        match counted {
            0.0 => None,
            // Exactly the weighted sum when everything was scored.
            _ if counted == all => Some(sum),
            _ => Some(sum * all / counted),
        }
    }

    /// The total of every trace of a group, in order.
    pub fn totals(&self, group: &Group) -> Vec<Option<f64>> {
        group.traces().iter().map(|trace| self.total(trace)).collect()
    }
}
