//! Owns a destination outside the process under test, and its ledger: what took effect, as the world would see it.
//! Does not own receipts, and never asks for them: the judge of a test is this ledger alone.
//!
//! One JSON object a line over TCP, one request at a time on a connection. A connection that ends without an answer is
//! the lost answer of real life.

use super::process::wait_until;
use super::{block_on, runtime};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request for an effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Apply {
    /// The idempotency key that the caller passes on.
    pub key: String,
    /// The operation as the test names it, whatever receipted makes of that: `tenant/operation/id`.
    pub operation: String,
    pub tenant: String,
    pub amount: u64,
    pub attempt: u32,
    /// The caller, for the behaviours that kill it.
    pub pid: u32,
}

impl Apply {
    pub fn new(key: impl Into<String>, operation: impl Into<String>) -> Self {
        let operation = operation.into();
        let tenant = operation.split('/').next().unwrap_or_default().to_owned();
        Self { key: key.into(), operation, tenant, amount: 0, attempt: 0, pid: std::process::id() }
    }
    pub fn amount(self, amount: u64) -> Self {
        Self { amount, ..self }
    }
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }
}

/// One effect. There is one entry for each time the world changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    pub key: String,
    pub operation: String,
    pub tenant: String,
    pub amount: u64,
    pub attempt: u32,
    pub reference: String,
    pub at_millis: i64,
}

/// The destination's answer to a request that has its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    pub reference: String,
    /// It had taken effect before.
    pub already: bool,
}

/// What a caller learns instead.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// For certain, and for good.
    #[error("rejected: {0}")]
    Rejected(String),
    /// For certain no effect; later may be different.
    #[error("unavailable")]
    Unavailable,
    /// The connection ended without an answer.
    #[error("no answer: {0}")]
    Lost(String),
}

/// What the destination does with a request for an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Behaviour {
    /// Takes effect and answers.
    Answer,
    /// Takes effect, and the connection ends.
    LoseAnswer,
    /// No effect, and the connection ends.
    LoseRequest,
    /// Takes effect, and answers once released.
    AnswerLate,
    /// Takes effect once released, whether the caller still listens or not.
    ApplyLate,
    /// No effect; answers *unavailable* once released.
    Hang,
    /// No effect, and says so.
    Reject(String),
    /// No effect, and says so; may be different later.
    Unavailable,
    /// Kills the caller (signal 9) before the effect, which never comes.
    KillBefore,
    /// Kills the caller (signal 9) after the effect.
    KillAfter,
    /// Calls the hook of an in-process server before the effect, then goes on as `Answer`.
    HookBefore,
    /// Calls the hook of an in-process server after the effect, then goes on as `Answer`.
    HookAfter,
}

/// What the destination does with a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lookup {
    Truthful,
    /// Never finds it.
    Blind,
    /// Refuses to answer.
    Unavailable,
    /// The connection ends.
    Lost,
    /// Answers the truth of then, once released.
    Late,
}

/// Whether a second use of a provider key has a second effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// Each request has an effect of its own. A destination *lies* when it is declared to deduplicate and does this.
    None,
    /// One effect a key.
    ByKey,
}

/// Which requests a rule is for. Both are compared with the provider key and with the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum On {
    Any,
    Is(String),
    Prefix(String),
}

pub fn any() -> On {
    On::Any
}
pub fn is(text: impl Into<String>) -> On {
    On::Is(text.into())
}
pub fn prefix(text: impl Into<String>) -> On {
    On::Prefix(text.into())
}

impl On {
    fn fits(&self, key: &str, operation: &str) -> bool {
        match self {
            On::Any => true,
            On::Is(text) => text == key || text == operation,
            On::Prefix(text) => key.starts_with(text) || operation.starts_with(text),
        }
    }
}

/// What was asked of one operation, besides the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests for an effect, each the mark of a handler that ran.
    pub requests: u64,
    pub effects: u64,
    /// Repeats that the destination recognised by their key.
    pub recognised: u64,
    pub rejected: u64,
    pub unavailable: u64,
    pub lookups: u64,
    /// The highest number of an attempt that asked for the effect.
    pub last_attempt: u32,
}

