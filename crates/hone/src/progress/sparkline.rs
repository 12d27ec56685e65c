//! Sparkline: a curve in one line of text.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Vertical scale of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Rates and rewards: 0 to 1, -1 to 0 for penalties, -1 to 1 for both, so that noise does not look like learning.
    Unit,
    /// Quantities without a range: from 0 to the largest, or from the smallest to 0.
    Zero,
}

impl Scale {
    fn of(self, values: &[f64]) -> [f64; 2] {
        let within = |[low, high]: [f64; 2]| values.iter().all(|value| (low..=high).contains(value));
        let unit = [[0.0, 1.0], [-1.0, 0.0], [-1.0, 1.0]].into_iter().find(|range| within(*range));
        unit.filter(|_| self == Self::Unit).unwrap_or_else(|| {
            let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().fold(0.0, pick);
            [fold(f64::min), fold(f64::max)]
        })
    }
}

/// The values in at most `columns` characters, each the mean of an equal part of them.
pub(super) fn sparkline(values: &[f64], columns: usize, scale: Scale) -> String {
    let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let count = values.len().min(columns);
    let part = |index: usize| {
        let part = &values[index * values.len() / count..(index + 1) * values.len() / count];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let parts: Vec<f64> = (0..count).map(part).collect();
    let [low, high] = scale.of(&values);
    let block = |value: &f64| {
        let height = if high - low > 1e-12 { (value - low) / (high - low) } else { 0.0 };
        BLOCKS[((height * BLOCKS.len() as f64) as usize).min(BLOCKS.len() - 1)]
    };
    parts.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_on_a_scale_looks_like_noise() {
        let curve = |values: &[f64], scale| sparkline(values, 10, scale);
        assert_eq!(curve(&[0.50, 0.52, 0.49], Scale::Unit), "▅▅▄");
        assert_eq!(curve(&[-0.023, -0.06, -0.04], Scale::Unit), "███", "a penalty from -1 to 0");
        assert_eq!(curve(&[-0.5, 0.5], Scale::Unit), "▃▇");
        assert_eq!(curve(&[4000.0, 4100.0], Scale::Zero), "██");
        assert_eq!(curve(&[0.002, 0.001], Scale::Zero), "█▅");
    }

    #[test]
    fn curves_fit_and_span_all_heights() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 20, Scale::Zero), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[0.0, 0.0, 1.0, 1.0], 2, Scale::Unit), "▁█");
        assert_eq!(sparkline(&[3.0; 5], 3, Scale::Zero), "███");
        assert_eq!(sparkline(&[], 10, Scale::Zero), "");
        assert_eq!(sparkline(&[1.0, 2.0], 0, Scale::Zero), "");
        assert_eq!(sparkline(&[f64::NAN, 0.0], 4, Scale::Zero), "▁");
        for columns in 1..40 {
            let values: Vec<f64> = (0..37).map(f64::from).collect();
            assert_eq!(sparkline(&values, columns, Scale::Zero).chars().count(), columns.min(37));
        }
    }
}
