//! Shares: the split of a step's groups among environments.

use std::collections::BTreeMap;

use hone_trace::documented;
use serde::{Deserialize, Serialize};

documented! {
    /// Bounds of one environment's share of the groups.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Share {
        /// The least share of the groups.
        pub min: f64 where real(0.0, 1.0),
        /// The largest share.
        pub max: f64 where real(0.0, 1.0),
    }
}

impl Default for Share {
    fn default() -> Self {
        Self { min: 0.0, max: 1.0 }
    }
}

pub(super) fn check(shares: &BTreeMap<String, Share>) -> Result<(), String> {
    for (name, Share { min, max }) in shares {
        if !(0.0 <= *min && min <= max && *max <= 1.0) {
            return Err(format!("plan.share.{name}: min {min} and max {max} must satisfy 0 <= min <= max <= 1"));
        }
    }
    let least: f64 = shares.values().map(|share| share.min).sum();
    if least > 1.0 + 1e-9 {
        Err(format!("plan.share: the minimum shares add up to {least}, over 1; lower one"))
    } else {
        Ok(())
    }
}

/// Shares in proportion to the weights, each within its bounds. The surplus or deficit that a bound causes is
/// distributed over the others in proportion. If the caps leave room that no environment may fill, the shares are
/// scaled up: every place is filled.
pub(super) fn shares(names: &[&str], weights: &[f64], bounds: &BTreeMap<String, Share>) -> Vec<f64> {
    let bound = |index: usize| bounds.get(names[index]).copied().unwrap_or_default();
    let mut fixed: Vec<Option<f64>> = vec![None; names.len()];
    loop {
        let left = 1.0 - fixed.iter().flatten().sum::<f64>();
        let open: f64 = (0..names.len()).filter(|index| fixed[*index].is_none()).map(|index| weights[index]).sum();
        let wanted = |index: usize| if open > 0.0 { left * weights[index] / open } else { 0.0 };
        let free = || (0..names.len()).filter(|index| fixed[*index].is_none());
        // Caps and minima pull in opposite directions: settle the side that is further out first, as bounded
        // proportional shares are found.
        let over: f64 = free().map(|index| (wanted(index) - bound(index).max).max(0.0)).sum();
        let under: f64 = free().map(|index| (bound(index).min - wanted(index)).max(0.0)).sum();
        let settled: Vec<(usize, f64)> = free()
            .filter_map(|index| {
                let (wanted, Share { min, max }) = (wanted(index), bound(index));
                if over >= under && wanted > max {
                    Some((index, max))
                } else if under > over && wanted < min {
                    Some((index, min))
                } else {
                    None
                }
            })
            .collect();
        if settled.is_empty() {
            let found: Vec<f64> = (0..names.len()).map(|index| fixed[index].unwrap_or_else(|| wanted(index))).collect();
            let sum: f64 = found.iter().sum();
            return found.iter().map(|share| share / if sum > 0.0 { sum } else { 1.0 }).collect();
        }
        for (index, share) in settled {
            fixed[index] = Some(share);
        }
    }
}

/// `count` places by share: each gets its share rounded down or up, and over many draws of `turn` exactly its share.
pub(super) fn allot(shares: &[f64], count: usize, turn: f64) -> Vec<usize> {
    let mut before = 0;
    let mut sum = 0.0;
    let last = shares.len().saturating_sub(1);
    let place = |(index, share): (usize, &f64)| {
        sum += share * count as f64;
        // The shares add up to 1 except for rounding.
        let after = if index == last { count } else { ((sum + turn).floor() as usize).min(count) };
        let given = after - before.min(after);
        before = after;
        given
    };
    shares.iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounds(of: &[(&str, f64, f64)]) -> BTreeMap<String, Share> {
        of.iter().map(|(name, min, max)| ((*name).to_owned(), Share { min: *min, max: *max })).collect()
    }

    #[test]
    fn a_bound_is_kept_and_the_others_share_the_rest() {
        let found = shares(&["a", "b", "c"], &[8.0, 1.0, 1.0], &bounds(&[("a", 0.0, 0.5)]));
        assert_eq!(found, [0.5, 0.25, 0.25]);
        let found = shares(&["a", "b", "c"], &[8.0, 1.0, 1.0], &bounds(&[("c", 0.4, 1.0)]));
        assert!((found[0] - 0.6 * 8.0 / 9.0).abs() < 1e-12 && (found[2] - 0.4).abs() < 1e-12, "{found:?}");
        let capped = shares(&["a"], &[3.0], &bounds(&[("a", 0.0, 0.5)]));
        assert_eq!(capped, [1.0], "alone it gets every place");
        assert!(check(&bounds(&[("a", 0.6, 1.0), ("b", 0.6, 1.0)])).unwrap_err().contains("over 1"));
        assert!(check(&bounds(&[("a", 0.6, 0.5)])).is_err());
    }

    proptest! {
        #[test]
        fn every_place_is_given_and_no_share_is_off_by_one(
            weights in prop::collection::vec(0.01..10.0f64, 1..6),
            count in 0usize..40,
            turn in 0.0..1.0f64,
        ) {
            let sum: f64 = weights.iter().sum();
            let shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
            let given = allot(&shares, count, turn);
            prop_assert_eq!(given.iter().sum::<usize>(), count);
            for (given, share) in given.iter().zip(&shares) {
                prop_assert!((*given as f64 - share * count as f64).abs() < 1.0 + 1e-9);
            }
        }

        #[test]
        fn shares_lie_within_bounds_that_can_be_met(
            weights in prop::collection::vec(0.01..10.0f64, 2..5),
            min in 0.0..0.25f64,
            max in 0.5..1.0f64,
        ) {
            let names = ["a", "b", "c", "d"];
            let names = &names[..weights.len()];
            let found = shares(names, &weights, &bounds(&[("a", min, max), ("b", min, max)]));
            prop_assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            // Two capped at half or more can always fill the whole.
            for share in &found[..2] {
                prop_assert!(*share >= min - 1e-9 && *share <= max + 1e-9, "{:?}", found);
            }
        }
    }
}
