//! Sharpening: the temperature at which the starting policy has the final policy's entropy.

/// Relative tolerance on the entropy.
const TOLERANCE: f64 = 0.03;
/// Evaluations a search may take.
const PROBES: usize = 5;
/// Entropy below which a policy is effectively greedy.
const LEAST: f64 = 1e-4;
/// The coldest probe.
const COLDEST: f64 = 0.02;

/// Search for the temperature of a given entropy, which rises with the temperature.
///
/// ln entropy is nearly linear in 1 / temperature for a mostly confident policy: the search follows that line, and
/// interpolates on it between the nearest probes on either side.
#[derive(Debug, Clone)]
pub struct Search {
    target: f64,
    /// Temperature and entropy: the start as sampled, then the probes.
    points: Vec<(f64, f64)>,
}

impl Search {
    /// `None` if the end is not more confident than the start: there is nothing to match.
    pub fn new(temperature: f64, start: f64, end: f64) -> Option<Self> {
        let falls = end < start * (1.0 - TOLERANCE) && start > LEAST;
        falls.then(|| Self { target: end.max(LEAST), points: vec![(temperature, start)] })
    }

    /// Target entropy.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// The next temperature to try, until it is found or enough was tried.
    pub fn next(&self) -> Option<f64> {
        let off = |entropy: f64| (entropy / self.target - 1.0).abs();
        if self.points.len() > PROBES || self.points.iter().any(|(_, entropy)| off(*entropy) <= TOLERANCE) {
            return None;
        }
        let goal = self.target.ln();
        let inverse = |(temperature, entropy): &(f64, f64)| (1.0 / temperature, entropy.max(LEAST / 10.0).ln());
        let (mut unsure, sure): (Vec<_>, Vec<_>) = self.points.iter().map(inverse).partition(|point| point.1 > goal);
        unsure.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The coldest probe above the target entropy, and the warmest below it.
        let warm = *unsure.last()?;
        let at = match sure.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some(cold) => {
                let share = ((warm.1 - goal) / (warm.1 - cold.1)).clamp(0.1, 0.9);
                warm.0 + share * (cold.0 - warm.0)
            }
            None => warm.0 * (1.0 + colder(&unsure, warm.1 - goal)),
        };
        let next = (1.0 / at).max(COLDEST);
        (!self.points.iter().any(|(temperature, _)| (temperature - next).abs() < 1e-6)).then_some(next)
    }

    pub fn tried(&mut self, temperature: f64, entropy: f64) {
        self.points.push((temperature, entropy));
    }

    /// Index of the nearest probe, from 0; `None` before the first.
    pub fn nearest(&self) -> Option<usize> {
        let off = |at: &usize| (self.points[at + 1].1.max(LEAST / 10.0).ln() - self.target.ln()).abs();
        (0..self.points.len().saturating_sub(1)).min_by(|a, b| off(a).total_cmp(&off(b)))
    }
}

/// Step of the search, as a share of 1 / temperature, while every probe was above the target: along the last two of
/// them, overshooting a little, since a bracketed target is found.
fn colder(unsure: &[(f64, f64)], left: f64) -> f64 {
    let slope = match unsure {
        [.., before, last] => (before.1 - last.1) / (last.0 - before.0) * last.0,
        // A guess: entropy falls as the temperature does.
        _ => 1.0,
    };
    (1.15 * left / slope.max(0.05)).clamp(0.05, 3.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean entropy of softmax(logits / temperature) over a few made-up tokens.
    fn entropy(temperature: f64) -> f64 {
        let tokens: [&[f64]; 4] =
            [&[6.0, 0.0, 0.0, 0.0], &[3.0, 1.0, 0.5, 0.0], &[9.0, 1.0, 1.0, 0.0], &[1.0, 0.9, 0.2, 0.0]];
        let one = |logits: &&[f64]| {
            let weights: Vec<f64> = logits.iter().map(|logit| (logit / temperature).exp()).collect();
            let sum: f64 = weights.iter().sum();
            -weights.iter().map(|w| w / sum * (w / sum).ln()).filter(|x| x.is_finite()).sum::<f64>()
        };
        tokens.iter().map(one).sum::<f64>() / 4.0
    }

    #[test]
    fn the_temperature_is_found_in_a_few_probes() {
        for (start, end) in [(1.0, 0.9), (1.0, 0.5), (1.0, 0.3), (0.7, 0.2), (2.0, 1.0)] {
            let mut search = Search::new(start, entropy(start), entropy(end)).unwrap();
            let mut probes = Vec::new();
            while let Some(temperature) = search.next() {
                search.tried(temperature, entropy(temperature));
                probes.push(temperature);
            }
            let found = probes[search.nearest().unwrap()];
            let off = entropy(found) / entropy(end) - 1.0;
            assert!(off.abs() < 0.05, "{start} -> {end}: {probes:?}, off by {off:.3}");
        }
    }

    #[test]
    fn a_policy_that_is_no_surer_is_not_matched() {
        assert!(Search::new(1.0, 0.4, 0.4).is_none() && Search::new(1.0, 0.4, 0.5).is_none());
        assert!(Search::new(1.0, 0.0, 0.0).is_none());
    }

    #[test]
    fn a_search_ends_where_entropy_does_not_answer() {
        let mut search = Search::new(1.0, 0.5, 0.0).unwrap();
        let mut probes = 0;
        while let Some(temperature) = search.next() {
            assert!(temperature >= COLDEST);
            search.tried(temperature, 0.4);
            probes += 1;
        }
        assert!((1..=PROBES).contains(&probes) && search.nearest().is_some());
    }
}
