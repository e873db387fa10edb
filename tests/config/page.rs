//! `docs/CONFIG.md` is made of `config/default.toml`: the page cannot say anything else than the program.

use std::{fmt::Write, fs, path::Path};

/// Set, it writes the page anew.
const WRITE: &str = "RECEIPTED_WRITE_DOCS";

fn path(of: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of)
}

/// The page that belongs to these defaults: a heading for each section, a row for each key.
fn page(defaults: &str) -> String {
    let mut page =
        String::from("# Configuration\n\n<!-- Made of config/default.toml by `RECEIPTED_WRITE_DOCS=1 cargo test --test config`. -->\n");
    let (mut comment, mut section, mut rows) = (Vec::new(), String::new(), 0);
    for line in defaults.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
        } else if line.is_empty() {
            paragraph(&mut page, &mut comment);
        } else if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_string();
            rows = 0;
            let _ = write!(page, "\n## `[{section}]`\n");
            paragraph(&mut page, &mut comment);
        } else if let Some((key, default)) = line.split_once('=') {
            if rows == 0 {
                page.push_str("\n| key | default | variable | |\n|---|---|---|---|\n");
            }
            rows += 1;
            let (key, default) = (key.trim().trim_matches('"'), default.trim());
            let default = if default == "\"\"" { "not set".to_string() } else { format!("`{default}`") };
            let variable = format!("RECEIPTED__{}__{}", section.replace('.', "__"), key.replace('.', "_")).to_uppercase();
            let text = std::mem::take(&mut comment).join(" ").replace('|', "\\|");
            let _ = writeln!(page, "| `{key}` | {default} | `{variable}` | {text} |");
        }
    }
    page
}

fn paragraph(page: &mut String, comment: &mut Vec<&str>) {
    for paragraph in std::mem::take(comment).split(|line| line.is_empty()).filter(|lines| !lines.is_empty()) {
        let _ = write!(page, "\n{}\n", paragraph.join("\n"));
    }
}

#[test]
fn the_page_of_keys_is_what_the_defaults_say() {
    let made = page(&fs::read_to_string(path("config/default.toml")).unwrap());
    if std::env::var_os(WRITE).is_some() {
        fs::write(path("docs/CONFIG.md"), &made).unwrap();
    }
    let there = fs::read_to_string(path("docs/CONFIG.md")).unwrap_or_default();
    let line = made.lines().zip(there.lines()).find(|(made, there)| made != there);
    assert!(made == there, "docs/CONFIG.md is not current: {line:?}; run {WRITE}=1 cargo test --test config");
}

/// A key without a word about it would be a row without one.
#[test]
fn every_key_has_its_text_and_its_variable() {
    let made = page(&fs::read_to_string(path("config/default.toml")).unwrap());
    let rows: Vec<&str> = made.lines().filter(|line| line.starts_with("| `")).collect();
    let mut keys = std::collections::BTreeSet::new();
    super::leaves(&super::DEFAULTS.parse().unwrap(), "", &mut keys);
    assert_eq!(rows.len(), keys.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert!(cells.len() == 4 && cells[3].trim().len() > 10 && cells[2].starts_with("`RECEIPTED__"), "{row}");
    }
    assert!(made.contains("| `permits` | `64` | `RECEIPTED__RUNNER__PERMITS` | Handlers that run at the same time."), "{made}");
}
