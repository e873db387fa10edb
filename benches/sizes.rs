//! How a store grows, and what its starts and stops cost: bytes on disk, the time of an open after a clean stop and after a kill -9, from
//! the start of that process to its first admission that is durable, of a close, and resident memory, each in a process of its own. `cargo bench --bench sizes [-- RECEIPTS …]`, 100,000 and a million when
//! nothing is said; ten million take some ten minutes and ten gigabytes.

#[path = "support/receipts.rs"]
mod receipts;

use receipted::{
    protocol::{
        key::OperationKey,
        known::{Entry, Revision},
        note::Fact,
    },
    store::{
        Batch, ReceiptStore,
        sled::{Options, SledStore},
    },
};
use receipts::{ATTEMPT, admission, applied, name};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

/// As large as the groups of a busy runner.
const GROUP: usize = 1024;
const ROLE: &str = "RECEIPTED_SIZES_STORE";

fn main() {
    if let Some(root) = std::env::var_os(ROLE) {
        return opened(Path::new(&root));
    }
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![100_000, 1_000_000] } else { asked };
    println!(
        "{:>10} {:>12} {:>8} {:>11} {:>11} {:>15} {:>9} {:>10} {:>10}",
        "receipts", "on disk", "each", "open, clean", "after kill", "first admission", "close", "resident", "after kill"
    );
    for count in counts {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = directory.path().join("store");
        let bytes = fill(&root, count);
        let clean = Started::on(&root);
        let (open, resident) = (clean.open, clean.resident);
        let close = clean.close();
        // What the process had open is lost with it.
        Started::on(&root).kill();
        let killed = Started::on(&root);
        println!(
            "{count:>10} {:>9} MB {:>6} B {:>9.2} s {:>9.2} s {:>13.2} s {:>7.2} s {:>7} MB {:>7} MB",
            bytes >> 20,
            bytes / count as u64,
            open.as_secs_f64(),
            killed.open.as_secs_f64(),
            killed.admitted.as_secs_f64(),
            close.as_secs_f64(),
            resident >> 20,
            killed.resident >> 20,
        );
        killed.kill();
    }
}

/// Operations with an admission and a fact each, as charges have them.
fn fill(root: &Path, count: usize) -> u64 {
    let store = SledStore::open(&Options::new(root)).expect("the store opens");
    for from in (0..count).step_by(GROUP) {
        let numbers = from..(from + GROUP).min(count);
        let names: Vec<_> = numbers.clone().map(name).collect();
        let fact =
            |(i, name): (usize, &OperationKey)| Entry::Fact { key: name.digest(), attempt: ATTEMPT, fact: Fact::Applied(applied(i)) };
        store.append(Batch(numbers.clone().zip(&names).map(|(i, name)| admit(i, name)).collect())).expect("durable");
        store.append(Batch(numbers.zip(&names).map(fact).collect())).expect("durable");
    }
    let bytes = store.sizes().store_bytes;
    store.close().expect("closes");
    bytes
}

fn admit(number: usize, name: &OperationKey) -> Entry {
    Entry::Admit {
        key: name.digest(),
        name: Some(Arc::new(name.clone())),
        seen: Revision(0),
        attempt: ATTEMPT,
        admission: Box::new(admission(number)),
        within: None,
    }
}

/// A process that has opened the store and admitted an operation, and says so.
struct Started {
    child: Child,
    open: Duration,
    /// From its start to its first admission that is durable.
    admitted: Duration,
    resident: u64,
}

impl Started {
    fn on(root: &Path) -> Self {
        let own = std::env::current_exe().expect("this program");
        let began = Instant::now();
        let mut child = Command::new(own).env(ROLE, root).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let line = read(&mut child);
        let admitted = began.elapsed();
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().expect("a number"));
        let (millis, resident) = (numbers.next().expect("a time"), numbers.next().expect("a size"));
        Self { child, open: Duration::from_millis(millis), admitted, resident }
    }

    fn close(mut self) -> Duration {
        self.child.stdin.take().expect("its input").write_all(b"close\n").expect("it listens");
        let took = read(&mut self.child).trim().parse().expect("a number");
        self.child.wait().expect("it ends");
        Duration::from_millis(took)
    }

    fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ends");
    }
}

fn read(child: &mut Child) -> String {
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("its output");
    BufReader::with_capacity(1, output).read_line(&mut line).expect("it answers");
    line
}

fn opened(root: &Path) {
    let began = Instant::now();
    let store = SledStore::open(&Options::new(root)).expect("the store opens");
    let open = began.elapsed();
    // No operation of the store's, and another one in each process.
    let number = 1 << 40 | std::process::id() as usize;
    store.append(Batch(vec![admit(number, &name(number))])).expect("durable");
    println!("{} {}", open.as_millis(), resident());
    let mut word = String::new();
    std::io::stdin().read_line(&mut word).expect("a word");
    let began = Instant::now();
    store.close().expect("closes");
    println!("{}", began.elapsed().as_millis());
}

/// Bytes of memory that this process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<u64>().ok()).expect("a number") << 10
}
