//! Task variables in the system prompt: who is logged in, and what day it is for the agent.

use indexmap::IndexMap;

use crate::template::{BadDate, Clock};

/// The variable that says what day it is.
pub(crate) const CURRENT_DATE: &str = "CURRENT_DATE";

/// Words for the variables environments commonly set; others use their own name.
const KNOWN: [(&str, &str); 4] = [
    (CURRENT_DATE, "Today's date"),
    ("CURRENT_TIME", "Current time"),
    ("LOGGED_IN_USER", "Logged-in user"),
    ("LOGGED_IN_NAME", "Name of the logged-in user"),
];

/// The moment a task's variables name, their `CURRENT_DATE`. `None` if they name none; never the host's clock.
pub(crate) fn clock(variables: &IndexMap<String, String>) -> Result<Option<Clock>, BadDate> {
    variables.get(CURRENT_DATE).map(|date| Clock::parse(date)).transpose()
}

/// The system prompt with the task's variables: `{{NAME}}` is replaced wherever it occurs, and the remaining variables
/// are listed at the end, so that none is lost.
pub(crate) fn with_variables(system: &str, variables: &IndexMap<String, String>) -> String {
    let mut prompt = system.to_owned();
    let mut lines = Vec::new();
    for (name, value) in variables {
        let place = format!("{{{{{name}}}}}");
        if prompt.contains(&place) {
            prompt = prompt.replace(&place, value);
        } else {
            let label = KNOWN.iter().find(|(known, _)| known == name).map_or(name.as_str(), |(_, label)| label);
            lines.push(format!("- {label}: {value}"));
        }
    }
    if lines.is_empty() {
        return prompt;
    }
    let gap = if prompt.is_empty() { "" } else { "\n\n" };
    format!("{}{gap}# Context\n{}", prompt.trim_end(), lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> IndexMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_variable_reaches_the_prompt() {
        let variables =
            variables(&[("CURRENT_DATE", "2024-05-15"), ("LOGGED_IN_USER", "mia_li_3668"), ("REGION", "EU")]);
        assert_eq!(
            with_variables("Policy for {{REGION}}.\n", &variables),
            "Policy for EU.\n\n# Context\n- Today's date: 2024-05-15\n- Logged-in user: mia_li_3668"
        );
        assert_eq!(with_variables("Policy.", &IndexMap::new()), "Policy.");
    }

    #[test]
    fn today_is_the_tasks_date() {
        let date = variables(&[("CURRENT_DATE", "2024-05-15T15:00:00")]);
        assert_eq!(clock(&date).unwrap().unwrap().date(), "2024-05-15");
        assert_eq!(clock(&IndexMap::new()).unwrap(), None);
        assert!(clock(&variables(&[("CURRENT_DATE", "soon")])).is_err());
    }
}
