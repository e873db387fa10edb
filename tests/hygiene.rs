//! What the project is built from: licences and sources of the dependencies, held to deny.toml without cargo-deny, and the version of
//! Rust.
#![cfg(feature = "kafka")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::{collections::BTreeSet, path::Path, process::Command};

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn deny(section: &str, list: &str) -> Vec<toml::Value> {
    let table: toml::Table = text("deny.toml").parse().unwrap();
    table[section][list].as_array().unwrap().clone()
}

fn allowed() -> BTreeSet<String> {
    deny("licenses", "allow").into_iter().map(|licence| licence.as_str().unwrap().to_owned()).collect()
}

/// Every package that any feature on any platform takes.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--all-features"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let said = cargo.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let metadata: Value = serde_json::from_slice(&said.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().clone();
    assert!(packages.len() > 100, "{}", packages.len());
    packages
}

/// The sets of licences, each of which would do: `A AND (B OR C)` is [A, B] or [A, C].
fn ways(expression: &str) -> Vec<BTreeSet<String>> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+");
    let mut words = spaced.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter().peekable();
    either(&mut words)
}

type Words = std::iter::Peekable<std::vec::IntoIter<String>>;

fn either(words: &mut Words) -> Vec<BTreeSet<String>> {
    let mut ways = both(words);
    while words.next_if(|word| word == "OR").is_some() {
        ways.extend(both(words));
    }
    ways
}

fn both(words: &mut Words) -> Vec<BTreeSet<String>> {
    let mut ways = one(words);
    while words.next_if(|word| word == "AND").is_some() {
        let others = one(words);
        ways = ways.iter().flat_map(|way| others.iter().map(move |other| way | other)).collect();
    }
    ways
}

fn one(words: &mut Words) -> Vec<BTreeSet<String>> {
    match words.next().expect("a licence").as_str() {
        "(" => {
            let inner = either(words);
            assert_eq!(words.next().as_deref(), Some(")"));
            inner
        }
        name => vec![BTreeSet::from([name.replace('+', " WITH ")])],
    }
}

/// What of the allowed a package needs; none where nothing will do.
fn needed(licence: &str, allowed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    ways(licence).into_iter().find(|way| way.is_subset(allowed))
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed_and_no_other_is() {
    let allowed = allowed();
    let mut used = BTreeSet::new();
    let refused = packages().into_iter().filter_map(|package| match package["license"].as_str() {
        Some(licence) => match needed(licence, &allowed) {
            Some(way) => {
                used.extend(way);
                None
            }
            None => Some(format!("{}: {licence}", package["name"])),
        },
        None => Some(format!("{}: none", package["name"])),
    });
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(used, allowed, "deny.toml allows what nothing needs");
}

#[test]
fn licence_expressions_are_read_as_they_are_meant() {
    let allowed = ["MIT", "Zlib"].map(str::to_owned).into();
    for fits in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "MIT AND Zlib", "(GPL-3.0 OR MIT) AND Zlib", "Apache-2.0 WITH X OR MIT"] {
        assert!(needed(fits, &allowed).is_some(), "{fits}");
    }
    for not in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", "MIT WITH X", "GPL-3.0 OR MIT AND Apache-2.0"] {
        assert!(needed(not, &allowed).is_none(), "{not}");
    }
}

#[test]
fn every_dependency_comes_from_the_registry() {
    let elsewhere = packages().into_iter().filter(|package| {
        let source = package["source"].as_str();
        !["receipted", "receipted-mistakes"].contains(&package["name"].as_str().unwrap())
            && !source.is_some_and(|source| source.starts_with("registry+"))
    });
    assert_eq!(elsewhere.map(|package| package["id"].to_string()).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn no_dependency_is_one_that_is_not_wanted() {
    let unwanted: BTreeSet<_> = deny("bans", "deny").into_iter().map(|ban| ban["crate"].as_str().unwrap().to_owned()).collect();
    assert!(!unwanted.is_empty());
    let names: BTreeSet<_> = packages().into_iter().map(|package| package["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.intersection(&unwanted).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Major and minor.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn continuous_integration_runs_the_rust_version_that_is_promised() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let (running, promised) = (version(said.split(' ').nth(1).unwrap()), version(env!("CARGO_PKG_RUST_VERSION")));
    assert!(running >= promised, "{running:?} is older than {promised:?} of Cargo.toml");
    // Elsewhere a newer one is welcome; what is promised is shown by the oldest alone.
    if std::env::var_os("CI").is_some() {
        assert_eq!(running, promised, "Cargo.toml promises a version that nothing builds with");
    }
}
