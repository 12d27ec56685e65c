//! Triage tasks: solvable, unambiguous, distinct, and disjoint between splits.
#![expect(clippy::unwrap_used, reason = "tests")]

mod floors;
mod play;

use std::collections::HashSet;

use hone_trace::{Action, Arena, Task, TaskSet, ToolCall};
use hone_worlds::triage::{
    Demonstrator, GenerateError, Mode, Scope, Shelf, Size, TaskSpec, TriageArena, World, WorldSpec, rubric,
};
use play::{play, score};
use serde_json::json;

fn spec(mode: Mode, size: Size, seed: u64) -> TaskSpec {
    TaskSpec { mode, size, seed, train: 200, dev: 30, test: 100, ..TaskSpec::default() }
}

fn text<'a>(task: &'a Task, key: &str) -> &'a str {
    task.extra[key].as_str().unwrap()
}

#[test]
fn the_reference_of_every_task_earns_one() {
    let rubric = rubric().build().unwrap();
    for seed in [1, 2, 3] {
        for (mode, size) in [
            (Mode::Reader, Size::Tiny),
            (Mode::Reader, Size::Brief),
            (Mode::Reader, Size::Full),
            (Mode::Searcher, Size::Tiny),
            (Mode::Searcher, Size::Brief),
            (Mode::Searcher, Size::Full),
        ] {
            let arena = TriageArena::default();
            let splits = spec(mode, size, seed).generate().unwrap();
            for task in splits.train.iter().chain(splits.dev.iter()).chain(splits.test.iter()) {
                let played = play(&arena, task, task.reference.as_ref().unwrap());
                assert_eq!(played.end.facts["correct"], true, "{}: {}", task.key, played.end.facts["correct_why"]);
                let (total, parts) = score(&rubric, &played);
                assert!((total - 1.0).abs() < 1e-9, "{}: {total}\n{parts}", task.key);
                assert_honest(task, &played.answers);
            }
        }
    }
}

/// A searcher's reference reads only what an earlier search has shown.
fn assert_honest(task: &Task, answers: &[String]) {
    let mut shown = String::new();
    for (call, answer) in task.reference.as_ref().unwrap().iter().zip(answers) {
        if call.name.starts_with("get_") {
            let id = call.arguments.values().next().unwrap().as_str().unwrap();
            assert!(shown.contains(id), "{}: {id} was read before it was found", task.key);
        }
        shown.push_str(answer);
    }
}

/// A vague ticket fits two of the articles that are shown and says nothing that prefers one.
#[test]
fn a_vague_ticket_has_two_articles_that_fit_as_well() {
    let spec = TaskSpec {
        vague_percent: 60,
        level: Some(1),
        documents: Some(3),
        worlds: 3,
        demonstrator: Demonstrator::Novice,
        ..spec(Mode::Reader, Size::Tiny, 8)
    };
    let splits = spec.generate().unwrap();
    let arena = TriageArena::default();
    let worlds: HashSet<String> = splits.train.iter().map(|task| task.extra["world"].to_string()).collect();
    assert_eq!(worlds.len(), 3);
    for task in splits.train.iter() {
        let world = arena.world(serde_json::from_value(task.extra["world"].clone()).unwrap());
        let shown: Vec<String> = serde_json::from_value(task.extra["documents"].clone()).unwrap();
        let titles: Vec<&str> = shown.iter().map(|id| world.get(id).unwrap().1.title.as_str()).collect();
        let ours = titles.iter().filter(|title| title.ends_with(text(task, "product"))).count();
        let vague = text(task, "kind") == "vague";
        assert_eq!((ours, shown.len()), (if vague { 2 } else { usize::from(text(task, "kind") == "article") }, 3));
        assert_eq!(task.prompt.ends_with("No code."), vague, "{}", task.prompt);
    }
}

/// Vague tickets are so short that many are alike, and not every problem has a twin; they must not be rarer for it. Of
/// every hundred tickets each kind has its share, so that a few hundred held-out ones have it too.
#[test]
fn every_kind_has_its_share_of_many_tickets() {
    let spec = TaskSpec {
        train: 4096,
        unknown_percent: 10,
        vague_percent: 15,
        level: Some(1),
        documents: Some(3),
        worlds: 32,
        ..spec(Mode::Reader, Size::Tiny, 8)
    };
    let too_many = TaskSpec { vague_percent: 91, ..spec.clone() };
    assert!(matches!(too_many.generate(), Err(GenerateError::Shares { unknown: 10, vague: 91 })));
    let splits = spec.generate().unwrap();
    for (kind, percent) in [("unknown", 10), ("vague", 15), ("article", 75)] {
        for tasks in splits.train.iter().collect::<Vec<_>>().chunks_exact(100) {
            let made = tasks.iter().filter(|task| text(task, "kind") == kind).count();
            assert_eq!(made, percent, "of a hundred tickets {made} are {kind}");
        }
    }
}

