//! The house rules, held as tests. Each rule is a function from sources to what is wrong with them, and the last test
//! plants a fault for each, so that none of them can go blind.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

#[path = "tidy/crash_points.rs"]
mod crash_points;
#[path = "tidy/examples.rs"]
mod examples;
#[path = "tidy/source.rs"]
mod source;

use source::{Source, files, functions, sources};
use std::collections::{BTreeMap, BTreeSet};

const FILE_LINES_MAX: usize = 600;
const FILE_LINES_90TH_MAX: usize = 400;
const FILE_LINES_MEDIAN_WISH: usize = 150;
const FUNCTION_LINES_MAX: usize = 100;
const FUNCTION_LINES_NEAR: usize = 70;
/// One function in so many may be longer than near the wish.
const LONG_FUNCTION_ONE_IN: usize = 50;

/// A part may use the parts of every row above its own, and itself: the picture of docs/ARCHITECTURE.md, row for row.
/// The longest path that fits decides. `main` is what ties the parts together: main.rs, lib.rs, prelude.rs.
const LEVELS: &[&[&str]] = &[
    &["protocol", "crash"],
    &["store", "handler"],
    &["config", "admin::command"],
    &["telemetry"],
    &["dead_letter", "reconcile"],
    &["runner"],
    &["handover", "testing"],
    &["admin"],
    &["cli"],
    &["main"],
];

/// Where a test may wait by the clock: one step of a wait that has a bound; and a pause that only chooses where a kill hits.
const MAY_SLEEP: &[&str] = &["tests/support/process.rs", "tests/support/service.rs", "tests/store/kill.rs"];

/// The general words that would blur ours (DESIGN, words), and where they are right.
const BLURRED: &[&str] = &["message", "messages", "event", "events", "job", "jobs"];
const BLURRED_BUT_RIGHT: &[&str] = &[
    "error message",
    "error messages",
    "commit message",
    "commit messages",
    "compiler's message",
    // What goes into the machine; its enum is called `Event`.
    "events and both clocks",
    "the events, the actions",
];

/// Guarantees that no test shows yet. To be emptied.
const NOT_SHOWN_YET: &[&str] = &["G7"];
const NOT_SHOWN_YET_TEXT: &str = "not shown yet";

#[track_caller]
fn assert_tidy(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} against the house rules:\n{}", wrong.len(), wrong.join("\n"));
}

/// The line of a place in a text.
fn line(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Places of a word, or of a path or call that begins and ends with one.
fn places<'a>(code: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(wanted).map(|(at, _)| at).filter(move |at| {
        let open_before = !wanted.starts_with(is_word) || !code[..*at].ends_with(is_word);
        open_before && (!wanted.ends_with(is_word) || !code[at + wanted.len()..].starts_with(is_word))
    })
}

// ---- sizes

fn too_long_files(sources: &[Source]) -> Vec<String> {
    let mut sizes: Vec<_> = sources.iter().filter(|source| !source.is_test()).map(|source| (source.lines(), &source.path)).collect();
    sizes.sort_unstable();
    let mut wrong: Vec<_> = sizes
        .iter()
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, path)| format!("{path}: {lines} lines, at most {FILE_LINES_MAX}: give part of it a file of its own"))
        .collect();
    if let Some((lines, path)) =
        sizes.get((sizes.len() * 9).div_ceil(10).saturating_sub(1)).filter(|(lines, _)| *lines > FILE_LINES_90TH_MAX)
    {
        wrong.push(format!("one file in ten is longer than {FILE_LINES_90TH_MAX} lines, from {path} ({lines}) on"));
    }
    if let Some((median, _)) = sizes.get(sizes.len() / 2) {
        println!("median {median} lines a file (wish: {FILE_LINES_MEDIAN_WISH})");
    }
    wrong
}

