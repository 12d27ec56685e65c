//! Alignment: several rollouts' turns in one table, the same call in the same row.

/// Rows of a table with one column per sequence: `rows[r][c]` is the index of the item of sequence `c` in row `r`. Each
/// sequence is aligned to the rows so far by a longest common subsequence of its keys; items without a partner get
/// their own row, in order.
pub(crate) fn align(sequences: &[Vec<String>]) -> Vec<Vec<Option<usize>>> {
    let mut rows: Vec<(String, Vec<Option<usize>>)> = Vec::new();
    for (column, sequence) in sequences.iter().enumerate() {
        let keys: Vec<&str> = rows.iter().map(|(key, _)| key.as_str()).collect();
        let pairs = common(&keys, sequence);
        let mut merged = Vec::with_capacity(rows.len());
        let (mut old, mut next) = (rows.into_iter(), 0);
        let mut taken = 0;
        for (row, item) in
            pairs.into_iter().map(Some).chain([None]).map(|pair| pair.unwrap_or((usize::MAX, sequence.len())))
        {
            while taken < row {
                let Some(passed) = old.next() else { break };
                merged.push(with(passed, None));
                taken += 1;
            }
            for (alone, key) in sequence.iter().enumerate().take(item).skip(next) {
                let mut cells = vec![None; column];
                cells.push(Some(alone));
                merged.push((key.clone(), cells));
            }
            next = item + 1;
            if let Some(matched) = old.next() {
                merged.push(with(matched, Some(item)));
                taken += 1;
            }
        }
        rows = merged;
    }
    rows.into_iter().map(|(_, cells)| cells).collect()
}

fn with((key, mut cells): (String, Vec<Option<usize>>), cell: Option<usize>) -> (String, Vec<Option<usize>>) {
    cells.push(cell);
    (key, cells)
}

/// Pairs of indices of a longest common subsequence.
fn common(a: &[&str], b: &[String]) -> Vec<(usize, usize)> {
    let mut longest = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i][j] =
                if a[i] == b[j] { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_same_call_is_in_the_same_row() {
        let rows = align(&[words("find order cancel say"), words("find cancel say"), words("order look cancel")]);
        let expected = vec![
            vec![Some(0), Some(0), None],
            vec![Some(1), None, Some(0)],
            vec![None, None, Some(1)],
            vec![Some(2), Some(1), Some(2)],
            vec![Some(3), Some(2), None],
        ];
        assert_eq!(rows, expected);
        assert!(align(&[]).is_empty() && align(&[vec![], vec![]]).is_empty());
    }

    /// Every item is in one row, in order, and rows hold equal keys.
    #[test]
    fn nothing_is_lost_or_reordered() {
        let mut seed = 7_u64;
        let mut next = move |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        for _ in 0..200 {
            let count = 1 + next(5);
            let sequences: Vec<Vec<String>> =
                (0..count).map(|_| (0..next(8)).map(|_| next(4).to_string()).collect()).collect();
            let rows = align(&sequences);
            for (column, sequence) in sequences.iter().enumerate() {
                let items: Vec<usize> = rows.iter().filter_map(|row| row[column]).collect();
                assert_eq!(items, (0..sequence.len()).collect::<Vec<_>>());
            }
            for row in &rows {
                let keys: Vec<&String> =
                    row.iter().enumerate().filter_map(|(column, item)| Some(&sequences[column][(*item)?])).collect();
                assert!(!keys.is_empty() && keys.windows(2).all(|pair| pair[0] == pair[1]));
            }
        }
    }
}
