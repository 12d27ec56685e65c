//! The catalogue of recipe keys: every number has a range that is enforced, and the catalogue is what serde reads.

use std::collections::BTreeSet;
use std::path::Path;

use hone_arena::registry::World;
use hone_arena::rewards::COMPONENTS;
use hone_testdata::page_is;
use hone_trace::keys::{Key, Kind, Shape};
use hone_train::keys::{EXAMPLE, LEAST, may_change, page, sections};
use hone_train::loss::{HYPERPARAMETERS, LOSSES, LossRecipe};
use hone_train::recipe::Recipe;
use hone_worlds::BUILTINS;
use hone_worlds::registry::REMOTE;
use toml::{Table, Value};

/// A table of a recipe: the least recipe that has it, its path, and the keys it may have.
struct Place {
    base: Table,
    path: String,
    keys: Vec<&'static Key>,
}

/// All tables: those of the catalogue, one for each environment, one for each kind of reward.
fn places() -> Vec<Place> {
    let least: Table = toml::from_str(LEAST).unwrap();
    let place = |base: &Table, path: &str, keys: &[&'static [Key]]| Place {
        base: base.clone(),
        path: path.to_owned(),
        keys: keys.iter().copied().flatten().collect(),
    };
    let mut found: Vec<Place> = sections()
        .into_iter()
        .filter(|section| !section.keys.is_empty())
        .map(|section| Place { base: least.clone(), path: section.path, keys: section.keys })
        .collect();
    let with_env = |env: &str| {
        let mut base = least.clone();
        base.insert("env".into(), toml::from_str::<Table>(env).unwrap().into());
        base
    };
    for entry in BUILTINS {
        let base = with_env(&format!("name = {:?}", entry.name));
        found.push(place(&base, "env", entry.options.keys));
        for key in entry.options.keys.iter().copied().flatten() {
            if let Shape::Table(keys) = key.rule.shape {
                let text =
                    format!("name = {:?}\n{} = {{ url = \"http://x/v1\", model = \"m\" }}", entry.name, key.name);
                found.push(place(&with_env(&text), &format!("env.{}", key.name), keys));
            }
        }
    }
    let program = with_env("name = \"mine\"\ncommand = [\"true\"]");
    let lookup = |key: &str| (key == "command").then_some("");
    found.push(place(&program, "env", &hone_worlds::registry::keys(&lookup)));
    for entry in REMOTE {
        // A program beside `kind` is the remote environment's, and its keys are those of that kind.
        let lookup = |key: &str| (key == "kind").then_some(entry.name).or((key == "command").then_some(""));
        let mut example: Table = Value::try_from(entry.options.shown().unwrap()).unwrap().try_into().unwrap();
        example.insert("kind".into(), entry.name.into());
        let base = with_env(&toml::to_string(&example).unwrap());
        found.push(place(&base, "env", &hone_worlds::registry::keys(&lookup)));
    }
    for entry in COMPONENTS {
        let example = entry.options.shown().unwrap();
        let mut component: Table = Value::try_from(example).unwrap().as_table().unwrap().clone();
        component.insert("kind".into(), entry.name.into());
        let mut base = least.clone();
        let rubric = Table::from_iter([("component".to_owned(), Value::Array(vec![component.into()]))]);
        base.insert("rubric".into(), rubric.into());
        found.push(place(&base, "rubric.component", entry.options.keys));
    }
    found
}

fn table_at<'a>(table: &'a mut Table, path: &str) -> &'a mut Table {
    path.split('.').filter(|step| !step.is_empty()).fold(table, |table, step| {
        match table.entry(step).or_insert_with(|| Value::Table(Table::new())) {
            Value::Array(items) => items[0].as_table_mut().unwrap(),
            Value::Table(table) => table,
            other => panic!("{path}: {other}"),
        }
    })
}

/// The recipe with one key set.
fn with(place: &Place, key: &str, value: Value) -> Result<Recipe, String> {
    let mut table = place.base.clone();
    table_at(&mut table, &place.path).insert(key.to_owned(), value);
    Recipe::parse(&toml::to_string(&table).unwrap(), &[]).map_err(|error| error.to_string())
}