fn too_long_functions(sources: &[Source]) -> Vec<String> {
    let product = sources.iter().filter(|source| !source.is_test());
    let all: Vec<_> = product.flat_map(|source| functions(&source.product()).into_iter().map(|found| (&source.path, found))).collect();
    let say = |(path, (name, line, lines)): &(&String, (String, usize, usize))| format!("{path}:{line}: fn {name} has {lines} lines");
    let mut wrong: Vec<_> = all.iter().filter(|(_, (_, _, lines))| *lines > FUNCTION_LINES_MAX).map(say).collect();
    let long: Vec<_> = all.iter().filter(|(_, (_, _, lines))| *lines > FUNCTION_LINES_NEAR).map(say).collect();
    if long.len() * LONG_FUNCTION_ONE_IN > all.len().max(LONG_FUNCTION_ONE_IN) {
        wrong.push(format!("more than one function in {LONG_FUNCTION_ONE_IN} is longer than {FUNCTION_LINES_NEAR} lines:"));
        wrong.extend(long);
    }
    wrong
}

#[test]
fn source_files_and_functions_stay_small() {
    assert_tidy(too_long_files(&sources("src")));
    assert_tidy(too_long_functions(&sources("src")));
}

// ---- imports

/// The part that a module path belongs to, by the longest name that fits, and its row.
fn part_of(path: &[&str]) -> Option<(&'static str, usize)> {
    let fits = |part: &str| part.split("::").enumerate().all(|(at, name)| path.get(at) == Some(&name));
    let parts = LEVELS.iter().enumerate().flat_map(|(row, parts)| parts.iter().map(move |part| (*part, row)));
    parts.filter(|(part, _)| fits(part)).max_by_key(|(part, _)| part.len())
}

fn module_of(path: &str) -> Vec<&str> {
    let inside = path.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs")).unwrap_or_default();
    let mut parts: Vec<_> = inside.split('/').collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    if matches!(parts[..], ["main" | "lib" | "prelude"]) { vec!["main"] } else { parts }
}

/// The paths after each `crate::`, groups taken apart.
fn used(code: &str) -> Vec<(usize, Vec<String>)> {
    let starts = places(code, "crate::").filter(|at| !code[..*at].ends_with('$'));
    starts.flat_map(|at| paths(&code[at + "crate::".len()..]).0.into_iter().map(move |path| (at, path))).collect()
}

/// All paths of a use tree, and how much text it takes.
fn paths(text: &str) -> (Vec<Vec<String>>, usize) {
    let skip = |at: usize| at + text[at..].len() - text[at..].trim_start().len();
    let mut at = skip(0);
    if text[at..].starts_with('{') {
        let mut all = Vec::new();
        at = skip(at + 1);
        while at < text.len() && !text[at..].starts_with('}') {
            let (inner, length) = paths(&text[at..]);
            all.extend(inner);
            at = skip(at + length.max(1));
            // What follows a name inside a group: `as other`, then a comma.
            at += text[at..].find([',', '}']).unwrap_or(text.len() - at);
            at = skip(at + usize::from(text[at..].starts_with(',')));
        }
        return (all, at + 1);
    }
    let name: String = text[at..].chars().take_while(|c| is_word(*c)).collect();
    let end = at + name.len();
    match text[end..].strip_prefix("::") {
        Some(rest) => {
            let (inner, length) = paths(rest);
            let all = if inner.is_empty() { vec![vec![]] } else { inner };
            (all.into_iter().map(|path| [vec![name.clone()], path].concat()).collect(), end + 2 + length)
        }
        None => (if name.is_empty() { vec![] } else { vec![vec![name]] }, end),
    }
}

fn wrong_imports(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources {
        let module = module_of(&source.path);
        let Some((from, row)) = part_of(&module) else {
            wrong.push(format!("{}: this part has no row in the table of import directions", source.path));
            continue;
        };
        for (at, path) in used(&source.product()) {
            let path: Vec<_> = path.iter().map(String::as_str).collect();
            // What is no part is an item of lib.rs, such as a macro.
            let Some((to, above)) = part_of(&path) else { continue };
            if to != from && above >= row {
                wrong.push(format!("{}:{}: {from} must not use {to}", source.path, line(&source.code, at)));
            }
        }
    }
    wrong
}

#[test]
fn imports_point_one_way() {
    assert_tidy(wrong_imports(&sources("src")));
}