/// A rule in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleId(usize);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Step {
    Apply(Behaviour),
    Find(Lookup),
}

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Apply(Apply),
    Find { key: String },
    Script { on: On, step: Step, times: Option<u64> },
    Memory { on: On, memory: Memory },
    Forget { on: On },
    Release { rule: Option<RuleId> },
    Hits { rule: RuleId },
    Ledger,
    Counts,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done(Done),
    Rejected(String),
    Unavailable,
    Found(Option<Effect>),
    Rule(RuleId),
    Hits(u64),
    Ledger(Vec<Effect>),
    Counts(BTreeMap<String, Counts>),
    Nothing,
}

// ---- the server

struct Rule {
    on: On,
    step: Step,
    left: Option<u64>,
    hits: u64,
    released: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    effects: Vec<Effect>,
    /// The first effect of each key that is remembered, and the key's operation.
    known: HashMap<String, usize>,
    memories: Vec<(On, Memory)>,
    rules: Vec<Rule>,
    counts: BTreeMap<String, Counts>,
    file: Option<std::fs::File>,
}

type Hook = Box<dyn Fn(&Apply) + Send + Sync>;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    hook: Mutex<Option<Hook>>,
}

impl State {
    /// The behaviour that comes first, and the gate it may wait at.
    fn step<T>(&mut self, key: &str, operation: &str, pick: impl Fn(&Step) -> Option<T>) -> Option<(T, watch::Receiver<bool>)> {
        for rule in &mut self.rules {
            let Some(picked) = pick(&rule.step) else { continue };
            if rule.left != Some(0) && rule.on.fits(key, operation) {
                rule.left = rule.left.map(|left| left - 1);
                rule.hits += 1;
                return Some((picked, rule.released.subscribe()));
            }
        }
        None
    }

    fn count(&mut self, operation: &str) -> &mut Counts {
        self.counts.entry(operation.to_owned()).or_default()
    }

    /// The effect itself: the world changes here and nowhere else.
    fn book(&mut self, apply: &Apply) -> Done {
        let memory = self.memories.iter().rev().find(|(on, _)| on.fits(&apply.key, &apply.operation)).map_or(Memory::None, |(_, m)| *m);
        if let (Memory::ByKey, Some(&first)) = (memory, self.known.get(&apply.key)) {
            self.count(&apply.operation).recognised += 1;
            return Done { reference: self.effects[first].reference.clone(), already: true };
        }
        let reference = format!("ref-{}", self.effects.len() + 1);
        let (key, operation, tenant) = (apply.key.clone(), apply.operation.clone(), apply.tenant.clone());
        let at_millis = super::cluster::now_millis();
        self.note(Effect { key, operation, tenant, amount: apply.amount, attempt: apply.attempt, reference: reference.clone(), at_millis });
        if let (Some(file), Some(effect)) = (&mut self.file, self.effects.last()) {
            let line = serde_json::to_string(effect).expect("plain data") + "\n";
            file.write_all(line.as_bytes()).expect("the ledger's file");
        }
        self.count(&apply.operation).effects += 1;
        Done { reference, already: false }
    }

    fn note(&mut self, effect: Effect) {
        self.known.entry(effect.key.clone()).or_insert(self.effects.len());
        self.effects.push(effect);
    }

    fn control(&mut self, request: Request) -> Answer {
        match request {
            Request::Script { on, step, times } => {
                self.rules.push(Rule { on, step, left: times, hits: 0, released: watch::Sender::new(false) });
                Answer::Rule(RuleId(self.rules.len() - 1))
            }
            Request::Memory { on, memory } => {
                self.memories.push((on, memory));
                Answer::Nothing
            }
            Request::Forget { on } => {
                let effects = &self.effects;
                self.known.retain(|key, first| !on.fits(key, &effects[*first].operation));
                Answer::Nothing
            }
            Request::Release { rule } => {
                let of = |index: usize| rule.is_none_or(|RuleId(only)| only == index);
                for (_, rule) in self.rules.iter_mut().enumerate().filter(|(index, _)| of(*index)) {
                    rule.left = Some(0);
                    rule.released.send_replace(true);
                }
                Answer::Nothing
            }
            Request::Hits { rule: RuleId(index) } => Answer::Hits(self.rules[index].hits),
            Request::Ledger => Answer::Ledger(self.effects.clone()),
            Request::Counts => Answer::Counts(self.counts.clone()),
            Request::Apply(_) | Request::Find { .. } => unreachable!("answered before"),
        }
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("a state that no panic has left half done")
    }

