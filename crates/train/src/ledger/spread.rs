//! Running moments of a metric, by Welford's recurrence: values that do not differ have a deviation of exactly 0.

/// Count, mean, deviation and range of values, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spread {
    pub(super) count: f64,
    mean: f64,
    /// Sum of squared distances to the mean.
    squares: f64,
    range: Option<(f64, f64)>,
}

impl Spread {
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.mean)
    }

    /// Population deviation.
    pub(super) fn std(&self) -> Option<f64> {
        (self.count > 0.0).then(|| (self.squares / self.count).sqrt())
    }

    /// Sample deviation. `None` for fewer than two values.
    pub(super) fn sample_std(&self) -> Option<f64> {
        (self.count > 1.0).then(|| (self.squares / (self.count - 1.0)).sqrt())
    }

    pub(super) fn min(&self) -> Option<f64> {
        self.range.map(|(low, _)| low)
    }

    pub(super) fn max(&self) -> Option<f64> {
        self.range.map(|(_, high)| high)
    }
}

impl FromIterator<f64> for Spread {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut spread = Self::default();
        values.into_iter().for_each(|value| spread.add(value));
        spread
    }
}

/// Pearson's correlation of pairs, one pair at a time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Correlation {
    x: Spread,
    y: Spread,
    /// Sum of products of the distances to the means.
    products: f64,
}

impl Correlation {
    pub(super) fn add(&mut self, x: f64, y: f64) {
        let distance = x - self.x.mean;
        self.x.add(x);
        self.y.add(y);
        self.products += distance * (y - self.y.mean);
    }

    /// `None` where one side does not vary.
    pub(super) fn value(&self) -> Option<f64> {
        let (dx, dy) = (self.x.std()?, self.y.std()?);
        (dx > 0.0 && dy > 0.0).then(|| (self.products / self.x.count / (dx * dy)).clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_correlation_are_the_textbooks() {
        let spread: Spread = [1.0, 2.0, 4.0, 5.0].into_iter().collect();
        assert_eq!((spread.mean(), spread.min(), spread.max()), (Some(3.0), Some(1.0), Some(5.0)));
        assert!((spread.std().unwrap() - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((spread.sample_std().unwrap() - (10.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!((Spread::default().mean(), Spread::default().std()), (None, None));
        let same: Spread = [0.1; 7].into_iter().collect();
        assert_eq!((same.mean(), same.std()), (Some(0.1), Some(0.0)));
        let mut pairs = Correlation::default();
        for (x, y) in [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0)] {
            pairs.add(x, y);
        }
        assert!((pairs.value().unwrap() - 0.6).abs() < 1e-12, "{:?}", pairs.value());
        let mut flat = Correlation::default();
        flat.add(1.0, 1.0);
        assert_eq!(flat.value(), None);
    }
}
