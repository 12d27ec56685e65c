//! Sparkline: a curve in one line of text.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The values in at most `columns` characters, each the mean of an equal part of them. Rates (all within 0 and 1) are
/// drawn between 0 and 1, so that noise does not look like learning; anything else from minimum to maximum, and flat at
/// the bottom.
pub(super) fn sparkline(values: &[f64], columns: usize) -> String {
    let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let count = values.len().min(columns);
    let part = |index: usize| {
        let part = &values[index * values.len() / count..(index + 1) * values.len() / count];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let parts: Vec<f64> = (0..count).map(part).collect();
    let rates = parts.iter().all(|value| (0.0..=1.0).contains(value));
    let low = if rates { 0.0 } else { parts.iter().copied().fold(f64::INFINITY, f64::min) };
    let high = if rates { 1.0 } else { parts.iter().copied().fold(f64::NEG_INFINITY, f64::max) };
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
        assert_eq!(sparkline(&[f64::NAN, 2.0], 4), "▁");
        assert_eq!(sparkline(&[0.50, 0.52, 0.49], 3), "▅▅▄", "rates have a scale of their own");
        for columns in 1..40 {
            let values: Vec<f64> = (0..37).map(f64::from).collect();
            assert_eq!(sparkline(&values, columns).chars().count(), columns.min(37));
        }
    }
}
