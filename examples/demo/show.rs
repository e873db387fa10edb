//! What a person sees: scenes in plain lines, and below them a live line while something runs, where there is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

/// Columns of a label, so that what follows stands in one column.
const LABEL: usize = 11;

pub struct Show {
    live: Option<ProgressBar>,
    began: Instant,
    scenes: usize,
}

impl Show {
    pub fn new() -> Self {
        let live = std::io::stdout().is_terminal().then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout()));
        Self { live, began: Instant::now(), scenes: 0 }
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// A line as it is.
    pub fn say(&self, text: &str) {
        match &self.live {
            Some(bar) => bar.suspend(|| print(text)),
            None => print(text),
        }
    }

    /// The title of a new scene, with the time since the start.
    pub fn scene(&mut self, title: &str) {
        self.scenes += 1;
        self.say(&format!("\n{:>2}. {title}   [{:.1} s]", self.scenes, self.elapsed().as_secs_f32()));
    }

    /// One fact of a scene.
    pub fn fact(&self, label: &str, text: &str) {
        self.say(&format!("    {label:LABEL$}{text}"));
    }

    /// How far a scene is. Only a terminal shows it.
    pub fn progress(&self, done: u64, all: u64, text: &str) {
        self.draw("    {spinner} {bar:30} {pos}/{len} {msg}", done, all, text);
    }

    /// What is waited for. Only a terminal shows it.
    pub fn waiting(&self, text: &str) {
        self.draw("    {spinner} {msg}", 0, 1, text);
    }

    fn draw(&self, template: &str, done: u64, all: u64, text: &str) {
        if let Some(bar) = &self.live {
            if bar.is_finished() {
                bar.reset();
            }
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_length(all);
            bar.set_position(done);
            bar.set_message(text.to_owned());
            bar.tick();
        }
    }

    /// Takes the live line away.
    pub fn rest(&self) {
        if let Some(bar) = &self.live {
            bar.finish_and_clear();
        }
    }
}

fn print(text: &str) {
    // A reader that has gone away, as in `make demo | head`, is no reason to fail.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// `1300` as `1,300`.
pub fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
