//! Every page of a run: it renders, it holds what it should, and no text of the run is markup.

use hone_view::pages::{Query, page};
use hone_view::site::Site;

use crate::made::{HOSTILE, Made};

fn shown(site: &Site, url: &str) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    page(site, path, &Query::parse(query)).unwrap_or_else(|error| panic!("{url}: {error}")).into_string()
}

const PAGES: [&str; 19] = [
    "/",
    "/r/0?smooth=0.9&from=2&to=5",
    "/r/0/step-3",
    "/r/0/step-3?q=onerror",
    "/r/0/step-3?outcome=fault",
    "/r/0/step-3/1",
    "/r/0/eval-0-greedy",
    "/r/0/trace/14",
    "/r/0/trace/14?view=tokens&colour=gap",
    "/r/0/trace/14?view=table",
    "/r/0/trace/14?view=record",
    "/r/0/eval",
    "/r/0/doctor",
    "/r/0/data",
    "/r/0/data?reason=too_easy",
    "/r/0/audit",
    "/r/0/metrics?q=reward",
    "/compare?a=0:eval-0-greedy&b=0:eval-6-greedy",
    "/compare?a=0:eval-0-greedy&b=0:eval-6-greedy&task=task-1",
];

/// Pages that show model output in full.
const WITH_TEXT: &[&str] = &["/r/0/step-3/1", "/r/0/trace/14", "/r/0/trace/14?view=record", "/r/0/data", "/r/0/audit"];

#[test]
fn no_text_of_a_run_is_markup_on_any_page() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    Made::reports(directory.path());
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    for url in PAGES {
        let html = shown(&site, url);
        assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>"), "{url}");
        // The program's own script is the only one, and no handler is an attribute.
        assert_eq!(html.matches("<script").count(), 1, "{url}");
        for bad in ["onerror=\"", "<img", "<svg onload", "\u{1b}", "\u{202e}", "\0"] {
            assert!(!html.contains(bad), "{url} holds {bad:?}");
        }
        let escaped = html.contains("&lt;script&gt;window.pwned");
        assert!(escaped || !WITH_TEXT.contains(&url), "the hostile text is on {url}, escaped");
    }
}

