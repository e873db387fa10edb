//! Owns a real Apache Kafka on loopback for one test binary, or the one that `RECEIPTED_TEST_BROKERS` names.
//! Does not own what tests do on it: that is [`Cluster`].

use super::cluster::Cluster;
use super::process::{pause, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Names a broker that runs already.
pub const BROKERS: &str = "RECEIPTED_TEST_BROKERS";
const START_MAX: Duration = Duration::from_secs(60);
/// Another process may take a port between our asking for it and the broker's.
const STARTS_MAX: usize = 3;
const LOG_LINES_QUOTED: usize = 30;

/// Kills the broker when our end of its input closes, which the kernel does however we die.
const WATCHDOG: &str = r#"
dir=$1; shift
"$@" >>"$dir/broker.log" 2>&1 </dev/null &
pid=$!
echo "$pid"
read -r word || word=remove
kill -9 "$pid"; wait "$pid" 2>/dev/null
[ "$word" = keep ] || rm -rf "$dir"
"#;

/// The broker of this test binary; the first caller starts it. Fails with the reason when there is none to be had.
#[track_caller]
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Result<(Cluster, Option<Broker>), String>> = OnceLock::new();
    let started = SHARED.get_or_init(|| match std::env::var(BROKERS).ok().filter(|brokers| !brokers.is_empty()) {
        Some(brokers) => {
            let cluster = Cluster::new(brokers);
            cluster.ready(START_MAX).map_err(|error| format!("{BROKERS} names {}: {error}", cluster.brokers()))?;
            Ok((cluster, None))
        }
        None => Broker::try_start().map(|broker| (broker.cluster.clone(), Some(broker))),
    });
    match started {
        Ok((cluster, _)) => cluster,
        Err(reason) => panic!("no Kafka broker to test on: {reason}"),
    }
}

/// A broker of one's own, for tests that kill it. Ends when dropped.
pub struct Broker {
    cluster: Cluster,
    directory: PathBuf,
    /// The watchdog; gone while the broker is down.
    watchdog: Option<Child>,
    pid: u32,
}

impl Deref for Broker {
    type Target = Cluster;
    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Broker {
    /// Starts a broker with an empty log. Fails with the reason when there is none to be had.
    #[track_caller]
    pub fn start() -> Self {
        Self::try_start().unwrap_or_else(|reason| panic!("no Kafka broker to test on: {reason}"))
    }

    fn try_start() -> Result<Self, String> {
        Self::try_start_with(&Extra::default())
    }

    /// Starts one that listens elsewhere too.
    #[track_caller]
    pub fn start_with(extra: &Extra) -> Self {
        Self::try_start_with(extra).unwrap_or_else(|reason| panic!("no Kafka broker to test on: {reason}"))
    }

    fn try_start_with(extra: &Extra) -> Result<Self, String> {
        fetch()?;
        let mut failure = String::new();
        for _ in 0..STARTS_MAX {
            let mut broker = Self::format(extra)?;
            match broker.up() {
                Ok(()) => return Ok(broker),
                Err(reason) => failure = reason,
            }
        }
        Err(failure)
    }

    fn format(extra: &Extra) -> Result<Self, String> {
        let ports = free_ports().map_err(|error| format!("no free port on loopback: {error}"))?;
        let directory = tempfile::Builder::new().prefix("receipted-kafka-").tempdir().map_err(|error| error.to_string())?.keep();
        let cluster = Cluster::new(format!("127.0.0.1:{}", ports[0]));
        let broker = Self { cluster, directory, watchdog: None, pid: 0 };
        std::fs::write(broker.properties(), properties(&broker.directory, ports, extra)).map_err(|error| error.to_string())?;
        let format = java()
            .args(["kafka.tools.StorageTool", "format", "-t", &cluster_id(), "-c"])
            .arg(broker.properties())
            .args(&extra.format)
            .output()
            .map_err(|error| format!("java does not start: {error}"))?;
        if !format.status.success() {
            let said = String::from_utf8_lossy(&format.stderr).into_owned() + &String::from_utf8_lossy(&format.stdout);
            return Err(format!("Kafka's storage could not be formatted ({}; Java 17 or newer is needed): {said}", format.status));
        }
        Ok(broker)
    }

    fn properties(&self) -> PathBuf {
        self.directory.join("server.properties")
    }

    /// Kills the broker with signal 9; its log stays.
    pub fn kill(&mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            end(watchdog, "keep");
        }
    }

