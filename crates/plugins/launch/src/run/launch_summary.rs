//! What a run did, over all of its processes: as lines, as JSON and as a page.

use std::collections::BTreeMap;

use forebay_report::{
    Badge, BadgeKind, Card, Cell, Line, LinePlot, Page, Plot, Table, Tile, bytes_text, count_text, time_text,
};
use forebay_scratch::{RunCounter, RunCounters};
use serde::Serialize;

use crate::run::{counter_samples::CounterSamples, supervise::ProgramEnd};

/// What a run did, over all of its processes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LaunchSummary {
    /// The command line.
    pub program: String,
    /// The folder whose files were managed.
    pub origin: String,
    /// The exit code of the program, as shells have it.
    pub exit_code: u8,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When it began, in seconds since 1970.
    pub started_unix_s: f64,
    /// How long it ran.
    pub seconds: f64,
    /// What was counted, by the names of [`RunCounter`].
    pub counters: BTreeMap<&'static str, u64>,
    /// Reads of the program, an open of a whole copy as one of them, less the requests that the origin got: those of readers, and
    /// those of the background that places files.
    pub origin_reads_saved: u64,
    /// What each tier held at the end.
    pub tiers: Vec<HeldTier>,
    /// What the user ought to know.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(crate) samples: CounterSamples,
}

/// What a tier held when a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeldTier {
    /// Its name.
    pub name: String,
    /// Bytes it held.
    pub used: u64,
    /// The most it may hold.
    pub quota: u64,
    /// Why it was not used, where it could not be opened.
    pub left_out: Option<String>,
}

impl LaunchSummary {
    pub(crate) fn note_end(&mut self, end: ProgramEnd) {
        self.exit_code = end.code();
        if let ProgramEnd::Killed(signal) = end {
            self.signal = Some(signal);
        }
    }

    pub(crate) fn note_counters(&mut self, counters: &RunCounters) {
        let counted = counters.snapshot();
        self.counters = counted.iter().map(|(counter, count)| (counter.name(), *count)).collect();
        let reads = self.get(RunCounter::Reads) + self.get(RunCounter::OpensOnCopy);
        self.origin_reads_saved = reads.saturating_sub(self.get(RunCounter::OriginReads));
        if self.opens() == 0 {
            self.notes.push(format!(
                "no open under {} was seen: the program reads nothing there, or bypasses the C library as static programs, Go and \
                 io_uring do; `forebay mount` reaches those",
                self.origin
            ));
        }
    }

    /// What a counter says.
    pub fn get(&self, counter: RunCounter) -> u64 {
        self.counters.get(counter.name()).copied().unwrap_or_default()
    }

    fn opens(&self) -> u64 {
        self.get(RunCounter::OpensManaged) + self.get(RunCounter::OpensLeft)
    }

    /// The summary for people, a sentence or two in each line.
    pub fn lines(&self) -> Vec<String> {
        let get = |counter| self.get(counter);
        let mut lines = Vec::new();
        if self.opens() > 0 {
            let left = match get(RunCounter::OpensLeft) {
                0 => String::new(),
                left => format!(", {} left to the origin", count(left)),
            };
            lines.push(format!(
                "{} under {}, {} of them on whole copies ({}){left}; {}, {}",
                counted(self.opens(), "open", "opens"),
                self.origin,
                count(get(RunCounter::OpensOnCopy)),
                bytes(get(RunCounter::CopyBytes)),
                counted(get(RunCounter::Processes), "process", "processes"),
                time_text(self.seconds)
            ));
            lines.push(format!(
                "reads: {} of {}; tiers: {} in {}; origin: {} in {}; {} saved; waited {}",
                count(get(RunCounter::Reads)),
                bytes(get(RunCounter::Bytes)),
                bytes(get(RunCounter::TierBytes)),
                count(get(RunCounter::TierReads)),
                bytes(get(RunCounter::OriginBytes)),
                count(get(RunCounter::OriginReads)),
                counted(self.origin_reads_saved, "origin read", "origin reads"),
                time_text(seconds(get(RunCounter::WaitNanoseconds)))
            ));
        }
        lines.extend(self.tiers.iter().map(HeldTier::line));
        if get(RunCounter::Fallbacks) > 0 {
            let calls = counted(get(RunCounter::Fallbacks), "call", "calls");
            lines.push(format!("{calls} left to the C library after a fault inside"));
        }
        lines.extend(self.notes.iter().cloned());
        lines
    }

