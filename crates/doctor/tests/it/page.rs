use std::collections::HashSet;

use hone_doctor::{CHECKS, Check, LIVE, PREFLIGHT, page};

/// Written with `HONE_BLESS=1`.
#[test]
fn the_page_is_what_the_checks_say() {
    hone_testdata::page_is("doctor.md", &page(), "cargo test -p hone-doctor");
}

#[test]
fn names_are_unique_and_explanations_name_checks() {
    well_named(CHECKS);
    well_named(PREFLIGHT);
    well_named(LIVE);
}

fn well_named<S>(checks: &[Check<S>]) {
    let names: HashSet<&str> = checks.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), checks.len());
    for check in checks {
        for other in check.explains {
            assert!(names.contains(other) && *other != check.name, "{} explains {other}", check.name);
        }
        assert!(!check.what.is_empty() && !check.measure.is_empty() && !check.fix.is_empty(), "{}", check.name);
    }
}
