//! The machine alone: production rules, a world of our own, time as a number. The judge is the world's ledger.

#[path = "machine/cases.rs"]
mod cases;
#[path = "machine/found.rs"]
mod found;
#[path = "machine/gates.rs"]
mod gates;
#[path = "machine/late.rs"]
mod late;
#[path = "machine/random.rs"]
mod random;
#[path = "machine/room.rs"]
mod room;
#[path = "machine/stories.rs"]
mod stories;
#[path = "machine/world.rs"]
mod world;