    /// `None` ends the connection without an answer.
    async fn answer(&self, request: Request) -> Option<Answer> {
        match request {
            Request::Apply(apply) => self.apply(apply).await,
            Request::Find { key } => self.find(&key).await,
            other => Some(self.state().control(other)),
        }
    }

    async fn apply(&self, apply: Apply) -> Option<Answer> {
        let step = {
            let mut state = self.state();
            let count = state.count(&apply.operation);
            count.requests += 1;
            count.last_attempt = count.last_attempt.max(apply.attempt);
            state.step(&apply.key, &apply.operation, |step| if let Step::Apply(b) = step { Some(b.clone()) } else { None })
        };
        let Some((behaviour, gate)) = step else { return Some(Answer::Done(self.state().book(&apply))) };
        let book = || Answer::Done(self.state().book(&apply));
        match behaviour {
            Behaviour::Answer => Some(book()),
            Behaviour::LoseRequest => None,
            Behaviour::LoseAnswer => {
                book();
                None
            }
            Behaviour::AnswerLate => {
                let answer = book();
                released(gate).await;
                Some(answer)
            }
            Behaviour::ApplyLate => {
                released(gate).await;
                Some(book())
            }
            Behaviour::Hang => {
                released(gate).await;
                Some(self.unavailable(&apply))
            }
            Behaviour::Unavailable => Some(self.unavailable(&apply)),
            Behaviour::Reject(reason) => {
                self.state().count(&apply.operation).rejected += 1;
                Some(Answer::Rejected(reason))
            }
            Behaviour::KillBefore => {
                kill(apply.pid);
                None
            }
            Behaviour::KillAfter => {
                book();
                kill(apply.pid);
                None
            }
            Behaviour::HookBefore => {
                self.call_hook(&apply);
                Some(book())
            }
            Behaviour::HookAfter => {
                let answer = book();
                self.call_hook(&apply);
                Some(answer)
            }
        }
    }

    fn unavailable(&self, apply: &Apply) -> Answer {
        self.state().count(&apply.operation).unavailable += 1;
        Answer::Unavailable
    }

    fn call_hook(&self, apply: &Apply) {
        self.hook.lock().expect("a hook").as_ref().expect("a rule calls the hook, and none is set")(apply);
    }

    async fn find(&self, key: &str) -> Option<Answer> {
        let (truth, step) = {
            let mut state = self.state();
            let found = state.known.get(key).map(|first| state.effects[*first].clone());
            let operation = found.as_ref().map_or(String::new(), |effect| effect.operation.clone());
            state.count(if operation.is_empty() { key } else { &operation }).lookups += 1;
            let step = state.step(key, &operation, |step| if let Step::Find(lookup) = step { Some(lookup.clone()) } else { None });
            (found, step)
        };
        match step {
            None | Some((Lookup::Truthful, _)) => Some(Answer::Found(truth)),
            Some((Lookup::Blind, _)) => Some(Answer::Found(None)),
            Some((Lookup::Unavailable, _)) => Some(Answer::Unavailable),
            Some((Lookup::Lost, _)) => None,
            Some((Lookup::Late, gate)) => {
                released(gate).await;
                let state = self.state();
                Some(Answer::Found(state.known.get(key).map(|first| state.effects[*first].clone())))
            }
        }
    }
}

async fn released(mut gate: watch::Receiver<bool>) {
    // An error means that the destination is gone, which releases too.
    let _ = gate.wait_for(|released| *released).await;
}

