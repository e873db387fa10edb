//! Layers of tower around attempts, on the rehearsal: limits hold, records wait without an admission, and no layer can lose, take back or
//! make up what became of an effect. The judge is a list of effects outside the app.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use receipted::{
    handler::{Attempt, Attempts, BoxFuture, Breaker, LayerFailure, Ran},
    prelude::*,
    store::memory::Fault,
    testing::{Rehearsal, deliver, record},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use tower::{
    Layer, Service,
    limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer, RateLimitLayer},
};

const LONG: Duration = Duration::from_secs(3600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The outside world.
#[derive(Clone, Default)]
struct World(Arc<Outside>);

#[derive(Default)]
struct Outside {
    /// Requests with the time of each, and whether there was an effect.
    requests: Mutex<Vec<(String, Instant, Did)>>,
    now: AtomicUsize,
    most: AtomicUsize,
    /// Requests that it refuses from now on.
    refuses: AtomicU32,
    hangs: AtomicU32,
    let_go: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    Effect,
    Nothing,
}

impl World {
    fn effects(&self) -> Vec<String> {
        let requests = self.0.requests.lock().unwrap();
        let mut effects: Vec<String> = requests.iter().filter(|(.., did)| *did == Did::Effect).map(|(id, ..)| id.clone()).collect();
        effects.sort();
        effects
    }

    fn requests(&self) -> usize {
        self.0.requests.lock().unwrap().len()
    }

    fn times(&self) -> Vec<Instant> {
        self.0.requests.lock().unwrap().iter().map(|(_, at, _)| *at).collect()
    }

    async fn ask(&self, id: &str) -> Result<String, String> {
        let outside = &self.0;
        outside.most.fetch_max(outside.now.fetch_add(1, SeqCst) + 1, SeqCst);
        let refused = outside.refuses.try_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        let did = if refused { Did::Nothing } else { Did::Effect };
        outside.requests.lock().unwrap().push((id.into(), Instant::now(), did));
        if outside.hangs.load(SeqCst) > 0 {
            outside.let_go.notified().await;
        }
        // It takes ten milliseconds of the paused clock to answer.
        let _answers = tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await;
        outside.now.fetch_sub(1, SeqCst);
        if refused { Err("away".into()) } else { Ok(format!("ref-{id}")) }
    }
}

async fn act(op: Operation, State(world): State<World>) -> Result<Applied, Failure> {
    let reference = world.ask(&op.id()[0]).await.no_effect()?;
    Ok(Applied::new(reference, ()))
}

type Declared =
    receipted::handler::NeedsHandler<World, receipted::handler::Part, Vec<receipted::handler::Part>, receipted::handler::Parameters>;

fn declared() -> Declared {
    operation("act.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).attempts_max(1000)
}

async fn rehearsal(world: &World, route: impl Fn(Declared) -> Route<World> + Send + Sync + 'static) -> Rehearsal {
    let world = world.clone();
    Rehearsal::start(move || App::new().topic("acts", route(declared())).with_state(world.clone())).await.unwrap()
}

fn put(app: &mut Rehearsal, ids: std::ops::Range<usize>) {
    for id in ids {
        app.deliver("acts", record().value(format!(r#"{{"id":"{id:03}"}}"#))).unwrap();
    }
}

fn each_once(world: &World, ids: std::ops::Range<usize>) {
    assert_eq!(world.effects(), ids.map(|id| format!("{id:03}")).collect::<Vec<_>>());
}

fn attempts(app: &Rehearsal, id: usize) -> usize {
    app.known("acme", "act.v1", &[&format!("{id:03}")]).unwrap().receipt.admissions().len()
}

fn state(app: &Rehearsal, id: usize) -> &'static str {
    app.state("acme", "act.v1", &[&format!("{id:03}")]).unwrap()
}

// ---- limits of tower

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_than_the_limit_and_each_takes_effect_once() {
    let world = World::default();
    let mut app = rehearsal(&world, |route| route.layer(ConcurrencyLimitLayer::new(3)).handle(act)).await;
    put(&mut app, 0..40);
    app.complete_within(LONG).await.unwrap();
    each_once(&world, 0..40);
    assert_eq!(world.0.most.load(SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn what_waits_at_a_layer_is_not_admitted_so_that_a_kill_leaves_no_doubt_about_it() {
    let world = World::default();
    world.0.hangs.store(1, SeqCst);
    let mut app = rehearsal(&world, |route| route.layer(ConcurrencyLimitLayer::new(2)).time_limit(LONG).handle(act)).await;
    put(&mut app, 0..10);
    app.until(seconds(60), || world.requests() == 2).await.unwrap();
    app.pass(seconds(60)).await;
    let count = |app: &Rehearsal, is: &str| (0..10).filter(|id| state(app, *id) == is).count();
    assert_eq!((count(&app, "in_doubt"), count(&app, "new")), (2, 8));
    app.kill().await;
    world.0.hangs.store(0, SeqCst);
    app.restart().await.unwrap();
    app.complete_within(LONG).await.unwrap();
    assert_eq!((count(&app, "in_doubt"), count(&app, "applied")), (2, 8), "held for a person, as its contract says");
    each_once(&world, 0..10);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_lets_records_wait_and_uses_up_no_attempt() {
    let world = World::default();
    let mut app = rehearsal(&world, |route| route.layer(RateLimitLayer::new(10, seconds(1))).handle(act)).await;
    put(&mut app, 0..35);
    app.complete_within(LONG).await.unwrap();
    each_once(&world, 0..35);
    assert!((0..35).all(|id| attempts(&app, id) == 1));
    for ten in world.times().windows(11).step_by(10) {
        assert!(ten[10] - ten[0] >= Duration::from_millis(990), "eleven within {:?}", ten[10] - ten[0]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_limit_over_two_routes_is_one() {
    let world = World::default();
    let (limit, outside) = (GlobalConcurrencyLimitLayer::new(2), world.clone());
    let both = move || {
        let other = operation("other.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value());
        let other = other.layer(limit.clone()).handle(act);
        App::new().topic("acts", declared().layer(limit.clone()).handle(act)).topic("others", other).with_state(outside.clone())
    };
    let mut app = Rehearsal::start(both).await.unwrap();
    put(&mut app, 0..20);
    for id in 20..40 {
        app.deliver("others", record().value(format!(r#"{{"id":"{id:03}"}}"#))).unwrap();
    }
    app.complete_within(LONG).await.unwrap();
    each_once(&world, 0..40);
    assert_eq!(world.0.most.load(SeqCst), 2);
}

// ---- the breaker

fn breaker() -> Breaker {
    Breaker::new("bank").opens_after(3).stays_open(seconds(30))
}

#[tokio::test(start_paused = true)]
async fn a_breaker_lets_records_wait_while_its_destination_fails_and_other_routes_go_on() {
    let (world, fine, bank) = (World::default(), World::default(), breaker());
    world.0.refuses.store(3, SeqCst);
    let (outside, other, layer) = (world.clone(), fine.clone(), bank.clone());
    let both = move || {
        let acts = declared().layer(layer.clone()).layer(ConcurrencyLimitLayer::new(1)).handle(act);
        let other = other.clone();
        let others = operation("other.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value());
        let others = others.handle(move |op: Operation| {
            let other = other.clone();
            async move { other.ask(&op.id()[0]).await.no_effect().map(|reference| Applied::new(reference, ())) }
        });
        App::new().topic("acts", acts).topic("others", others).with_state(outside.clone())
    };
    let mut app = Rehearsal::start(both).await.unwrap();
    put(&mut app, 0..20);
    app.until(seconds(60), || bank.is_open()).await.unwrap();
    assert_eq!((world.requests(), world.effects().len()), (3, 0));
    for id in 0..20 {
        app.deliver("others", record().value(format!(r#"{{"id":"{id:03}"}}"#))).unwrap();
    }
    app.until(seconds(5), || fine.requests() == 20).await.unwrap();
    app.pass(seconds(20)).await;
    assert_eq!(world.requests(), 3, "nothing is tried while it is open");
    assert_eq!((app.parked().unwrap(), app.dead_letters().len(), app.in_doubt().unwrap()), (0, 0, 0));
    app.complete_within(LONG).await.unwrap();
    each_once(&world, 0..20);
    each_once(&fine, 0..20);
    assert!(!bank.is_open());
    assert_eq!((0..20).map(|id| attempts(&app, id)).sum::<usize>(), 23, "three failed, and the wait used up none");
}

#[tokio::test(start_paused = true)]
async fn a_try_that_fails_keeps_it_open_as_long_again_and_only_one_tries() {
    let (world, bank) = (World::default(), breaker());
    world.0.refuses.store(5, SeqCst);
    let layer = bank.clone();
    let mut app = rehearsal(&world, move |route| route.layer(layer.clone()).layer(ConcurrencyLimitLayer::new(1)).handle(act)).await;
    put(&mut app, 0..10);
    app.complete_within(LONG).await.unwrap();
    each_once(&world, 0..10);
    let times = world.times();
    let gaps: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(gaps.iter().filter(|gap| **gap >= 30).count(), 3, "after the third, and after two tries: {gaps:?}");
    assert_eq!(gaps.iter().skip(2).take(3).filter(|gap| **gap >= 30).count(), 3, "one alone tries: {gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn one_alone_tries_however_many_wait_and_a_try_that_says_nothing_is_followed_by_another() {
    let (world, bank, panics) = (World::default(), breaker(), Arc::new(AtomicU32::new(0)));
    world.0.refuses.store(3, SeqCst);
    let (layer, bugs) = (bank.clone(), panics.clone());
    let mut app = rehearsal(&world, move |route| {
        let bugs = bugs.clone();
        route.layer(layer.clone()).handle(move |op: Operation, state: State<World>| {
            assert!(bugs.try_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err(), "a bug of the handler");
            act(op, state)
        })
    })
    .await;
    put(&mut app, 0..3);
    app.until(seconds(60), || bank.is_open()).await.unwrap();
    put(&mut app, 3..20);
    panics.store(1, SeqCst);
    world.0.hangs.store(1, SeqCst);
    app.until(seconds(60), || world.requests() > 3).await.unwrap();
    app.pass(seconds(10)).await;
    assert_eq!((world.requests(), panics.load(SeqCst), bank.is_open()), (4, 0, true), "the first try panicked, the next one is alone");
    world.0.hangs.store(0, SeqCst);
    world.0.let_go.notify_one();
    app.complete_within(LONG).await.unwrap();
    assert_eq!((app.in_doubt().unwrap(), world.effects().len()), (1, 19), "all but the one that panicked");
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_hangs_opens_it_when_its_attempts_are_given_up() {
    let (world, bank) = (World::default(), breaker());
    world.0.hangs.store(1, SeqCst);
    let layer = bank.clone();
    let mut app =
        rehearsal(&world, move |route| route.layer(layer.clone()).time_limit(seconds(1)).detached_max(seconds(10)).handle(act)).await;
    put(&mut app, 0..3);
    app.pass(seconds(9)).await;
    assert!(!bank.is_open(), "their late answers may still come");
    app.until(seconds(5), || bank.is_open()).await.unwrap();
    put(&mut app, 3..6);
    app.pass(seconds(5)).await;
    assert_eq!(world.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_and_a_panic_do_not_open_it() {
    let (world, bank) = (World::default(), breaker());
    let layer = bank.clone();
    let mut app = rehearsal(&world, move |route| {
        route.layer(layer.clone()).handle(async |op: Operation| {
            assert!(*op.id()[0] < *"010", "a bug of the handler");
            Err::<Applied, _>(Failure::rejected("over the limit"))
        })
    })
    .await;
    put(&mut app, 0..20);
    app.complete_within(seconds(10)).await.unwrap();
    let states = |is: &str| (0..20).filter(|id| state(&app, *id) == is).count();
    assert_eq!((states("rejected"), states("in_doubt"), bank.is_open()), (10, 10, false));
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_breaker() {
    let (world, bank) = (World::default(), breaker().stays_open(LONG));
    world.0.refuses.store(3, SeqCst);
    let layer = bank.clone();
    let mut app = rehearsal(&world, move |route| route.layer(layer.clone()).handle(act)).await;
    put(&mut app, 0..3);
    app.until(seconds(60), || bank.is_open()).await.unwrap();
    put(&mut app, 3..10);
    app.stop().await.unwrap();
    assert_eq!(world.effects(), [""; 0]);
    app.restart().await.unwrap();
    app.complete_within(LONG * 2).await.unwrap();
    each_once(&world, 0..10);
}

// ---- layers of a team's own

/// What a layer of the test fails with.
#[derive(Debug)]
enum Own {
    Inner(LayerFailure),
    NotNow,
    Never,
    Unclear,
}

impl IntoFailure for Own {
    fn into_failure(self) -> Failure {
        match self {
            Self::Inner(failure) => failure.into_failure(),
            Self::NotNow => Failure::no_effect("not now"),
            Self::Never => Failure::rejected("never"),
            Self::Unclear => Failure::unknown("unclear"),
        }
    }
}

type Run = BoxFuture<Result<Ran, Own>>;

/// Does what the test says with each attempt; counts how often its service was made.
#[derive(Clone)]
struct OwnLayer<F>(F, Arc<AtomicU32>);

struct OwnService<F> {
    inner: Attempts,
    each: F,
}

fn own<F: Fn(Attempt, &mut Attempts) -> Run>(each: F) -> OwnLayer<F> {
    OwnLayer(each, Arc::default())
}

impl<F: Clone> Layer<Attempts> for OwnLayer<F> {
    type Service = OwnService<F>;
    fn layer(&self, inner: Attempts) -> OwnService<F> {
        self.1.fetch_add(1, SeqCst);
        OwnService { inner, each: self.0.clone() }
    }
}

impl<F: Fn(Attempt, &mut Attempts) -> Run> Service<Attempt> for OwnService<F> {
    type Response = Ran;
    type Error = Own;
    type Future = Run;
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Own>> {
        self.inner.poll_ready(context).map_err(Own::Inner)
    }
    fn call(&mut self, attempt: Attempt) -> Run {
        (self.each)(attempt, &mut self.inner)
    }
}

/// Polls a future once.
async fn once<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    std::future::poll_fn(|context| {
        let _ = std::pin::Pin::new(&mut *future).poll(context);
        Poll::Ready(())
    })
    .await;
}

async fn one(each: impl Fn(Attempt, &mut Attempts) -> Run + Clone + Send + Sync + 'static) -> (World, Rehearsal) {
    let world = World::default();
    let mut app = rehearsal(&world, move |route| route.layer(own(each.clone())).handle(act)).await;
    put(&mut app, 0..1);
    app.complete_within(LONG).await.unwrap();
    (world, app)
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_drops_the_handlers_future_leaves_the_attempt_unresolved() {
    for failing in [false, true] {
        let (world, app) = one(move |attempt, inner| {
            let mut run = inner.call(attempt);
            Box::pin(async move {
                once(&mut run).await;
                drop(run);
                if failing { Err(Own::NotNow) } else { std::future::pending().await }
            })
        })
        .await;
        assert_eq!((world.effects().len(), state(&app, 0), app.parked().unwrap()), (1, "in_doubt", 1), "whatever the layer says");
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_cannot_take_the_handlers_word_back() {
    let (world, app) = one(|attempt, inner| {
        let run = inner.call(attempt);
        Box::pin(async move {
            drop(run.await);
            Err(Own::NotNow)
        })
    })
    .await;
    assert_eq!((world.effects().len(), state(&app, 0), attempts(&app, 0)), (1, "applied", 1));
    let (world, app) = one(|attempt, inner| {
        let run = inner.call(attempt);
        Box::pin(async move {
            drop(run.await);
            std::future::pending().await
        })
    })
    .await;
    assert_eq!((world.effects().len(), state(&app, 0)), (1, "applied"), "also where the layer never ends");
    let (world, app) = one(|attempt, inner| {
        let run = inner.call(attempt);
        Box::pin(async move {
            drop(run.await);
            panic!("a bug of the layer")
        })
    })
    .await;
    assert_eq!((world.effects().len(), state(&app, 0)), (1, "applied"), "also where it panics");
}

#[tokio::test(start_paused = true)]
async fn what_a_layer_says_before_the_handler_began_counts() {
    let times = Arc::new(AtomicU32::new(0));
    let (world, app) = one({
        let times = times.clone();
        move |attempt, inner| {
            if times.fetch_add(1, SeqCst) < 2 {
                return Box::pin(async { Err(Own::NotNow) });
            }
            let run = inner.call(attempt);
            Box::pin(async move { run.await.map_err(Own::Inner) })
        }
    })
    .await;
    assert_eq!((world.effects().len(), state(&app, 0), attempts(&app, 0)), (1, "applied", 3), "no effect: tried again");
    let (world, app) = one(|_, _| Box::pin(async { Err(Own::Never) })).await;
    assert_eq!((world.requests(), state(&app, 0)), (0, "rejected"));
    let (world, app) = one(|_, _| Box::pin(async { Err(Own::Unclear) })).await;
    assert_eq!((world.requests(), state(&app, 0), app.parked().unwrap()), (0, "in_doubt", 1));
}

#[tokio::test(start_paused = true)]
async fn a_layer_cannot_answer_with_what_another_attempt_said() {
    let (world, kept) = (World::default(), Arc::new(Mutex::new(None::<Ran>)));
    let each = move |attempt: Attempt, inner: &mut Attempts| -> Run {
        let kept = kept.clone();
        if let Some(ran) = kept.lock().unwrap().clone() {
            return Box::pin(async { Ok(ran) });
        }
        let run = inner.call(attempt);
        Box::pin(async move {
            let ran = run.await.map_err(Own::Inner)?;
            *kept.lock().unwrap() = Some(ran.clone());
            Ok(ran)
        })
    };
    let mut app = rehearsal(&world, move |route| route.layer(own(each.clone())).handle(act)).await;
    put(&mut app, 0..1);
    app.complete_within(LONG).await.unwrap();
    put(&mut app, 1..2);
    app.complete_within(LONG).await.unwrap();
    assert_eq!((world.effects().len(), state(&app, 0), state(&app, 1)), (1, "applied", "in_doubt"));
}

/// Hands the handler's future to a task of its own, before the admission.
fn spawning(attempt: Attempt, inner: &mut Attempts) -> Run {
    let run = tokio::spawn(inner.call(attempt));
    Box::pin(async move { run.await.unwrap().map_err(Own::Inner) })
}

#[tokio::test(start_paused = true)]
async fn no_layer_can_run_the_handler_before_its_admission_is_durable() {
    let world = World::default();
    let mut app = rehearsal(&world, |route| route.layer(own(spawning)).handle(act)).await;
    app.store().fail_next([Fault::Lose]);
    put(&mut app, 0..1);
    app.pass(seconds(60)).await;
    assert_eq!(world.requests(), 0, "its admission was lost");
    app.kill().await;
    app.restart().await.unwrap();
    app.complete_within(LONG).await.unwrap();
    each_once(&world, 0..1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_in_a_task_of_a_layers_own_still_has_the_last_word() {
    // The layer ends at once; the handler goes on elsewhere, and is waited for.
    let (world, app) = one(|attempt, inner| {
        let run = tokio::spawn(inner.call(attempt));
        Box::pin(async move {
            drop(run);
            Err(Own::Unclear)
        })
    })
    .await;
    assert_eq!((world.effects().len(), state(&app, 0)), (1, "applied"));
    // At its end the handler is stopped there too: nothing runs that nobody waits for.
    let world = World::default();
    world.0.hangs.store(1, SeqCst);
    let limits = |route: Declared| route.time_limit(seconds(1)).detached_max(seconds(2)).layer(own(spawning)).handle(act);
    let mut app = rehearsal(&world, limits).await;
    put(&mut app, 0..1);
    app.complete_within(LONG).await.unwrap();
    app.pass(seconds(10)).await;
    assert_eq!(state(&app, 0), "in_doubt");
    world.0.let_go.notify_one();
    app.pass(seconds(10)).await;
    assert_eq!(world.0.now.load(SeqCst), 1, "it did not go on");
}

#[tokio::test(start_paused = true)]
async fn a_layers_panic_before_the_handler_is_no_effect_and_after_it_unknown() {
    let times = Arc::new(AtomicU32::new(0));
    let (world, app) = one({
        let times = times.clone();
        move |attempt, inner| {
            match times.fetch_add(1, SeqCst) {
                0 => panic!("in the call"),
                1 => return Box::pin(async { panic!("in the future") }),
                _ => {}
            }
            let run = inner.call(attempt);
            Box::pin(async move { run.await.map_err(Own::Inner) })
        }
    })
    .await;
    assert_eq!((world.effects().len(), state(&app, 0), attempts(&app, 0)), (1, "applied", 3));
    let (world, app) = one(|attempt, inner| {
        let mut run = inner.call(attempt);
        Box::pin(async move {
            once(&mut run).await;
            panic!("a bug of the layer")
        })
    })
    .await;
    assert_eq!((world.effects().len(), state(&app, 0)), (1, "in_doubt"));
}

/// Fails to be ready as often as it is told.
#[derive(Clone)]
struct Unready(Arc<AtomicU32>, Arc<AtomicU32>);
struct UnreadyService(Attempts, Unready);

impl Layer<Attempts> for Unready {
    type Service = UnreadyService;
    fn layer(&self, inner: Attempts) -> UnreadyService {
        self.1.fetch_add(1, SeqCst);
        UnreadyService(inner, self.clone())
    }
}

impl Service<Attempt> for UnreadyService {
    type Response = Ran;
    type Error = Own;
    type Future = Run;
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Own>> {
        match self.1.0.fetch_add(1, SeqCst) {
            0 => Poll::Ready(Err(Own::Never)),
            1 => panic!("a bug of the layer"),
            _ => Poll::Ready(ready!(self.0.poll_ready(context)).map_err(Own::Inner)),
        }
    }
    fn call(&mut self, attempt: Attempt) -> Run {
        let run = self.0.call(attempt);
        Box::pin(async move { run.await.map_err(Own::Inner) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_fails_to_be_ready_is_made_afresh_and_costs_no_attempt() {
    let (world, layer) = (World::default(), Unready(Arc::default(), Arc::default()));
    let own = layer.clone();
    let mut app = rehearsal(&world, move |route| route.layer(own.clone()).handle(act)).await;
    put(&mut app, 0..3);
    app.complete_within(LONG).await.unwrap();
    each_once(&world, 0..3);
    assert_eq!(layer.1.load(SeqCst), 3, "made three times");
    assert!((0..3).all(|id| attempts(&app, id) == 1));
}

// ---- what else is told of a route

#[tokio::test(start_paused = true)]
async fn an_argument_that_cannot_be_made_gives_its_place_back() {
    let world = World::default();
    let mut app = rehearsal(&world, |route| {
        route
            .layer(ConcurrencyLimitLayer::new(1))
            .handle(async |Json(_): Json<Vec<u8>>, op: Operation, State(world): State<World>| act(op, State(world)).await)
    })
    .await;
    put(&mut app, 0..5);
    app.complete_within(LONG).await.unwrap();
    assert_eq!((app.dead_letters().len(), world.requests()), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn a_single_delivery_goes_through_the_layers_too() {
    let world = World::default();
    let route = declared().layer(own(|_, _| Box::pin(async { Err(Own::NotNow) }))).handle(act);
    let routes = App::new().topic("acts", route).with_state(world.clone()).build().unwrap();
    assert_eq!(deliver(&routes, "acts", record().value(r#"{"id":"1"}"#)).await.label(), "no_effect");
    assert_eq!(world.requests(), 0);
    assert!(routes.to_string().contains("  layers       "), "{routes}");
}

#[test]
fn routes_of_one_operation_with_layers_are_one_route_or_refused() {
    let route = || declared().layer(ConcurrencyLimitLayer::new(1)).handle(act);
    let error = App::new().topic("a", route()).topic("b", route()).with_state(World::default()).build().unwrap_err().to_string();
    assert!(error.contains("layers"), "{error}");
}