/// With invented words, a knowledge base of training shares products and fixes with no other one and with no catalogue:
/// the answers of test cannot have been memorised. Every task is as solvable as before.
#[test]
fn invented_worlds_share_no_product_with_each_other_or_with_the_catalogue() {
    let rubric = rubric().build().unwrap();
    for mode in [Mode::Reader, Mode::Searcher] {
        let spec = TaskSpec { fresh: 40, worlds: 4, invented: true, ..spec(mode, Size::Tiny, 8) };
        let splits = spec.generate().unwrap();
        let arena = TriageArena::default();
        let titles = |task: &Task| -> HashSet<String> {
            let world = arena.world(serde_json::from_value(task.extra["world"].clone()).unwrap());
            world.documents(Shelf::Incidents).iter().map(|d| d.title.split(": ").nth(1).unwrap().to_owned()).collect()
        };
        let train: Vec<&Task> = splits.train.iter().collect();
        let [a, b] = [0, 1].map(|at| titles(train[at]));
        let test = splits.test.iter().next().unwrap();
        assert!(a.is_disjoint(&b) && a.is_disjoint(&titles(test)) && b.is_disjoint(&titles(test)), "{a:?}\n{b:?}");
        assert!(titles(test).contains("Sparrow DHCP") || titles(test).contains("Meridian Gateway"));
        let plain = TaskSpec { invented: false, ..spec.clone() }.generate().unwrap();
        let keys = |set: &TaskSet| set.iter().map(|task| (task.key.clone(), task.prompt.clone())).collect::<Vec<_>>();
        assert_eq!(keys(&plain.test), keys(&splits.test), "test is asked in the catalogue's words either way");
        for task in splits.train.iter().chain(splits.fresh.iter()).chain(splits.test.iter()) {
            let played = play(&arena, task, task.reference.as_ref().unwrap());
            let (total, parts) = score(&rubric, &played);
            assert!((total - 1.0).abs() < 1e-9, "{}: {total}\n{parts}", task.key);
        }
    }
}

/// Fresh tickets ask what train asks, in separate knowledge bases: same symptoms, but no shared ticket or world.
#[test]
fn fresh_tickets_share_symptoms_and_nothing_else() {
    let splits = TaskSpec { fresh: 60, worlds: 3, ..spec(Mode::Reader, Size::Tiny, 8) }.generate().unwrap();
    let of = |set: &TaskSet, key: fn(&Task) -> String| set.iter().map(key).collect::<HashSet<String>>();
    let symptom: fn(&Task) -> String = |task| format!("{} {}", task.extra["product"], task.extra["failure"]);
    let world: fn(&Task) -> String = |task| task.extra["world"].to_string();
    assert_eq!(splits.fresh.len(), 60);
    assert!(!of(&splits.fresh, symptom).is_disjoint(&of(&splits.train, symptom)));
    assert!(of(&splits.fresh, symptom).is_disjoint(&of(&splits.dev, symptom)));
    for key in [world, |task: &Task| task.prompt.clone(), |task: &Task| task.key.clone()] {
        assert!(of(&splits.fresh, key).is_disjoint(&of(&splits.train, key)));
    }
}

/// A careful novice differs from the oracle only in its confidence; a careless reader answers from the first article,
/// and a careless searcher escalates without a search.
#[test]
fn a_novice_often_takes_no_care() {
    for mode in [Mode::Reader, Mode::Searcher] {
        let spec = TaskSpec {
            level: Some(1),
            documents: Some(6),
            demonstrator: Demonstrator::Novice,
            ..spec(mode, Size::Tiny, 8)
        };
        let splits = spec.generate().unwrap();
        let arena = TriageArena::default();
        let (mut sure, mut careful) = (0, 0);
        for task in splits.train.iter() {
            let mut novice: Vec<ToolCall> = serde_json::from_value(task.extra["demonstration"].clone()).unwrap();
            let submitted = &mut novice.last_mut().unwrap().arguments;
            sure += usize::from(submitted.insert("confidence".into(), json!(1.0)).unwrap() == json!(1.0));
            let submitted = submitted.clone();
            if Some(&novice) == task.reference.as_ref() {
                careful += 1;
                continue;
            }
            assert_eq!(novice.len(), 1);
            match mode {
                Mode::Reader => {
                    let world = arena.world(serde_json::from_value(task.extra["world"].clone()).unwrap());
                    let first = &task.extra["documents"][0];
                    assert_eq!(submitted["citations"], json!([first]));
                    let value = submitted["resolution"].as_str().unwrap().split_whitespace().next().unwrap();
                    assert!(world.get(first.as_str().unwrap()).unwrap().1.body.contains(value));
                }
                Mode::Searcher => assert_eq!(submitted["escalate"], json!(true)),
            }
        }
        // Two in five by intent; a reader's first article is the right one now and then.
        let share = |count: usize| count as f64 / splits.train.len() as f64;
        assert!((0.3..0.8).contains(&share(careful)), "{mode:?}: {}", share(careful));
        assert!((0.7..0.99).contains(&share(sure)), "{mode:?}: {}", share(sure));
    }
}

