use std::collections::HashSet;

use hone_audit::{LAWS, PROBES, page};

use crate::root;

/// Written with `HONE_BLESS=1`.
#[test]
fn the_page_is_what_probes_and_laws_say() {
    let path = root().join("docs/audit.md");
    if std::env::var_os("HONE_BLESS").is_some() {
        std::fs::write(&path, page(PROBES, LAWS)).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page(PROBES, LAWS),
        "docs/audit.md is old: HONE_BLESS=1 cargo test -p hone-audit"
    );
}

#[test]
fn names_are_unique_and_explanations_name_laws() {
    let probes: HashSet<&str> = PROBES.iter().map(|probe| probe.about().name).collect();
    assert_eq!(probes.len(), PROBES.len());
    let laws: HashSet<&str> = LAWS.iter().map(|law| law.about().name).collect();
    assert_eq!(laws.len(), LAWS.len());
    for law in LAWS {
        let about = law.about();
        for other in about.explains {
            assert!(
                (laws.contains(other) || *other == "honest_work") && *other != about.name,
                "{} explains {other}",
                about.name
            );
        }
    }
}