#[test]
fn tasks_that_a_validation_rejected_stand_with_their_reasons_and_traces() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let finding = |key: &str, name: &str, traces: &[u64]| serde_json::json!({"key": key, "env": "made", "rejected": name, "detail": format!("seen: {HOSTILE}"), "traces": traces});
    let lines = [
        serde_json::json!({"finding": finding("bad-1", "flaky_verifier", &[14, 15]), "reason": "flaky verifier", "line": 3}),
        serde_json::json!({"finding": finding("bad-2", "wrong_schema", &[])}),
        serde_json::json!({"no": "finding"}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(directory.path().join("rejected.jsonl"), text).unwrap();
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    let html = shown(&site, "/r/0");
    for words in [
        "Rejected tasks",
        "bad-1",
        "flaky verifier: 1",
        "wrong schema",
        "href=\"/r/0/trace/15\"",
        "1 lines have no finding",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(html.contains("&lt;script&gt;window.pwned") && !html.contains("<img"));
    let run = hone_view::run::Run::open(directory.path()).unwrap();
    let page = hone_view::text::Page { colour: false, columns: 80 };
    let text = hone_view::text::steps(&run, page, 20);
    assert!(
        text.contains("2 tasks were rejected") && text.contains("(traces 14, 15)") && !text.contains('\u{1b}'),
        "{text}"
    );
    let file = hone_view::export::report(site, 3).unwrap().into_string();
    assert!(file.contains("flaky verifier") && file.contains("href=\"#trace-0-15\""));
}

#[test]
fn the_path_from_a_curve_to_a_token_is_made_of_links() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    let run = shown(&site, "/");
    assert!(run.contains("href=\"/r/0/step-3\"") && run.contains("data-points=\"1:0.1000 2:0.2000"), "{run}");
    let step = shown(&site, "/r/0/step-3");
    assert!(step.contains("href=\"/r/0/step-3/1\""));
    assert!(step.contains("the shop is closed"), "excluded rollouts say why");
    let group = shown(&site, "/r/0/step-3/1");
    assert!(group.contains("href=\"/r/0/trace/36\""));
    let tokens = shown(&site, "/r/0/trace/36?view=tokens");
    assert!(tokens.contains("its advantage reached the gradient") && tokens.contains("colour=entropy"));
    // One step from the page's top to the tokens that matter, however long the prompt is.
    assert!(tokens.contains("#sampled\">first sampled</a>") && tokens.contains("<i id=\"sampled\"></i>"), "{tokens}");
    let gaps = shown(&site, "/r/0/trace/36?view=tokens&colour=gap");
    assert!(gaps.contains("#largest\">largest gap</a>") && gaps.contains("<i id=\"largest\"></i>"), "{gaps}");
    assert!(page(&site, "/r/0/step-99", &Query::default()).unwrap_err().to_string().contains("its steps are 1 to 6"));
    assert!(page(&site, "/r/9", &Query::default()).is_err());
}

#[test]
fn rejected_tasks_lead_to_their_traces() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    assert!(shown(&site, "/r/0/data").contains("hone data validate"), "without a report the page says how to make one");
    // A training run's own report.json is not a validation.
    std::fs::write(directory.path().join("report.json"), "{\"verdict\": null}").unwrap();
    assert!(shown(&site, "/r/0/data").contains("hone data validate"));
    Made::reports(directory.path());
    let all = shown(&site, "/r/0/data");
    assert!(all.contains("href=\"/r/0/trace/4\"") && all.contains("1 flaky verifier, 1 too easy"), "{all}");
    assert_eq!(all.matches("<tr data-item").count(), 2);
    assert_eq!(shown(&site, "/r/0/data?reason=too_easy").matches("<tr data-item").count(), 1);
    std::fs::write(directory.path().join("report.json"), "{\"rejected\": [").unwrap();
    assert!(shown(&site, "/r/0/data").contains("report.json is not JSON"));
}

#[test]
fn an_audit_has_findings_and_curves() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    assert!(shown(&site, "/r/0/audit").contains("hone audit --run"), "without a report the page says how to make one");
    Made::reports(directory.path());
    let page = shown(&site, "/r/0/audit");
    assert!(
        page.contains("data-along=\"confidence in %\"") && page.contains("data-points=\"0:0.2500 50:1.0000\""),
        "{page}"
    );
    assert!(page.contains("class=\"finding bad\"") && page.contains("scale it") && page.contains("laws that hold: 1"));
}

#[test]
fn runs_are_drawn_over_each_other() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _made = (Made::whole(first.path()), Made::whole(second.path()));
    let site = Site::open(&[first.path().to_owned(), second.path().to_owned()]).unwrap();
    let html = shown(&site, "/");
    assert!(html.contains("class=\"line s0\" data-run=\"0\"") && html.contains("class=\"line s1\" data-run=\"1\""));
    assert!(shown(&site, "/compare?a=0:eval-6-greedy&b=1:eval-6-greedy").contains("4 tasks are in both"));
}

#[test]
fn a_megabyte_in_one_line_is_cut_and_said() {
    let text = "x".repeat(1 << 20);
    let cut = hone_view::html::clipped(&text, 20_000);
    assert!(cut.len() < 20_100 && cut.ends_with("(1,028,576 more characters)"), "{}", &cut[cut.len() - 60..]);
}

