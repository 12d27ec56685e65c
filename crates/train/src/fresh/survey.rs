//! Survey of an environment: what its solved episodes ask of a policy that is made for it, and the size and schedule
//! that follow.

use std::collections::BTreeSet;

use hone_chat::{Tokenizer, train_tokenizer};

use super::{FreshRecipe, JSON_TOKENS, Solutions, Solved};
use crate::recipe::{Recipe, SftRecipe};
use crate::schedule::Decay;
use crate::setup::SetupError;

/// Facts measured on solved episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survey {
    pub tasks: usize,
    /// Most tools of an episode.
    pub tools: usize,
    /// True when tools have other names in other tasks: then they have to be read.
    pub tools_vary: bool,
    /// Distinct words.
    pub words: usize,
    /// Tokens of the longest episode, by a tokenizer made from these texts.
    pub longest: usize,
}

/// Parts of the recipe that a survey chose; the rest is the author's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is written or not")]
pub struct Chosen {
    vocabulary: bool,
    size: bool,
    schedule: bool,
    steps: bool,
}

impl Chosen {
    /// Sentence about the chosen parts; `None` if the recipe sets them all.
    pub fn words(self, recipe: &Recipe) -> Option<String> {
        let FreshRecipe { layers, hidden, vocabulary, .. } = recipe.policy.fresh;
        let SftRecipe { steps, batch, .. } = recipe.sft;
        let tokenizer = self.vocabulary.then(|| format!("a tokenizer of {vocabulary} tokens"));
        let policy = match (self.size.then(|| format!("a policy of {layers} layers, {hidden} wide")), tokenizer) {
            (Some(policy), Some(tokenizer)) => Some(format!("{policy}, with {tokenizer}")),
            (policy, tokenizer) => policy.or(tokenizer),
        };
        let imitation = match (self.schedule, self.steps) {
            (true, true) => Some(format!("{steps} steps of {batch} episodes")),
            (true, false) => Some(format!("steps of {batch} episodes")),
            // Without the schedule the number of steps is the default's.
            (false, _) => None,
        };
        let chosen: Vec<String> = policy.into_iter().chain(imitation).collect();
        (!chosen.is_empty()).then(|| chosen.join(", and "))
    }
}

/// Class of environments that want the same policy. The values are those of recipes that were run to their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A few fixed tools and short episodes: `hone init`'s garden.
    Small,
    /// Longer texts or many words: recipes/triage-base.toml.
    Wordy,
    /// Tools whose names change: recipes/tiny-policy.toml.
    Varied,
    /// Episodes of thousands of tokens: recipes/retail-small.toml, on a GPU.
    Long,
}

/// Tokens of an episode and words of an environment that a small policy learns in a few hundred steps.
const SHORT: usize = 512;
const FEW_WORDS: usize = 600;
/// Tokens of an episode that a policy of three layers can still follow.
const LONG: usize = 2048;
/// Times that a task is imitated at most.
const REPEATS: usize = 100;

impl Survey {
    /// Survey of the environments of a recipe that has `envs` of them.
    pub fn of(solutions: &Solutions, envs: usize) -> Result<Self, SetupError> {
        let episodes = &solutions.episodes;
        let names = |episode: &Solved| episode.tools.iter().cloned().collect::<BTreeSet<String>>();
        let sets: BTreeSet<_> = episodes.iter().map(names).collect();
        let words: BTreeSet<&str> = episodes
            .iter()
            .flat_map(|episode| episode.text.split(|c: char| !c.is_alphanumeric()))
            .filter(|word| !word.is_empty() && !word.bytes().all(|byte| byte.is_ascii_digit()))
            .collect();
        let mut texts: Vec<&str> = episodes.iter().map(|episode| episode.text.as_str()).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.truncate(MEASURED);
        Ok(Self {
            tasks: solutions.tasks.len(),
            tools: episodes.iter().map(|episode| episode.tools.len()).max().unwrap_or(0),
            tools_vary: sets.len() > envs,
            words: words.len(),
            longest: longest(&texts)?,
        })
    }

    fn class(&self) -> Class {
        match self {
            Self { longest, .. } if *longest > LONG => Class::Long,
            Self { tools_vary: true, .. } => Class::Varied,
            Self { longest, words, .. } if *longest > SHORT || *words > FEW_WORDS => Class::Wordy,
            _ => Class::Small,
        }
    }

    /// Sets the keys that the recipe leaves open, and returns which; `given` tests whether a dotted key was written.
    pub fn choose(&self, recipe: &mut Recipe, given: impl Fn(&str) -> bool) -> Chosen {
        let (fresh, sft) = self.class().choice();
        let most = (REPEATS * self.tasks / sft.batch).max(REPEATS) as u64;
        let sft = SftRecipe { steps: sft.steps.min(most), ..sft };
        let any = |table: &str, keys: &[&str]| keys.iter().any(|key| given(&format!("{table}.{key}")));
        let chosen = Chosen {
            vocabulary: !any("policy.fresh", &["vocabulary", "json_tokens"]),
            size: !any("policy.fresh", &["layers", "hidden", "head_dim"]),
            schedule: !any("sft", &SCHEDULE),
            steps: !given("sft.steps"),
        };
        let own = &mut recipe.policy.fresh;
        if chosen.vocabulary {
            (own.vocabulary, own.json_tokens) = (fresh.vocabulary, fresh.json_tokens);
        }
        if chosen.size {
            (own.layers, own.hidden, own.head_dim) = (fresh.layers, fresh.hidden, fresh.head_dim);
        }
        let theirs = recipe.sft.clone();
        // Rates, fades and batches belong together; the number of steps may be set alone.
        if chosen.schedule {
            let SftRecipe { traces, at_least, solutions_until, stop_at, check_every, .. } = theirs;
            recipe.sft = SftRecipe { traces, at_least, solutions_until, stop_at, check_every, ..sft.clone() };
        }
        recipe.sft.steps = if chosen.steps { recipe.sft.steps } else { theirs.steps };
        chosen
    }
}

