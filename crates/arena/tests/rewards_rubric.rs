//! The rubric's arithmetic, its specification, and the case of a trace.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use hone_arena::rewards::COMPONENTS;
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::rewards::{Case, Measure, Product, Rubric, RubricError, Term};
use hone_trace::{
    Boundary, EndState, Fault, Node, Outcome, Reward, SamplingParams, ToolSet, Trace, TraceBuilder, TraceHead, Verdict,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A component with a constant verdict.
#[derive(Clone)]
struct Says(Option<f64>);

impl Measure for Says {
    fn measure(&self, _: &Case) -> Verdict {
        match self.0 {
            Some(value) => Verdict::scored(value, ""),
            None => Verdict::unscored("not today"),
        }
    }
}

fn terms(list: &[(f64, Option<f64>)]) -> Vec<Term> {
    list.iter().enumerate().map(|(i, (weight, value))| Term::new(format!("c{i}"), *weight, Says(*value))).collect()
}

fn total(terms: Vec<Term>, products: Vec<Product>) -> Reward {
    let rubric = Rubric::new(terms, products).unwrap();
    futures::executor::block_on(rubric.score_case(&Case::default())).total
}

proptest! {
    #[test]
    fn an_unscored_component_leaves_with_its_weight(
        parts in prop::collection::vec((0.1f64..3.0, -1.0f64..1.0), 1..6),
        weight in 0.0f64..3.0,
    ) {
        let scored: Vec<(f64, Option<f64>)> = parts.iter().map(|&(w, v)| (w, Some(v))).collect();
        let sum: f64 = parts.iter().map(|(w, v)| w * v).sum();
        let weights: f64 = parts.iter().map(|(w, _)| w).sum();
        prop_assert!((total(terms(&scored), vec![]).value().unwrap() - sum).abs() < 1e-9);
        // With one more unscored component, the mean per weight is unchanged.
        let mut more = scored.clone();
        more.push((weight, None));
        let with = total(terms(&more), vec![]).value().unwrap();
        prop_assert!((with / (weights + weight) - sum / weights).abs() < 1e-9);
        // NaN and infinities are not scores.
        for broken in [f64::NAN, f64::INFINITY] {
            more.last_mut().unwrap().1 = Some(broken);
            prop_assert!((total(terms(&more), vec![]).value().unwrap() - with).abs() < 1e-12);
        }
    }

    #[test]
    fn closing_a_gate_never_raises_the_total(value in -1.0f64..1.0, gate_value in 0.0f64..1.0, bar in 0.0f64..1.0) {
        let gated = |gate: Option<f64>| {
            let mut terms = terms(&[(1.0, Some(value)), (0.0, Some(gate_value))]);
            terms[1].gate = gate;
            total(terms, vec![]).value().unwrap()
        };
        let expected = if gate_value < bar { value.min(0.0) } else { value };
        prop_assert_eq!(gated(Some(bar)), expected);
        prop_assert!(gated(Some(bar)) <= gated(None));
    }

    #[test]
    fn a_product_is_its_factors(a in 0.0f64..1.0, b in 0.0f64..1.0) {
        let product = Product { name: "both".into(), of: vec!["c0".into(), "c1".into()], weight: 2.0 };
        let of = |a, b| total(terms(&[(0.0, a), (0.0, b)]), vec![product.clone()]);
        prop_assert!((of(Some(a), Some(b)).value().unwrap() - 2.0 * a * b).abs() < 1e-12);
        prop_assert_eq!(of(Some(a), None).value(), None);
    }
}

#[test]
fn without_a_gate_or_a_required_component_there_is_no_total() {
    let mut gate = terms(&[(1.0, Some(1.0)), (0.0, None)]);
    gate[1].gate = Some(0.5);
    assert_eq!(total(gate, vec![]).value(), None);
    let mut required = terms(&[(1.0, Some(1.0)), (0.1, None)]);
    required[1].required = true;
    let total_of_required = total(required, vec![]);
    assert!(total_of_required.why().contains("c1 is required and unscored: not today"), "{total_of_required:?}");
    assert_eq!(total(terms(&[(1.0, None), (0.0, Some(1.0))]), vec![]).value(), None);
}

#[test]
fn every_component_and_product_is_kept() {
    let product = Product { name: "both".into(), of: vec!["c0".into(), "c1".into()], weight: 1.0 };
    let rubric = Rubric::new(terms(&[(0.0, Some(0.5)), (0.0, None)]), vec![product]).unwrap();
    let card = futures::executor::block_on(rubric.score_case(&Case::default()));
    let kept: Vec<(&str, Option<f64>)> = card.components.iter().map(|r| (r.component.as_str(), r.value())).collect();
    assert_eq!(kept, [("c0", Some(0.5)), ("c1", None), ("both", None)]);
    let names: Vec<&str> = rubric.weights().map(|(name, _)| name).collect();
    assert_eq!(names, ["c0", "c1", "both"]);
}

#[test]
fn rubrics_that_make_no_sense_are_refused() {
    let refused = |terms: Vec<Term>, products| Rubric::new(terms, products).unwrap_err();
    assert_eq!(refused(terms(&[(0.0, None)]), vec![]), RubricError::Weightless);
    assert!(matches!(refused(terms(&[(-1.0, None)]), vec![]), RubricError::Weight { .. }));
    assert!(matches!(refused(terms(&[(f64::NAN, None)]), vec![]), RubricError::Weight { .. }));
    let product = |of: &[&str]| Product { name: "p".into(), of: of.iter().map(|&f| f.into()).collect(), weight: 1.0 };
    assert!(matches!(refused(terms(&[(1.0, None)]), vec![product(&["c9"])]), RubricError::UnknownFactor { .. }));
    assert!(matches!(refused(terms(&[(1.0, None)]), vec![product(&[])]), RubricError::EmptyProduct(_)));
    let twins = vec![Term::new("a", 1.0, Says(None)), Term::new("a", 1.0, Says(None))];
    assert_eq!(refused(twins, vec![]), RubricError::Duplicate("a".into()));
    assert_eq!(refused(vec![Term::new("total", 1.0, Says(None))], vec![]), RubricError::Duplicate("total".into()));
}

#[test]
fn an_absurd_value_is_unscored_with_its_reason() {
    for value in [1e308, -1e308, 1.000_001e6, f64::NAN, f64::INFINITY] {
        let reward = hone_trace::Reward::scored("c", value, "why");
        assert_eq!(reward.value(), None, "{value}");
        assert!(matches!(reward.verdict, Verdict::Unscored { bad_value: true, .. }), "{value}");
        assert!(reward.why().contains("the scorer returned") && reward.why().contains("why"), "{}", reward.why());
    }
    for value in [1e6, -1e6, 0.0] {
        assert_eq!(hone_trace::Reward::scored("c", value, "why").value(), Some(value));
    }
    let rubric =
        Rubric::new(vec![Term::new("huge", 1.0, Says(Some(1e308))), Term::new("fine", 1.0, Says(Some(0.5)))], vec![]);
    let card = futures::executor::block_on(rubric.unwrap().score_case(&Case::default()));
    assert_eq!(card.total.value(), Some(1.0), "the rest is paid for both: {}", card.total.why());
}

// ---- the specification -------------------------------------------------------------------------------------------

fn spec(form: Value) -> Result<Rubric, String> {
    let spec: RubricSpec = serde_json::from_value(form).map_err(|error| error.to_string())?;
    spec.build().map_err(|error| error.to_string())
}

#[test]
fn every_kind_can_be_built_from_its_needed_options() {
    for entry in COMPONENTS {
        let kind = entry.name;
        let mut component: Value = serde_json::from_str(entry.options.example).unwrap();
        component["kind"] = json!(kind);
        spec(json!({"component": [component.clone()]})).unwrap();
        component["wieght"] = json!(2);
        let error = spec(json!({"component": [component]})).unwrap_err();
        assert!(error.contains("wieght"), "{kind}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_specification_is_said() {
    for (form, said) in [
        (json!({"component": [{"kind": "rouge_ll"}]}), "did you mean \"rouge_l\""),
        (json!({"component": [{"kind": "rouge"}]}), "rouge_l"),
        (json!({"component": [{"weight": 1}]}), "no `kind`"),
        (json!({"components": []}), "components"),
        (json!({"component": [{"kind": "soft_overlong", "max": 10, "cache": 0}]}), "cache"),
        (json!({"component": [{"kind": "rouge_l", "stem": "yes"}]}), "rouge_l"),
        (json!({"component": []}), "weight"),
    ] {
        let error = spec(form.clone()).unwrap_err();
        assert!(error.contains(said), "{form}: {error}");
    }
}

// ---- from a trace ------------------------------------------------------------------------------------------------

fn trace(outcome: Outcome) -> Trace {
    let tools = Arc::new(ToolSet::none());
    let head = TraceHead {
        task: "t".into(),
        env: "e".into(),
        replica: 3,
        seed: 0,
        tools,
        sampling: SamplingParams::default(),
    };
    let mut builder = TraceBuilder::new(head, vec![1, 2]);
    builder.push(Node::observation(vec![3]));
    builder.finish(outcome)
}

#[test]
fn an_episode_is_scored_from_its_facts_and_a_fault_is_not_scored() {
    let rubric = spec(json!({"component": [{"kind": "rouge_l"}, {"kind": "tau"}]})).unwrap();
    let Value::Object(facts) = json!({"completion": "a b", "reference": "a b", "db_match": true, "own": 1}) else {
        unreachable!()
    };
    let end = EndState { facts };
    let card = futures::executor::block_on(rubric.score(&trace(Outcome::Finished), &end));
    assert_eq!(card.total.value(), Some(2.0), "{card:?}");

    let limit = hone_trace::Limit::Turns;
    let card = futures::executor::block_on(rubric.score(&trace(Outcome::Truncated { limit }), &end));
    assert_eq!(card.components[1].value(), Some(0.0), "cut short is the policy's doing");

    let fault = Fault::new(Boundary::Environment, "the tool server died");
    let card = futures::executor::block_on(rubric.score(&trace(Outcome::Fault { fault }), &end));
    assert!(card.components.iter().chain([&card.total]).all(|reward| reward.value().is_none()), "{card:?}");
    assert!(card.total.why().contains("the tool server died"));
}

/// A component with this verdict.
struct Gives(Verdict);

impl Measure for Gives {
    fn measure(&self, _: &Case) -> Verdict {
        self.0.clone()
    }
}

/// `otherwise` applies to what an episode left unset, never to a scorer or an environment that failed.
#[test]
fn what_an_episode_leaves_unset_can_have_a_value() {
    let rubric = spec(json!({"component": [{"kind": "correct", "otherwise": 0}]})).unwrap();
    let score = |outcome| futures::executor::block_on(rubric.score(&trace(outcome), &EndState::default())).total;
    let early = Outcome::Truncated { limit: hone_trace::Limit::ReplyTokens };
    assert_eq!(score(early).value(), Some(0.0));
    let fault = Fault::new(Boundary::Environment, "gone");
    assert_eq!(score(Outcome::Fault { fault }).value(), None);
    let mut failed = Term::new("c", 1.0, Says(None));
    failed.otherwise = Some(0.0);
    assert_eq!(total(vec![failed], Vec::new()).value(), None, "not today is not unset");
    for (verdict, value) in [
        (Verdict::NotApplicable { why: "in any words".into() }, Some(0.0)),
        (Verdict::unscored("not_applicable: in a user's words alone"), None),
    ] {
        let mut term = Term::new("c", 1.0, Gives(verdict));
        term.otherwise = Some(0.0);
        assert_eq!(total(vec![term], Vec::new()).value(), value, "the words of a reason decide nothing");
    }
    let plain = spec(json!({"component": [{"kind": "correct"}]})).unwrap();
    let card = futures::executor::block_on(plain.score(&trace(Outcome::Finished), &EndState::default()));
    assert_eq!(card.total.value(), None);
}

#[test]
fn a_component_names_the_key_that_is_wrong() {
    for (table, words) in [
        (json!({"kind": "correct", "wieght": 0.3}), ["component correct", "did you mean `weight`?"]),
        (json!({"kind": "parsimony", "enoug": 1}), ["component parsimony", "did you mean `enough`?"]),
        (
            json!({"kind": "correct", "otherwise": "zero"}),
            ["component correct", "`otherwise` is \"zero\"; write a number"],
        ),
        (
            json!({"name": "right", "kind": "correct", "required": 1}),
            ["component right", "`required` is 1; write true or false"],
        ),
    ] {
        let spec = RubricSpec { component: vec![table.as_object().unwrap().clone()], product: Vec::new() };
        let error = spec.build().unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}
