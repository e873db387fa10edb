//! Owns the reading of Rust source for the house rules: what is code, what is comment or text, where functions are.
//! Does not own a rule.

use std::path::{Path, PathBuf};

/// A source file, apart.
pub struct Source {
    /// From the root of the repository, with `/`.
    pub path: String,
    pub text: String,
    /// The same with comments and literals blanked out.
    pub code: String,
    /// Comments and literals alone, the rest blanked out.
    pub words: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Code,
    Words,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let classes = classes(text);
        let keep = |kept: Class| {
            let bytes = text.bytes().zip(&classes).map(|(byte, class)| if byte == b'\n' || *class == kept { byte } else { b' ' });
            String::from_utf8(bytes.collect()).expect("literals and comments are whole characters")
        };
        Self { path: path.to_owned(), text: text.to_owned(), code: keep(Class::Code), words: keep(Class::Words) }
    }

    /// The code without what only tests are built from.
    pub fn product(&self) -> String {
        const MARK: &str = "#[cfg(test)]";
        let mut code = self.code.clone();
        while let Some(start) = code.find(MARK) {
            let rest = &code[start + MARK.len()..];
            let end = match rest.find([';', '{']) {
                Some(at) if rest.as_bytes()[at] == b'{' => closing(rest, at),
                Some(at) => at + 1,
                None => rest.len(),
            };
            let end = start + MARK.len() + end;
            let blank: String = code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
            code.replace_range(start..end, &blank);
        }
        code
    }

    /// Whether the file is built for tests alone.
    pub fn is_test(&self) -> bool {
        !self.path.starts_with("src/") || self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Lines of the product.
    pub fn lines(&self) -> usize {
        self.product().trim_end().lines().count()
    }
}

/// Functions of some code: name, line, number of lines.
pub fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let before = code[..start].chars().next_back();
        let name: String = code[start + 3..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() || before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let mut depth = 0_i32;
        let body = code[start..].char_indices().find(|(_, c)| {
            depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
            depth == 0 && matches!(c, '{' | ';')
        });
        let Some((open, '{')) = body else { continue };
        let end = start + closing(&code[start..], open);
        found.push((name, 1 + code[..start].matches('\n').count(), code[start..end].lines().count()));
    }
    found
}

/// The place after the brace that closes the one at `open`.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn classes(text: &str) -> Vec<Class> {
    let bytes = text.as_bytes();
    let mut classes = vec![Class::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        let end = match bytes[at] {
            b'/' if text[at..].starts_with("//") => at + text[at..].find('\n').unwrap_or(text.len() - at),
            b'/' if text[at..].starts_with("/*") => comment_end(text, at),
            b'"' => string_end(bytes, at),
            b'r' if !word_before || matches!(bytes[at - 1], b'b' | b'c') => raw_string_end(text, at).unwrap_or(at),
            b'\'' => character_end(text, at).unwrap_or(at),
            _ => at,
        };
        classes[at..end].fill(Class::Words);
        at = end.max(at + 1);
    }
    classes
}

fn comment_end(text: &str, start: usize) -> usize {
    let (mut depth, mut at) = (0_usize, start);
    while at < text.len() {
        let pair = text.as_bytes().get(at..at + 2);
        match pair {
            Some(b"/*") => depth += 1,
            Some(b"*/") => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_string_end(text: &str, start: usize) -> Option<usize> {
    let rest = &text[start + 1..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inside = rest[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&close).map_or(inside.len(), |at| at + close.len());
    Some(start + 1 + hashes + 1 + length)
}

/// `None` for a lifetime.
fn character_end(text: &str, start: usize) -> Option<usize> {
    let mut inside = text[start + 1..].char_indices();
    match inside.next()? {
        (_, '\\') => text[start + 3..].find('\'').map(|at| start + 3 + at + 1),
        (_, _) => matches!(inside.next(), Some((_, '\''))).then(|| start + 1 + inside.offset()),
    }
}

/// All files under a folder with that ending, in order. None without the folder.
pub fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        let Ok(entries) = folder.read_dir() else { return };
        for path in entries.map(|entry| entry.expect("a folder's entry").path()) {
            if path.is_dir() {
                walk(&path, ending, found);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    walk(&root.join(folder), ending, &mut found);
    found.sort();
    let name = |path: &Path| path.strip_prefix(root).expect("below the root").to_string_lossy().replace('\\', "/");
    found.iter().map(|path| (name(path), std::fs::read_to_string(path).expect("a text file"))).collect()
}

/// All Rust sources under a folder.
pub fn sources(folder: &str) -> Vec<Source> {
    files(folder, ".rs").iter().map(|(path, text)| Source::new(path, text)).collect()
}
