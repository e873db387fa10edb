//! Owns the way from what a team declared to what a runner uses: every declaration checked, the state captured, routes that share an
//! operation found equal.

use super::{
    app::App,
    check::{self, Error, Place},
    declaration::Declaration,
    outcome::Looked,
    part::same_parts,
    plan::{Declared, Erased, ErasedReply, RoutePlan},
    route::{Branch, By, Route},
    routes::{IdentityRule, Node, Routes, Topic},
};
use crate::protocol::policy::Policy;
use std::sync::Arc;

pub(super) fn build<S: Send + Sync + 'static>(app: &App<S>, state: S) -> Result<Routes, Error> {
    let (topics, found) = checked(app)?;
    let state = Arc::new(state);
    let operations = found.iter().map(|found| found.plan(&topics, &state)).collect();
    Ok(Routes::new(topics, operations))
}

/// What every operation of the app declares; its state is not needed for that.
pub(super) fn declared<S: Send + Sync + 'static>(app: &App<S>) -> Result<Vec<Declared>, Error> {
    let (topics, found) = checked(app)?;
    Ok(found.iter().map(|found| found.declared(&topics)).collect())
}

fn checked<S: Send + Sync + 'static>(app: &App<S>) -> Result<(Vec<Topic>, Vec<Found<S>>), Error> {
    let mut builder = Builder { found: Vec::new() };
    let mut topics: Vec<Topic> = Vec::new();
    for (name, route) in &app.topics {
        check::topic(name)?;
        if topics.iter().any(|topic| topic.name == *name) {
            return Err(Error::TopicTwice { topic: name.clone() });
        }
        let node = builder.node(name, &route.branch)?;
        topics.push(Topic::new(name.clone(), route.lanes.unwrap_or_default(), node));
    }
    builder.check_older_names()?;
    if builder.found.is_empty() {
        return Err(Error::Empty);
    }
    Ok((topics, builder.found))
}

struct Builder<S> {
    found: Vec<Found<S>>,
}

/// One operation of the app, with the topics that carry it.
struct Found<S> {
    declared: Arc<Declaration<S>>,
    policy: Policy,
    topics: Vec<String>,
}

impl<S: Send + Sync + 'static> Builder<S> {
    fn node(&mut self, topic: &str, branch: &Branch<S>) -> Result<Node, Error> {
        Ok(match branch {
            Branch::Skip => Node::Skip,
            Branch::DeadLetter => Node::DeadLetter,
            Branch::By(by) => self.by(topic, by)?,
            Branch::Run(declared) => Node::Run { route: self.operation(topic, declared)?, rule: IdentityRule::of(declared) },
        })
    }

    fn by(&mut self, topic: &str, by: &By<S>) -> Result<Node, Error> {
        check::source(&Place { topic: topic.into(), operation: String::new() }, "by", &by.part, None)?;
        let mut on: Vec<(&'static str, Node)> = Vec::with_capacity(by.on.len());
        for (value, route) in &by.on {
            if on.iter().any(|(known, _)| known == value) {
                return Err(Error::ValueTwice { topic: topic.into(), value: (*value).into() });
            }
            on.push((value, self.inner(topic, route)?));
        }
        Ok(Node::By { part: by.part.clone(), on, otherwise: Box::new(self.inner(topic, &by.otherwise)?) })
    }

    fn inner(&mut self, topic: &str, route: &Route<S>) -> Result<Node, Error> {
        match route.lanes {
            Some(_) => Err(Error::InnerLanes { topic: topic.into() }),
            None => self.node(topic, &route.branch),
        }
    }

    /// The index of the operation's plan; a second route of the same name has to be equal.
    fn operation(&mut self, topic: &str, declared: &Arc<Declaration<S>>) -> Result<usize, Error> {
        let place = Place { topic: topic.into(), operation: declared.name.into() };
        let policy = check::declaration(&place, declared)?;
        let Some(index) = self.found.iter().position(|found| found.declared.name == declared.name) else {
            self.found.push(Found { declared: declared.clone(), policy, topics: vec![topic.into()] });
            return Ok(self.found.len() - 1);
        };
        let found = &mut self.found[index];
        if let Some(what) = found.differs(declared, &policy) {
            return Err(Error::Unequal { place, what });
        }
        if !found.topics.iter().any(|known| known == topic) {
            found.topics.push(topic.into());
        }
        Ok(index)
    }

    /// An older name that is still a route's own would be looked up from one side only.
    fn check_older_names(&self) -> Result<(), Error> {
        for found in &self.found {
            let live = |older: &&&'static str| self.found.iter().any(|other| other.declared.name == **older);
            if let Some(name) = found.declared.options.formerly.iter().find(live) {
                return Err(Error::Formerly {
                    place: Place { topic: found.topics.join(", "), operation: found.declared.name.into() },
                    name: (*name).into(),
                    reason: "is still a route's own name, which would not look under the new one: let both routes carry the new name"
                        .into(),
                });
            }
        }
        Ok(())
    }
}

