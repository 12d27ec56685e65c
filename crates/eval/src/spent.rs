//! Token usage and cost: of episodes, and per solved task.

use hone_trace::Usage;
use serde::{Deserialize, Serialize};

/// Price in dollars (or any other currency) per million tokens read and written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub prompt: f64,
    pub completion: f64,
}

impl std::str::FromStr for Price {
    type Err = String;

    /// `READ,WRITTEN`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.trim().parse::<f64>().ok().filter(|price| price.is_finite() && *price >= 0.0);
        let (read, written) = text.split_once(',').unwrap_or((text, text));
        match (number(read), number(written)) {
            (Some(prompt), Some(completion)) => Ok(Self { prompt, completion }),
            _ => Err("write READ,WRITTEN: the prices of a million tokens read and written, such as 2.5,10".into()),
        }
    }
}

impl Price {
    fn of(self, tokens: Usage) -> f64 {
        (tokens.prompt as f64 * self.prompt + tokens.completion as f64 * self.completion) / 1e6
    }
}

/// Tokens and cost of a row's scored episodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub tokens: Usage,
    /// Absent without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens and cost per passed episode; absent if none passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_solved: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_solved: Option<f64>,
}

impl Spent {
    /// `passed`: number of passed episodes; failures count towards the cost. `None` if an episode's tokens were not
    /// counted.
    pub(crate) fn of(
        episodes: impl Iterator<Item = Option<Usage>>,
        passed: usize,
        price: Option<Price>,
    ) -> Option<Self> {
        let mut tokens = Usage::default();
        let mut counted = 0;
        for usage in episodes {
            let usage = usage?;
            tokens.prompt += usage.prompt;
            tokens.completion += usage.completion;
            counted += 1;
        }
        let per_solved = |amount: f64| (passed > 0).then(|| amount / passed as f64);
        let cost = price.map(|price| price.of(tokens));
        (counted > 0 && tokens != Usage::default()).then(|| Self {
            tokens,
            cost,
            tokens_per_solved: per_solved((tokens.prompt + tokens.completion) as f64),
            cost_per_solved: cost.and_then(per_solved),
        })
    }
}

/// Money with three significant digits: `$0.00123`, `$4.57`.
pub(crate) fn money(amount: f64) -> String {
    let digits = if amount >= 1.0 || amount <= 0.0 { 2 } else { (2.0 - amount.log10().floor()).min(9.0) as usize };
    format!("${amount:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solved_task_pays_for_the_failures_too() {
        let one = Usage { prompt: 1000, completion: 100 };
        let spent = Spent::of([Some(one); 4].into_iter(), 2, "2.5, 10".parse().ok()).unwrap();
        assert_eq!(spent.tokens, Usage { prompt: 4000, completion: 400 });
        assert_eq!(spent.tokens_per_solved, Some(2200.0));
        assert!((spent.cost.unwrap() - 0.014).abs() < 1e-12 && (spent.cost_per_solved.unwrap() - 0.007).abs() < 1e-12);
        let none = Spent::of([Some(one)].into_iter(), 0, "1".parse().ok()).unwrap();
        assert_eq!((none.tokens_per_solved, none.cost_per_solved), (None, None), "absent is not zero");
        assert_eq!(Spent::of([Some(one), None].into_iter(), 1, None), None, "one that nobody counted");
        assert!("a,b".parse::<Price>().is_err() && "-1,2".parse::<Price>().is_err() && "".parse::<Price>().is_err());
        assert_eq!([money(0.007), money(4.567), money(0.0)], ["$0.00700", "$4.57", "$0.00"]);
    }
}
