//! Owns how a failing plan is made short.

use super::{
    plan::{Plan, Step},
    play::play,
    world::Broken,
};

/// The shortest plan found that breaks the same rule.
pub fn shrink(plan: Plan, broken: Broken, rule: &str) -> Plan {
    let fails = |steps: &[Step]| {
        let shorter = Plan { setting: plan.setting.clone(), steps: steps.to_vec() };
        play(&shorter, broken, false).violation.is_some_and(|violation| violation.rule == rule)
    };
    let mut steps = plan.steps.clone();
    let mut chunk = steps.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let before = steps.len();
        while at < steps.len() {
            let mut shorter = steps.clone();
            shorter.drain(at..(at + chunk).min(steps.len()));
            if fails(&shorter) { steps = shorter } else { at += chunk }
        }
        if chunk == 1 && steps.len() == before {
            return Plan { setting: plan.setting, steps };
        }
        chunk = (chunk / 2).max(1);
    }
}
