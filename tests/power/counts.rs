//! Owns how often something was seen.

use std::{collections::BTreeMap, fmt};

#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Counts(pub BTreeMap<String, u64>);

impl Counts {
    pub fn add(&mut self, what: &str) {
        self.many(what, 1);
    }

    pub fn many(&mut self, what: &str, times: usize) {
        *self.0.entry(what.to_owned()).or_default() += times as u64;
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub fn join(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what.clone()).or_default() += times;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(what, times)| format!("{what} {times}")).collect();
        write!(f, "{}", all.join(", "))
    }
}
