//! Published measurements of runs and of queries alone, as two CSV files.
//!
//! Columns are found by their names, and others are passed over. A run's file has `run`, `workload`, `cluster_size`,
//! `arrival_s`, `template`, `latency_s` and `status` (`ok`, or the query did not finish and its latency is not looked
//! at); the other has `rpu`, `template` and `runtimes_s`, seconds with `|` between them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use punctual_core::time::{Span, Time};
use punctual_sim::calibration::{Cell, MeasuredQuery, MeasuredRun, TIMEOUT};
use punctual_sim::world::warehouse::Template;

/// Why measurements cannot be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// The file cannot be read as CSV.
    File(PathBuf, csv::Error),
    /// It has no such column.
    Column(PathBuf, &'static str),
    /// A line has something else there.
    Value { path: PathBuf, line: u64, column: &'static str, value: String },
    /// It holds no measurement.
    Empty(PathBuf),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::File(path, cause) => write!(f, "reading {}: {cause}", path.display()),
            Unread::Column(path, name) => write!(f, "{} has no column {name}", path.display()),
            Unread::Value { path, line, column, value } => {
                write!(f, "{}, line {line}: {column} is {value:?}, which makes no sense there", path.display())
            }
            Unread::Empty(path) => write!(f, "{} holds no measurement", path.display()),
        }
    }
}

/// The largest cluster, in units, that a measurement may be of.
const LARGEST: u32 = 4_096;

/// Whole runs, in the order in which they come in the file, their queries by arrival.
pub(super) fn runs(path: &Path) -> Result<Vec<MeasuredRun>, Unread> {
    let mut runs: Vec<MeasuredRun> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next()? {
        let run = line.text("run")?.to_owned();
        let place = match places.get(&run) {
            Some(place) => *place,
            None => {
                let workload = line.text("workload")?.to_owned();
                let size = line.size("cluster_size")?;
                places.insert(run.clone(), runs.len());
                runs.push(MeasuredRun { run, workload, size, queries: Vec::new() });
                runs.len() - 1
            }
        };
        let latency = match line.text("status")? {
            "ok" => line.seconds("latency_s")?.min(TIMEOUT.secs_f64()),
            _ => TIMEOUT.secs_f64(),
        };
        let arrival = Time::ZERO + Span::from_secs_f64(line.seconds("arrival_s")?);
        runs[place].queries.push(MeasuredQuery { arrival, template: line.template()?, latency });
    }
    for run in &mut runs {
        run.queries.sort_by_key(|query| query.arrival);
    }
    if runs.is_empty() { Err(Unread::Empty(path.to_owned())) } else { Ok(runs) }
}

/// Queries alone, by size and template.
pub(super) fn isolated(path: &Path) -> Result<Vec<Cell>, Unread> {
    let mut cells: BTreeMap<(u32, Template), Vec<f64>> = BTreeMap::new();
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next()? {
        let latencies = line.text("runtimes_s")?.split('|').map(|text| seconds(text).filter(|taken| *taken > 0.0));
        let latencies: Option<Vec<f64>> = latencies.collect();
        let latencies = latencies.ok_or_else(|| line.bad("runtimes_s"))?;
        cells.entry((line.size("rpu")?, line.template()?)).or_default().extend(latencies);
    }
    if cells.is_empty() {
        return Err(Unread::Empty(path.to_owned()));
    }
    Ok(cells.into_iter().map(|((size, template), latencies)| Cell { size, template, latencies }).collect())
}

fn seconds(text: &str) -> Option<f64> {
    // Longer than a year is no latency, and no arrival in a run.
    text.trim().parse().ok().filter(|value| (0.0..=366.0 * 86_400.0).contains(value))
}

struct Lines {
    path: PathBuf,
    reader: csv::Reader<File>,
    columns: HashMap<String, usize>,
    record: StringRecord,
}

struct Line<'a> {
    path: &'a Path,
    columns: &'a HashMap<String, usize>,
    record: &'a StringRecord,
}

impl Lines {
    fn open(path: &Path) -> Result<Lines, Unread> {
        let failed = |cause| Unread::File(path.to_owned(), cause);
        let mut reader = csv::Reader::from_path(path).map_err(failed)?;
        let names = reader.headers().map_err(failed)?;
        let columns = names.iter().enumerate().map(|(at, name)| (name.trim().to_owned(), at)).collect();
        Ok(Lines { path: path.to_owned(), reader, columns, record: StringRecord::new() })
    }

