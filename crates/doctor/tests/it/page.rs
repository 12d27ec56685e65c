use std::collections::HashSet;
use std::path::Path;

use hone_doctor::{CHECKS, Check, LIVE, PREFLIGHT, page};

/// Written with `HONE_BLESS=1`.
#[test]
fn the_page_is_what_the_checks_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    if std::env::var_os("HONE_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page(),
        "docs/doctor.md is old: HONE_BLESS=1 cargo test -p hone-doctor"
    );
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
