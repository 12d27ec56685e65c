//! Unbiased pass@k and pass^k: of n trials of a task, c passed.

/// Chance that at least one of `k` trials drawn without replacement passes: 1 - C(n-c, k) / C(n, k). `None` for fewer
/// than `k` trials.
pub(crate) fn pass_at(n: usize, c: usize, k: usize) -> Option<f64> {
    (k >= 1 && k <= n && c <= n).then(|| 1.0 - ratio(n - c, n, k))
}

/// Chance that all of `k` trials drawn without replacement pass: C(c, k) / C(n, k). `None` for fewer than `k` trials.
pub(crate) fn pass_hat(n: usize, c: usize, k: usize) -> Option<f64> {
    (k >= 1 && k <= n && c <= n).then(|| ratio(c, n, k))
}

/// C(a, k) / C(b, k), as a product that neither overflows nor loses precision.
fn ratio(a: usize, b: usize, k: usize) -> f64 {
    if a < k {
        return 0.0;
    }
    (0..k).map(|step| (a - step) as f64 / (b - step) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(n: usize, k: usize) -> f64 {
        (0..k).map(|step| (n - step) as f64 / (step + 1) as f64).product()
    }

    #[test]
    fn closed_forms() {
        for n in 1..=8 {
            for c in 0..=n {
                for k in 1..=n {
                    let fails = if n - c < k { 0.0 } else { choose(n - c, k) / choose(n, k) };
                    let all = if c < k { 0.0 } else { choose(c, k) / choose(n, k) };
                    assert!((pass_at(n, c, k).unwrap() - (1.0 - fails)).abs() < 1e-12, "{n} {c} {k}");
                    assert!((pass_hat(n, c, k).unwrap() - all).abs() < 1e-12, "{n} {c} {k}");
                }
                assert!((pass_at(n, c, 1).unwrap() - c as f64 / n as f64).abs() < 1e-12);
            }
        }
        assert_eq!((pass_at(3, 1, 4), pass_hat(3, 1, 4), pass_at(3, 1, 0)), (None, None, None));
        assert!(pass_at(2000, 1, 1000).unwrap().is_finite());
    }

    /// Every subset of k trials, counted.
    #[test]
    fn they_are_means_over_all_subsets() {
        let (n, k) = (7usize, 3usize);
        for c in 0..=n {
            let passed = (1u32 << c) - 1;
            let subsets: Vec<u32> = (0..1u32 << n).filter(|set| set.count_ones() as usize == k).collect();
            let share = |hit: &dyn Fn(u32) -> bool| {
                subsets.iter().filter(|set| hit(**set)).count() as f64 / subsets.len() as f64
            };
            assert!((pass_at(n, c, k).unwrap() - share(&|set| set & passed != 0)).abs() < 1e-12);
            assert!((pass_hat(n, c, k).unwrap() - share(&|set| set & passed == set)).abs() < 1e-12);
        }
    }
}