    fn next(&mut self) -> Result<Option<Line<'_>>, Unread> {
        let read = self.reader.read_record(&mut self.record).map_err(|cause| Unread::File(self.path.clone(), cause))?;
        Ok(read.then_some(Line { path: &self.path, columns: &self.columns, record: &self.record }))
    }
}

impl Line<'_> {
    fn text(&self, column: &'static str) -> Result<&str, Unread> {
        let at = self.columns.get(column).ok_or_else(|| Unread::Column(self.path.to_owned(), column))?;
        Ok(self.record.get(*at).unwrap_or_default().trim())
    }

    fn size(&self, column: &'static str) -> Result<u32, Unread> {
        let size: Option<u32> = self.text(column)?.parse().ok();
        size.filter(|size| (1..=LARGEST).contains(size)).ok_or_else(|| self.bad(column))
    }

    fn seconds(&self, column: &'static str) -> Result<f64, Unread> {
        seconds(self.text(column)?).ok_or_else(|| self.bad(column))
    }

    fn template(&self) -> Result<Template, Unread> {
        let number = self.text("template")?.parse().ok();
        number.and_then(Template::new).ok_or_else(|| self.bad("template"))
    }

    fn bad(&self, column: &'static str) -> Unread {
        let line = self.record.position().map_or(0, csv::Position::line);
        let value = self.text(column).unwrap_or_default().chars().take(40).collect();
        Unread::Value { path: self.path.to_owned(), line, column, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("measured.csv");
        std::fs::write(&path, text).expect("a file");
        (directory, path)
    }

    const HEADING: &str = "run,workload,cluster_size,query,arrival_s,template,latency_s,status\n";

    #[test]
    fn a_query_that_did_not_finish_counts_as_an_hour() {
        let text = format!("{HEADING}a,w,4,0,2.5,7,9,ok\na,w,4,1,1.5,8,3601.2,timeout\nb,w,8,0,0,9,4000,ok\n");
        let (_directory, path) = file(&text);
        let read = runs(&path).expect("two runs");
        let seen: Vec<_> = read.iter().map(|run| (run.run.as_str(), run.size, run.queries.len())).collect();
        assert_eq!(seen, [("a", 4, 2), ("b", 8, 1)]);
        let latencies: Vec<f64> = read[0].queries.iter().map(|query| query.latency).collect();
        assert_eq!((latencies, read[1].queries[0].latency), (vec![3600.0, 9.0], 3600.0));
    }

    #[test]
    fn executions_of_one_template_at_one_size_are_taken_together() {
        let (_directory, path) = file("rpu,template,query_index,runtimes_s\n4,15,2,6.5|8\n4,15,1,7\n8,15,1,3\n");
        let read = isolated(&path).expect("two cells");
        let latencies: Vec<_> = read.iter().map(|cell| (cell.size, cell.latencies.clone())).collect();
        assert_eq!(latencies, [(4, vec![6.5, 8.0, 7.0]), (8, vec![3.0])]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        let refused = |text: &str| {
            let (_directory, path) = file(text);
            let why = runs(&path).expect_err("nonsense").to_string();
            why.replace(&path.display().to_string(), "FILE")
        };
        assert_eq!(refused(HEADING), "FILE holds no measurement");
        assert_eq!(refused("run,workload\na,w\n"), "FILE has no column cluster_size");
        let line = |line: &str| refused(&format!("{HEADING}{line}\n"));
        assert_eq!(line("a,w,0,0,1,7,9,ok"), "FILE, line 2: cluster_size is \"0\", which makes no sense there");
        assert_eq!(line("a,w,4,0,-1,7,9,ok"), "FILE, line 2: arrival_s is \"-1\", which makes no sense there");
        assert_eq!(line("a,w,4,0,1,100,9,ok"), "FILE, line 2: template is \"100\", which makes no sense there");
        assert_eq!(line("a,w,4,0,1,7,NaN,ok"), "FILE, line 2: latency_s is \"NaN\", which makes no sense there");
    }
}