/// By search over the whole world: one document matches an answerable ticket, none an unanswerable one.
#[test]
fn exactly_one_document_has_the_answer() {
    let arena = TriageArena::default();
    for size in [Size::Brief, Size::Full] {
        let spec = spec(Mode::Reader, size, 5);
        let splits = spec.generate().unwrap();
        for task in splits.train.iter().chain(splits.test.iter()) {
            let world = arena.world(serde_json::from_value(task.extra["world"].clone()).unwrap());
            let (product, failure) = (text(task, "product"), text(task, "failure"));
            let title = format!("{product}: {failure}");
            let log = |body: &str| {
                let (start, end) = if size == Size::Brief { ("Log: ", " (") } else { ("shows \"", "\"") };
                body.split_once(start).unwrap().1.split_once(end).unwrap().0.to_owned()
            };
            let articles = world.documents(Shelf::Articles).iter();
            let matching = articles
                .filter(|article| {
                    article.title.starts_with(&title) && task.prompt.contains(log(&article.body).as_str())
                })
                .count();
            let site = world
                .documents(Shelf::Incidents)
                .iter()
                .filter(|known| known.title.starts_with("Open ") && known.title.ends_with(&title))
                .filter(|known| task.prompt.contains(known.title.split([',', ':']).nth(1).unwrap().trim()))
                .count();
            let expected = match text(task, "kind") {
                "article" | "procedure" => (1, 0),
                "incident" => (0, 1),
                "unknown" => (0, 0),
                other => panic!("{other}"),
            };
            assert_eq!((matching, site), expected, "{}: {}", task.key, task.prompt);
        }
    }
}

#[test]
fn held_out_products_and_failures_are_nowhere_in_training() {
    let spec = TaskSpec { train: 2000, dev: 200, test: 400, ..spec(Mode::Reader, Size::Brief, 9) };
    let splits = spec.generate().unwrap();
    let named = |tasks: &[Task], key: &str| -> HashSet<String> { tasks.iter().map(|t| text(t, key).into()).collect() };
    let mut held_out = 0;
    let seen = World::new(WorldSpec { seed: 9, size: Size::Brief, scope: Scope::Seen, products: 8, invented: false });
    let corpus: String = [Shelf::Articles, Shelf::Tickets, Shelf::Incidents]
        .into_iter()
        .flat_map(|shelf| seen.documents(shelf))
        .map(|document| document.text() + "\n")
        .collect();
    for key in ["product", "failure"] {
        for name in named(&splits.test, key).difference(&named(&splits.train, key)) {
            held_out += 1;
            assert!(!corpus.contains(name.as_str()), "{name}");
            assert!(!named(&splits.dev, key).contains(name), "{name}");
        }
    }
    assert_eq!(held_out, 6 * 2 + 6, "two products and one failure mode of each domain");
    let prompts: HashSet<&str> =
        splits.train.iter().chain(splits.dev.iter()).chain(splits.test.iter()).map(|t| t.prompt.as_str()).collect();
    assert_eq!(prompts.len(), 2600, "every ticket is different");
    assert!(splits.train.iter().all(|task| text(task, "split") == "train"));
}

#[test]
fn tasks_follow_from_the_seed_and_grow_at_the_end() {
    let small = spec(Mode::Searcher, Size::Brief, 4).generate().unwrap();
    let large = TaskSpec { train: 250, dev: 40, test: 150, ..spec(Mode::Searcher, Size::Brief, 4) }.generate().unwrap();
    assert_eq!(small.train[..], large.train[..200]);
    assert_eq!(small.dev[..], large.dev[..30]);
    assert_eq!(small.test[..], large.test[..100]);
    let other = spec(Mode::Searcher, Size::Brief, 6).generate().unwrap();
    assert_ne!(small.train.digest(), other.train.digest());
}

