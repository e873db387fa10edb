//! Breadth first through every reachable state, and backwards from the finished ones: from everywhere there must be a way to them.

use crate::{
    hash::Table,
    model::{Model, Step, Violation},
    state::{Config, State},
};
use std::{collections::hash_map::Entry, rc::Rc};

pub(crate) struct Report {
    pub states: usize,
    pub steps: usize,
    pub cut: usize,
    pub found: Option<(Violation, Vec<Step>)>,
}

struct Visited {
    states: Vec<Rc<State>>,
    numbers: Table<Rc<State>, u32>,
    /// How each was reached first.
    from: Vec<(u32, Option<Step>)>,
}

impl Visited {
    /// The number of a state, and whether it is new.
    fn visit(&mut self, state: State, from: u32, step: Option<Step>) -> (u32, bool) {
        let state = Rc::new(state);
        match self.numbers.entry(state) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(free) => {
                let number = self.states.len() as u32;
                self.states.push(free.key().clone());
                free.insert(number);
                self.from.push((from, step));
                (number, true)
            }
        }
    }

    fn trace(&self, mut number: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        while let (from, Some(step)) = self.from[number as usize] {
            steps.push(step);
            number = from;
        }
        steps.reverse();
        steps
    }
}

/// Visits every state, or stops at the first violation.
pub(crate) fn explore(config: Config) -> Report {
    let model = Model::new(config);
    let mut visited = Visited { states: Vec::new(), numbers: Table::default(), from: Vec::new() };
    visited.visit(State::first(&model.config), 0, None);
    let (mut next, mut edges) = (0, Vec::new());
    while next < visited.states.len() {
        let state = visited.states[next].clone();
        for (step, after, found) in model.nexts(&state) {
            let (number, _) = visited.visit(after, next as u32, Some(step));
            if let Some(violation) = found {
                let mut steps = visited.trace(next as u32);
                steps.push(step);
                return report(&model, &visited, edges.len(), Some((violation, steps)));
            }
            edges.push((next as u32, number));
        }
        next += 1;
    }
    let stuck = stuck(&model, &visited, &edges);
    let waits = Violation("L1", "a state from which nothing leads to an end");
    report(&model, &visited, edges.len(), stuck.map(|number| (waits, visited.trace(number))))
}

fn report(model: &Model, visited: &Visited, steps: usize, found: Option<(Violation, Vec<Step>)>) -> Report {
    let report = Report { states: visited.states.len(), steps, cut: visited.states.iter().filter(|state| state.cut).count(), found };
    let Config { name, slots, attempts, crashes, rewinds, .. } = model.config;
    let what = match &report.found {
        Some((violation, _)) => format!("{}: {}", violation.0, violation.1),
        None => "no violation".into(),
    };
    let off: Vec<String> = model.config.off.iter().map(|rule| format!(" without {rule:?}")).collect();
    let Report { states, steps, cut, .. } = report;
    println!(
        "{name}{}: {slots} slots, {attempts} attempts, {crashes} crashes, {rewinds} rewinds: {states} states, {steps} steps, {cut} cut; {what}",
        off.concat()
    );
    report
}

/// The first state, if there is one, from which no finished state can be reached.
fn stuck(model: &Model, visited: &Visited, edges: &[(u32, u32)]) -> Option<u32> {
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); visited.states.len()];
    for (from, to) in edges {
        before[*to as usize].push(*from);
    }
    let mut reaches: Vec<bool> = visited.states.iter().map(|state| model.finished(state)).collect();
    let mut open: Vec<u32> = (0..reaches.len() as u32).filter(|number| reaches[*number as usize]).collect();
    while let Some(number) = open.pop() {
        for from in &before[number as usize] {
            if !std::mem::replace(&mut reaches[*from as usize], true) {
                open.push(*from);
            }
        }
    }
    reaches.iter().position(|reaches| !reaches).map(|number| number as u32)
}

/// Panics with the shortest way to it when a violation is found.
pub(crate) fn holds(config: Config) {
    if let Some((violation, steps)) = explore(config).found {
        panic!("{}: {}\n{steps:#?}", violation.0, violation.1);
    }
}

/// Panics unless leaving the rule out breaks this guarantee.
pub(crate) fn breaks(config: Config, guarantee: &str) {
    match explore(config).found {
        Some((violation, steps)) => assert_eq!(violation.0, guarantee, "{}\n{steps:#?}", violation.1),
        None => panic!("no violation"),
    }
}
