//! Owns the reading of PromQL, as far as names, labels and ranges go, and of the rule file. Does not own whether they are right: promtool
//! and Prometheus judge that.

/// A metric with its matchers.
#[derive(Debug, PartialEq)]
pub struct Selector {
    pub name: String,
    /// Label, operator, value.
    pub matchers: Vec<(String, String, String)>,
    /// What stands in brackets behind it.
    pub range: Option<String>,
    /// The function whose argument it is.
    pub within: String,
    /// As it stands in the query, without its range.
    pub text: String,
}

/// The selectors of a query, and the labels that it groups or joins by.
#[derive(Debug, Default, PartialEq)]
pub struct Query {
    pub selectors: Vec<Selector>,
    pub labels: Vec<String>,
}

const WORDS: &[&str] = &["and", "or", "unless", "bool", "offset", "sum", "max", "min", "avg", "count", "group"];
const LABEL_LISTS: &[&str] = &["by", "on", "without", "ignoring", "group_left", "group_right"];

/// Reads a query.
pub fn read(text: &str) -> Query {
    let (mut query, mut at) = (Query::default(), 0);
    let mut open: Vec<String> = Vec::new();
    let mut word = String::new();
    while let Some(next) = text[at..].chars().next() {
        let length = length(&text[at..], |c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$');
        match next {
            '(' => open.push(std::mem::take(&mut word)),
            ')' => drop(open.pop()),
            '[' => at += text[at..].find(']').unwrap_or(0),
            _ if next.is_alphabetic() || next == '_' => {
                word = text[at..at + length].to_owned();
                let rest = text[at + length..].trim_start();
                if LABEL_LISTS.contains(&&*word) && rest.starts_with('(') {
                    let end = text[at..].find(')').expect("a closed list");
                    let list = &text[at..at + end];
                    query.labels.extend(list[list.find('(').expect("open") + 1..].split(',').map(|label| label.trim().to_owned()));
                    at += end + 1;
                    continue;
                }
                if WORDS.contains(&&*word) || rest.starts_with('(') {
                    at += length;
                    continue;
                }
                let (selector, end) = selector(text, at, length, open.last().cloned().unwrap_or_default());
                query.selectors.push(selector);
                at = end;
                continue;
            }
            _ if length > 0 => {
                at += length;
                continue;
            }
            _ => {}
        }
        at += text[at..].chars().next().map_or(1, char::len_utf8);
    }
    query
}

fn length(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}

fn selector(text: &str, at: usize, name: usize, within: String) -> (Selector, usize) {
    let (mut end, mut matchers, mut range) = (at + name, Vec::new(), None);
    if text[end..].starts_with('{') {
        let close = end + text[end..].find('}').expect("closed matchers");
        for matcher in text[end + 1..close].split("\",").filter(|matcher| !matcher.trim().is_empty()) {
            let (label, value) = matcher.split_once('"').expect("a quoted value");
            let label_end = length(label.trim(), |c| c.is_alphanumeric() || c == '_');
            let (label, operator) = label.trim().split_at(label_end);
            matchers.push((label.to_owned(), operator.to_owned(), value.trim_end_matches('"').to_owned()));
        }
        end = close + 1;
    }
    let plain = text[at..end].to_owned();
    if text[end..].starts_with('[') {
        let close = end + text[end..].find(']').expect("a closed range");
        range = Some(text[end + 1..close].to_owned());
        end = close + 1;
    }
    (Selector { name: text[at..at + name].to_owned(), matchers, range, within, text: plain }, end)
}

/// An alert of the rule file.
#[derive(Debug, Default)]
pub struct Rule {
    pub name: String,
    pub expr: String,
    pub severity: String,
    pub summary: String,
    pub description: String,
    pub runbook: String,
}

/// Reads the rule file, which writes each field on a line, or below `>-`.
pub fn rules(text: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    for block in text.split("- alert: ").skip(1) {
        let field = |name: &str| {
            let mut lines = block.lines().skip_while(|line| !line.trim_start().starts_with(&format!("{name}: ")));
            let Some(first) = lines.next() else { return String::new() };
            let indented = |line: &&str| line.len() - line.trim_start().len() > first.len() - first.trim_start().len();
            let inline = first.trim_start()[name.len() + 2..].trim();
            let more: Vec<&str> = if inline == ">-" { lines.take_while(indented).map(str::trim).collect() } else { vec![inline] };
            more.join(" ")
        };
        rules.push(Rule {
            name: block.lines().next().unwrap_or_default().trim().to_owned(),
            expr: field("expr"),
            severity: field("severity"),
            summary: field("summary"),
            description: field("description"),
            runbook: field("runbook"),
        });
    }
    rules
}
