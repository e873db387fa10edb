//! Owns child processes that are this test binary in another role, and waiting with a bound.
//! Does not own what a role does.

use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Names the role of a child process.
pub const ROLE: &str = "RECEIPTED_TEST_ROLE";
/// Lines of a child's output that a failure text quotes.
const QUOTED_LINES_MAX: usize = 200;

/// The `main` of a suite: runs its tests, or the role that the environment names.
pub fn run(tests: Vec<Trial>, roles: &[(&str, fn())]) -> ! {
    play(roles);
    libtest_mimic::run(&Arguments::from_args(), tests).exit()
}

/// Plays the role that the environment names, and ends the process with it. Returns when it names none.
pub fn play(roles: &[(&str, fn())]) {
    if let Ok(role) = std::env::var(ROLE) {
        let Some((_, start)) = roles.iter().find(|(name, _)| *name == role) else { panic!("this program has no role {role:?}") };
        end_with_parent();
        start();
        std::process::exit(0);
    }
}

/// Ends this process with its parent, however that one dies: it holds the other end of our standard input.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        std::process::exit(70);
    });
}

/// A role about to start.
pub struct Start {
    name: String,
    command: Command,
}

/// Where cargo puts an example that belongs to this test's build. `cargo test` builds it; `cargo test --test demo` alone does not.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    let built = path.metadata().and_then(|file| file.modified());
    let sources = std::fs::read_to_string(path.with_extension("d")).unwrap_or_default();
    let newer = |source: &&str| Path::new(source).metadata().and_then(|file| file.modified()).ok() > built.as_ref().ok().copied();
    let stale = sources.split_whitespace().skip(1).find(newer);
    assert!(built.is_ok() && stale.is_none(), "{} is not built, or before {stale:?}: cargo build --example {name}", path.display());
    path
}

/// This test binary, to be started again as `role`.
pub fn role(role: &str) -> Start {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test binary"));
    command.env(ROLE, role);
    Start { name: role.to_owned(), command }
}

/// Another program as a child with the same care.
pub fn program(name: &str, command: Command) -> Start {
    Start { name: name.to_owned(), command }
}

impl Start {
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Another program runs it, and becomes it: `strace -D`, whose child is the one that is killed and waited for.
    pub fn under(self, program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).arg(self.command.get_program()).args(self.command.get_args());
        self.command.get_envs().for_each(|(name, value)| match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        });
        Self { name: self.name, command }
    }

    pub fn arg(mut self, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(value);
        self
    }

    pub fn start(mut self) -> Child {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{} does not start: {error}", self.name));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let readers = vec![
            gather("out", child.stdout.take().expect("piped"), lines.clone()),
            gather("err", child.stderr.take().expect("piped"), lines.clone()),
        ];
        Child { stdin: child.stdin.take(), name: self.name, child, lines, readers, status: None }
    }
}

fn gather(stream: &'static str, source: impl Read + Send + 'static, lines: Arc<Mutex<Vec<String>>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        while matches!(source.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            lines.lock().unwrap().push(format!("{stream}| {}", String::from_utf8_lossy(&line).trim_end()));
            line.clear();
        }
    })
}

/// A running child; killed when dropped.
pub struct Child {
    name: String,
    child: std::process::Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    readers: Vec<std::thread::JoinHandle<()>>,
    status: Option<ExitStatus>,
}

impl Child {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with signal 9 and waits until it is gone.
    pub fn kill(&mut self) {
        if self.status.is_none() {
            self.child.kill().expect("the child is ours");
            self.status = Some(self.child.wait().expect("the child is ours"));
        }
    }

    /// Sends any other signal (`Signal::TERM`, `STOP`, `CONT`).
    pub fn signal(&self, signal: Signal) {
        assert!(self.status.is_none(), "{} has ended already", self.name);
        kill_process(Pid::from_child(&self.child), signal).expect("the child is ours and not waited for");
    }

    /// Ends its standard input, which ends a role.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("the child is ours");
        }
        self.status
    }

    /// Waits for its end. Fails with its output when it runs on.
    pub fn wait(&mut self, bound: Duration) -> ExitStatus {
        let deadline = Instant::now() + bound;
        loop {
            if let Some(status) = self.ended() {
                // Everything written before the end is read before we look at it.
                self.readers.drain(..).for_each(|reader| reader.join().expect("a reader"));
                return status;
            }
            assert!(Instant::now() < deadline, "{} still runs after {bound:?}\n{}", self.name, self.output());
            pause();
        }
    }

    /// Waits for its end and fails unless that was exit code 0.
    pub fn wait_success(&mut self, bound: Duration) {
        let status = self.wait(bound);
        assert!(status.success(), "{} ended with {status}\n{}", self.name, self.output());
    }

    /// Waits for an output line that contains `part`, and returns it. Fails early when the child ends.
    pub fn wait_line(&mut self, part: &str, bound: Duration) -> String {
        let deadline = Instant::now() + bound;
        loop {
            let ended = self.ended();
            if ended.is_some() {
                self.readers.drain(..).for_each(|reader| reader.join().expect("a reader"));
            }
            if let Some(line) = self.lines.lock().unwrap().iter().find(|line| line.contains(part)) {
                return line[5..].to_owned();
            }
            if let Some(status) = ended {
                panic!("{} ended with {status} before it said {part:?}\n{}", self.name, self.output());
            }
            assert!(Instant::now() < deadline, "{} did not say {part:?} in {bound:?}\n{}", self.name, self.output());
            pause();
        }
    }

    /// What it wrote so far, the last lines, each with the stream it came from.
    pub fn output(&self) -> String {
        let lines = self.lines.lock().unwrap();
        let skipped = lines.len().saturating_sub(QUOTED_LINES_MAX);
        format!("---- output of {} (pid {}), {skipped} lines left out\n{}\n----", self.name, self.pid(), lines[skipped..].join("\n"))
    }

    /// The newest line that begins with `part`, without the stream's name.
    pub fn newest_line(&self, part: &str) -> Option<String> {
        let lines = self.lines.lock().unwrap();
        lines.iter().rev().map(|line| &line[5..]).find(|line| line.starts_with(part)).map(str::to_owned)
    }

    /// All lines so far, without the stream's name.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().map(|line| line[5..].to_owned()).collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.output());
        }
    }
}

/// One step of a bounded wait.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Waits until the condition holds. Fails with `what` after `bound`.
#[track_caller]
pub fn wait_until(what: &str, bound: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, bound, || condition().then_some(()));
}

/// Waits until there is something. Fails with `what` after `bound`.
#[track_caller]
pub fn wait_for<T>(what: &str, bound: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + bound;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {bound:?} in vain: {what}");
        pause();
    }
}