impl<S: Send + Sync + 'static> Found<S> {
    /// What differs between two routes of one name, if anything does.
    fn differs(&self, other: &Arc<Declaration<S>>, policy: &Policy) -> Option<&'static str> {
        let declared = &self.declared;
        if Arc::ptr_eq(declared, other) {
            return None;
        }
        let lookups = match (declared.options.contract.lookup(), other.options.contract.lookup()) {
            (None, None) => true,
            (Some(a), Some(b)) => a.code.is(b.code),
            _ => false,
        };
        let replies = match (&declared.options.reply, &other.options.reply) {
            (None, None) => true,
            (Some(a), Some(b)) => a.code.is(b.code),
            _ => false,
        };
        let equal = [
            (declared.tenant.is(&other.tenant), "tenant"),
            (same_parts(&declared.id, &other.id), "id"),
            (declared.options.alphabet == other.options.alphabet, "alphabet"),
            (declared.parameters == other.parameters, "fingerprint"),
            (declared.options.formerly == other.options.formerly, "older name"),
            (self.policy.contract == policy.contract && lookups, "in-doubt contract"),
            (self.policy == *policy, "policy or limit"),
            (declared.options.answer_bytes_max == other.options.answer_bytes_max, "answer_bytes_max"),
            (declared.code.is(other.code), "handler"),
            (replies, "reply hook"),
            (declared.options.layers.is_empty() && other.options.layers.is_empty(), "layers"),
        ];
        equal.into_iter().find(|(equal, _)| !equal).map(|(_, what)| what)
    }

    fn declared(&self, topics: &[Topic]) -> Declared {
        let declared = &self.declared;
        let lanes = |name: &String| topics.iter().find(|topic| topic.name == *name).map(|topic| topic.lanes).unwrap_or_default();
        Declared {
            name: declared.name,
            policy: self.policy.clone(),
            answer_bytes_max: declared.options.answer_bytes_max,
            topics: self.topics.clone(),
            tenant: declared.tenant.clone(),
            id: declared.id.iter().map(ToString::to_string).collect(),
            lanes: self.topics.iter().map(lanes).collect(),
            fingerprint: declared.parameters.to_string(),
            formerly: declared.options.formerly.clone(),
            passes_key: declared.passes_key,
            replies: declared.options.reply.is_some(),
            layers: declared.options.layers.iter().map(|(name, _)| *name).collect(),
        }
    }

    fn plan(&self, topics: &[Topic], state: &Arc<S>) -> RoutePlan {
        let (declared, state) = (self.declared.clone(), state.clone());
        let answer_bytes_max = declared.options.answer_bytes_max;
        RoutePlan {
            name: declared.name,
            policy: self.policy.clone(),
            answer_bytes_max,
            declared: self.declared(topics),
            look_up: look_up(&declared, &state),
            reply: reply(&declared, &state),
            layers: declared.options.layers.iter().map(|(_, wrap)| wrap.clone()).collect(),
            handler: Box::new(move |delivery| (declared.handler)(delivery, &state, answer_bytes_max)),
        }
    }
}

fn look_up<S: Send + Sync + 'static>(declared: &Declaration<S>, state: &Arc<S>) -> Option<Erased<Looked>> {
    let (prepare, state) = (declared.options.contract.lookup()?.prepare.clone(), state.clone());
    let answer_bytes_max = declared.options.answer_bytes_max;
    Some(Box::new(move |delivery| prepare(delivery, &state, answer_bytes_max)))
}

fn reply<S: Send + Sync + 'static>(declared: &Declaration<S>, state: &Arc<S>) -> Option<ErasedReply> {
    let (call, state) = (declared.options.reply.as_ref()?.call.clone(), state.clone());
    Some(Box::new(move |reply| call(reply, &state)))
}