fn kill(pid: u32) {
    assert_ne!(pid, std::process::id(), "a rule kills the caller, and the caller is the test itself");
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the caller's process id");
    // It may be dead already, which is as well.
    let _ = kill_process(pid, Signal::KILL);
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            let (read, mut write) = stream.into_split();
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let request = serde_json::from_str(&line).expect("a request");
                let Some(answer) = shared.answer(request).await else { return };
                let answer = serde_json::to_string(&answer).expect("plain data") + "\n";
                // A caller that is gone has lost its answer; the effect stands.
                if write.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// A destination in this process. It lasts as long as the process.
pub struct Server {
    control: Control,
    shared: Arc<Shared>,
    address: String,
}

impl Deref for Server {
    type Target = Control;
    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Server {
    pub fn start() -> Self {
        Self::with(State::default())
    }

    /// Keeps the ledger in a file too, and starts with what the file holds.
    pub fn start_on(file: &Path) -> Self {
        let mut state = State::default();
        for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
            state.note(serde_json::from_str(line).expect("an effect"));
        }
        state.file = Some(std::fs::File::options().create(true).append(true).open(file).expect("the ledger's file"));
        Self::with(state)
    }

    fn with(state: State) -> Self {
        let shared = Arc::new(Shared { state: Mutex::new(state), hook: Mutex::default() });
        let listener = block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        runtime().spawn(serve(listener, shared.clone()));
        Self { control: Control(Route::Here(shared.clone())), shared, address }
    }

    /// To be handed to [`Destination::new`].
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What the rules `HookBefore` and `HookAfter` call.
    pub fn hook(&self, hook: impl Fn(&Apply) + Send + Sync + 'static) {
        *self.shared.hook.lock().expect("a hook") = Some(Box::new(hook));
    }
}

/// The role of a destination in its own process: says `destination ADDRESS` and stays.
/// The ledger goes to the file that `RECEIPTED_TEST_LEDGER` names, if it does.
pub fn role() {
    let server = std::env::var_os("RECEIPTED_TEST_LEDGER").map_or_else(Server::start, |file| Server::start_on(Path::new(&file)));
    println!("destination {}", server.address());
    loop {
        std::thread::park();
    }
}

// ---- the test's side

#[derive(Clone)]
enum Route {
    Here(Arc<Shared>),
    There(String),
}

/// The script and the ledger of a destination, here or in another process.
#[derive(Clone)]
pub struct Control(Route);

impl Control {
    /// Of a destination in another process.
    pub fn of(address: impl Into<String>) -> Self {
        Self(Route::There(address.into()))
    }

    fn ask(&self, request: Request) -> Answer {
        match &self.0 {
            Route::Here(shared) => shared.state().control(request),
            Route::There(address) => {
                let destination = Destination::new(address.clone());
                block_on(async move { destination.exchange(&request).await }).expect("a destination that answers")
            }
        }
    }

    fn rule(&self, on: On, step: Step, times: Option<u64>) -> RuleId {
        let Answer::Rule(rule) = self.ask(Request::Script { on, step, times }) else { panic!("no rule") };
        rule
    }

    /// From now on, until released. The oldest rule that fits and is not used up decides.
    pub fn always(&self, on: On, behaviour: Behaviour) -> RuleId {
        self.rule(on, Step::Apply(behaviour), None)
    }

    /// For the next so many requests that fit.
    pub fn times(&self, times: u64, on: On, behaviour: Behaviour) -> RuleId {
        self.rule(on, Step::Apply(behaviour), Some(times))
    }

    /// For the next request that fits.
    pub fn once(&self, on: On, behaviour: Behaviour) -> RuleId {
        self.times(1, on, behaviour)
    }

    /// The same for questions.
    pub fn lookups(&self, on: On, lookup: Lookup) -> RuleId {
        self.rule(on, Step::Find(lookup), None)
    }

    pub fn lookups_times(&self, times: u64, on: On, lookup: Lookup) -> RuleId {
        self.rule(on, Step::Find(lookup), Some(times))
    }

    /// Ends a rule, and lets go what waits for it.
    pub fn release(&self, rule: RuleId) {
        self.ask(Request::Release { rule: Some(rule) });
    }

    pub fn release_all(&self) {
        self.ask(Request::Release { rule: None });
    }

    /// How many requests a rule has decided.
    pub fn hits(&self, rule: RuleId) -> u64 {
        let Answer::Hits(hits) = self.ask(Request::Hits { rule }) else { panic!("no count") };
        hits
    }

    /// Waits until a rule has decided so many requests.
    #[track_caller]
    pub fn wait_hits(&self, rule: RuleId, hits: u64, bound: Duration) {
        wait_until(&format!("{hits} requests for {rule:?}"), bound, || self.hits(rule) >= hits);
    }

    /// Whether repeated keys have repeated effects; the newest word counts. At first they have.
    pub fn memory(&self, on: On, memory: Memory) {
        self.ask(Request::Memory { on, memory });
    }

    /// The destination's memory of keys is over: its next use has an effect, and a lookup finds nothing.
    pub fn forget(&self, on: On) {
        self.ask(Request::Forget { on });
    }

    pub fn ledger(&self) -> Ledger {
        let Answer::Ledger(effects) = self.ask(Request::Ledger) else { panic!("no ledger") };
        Ledger(effects)
    }

    /// By operation. Questions about a key without effect stand under the key.
    pub fn counts(&self) -> BTreeMap<String, Counts> {
        let Answer::Counts(counts) = self.ask(Request::Counts) else { panic!("no counts") };
        counts
    }

    pub fn count(&self, operation: &str) -> Counts {
        self.counts().get(operation).copied().unwrap_or_default()
    }

    /// Requests for all operations that start so: handler runs, as the world sees them.
    pub fn requests(&self, prefix: &str) -> u64 {
        self.counts().iter().filter(|(operation, _)| operation.starts_with(prefix)).map(|(_, counts)| counts.requests).sum()
    }
}

/// What took effect, and how it compares with what should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger(pub Vec<Effect>);

impl Ledger {
    pub fn total(&self) -> usize {
        self.0.len()
    }

    pub fn of(&self, operation: &str) -> Vec<&Effect> {
        self.0.iter().filter(|effect| effect.operation == operation).collect()
    }

    pub fn by_operation(&self) -> BTreeMap<&str, Vec<&Effect>> {
        let mut all: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
        self.0.iter().for_each(|effect| all.entry(&effect.operation).or_default().push(effect));
        all
    }

    /// Operations with more than one effect.
    pub fn doubled(&self) -> BTreeMap<&str, Vec<&Effect>> {
        self.by_operation().into_iter().filter(|(_, effects)| effects.len() > 1).collect()
    }

    /// Effects beyond the first of each operation.
    pub fn excess(&self) -> usize {
        self.total() - self.by_operation().len()
    }

    /// Operations that should have taken effect and have not.
    pub fn lost<'a>(&self, expected: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let known = self.by_operation();
        expected.into_iter().collect::<BTreeSet<_>>().into_iter().filter(|operation| !known.contains_key(operation)).collect()
    }

    /// Operations that took effect and should not have.
    pub fn unexpected<'a>(&self, expected: impl IntoIterator<Item = &'a str>) -> Vec<&str> {
        let expected: BTreeSet<_> = expected.into_iter().collect();
        self.by_operation().into_keys().filter(|operation| !expected.contains(operation)).collect()
    }
}

