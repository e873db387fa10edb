//! x
/// x
#[derive(Debug)]
pub struct Change;
/// x
#[derive(Debug)]
pub struct Changed;
/// x
#[derive(Debug)]
pub struct Refused;
