//! docs/metrics.md is what the code says.

use hone_train::ledger::names;

#[test]
fn metrics_page_is_up_to_date() {
    hone_testdata::page_is("metrics.md", &names::markdown(), "cargo test -p hone-train metrics_page");
}

#[test]
fn families_match_their_members_and_nothing_else() {
    let family = |name: &str| names::find(name).map(|metric| metric.name);
    assert_eq!(family("reward/avg_pass_at_8"), Some("reward/avg_pass_at_{n}"));
    assert_eq!(family("reward/shop/pass_at_8"), Some("reward/{env}/pass_at_{n}"));
    assert_eq!(family("batch_reward/total"), Some("batch_reward/{component}"));
    assert_eq!(family("reward/success_rate"), Some("reward/success_rate"));
    for unknown in ["reward/avg_pass_at_x", "reward/nonsense", "tokens", "policy/loss"] {
        assert_eq!(family(unknown), None, "{unknown}");
    }
}