    /// The summary as one line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("names are text, and numbers are finite")
    }

    /// The summary as one self-contained HTML page.
    pub fn html(&self) -> String {
        let badge = |note: &String| Badge { kind: BadgeKind::Warn, text: note.clone() };
        let page = Page {
            command: "forebay run".into(),
            title: self.program.clone(),
            started_unix_s: Some(self.started_unix_s),
            badges: self.notes.iter().map(badge).collect(),
            tiles: self.tiles(),
            cards: self.byte_plot().into_iter().collect(),
            tables: vec![self.tier_table(), self.counter_table()],
            ..Page::default()
        };
        page.html()
    }

    fn tiles(&self) -> Vec<Tile> {
        let get = |counter| self.get(counter);
        let ended = match self.signal {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("exit code {}", self.exit_code),
        };
        vec![
            tile("Program", time_text(self.seconds), ended),
            tile(
                "Opens on whole copies",
                count(get(RunCounter::OpensOnCopy)),
                format!("of {} under {}", count(self.opens()), self.origin),
            ),
            tile(
                "From tiers",
                bytes(get(RunCounter::TierBytes) + get(RunCounter::CopyBytes)),
                format!("{} read block-wise, the rest opened on copies", bytes(get(RunCounter::TierBytes))),
            ),
            tile(
                "From the origin",
                bytes(get(RunCounter::OriginBytes)),
                format!("in {}", counted(get(RunCounter::OriginReads), "read", "reads")),
            ),
            tile(
                "Origin reads saved",
                count(self.origin_reads_saved),
                "and all reads of whole copies but one each".into(),
            ),
            tile(
                "Waited for the origin",
                time_text(seconds(get(RunCounter::WaitNanoseconds))),
                "all readers together".into(),
            ),
        ]
    }

    /// Returns the bytes over time, if the run was long enough to be sampled twice.
    fn byte_plot(&self) -> Option<Card> {
        const MIB: f64 = 1_048_576.0;
        let named = [
            ("tiers, block-wise", RunCounter::TierBytes),
            ("origin", RunCounter::OriginBytes),
            ("placed on tiers", RunCounter::PlacedBytes),
            ("opened on copies", RunCounter::CopyBytes),
        ];
        let line = |(colour, (name, counter)): (usize, (&str, RunCounter))| Line {
            name: name.into(),
            colour,
            points: self.samples.line(counter, MIB),
            ..Line::default()
        };
        let lines: Vec<Line> = named.into_iter().enumerate().map(line).collect();
        lines.iter().any(|line| line.points.len() > 1).then(|| Card {
            heading: "Bytes over time".into(),
            why: "Sums since the start, over all processes of the run".into(),
            plot: Plot::Lines(LinePlot {
                x_label: "seconds".into(),
                y_label: "MiB".into(),
                lines,
                ..LinePlot::default()
            }),
        })
    }

    fn tier_table(&self) -> Table {
        let row = |tier: &HeldTier| {
            let note = tier.left_out.clone().unwrap_or_default();
            [tier.name.clone(), bytes(tier.used), bytes(tier.quota), note].map(Cell::from).to_vec()
        };
        Table {
            heading: "Tiers at the end".into(),
            columns: ["tier", "held", "quota", ""].map(str::to_owned).to_vec(),
            rows: self.tiers.iter().map(row).collect(),
            ..Table::default()
        }
    }

    fn counter_table(&self) -> Table {
        let row = |counter: &RunCounter| {
            [counter.name().replace('_', " "), count(self.get(*counter))].map(Cell::from).to_vec()
        };
        Table {
            heading: "All counters".into(),
            columns: ["counter", "count"].map(str::to_owned).to_vec(),
            rows: RunCounter::ALL.iter().map(row).collect(),
            ..Table::default()
        }
    }
}

impl HeldTier {
    fn line(&self) -> String {
        match &self.left_out {
            Some(why) => format!("tier {}: left out: {why}", self.name),
            None => format!("tier {}: {} of {} used", self.name, bytes(self.used), bytes(self.quota)),
        }
    }
}

