//! Owns the operators' way into the engine.

use super::{engine::Engine, inbox::Inbox};
use crate::protocol::{
    known::Answer,
    machine::Action,
    refused::Refused,
    settle::{Change, Changed},
};
use std::collections::HashMap;
use tokio::sync::{mpsc::UnboundedSender, oneshot};

/// x
#[derive(Clone)]
pub struct Operators(UnboundedSender<Inbox>);

impl Operators {
    pub(super) fn new(inbox: UnboundedSender<Inbox>) -> Self {
        Self(inbox)
    }
}

#[derive(Default)]
pub(super) struct Pending {
    waiting: HashMap<u64, oneshot::Sender<Result<Changed, Refused>>>,
    next: u64,
}

impl Engine {
    pub(super) fn operate(&mut self, _change: Change, _answer: oneshot::Sender<Result<Changed, Refused>>, _actions: &mut Vec<Action>) {}
    pub(super) fn operator_produced(&mut self, _request: u64, _result: Result<(), String>, _actions: &mut Vec<Action>) {}
    pub(super) fn operator_answered(&mut self, _request: u64, _answer: Answer) {}
}