#[test]
fn pages_of_a_line_of_a_megabyte_stay_small() {
    let directory = tempfile::tempdir().unwrap();
    let mut made = Made::begin(directory.path());
    made.long(1);
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    for (url, most) in [
        ("/r/0/step-1", 20_000),
        ("/r/0/step-1?q=202e", 20_000),
        ("/r/0/step-1/1", 40_000),
        ("/r/0/trace/0", 400_000),
        ("/r/0/trace/0?view=tokens", 400_000),
        ("/r/0/trace/0?view=record", 4_000_000),
    ] {
        let html = shown(&site, url);
        assert!(html.len() < most, "{url} has {} bytes", html.len());
        assert!(!html.contains("<b>\u{241b}") && !html.contains('\u{1b}') && !html.contains('\u{202e}'), "{url}");
    }
    assert!(shown(&site, "/r/0/trace/0").contains("more characters)"), "what was cut is said");
    let run = hone_view::run::Run::open(directory.path()).unwrap();
    let page = hone_view::text::Page { colour: false, columns: 80 };
    let text = hone_view::text::conversation(&run.trace(0).unwrap(), page, false);
    assert!(text.len() < 60_000 && text.contains("--all prints them"), "{} bytes", text.len());
}

#[test]
fn the_report_is_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    let html = hone_view::export::report(site, 4).unwrap().into_string();
    assert_eq!(html.matches("<details class=\"trace\"").count(), 4);
    for outside in ["src=\"/", "href=\"/", "<link", "http://", "<img"] {
        let found = html.find(outside).map(|at| html[at.saturating_sub(40)..].chars().take(120).collect::<String>());
        // The namespace that the script creates its rectangle in is not a fetched address.
        let found = found.filter(|text| !text.contains("www.w3.org/2000/svg"));
        assert_eq!(found, None);
    }
}

/// Pages that ask for a run twice, while another thread refreshes it, must not wait for each other.
#[test]
fn pages_are_made_while_the_run_is_read_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut made = Made::begin(directory.path());
    made.evaluation(0);
    made.step(1);
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..100 {
                assert!(shown(&site, "/").contains("Steps") && shown(&site, "/compare").contains("Tasks"));
            }
        });
        for step in 2.. {
            made.step(step);
            site.refresh().unwrap();
            if reader.is_finished() {
                break;
            }
        }
    });
    assert!(site.run(0).unwrap().done() > 1);
}

/// Requests a page until nothing on it is still being computed.
fn settled(site: &Site, url: &str) -> String {
    let begun = std::time::Instant::now();
    loop {
        let html = shown(site, url);
        if !html.contains("data-wait") {
            return html;
        }
        assert!(begun.elapsed().as_secs() < 60, "{url} still waits");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_comparison_says_which_behaviour_goes_with_success() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    let url = "/compare?a=0:eval-0-greedy&b=0:eval-6-greedy";
    assert!(shown(&site, url).contains("data-wait"), "the page does not wait for the rollouts to be read");
    let html = settled(&site, url);
    // Three of four tasks were solved only at the end, and nothing else changed; four tasks prove nothing.
    assert!(html.contains("no difference is shown: +0.750 (95 % "), "{html}");
    let turns = html.split("<td class=\"text\" title=").find(|row| row.contains(">turns</td>")).unwrap();
    assert!(turns.contains(">turns</td><td>2.000</td><td>2.000</td><td>0</td>"), "{turns}");
    let tasks = |query: &str| settled(&site, &format!("{url}{query}")).matches("task=task-").count();
    assert_eq!([tasks(""), tasks("&show=better"), tasks("&show=worse"), tasks("&show=same")], [4, 3, 0, 1]);
}

#[test]
fn environments_stand_beside_each_other_where_there_are_several() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let site = |recipe: &str| {
        std::fs::write(directory.path().join("recipe.toml"), recipe).unwrap();
        Site::open(&[directory.path().to_owned()]).unwrap()
    };
    let one = site("[env]\nname = \"shop\"\n[eval]\nsuccess = \"solved\"\n");
    assert!(!settled(&one, "/r/0/eval").contains("By environment"));
    let two = site("[eval]\nsuccess = \"solved\"\n[[env]]\nname = \"shop\"\n[[env]]\nname = \"retail\"\n");
    let html = settled(&two, "/r/0/eval");
    let (_, table) = html.split_once("By environment").unwrap();
    assert!(table.contains("<th class=\"text\">shop</th>") && table.contains("<b>0.250</b>"), "{table}");
    assert!(table.contains("eval-6-greedy") && table.contains("<b>1.000</b>"), "{table}");
}

