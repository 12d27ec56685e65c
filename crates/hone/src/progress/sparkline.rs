//! A curve in one line of text.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The values in at most `columns` characters, each the mean of an equal part of them, from the least to the most. A flat
/// curve lies at the bottom.
pub(super) fn sparkline(values: &[f64], columns: usize) -> String {
    let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let count = values.len().min(columns);
    let part = |index: usize| {
        let part = &values[index * values.len() / count..(index + 1) * values.len() / count];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let parts: Vec<f64> = (0..count).map(part).collect();
    let low = parts.iter().copied().fold(f64::INFINITY, f64::min);
    let high = parts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
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
    fn curves_fit_and_span_all_heights() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 20), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[0.0, 0.0, 1.0, 1.0], 2), "▁█");
        assert_eq!(sparkline(&[3.0; 5], 3), "▁▁▁");
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[1.0, 2.0], 0), "");
        assert_eq!(sparkline(&[f64::NAN, 1.0], 4), "▁");
        for columns in 1..40 {
            let values: Vec<f64> = (0..37).map(f64::from).collect();
            assert_eq!(sparkline(&values, columns).chars().count(), columns.min(37));
        }
    }
}
