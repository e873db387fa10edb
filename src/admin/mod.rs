//! Owns the operators' way in: commands over a Unix socket in the store's directory. Does not own the rules (`protocol::settle`) nor
//! their execution (`runner::Operators`).

pub mod command;