#[test]
fn why_nothing_was_learned_is_said_where_it_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    let step = shown(&site, "/r/0/step-3");
    assert!(step.contains("1 of 4 groups have no signal</b> and train nothing: every rollout of the group"), "{step}");
    assert!(step.contains("(1 solved by every rollout, 0 by none)"), "{step}");
    assert!(shown(&site, "/r/0/step-3/3").contains("no signal</b> <span class=\"dim\">every rollout of the group"));
    let evaluated = shown(&site, "/r/0/trace/0");
    assert!(evaluated.contains("sampled, not trained</b> <span class=\"dim\">an evaluation or a control is never"));
    assert!(evaluated.contains("none: an evaluation or a control is never trained on"), "{evaluated}");
    let trained = shown(&site, "/r/0/trace/36");
    for words in
        [" trained</b> <span class=\"dim\">its advantage reached", "the clip set its gradient", " not sampled</b>"]
    {
        assert!(trained.contains(words), "{words} is not in {trained}");
    }
    assert!(trained.contains("rollout 1</span>"), "the number is that of hone show: {trained}");
    let run = shown(&site, "/");
    assert!(
        run.contains("there is no preference to learn") && run.contains("key round s1\"></i>held-out, greedy"),
        "{run}"
    );
}

#[test]
fn a_run_without_steps_shows_no_empty_charts() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::begin(directory.path());
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    let html = shown(&site, "/");
    assert!(html.contains("No step is recorded.") && !html.contains("<svg") && !html.contains("-0"), "{html}");
    assert!(!hone_view::export::report(site, 2).unwrap().as_str().contains("Where the sampled tokens went"));
}

#[test]
fn a_run_that_is_named_twice_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let _made = (Made::whole(&path), Made::whole(&path.join("placebo")));
    let site = Site::open(&[path.clone(), path.join("placebo"), directory.path().join("./run")]).unwrap();
    let names: Vec<String> = site.all().iter().map(|run| run.name.clone()).collect();
    assert_eq!(names, ["run", "run/placebo"]);
}

/// `hone eval` leaves its tables in the directory it records into, below a run or beside it: the viewer shows them.
#[test]
fn what_hone_eval_measured_is_shown() {
    use hone_eval::table::{About, Column, Episode, Passing, Results};
    let episode = |task: &str, passed| Episode {
        task: task.into(),
        fault: false,
        passed: Some(passed),
        reward: Some(0.5),
        usage: Some(hone_trace::Usage { prompt: 900, completion: 100 }),
    };
    let about = About { env: "shop".into(), split: "held-out".into(), difficulty: None, changes: Some(true) };
    let column = Column {
        name: "<b>big</b>".into(),
        episodes: vec![episode("a", true), episode("b", false)],
        price: "2,10".parse().ok(),
    };
    let known = ["a", "b"].map(|task| (task.to_owned(), about.clone())).into_iter().collect();
    let results = Results::of(&[column], &known, Passing { component: "tau".into(), at_least: 1.0 }, &[1]);
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    for (name, text) in
        [("2", serde_json::json!({"results": results}).to_string()), ("10", "{\"results\": ".to_owned())]
    {
        let below = directory.path().join("evals").join(name);
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join("eval.json"), text).unwrap();
    }
    let site = Site::open(&[directory.path().to_owned()]).unwrap();
    let page = shown(&site, "/r/0/eval");
    assert!(page.contains("&lt;b&gt;big&lt;/b&gt;") && page.contains("0.500 ["), "{page}");
    assert!(page.contains("tokens per solved") && page.contains("2,000") && page.contains("$0.00560"), "{page}");
    assert!(page.contains("reference changes state in all 2 tasks"), "{page}");
    assert!(
        page.find("evals/2").unwrap() < page.find("evals/10").unwrap() && page.contains("eval.json cannot be shown")
    );
}