    /// Starts a killed broker again, on the same log and the same port.
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.watchdog.is_none(), "the broker is up");
        self.up().unwrap_or_else(|reason| panic!("the broker does not come back: {reason}"));
    }

    fn up(&mut self) -> Result<(), String> {
        let mut command = java();
        command.arg("kafka.Kafka").arg(self.properties());
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", WATCHDOG, "receipted-kafka"]).arg(&self.directory).arg(command.get_program()).args(command.get_args());
        std::os::unix::process::CommandExt::process_group(&mut watchdog, 0); // an interrupt is for us; we then take the broker along
        let mut watchdog =
            watchdog.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| format!("sh does not start: {error}"))?;
        let mut said = String::new();
        BufReader::new(watchdog.stdout.take().ok_or("no output")?).read_line(&mut said).map_err(|error| error.to_string())?;
        self.pid = said.trim().parse().map_err(|_| format!("the watchdog said {said:?} instead of a process id"))?;
        self.watchdog = Some(watchdog);
        let deadline = Instant::now() + START_MAX;
        while let Err(error) = self.cluster.ready(Duration::from_millis(500)) {
            if !alive(self.pid) {
                return Err(format!("the broker ended at once:\n{}", self.log_tail()));
            }
            if Instant::now() > deadline {
                return Err(format!("the broker does not answer after {START_MAX:?}: {error}\n{}", self.log_tail()));
            }
            pause();
        }
        Ok(())
    }

    /// The broker's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.directory.join("broker.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_QUOTED)..].join("\n")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        match self.watchdog.take() {
            Some(watchdog) => end(watchdog, "remove"),
            None => drop(std::fs::remove_dir_all(&self.directory)),
        }
    }
}

fn end(mut watchdog: Child, word: &str) {
    if let Some(mut stdin) = watchdog.stdin.take() {
        let _ = writeln!(stdin, "{word}");
    }
    let _ = watchdog.wait();
}

/// Whether a process runs; one that ended and was not waited for does not.
pub fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

/// Waits until a process is gone.
#[track_caller]
pub fn wait_gone(pid: u32, bound: Duration) {
    wait_until(&format!("the end of process {pid}"), bound, || !alive(pid));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Brings the jars, once for all test binaries; the script holds a lock.
fn fetch() -> Result<(), String> {
    let fetch = Command::new("bash")
        .arg(root().join("tools/kafka/fetch.sh"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("bash does not start: {error}"))?;
    if fetch.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&fetch.stderr).trim().to_owned()) }
}

fn java() -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]).arg(root().join(".cache/kafka/lib/*"));
    command
}

/// Kafka wants sixteen random bytes in URL-safe base64; without a dash in front, for its command line.
fn cluster_id() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{}A", &random[..21])
}

fn free_ports() -> std::io::Result<[u16; 2]> {
    // Both at once, so that they differ.
    let held = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([held[0].local_addr()?.port(), held[1].local_addr()?.port()])
}

/// What a broker has beside a plain listener.
#[derive(Default)]
pub struct Extra {
    /// Name, port and protocol of each further listener.
    pub listeners: Vec<(&'static str, u16, &'static str)>,
    /// Further lines of its properties.
    pub properties: Vec<String>,
    /// Further arguments for formatting its storage.
    pub format: Vec<String>,
}

fn properties(directory: &Path, [broker, controller]: [u16; 2], extra: &Extra) -> String {
    let logs = directory.join("log");
    let more = |separator: &str, of: fn(&(&str, u16, &str)) -> String| -> String {
        extra.listeners.iter().map(|listener| format!("{separator}{}", of(listener))).collect()
    };
    let addresses = more(",", |(name, port, _)| format!("{name}://127.0.0.1:{port}"));
    let protocols = more(",", |(name, _, protocol)| format!("{name}:{protocol}"));
    [
        "process.roles=broker,controller".to_owned(),
        "node.id=1".into(),
        format!("controller.quorum.voters=1@127.0.0.1:{controller}"),
        format!("listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}{addresses}"),
        format!("advertised.listeners=PLAINTEXT://127.0.0.1:{broker}{addresses}"),
        "controller.listener.names=CONTROLLER".into(),
        format!("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}"),
        "inter.broker.listener.name=PLAINTEXT".into(),
        format!("log.dirs={}", logs.display()),
        "offsets.topic.replication.factor=1".into(),
        "offsets.topic.num.partitions=4".into(),
        "transaction.state.log.replication.factor=1".into(),
        "transaction.state.log.min.isr=1".into(),
        "transaction.state.log.num.partitions=4".into(),
        "share.coordinator.state.topic.replication.factor=1".into(),
        "share.coordinator.state.topic.min.isr=1".into(),
        "share.coordinator.state.topic.num.partitions=4".into(),
        "group.initial.rebalance.delay.ms=0".into(),
        // Short sessions, so that a killed member without a static name is gone soon.
        "group.min.session.timeout.ms=1000".into(),
        "auto.create.topics.enable=false".into(),
        // Records of any age stay, and of any size that a test needs.
        "log.retention.ms=-1".into(),
        "log.message.timestamp.after.max.ms=9223372036854775807".into(),
        "message.max.bytes=33554432".into(),
    ]
    .into_iter()
    .chain(extra.properties.iter().cloned())
    .map(|line| line + "\n")
    .collect()
}