#[test]
fn the_table_of_import_directions_is_the_picture_in_the_docs() {
    let documents = files("docs", "ARCHITECTURE.md");
    let cell = |parts: &[&str]| parts.iter().map(|part| format!("`{part}`")).collect::<Vec<_>>().join(", ");
    let rows: Vec<_> = LEVELS.iter().enumerate().map(|(row, parts)| format!("| {} | {} |", row + 1, cell(parts))).collect();
    let documented: Vec<_> = documents[0].1.lines().skip_while(|line| !line.starts_with("| row | parts |")).skip(2).collect();
    let documented: Vec<_> = documented.into_iter().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(documented, rows, "docs/ARCHITECTURE.md has other rows than this test; they should be\n{}\n", rows.join("\n"));
}

// ---- bans

const NOT_IN_THE_CORE: &[(&str, &str)] = &[
    ("tokio", "the core knows no runtime"),
    ("async", "the core is not async"),
    (".await", "the core is not async"),
    ("Instant::now", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("rand", "random values are arguments"),
    ("new_v4", "random values are arguments"),
    ("tracing", "the core writes no log"),
    ("metrics", "the core counts nothing"),
    ("println!", "the core writes nothing"),
    ("eprintln!", "the core writes nothing"),
    ("std::fs", "the core does no I/O"),
    ("std::net", "the core does no I/O"),
    ("std::env", "settings are arguments"),
    ("std::thread", "the core has no threads"),
    ("rdkafka", "the core knows no Kafka"),
    ("sled", "the core knows no store"),
];

fn impure(sources: &[Source]) -> Vec<String> {
    let core = sources.iter().filter(|source| source.path.starts_with("src/protocol/"));
    let mut wrong = Vec::new();
    for source in core {
        let code = source.product();
        for (banned, why) in NOT_IN_THE_CORE {
            wrong.extend(places(&code, banned).map(|at| format!("{}:{}: {banned}: {why}", source.path, line(&code, at))));
        }
        wrong.extend(iterated_maps(&code).into_iter().map(|(line, name)| {
            format!("{}:{line}: the order of {name} differs from run to run: use a BTreeMap or BTreeSet", source.path)
        }));
    }
    wrong
}

/// Places where a name that was declared as a hash map or set is gone through.
fn iterated_maps(code: &str) -> Vec<(usize, String)> {
    let mut names = BTreeSet::new();
    for map in ["HashMap", "HashSet"] {
        for at in places(code, map) {
            let before = code[..at].trim_end_matches("std::collections::").trim_end();
            let before = before.strip_suffix([':', '=']).map(|before| before.trim_end_matches([':', ' ']));
            let name: String = before.unwrap_or_default().chars().rev().take_while(|c| is_word(*c)).collect();
            names.insert(name.chars().rev().collect::<String>());
        }
    }
    names.remove("");
    let mut found = Vec::new();
    for name in names {
        let calls = ["iter()", "iter_mut()", "keys()", "values()", "values_mut()", "into_iter()", "drain(", "retain("];
        for at in calls.iter().flat_map(|call| code.match_indices(&format!("{name}.{call}")).map(|(at, _)| at).collect::<Vec<_>>()) {
            found.push((line(code, at), name.clone()));
        }
        for (at, _) in code.match_indices(" in ") {
            let over: String = code[at + 4..].chars().take_while(|c| is_word(*c) || "&. ".contains(*c)).collect();
            if over.trim().trim_start_matches("&mut ").trim_start_matches(['&']).trim_start_matches("self.") == name {
                found.push((line(code, at), name.clone()));
            }
        }
    }
    found
}

#[test]
fn the_core_is_pure() {
    assert_tidy(impure(&sources("src")));
}

fn panics_on_purpose(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let code = source.product();
        for banned in [".unwrap()", ".expect(", "todo!", "unimplemented!", "dbg!"] {
            wrong.extend(places(&code, banned).map(|at| format!("{}:{}: {banned}", source.path, line(&code, at))));
        }
    }
    wrong
}

#[test]
fn no_error_is_unwrapped() {
    assert_tidy(panics_on_purpose(&sources("src")));
}

fn unsaid(sources: &[Source]) -> Vec<String> {
    let silent = sources.iter().filter(|source| !source.is_test() && !source.text.trim_start_matches("#![").starts_with("//!"));
    silent.map(|source| format!("{}: begins without `//! Owns … Does not own …`", source.path)).collect()
}