// ---- the handler's side

/// A destination's client, as a team would have one. Cheap to clone; connections are kept and shared.
#[derive(Clone, Debug)]
pub struct Destination {
    address: Arc<str>,
    idle: Arc<Mutex<Vec<BufReader<TcpStream>>>>,
}

impl Destination {
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into().into(), idle: Arc::default() }
    }

    /// Asks for an effect.
    pub async fn apply(&self, apply: Apply) -> Result<Done, ApplyError> {
        match self.exchange(&Request::Apply(apply)).await? {
            Answer::Done(done) => Ok(done),
            Answer::Rejected(reason) => Err(ApplyError::Rejected(reason)),
            Answer::Unavailable => Err(ApplyError::Unavailable),
            other => Err(ApplyError::Lost(format!("not an answer: {other:?}"))),
        }
    }

    /// Looks an effect up by its provider key.
    pub async fn find(&self, key: &str) -> Result<Option<Effect>, ApplyError> {
        match self.exchange(&Request::Find { key: key.to_owned() }).await? {
            Answer::Found(found) => Ok(found),
            Answer::Unavailable => Err(ApplyError::Unavailable),
            other => Err(ApplyError::Lost(format!("not an answer: {other:?}"))),
        }
    }

    async fn exchange(&self, request: &Request) -> Result<Answer, ApplyError> {
        let lost = |error: std::io::Error| ApplyError::Lost(error.to_string());
        let idle = self.idle.lock().expect("connections").pop();
        let mut stream = match idle {
            Some(stream) => stream,
            // Without a connection nothing can have happened.
            None => BufReader::new(TcpStream::connect(&*self.address).await.map_err(|_| ApplyError::Unavailable)?),
        };
        let request = serde_json::to_string(request).expect("plain data") + "\n";
        stream.get_mut().write_all(request.as_bytes()).await.map_err(lost)?;
        let mut line = String::new();
        if stream.read_line(&mut line).await.map_err(lost)? == 0 {
            return Err(ApplyError::Lost("the connection ended".into()));
        }
        let answer = serde_json::from_str(&line).map_err(|error| ApplyError::Lost(error.to_string()))?;
        self.idle.lock().expect("connections").push(stream);
        Ok(answer)
    }
}
