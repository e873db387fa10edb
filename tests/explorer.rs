//! Every reachable state of one operation (DESIGN 10): crashes, failed syncs, lost and late answers, every contract, wrong people.
#![allow(clippy::too_many_arguments, clippy::enum_variant_names, reason = "a model names its steps and rules in full")]

#[path = "explorer/answers.rs"]
mod answers;
#[path = "explorer/driver.rs"]
mod driver;
#[path = "explorer/hash.rs"]
mod hash;
#[path = "explorer/model.rs"]
mod model;
#[path = "explorer/notes.rs"]
mod notes;
#[path = "explorer/rules.rs"]
mod rules;
#[path = "explorer/search.rs"]
mod search;
#[path = "explorer/state.rs"]
mod state;
#[path = "explorer/whole.rs"]
mod whole;
#[path = "explorer/world.rs"]
mod world;
