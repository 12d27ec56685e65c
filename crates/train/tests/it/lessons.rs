//! Lessons: the traces and the step's ledger agree on every token.

use hone_trace::rundir::RunReader;
use hone_trace::{Advantage, Fate};
use hone_train::events::Event;
use hone_train::run::train;

use crate::tiny::{Silent, recipe, setup};

#[tokio::test(flavor = "multi_thread")]
async fn the_fates_of_all_tokens_add_up_to_the_books() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["eval.success=even"]);
    train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    let reader = RunReader::open(&run).unwrap();
    let metrics = reader.metrics().unwrap().records;
    let traces = reader.traces().unwrap();
    let mut trained_somewhere = false;
    for event in reader.events().unwrap().records.iter().filter_map(Event::read) {
        let (step, [from, to]) = match event {
            Event::Step { step, traces } => (step, traces),
            Event::Eval { traces: [from, to], .. } => {
                assert!(
                    traces.range(from..to).all(|trace| trace.unwrap().lesson.is_none()),
                    "nothing is learned from it"
                );
                continue;
            }
            _ => continue,
        };
        let (mut fates, mut untold) = (String::new(), 0);
        for trace in traces.range(from..to) {
            let trace = trace.unwrap();
            let sampled: usize = trace.sampled().map(|(_, node)| node.tokens().len()).sum();
            let lesson = trace.lesson.unwrap();
            if let Advantage::None { .. } = lesson.advantage {
                assert!(lesson.fates.is_empty() && lesson.logprobs.is_empty());
                untold += sampled;
            } else {
                assert_eq!(
                    (lesson.fates.len(), lesson.logprobs.len(), lesson.entropies.len()),
                    (sampled, sampled, sampled)
                );
                fates += &lesson.fates;
            }
        }
        let book = |name: &str| {
            let line = metrics.iter().find(|line| line["step"] == step).unwrap();
            line[&format!("tokens/{name}")].as_f64().unwrap() as usize
        };
        let count = |fate: Fate| fates.matches(fate.letter()).count();
        assert_eq!(count(Fate::Trained), book("trained"), "step {step}");
        assert_eq!(count(Fate::Clipped), book("clipped"));
        assert_eq!(count(Fate::Masked), book("masked"));
        assert_eq!(count(Fate::Skipped), book("skipped"));
        assert_eq!(untold + count(Fate::Zero), book("zero_advantage") + book("unscored") + book("truncated"));
        trained_somewhere |= count(Fate::Trained) > 0;
    }
    assert!(trained_somewhere);
}