#[test]
fn every_file_says_what_it_owns() {
    assert_tidy(unsaid(&sources("src")));
}

// ---- tests

fn left_out(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources {
        for banned in ["#[ignore", "with_ignored_flag", "ignorable_test"] {
            wrong.extend(places(&source.code, banned).map(|at| format!("{}:{}: {banned}", source.path, line(&source.code, at))));
        }
    }
    wrong
}

#[test]
fn no_test_is_left_out() {
    assert_tidy(["src", "tests", "examples"].into_iter().flat_map(|folder| left_out(&sources(folder))).collect());
}

fn sleeping(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with("tests/") && !MAY_SLEEP.contains(&source.path.as_str())) {
        for banned in ["sleep(", "sleep_until(", "sleep_ms("] {
            let calls = places(&source.code, banned).filter(|at| !source.code[..*at].ends_with("fn "));
            wrong.extend(
                calls.map(|at| {
                    format!("{}:{}: wait for what you need, with a bound (support::process)", source.path, line(&source.code, at))
                }),
            );
        }
    }
    wrong
}

#[test]
fn tests_wait_for_what_they_need_and_not_for_the_clock() {
    assert_tidy(sleeping(&sources("tests")));
}

fn unlisted(suites: &[String], page: &str) -> Vec<String> {
    let without = suites.iter().filter(|suite| !page.contains(&format!("| `{suite}` |")));
    without.map(|suite| format!("tests/{suite}.rs: tests/README.md does not say which question it answers")).collect()
}

#[test]
fn every_suite_says_which_question_it_answers() {
    let suites = files("tests", ".rs").into_iter().filter_map(|(path, _)| {
        let name = path.strip_prefix("tests/")?.strip_suffix(".rs")?.to_owned();
        let name = name.strip_suffix("/main").map(str::to_owned).unwrap_or(name);
        (!name.contains('/')).then_some(name)
    });
    assert_tidy(unlisted(&suites.collect::<Vec<_>>(), &files("tests", "README.md")[0].1));
}

// ---- words

/// What a person reads of a page: no fenced code, no code spans, no addresses.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let lines = page.lines().map(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence { String::new() } else { line.split('`').step_by(2).collect::<Vec<_>>().join("`") }
    });
    lines.collect::<Vec<_>>().join("\n").to_lowercase()
}

fn blurred(path: &str, prose: &str) -> Vec<String> {
    let mut kept = prose.to_owned();
    for right in BLURRED_BUT_RIGHT {
        kept = kept.replace(right, &" ".repeat(right.len()));
    }
    let found = BLURRED.iter().flat_map(|word| places(&kept, word).map(move |at| (at, word)));
    found.map(|(at, word)| format!("{path}:{}: {word:?} stands for one of our words; which?", line(&kept, at))).collect()
}

#[test]
fn one_word_an_idea() {
    let pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].iter().flat_map(|name| files("", name));
    let pages = pages.filter(|(path, _)| !path.contains('/')).chain(files("docs", ".md"));
    let mut wrong: Vec<_> = pages.flat_map(|(path, text)| blurred(&path, &prose(&text))).collect();
    for source in sources("src/cli") {
        wrong.extend(blurred(&source.path, &source.words.to_lowercase()));
    }
    assert_tidy(wrong);
}

// ---- promises

/// Names of metrics as the source spells them.
fn metric_names(sources: &[Source]) -> BTreeSet<String> {
    let quoted = sources.iter().flat_map(|source| source.words.split('"'));
    let name =
        |text: &&str| text.starts_with("receipted_") && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    quoted.filter(name).map(str::to_owned).collect()
}

fn unexplained(names: &BTreeSet<String>, pages: &[(String, String)]) -> Vec<String> {
    let without = names.iter().filter(|name| !pages.iter().any(|(_, text)| places(text, name).next().is_some()));
    without.map(|name| format!("{name}: no page under docs/ says what it means")).collect()
}

#[test]
fn every_metric_is_explained() {
    assert_tidy(unexplained(&metric_names(&sources("src/telemetry")), &files("docs", ".md")));
}

