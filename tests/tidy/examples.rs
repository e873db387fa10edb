//! Owns the rule that a type which people write against shows what it is for.

use crate::{
    assert_tidy, is_word,
    source::{Source, sources},
};
use std::collections::BTreeSet;

/// Where every public type has an example. A folder, or a file.
const SHOWN: &[&str] = &[
    "src/config/",
    "src/handler/",
    "src/protocol/fingerprint.rs",
    "src/protocol/key.rs",
    "src/protocol/note.rs",
    "src/protocol/outcome.rs",
    "src/protocol/park.rs",
    "src/protocol/policy.rs",
    "src/protocol/secret.rs",
    "src/runner/",
    "src/store/",
    "src/testing",
];

/// The public types of a source: name, line, and what is said above them.
fn types(source: &Source) -> Vec<(&str, usize, String)> {
    let (mut said, mut types) = (String::new(), Vec::new());
    for (at, (line, code)) in source.text.lines().zip(source.product().lines()).enumerate() {
        match line.trim_start().strip_prefix("///") {
            Some(words) => said = said + words + "\n",
            // Attributes stand between, some over several lines.
            None if ["#", "    ", ")"].iter().any(|start| line.starts_with(start)) => {}
            None => {
                let declared = ["pub struct ", "pub enum ", "pub trait "].iter().find_map(|kind| code.strip_prefix(kind));
                let name = declared.map(|rest| &line[line.len() - rest.len()..]).and_then(|rest| rest.split(|c| !is_word(c)).next());
                types.extend(name.map(|name| (name, at + 1, std::mem::take(&mut said))));
                said.clear();
            }
        }
    }
    types
}

/// Each has an example of its own, or a link to a type that has one.
fn unshown(sources: &[Source]) -> Vec<String> {
    let all: Vec<_> = sources.iter().flat_map(|source| types(source).into_iter().map(move |found| (&source.path, found))).collect();
    let shown: BTreeSet<_> = all.iter().filter(|(_, (_, _, said))| said.contains("```")).map(|(_, (name, ..))| *name).collect();
    let links = |said: &str| shown.iter().any(|name| said.contains(&format!("[`{name}`]")));
    let bare = all.iter().filter(|(_, (_, _, said))| !said.contains("```") && !links(said));
    bare.map(|(path, (name, line, _))| format!("{path}:{line}: {name} has neither an example nor a link to a type with one")).collect()
}

fn held() -> Vec<Source> {
    sources("src").into_iter().filter(|source| SHOWN.iter().any(|place| source.path.starts_with(place))).collect()
}

#[test]
fn every_type_that_people_write_against_shows_what_it_is_for() {
    let held = held();
    assert!(SHOWN.iter().all(|place| held.iter().any(|source| source.path.starts_with(place))), "a place of the list is gone");
    assert!(held.iter().map(|source| types(source).len()).sum::<usize>() > 60, "the types are not found any more");
    assert_tidy(unshown(&held));
    let planted = |text: &str| unshown(&[Source::new("src/a.rs", text)]);
    let shown = "/// A.\n///\n/// ```\n/// a();\n/// ```\n#[derive(Debug)]\npub struct A;\n";
    assert!(planted(shown).is_empty());
    assert!(planted(&format!("{shown}/// See [`A`].\n#[must_use(\n    note\n)]\npub enum B<T> {{}}\npub(super) struct C;\n")).is_empty());
    for bare in
        ["pub struct B;", "/// Of `A`.\npub trait B: C {}", "/// See [`C`].\npub enum B {}", "/// See [`A`].\nfn a() {}\npub struct B;"]
    {
        let wrong = planted(&format!("{shown}{bare}\n"));
        assert!(wrong.len() == 1 && wrong[0].contains(": B has neither"), "{bare}: {wrong:?}");
    }
}
