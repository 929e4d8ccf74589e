//! What was measured: medians and spread, ratios of runs that stood side by side, a table and a JSON file.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::BENCH;

/// What a figure is to reach.
#[derive(Clone, Copy)]
pub enum Aim {
    /// The median of one column.
    Most(&'static str, f64),
    /// The median of the first column over the second, run by run.
    RatioMost(&'static str, &'static str, f64),
    RatioLeast(&'static str, &'static str, f64),
}

/// One measurement, with a column of samples for each thing compared; the n-th of all were taken side by side.
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    columns: Vec<(String, Vec<f64>)>,
    aims: Vec<Aim>,
    asked_pairs: Vec<(&'static str, &'static str)>,
}

/// The middle of some numbers and their ends.
#[derive(Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

pub fn spread(samples: &[f64]) -> Spread {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median =
        if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] };
    Spread { median, least: sorted[0], most: sorted[sorted.len() - 1] }
}

impl Figure {
    pub fn new(name: impl Into<String>, unit: &'static str) -> Figure {
        Figure { name: name.into(), unit, columns: Vec::new(), aims: Vec::new(), asked_pairs: Vec::new() }
    }

    pub fn aim(mut self, aim: Aim) -> Figure {
        self.aims.push(aim);
        self
    }

    /// The ratio of these two columns is told, whatever the aims.
    pub fn pair(mut self, of: &'static str, to: &'static str) -> Figure {
        self.asked_pairs.push((of, to));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    pub fn add(&mut self, column: &str, sample: f64) {
        match self.columns.iter_mut().find(|(name, _)| name == column) {
            Some((_, samples)) => samples.push(sample),
            None => self.columns.push((column.into(), vec![sample])),
        }
    }

    fn column(&self, name: &str) -> Option<&[f64]> {
        self.columns.iter().find(|(column, _)| column == name).map(|(_, samples)| samples.as_slice())
    }

    pub fn ratio(&self, of: &str, to: &str) -> Option<Spread> {
        let ratios: Vec<f64> = self.column(of)?.iter().zip(self.column(to)?).map(|(of, to)| of / to).collect();
        (!ratios.is_empty()).then(|| spread(&ratios))
    }

    fn aim_text(&self, aim: &Aim) -> Option<(String, bool)> {
        let (text, met) = match aim {
            Aim::Most(column, most) => {
                let median = spread(self.column(column)?).median;
                (format!("{column} ≤ {most}"), median <= *most)
            }
            Aim::RatioMost(of, to, most) => (format!("{of}/{to} ≤ {most}"), self.ratio(of, to)?.median <= *most),
            Aim::RatioLeast(of, to, least) => (format!("{of}/{to} ≥ {least}"), self.ratio(of, to)?.median >= *least),
        };
        Some((text, met))
    }

    /// The pairs of columns whose ratio says something.
    fn pairs(&self) -> Vec<(&str, &str)> {
        let standing = [("dq", "native"), ("dq", "lua"), ("with", "without")];
        let asked = self.aims.iter().filter_map(|aim| match aim {
            Aim::RatioMost(of, to, _) | Aim::RatioLeast(of, to, _) => Some((*of, *to)),
            Aim::Most(..) => None,
        });
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for (of, to) in standing.into_iter().chain(self.asked_pairs.iter().copied()).chain(asked) {
            if self.column(of).is_some() && self.column(to).is_some() && !pairs.contains(&(of, to)) {
                pairs.push((of, to));
            }
        }
        pairs
    }

    /// One row of a Markdown table.
    pub fn row(&self) -> String {
        let medians: Vec<String> =
            self.columns.iter().map(|(name, samples)| format!("{name} {}", short(spread(samples).median))).collect();
        let ratios: Vec<String> = self
            .pairs()
            .into_iter()
            .filter_map(|(of, to)| {
                let ratio = self.ratio(of, to)?;
                Some(format!("{of}/{to} **{:.2}** ({:.2}–{:.2})", ratio.median, ratio.least, ratio.most))
            })
            .collect();
        let aims: Vec<String> = self
            .aims
            .iter()
            .filter_map(|aim| self.aim_text(aim))
            .map(|(text, met)| format!("{text}: {}", if met { "met" } else { "not yet" }))
            .collect();
        format!(
            "| {} | {} | {} | {} | {} |",
            self.name,
            self.unit,
            medians.join(", "),
            ratios.join(", "),
            aims.join("; ")
        )
    }

    pub fn json(&self) -> String {
        let mut text = format!("{{\"bench\":\"{BENCH}\",\"name\":\"{}\",\"unit\":\"{}\"", self.name, self.unit);
        for (name, samples) in &self.columns {
            let Spread { median, least, most } = spread(samples);
            let _ = write!(
                text,
                ",\"{name}\":{{\"median\":{median:.4},\"min\":{least:.4},\"max\":{most:.4},\"runs\":{}}}",
                samples.len()
            );
        }
        for (of, to) in self.pairs() {
            if let Some(Spread { median, least, most }) = self.ratio(of, to) {
                let _ = write!(text, ",\"{of}/{to}\":{{\"median\":{median:.4},\"min\":{least:.4},\"max\":{most:.4}}}");
            }
        }
        let aims: Vec<String> = self
            .aims
            .iter()
            .filter_map(|aim| self.aim_text(aim))
            .map(|(text, met)| format!("{{\"aim\":\"{text}\",\"met\":{met}}}"))
            .collect();
        let _ = write!(text, ",\"aims\":[{}]}}", aims.join(","));
        text
    }
}

fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The machine's load of the last minute, and what runs.
pub fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_string()
}

/// The folder that cargo builds in.
pub fn target() -> PathBuf {
    let program = std::env::current_exe().expect("the program knows its path");
    program.ancestors().nth(3).map(PathBuf::from).unwrap_or_default()
}

/// Writes all to one file, and says where.
pub fn write(figures: &[Figure], facts: &[(&str, String)]) -> PathBuf {
    let path = target().join(format!("bench-{BENCH}.json"));
    let facts: String = facts.iter().map(|(name, value)| format!("\"{name}\":\"{value}\",\n")).collect();
    let figures: Vec<String> = figures.iter().map(Figure::json).collect();
    let text = format!("{{{facts}\"figures\":[\n{}\n]}}\n", figures.join(",\n"));
    fs::write(&path, text).expect("the result is written");
    path
}
