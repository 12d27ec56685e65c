use hone_audit::{Audit, Severity, Subject};

use crate::{audited, broken, recipe};

async fn of(path: &str) -> Audit {
    let audit = audited(&Subject::open(recipe(path)).unwrap()).await;
    println!("{path}\n{}", audit.text(true));
    audit
}

#[tokio::test]
async fn our_own_rubrics_pass() {
    for name in ["quickstart", "triage", "triage-searcher", "triage-reader", "retail", "airline"] {
        let audit = of(&format!("recipes/{name}.toml")).await;
        assert_eq!(broken(&audit), Vec::<&str>::new(), "{name}");
        let total = audit.components.last().unwrap();
        assert!(total.oracle.unwrap() > 0.9, "{name}: the solutions earn {:?}", total.oracle);
        assert_eq!(audit.faults, 0, "{name}");
    }
}

/// The published rubric, fault by fault.
#[tokio::test]
async fn the_rubric_that_paid_film_trivia_is_taken_apart() {
    let audit = of("docs/examples/film-trivia.toml").await;
    assert!(audit.has_errors());
    let says = |law: &str| audit.found(law).unwrap_or_else(|| panic!("{law} is not found")).breach.says.clone();
    // The inverted branch, by the words of trivia that pay.
    let branch = says("quasi_concave");
    assert!(
        branch.contains("`parsimony`") && branch.contains("film trivia") && branch.contains("inverted"),
        "{branch}"
    );
    assert!(says("proper_scoring").contains("`calibration`"));
    assert!(says("format_content").contains("`format`"));
    assert!(says("precision").contains("`grounding`"));
    assert_eq!(audit.found("shared_gate").unwrap().breach.severity, Severity::Warning);
    // Junk is far over the floor, and most of the weight does not read the answer.
    let consequences: Vec<&String> = audit.findings.iter().flat_map(|finding| &finding.consequences).collect();
    assert!(consequences.iter().any(|says| says.ends_with("[floor]")), "{consequences:?}");
    let worst = audit.worst.as_ref().unwrap();
    assert!(worst.share.unwrap() > 0.5 && !worst.text.is_empty(), "{worst:?}");
}

/// Its later version: the right answer is too short for the length reward.
#[tokio::test]
async fn the_mended_length_reward_punishes_the_right_answer() {
    let audit = of("docs/examples/film-trivia-fixed.toml").await;
    let finding = audit
        .findings
        .iter()
        .find(|finding| finding.law == "oracle_is_best" && finding.breach.component == "parsimony");
    let finding = finding.unwrap_or_else(|| panic!("{:?}", broken(&audit)));
    assert_eq!(finding.breach.severity, Severity::Error);
    assert!(audit.found("quasi_concave").is_none());
    let row = |name: &str| audit.components.iter().find(|component| component.name == name).unwrap();
    assert!(row("parsimony").oracle.unwrap() < 0.5 && row("parsimony").most.unwrap() > 0.9);
}