/// Texts that a tokenizer is made from to count tokens: the longest.
const MEASURED: usize = 40;

/// Tokens of the longest text, by a tokenizer made from all.
fn longest(texts: &[&str]) -> Result<usize, SetupError> {
    let all = texts.iter().map(|text| (*text).to_owned());
    let files = train_tokenizer(all, FreshRecipe::default().vocabulary, &JSON_TOKENS)
        .map_err(|error| SetupError::Fresh(error.to_string()))?;
    let tokenizer = Tokenizer::from_json(&files.tokenizer)?;
    let mut longest = 0;
    for text in texts {
        longest = longest.max(tokenizer.encode(text)?.len());
    }
    Ok(longest)
}

/// Keys of a schedule of imitation.
const SCHEDULE: [&str; 9] = [
    "batch",
    "learning_rate",
    "warmup",
    "decay",
    "context_weight",
    "copying",
    "copying_until",
    "opening_turns",
    "opening_until",
];

impl Class {
    fn choice(self) -> (FreshRecipe, SftRecipe) {
        let (fresh, sft) = (FreshRecipe::default(), SftRecipe { decay: Decay::Linear, ..SftRecipe::default() });
        match self {
            Self::Small => (
                FreshRecipe { vocabulary: 512, json_tokens: true, ..fresh },
                SftRecipe {
                    steps: 300,
                    batch: 32,
                    learning_rate: 3e-3,
                    warmup: 20,
                    copying: 0.9,
                    copying_until: 0.3,
                    ..sft
                },
            ),
            Self::Wordy => {
                (fresh, SftRecipe { steps: 1600, batch: 48, learning_rate: 3e-3, copying_until: 0.35, ..sft })
            }
            Self::Varied => (
                FreshRecipe { vocabulary: 640, json_tokens: true, ..fresh },
                SftRecipe {
                    steps: 4500,
                    batch: 24,
                    learning_rate: 3e-3,
                    context_weight: 0.03,
                    copying_until: 0.07,
                    ..sft
                },
            ),
            Self::Long => (
                FreshRecipe { layers: 12, hidden: 512, head_dim: 64, json_tokens: true, ..fresh },
                SftRecipe {
                    steps: 1600,
                    batch: 64,
                    learning_rate: 1e-3,
                    warmup: 100,
                    context_weight: 0.0,
                    copying_until: 0.1,
                    opening_turns: 3,
                    opening_until: 0.36,
                    ..sft
                },
            ),
        }
    }
}

impl std::fmt::Display for Survey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tasks, tools, words, longest, tools_vary } = self;
        let vary = if *tools_vary { " that change from task to task" } else { "" };
        write!(
            f,
            "the longest solved episode has {longest} tokens, an episode up to {tools} tools{vary}, and {tasks} tasks have {words} \
             distinct words"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(survey: Survey, given: &[&str]) -> Recipe {
        let mut recipe = Recipe::default();
        recipe.sft.steps = 7;
        survey.choose(&mut recipe, |key| given.contains(&key));
        recipe
    }

    #[test]
    fn only_what_was_chosen_is_said() {
        let said = |given: &[&str]| {
            let mut recipe = Recipe::default();
            GARDEN.choose(&mut recipe, |key| given.contains(&key)).words(&recipe)
        };
        let all = "a policy of 3 layers, 128 wide, with a tokenizer of 512 tokens, and 300 steps of 32 episodes";
        assert_eq!(said(&[]).unwrap(), all);
        let size = ["policy.fresh.vocabulary", "sft.steps"];
        assert_eq!(said(&size).unwrap(), "a policy of 3 layers, 128 wide, and steps of 32 episodes");
        assert_eq!(said(&["policy.fresh.vocabulary", "policy.fresh.layers", "sft.batch"]), None);
    }

    const GARDEN: Survey = Survey { tasks: 536, tools: 3, tools_vary: false, words: 90, longest: 300 };

    #[test]
    fn the_environment_decides_what_the_recipe_leaves_open() {
        let recipe = chosen(GARDEN, &[]);
        assert_eq!((recipe.policy.fresh.vocabulary, recipe.sft.steps, recipe.sft.batch), (512, 300, 32));
        let long = chosen(Survey { longest: 6000, tools: 16, ..GARDEN }, &[]);
        assert_eq!((long.policy.fresh.layers, long.policy.fresh.hidden), (12, 512));
        let few = chosen(Survey { tasks: 10, tools_vary: true, ..GARDEN }, &[]);
        assert_eq!(few.sft.steps, 100, "ten tasks are not imitated four thousand times");
    }

    #[test]
    fn what_is_written_stays() {
        let recipe = chosen(GARDEN, &["sft.steps", "policy.fresh.layers"]);
        assert_eq!((recipe.sft.steps, recipe.sft.batch), (7, 32));
        assert_eq!((recipe.policy.fresh.layers, recipe.policy.fresh.vocabulary), (3, 512));
        let recipe = chosen(GARDEN, &["sft.learning_rate"]);
        assert_eq!(
            (recipe.sft.steps, recipe.sft.batch),
            (7, SftRecipe::default().batch),
            "one schedule, not two halves"
        );
    }
}