/// The rows of the table of guarantees: id to the cell that names its tests.
fn guarantees(page: &str) -> BTreeMap<String, String> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<_> = line.trim().strip_prefix("| **G")?.strip_suffix('|')?.split('|').collect();
        Some((format!("G{}", cells[0].trim().trim_end_matches("**")), cells.last()?.trim().to_owned()))
    });
    rows.collect()
}

fn unshown(page: &str, tests: &BTreeSet<String>, not_yet: &[&str]) -> Vec<String> {
    let rows = guarantees(page);
    let mut wrong = Vec::new();
    for id in (1..=8).map(|n| format!("G{n}")) {
        let Some(shown_by) = rows.get(&id) else {
            wrong.push(format!("{id} has no row"));
            continue;
        };
        let cited: Vec<_> = shown_by.split('`').skip(1).step_by(2).collect();
        for test in cited.iter().filter(|test| !tests.contains(test.rsplit("::").next().unwrap_or_default())) {
            wrong.push(format!("{id} cites a test that is not there: {test}"));
        }
        match (not_yet.contains(&&*id), cited.is_empty()) {
            (false, true) => wrong.push(format!("{id} cites no test")),
            (true, false) => wrong.push(format!("{id} is shown now: take it off the list in tests/tidy.rs")),
            (true, true) if shown_by != NOT_SHOWN_YET_TEXT => wrong.push(format!("{id}: write {NOT_SHOWN_YET_TEXT:?}")),
            _ => {}
        }
    }
    wrong
}

/// All tests: by attribute, listed with `trials!` or `tests!`, or named in the text of a suite that makes its own trials.
fn test_names(sources: &[Source]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in sources {
        for (at, mark) in source.code.match_indices("#[test]") {
            let rest = source.code[at + mark.len()..].split_once("fn ").map_or("", |(_, rest)| rest);
            names.insert(rest.chars().take_while(|c| is_word(*c)).collect());
        }
        for (at, mark) in ["trials![", "tests!["].iter().flat_map(|mark| source.code.match_indices(mark)) {
            let list = source.code[at + mark.len()..].split(']').next().unwrap_or_default();
            let list = list.strip_prefix("real broker:").unwrap_or(list);
            names.extend(list.split(',').map(|name| name.trim().rsplit("::").next().unwrap_or_default().to_owned()));
        }
        if source.code.contains("Trial::test(") {
            let quoted = source.words.split('"').filter(|text| text.contains("::") && text.chars().all(|c| is_word(c) || c == ':'));
            names.extend(quoted.map(|name| name.rsplit("::").next().unwrap_or_default().to_owned()));
        }
    }
    names.remove("");
    names
}

#[test]
fn every_guarantee_names_its_test() {
    let all: Vec<_> = ["src", "tests"].into_iter().flat_map(sources).collect();
    assert_tidy(unshown(&files("docs", "GUARANTEES.md")[0].1, &test_names(&all), NOT_SHOWN_YET));
}

// ---- the rules themselves

fn planted(path: &str, text: &str) -> Vec<Source> {
    vec![Source::new(path, text)]
}

#[track_caller]
fn assert_caught(wrong: &[String], part: &str) {
    assert!(wrong.len() == 1 && wrong[0].contains(part), "{wrong:?} should name one {part:?}");
}