/// Expected range check, independent of the code that enforces it.
fn allows(key: &Key, value: f64) -> bool {
    match key.rule.shape {
        Shape::Whole { min, max } => value.fract() == 0.0 && value >= min as f64 && value <= max as f64,
        Shape::Real(bounds) => {
            let inside = value > bounds.min && value < bounds.max;
            inside || (value == bounds.min && !bounds.over) || (value == bounds.max && !bounds.under)
        }
        _ => panic!("{} has no range", key.name),
    }
}

#[test]
fn every_number_has_a_range_and_nothing_outside_it_gets_through() {
    let mut tried = 0;
    for place in places() {
        for key in place.keys.iter().filter(|key| (key.kind)().to_string().contains("number")) {
            let path = format!("{}.{}", place.path, key.name);
            let path = path.trim_start_matches('.');
            let (min, max, whole) = match key.rule.shape {
                Shape::Whole { min, max } => (min as f64, max as f64, true),
                Shape::Real(bounds) => (bounds.min, bounds.max, false),
                // `table of`: not a number, but of keys that have some.
                _ => panic!(
                    "{path} is a number without a range; write `where whole(…)` or `where real(…)` behind its type"
                ),
            };
            assert!(min.is_finite() && max.is_finite() && min < max, "{path}");
            let list = match (key.kind)() {
                Kind::Tuple(count, _) => count,
                Kind::List(_) => 1,
                _ => 0,
            };
            let values =
                [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 0.5, min - 1.0, max + 1.0, 4_294_967_295.0];
            for value in values {
                let toml = |value: f64| match value {
                    value if whole && value.is_finite() && value.fract() == 0.0 && value.abs() < 9e18 => {
                        Value::Integer(value as i64)
                    }
                    value => Value::Float(value),
                };
                let written = if list > 0 { Value::Array(vec![toml(value); list]) } else { toml(value) };
                let result = with(&place, key.name, written.clone());
                if !allows(key, value) {
                    let error = result.err().unwrap_or_else(|| panic!("{path} = {written} got through"));
                    assert!(
                        error.starts_with(&format!("{path} = ")) && error.contains("; write one of those"),
                        "{error}"
                    );
                }
                tried += 1;
            }
            if !place.path.contains("NAME") && !place.path.starts_with("rubric.") {
                let text = toml::to_string(&place.base).unwrap();
                for huge in ["9223372036854775808", "-9223372036854775809", "99999999999999999999999"] {
                    let error = Recipe::parse(&text, &[format!("{path}={huge}")]).unwrap_err().to_string();
                    assert!(error.contains(key.name), "{path}={huge}: {error}");
                }
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

#[test]
fn the_values_that_once_got_through_are_refused_with_range_and_fix() {
    for (setting, said) in [
        ("train.learning_rate=nan", "a number from 0 to 10; write one of those, or leave it out"),
        ("train.epochs_per_batch=0", "a whole number from 1 to 1000"),
        ("train.adamw.beta1=2", "a number from 0 to 0.999999"),
        ("train.adamw.beta2=0.99999999999999", "a number from 0 to 0.999999"),
        ("train.max_grad_norm=1e-320", "a number from 0.000000001 to 1000000000"),
        ("loss.clip_high=-5", "a number from 0 to"),
        ("loss.clip_low=1.5", "a number from 0 to 1"),
        ("train.group_size=4294967295", "from 2 to 65536, since an episode is judged against its siblings"),
        ("train.group_size=9223372036854775808", "train.group_size = 9223372036854775808 is out of range"),
        ("eval.temperature=nan", "a number from 0 to 100"),
        ("train.steps=-1", "default of 20"),
        ("sft.stop_at=inf", "a number from 0 to 1"),
        ("sampling.stop_ids=[-1]", "sampling.stop_ids = [-1]"),
        ("plan.curriculum.band=[0.1, nan]", "plan.curriculum.band = [0.1, nan]"),
        ("plan.share.shop.min=nan", "plan.share.shop.min = nan"),
        ("env.tasks=0", "env.tasks = 0 is out of range: it is a whole number from 1 to 1000000"),
        ("rollout.attempts=1.5", "rollout.attempts = 1.5"),
        ("policy.lora.rank=0", "policy.lora.rank = 0"),
    ] {
        let error = Recipe::parse("", &[setting.to_owned()]).unwrap_err().to_string();
        assert!(error.contains(said), "{setting}: {error}");
    }
    let judged = "[[rubric.component]]\nkind = \"judge\"\nurl = \"http://x\"\nmodel = \"m\"\ncriteria = \"c\"\ndeadline_s = -1\n";
    let error = Recipe::parse(judged, &[]).unwrap_err().to_string();
    assert!(error.starts_with("rubric.component.deadline_s = -1 is out of range"), "{error}");
    let product = ["train.groups=65536", "train.group_size=65536", "env.tasks=100000"].map(str::to_owned);
    let error = Recipe::parse("", &product).unwrap_err().to_string();
    assert!(error.contains("4294967296 episodes a step"), "{error}");
}

/// Every key that holds a path says so (a `PathBuf` without `where path()` fails here), and is read relative to the
/// recipe.
#[test]
fn every_path_is_relative_to_the_recipe() {
    let mut found = Vec::new();
    for place in places() {
        for key in &place.keys {
            let path = format!("{}.{}", place.path, key.name);
            assert_eq!((key.kind)() == Kind::Path, key.rule.is_path(), "{path}: write `where path()` behind its type");
            if !key.rule.is_path() {
                continue;
            }
            let mut table = place.base.clone();
            table_at(&mut table, &place.path).insert(key.name.to_owned(), "some/file".into());
            let text = toml::to_string(&table).unwrap();
            let recipe = Recipe::parse_in(&text, &[], Path::new("/there")).unwrap_or_else(|e| panic!("{path}: {e}"));
            let mut recipe: Table = toml::from_str(&recipe.to_toml().unwrap()).unwrap();
            assert_eq!(table_at(&mut recipe, &place.path)[key.name].as_str(), Some("/there/some/file"), "{path}");
            found.push(path);
        }
    }
    for path in ["env.held_out_file", "env.data", "policy.reference", "rubric.component.directory", "log.wandb"] {
        assert!(found.iter().any(|found| found == path), "{path} is not among {found:?}");
    }
}

/// The tables of remote environments are those of their kind, wherever their program is written.
#[test]
fn a_remote_environment_has_the_keys_of_its_kind() {
    let text = "[env]\nkind = \"openenv\"\nurl = \"http://x\"\nsessions = 3\n";
    let (_, passed_over) = Recipe::recorded(text).unwrap();
    assert_eq!(passed_over, Vec::<String>::new());
    let error = Recipe::parse(&text.replace("= 3", "= 5000"), &[]).unwrap_err().to_string();
    assert!(error.starts_with("env.sessions = 5000 is out of range: it is a whole number from 1 to 4096"), "{error}");
}

/// A weight below 0 is refused by its documented range, not later.
#[test]
fn the_range_of_a_weight_is_the_one_that_is_enforced() {
    for table in [
        "[[rubric.component]]\nkind = \"correct\"\n",
        "[[rubric.component]]\nkind = \"correct\"\n[[rubric.product]]\nname = \"p\"\nof = [\"correct\"]\n",
    ] {
        let error = Recipe::parse(&format!("{table}weight = -1\n"), &[]).unwrap_err().to_string();
        assert!(error.contains("weight = -1 is out of range: it is a number from 0 to 1000000"), "{error}");
    }
}

#[test]
fn what_a_resumed_run_may_change_is_marked_at_the_keys() {
    let keys = may_change();
    for key in ["train.steps", "policy.threads", "rollout.concurrency", "eval.every", "guard.fall", "log.wandb"] {
        assert!(keys.iter().any(|known| known == key), "{key} is not among {keys:?}");
    }
    for key in ["train.learning_rate", "policy.model", "env.tasks", "sft.steps"] {
        assert!(keys.iter().all(|known| known != key), "{key}");
    }
}

/// The names that serde lists when it meets one it does not know.
fn listed(error: &str) -> BTreeSet<&str> {
    let expected = error.split_once("expected").map_or("", |(_, rest)| rest);
    let list = expected.split(['\n', ';']).next().unwrap_or_default();
    list.split('`').skip(1).step_by(2).collect()
}

/// Another spelling of a key, kept for old recipes.
const ALIASES: [&str; 1] = ["level"];

#[test]
fn the_catalogue_is_what_serde_reads() {
    for place in places() {
        let documented: BTreeSet<&str> = place.keys.iter().map(|key| key.name).collect();
        let error = match (with(&place, "zz", 1.into()), place.path.as_str()) {
            // The engine refuses its own keys; a loss's numbers are tested below.
            (_, "engine" | "loss") => continue,
            // Two structs read one table, each its own keys.
            (_, path) if path.starts_with("env.") => continue,
            (Ok(recipe), "rubric.component") => recipe.rubric.build().map(drop).unwrap_err().to_string(),
            (Ok(_), path) => panic!("{path}.zz got through"),
            (Err(error), _) => error,
        };
        let mut read = listed(&error);
        read.retain(|name| !ALIASES.contains(name));
        // A component's error lists the rubric's own keys too.
        let own = ["kind", "name", "weight", "gate", "required", "otherwise"];
        read.retain(|name| place.path != "rubric.component" || !own.contains(name));
        // A judge's table is read by two structs; what the model's lists is part of it.
        let split = place.path == "rubric.component" && place.keys.iter().any(|key| key.name == "key_env");
        if split {
            assert!(!read.is_empty() && read.is_subset(&documented), "{}: {error}", place.path);
        } else {
            assert_eq!(read, documented, "{}: {error}", place.path);
        }
    }
}

#[test]
fn the_numbers_of_losses_are_those_that_losses_read() {
    let mut read = BTreeSet::new();
    for entry in LOSSES {
        let hyperparameters = [("zz".to_owned(), 1.0), ("max_tokens".to_owned(), 1.0)].into();
        // `dr_grpo` has that reduction already.
        let reduction = (entry.name != "dr_grpo").then(|| "constant_length".to_owned());
        let error =
            LossRecipe { hyperparameters, reduction, ..LossRecipe::named(entry.name) }.build().unwrap_err().to_string();
        let names = error.split_once("It reads: ").unwrap().1;
        read.extend(names.split(", ").map(str::to_owned));
    }
    let loss = sections().into_iter().find(|section| section.path == "loss").unwrap();
    let documented: BTreeSet<String> =
        loss.keys.iter().map(|key| key.name.to_owned()).filter(|name| name != "name").collect();
    assert_eq!(read, documented);
    assert!(HYPERPARAMETERS.iter().all(|hyperparameter| documented.contains(hyperparameter.name)));
}

#[test]
fn every_key_says_what_it_means_and_misspelt_ones_name_the_nearest() {
    for place in places() {
        for key in &place.keys {
            assert!(key.meaning.trim().len() > 4, "{}.{} has no doc line", place.path, key.name);
        }
    }
    for (setting, nearest) in
        [("train.learning_rat=1", "learning_rate"), ("trian.steps=1", "train"), ("train.decay=linaer", "linear")]
    {
        let error = Recipe::parse("", &[setting.to_owned()]).unwrap_err().to_string();
        assert!(error.contains(&format!("did you mean `{nearest}`?")), "{error}");
    }
}

#[test]
fn a_recipe_of_a_newer_version_is_read_and_not_started() {
    let text = "later = 1\n[train]\nsteps = 3\nsparkle = true\n[env]\nname = \"shop\"\nglitter = 2\n[engine]\nkind = \"native\"\nhost = \"h\"\n[soon]\nx = 1\n";
    assert!(Recipe::parse(text, &[]).is_err());
    let (recipe, passed_over) = Recipe::recorded(text).unwrap();
    assert_eq!((recipe.train.steps, recipe.engine.options.len()), (3, 1));
    assert_eq!(passed_over, ["later", "train.sparkle", "env.glitter", "soon"]);
    // A value from a formerly wider range, or of a removed kind, can still be read.
    assert!(Recipe::recorded("[train]\npatience = 0\n").is_ok());
}

#[test]
fn recipes_page_is_up_to_date() {
    page_is("recipes.md", &page().unwrap(), "cargo test -p hone-train --test it recipes_page");
    Recipe::parse(EXAMPLE, &[]).unwrap();
}

/// The defaults of an environment fit those of the other tables, and its episodes are paid by its own rubric.
#[test]
fn every_environment_is_a_recipe_by_its_name_alone() {
    for entry in BUILTINS {
        let recipe = Recipe::parse(&format!("[env]\nname = {:?}", entry.name), &[]);
        let recipe = recipe.unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert_eq!(recipe.rubric, recipe.env[0].rubric(), "{}", entry.name);
        let few = ["env.tasks=48", "env.held_out=7"].map(String::from);
        let recipe = Recipe::parse(&format!("[env]\nname = {:?}", entry.name), &few).unwrap();
        let world = World::open(&recipe.env).unwrap();
        assert!(world.tasks.len() >= recipe.train.groups, "{}", entry.name);
        assert_eq!(recipe.eval.tasks_of(&world.held_out).len(), 7, "{}", entry.name);
    }
}
