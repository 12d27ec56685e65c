//! Okapi BM25 over a fixed set of texts: an inverted index and one scoring loop.
//!
//! Deterministic: equal scores keep the order of the texts. Work per query is bounded by [`MAX_TERMS`], because queries
//! are written by a policy.

use std::collections::HashMap;

/// Saturation of repeated terms.
const K1: f64 = 1.2;
/// Discount of long texts.
const B: f64 = 0.75;
/// Maximum distinct terms of a query; the rest is ignored.
const MAX_TERMS: usize = 64;

/// An index over texts, identified by position.
#[derive(Debug, Default)]
pub(super) struct Bm25 {
    /// Term to (text, occurrences), texts ascending.
    postings: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
    mean_length: f64,
}

impl Bm25 {
    pub(super) fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut index = Self::default();
        for (text_index, text) in texts.into_iter().enumerate() {
            let mut length = 0;
            for term in terms(text) {
                length += 1;
                let postings = index.postings.entry(term).or_default();
                match postings.last_mut() {
                    Some((last, count)) if *last == text_index as u32 => *count += 1,
                    _ => postings.push((text_index as u32, 1)),
                }
            }
            index.lengths.push(length);
        }
        let total: f64 = index.lengths.iter().map(|&length| f64::from(length)).sum();
        index.mean_length = total / index.lengths.len().max(1) as f64;
        index
    }

    /// The best `limit` texts that share a term with the query, best first, with their scores.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<(usize, f64)> {
        let mut wanted: Vec<String> = Vec::new();
        for term in terms(query) {
            if wanted.len() == MAX_TERMS {
                break;
            }
            if !wanted.contains(&term) {
                wanted.push(term);
            }
        }
        let mut scores: HashMap<u32, f64> = HashMap::new();
        for term in &wanted {
            let Some(postings) = self.postings.get(term) else { continue };
            let inverse = self.inverse_frequency(postings.len());
            for &(text, count) in postings {
                *scores.entry(text).or_default() += inverse * self.saturated(text, count);
            }
        }
        let mut hits: Vec<(usize, f64)> = scores.into_iter().map(|(text, score)| (text as usize, score)).collect();
        hits.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        hits.truncate(limit);
        hits
    }

    fn inverse_frequency(&self, texts_with_term: usize) -> f64 {
        let (all, with) = (self.lengths.len() as f64, texts_with_term as f64);
        ((all - with + 0.5) / (with + 0.5) + 1.0).ln()
    }

    fn saturated(&self, text: u32, count: u32) -> f64 {
        let count = f64::from(count);
        let length = f64::from(self.lengths[text as usize]) / self.mean_length;
        count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length))
    }
}

/// Lower-case runs of letters and digits.
fn terms(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|term| !term.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: 3 texts of 2, 3 and 4 terms, mean 3; "cat" is in two of them.
    #[test]
    fn scores_are_the_formula() {
        let index = Bm25::new(["cat dog", "cat cat bird", "one two three four"]);
        let inverse = ((3.0 - 2.0 + 0.5) / (2.0 + 0.5) + 1.0f64).ln();
        let first = inverse * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * 2.0 / 3.0));
        let second = inverse * 2.0 * 2.2 / (2.0 + 1.2);
        let hits = index.search("Cat!", 10);
        assert_eq!(hits.iter().map(|hit| hit.0).collect::<Vec<_>>(), [1, 0]);
        assert!((hits[0].1 - second).abs() < 1e-12 && (hits[1].1 - first).abs() < 1e-12, "{hits:?}");
    }

    #[test]
    fn ties_keep_the_order_and_hostile_queries_are_bounded() {
        let index = Bm25::new(["same words", "same words", "same words"]);
        assert_eq!(index.search("words", 2).iter().map(|hit| hit.0).collect::<Vec<_>>(), [0, 1]);
        assert!(index.search("", 5).is_empty());
        let long: Vec<String> = (0..100_000).map(|term| term.to_string()).collect();
        assert!(index.search(&(long.join(" ") + " same"), 5).is_empty(), "terms after the first 64 are ignored");
        assert!(Bm25::new([]).search("anything", 5).is_empty());
    }
}