#[test]
fn a_world_can_be_small_and_says_when_it_is_too_small() {
    let tiny = TaskSpec { products: 1, train: 100, dev: 10, test: 10, ..spec(Mode::Reader, Size::Brief, 1) };
    assert!(tiny.generate().is_ok());
    // A world this small may have no open incident for its few dev symptoms.
    let incidents =
        TaskSpec { train: 0, dev: 1, test: 0, level: Some(2), unknown_percent: 0, incident_percent: 100, ..tiny };
    let error = (0..40).find_map(|seed| TaskSpec { seed, ..incidents.clone() }.generate().err()).unwrap().to_string();
    assert!(error.contains("lower env.tasks (or env.held_out), or raise env.products"), "{error}");
    assert!(TaskSpec { level: Some(4), ..TaskSpec::default() }.generate().is_err());
}

/// The prompt of every replica is the same, and a brief one is brief.
#[test]
fn brief_prompts_are_short() {
    let arena = TriageArena::default();
    let splits = spec(Mode::Reader, Size::Brief, 2).generate().unwrap();
    for task in splits.train.iter() {
        let words = |seed| {
            let episode = futures::executor::block_on(arena.open(task, seed)).unwrap();
            episode.first[0].content().unwrap().text()
        };
        let prompt = words(1);
        assert_eq!(prompt, words(2));
        let limit = 40 + 36 * 2 * usize::from(task.difficulty.unwrap());
        assert!(prompt.split_whitespace().count() <= limit, "{prompt}");
    }
}

fn call(name: &str, arguments: &serde_json::Value) -> ToolCall {
    ToolCall::new(name, arguments.as_object().unwrap().clone())
}

#[test]
fn hostile_calls_are_answered_and_tasks_of_another_world_refused() {
    let arena = TriageArena::default();
    let splits = spec(Mode::Searcher, Size::Brief, 2).generate().unwrap();
    let task = &splits.train[0];
    let played = play(
        &arena,
        task,
        &[
            call("search_kb", &json!({"query": 7})),
            call("search_kb", &json!({})),
            call("search_kb", &json!({"query": "x ".repeat(1 << 20)})),
            call("get_article", &json!({"article_id": "TCK-20000"})),
            call("get_incident", &json!({"incident_id": "\u{1F600}".repeat(1000)})),
            call("rm", &json!({"path": "/"})),
            call("submit_resolution", &json!({"resolution": "x", "citations": [], "confidence": 7, "escalate": false})),
            call(
                "submit_resolution",
                &json!({"resolution": "x", "citations": "KB-1000", "confidence": 0, "escalate": 1}),
            ),
        ],
    );
    assert_eq!(played.answers.len(), 8, "none of them ended the episode");
    assert!(played.answers.iter().all(|answer| answer.starts_with("Error: ") || answer == "Nothing found."));
    assert!(played.answers.iter().all(|answer| answer.len() < 300), "{:?}", played.answers);
    assert_eq!(played.end.facts["correct"], false);
    assert!(played.end.facts.get("submission").is_none(), "absent, not empty");

    let mut alien = task.clone();
    alien.extra["world_digest"] = json!("0".repeat(64));
    let fault = futures::executor::block_on(arena.open(&alien, 0)).unwrap_err();
    assert!(fault.what.contains("generate the tasks again"), "{fault}");
}

#[test]
fn a_reader_has_one_turn_and_a_searcher_is_told_to_submit() {
    let arena = TriageArena::default();
    let reply = || Action::Reply("It is fixed.".into());
    futures::executor::block_on(async {
        let reader = spec(Mode::Reader, Size::Brief, 2).generate().unwrap();
        let mut episode = arena.open(&reader.train[0], 0).await.unwrap();
        assert!(episode.env.step(reply()).await.unwrap().done);
        assert!(episode.env.step(reply()).await.is_err(), "an episode is single-use");
        assert_eq!(episode.env.end().facts["correct"], false);

        let searcher = spec(Mode::Searcher, Size::Brief, 2).generate().unwrap();
        let mut episode = arena.open(&searcher.train[0], 0).await.unwrap();
        let turn = episode.env.step(reply()).await.unwrap();
        assert!(!turn.done && turn.messages[0].content().unwrap().text().contains("submit_resolution"));
        assert_eq!(episode.tools.len(), 7);
    });
}
