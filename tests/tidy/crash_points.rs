//! Owns the rules of crash points: each stands once in the source and has a case, and a build without their feature has none.

use crate::{
    assert_tidy,
    source::{Source, files, sources},
};
use std::collections::BTreeMap;

/// What each of their lines begins with (src/crash.rs).
const MARK: &str = "receipted-crash-point";
/// Where points that share a place get their names.
const NAMED_BY_KIND: &[&str] = &["src/runner/inbox.rs", "src/store/sled/kinds.rs"];

/// The names at a macro, and where they stand.
fn named(sources: &[Source], opening: &str) -> Vec<(String, String)> {
    let at = |source: &Source| {
        let names = source.text.split(opening).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
        names.map(|name| (name, source.path.clone())).collect::<Vec<_>>()
    };
    sources.iter().filter(|source| source.path != "src/crash.rs").flat_map(at).collect()
}

fn wrong_points(sources: &[Source], listed: &str) -> Vec<String> {
    let (points, places) = (named(sources, "point!(\""), named(sources, "point_of_each!(\""));
    let mut seen = BTreeMap::<&str, &str>::new();
    let mut wrong = Vec::new();
    for (name, path) in points.iter().chain(&places) {
        if let Some(other) = seen.insert(name, path) {
            wrong.push(format!("{path}: crash point {name} stands in {other} too"));
        }
    }
    let has_case = |name: &str, end: &str| listed.contains(&format!("\"{name}{end}"));
    wrong.extend(points.iter().filter(|(name, _)| !has_case(name, "\"")).map(|(name, path)| format!("{path}: {name} has no case")));
    wrong.extend(places.iter().filter(|(name, _)| !has_case(name, "/")).map(|(name, path)| format!("{path}: {name} has no case")));
    for source in sources.iter().filter(|source| source.path != "src/crash.rs" && source.code.contains("crash-points")) {
        wrong.push(format!("{}: a feature's name in code", source.path));
    }
    // Only the place of the points may know that there are any.
    let knows = |source: &&Source| source.text.contains("crash::reach") || source.text.contains(MARK);
    wrong.extend(
        sources
            .iter()
            .filter(|source| source.path != "src/crash.rs")
            .filter(knows)
            .map(|source| format!("{}: goes round the macro", source.path)),
    );
    wrong
}

#[test]
fn every_crash_point_stands_once_and_has_a_case() {
    let listed = &files("tests/crash_points", "points.rs")[0].1;
    let sources = sources("src");
    assert!(NAMED_BY_KIND.iter().all(|path| sources.iter().any(|source| source.path == *path)));
    assert!(named(&sources, "point!(\"").len() > 30, "the points are not found any more");
    assert_tidy(wrong_points(&sources, listed));
    let planted = |text: &str| wrong_points(&[Source::new("src/a.rs", text)], "\"a/b\"");
    assert_eq!(planted("point!(\"a/b\", x => y);").len(), 0);
    assert_eq!(planted("point!(\"a/b\", x => y); point!(\"a/b\", x => y);").len(), 1);
    assert_eq!(planted("point!(\"a/c\", x => y);").len(), 1);
    assert_eq!(planted("point_of_each!(\"a/b\", x => y);").len(), 1);
    assert_eq!(planted("crate::crash::reach(\"a/b\");").len(), 1);
}

#[test]
fn no_default_and_no_image_has_crash_points() {
    let manifest = &files("", "Cargo.toml").into_iter().find(|(path, _)| path == "Cargo.toml").expect("the manifest").1;
    let features = manifest.split("[features]").nth(1).and_then(|rest| rest.split("\n[").next()).expect("features");
    let pulling: Vec<_> = features.lines().filter(|line| !line.starts_with("crash-points =") && line.contains("crash-points")).collect();
    assert!(pulling.is_empty(), "{pulling:?}");
    for (path, text) in files("", "Dockerfile").into_iter().filter(|(path, _)| !path.contains('/')) {
        assert!(!text.contains("crash-points") && !text.contains("all-features"), "{path}");
    }
}

/// The program that was built with these tests. Cargo names its path even where its features are not chosen and it is not built.
#[test]
#[cfg(feature = "cli")]
fn a_build_without_the_feature_has_no_crash_points() {
    let program = env!("CARGO_BIN_EXE_receipted");
    let searched = std::process::Command::new("grep").args(["-qF", MARK, program]).status().expect("grep");
    assert!(matches!(searched.code(), Some(0 | 1)), "{searched}");
    assert_eq!(searched.success(), cfg!(feature = "crash-points"), "{program}");
}
