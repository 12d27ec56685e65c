use std::collections::HashSet;

use hone_audit::{LAWS, PROBES, page};

/// Written with `HONE_BLESS=1`.
#[test]
fn the_page_is_what_probes_and_laws_say() {
    hone_testdata::page_is("audit.md", &page(PROBES, LAWS), "cargo test -p hone-audit");
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