fn tile(name: &str, value: String, more: String) -> Tile {
    Tile { name: name.into(), value, more }
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn bytes(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { bytes_text(bytes as f64) }
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn count(count: u64) -> String {
    if count < 1000 { count.to_string() } else { count_text(count as f64) }
}

/// So many of something.
fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use forebay_scratch::OwnFolder;

    use super::*;

    fn summary_of(counts: &[(RunCounter, u64)]) -> LaunchSummary {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFolder::create_in(folder.path(), "run").unwrap();
        let counters = RunCounters::create(own.path()).unwrap();
        counts.iter().for_each(|(counter, count)| counters.add(*counter, *count));
        let mut summary = LaunchSummary { origin: "/pfs/set".into(), ..LaunchSummary::default() };
        summary.note_counters(&counters);
        summary
    }

    #[test]
    fn what_was_read_from_where_is_told_in_lines() {
        let summary = summary_of(&[
            (RunCounter::Processes, 3),
            (RunCounter::OpensManaged, 1200),
            (RunCounter::OpensOnCopy, 200),
            (RunCounter::Reads, 60),
            (RunCounter::TierReads, 58),
            (RunCounter::OriginReads, 8),
            (RunCounter::OriginBytes, 1 << 20),
        ]);
        let text = summary.lines().join("\n");
        assert!(text.contains("1,200 opens under /pfs/set, 200 of them on whole copies"), "{text}");
        assert!(text.contains("origin: 1.00 MiB in 8; 252 origin reads saved; waited 0 s"), "{text}");
        let html = summary.html();
        for text in
            ["From the origin", "1.00 MiB", "in 8 reads", "of 1,200 under", "Tiers at the end", "tier reads"]
        {
            assert!(html.contains(text), "{text}");
        }
        assert!(!html.contains("Bytes over time"), "nothing was sampled");
        let json: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
        assert_eq!((&json["counters"]["tier_reads"], &json["origin_reads_saved"]), (&58.into(), &252.into()));
    }

    #[test]
    fn the_page_of_a_run_shows_its_bytes_over_time_and_what_to_take_care_of() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFolder::create_in(folder.path(), "run").unwrap();
        let counters = RunCounters::create(own.path()).unwrap();
        let mut summary = LaunchSummary { program: "python <train>.py".into(), ..LaunchSummary::default() };
        for _ in 0..2 {
            counters.add(RunCounter::OriginBytes, 1 << 20);
            summary.samples.add(&counters);
        }
        summary.notes.push("a & b".into());
        summary.tiers.push(HeldTier { name: "<disk>".into(), ..HeldTier::default() });
        let html = summary.html();
        for text in ["python &lt;train&gt;.py", "a &amp; b", "&lt;disk&gt;", "1970-01-01 00:00:00 UTC"] {
            assert!(html.contains(text), "{text}");
        }
        assert!(html.contains("Bytes over time"));
        for line in ["tiers, block-wise", "origin", "placed on tiers", "opened on copies"] {
            assert!(html.contains(&format!("</span>{line}</li>")), "{line} has no entry in the legend");
        }
    }

    #[test]
    fn first_reads_of_what_the_background_placed_are_not_saved() {
        let first = [(RunCounter::Reads, 8), (RunCounter::TierReads, 7), (RunCounter::OriginReads, 8)];
        assert_eq!(summary_of(&first).origin_reads_saved, 0);
        let placed_in_pieces = [(RunCounter::Reads, 1), (RunCounter::OriginReads, 3)];
        assert_eq!(summary_of(&placed_in_pieces).origin_reads_saved, 0);
    }

    #[test]
    fn opens_that_were_left_to_the_origin_are_opens_and_one_is_no_plural() {
        let of =
            |counter, count| summary_of(&[(RunCounter::Processes, 1), (counter, count)]).lines()[0].clone();
        let one = of(RunCounter::OpensLeft, 1);
        assert!(
            one.starts_with(
                "1 open under /pfs/set, 0 of them on whole copies (0 B), 1 left to the origin; 1 process,"
            ),
            "{one}"
        );
        let two = of(RunCounter::OpensManaged, 2);
        assert!(
            two.starts_with("2 opens under /pfs/set, 0 of them on whole copies (0 B); 1 process,"),
            "{two}"
        );
    }

    #[test]
    fn a_program_that_bypasses_the_c_library_is_told() {
        let unseen = summary_of(&[(RunCounter::Processes, 1)]);
        assert!(unseen.lines()[0].contains("no open under /pfs/set was seen"), "{:?}", unseen.lines());
    }
}