#[test]
fn each_rule_finds_its_fault() {
    let long = too_long_files(&planted("src/a.rs", &"x;\n".repeat(601)));
    assert!(long.len() == 2 && long[0].contains("src/a.rs: 601 lines") && long[1].contains("one file in ten"), "{long:?}");
    assert_caught(&too_long_files(&planted("src/a.rs", &"x;\n".repeat(401))), "one file in ten");
    assert_caught(
        &too_long_functions(&planted("src/a.rs", &format!("\n  fn long() {{\n{}}}", "x;\n".repeat(99)))),
        "src/a.rs:2: fn long has 101",
    );
    assert_caught(
        &wrong_imports(&planted("src/store/sled.rs", "use crate::protocol::Key;\nuse crate::{protocol, runner};")),
        ":2: store must",
    );
    assert_caught(
        &wrong_imports(&planted("src/runner/a.rs", "use crate::{admin::{command::{A, B as C}, socket::D}, store};")),
        "use admin",
    );
    assert_caught(&wrong_imports(&planted("src/runner/a.rs", "fn f() { let x = crate::cli::X; }")), "use cli");
    assert_caught(&wrong_imports(&planted("src/novelty.rs", "")), "no row");
    for line in ["async fn f() {}", "let t = std::time::Instant::now();", "use std::fs::read;", "tokio::spawn(x);", "rand::random();"] {
        assert_caught(&impure(&planted("src/protocol/a.rs", line)), "src/protocol/a.rs:1");
    }
    assert_caught(&impure(&planted("src/protocol/a.rs", "struct S { m: HashMap<u8, u8> }\nfor x in &self.m {}")), ":2: the order of m");
    assert_caught(&impure(&planted("src/protocol/a.rs", "let seen = std::collections::HashSet::new();\nseen.iter();")), "order of seen");
    for line in ["x.unwrap();", "x.expect(\"why\");", "todo!()", "unimplemented!()"] {
        assert_caught(&panics_on_purpose(&planted("src/a.rs", line)), "src/a.rs:1");
    }
    assert_caught(&unsaid(&planted("src/a.rs", "use x;")), "src/a.rs");
    assert_caught(&left_out(&planted("tests/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}")), "tests/a.rs:2");
    assert_caught(&sleeping(&planted("tests/a.rs", "tokio::time::sleep(x).await;")), "tests/a.rs:1");
    assert_caught(
        &blurred("README.md", &prose("An error message of a `message`.\n```\nevent\n```\nThis Event.")),
        "README.md:5: \"event\"",
    );
    let names = metric_names(&planted("src/telemetry/a.rs", "f(\"receipted_a_total\", \"receipted says\")"));
    assert_caught(&unexplained(&names, &[("docs/a.md".into(), "receipted_a_totals".into())]), "receipted_a_total");
}

#[test]
fn each_promise_without_a_test_is_found() {
    let page: String = (1..=8).map(|n| format!("| **G{n}** | promise | `suite::shown` |\n")).collect();
    let tests = test_names(&planted("tests/a.rs", "let t = trials![real broker: a::shown, b]; #[test]\nfn other() {}"));
    assert_eq!(tests, ["shown", "b", "other"].map(str::to_owned).into());
    let tests_of_its_own = test_names(&planted("tests/a.rs", "let t = [(\"kill::quoted\", f)]; Trial::test(name, f); tests![listed,];"));
    assert_eq!(tests_of_its_own, ["quoted", "listed"].map(str::to_owned).into());
    assert!(unshown(&page, &tests, &[]).is_empty());
    assert_caught(&unshown(&page.replacen("`suite::shown`", "`gone`", 1), &tests, &[]), "G1 cites a test that is not there: gone");
    assert_caught(&unshown(&page.replacen("`suite::shown`", "–", 1), &tests, &[]), "G1 cites no test");
    assert_caught(&unshown(&page.replace("| **G8**", "| **G9**"), &tests, &[]), "G8 has no row");
    assert_caught(&unshown(&page, &tests, &["G3"]), "G3 is shown now");
}

#[test]
fn comments_literals_and_tests_are_told_from_code() {
    let text = concat!(
        "//! unwrap() a\nfn f<'a>(x: &'a str) { g('{', '\\'', \"}\\\" .unwrap()\", r#\"todo!\"\"#, b'x'); } /* dbg! /* { */ } */\n",
        "#[cfg(test)]\nmod tests {\n    fn t() { x.unwrap(); }\n}\nfn h() {}\n#[cfg(test)]\nmod more;\nfn i() {}\n",
    );
    let source = &planted("src/a.rs", text)[0];
    assert!(panics_on_purpose(std::slice::from_ref(source)).is_empty());
    assert!(left_out(std::slice::from_ref(source)).is_empty());
    let named: Vec<_> = functions(&source.product()).into_iter().map(|(name, line, lines)| format!("{name}:{line}:{lines}")).collect();
    assert_eq!(named, ["f:2:1", "h:7:1", "i:10:1"]);
    assert!(source.words.contains("unwrap() a") && source.words.contains("todo!") && !source.words.contains("fn "));
    assert!(source.code.contains("'a") && !source.code.contains("'{'"));
}
