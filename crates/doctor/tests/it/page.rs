use std::collections::HashSet;
use std::path::Path;

use hone_doctor::{CHECKS, page};

/// Written with `HONE_BLESS=1`.
#[test]
fn the_page_is_what_the_checks_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    if std::env::var_os("HONE_BLESS").is_some() {
        std::fs::write(&path, page(CHECKS)).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page(CHECKS),
        "docs/doctor.md is old: HONE_BLESS=1 cargo test -p hone-doctor"
    );
}

#[test]
fn names_are_unique_and_explanations_name_checks() {
    let names: HashSet<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), CHECKS.len());
    for check in CHECKS {
        for other in check.explains {
            assert!(names.contains(other) && *other != check.name, "{} explains {other}", check.name);
        }
    }
}
