//! ROUGE-L against rouge-score 0.1.2: every golden case, and the longest common subsequence against the table.

use hone_arena::rewards::rouge::{rouge_l, tokens};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    use_stemmer: bool,
    target: String,
    prediction: String,
    target_tokens: Vec<String>,
    prediction_tokens: Vec<String>,
    #[serde(rename = "rougeL")]
    rouge_l: [f64; 3],
}

#[test]
fn every_golden_case_to_1e_12() {
    let text = std::fs::read_to_string(hone_testdata::committed("rouge/rouge_score_0_1_2.json")).unwrap();
    let cases: Vec<Golden> = serde_json::from_str(&text).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let Golden { use_stemmer: stem, target, prediction, .. } = &case;
        assert_eq!(tokens(target, *stem), case.target_tokens, "{target:?}");
        assert_eq!(tokens(prediction, *stem), case.prediction_tokens, "{prediction:?}");
        let rouge = rouge_l(target, prediction, *stem);
        for (ours, theirs) in [rouge.precision, rouge.recall, rouge.f].into_iter().zip(case.rouge_l) {
            assert!(
                (ours - theirs).abs() <= 1e-12,
                "{target:?} / {prediction:?} (stem {stem}): {ours} is not {theirs}"
            );
        }
    }
}

/// The textbook table, one row at a time.
fn lcs_by_table(a: &[String], b: &[String]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

proptest! {
    #[test]
    fn the_bit_parallel_subsequence_is_the_tables(
        a in prop::collection::vec(0u8..6, 1..400),
        b in prop::collection::vec(0u8..6, 1..400),
    ) {
        let text = |ids: &[u8]| ids.iter().map(|id| format!("w{id}")).collect::<Vec<_>>().join(" ");
        let (a, b) = (text(&a), text(&b));
        let (x, y) = (tokens(&a, false), tokens(&b, false));
        let rouge = rouge_l(&a, &b, false);
        prop_assert_eq!(rouge.recall, lcs_by_table(&x, &y) as f64 / x.len() as f64);
    }

    #[test]
    fn any_text_is_in_range_and_equals_itself(a in ".{0,200}", b in ".{0,200}", stem: bool) {
        let rouge = rouge_l(&a, &b, stem);
        prop_assert!((0.0..=1.0).contains(&rouge.f));
        // Precision one way is recall the other way.
        let back = rouge_l(&b, &a, stem);
        prop_assert_eq!((rouge.precision, rouge.recall), (back.recall, back.precision));
        let own = rouge_l(&a, &a, stem).f;
        prop_assert_eq!(own, if tokens(&a, stem).is_empty() { 0.0 } else { 1.0 });
    }
}
